package lock

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// soon is how long until waits for a goroutine to sleep.
const soon = 20 * time.Second

// until yields until ok holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); runtime.Gosched() {
		if time.Since(begin) > soon {
			t.Fatalf("got none after %v, want %s", soon, what)
		}
	}
}

// sleepers returns the waiters for m, in order.
func sleepers(m *Mutex) []*waiter {
	p := placeOf(&m.state)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue(&m.state)
}

// queue returns the waiters for the mutex, in order.
func (t *table) queue(word *uint32) (all []*waiter) {
	if len(t.chains) == 0 {
		return nil
	}
	for w := *t.slot(word); w != nil; w = w.next {
		all = append(all, w)
	}
	return all
}

// came sets how long the sleepers of m have waited, in order, and the state as of a
// mutex without late waiters. The caller holds m.
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

// queueUp starts goroutines that lock m, one after the other, report that, and unlock
// it on command. It returns when they sleep.
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

// TestStates follows the state of a real mutex through the steps of the model.
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
	wantState(t, &m, contended) // one more waits
	leave <- struct{}{}
	<-has
	wantState(t, &m, held) // no other waits
	leave <- struct{}{}
	wg.Wait()
	wantState(t, &m, free)
}

// TestHandOver checks which goroutine gets a mutex that is owed, and its state then.
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

		m.Unlock() // hands it to the first
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
	f(-time.Hour, contended) // a later one has not waited long
	f(2*patience, contended) // it is late too, and is woken first
}

// TestOwedToNone tests a goroutine that asks for a hand-over and finds the lock free
// before it sleeps.
func TestOwedToNone(t *testing.T) {
	m := Mutex{state: owed}
	m.Unlock()
	wantState(t, &m, free)
}

// TestPlaces shows that neighbours wait in different places.
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

// TestTable compares a table shared by the waiters of many mutexes with a list for each.
func TestTable(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	words := make([]uint32, 200)
	lists := make(map[*uint32][]*waiter)
	var tab table
	for range 20_000 {
		word := &words[random.IntN(1+random.IntN(len(words)))] // some more often
		list := lists[word]
		switch random.IntN(5) {
		case 0, 1:
			w := &waiter{word: word}
			tab.push(w, false)
			lists[word] = append(list, w)
		case 2:
			w := &waiter{word: word}
			tab.push(w, true)
			lists[word] = append([]*waiter{w}, list...)
		default:
			w, others := tab.pop(word)
			if len(list) == 0 {
				if w != nil || others {
					t.Fatalf("got %p and %v, want none", w, others)
				}
				continue
			}
			if w != list[0] || others != (len(list) > 1) {
				t.Fatalf("got %p and %v, want %p of %d", w, others, list[0], len(list))
			}
			if w.next != nil || w.last != nil || w.sibling != nil {
				t.Fatalf("got %+v, want it to point to no waiter", w)
			}
			lists[word] = list[1:]
		}
		if got := tab.queue(word); !slices.Equal(got, lists[word]) {
			t.Fatalf("got %v, want %v", got, lists[word])
		}
	}
	queues := 0
	for _, list := range lists {
		if len(list) > 0 {
			queues++
		}
	}
	if tab.queues != queues {
		t.Errorf("got %d queues, want %d", tab.queues, queues)
	}
	for word, list := range lists {
		for range list {
			tab.pop(word)
		}
	}
	if tab.queues != 0 || slices.ContainsFunc(tab.chains, func(w *waiter) bool { return w != nil }) {
		t.Errorf("got %d queues and %v, want none", tab.queues, tab.chains)
	}
}

// TestChains shows that finding a mutex takes a few steps, for any number of mutexes and
// any distance between them.
func TestChains(t *testing.T) {
	const n = 100_000
	for _, apart := range []int{1, 2, 16, 48} { // in words
		words := make([]uint32, n*apart)
		tables := make(map[*place]*table)
		for i := range n {
			word := &words[i*apart]
			tab := tables[placeOf(word)]
			if tab == nil {
				tab = new(table)
				tables[placeOf(word)] = tab
			}
			tab.push(&waiter{word: word}, false)
		}
		longest := 0
		for _, tab := range tables {
			for _, w := range tab.chains {
				length := 0
				for ; w != nil; w = w.sibling {
					length++
				}
				longest = max(longest, length)
			}
		}
		if longest > 16 {
			t.Errorf("%d words apart: got a chain of %d, want 16 at most", apart, longest)
		}
	}
}

// TestTurns checks when a goroutine yields for a lock that is taken.
func TestTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer noYield.until.Store(0)
	noYield.until.Store(0)
	m := Mutex{state: held}
	// ran reports whether another goroutine ran, for the given time.
	ran := func(length time.Duration) bool {
		var stop, got atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			if stop.Load() {
				return
			}
			got.Store(true)
			for begin := time.Now(); time.Since(begin) < length; {
			}
		})
		m.yield(now())
		stop.Store(true)
		before := got.Load()
		wg.Wait()
		return before
	}
	// kept reports whether the goroutine did not yield, once in many tries: on a busy
	// machine it may also be preempted.
	kept := func() bool {
		for range 100 {
			if !ran(0) {
				return true
			}
		}
		return false
	}
	if !ran(0) {
		t.Error("got no turn given up, want some")
	}
	m.state = owed
	if !kept() {
		t.Error("got a turn given up for a lock that is owed, want none")
	}
	m.state = held
	noYield.until.Store(0)
	if !ran(5 * patience) {
		t.Error("got no turn given up, want one")
	}
	if ban := noYield.until.Load() - int64(now()); ban <= 0 {
		t.Errorf("got a ban of %v after a turn of %v, want some", ban, 5*patience)
	}
	noYield.until.Store(int64(now() + time.Hour))
	if !kept() {
		t.Error("got a turn given up while that is banned, want none")
	}
}

// TestAllocations shows that locking never allocates.
func TestAllocations(t *testing.T) {
	if invariant.Race {
		return // a pool drops some items then
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
				asleep = p.queues > 0
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
