package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// A measurement is what workers got done with a lock.
type measurement struct {
	acquisitions float64
	wall, cpu    time.Duration
	jain         float64 // 1 if all got the same, 1/n if one of n got everything
}

// perSecond returns millions of acquisitions per second.
func (m measurement) perSecond() float64 { return m.acquisitions / 1e6 / m.wall.Seconds() }

func (m measurement) cost() float64 { return float64(m.cpu) / m.acquisitions }

// jain returns the fairness index of Jain, Chiu and Hawe.
func jain(counts []int64) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(counts)) * squares)
}

// A setting is what workers do with a lock.
type setting struct {
	workers         int
	threads         bool          // each worker is a thread of its own
	inside, outside int           // steps of work with the lock, and between unlocking and locking
	rest            time.Duration // how long holders sleep, with the lock
	computing       int           // goroutines that only compute
	collecting      bool          // a goroutine that collects garbage all the time
}

// contest has workers count under a lock. If the count is not the sum of what
// each of them counted, the lock does not work.
func contest(l sync.Locker, s setting, length time.Duration) (measurement, error) {
	var (
		// Three cache lines, so that stopping does not disturb counting.
		stop    atomic.Bool
		_       [128]byte
		counter int64
		_       [128]byte
		wg      sync.WaitGroup
		ready   sync.WaitGroup
		start   = make(chan struct{})
		counts  = make([]int64, s.workers)
	)
	ready.Add(s.workers)
	for i := range s.workers {
		wg.Go(func() {
			if s.threads {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			ready.Done()
			<-start
			n, x := int64(0), uint64(1)
			for done := false; !done; done = stop.Load() { // at least once
				l.Lock()
				counter++
				if s.inside > 0 {
					x = work(s.inside, x)
				}
				if s.rest > 0 {
					<-time.After(s.rest)
				}
				l.Unlock()
				n++
				if s.outside > 0 {
					x = work(s.outside, x)
				}
			}
			counts[i] = n
		})
	}
	ready.Wait()
	disturb(&wg, s, start, &stop)
	cpu, begin := program.CPUTime(), time.Now()
	timer := time.AfterFunc(length, func() { stop.Store(true) })
	close(start)
	wg.Wait()
	wall, used := time.Since(begin), program.CPUTime()-cpu
	timer.Stop()
	m, err := judged(counter, counts)
	m.wall, m.cpu = wall, used
	return m, err
}

// judged compares the counter with what each worker counted.
func judged(counter int64, counts []int64) (measurement, error) {
	var sum int64
	for _, c := range counts {
		sum += c
	}
	if sum != counter {
		return measurement{}, fmt.Errorf("%d workers counted to %d in %d acquisitions", len(counts), counter, sum)
	}
	return measurement{acquisitions: float64(counter), jain: jain(counts)}, nil
}

// disturb starts the goroutines that are not workers.
func disturb(wg *sync.WaitGroup, s setting, start <-chan struct{}, stop *atomic.Bool) {
	for range s.computing {
		wg.Go(func() {
			<-start
			for x := uint64(1); !stop.Load(); {
				x = work(1000, x)
			}
		})
	}
	if s.collecting {
		wg.Go(func() {
			<-start
			for !stop.Load() {
				runtime.GC()
			}
		})
	}
}

// work makes steps of a random number generator, which all take the same time and
// touch no memory. x must not be 0.
//
//go:noinline
func work(steps int, x uint64) uint64 {
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// stepsPerMicrosecond returns the speed of work, the best of many tries.
func stepsPerMicrosecond() float64 {
	const steps = 50_000
	best, x := time.Duration(math.MaxInt64), uint64(1)
	for range 100 {
		begin := time.Now()
		x = work(steps, x)
		best = min(best, max(1, time.Since(begin)))
	}
	return steps / (float64(best) / float64(time.Microsecond))
}

func goSubject(name string, bytes int, make func() sync.Locker) subject {
	return subject{name: name, bytes: bytes, measure: func(_ context.Context, workers int, threads bool, length time.Duration) (measurement, error) {
		return contest(make(), setting{workers: workers, threads: threads}, length)
	}}
}
