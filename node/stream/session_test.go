package stream

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
)

// newTestSession returns a session that no goroutine runs.
func newTestSession(t Traits) *session {
	n := &sourceNode{source: &Source{Traits: t}, log: slog.New(slog.DiscardHandler), settings: &settings{limit: 10, bytes: 1 << 20}, seat: new(seat)}
	n.init = &node.Init{Clock: node.SystemClock{}}
	s := newSession(n, nil, nil)
	s.mu.front = &front{settings: n.settings}
	return s
}

// TestATaskGoesOnWhenItsMessagesAreGone runs the rest of a batch whose first piece was
// released while it waited for a worker.
func TestATaskGoesOnWhenItsMessagesAreGone(t *testing.T) {
	s := newTestSession(Traits{Lanes: true, Positions: true})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold(&Message{Lane: 0, Offset: 1, Raw: []byte("1")}, new(message))
	s.hold(&Message{Lane: 1, Offset: 1, Raw: []byte("2")}, new(message))
	task := s.newTask()
	all := s.mu.order.take(nil, 2, 100)
	task.messages, task.rest = all[:1:1], [][]*message{all[1:]}
	s.mu.again.push(task)
	s.forget(func(m *message) bool { return m.Lane == 0 })
	if got := s.nextTask(); got == nil || !slices.Equal(got.messages, all[1:]) {
		t.Errorf("the message of the other lane is not the next task: %v", got)
	}
}

// TestReadingGoesOnWithoutAReleasedLane releases a lane that held reading up.
func TestReadingGoesOnWithoutAReleasedLane(t *testing.T) {
	s := newTestSession(Traits{Lanes: true, Positions: true})
	s.mu.Lock()
	for i := range int64(s.longest()) + 2 {
		s.hold(&Message{Offset: i + 1}, new(message))
	}
	for m := s.mu.first.after; m != nil; m = s.mu.first.after {
		s.settled(m, Outcome{})
	}
	s.mu.unsettled = 0
	if !s.backlog() {
		t.Error("nothing holds reading up")
	}
	s.mu.Unlock()
	ended, end := context.WithCancel(t.Context())
	end()
	host{s}.Release(ended, []int32{0})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backlog() {
		t.Error("the lane that was released holds reading up")
	}
}

// TestReadingWaitsForACommit bounds what a crash repeats.
func TestReadingWaitsForACommit(t *testing.T) {
	s := newTestSession(Traits{Lanes: true, Positions: true})
	s.mu.Lock()
	s.mu.connected = true
	n := 0
	for ; !s.backlog() && n < 10_000; n++ {
		if n == 1500 { // a commit begins
			s.mu.Unlock()
			if told, _, ok := s.toSettle(nil); !ok || len(told.Marks) != 1 || told.Marks[0].Offset != int64(n) {
				t.Errorf("got the marks %v", told.Marks)
			}
			s.mu.Lock()
		}
		s.hold(&Message{Offset: int64(n + 1)}, new(message))
		s.settled(s.mu.first, Outcome{})
	}
	s.mu.Unlock()
	if want := 2 * s.enough(); n != want {
		t.Errorf("reading waits when %d messages are settled and not committed, want %d", n, want)
	}
}
