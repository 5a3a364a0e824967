package lock_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/lock"
)

var _ sync.Locker = (*lock.Mutex)(nil)

func TestTryLock(t *testing.T) {
	var m lock.Mutex
	if !m.TryLock() {
		t.Fatal("got no free lock, want it")
	}
	if m.TryLock() {
		t.Fatal("got a lock that is taken, want none")
	}
	m.Unlock()
	if !m.TryLock() {
		t.Fatal("got no lock after unlocking, want it")
	}
	m.Unlock()
}

func TestUnlockOfUnlocked(t *testing.T) {
	var m lock.Mutex
	f := func() (got any) {
		defer func() { got = recover() }()
		m.Unlock()
		return nil
	}
	const want = "lock: unlock of unlocked mutex"
	if got := f(); got != want {
		t.Errorf("got panic %v, want %q", got, want)
	}
	if !m.TryLock() {
		t.Fatal("got no lock, want it as it was")
	}
	m.Unlock()
	if got := f(); got != want {
		t.Errorf("got panic %v, want %q", got, want)
	}
}

// TestHammer counts under the lock, with more goroutines than processors.
func TestHammer(t *testing.T) {
	const loops = 20_000
	f := func(procs, workers int) {
		t.Helper()
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		var m lock.Mutex
		var inside, plain, tried int
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range workers {
			wg.Go(func() {
				<-start
				for n := range loops / workers {
					if (n+i)%7 == 0 {
						if !m.TryLock() {
							m.Lock()
						} else {
							tried++
						}
					} else {
						m.Lock()
					}
					inside++
					if inside != 1 {
						t.Errorf("got %d goroutines inside, want 1", inside)
					}
					plain++
					if n%64 == 0 {
						runtime.Gosched() // with the lock
					}
					inside--
					m.Unlock()
				}
			})
		}
		close(start)
		wg.Wait()
		if want := loops / workers * workers; plain != want {
			t.Errorf("%d workers on %d processors: got a count of %d, want %d", workers, procs, plain, want)
		}
	}
	for _, procs := range []int{1, 2, 4, runtime.NumCPU()} {
		for _, workers := range []int{1, 2, 4, 30, 200} {
			f(procs, workers)
		}
	}
}

// TestLostWakeUps looks for goroutines that are not woken. It uses three mutexes that
// are hardly ever free, many more in the same places, random pauses, and a watchdog.
func TestLostWakeUps(t *testing.T) {
	const length = 2 * time.Second
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const workers = 24
	var (
		mutexes [2000]lock.Mutex
		counts  [2000]int
		total   atomic.Int64
		stop    atomic.Bool
		wg      sync.WaitGroup
	)
	for i := range workers {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for !stop.Load() {
				k := random.IntN(3)
				if random.IntN(8) == 0 {
					k = random.IntN(len(mutexes))
				}
				mutexes[k].Lock()
				counts[k]++
				pause(random)
				mutexes[k].Unlock()
				pause(random)
				total.Add(1)
			}
		})
	}
	finished := make(chan struct{})
	var ender sync.WaitGroup
	ender.Go(func() {
		wg.Wait()
		close(finished)
	})
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	begin, last, moved := time.Now(), int64(0), time.Now()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
			if time.Since(begin) > length {
				stop.Store(true)
			}
			runtime.GOMAXPROCS(1 + n%4)
		case <-finished:
			ender.Wait()
			got := int64(0)
			for _, c := range counts {
				got += int64(c)
			}
			if got != total.Load() {
				t.Errorf("got a count of %d, want %d", got, total.Load())
			}
			return
		}
		if now := total.Load(); now != last {
			last, moved = now, time.Now()
		} else if time.Since(moved) > 20*time.Second {
			buf := make([]byte, 1<<20)
			t.Fatalf("no goroutine has made progress since %v, after %d acquisitions:\n%s", moved, last, buf[:runtime.Stack(buf, true)])
		}
	}
}

// TestManyWaiters tests a goroutine waiting for each of many mutexes, a few for each of
// neighbouring ones, and finally all for one.
func TestManyWaiters(t *testing.T) {
	const n = 20_000
	mutexes := make([]lock.Mutex, n)
	counts := make([]int, n)
	var one lock.Mutex
	all := 0
	one.Lock()
	for i := range mutexes {
		mutexes[i].Lock()
	}
	var wg sync.WaitGroup
	for i := range n + n/10 {
		wg.Go(func() {
			k := i % n
			mutexes[k].Lock()
			counts[k]++
			mutexes[k].Unlock()
			one.Lock()
			all++
			one.Unlock()
		})
	}
	for range 100 {
		runtime.Gosched() // they fall asleep
	}
	for i := range mutexes {
		mutexes[i].Unlock()
	}
	one.Unlock()
	wg.Wait()
	if all != n+n/10 {
		t.Errorf("got %d goroutines through, want %d", all, n+n/10)
	}
	for k, c := range counts {
		want := 1
		if k < n/10 {
			want = 2
		}
		if c != want {
			t.Fatalf("got %d acquisitions of mutex %d, want %d", c, k, want)
		}
	}
}

// pause mostly does nothing, sometimes yields, and sometimes sleeps.
func pause(random *rand.Rand) {
	switch n := random.IntN(1000); {
	case n < 100:
		runtime.Gosched()
	case n == 100:
		<-time.After(time.Duration(random.IntN(200)) * time.Microsecond)
	case n < 110:
		for range random.IntN(20_000) {
		}
	}
}

// TestStarvation shows that a goroutine gets a lock that another one locks again as soon
// as it has unlocked it.
func TestStarvation(t *testing.T) {
	for _, procs := range []int{1, 2} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			var m lock.Mutex
			var stop atomic.Bool
			var wg sync.WaitGroup
			started := make(chan struct{})
			wg.Go(func() {
				m.Lock()
				close(started)
				for !stop.Load() {
					for begin := time.Now(); time.Since(begin) < 100*time.Microsecond; {
					}
					m.Unlock()
					m.Lock()
				}
				m.Unlock()
			})
			<-started
			got := make(chan time.Duration, 20)
			wg.Go(func() {
				defer close(got)
				for range cap(got) {
					begin := time.Now()
					m.Lock()
					got <- time.Since(begin)
					m.Unlock()
				}
			})
			begin := time.Now()
			var longest time.Duration
			for wait := range got {
				longest = max(longest, wait)
			}
			stop.Store(true)
			wg.Wait()
			t.Logf("%d processors: %d acquisitions in %v, longest wait %v", procs, cap(got), time.Since(begin), longest)
			if longest > 5*time.Second { // 1 ms, with a margin for a loaded machine
				t.Errorf("%d processors: got a wait of %v, want milliseconds", procs, longest)
			}
		}()
	}
}

// TestGrowingStack waits for a mutex in a local struct while its owner's stack
// is moved.
func TestGrowingStack(t *testing.T) {
	type box struct {
		mu lock.Mutex
		n  int
	}
	var grow func(depth int, f func()) byte
	grow = func(depth int, f func()) byte {
		var frame [1024]byte
		if depth == 0 {
			f()
			return frame[0]
		}
		frame[depth%len(frame)] = grow(depth-1, f)
		return frame[0]
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var b box
			for depth := 1; depth <= 1024; depth *= 4 {
				b.mu.Lock()
				var others sync.WaitGroup
				for range 3 {
					others.Go(func() {
						b.mu.Lock()
						b.n++
						b.mu.Unlock()
					})
				}
				grow(depth, func() {
					runtime.GC() // stacks shrink here
					b.mu.Unlock()
				})
				others.Wait()
			}
			if b.n != 3*6 {
				t.Errorf("got a count of %d, want 18", b.n)
			}
		})
	}
	wg.Wait()
}

// TestBubbles uses one mutex in bubbles of testing/synctest and outside of them, with
// sleepers: all of them share the pool of waiters.
func TestBubbles(t *testing.T) {
	use := func(*testing.T) {
		var m lock.Mutex
		n := 0
		m.Lock()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				m.Lock()
				n++
				m.Unlock()
			})
		}
		for range 100 {
			runtime.Gosched() // they fall asleep
		}
		m.Unlock()
		wg.Wait()
		if n != 4 {
			t.Errorf("got a count of %d, want 4", n)
		}
	}
	synctest.Test(t, use)
	use(t)
	synctest.Test(t, use)
}

// contend lets one goroutine wait for another.
//
//go:noinline
func contend(ctx context.Context, m *lock.Mutex) {
	m.Lock()
	var wg sync.WaitGroup
	wg.Go(func() { waitForIt(m) })
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
	letGo(m)
	wg.Wait()
}

//go:noinline
func waitForIt(m *lock.Mutex) {
	m.Lock()
	defer m.Unlock()
}

//go:noinline
func letGo(m *lock.Mutex) { m.Unlock() }

// TestProfiles looks for the waiter in the block profile, and for the holder in the
// mutex profile.
func TestProfiles(t *testing.T) {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	var m lock.Mutex
	for range 5 {
		contend(t.Context(), &m)
	}
	f := func(profile, want string) {
		t.Helper()
		var b bytes.Buffer
		if err := pprof.Lookup(profile).WriteTo(&b, 1); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("got a %s profile without %s, want it there:\n%s", profile, want, b.String())
		}
	}
	f("block", "lock_test.waitForIt")
	f("block", "lock.(*Mutex).lockSlow")
	f("mutex", "lock_test.letGo")
	f("mutex", "lock.(*Mutex).unlockSlow")
}
