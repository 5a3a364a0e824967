// Package lock provides a mutual exclusion lock of four bytes, half a
// sync.Mutex, for values of which there are millions.
//
// Reading order: [Mutex]; state.go, the four states and the steps between them;
// park.go, where goroutines wait. A Mutex is only a word: its waiters are kept in
// tables that all mutexes of the program share, found by the address of the word.
//
// # What to expect
//
// Without contention it is as fast as sync.Mutex. If goroutines contend for sections
// of less than some 0.1 µs, its throughput is up to twice as high, because a goroutine
// that finds the lock taken yields a few times before it sleeps. Otherwise the
// throughput is the same within 5 %: `make bench-lock FULL=1` compares the two in 240
// combinations of processors, goroutines and lengths, and under other conditions.
// Waking takes the same time however many goroutines wait, for this mutex or for
// others.
//
// Like sync.Mutex, it gives a free lock to the goroutine that comes first, and hands
// it over to a goroutine that has waited for a millisecond. Unlike sync.Mutex, it does
// not hand over twice in a row: between two hand-overs any goroutine can take the
// lock. So with many waiters, a wait can be longer.
//
// It is worse than sync.Mutex for:
//
//   - Sections of a microsecond with nothing between them, for which 30 to 200
//     goroutines contend: 0.84 to 0.95 of the throughput of sync.Mutex on two
//     processors, and 5 to 15 % more CPU. The goroutines mostly sleep, and putting one
//     to sleep costs this package more than the runtime.
//   - Many waiters for many locks: with 100,000 goroutines that wait for as many
//     locks, each unlock takes 2.0 µs until its waiter has run, against 1.5.
//   - Contention while other goroutines compute: a goroutine that yields runs again
//     after each of them has had 10 ms. A goroutine that lost n milliseconds stops all
//     from yielding for n times as long, at most 64 times. So the loss in the long run
//     is one or two per cent.
//   - Memory: some 80 bytes per waiter, which are reused, and 8 bytes for each mutex
//     with waiters, at the highest number so far, which are never freed.
//
// Use it where the four bytes count: in a struct that gets into a smaller size class,
// or in the elements of a large slice. If a single lock is the bottleneck, its size is
// not the problem: try to do without the lock.
//
// # Profiles
//
// A goroutine sleeps within [Mutex.Lock] on a sync.RWMutex of its own. So waiting
// appears where it does for sync.Mutex: in the block profile under the caller of Lock,
// in the mutex profile under the caller of Unlock, and in the execution trace, with
// the functions lockSlow and unlockSlow. Yielding appears in the CPU profile only. In
// a bubble of testing/synctest, waiting for a Mutex is not durable, as with
// sync.Mutex.
//
// # Invariants
//
//   - If a goroutine sleeps for a mutex, then the mutex is contended or owed, or another
//     goroutine will take care of it: one that has been woken, or one that is about to
//     wake another.
//   - An unlock wakes at most one goroutine, and none if no goroutine waited.
//
// The tests check them for all interleavings of three goroutines. The package imports
// the standard library only, and works on every platform of Go.
package lock

import (
	"runtime"
	"sync/atomic"
	"time"
)

// yields is how often a locker yields before it sleeps, unless its patience ends
// first.
//
// A switch between goroutines costs some 100 ns and no system call, and the holder of
// the lock is mostly among those that run next. Millions of acquisitions per second at
// 4 and at 30 goroutines on two processors were 33 and 32 without yields, 48 and 43
// with one, 43 and 48 with four, and 47 and 47 with sixteen; sync.Mutex had 32 and 22.
// Four was the best compromise. Spinning before the yields was worse: 37 and 40.
//
// With GOMAXPROCS=1 the number does not matter for throughput. But the goroutine that
// runs next may hold the lock for its whole time slice: against such a one, a goroutine
// waited for 103 ms on average. With a look at the clock after each yield it is 20 ms,
// two time slices, as with sync.Mutex.
const yields = 4

// A Mutex is a mutual exclusion lock of four bytes. Its zero value is unlocked. It must
// not be copied after use. It is for goroutines of one process; package futex has a
// lock for memory that processes share.
//
// As with sync.Mutex, an Unlock happens before the Lock that follows it, a goroutine
// may unlock what another has locked, and one that locks a Mutex twice waits for ever.
type Mutex struct {
	_     noCopy
	state uint32 // see state.go
}

// A noCopy makes `go vet` report copies of what contains it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Lock locks m. If the lock is taken, it blocks until it is not.
func (m *Mutex) Lock() {
	if atomic.CompareAndSwapUint32(&m.state, free, held) {
		return
	}
	m.lockSlow() // apart, so that the rest is inlined
}

// TryLock locks m if it is free, and reports whether it did. It neither waits nor
// yields.
func (m *Mutex) TryLock() bool {
	return atomic.LoadUint32(&m.state) == free && atomic.CompareAndSwapUint32(&m.state, free, held)
}

// Unlock unlocks m. If m is not locked, it panics and does not change m. Unlike the
// fatal error of a sync.Mutex, the panic can be recovered.
func (m *Mutex) Unlock() {
	if atomic.CompareAndSwapUint32(&m.state, held, free) {
		return
	}
	m.unlockSlow()
}

func (m *Mutex) lockSlow() {
	begin := now()
	got, late := m.yield(begin)
	if got {
		return
	}
	t := ticket{late: late}
	var w *waiter
	for {
		old := atomic.LoadUint32(&m.state)
		if next := entering(old, t); next != old && !atomic.CompareAndSwapUint32(&m.state, old, next) {
			continue
		}
		if old == free {
			break
		}
		again := w != nil
		if !again {
			w = newWaiter(&m.state, begin)
		}
		if !placeOf(&m.state).add(w, again) {
			continue // it was unlocked in between
		}
		w.sleep()
		if w.given {
			break
		}
		t = ticket{others: w.others, late: w.late(now())}
	}
	if w != nil {
		w.release()
	}
}

// yield yields until it has the lock or should sleep. It reports whether it got the
// lock, and otherwise whether its patience ended.
func (m *Mutex) yield(begin time.Duration) (got, late bool) {
	if atomic.LoadUint32(&m.state) == owed || int64(begin) < noYield.until.Load() {
		return false, false
	}
	last := begin
	for range yields {
		runtime.Gosched()
		end := now() // before the lock is taken: it costs as much as a short section
		if cost := end - last; cost > patience {
			noYield.until.Store(int64(end + min(cost/patience, 64)*cost))
		}
		if m.TryLock() {
			return true, false
		}
		if end-begin > patience {
			return false, true
		}
		last = end
	}
	return false, false
}

// noYield says until when no goroutine yields, in the time of now.
//
// A yield is cheap if the other goroutines wait for locks too, but each one that
// computes runs for 10 ms. So a goroutine that waited n milliseconds for the processor
// forbids yielding for n times as long, at most 64 times. Before that, four goroutines
// with sections of 1 µs next to 30 that compute had 0.7 of the throughput of
// sync.Mutex. It applies to all mutexes, because the cost of a yield depends on the
// other goroutines.
var noYield struct {
	_     [64]byte
	until atomic.Int64
	_     [56]byte
}

func (m *Mutex) unlockSlow() {
	for {
		old := atomic.LoadUint32(&m.state)
		next, do := leaving(old)
		switch do {
		case refuse:
			panic("lock: unlock of unlocked mutex")
		case handOver:
			// No other goroutine changes the state now: lockers do not while it
			// is owed, and only the holder unlocks.
			if w := placeOf(&m.state).give(&m.state); w != nil {
				w.wake()
				// The new holder runs on this processor next. It should run
				// now, not when this goroutine is done: a lock whose holder
				// does not run halved the throughput of 30 goroutines with
				// 10 µs in the lock and 50 µs outside (11,000/s, not
				// 20,000/s).
				runtime.Gosched()
			}
			return
		}
		if !atomic.CompareAndSwapUint32(&m.state, old, next) {
			continue
		}
		if do == wakeOne {
			if w := placeOf(&m.state).take(&m.state); w != nil {
				w.wake()
			}
		}
		return
	}
}
