package lock

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/uniflow-labs/uniflow/internal/invariant"
)

// A goroutine that is to be seen asleep is waited for in turns, up to this long.
const soon = 20 * time.Second

// until gives up turns until ok holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); runtime.Gosched() {
		if time.Since(begin) > soon {
			t.Fatalf("got none after %v, want %s", soon, what)
		}
	}
}

// sleepers returns who waits for m in its place, in order.
func sleepers(m *Mutex) []*waiter {
	p := placeOf(&m.state)
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*waiter
	for w := p.first; w != nil; w = w.next {
		if w.word == &m.state {
			all = append(all, w)
		}
	}
	return all
}

// came sets when the sleepers of m came, in order, as if this was so long ago,
// and the state to that of a mutex for which nobody is late. The caller has m.
func came(m *Mutex, ago ...time.Duration) {
	all := sleepers(m)
	p := placeOf(&m.state)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range all {
		w.since = now() - ago[i]
	}
	atomic.StoreUint32(&m.state, contended)
}

// queueUp starts goroutines that lock m, one after the other, say that they have
// it, and unlock it when told to. It returns when they are asleep.
func queueUp(t *testing.T, m *Mutex, n int) (wg *sync.WaitGroup, has chan int, leave chan struct{}) {
	t.Helper()
	wg, has, leave = new(sync.WaitGroup), make(chan int), make(chan struct{})
	for i := range n {
		wg.Go(func() {
			m.Lock()
			has <- i
			<-leave
			m.Unlock()
		})
		until(t, "one more sleeper", func() bool { return len(sleepers(m)) == i+1 })
	}
	return wg, has, leave
}

func wantState(t *testing.T, m *Mutex, want uint32) {
	t.Helper()
	if got := atomic.LoadUint32(&m.state); got != want {
		t.Errorf("got state %d, want %d", got, want)
	}
}

func TestSize(t *testing.T) {
	if got := unsafe.Sizeof(Mutex{}); got != 4 {
		t.Errorf("got a Mutex of %d bytes, want 4", got)
	}
	if got := unsafe.Sizeof(place{}); got != 128 {
		t.Errorf("got a place of %d bytes, want 128", got)
	}
}

// TestStates follows the state of a real mutex through what the model does.
func TestStates(t *testing.T) {
	var m Mutex
	wantState(t, &m, free)
	m.Lock()
	wantState(t, &m, held)
	m.Unlock()
	wantState(t, &m, free)

	m.Lock()
	wg, has, leave := queueUp(t, &m, 2)
	if got := atomic.LoadUint32(&m.state); !mayAdd(got) {
		t.Errorf("got state %d, want one that may be slept on", got)
	}
	came(&m, 0, 0)
	m.Unlock()
	if first := <-has; first != 0 {
		t.Errorf("got goroutine %d first, want 0", first)
	}
	wantState(t, &m, contended) // there is the other one
	leave <- struct{}{}
	<-has
	wantState(t, &m, held) // there is nobody else
	leave <- struct{}{}
	wg.Wait()
	wantState(t, &m, free)
}

// TestHandOver looks at who gets a mutex that is owed, and what it is then.
func TestHandOver(t *testing.T) {
	f := func(second time.Duration, want uint32) {
		t.Helper()
		var m Mutex
		m.Lock()
		wg, has, leave := queueUp(t, &m, 2)
		came(&m, 2*patience, second)

		// The first is woken, but does not get the lock: it asks for it.
		w := placeOf(&m.state).take(&m.state)
		w.wake()
		until(t, "that it sleeps again", func() bool { return len(sleepers(&m)) == 2 })
		if sleepers(&m)[0] != w {
			t.Error("got it behind the other, want it in front")
		}
		wantState(t, &m, owed)
		if m.TryLock() {
			t.Error("got a lock that is owed, want none")
		}

		m.Unlock() // gives it to the first
		if m.TryLock() {
			t.Error("got a lock that belongs to another, want none")
		}
		if first := <-has; first != 0 {
			t.Errorf("got goroutine %d first, want 0", first)
		}
		wantState(t, &m, want)
		leave <- struct{}{}
		<-has
		wantState(t, &m, held)
		leave <- struct{}{}
		wg.Wait()
		wantState(t, &m, free)
	}
	f(-time.Hour, contended) // who comes later has not waited for long
	f(2*patience, owed)
}

// TestOwedToNobody is about a goroutine that asks for the lock, and finds it
// unlocked before it is asleep.
func TestOwedToNobody(t *testing.T) {
	m := Mutex{state: owed}
	m.Unlock()
	wantState(t, &m, free)
}

// TestPlaces wants neighbours to wait in different places.
func TestPlaces(t *testing.T) {
	all := make([]Mutex, 256)
	used := make(map[*place]int)
	for i := range all {
		used[placeOf(&all[i].state)]++
	}
	if len(used) < 128 {
		t.Errorf("got %d places for %d neighbours, want at least 128", len(used), len(all))
	}
	spread := make([]struct {
		m Mutex
		_ [60]byte
	}, 256)
	clear(used)
	for i := range spread {
		used[placeOf(&spread[i].m.state)]++
	}
	if len(used) < 128 {
		t.Errorf("got %d places for %d structs of 64 bytes, want at least 128", len(used), len(spread))
	}
}

// TestQueue lets the waiters of two mutexes share a queue.
func TestQueue(t *testing.T) {
	var a, b uint32
	var q queue
	ws := []*waiter{{word: &a}, {word: &b}, {word: &a}, {word: &b}, {word: &a}}
	for _, w := range ws[:4] {
		q.push(w, false)
	}
	q.push(ws[4], true) // 4a 0a 1b 2a 3b
	f := func(word *uint32, want, wantNext *waiter) {
		t.Helper()
		if w, next := q.pop(word); w != want || next != wantNext {
			t.Errorf("got %p and %p, want %p and %p", w, next, want, wantNext)
		}
	}
	f(&b, ws[1], ws[3])
	f(&b, ws[3], nil) // the last of the list
	f(&b, nil, nil)
	q.push(ws[3], false)
	f(&a, ws[4], ws[0])
	f(&a, ws[0], ws[2])
	f(&a, ws[2], nil)
	f(&b, ws[3], nil)
	if q != (queue{}) {
		t.Errorf("got %v, want an empty queue", q)
	}
}

// TestAllocations holds the budget: none, waiting or not.
func TestAllocations(t *testing.T) {
	if invariant.Race {
		return // a pool drops some of what it is given
	}
	m := new(Mutex)
	f := func(name string, op func()) {
		t.Helper()
		if got := testing.AllocsPerRun(200, op); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
	n := 0
	f("uncontended", func() { m.Lock(); n++; m.Unlock() })
	f("try", func() { m.TryLock(); m.TryLock(); m.Unlock() })

	ask, got := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for range ask {
			m.Lock()
			n++
			m.Unlock()
			got <- struct{}{}
		}
	})
	wait := func(state uint32) func() {
		return func() {
			m.Lock()
			ask <- struct{}{}
			p := placeOf(&m.state)
			for asleep := false; !asleep; runtime.Gosched() {
				p.mu.Lock()
				asleep = p.first != nil
				p.mu.Unlock()
			}
			atomic.StoreUint32(&m.state, state)
			m.Unlock()
			<-got
		}
	}
	f("asleep", wait(contended))
	f("handed over", wait(owed))
	close(ask)
	wg.Wait()
}
