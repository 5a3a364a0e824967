package lock

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// patience is how long a goroutine waits before it asks for a hand-over: as long as
// with sync.Mutex.
const patience = time.Millisecond

// A waiter is a goroutine that sleeps, or is about to. The first waiter for a
// mutex also holds the queue of the waiters behind it.
type waiter struct {
	// word is the mutex for which it waits. The pointer keeps mutexes off stacks, so
	// that the address neither changes nor is reused while a goroutine waits.
	word  *uint32
	since time.Duration // when the wait began, in the time of now

	// Guarded by the lock of the place.
	next    *waiter // behind it, for the same mutex
	last    *waiter // of the first: the end of its queue, itself if it is alone
	sibling *waiter // of the first: the first for another mutex, in the same chain

	// Written by the goroutine that removes it from the place, read when awake.
	given  bool // it has the lock
	others bool // there are more sleepers for the same mutex

	// gate is locked for writing, except between wake and the end of sleep.
	//
	// The alternatives: a sync.Mutex spins before it sleeps, in vain, because what it
	// spins on is not the lock. At 200 goroutines with sections of 1 µs it took 20 to
	// 50 % more CPU and had up to a quarter less throughput. A channel made in a bubble
	// of testing/synctest cannot be used outside of it, so it could not be reused, and
	// waiting would not be in the mutex profile.
	gate sync.RWMutex
}

// waiters keeps unused waiters, so that waiting does not allocate.
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

// sleep returns after wake has been called, which may be before sleep.
func (w *waiter) sleep() {
	w.gate.RLock()
	//lint:ignore SA2001 it only waits until the lock is free
	w.gate.RUnlock()
	w.gate.Lock()
}

func (w *waiter) wake() { w.gate.Unlock() }

func (w *waiter) late(now time.Duration) bool { return now-w.since > patience }

// epoch is the zero of now.
var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }

// A place has the queues of some mutexes. Its lock is held during an operation on the
// table, and no other lock is taken meanwhile.
type place struct {
	mu sync.Mutex
	table
	_ [128 - unsafe.Sizeof(sync.Mutex{}) - unsafe.Sizeof(table{})]byte // no false sharing, also on processors that fetch cache lines in pairs
}

// places are found by the address of a mutex. They take 32 kB of address space.
var places [256]place

// hash spreads neighbouring addresses, as of the elements of a slice. Its
// first byte selects the place, the bits below the chain in the table there.
func hash(word *uint32) uint64 {
	return uint64(uintptr(unsafe.Pointer(word))>>2) * 0x9E3779B97F4A7C15
}

func placeOf(word *uint32) *place { return &places[hash(word)>>56] }

// add appends a waiter to the queue, or puts it to the front if it was there before. It
// returns false and does nothing if no goroutine is certain to wake the waiter.
func (p *place) add(w *waiter, again bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// An unlocker changes the state and then takes from this place: if the state is
	// not changed yet, it will find the waiter.
	if !mayAdd(atomic.LoadUint32(w.word)) {
		return false
	}
	w.given, w.others = false, false
	p.push(w, again)
	return true
}

// take removes and returns the first waiter for the mutex, or nil.
func (p *place) take(word *uint32) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, others := p.pop(word)
	if w != nil {
		w.others = others
	}
	return w
}

// give is take for a mutex that is owed. It hands the mutex to the waiter, or frees it
// if there is none.
func (p *place) give(word *uint32) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, others := p.pop(word)
	if w != nil {
		w.given = true
	}
	atomic.StoreUint32(word, handing(w != nil, others))
	return w
}

// A table has a queue for each mutex with waiters: a chained hash table of the first
// waiters. The cost of an operation depends neither on the number of waiters nor on
// the number of mutexes. It grows with the number of mutexes and does not shrink: it
// has eight bytes for each at the highest number so far.
type table struct {
	chains []*waiter // none, or a power of two of them
	queues int
}

// slot returns the link to the first waiter for the mutex, or the link for a new one.
func (t *table) slot(word *uint32) **waiter {
	at := &t.chains[int(hash(word)>>24&0xffffffff)&(len(t.chains)-1)]
	for *at != nil && (*at).word != word {
		at = &(*at).sibling
	}
	return at
}

func (t *table) push(w *waiter, front bool) {
	if t.queues >= len(t.chains) {
		t.grow()
	}
	at := t.slot(w.word)
	first := *at
	switch {
	case first == nil:
		w.next, w.last, w.sibling = nil, w, nil
		*at = w
		t.queues++
	case front:
		w.next, w.last, w.sibling = first, first.last, first.sibling
		*at = w
	default:
		w.next = nil
		first.last.next = w
		first.last = w
	}
}

// pop removes and returns the first waiter for the mutex, or nil, and reports whether
// there are others.
func (t *table) pop(word *uint32) (w *waiter, others bool) {
	if t.queues == 0 {
		return nil, false
	}
	at := t.slot(word)
	w = *at
	switch {
	case w == nil:
		return nil, false
	case w.next == nil:
		*at = w.sibling
		t.queues--
	default:
		w.next.last, w.next.sibling = w.last, w.sibling
		*at = w.next
		others = true
	}
	w.next, w.last, w.sibling = nil, nil, nil
	return w, others
}

// grow makes room for more queues, so that chains stay short.
func (t *table) grow() {
	old := t.chains
	t.chains = make([]*waiter, max(4, 2*len(old)))
	for _, w := range old {
		for w != nil {
			next := w.sibling
			at := t.slot(w.word)
			w.sibling = nil
			*at = w
			w = next
		}
	}
}
