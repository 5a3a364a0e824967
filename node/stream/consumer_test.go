package stream

import (
	"context"
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
)

// newTestConsumer returns a consumer that no goroutine runs.
func newTestConsumer(t Traits) *consumer {
	n := &sourceNode{source: &Source{Traits: t}, log: discard, settings: &settings{limit: 10, bytes: 1 << 20}, shared: new(shared)}
	n.init = &node.Init{Clock: node.SystemClock{}}
	c := newConsumer(n, nil, nil)
	c.generations.Attach(&generation{settings: n.settings})
	return c
}

// TestATaskGoesOnWhenItsMessagesAreGone runs the rest of a batch whose first piece was
// released while it waited for a worker.
func TestATaskGoesOnWhenItsMessagesAreGone(t *testing.T) {
	c := newTestConsumer(Traits{Lanes: true, Positions: true})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold(&Message{Lane: 0, Offset: 1, Raw: []byte("1")}, new(message))
	c.hold(&Message{Lane: 1, Offset: 1, Raw: []byte("2")}, new(message))
	task := c.tasks.make()
	all := c.order.take(nil, 2, 100)
	task.messages, task.rest = all[:1:1], [][]*message{all[1:]}
	c.due.push(task)
	c.forget(func(m *message) bool { return m.Lane == 0 })
	if got := c.nextTask(1); got == nil || !slices.Equal(got.messages, all[1:]) {
		t.Errorf("the message of the other lane is not the next task: %v", got)
	}
}

// TestReadingGoesOnWithoutAReleasedLane releases a lane that held reading up.
func TestReadingGoesOnWithoutAReleasedLane(t *testing.T) {
	c := newTestConsumer(Traits{Lanes: true, Positions: true})
	c.mu.Lock()
	for i := range int64(c.inFlight.longest()) + 2 {
		c.hold(&Message{Offset: i + 1}, new(message))
	}
	for m := c.inFlight.first.after; m != nil; m = c.inFlight.first.after {
		c.settled(m, Outcome{})
	}
	c.committer.unsettled = 0
	if !c.backlog() {
		t.Error("nothing holds reading up")
	}
	c.mu.Unlock()
	ended, end := context.WithCancel(t.Context())
	end()
	host{c}.Release(ended, []int32{0})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.backlog() {
		t.Error("the lane that was released holds reading up")
	}
}

// TestReadingWaitsForACommit bounds what a crash repeats.
func TestReadingWaitsForACommit(t *testing.T) {
	c := newTestConsumer(Traits{Lanes: true, Positions: true})
	c.mu.Lock()
	c.committer.connected = true
	n := 0
	for ; !c.backlog() && n < 10_000; n++ {
		if n == 1500 { // a commit begins
			c.mu.Unlock()
			if s, _, ok := c.committer.next(nil); !ok || len(s.Marks) != 1 || s.Marks[0].Offset != int64(n) {
				t.Errorf("got the marks %v", s.Marks)
			}
			c.mu.Lock()
		}
		c.hold(&Message{Offset: int64(n + 1)}, new(message))
		c.settled(c.inFlight.first, Outcome{})
	}
	c.mu.Unlock()
	if want := 2 * c.committer.enough(); n != want {
		t.Errorf("reading waits when %d messages are settled and not committed, want %d", n, want)
	}
}

// TestGroupAfterGoneQueue takes a group when the messages of the first queue are gone.
func TestGroupAfterGoneQueue(t *testing.T) {
	c := newTestConsumer(Traits{Lanes: true, Positions: true})
	c.settings.order = OrderRecord
	g := c.generations.Current()
	g.queues, g.groups = true, struct{ node.GroupStarter }{}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold(&Message{Lane: 0, Offset: 1, Raw: []byte("1")}, new(message))
	c.hold(&Message{Lane: 1, Offset: 1, Raw: []byte("2")}, new(message))
	c.hold(&Message{Lane: 1, Offset: 2, Raw: []byte("3")}, new(message))
	c.forget(func(m *message) bool { return m.Lane == 0 })
	if got := c.nextTask(32); got == nil || !got.group || len(got.messages) != 2 {
		t.Errorf("got %v, want the messages of the other lane", got)
	}
}
