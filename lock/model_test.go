package lock

import (
	"errors"
	"fmt"
	"testing"
)

// The model splits the algorithm into atomic steps, each with at most one access to
// shared memory. The steps call the functions of state.go for the state and the real
// table for the queue, so these are tested; mutex_internal_test.go compares the rest
// with the real mutex.

const (
	threads    = 3
	iterations = 2
)

// A pc is the next step of a thread.
type pc uint8

const (
	lockFast pc = iota // and the tries between yields; a try that fails is not a step
	lockLoad
	lockSwap
	addPlace
	addCompare
	addPush
	sleeping
	unlockFast // has the lock until then
	unlockLoad
	unlockSwap
	takePlace
	takePop
	givePlace
	givePop
	wakeUp
	done
)

// holding reports whether a thread at a step has the lock.
func (p pc) holding() bool {
	switch p {
	case unlockFast, unlockLoad, unlockSwap, givePlace, givePop:
		return true
	}
	return false
}

type thread struct {
	at     pc
	left   int8 // iterations, with the current one
	old    uint32
	ticket ticket
	slept  bool
	given  bool // written by others while it sleeps
	others bool // written by others too
	wakes  int8 // the thread that it has to wake
}

// A world is the state of the model. It is comparable, to recognize states seen before.
type world struct {
	threads [threads]thread
	word    uint32
	owner   int8          // of the place, -1: none
	order   [threads]int8 // the queue
	queued  int8
	open    [threads]bool // the gates
}

func start() world {
	w := world{owner: -1}
	for i := range w.threads {
		w.threads[i] = thread{left: iterations, wakes: -1}
	}
	return w
}

// A flaw is a mistake to put into the model.
type flaw uint8

const (
	noFlaw       flaw = iota
	noCompare         // a thread sleeps without checking the state again
	forgetOthers      // a woken thread takes the lock as if no other slept
	handAsHeld        // a thread that gets a hand-over does not learn of the others
	handAndFree       // a lock that is handed over is free as well
	wakeNone          // an unlocker forgets its duty
)

// sorted returns the world with its threads in an order that depends only on their
// state, because threads are interchangeable.
func (w world) sorted() world {
	places := [threads]int8{0, 1, 2} // thread at each position
	for i := 1; i < threads; i++ {
		for k := i; k > 0 && w.key(places[k]) < w.key(places[k-1]); k-- {
			places[k], places[k-1] = places[k-1], places[k]
		}
	}
	var at [threads]int8 // position of each thread
	n := w
	for place, i := range places {
		at[i] = int8(place)
		n.threads[place], n.open[place] = w.threads[i], w.open[i]
	}
	for i := range n.threads {
		if to := &n.threads[i].wakes; *to >= 0 {
			*to = at[*to]
		}
	}
	if w.owner >= 0 {
		n.owner = at[w.owner]
	}
	for i, q := range w.order[:w.queued] {
		n.order[i] = at[q]
	}
	return n
}

// key has the state of a thread except wakes.
func (w *world) key(i int8) uint64 {
	t := w.threads[i]
	k := uint64(t.at)<<16 | uint64(t.left)<<8 | uint64(t.old)
	for _, b := range []bool{t.ticket.others, t.ticket.late, t.slept, t.given, t.others, w.open[i], t.wakes >= 0} {
		k <<= 1
		if b {
			k |= 1
		}
	}
	return k
}

// withQueue calls f with the real queue.
func (w *world) withQueue(f func(*table, *[threads]waiter, *uint32)) {
	var chains [4]*waiter // enough, so that nothing is allocated
	var nodes [threads]waiter
	var word uint32
	t := table{chains: chains[:]}
	for i := range nodes {
		nodes[i].word = &word
	}
	for _, i := range w.order[:w.queued] {
		t.push(&nodes[i], false)
	}
	f(&t, &nodes, &word)
	w.order, w.queued = [threads]int8{}, 0
	for n := *t.slot(&word); n != nil; n = n.next {
		w.order[w.queued] = index(&nodes, n)
		w.queued++
	}
}

func index(nodes *[threads]waiter, n *waiter) int8 {
	for i := range nodes {
		if n == &nodes[i] {
			return int8(i)
		}
	}
	return -1
}

// swap is a compare-and-swap of the state.
func (w *world) swap(old, next uint32) bool {
	if w.word != old {
		return false
	}
	w.word = next
	return true
}

// step returns the worlds after the next step of thread i: none if it is blocked, two
// if the result depends on time.
func (w world) step(i int, f flaw) ([]world, error) {
	t := &w.threads[i]
	switch t.at {
	case lockFast:
		if w.swap(free, held) {
			t.at = unlockFast
			break
		}
		t.at = lockLoad
		late := w // it may have waited too long
		late.threads[i].ticket.late = true
		return []world{w, late}, nil
	case lockLoad:
		t.old, t.at = w.word, lockSwap
	case lockSwap:
		next := entering(t.old, t.ticket)
		switch {
		case next != t.old && !w.swap(t.old, next):
			t.at = lockLoad
		case t.old == free:
			t.at = unlockFast
		default:
			t.at = addPlace
		}
	case addPlace, takePlace, givePlace:
		if w.owner >= 0 {
			return nil, nil
		}
		w.owner = int8(i)
		t.at++
	case addCompare:
		if f != noCompare && !mayAdd(w.word) {
			w.owner, t.at = -1, lockLoad
			break
		}
		t.at = addPush
	case addPush:
		t.given, t.others = false, false
		w.withQueue(func(q *table, nodes *[threads]waiter, _ *uint32) { q.push(&nodes[i], t.slept) })
		t.slept = true
		w.owner, t.at = -1, sleeping
	case sleeping:
		return w.wake(i, f), nil
	case unlockFast:
		if w.swap(held, free) {
			w.next(i)
			break
		}
		t.at = unlockLoad
	case unlockLoad:
		t.old, t.at = w.word, unlockSwap
	case unlockSwap:
		next, do := leaving(t.old)
		switch {
		case do == refuse:
			return nil, fmt.Errorf("thread %d unlocks a mutex that is not locked", i)
		case do == handOver:
			t.at = givePlace
		case !w.swap(t.old, next):
			t.at = unlockLoad
		case do == wakeOne && f != wakeNone:
			t.at = takePlace
		default:
			w.next(i)
		}
	case takePop, givePop:
		return w.pop(i, f), nil
	case wakeUp:
		if w.open[t.wakes] {
			return nil, fmt.Errorf("thread %d is woken twice", t.wakes)
		}
		w.open[t.wakes] = true
		w.next(i)
	case done:
		return nil, nil
	}
	return []world{w}, nil
}

// wake is the step of a sleeper that has or has not waited too long.
func (w world) wake(i int, f flaw) []world {
	if !w.open[i] {
		return nil
	}
	w.open[i] = false
	t := &w.threads[i]
	if t.given {
		t.at = unlockFast
		return []world{w}
	}
	t.at = lockLoad
	late := t.ticket.late
	t.ticket = ticket{others: t.others && f != forgetOthers, late: true}
	if late {
		return []world{w} // it stays so
	}
	early := w
	early.threads[i].ticket.late = false
	return []world{w, early}
}

// pop is the step of an unlocker that has locked the place.
func (w world) pop(i int, f flaw) []world {
	t := &w.threads[i]
	give := t.at == givePop
	found, others := int8(-1), false
	w.withQueue(func(q *table, nodes *[threads]waiter, word *uint32) {
		var n *waiter
		n, others = q.pop(word)
		found = index(nodes, n)
	})
	w.owner = -1
	if found < 0 {
		w.next(i)
	} else {
		t.at, t.wakes = wakeUp, found
	}
	if !give {
		if found >= 0 {
			w.threads[found].others = others
		}
		return []world{w}
	}
	if found >= 0 {
		w.threads[found].given = true
	}
	w.word = handing(found >= 0, others)
	switch {
	case f == handAsHeld && found >= 0:
		w.word = held
	case f == handAndFree:
		w.word = free
	}
	return []world{w}
}

// next ends an iteration.
func (w *world) next(i int) {
	left := w.threads[i].left - 1
	w.threads[i] = thread{left: left, wakes: -1}
	if left == 0 {
		w.threads[i].at = done
	}
}

// check checks the invariants that hold between any two steps.
func (w world) check() error {
	holders, finished := 0, 0
	for _, t := range w.threads {
		if t.at.holding() {
			holders++
		}
		if t.at == done {
			finished++
		}
	}
	// A thread that got a hand-over and still sleeps holds the lock too.
	for i, t := range w.threads {
		if t.at == sleeping && t.given && !w.isQueued(int8(i)) {
			holders++
		}
	}
	switch {
	case holders > 1:
		return errExclusion
	case holders == 1 && w.word == free:
		return errFree
	case finished == threads && (w.word != free || w.queued != 0 || w.owner != -1):
		return errRest
	case !w.cared():
		return errLost
	}
	return nil
}

func (w world) isQueued(i int8) bool {
	for _, q := range w.order[:w.queued] {
		if q == i {
			return true
		}
	}
	return false
}

// cared reports whether a thread will take care of the sleepers, if there are any: see
// the invariants in the package comment.
func (w world) cared() bool {
	if w.queued == 0 || mayAdd(w.word) {
		return true
	}
	for i, t := range w.threads {
		switch {
		case t.at == takePlace, t.at == takePop, t.at == wakeUp:
			return true // it is about to wake another
		case w.open[i] && t.at == sleeping:
			return true // it has been woken
		case t.slept && t.at >= lockLoad && t.at < sleeping:
			return true // it has been woken and is awake
		}
	}
	return false
}

var (
	errExclusion = errors.New("two threads have the lock")
	errFree      = errors.New("a thread has a lock that is free")
	errRest      = errors.New("all are done, and something is left")
	errLost      = errors.New("no thread will wake the sleepers")
	errDeadlock  = errors.New("no thread can take a step, and not all are done")
	errEndless   = errors.New("steps lead back to where they began")
)

// An explorer walks through all interleavings.
type explorer struct {
	flaw  flaw
	blind bool              // it ignores errLost, to see what follows
	seen  map[world]float64 // number of continuations
}

// exploring stands for a number that is being computed.
const exploring = -1

// explore returns the number of continuations of a world.
func (e *explorer) explore(w world) (float64, error) {
	w = w.sorted()
	if ways, ok := e.seen[w]; ok {
		if ways == exploring {
			return 0, errEndless
		}
		return ways, nil
	}
	if err := w.check(); err != nil && (!e.blind || !errors.Is(err, errLost)) {
		return 0, err
	}
	e.seen[w] = exploring
	ways, stuck, finished := 0.0, true, true
	for i := range w.threads {
		finished = finished && w.threads[i].at == done
		next, err := w.step(i, e.flaw)
		if err != nil {
			return 0, err
		}
		for _, n := range next {
			stuck = false
			more, err := e.explore(n)
			if err != nil {
				return 0, err
			}
			ways += more
		}
	}
	switch {
	case finished:
		ways = 1
	case stuck:
		return 0, errDeadlock
	}
	e.seen[w] = ways
	return ways, nil
}

// TestInterleavings tests all interleavings of three goroutines that lock and unlock a
// mutex twice.
func TestInterleavings(t *testing.T) {
	e := explorer{seen: make(map[world]float64)}
	ways, err := e.explore(start())
	if err != nil {
		t.Fatalf("got %v, want none of it in any interleaving", err)
	}
	t.Logf("%d worlds, %.3g interleavings", len(e.seen), ways)
	if ways < 1e12 {
		t.Errorf("got %g interleavings, want more than 1e12: does the model do anything?", ways)
	}
	reached := make(map[pc]bool)
	for w := range e.seen {
		for _, th := range w.threads {
			reached[th.at] = true
		}
	}
	for p := lockFast; p <= done; p++ {
		if !reached[p] {
			t.Errorf("got no world with a thread at step %d, want every step taken", p)
		}
	}
}

// TestInterleavingsFindFlaws shows that the model can fail.
func TestInterleavingsFindFlaws(t *testing.T) {
	f := func(name string, f flaw, blind bool, want error) {
		t.Helper()
		e := explorer{flaw: f, blind: blind, seen: make(map[world]float64)}
		if _, err := e.explore(start()); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	f("no compare", noCompare, false, errLost)
	f("no compare, and what comes of it", noCompare, true, errDeadlock)
	f("forget others", forgetOthers, false, errLost)
	f("forget others, and what comes of it", forgetOthers, true, errDeadlock)
	f("hand over as held", handAsHeld, false, errLost)
	f("hand over as held, and what comes of it", handAsHeld, true, errDeadlock)
	f("wake none", wakeNone, true, errDeadlock)
	f("hand over and free", handAndFree, true, errFree)
}
