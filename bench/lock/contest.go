package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A measurement is what workers got done with a lock.
type measurement struct {
	acquisitions float64
	wall, cpu    time.Duration
	jain         float64 // 1 if all got the same, 1/n if one of n got everything
}

// perSecond returns millions of acquisitions per second.
func (m measurement) perSecond() float64 { return m.acquisitions / 1e6 / m.wall.Seconds() }

// cost returns nanoseconds of CPU per acquisition.
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

// contest has workers count under a lock. What they counted together must be what
// each of them did: otherwise the lock does not work.
func contest(l sync.Locker, workers int, threads bool, length time.Duration) (measurement, error) {
	var (
		// Three lines of the cache: who stops must not disturb who counts.
		stop    atomic.Bool
		_       [128]byte
		counter int64
		_       [128]byte
		wg      sync.WaitGroup
		ready   sync.WaitGroup
		start   = make(chan struct{})
		counts  = make([]int64, workers)
	)
	ready.Add(workers)
	for i := range workers {
		wg.Go(func() {
			if threads {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			ready.Done()
			<-start
			n := int64(0)
			for done := false; !done; done = stop.Load() { // once at least, however short it is
				l.Lock()
				counter++
				l.Unlock()
				n++
			}
			counts[i] = n
		})
	}
	ready.Wait()
	cpu, begin := used(), time.Now()
	timer := time.AfterFunc(length, func() { stop.Store(true) })
	close(start)
	wg.Wait()
	m := measurement{acquisitions: float64(counter), wall: time.Since(begin), cpu: used() - cpu, jain: jain(counts)}
	timer.Stop()
	var sum int64
	for _, c := range counts {
		sum += c
	}
	if sum != counter {
		return m, fmt.Errorf("%d workers counted to %d in %d acquisitions", workers, counter, sum)
	}
	return m, nil
}

// goSubject returns the subject for a lock written in Go.
func goSubject(name string, bytes int, make func() sync.Locker) subject {
	return subject{name: name, bytes: bytes, measure: func(_ context.Context, workers int, threads bool, length time.Duration) (measurement, error) {
		return contest(make(), workers, threads, length)
	}}
}
