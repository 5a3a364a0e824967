// Package lock provides a mutual exclusion lock of four bytes, half a
// sync.Mutex, for values of which there are millions.
//
// Reading order: [Mutex]; state.go, the four states and every step between them;
// park.go, where goroutines wait. A Mutex is only a word: those who wait for it
// are kept in tables that all mutexes of the program share, found by the address
// of the word.
//
// # What to expect
//
// It is as fast as sync.Mutex when nobody else wants the lock. Where goroutines
// contend for sections of less than some 0.1 µs, they get up to twice as much
// done, because a goroutine that finds the lock taken gives up its turn a few
// times before it goes to sleep. Elsewhere it gets as much done, within 5 %:
// `make bench-lock FULL=1` compares the two in 240 combinations of processors,
// goroutines and lengths, and under other conditions. Waking takes the same time
// however many goroutines wait, for this mutex or for others.
//
// Like sync.Mutex, it lets whoever comes first have a free lock, and hands it to
// a goroutine that has been passed over for a millisecond. Unlike sync.Mutex it
// does so one goroutine at a time, and between two such hand-overs the lock is
// there for the first to come. So where many wait, a wait can be longer.
//
// Where it loses:
//
//   - Sections of a microsecond with nothing between them, for which 30 to 200
//     goroutines contend: 0.84 to 0.95 of what sync.Mutex gets done on two
//     processors, and 5 to 15 % more CPU. They mostly sleep there, and putting a
//     goroutine to sleep costs this package more than it does the runtime.
//   - Many that wait for locks of their own: with 100,000 goroutines waiting for as
//     many, 2.0 µs for each unlock, until its waiter has run, against 1.5.
//   - The first time beside goroutines that compute: a turn that is given up comes
//     back when each of them has had 10 ms. Whoever lost n milliseconds like that
//     bans it for all for n times as long, at most 64 times. So what is lost in the
//     long run is one or two per cent.
//   - Memory per waiter: some 80 bytes, which are kept for the next, and 8 bytes
//     for each of the most mutexes that were waited for at a time, for good.
//
// Use it where the four bytes count: a struct that gets into a smaller size
// class, or the elements of a large slice. Where a single lock is the bottleneck,
// its size is not the problem, and the better answer is to have no lock there.
//
// # Seeing who waits
//
// A goroutine sleeps within [Mutex.Lock] on a sync.RWMutex of its own. So waiting
// shows up where Go shows it for sync.Mutex: in the block profile under the
// caller of Lock, in the mutex profile under the caller of Unlock, and in the
// execution trace; look for the functions named lockSlow and unlockSlow. The
// turns given up before that are in none of these, but in the CPU profile.
// In a bubble of testing/synctest, waiting for a Mutex is not durable, as with
// sync.Mutex.
//
// # Invariants
//
//   - If a goroutine sleeps for a mutex, then the mutex is contended or owed, or
//     somebody is on the way who will see to it: a goroutine that has been woken,
//     or one that is about to wake somebody.
//   - An unlock wakes one goroutine at most, and none if nobody waited.
//
// The tests go through all interleavings of three goroutines to show them. The
// package imports nothing of the project, and works on every platform of Go.
package lock

import (
	"runtime"
	"sync/atomic"
	"time"
)

// yields is how often a locker gives up its turn before it sleeps, unless it
// loses patience first.
//
// A switch between goroutines costs some 100 ns and no system call, and the
// holder is most often one of those who get the turn: millions of acquisitions
// per second at 4 and at 30 goroutines on two processors were 33 and 32 without
// yields, 48 and 43 with one, 43 and 48 with four, and 47 and 47 with sixteen;
// sync.Mutex had 32 and 22. Four was the most even-handed. Spinning in front of
// the yields made things worse: 37 and 40.
//
// With GOMAXPROCS=1 the number makes no difference to that, but each turn may go
// to somebody who takes the lock for all of his: against such a one, a goroutine
// waited for 103 ms on average. Since it looks at the clock after each turn, it is
// 20 ms, which is two turns, and what sync.Mutex takes.
const yields = 4

// A Mutex is a mutual exclusion lock of four bytes. Its zero value is unlocked.
// It must not be copied once it has been used, and is for goroutines of one
// process; package futex has locks for memory that processes share.
//
// As with sync.Mutex, an Unlock happens before the Lock that follows it, a
// locked Mutex belongs to no goroutine in particular, and a goroutine that locks
// it twice waits for ever.
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

// TryLock locks m if it is free at this moment, and reports whether it did. It
// neither waits nor gives up its turn.
func (m *Mutex) TryLock() bool {
	return atomic.LoadUint32(&m.state) == free && atomic.CompareAndSwapUint32(&m.state, free, held)
}

// Unlock unlocks m. It panics if m is not locked, and leaves m as it is, which
// unlike the fatal error of a sync.Mutex can be recovered from.
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

// yield gives up turns until it has the lock or had better sleep, and reports
// whether it got the lock, and otherwise whether it lost patience.
func (m *Mutex) yield(begin time.Duration) (got, late bool) {
	if atomic.LoadUint32(&m.state) == owed || int64(begin) < hurry.until.Load() {
		return false, false
	}
	last := begin
	for range yields {
		runtime.Gosched()
		end := now() // before the lock is taken: it costs as much as a short section
		if cost := end - last; cost > patience {
			hurry.until.Store(int64(end + min(cost/patience, 64)*cost))
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

// hurry says until when, by now, nobody gives up a turn.
//
// A turn is cheap if the others who have one wait for locks too, but beside
// goroutines that compute it is gone for 10 ms for each of them. So a goroutine
// that did not get its turn back for n milliseconds bans this for n times as long,
// and 64 times at most: beside 30 others that compute, four goroutines with
// sections of 1 µs got 0.7 of what sync.Mutex did before that. The ban is for all
// mutexes, since what a turn costs depends on who else runs.
var hurry struct {
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
			// Nobody else changes the state now: lockers leave it alone while
			// it is owed, and only the holder unlocks.
			if w := placeOf(&m.state).give(&m.state); w != nil {
				w.wake()
				// The new holder runs on this processor next. It should do so
				// now, not when this goroutine has no more to do: otherwise
				// the lock would be held by somebody who does not run, which
				// halved what 30 goroutines with 10 µs in the lock and 50 µs
				// outside got done (11,000/s, not 20,000/s).
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
