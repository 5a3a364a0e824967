package lock_test

import (
	_ "embed" // for the source in C
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lock"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A measurement is what workers got done with a lock.
type measurement struct {
	acquisitions int64
	wall, cpu    time.Duration
	jain         float64 // 1 if all got the same, 1/n if one of n got everything
}

func (m measurement) perSecond() float64 { return float64(m.acquisitions) / m.wall.Seconds() }

// report sets the figures of a benchmark.
func (m measurement) report(b *testing.B) {
	b.ReportMetric(m.perSecond()/1e6, "M/s")
	b.ReportMetric(m.jain, "jain")
	b.ReportMetric(float64(m.cpu)/float64(m.acquisitions), "cpu-ns/op")
}

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

// contest lets workers acquire a lock n times in all, and count. If the count is not the
// sum of what each of them counted, the lock does not work. The time is that until the
// last of the n.
func contest(l sync.Locker, s setting, n int64) (measurement, error) {
	var (
		stop    atomic.Bool
		_       [128]byte // counting is on cache lines of its own
		counter int64
		_       [128]byte
		workers sync.WaitGroup
		others  sync.WaitGroup
		ready   sync.WaitGroup
		start   = make(chan struct{})
		counts  = make([]int64, s.workers)
		end     time.Time // under the lock, as the next
		endCPU  time.Duration
	)
	ready.Add(s.workers)
	for i := range s.workers {
		workers.Go(func() {
			if s.threads {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			ready.Done()
			<-start
			own, x := int64(0), uint64(1)
			for {
				l.Lock()
				if counter >= n {
					l.Unlock()
					break
				}
				if counter++; counter == n {
					end, endCPU = time.Now(), program.CPUTime()
				}
				if s.inside > 0 {
					x = work(s.inside, x)
				}
				if s.rest > 0 {
					<-time.After(s.rest)
				}
				l.Unlock()
				own++
				if s.outside > 0 {
					x = work(s.outside, x)
				}
			}
			counts[i] = own
		})
	}
	ready.Wait()
	for range s.computing {
		others.Go(func() {
			<-start
			for x := uint64(1); !stop.Load(); {
				x = work(1000, x)
			}
		})
	}
	if s.collecting {
		others.Go(func() {
			<-start
			for !stop.Load() {
				runtime.GC()
			}
		})
	}
	cpu, begin := program.CPUTime(), time.Now()
	close(start)
	workers.Wait()
	m, err := judged(counter, counts)
	m.wall, m.cpu = end.Sub(begin), endCPU-cpu
	stop.Store(true)
	others.Wait()
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
	return measurement{acquisitions: counter, jain: jain(counts)}, nil
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

// stepsIn returns how many steps of work a time takes: the most of many tries.
func stepsIn(d time.Duration) int {
	const steps = 50_000
	best, x := time.Duration(math.MaxInt64), uint64(1)
	for range 100 {
		begin := time.Now()
		x = work(steps, x)
		best = min(best, max(1, time.Since(begin)))
	}
	return int(steps * float64(d) / float64(best))
}

// A subject is a lock that is measured.
type subject struct {
	name    string
	bytes   int
	threads bool // knows nothing of goroutines
	contest func(s setting, n int64) (measurement, error)
}

// padded keeps other data out of the cache line of a lock.
type padded[T any] struct {
	_ [64]byte
	l T
	_ [64]byte
}

func ours() sync.Locker   { return &new(padded[lock.Mutex]).l }
func theirs() sync.Locker { return &new(padded[sync.Mutex]).l }

func goLock(name string, bytes int, make func() sync.Locker) subject {
	return subject{name: name, bytes: bytes, contest: func(s setting, n int64) (measurement, error) { return contest(make(), s, n) }}
}

// of returns the lock of a type that needs no constructor.
func of[T any, L interface {
	*T
	sync.Locker
}](name string) subject {
	var zero T
	return goLock(name, int(unsafe.Sizeof(zero)), func() sync.Locker { return L(&new(padded[T]).l) })
}

func goLocks() []subject {
	all := append([]subject{of[sync.Mutex]("sync.Mutex"), of[lock.Mutex]("lock.Mutex")}, futexLocks()...)
	return append(all, goLock("channel of 1", channelBytes(), func() sync.Locker { return make(channel, 1) }))
}

// A channel is locked while it is full.
type channel chan struct{}

func (c channel) Lock()   { c <- struct{}{} }
func (c channel) Unlock() { <-c }

// channelBytes returns the size of a channel: of the pointer, and of what it points
// to, which is measured.
func channelBytes() int {
	const n = 4096
	all := make([]channel, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range all {
		all[i] = make(channel, 1)
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(all)
	return int(unsafe.Sizeof(all[0])) + int((after.TotalAlloc-before.TotalAlloc)/n)
}

// source is the program that counts under locks of C.
//
//go:embed c/lock.c
var source []byte

// cLocks returns the locks of C, having compiled them. The error says why there are none.
func cLocks(tb testing.TB) ([]subject, error) {
	dir := tb.TempDir()
	file, path := filepath.Join(dir, "lock.c"), filepath.Join(dir, "locks")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(tb.Context(), "cc", "-O2", "-pthread", "-o", path, file).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var all []subject
	for _, l := range []struct{ name, kind string }{{"pthread_mutex in C", "pthread"}, {"three states in C", "three"}} {
		run := func(s setting, n int64) (bytes int, m measurement, err error) {
			out, err := exec.CommandContext(tb.Context(), path, l.kind, strconv.Itoa(s.workers), strconv.FormatInt(n, 10)).Output()
			if err != nil {
				return 0, m, fmt.Errorf("%s: %w", l.name, err)
			}
			var got struct {
				Bytes     int
				Wall, CPU float64 // seconds
				Counter   int64
				Counts    []int64
			}
			if err := json.Unmarshal(out, &got); err != nil {
				return 0, m, fmt.Errorf("%w: %.200q", err, out)
			}
			m, err = judged(got.Counter, got.Counts)
			m.wall, m.cpu = time.Duration(got.Wall*float64(time.Second)), time.Duration(got.CPU*float64(time.Second))
			return got.Bytes, m, err
		}
		bytes, _, err := run(setting{workers: 1}, 1)
		if err != nil {
			return nil, err
		}
		all = append(all, subject{name: l.name, bytes: bytes, threads: true, contest: func(s setting, n int64) (measurement, error) {
			_, m, err := run(s, n)
			return m, err
		}})
	}
	return all, nil
}

// BenchmarkLock is each lock, used by goroutines, and by threads of their own.
func BenchmarkLock(b *testing.B) {
	all := goLocks()
	if native, err := cLocks(b); err != nil {
		b.Log("without locks in C: ", err)
	} else {
		all = append(all, native...)
	}
	for _, threads := range []bool{false, true} {
		for _, workers := range []int{1, 4, 30} {
			for _, l := range all {
				if l.threads && !threads {
					continue
				}
				b.Run(fmt.Sprintf("%s=%d/%s", map[bool]string{false: "goroutines", true: "threads"}[threads], workers, l.name), func(b *testing.B) {
					m, err := l.contest(setting{workers: workers, threads: threads}, int64(b.N))
					if err != nil {
						b.Fatal(err)
					}
					m.report(b)
					b.ReportMetric(float64(l.bytes), "bytes")
				})
			}
		}
	}
}

// turns is how often lock.Mutex and sync.Mutex are measured, one right after the other.
const turns = 10

// compare measures the two in turns, which take turns in who is first, and reports the median
// of the ratios of their speeds.
func compare(b *testing.B, n int64, measure func(make func() sync.Locker, n int64) (measurement, error)) float64 {
	var ratios, rates []float64
	for turn := range turns {
		var rate [2]float64 // ours, theirs
		for i := range rate {
			side := (i + turn) % 2
			m, err := measure([]func() sync.Locker{ours, theirs}[side], n)
			if err != nil {
				b.Fatal(err)
			}
			rate[side] = m.perSecond()
		}
		ratios, rates = append(ratios, rate[0]/rate[1]), append(rates, rate[0])
	}
	ratio := program.Median(ratios)
	b.ReportMetric(ratio, "÷sync.Mutex")
	b.ReportMetric(program.Median(rates)/1e6, "M/s")
	return ratio
}

// contested returns a measurement for compare.
func contested(s setting) func(func() sync.Locker, int64) (measurement, error) {
	return func(make func() sync.Locker, n int64) (measurement, error) { return contest(make(), s, n) }
}

// BenchmarkMatrix compares lock.Mutex with sync.Mutex in 240 combinations. Cells of one
// goroutine, where both do the same, show the noise.
func BenchmarkMatrix(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	µs := stepsIn(time.Microsecond)
	ratios := make(map[string]float64)
	for _, procs := range []int{1, 2, 4} {
		for _, workers := range []int{1, 2, 4, 30, 200} {
			for _, inside := range []float64{0, 0.1, 1, 10} {
				for _, outside := range []float64{0, 0.1, 1, 10} {
					name := fmt.Sprintf("procs=%d/goroutines=%d/inside=%gµs/between=%gµs", procs, workers, inside, outside)
					b.Run(name, func(b *testing.B) {
						runtime.GOMAXPROCS(procs)
						ratios[name] = compare(b, int64(max(1, b.N/turns)), contested(setting{workers: workers, inside: int(inside * float64(µs)), outside: int(outside * float64(µs))}))
					})
				}
			}
		}
	}
	b.Run("all", func(b *testing.B) {
		logs, enough := 0.0, 0.0
		for _, ratio := range ratios {
			logs += math.Log(ratio)
			if ratio >= 0.95 {
				enough++
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(math.Exp(logs/float64(max(1, len(ratios)))), "geomean")
		b.ReportMetric(float64(len(ratios)), "cells")
		b.ReportMetric(enough, "cells≥0.95")
	})
}

// BenchmarkScenario compares the two under conditions that the matrix does not have, on two
// processors. The number of acquisitions is given, since making the conditions takes long.
func BenchmarkScenario(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	µs := stepsIn(time.Microsecond)
	for _, s := range []struct {
		name    string
		n       int64
		measure func(func() sync.Locker, int64) (measurement, error)
	}{
		{"100,000 goroutines wait for as many locks", 100_000, unlockMany},
		{"4 goroutines, 1 µs, next to 20,000 that wait for 1,000 other locks", 200_000, amid(20_000, setting{workers: 4, inside: µs})},
		{"4 goroutines, 1 µs, next to 30 that compute", 5_000, contested(setting{workers: 4, inside: µs, computing: 30})},
		{"4 goroutines, 1 µs and 1 µs between, next to 30 that compute", 5_000, contested(setting{workers: 4, inside: µs, outside: µs, computing: 30})},
		{"30 goroutines, 1 µs, garbage collected all the time", 100_000, contested(setting{workers: 30, inside: µs, collecting: true})},
		{"30 goroutines, holders sleep for 20 µs", 1_000, contested(setting{workers: 30, rest: 20 * time.Microsecond})},
	} {
		b.Run(s.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			compare(b, s.n, s.measure)
		})
	}
}

// unlockMany measures how fast as many locks are unlocked as there are goroutines that
// wait, one for each.
func unlockMany(make func() sync.Locker, n int64) (measurement, error) {
	w := newWaiting(int(n), int(n), make)
	begin := time.Now()
	w.release()
	return measurement{acquisitions: n, wall: time.Since(begin)}, nil
}

// amid returns a contest next to goroutines that wait for other locks.
func amid(waiters int, s setting) func(func() sync.Locker, int64) (measurement, error) {
	return func(make func() sync.Locker, n int64) (measurement, error) {
		w := newWaiting(waiters, 1000, make)
		defer w.release()
		return contest(make(), s, n)
	}
}

// waiting are goroutines that wait for locks.
type waiting struct {
	locks []sync.Locker
	wg    sync.WaitGroup
}

// newWaiting returns goroutines that sleep, all but those that had no turn for 50 ms
// after the last of them came. They must be released.
func newWaiting(n, locks int, make func() sync.Locker) *waiting {
	w := new(waiting)
	for range locks {
		l := make()
		l.Lock()
		w.locks = append(w.locks, l)
	}
	var came sync.WaitGroup
	came.Add(n)
	for i := range n {
		w.wg.Go(func() {
			l := w.locks[i%locks]
			came.Done()
			l.Lock()
			defer l.Unlock()
		})
	}
	came.Wait()
	<-time.After(50 * time.Millisecond)
	return w
}

// release unlocks all locks, and returns when each waiter has had its own.
func (w *waiting) release() {
	for _, l := range w.locks {
		l.Unlock()
	}
	w.wg.Wait()
}

func TestJain(t *testing.T) {
	f := func(want float64, counts ...int64) {
		t.Helper()
		if got := jain(counts); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: got %v, want %v", counts, got, want)
		}
	}
	f(1, 5)
	f(1, 3, 3, 3)
	f(0.25, 8, 0, 0, 0)
	f(0.9, 1, 2)
	f(0, 0, 0)
}

type none struct{}

func (none) Lock()   {}
func (none) Unlock() {}

// TestContestFindsBrokenLocks checks that a lock that does not lock is noticed.
func TestContestFindsBrokenLocks(t *testing.T) {
	if invariant.Race {
		return // it would be noticed
	}
	for range 100 {
		if _, err := contest(none{}, setting{workers: 8, threads: true}, 1_000_000); err != nil {
			return
		}
	}
	t.Error("got no error in 100 contests, want one")
}

// TestLocks checks that all locks work, and that the locks in C count as the others do.
func TestLocks(t *testing.T) {
	all := goLocks()
	native, err := cLocks(t)
	if err != nil && !errors.Is(err, exec.ErrNotFound) {
		t.Fatal(err)
	}
	for _, l := range append(all, native...) {
		if l.bytes < 4 || l.bytes > 256 {
			t.Errorf("%s: got %d bytes, want 4 to 256", l.name, l.bytes)
		}
		for _, threads := range []bool{false, true} {
			m, err := l.contest(setting{workers: 4, threads: threads, computing: 1}, 5000)
			if err != nil || m.acquisitions != 5000 || m.jain < 0.24 || m.wall <= 0 {
				t.Errorf("%s: got %+v, %v, want 5000 acquisitions", l.name, m, err)
			}
		}
	}
}

// TestWaiting checks that waiters get what they wait for when it is released.
func TestWaiting(t *testing.T) {
	for _, make := range []func() sync.Locker{ours, theirs} {
		m, err := unlockMany(make, 100)
		if err != nil || m.acquisitions != 100 {
			t.Errorf("got %+v, %v, want 100 acquisitions", m, err)
		}
		if m, err = amid(100, setting{workers: 2})(make, 50); err != nil || m.acquisitions != 50 {
			t.Errorf("got %+v, %v, want 50 acquisitions", m, err)
		}
	}
}
