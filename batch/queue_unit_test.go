package batch

import (
	"cmp"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

func TestCapacity(t *testing.T) {
	r := capacity{maxEvents: 10, maxBytes: 100}
	if !r.take(6, 50) || r.take(5, 1) || r.take(1, 51) || !r.take(4, 50) {
		t.Errorf("a limit was passed, or room refused: %+v", r)
	}
	made, first := r.await()
	if again, second := r.await(); !first || second || again != made || !r.wanted() {
		t.Error("all callers of await must get one channel, and only the first must get true")
	}
	if r.give(1, 0); !isClosed(made) || r.wanted() || !r.take(1, 0) {
		t.Error("those that wait were not woken")
	}
}

func TestUnsettled(t *testing.T) {
	var u unsettled
	if f := u.flush(); !isClosed(f.done) {
		t.Error("a flush waits though nothing is unsettled")
	}
	a, b, c := &chunk{}, &chunk{foreign: true}, &chunk{foreign: true}
	u.add(a)
	u.add(b)
	f := u.flush()
	u.add(c)
	g := u.flush()
	if u.remove(b) || isClosed(f.done) {
		t.Error("a flush or the lanes continue before their chunks are settled")
	}
	if u.remove(a) || !isClosed(f.done) || isClosed(g.done) {
		t.Error("a flush must end with the last of its chunks, and no later one")
	}
	if !u.remove(c) || !isClosed(g.done) || u.oldest != nil || u.newest != nil {
		t.Errorf("the list is not empty: %+v", u)
	}
}

// A testQueue is a queue that records the calls of its environment.
type testQueue struct {
	*queue
	checked map[int]bool
	writes  int
}

func newTestQueue(s settings) *testQueue {
	s.count, s.bytes = cmp.Or(s.count, 10), cmp.Or(s.bytes, 1<<20)
	s.maxEvents, s.maxBytes = cmp.Or(s.maxEvents, 100), cmp.Or(s.maxBytes, 1<<20)
	s.laneCount, s.lanesMax, s.laneBatches = cmp.Or(s.laneCount, 1), cmp.Or(s.lanesMax, 1), cmp.Or(s.laneBatches, 1)
	l := &testQueue{checked: make(map[int]bool)}
	l.queue = newQueue(&s, queueEnv{
		check: func(lane int) { l.checked[lane] = true },
		checkAll: func() {
			for i := range s.laneCount {
				l.checked[i] = true
			}
		},
		write: func() { l.writes++ },
	})
	return l
}

// add adds a chunk of n events. It returns nil if there is no room.
func (l *testQueue) add(lane, n int) *chunk {
	c := &chunk{lane: l.lanes[lane], slots: 10, cost: 1000, first: time.Now()}
	if l.reserve(c) != nil {
		return nil
	}
	c.arena = letters(n)
	l.enqueue(c, n)
	return c
}

// letters returns memory with n events, a letter each.
func letters(n int) *arena {
	a := newArena(n, 1000, nil)
	for i := range n {
		a.buf = append(a.buf, byte('a'+i%26), '\n')
		a.ends = append(a.ends, uint32(len(a.buf)))
	}
	a.refs.Store(1)
	return a
}

func (l *testQueue) send(lane int) *transmission {
	f := &transmission{lane: l.lanes[lane]}
	if !l.take(f, time.Now()) {
		return nil
	}
	return f
}

// deliver settles all that f has left.
func (l *testQueue) deliver(f *transmission) bool {
	if !l.edit(func(n *counts) {
		for _, b := range f.todo {
			n.InFlight -= uint64(b.count)
			n.Delivered += uint64(b.count)
		}
		f.todo = nil
	}) {
		return false
	}
	chunks := f.whole.chunks
	l.finish(f)
	l.settled(chunks...)
	return true
}

// TestQueueBalance makes random steps, and finds each event in one place after each.
func TestQueueBalance(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		l := newTestQueue(settings{laneCount: 3, laneBatches: 2, lanesMax: 6, spills: true, ahead: rnd.IntN(2) == 0})
		var sent []*transmission
		var work sync.WaitGroup
		accepted := uint64(0)
		check := func(step string) Stats {
			s, _ := l.stats(time.Now())
			s.Accepted = accepted
			if err := s.Balance(); err != nil {
				t.Fatalf("after %s: %v", step, err)
			}
			return s
		}
		for range 200 {
			lane := rnd.IntN(3)
			switch rnd.IntN(6) {
			case 0, 1:
				if n := 1 + rnd.IntN(10); l.add(lane, n) != nil {
					accepted += uint64(n)
				}
				check("enqueue")
			case 2:
				if l.maySend(lane) {
					if f := l.send(lane); f != nil {
						sent = append(sent, f)
					}
				}
				check("take")
			case 3:
				if i := len(sent) - 1; i >= 0 {
					l.deliver(sent[i])
					sent = sent[:i]
				}
				check("finish")
			case 4:
				if c := l.takeOldest(&work); c != nil {
					l.settled(c)
					work.Done()
				}
				check("takeOldest")
			case 5:
				for _, c := range l.evictionCandidates() {
					c.written.Store(int32(c.n))
					missing := rnd.IntN(2)
					l.evict(c, c.n-missing)
					if (c.arena == nil) != (missing == 0) {
						t.Fatalf("%d events are not durable, and memory is released: %v", missing, c.arena == nil)
					}
				}
				check("evict")
			}
		}
		drained := l.drain()
		if l.takeOldest(&work) != nil {
			t.Fatal("a chunk is dropped though it belongs to Close")
		}
		left, _ := l.collectRest()
		report := l.settleAll(left)
		s := check("close")
		if s.InFlight+s.Queued != 0 || s.Delivered != report.Delivered || uint64(report.Undelivered) != s.Returned || report.Spooled != s.Spooled {
			t.Fatalf("after close: %+v, %+v", s, report)
		}
		if len(sent) > 0 && isClosed(drained) {
			t.Fatal("drained while batches are on the way")
		}
		for _, f := range sent {
			if l.deliver(f) {
				t.Fatal("a transmission settled events after Close had taken them over")
			}
		}
	}
}

// TestQueueNoRoom fills the queue. What can be sent now is checked, to make room.
func TestQueueNoRoom(t *testing.T) {
	l := newTestQueue(settings{maxEvents: 20, laneCount: 2, spills: true})
	l.add(1, 10)
	l.add(1, 10)
	clear(l.checked)
	c := &chunk{lane: l.lanes[0], slots: 10, cost: 10}
	made := l.reserve(c)
	if made == nil || l.checked[0] || !l.checked[1] || l.writes == 0 || !l.producersWait() {
		t.Errorf("got %+v, the lane with events must be checked and the spool writer woken", l)
	}
	if d, _ := l.demand(1); d != demandSealed {
		t.Errorf("demand %d, want one for sealed chunks", d)
	}
	l.send(1)
	if !isClosed(made) || l.reserve(c) != nil {
		t.Error("a batch on the way takes room in the queue")
	}
}

// TestQueueDrain waits for batches on the way, those aside included, and not for lanes
// that have stopped.
func TestQueueDrain(t *testing.T) {
	l := newTestQueue(settings{laneCount: 2})
	l.add(0, 10)
	l.add(1, 10)
	l.add(1, 10)
	f, g := l.send(0), l.send(1)
	rejoin := l.leave(f)
	if d, _ := l.demand(0); d != demandNone {
		t.Errorf("demand %d of an empty lane", d)
	}
	drained := l.drain()
	g.halted = true
	l.finish(g)
	if isClosed(drained) {
		t.Error("drained while a batch waits for its next attempt")
	}
	rejoin()
	l.deliver(f)
	if !isClosed(drained) {
		t.Error("not drained, though the only lane with events has stopped")
	}
	left, tried := l.collectRest()
	if l.send(1) != nil { // by a dispatcher that Close has not waited for
		t.Error("a batch was taken after Close had taken over all events")
	}
	if len(left) != 2 || len(tried) != 0 {
		t.Errorf("%d chunks left, %d batches tried, want 2 and 0", len(left), len(tried))
	}
}

// TestQueueLeave limits the memory of batches that wait for their next attempt.
func TestQueueLeave(t *testing.T) {
	l := newTestQueue(settings{maxEvents: 1000, maxBytes: 20_000, lanesMax: 2, laneBatches: 2})
	for range 8 {
		l.add(0, 10)
	}
	left := 0
	for l.maySend(0) {
		l.leave(l.send(0))
		left++
	}
	if left != 7 { // a quarter of the bytes is five batches of 1,000; two have kept their place
		t.Errorf("%d batches have left, want 7", left)
	}
	ordered := newTestQueue(settings{ordered: true})
	ordered.add(0, 10)
	ordered.add(0, 10)
	ordered.leave(ordered.send(0))
	if ordered.maySend(0) {
		t.Error("a batch of an ordered lane has given its place away")
	}
}

// TestQueueRewrite has a chunk whose fsync failed written again, unless it is on disk only.
func TestQueueRewrite(t *testing.T) {
	l := newTestQueue(settings{ahead: true, spills: true})
	c := l.add(0, 10)
	c.written.Store(10)
	if l.nextUnwritten() != nil {
		t.Error("a written chunk is written again")
	}
	if !l.rewrite(c) || l.nextUnwritten() != c {
		t.Error("the chunk is not written again")
	}
	l.setBroken(true)
	if f := l.send(0); f == nil || f.whole.count != 10 {
		t.Error("a batch waits for a disk that takes nothing")
	}
	l.setBroken(false)
	d := l.add(0, 5)
	if l.send(0) != nil {
		t.Error("a batch does not wait until it is written")
	}
	d.evicting = true
	l.evict(d, 5)
	if l.rewrite(d) {
		t.Error("a chunk without memory is written again")
	}
}
