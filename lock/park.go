package lock

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// patience is how long a goroutine is passed over before it is handed the lock:
// as long as with sync.Mutex.
const patience = time.Millisecond

// A waiter is a goroutine that sleeps, or is about to. The first waiter for a
// mutex also holds the queue of those behind it.
type waiter struct {
	// word is the mutex that it waits for. Being a pointer it keeps mutexes off
	// stacks, so that addresses neither change nor come to mean something else
	// while somebody waits.
	word  *uint32
	since time.Duration // when it came, by now

	// Guarded by the place.
	next    *waiter // behind it, for the same mutex
	last    *waiter // of the first: the end of its queue, itself if it is alone
	sibling *waiter // of the first: the first for another mutex, in the same chain

	// Written by who takes it from the place, read by itself when awake.
	given  bool // it has the lock
	others bool // there are more sleepers for the same mutex

	// gate is locked for writing except between being woken and getting up.
	//
	// The other candidates: a sync.Mutex spins before it sleeps, which is wasted,
	// as what is spun on is not the lock. At 200 goroutines with sections of 1 µs
	// it took 20 to 50 % more CPU and got up to a quarter less done. A channel
	// made in a bubble of testing/synctest may not be used outside of it, so it
	// could not be kept; nor would waiting get into the mutex profile.
	gate sync.RWMutex
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
func (w *waiter) sleep() {
	w.gate.RLock()
	//lint:ignore SA2001 that it was to be had is all there is to it
	w.gate.RUnlock()
	w.gate.Lock()
}

func (w *waiter) wake() { w.gate.Unlock() }

func (w *waiter) late(now time.Duration) bool { return now-w.since > patience }

// epoch is where now counts from.
var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }

// A place is where the waiters of some mutexes queue up. Its lock is held for
// the length of an operation on the table, and no other lock is taken within it.
type place struct {
	mu sync.Mutex
	table
	_ [128 - unsafe.Sizeof(sync.Mutex{}) - unsafe.Sizeof(table{})]byte // to itself, also for processors that fetch lines in pairs
}

// places are found by address. They take 32 kB, of which the operating system
// provides the pages that are touched.
var places [256]place

// hash spreads neighbours, which are what the elements of a slice are. Its first
// byte says which place, the bits below which chain of the table there.
func hash(word *uint32) uint64 {
	return uint64(uintptr(unsafe.Pointer(word))>>2) * 0x9E3779B97F4A7C15
}

func placeOf(word *uint32) *place { return &places[hash(word)>>56] }

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
	w, others := p.pop(word)
	if w != nil {
		w.others = others
	}
	return w
}

// give is take for a mutex that is owed, which it gives to the waiter, or frees
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

// A table has a queue for each mutex that is waited for: a chained hash table of
// their first waiters. What an operation takes depends neither on how many wait
// nor on for how many mutexes. It grows with the number of mutexes, and keeps its
// size: eight bytes for each of the most that were waited for at a time.
type table struct {
	chains []*waiter // none, or a power of two of them
	queues int
}

// slot returns where the first waiter for the mutex is, or would be, linked in.
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

// pop removes and returns the first waiter for the mutex, nil if there is none,
// and reports whether there are others.
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
