package lock

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// patience is how long a goroutine is passed over before it is handed the lock:
// as long as sync.Mutex takes.
const patience = time.Millisecond

// A waiter is a goroutine that sleeps, or is about to.
type waiter struct {
	// word is the mutex that it waits for. Being a pointer it keeps mutexes off
	// stacks, so that addresses neither change nor come to mean something else
	// while somebody waits.
	word  *uint32
	since time.Duration // when it came, by now
	next  *waiter       // guarded by the place

	// Written by who takes it from the place, read by itself when awake.
	given  bool // it has the lock
	others bool // there are more sleepers for the same mutex

	// gate is locked except between being woken and getting up. A channel would
	// do, but one that was made within a bubble of testing/synctest may not be
	// used outside of it, so they could not be kept; nor would waiting get into
	// the mutex profile.
	gate sync.Mutex
}

// waiters keeps those that are not in use, so that waiting allocates nothing.
var waiters = sync.Pool{New: func() any {
	w := new(waiter)
	w.gate.Lock()
	return w
}}

func newWaiter(word *uint32, since time.Duration) *waiter {
	w := waiters.Get().(*waiter)
	w.word, w.since = word, since
	return w
}

func (w *waiter) release() {
	w.word = nil
	waiters.Put(w)
}

// sleep returns when wake has been called, whichever comes first.
func (w *waiter) sleep() { w.gate.Lock() }
func (w *waiter) wake()  { w.gate.Unlock() }

func (w *waiter) late(now time.Duration) bool { return now-w.since > patience }

// epoch is where now counts from.
var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }

// A place is where the waiters of some mutexes queue up. Its lock is held for
// the length of a list operation, and no other lock is taken within it.
type place struct {
	mu sync.Mutex
	queue
	_ [128 - unsafe.Sizeof(sync.Mutex{}) - unsafe.Sizeof(queue{})]byte // to itself, also for processors that fetch lines in pairs
}

// places are found by address. They take 32 kB, of which the operating system
// provides the pages that are touched.
var places [256]place

// placeOf returns the place for a mutex. The multiplier spreads neighbours, which
// are what the elements of a slice are.
func placeOf(word *uint32) *place {
	return &places[uint32(uintptr(unsafe.Pointer(word))>>2)*0x9E3779B1>>24]
}

// add puts a waiter to the end, or to the front if it was there before. It does
// not if nobody would be sure to wake it, and then returns false.
func (p *place) add(w *waiter, again bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// An unlocker changes the state and then takes from this place: what is seen
	// here, it has not changed yet, and will not miss the waiter.
	if !mayAdd(atomic.LoadUint32(w.word)) {
		return false
	}
	w.given, w.others = false, false
	p.push(w, again)
	return true
}

// take removes and returns the first who waits for the mutex, nil if nobody does.
func (p *place) take(word *uint32) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, next := p.pop(word)
	if w != nil {
		w.others = next != nil
	}
	return w
}

// give is take for a mutex that is owed, which it gives to the waiter, or frees
// if there is none.
func (p *place) give(word *uint32) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, next := p.pop(word)
	if w != nil {
		w.given = true
	}
	atomic.StoreUint32(word, handing(w != nil, next != nil, next != nil && next.late(now())))
	return w
}

// A queue is a list of the waiters of several mutexes.
type queue struct{ first, last *waiter }

func (q *queue) push(w *waiter, front bool) {
	switch {
	case q.first == nil:
		w.next = nil
		q.first, q.last = w, w
	case front:
		w.next = q.first
		q.first = w
	default:
		w.next = nil
		q.last.next = w
		q.last = w
	}
}

// pop removes and returns the first waiter for the mutex, and returns the one
// that is then the first, which stays. Both are nil if there is none.
func (q *queue) pop(word *uint32) (w, next *waiter) {
	var before *waiter
	for w = q.first; w != nil && w.word != word; w = w.next {
		before = w
	}
	if w == nil {
		return nil, nil
	}
	if before == nil {
		q.first = w.next
	} else {
		before.next = w.next
	}
	if q.last == w {
		q.last = before
	}
	for next = w.next; next != nil && next.word != word; next = next.next {
	}
	w.next = nil
	return w, next
}
