package stream

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// A settling is a settler with what its environment has got.
type settling struct {
	settler
	order   order
	pool    tasks
	count   atomic.Uint64
	fate    fate
	ready   []*task
	calls   []string
	settled []*message
}

func newSettling(loose bool) *settling {
	w := new(settling)
	w.order.all.loose = loose
	w.settler = settler{
		batches: true, order: &w.order, tasks: &w.pool, failures: &w.count,
		env: settleEnv{
			settle: func(m *message, o Outcome) {
				m.state = stateGone
				w.settled = append(w.settled, m)
				w.calls = append(w.calls, fmt.Sprintf("%d: %v %t", m.Offset, o.Err, o.DeadLetter))
			},
			ready: func(t *task) { w.ready = append(w.ready, t) },
			later: func(*task) { w.calls = append(w.calls, "later") },
			wait:  func(*task) time.Duration { return time.Second },
			fate:  func(*message) fate { return w.fate },
			done:  func(*task) { w.calls = append(w.calls, "done") },
		},
	}
	return w
}

// batch returns a task of n messages, which runs.
func (w *settling) batch(n int) *task {
	t := w.pool.make()
	for i := range n {
		w.order.push(&w.order.all, &message{Message: Message{Offset: int64(i + 1)}})
	}
	t.messages = w.order.take(nil, n, 1)
	for _, m := range t.messages {
		m.state = stateRuns
	}
	return t
}

// run gives verdicts until no task is ready: exhausted for those with the message bad, and good
// for others. It returns how many tasks have run.
func (w *settling) run(t *task, bad int64) (n int) {
	for w.ready = append(w.ready, t); len(w.ready) > 0; n++ {
		t, w.ready = w.ready[0], w.ready[1:]
		t.verdict = verdictGood
		if !t.letter && slices.ContainsFunc(t.messages, func(m *message) bool { return m.Offset == bad }) {
			t.verdict, t.err = verdictExhausted, errors.New("bad")
		}
		w.follow(t)
	}
	return n
}

// TestSettlerHalves finds the one bad message of a batch by halves, and only that is a dead letter.
func TestSettlerHalves(t *testing.T) {
	for _, loose := range []bool{true, false} {
		w := newSettling(loose)
		n := w.run(w.batch(8), 6)
		dead := slices.IndexFunc(w.settled, func(m *message) bool { return m.Offset == 6 })
		if len(w.settled) != 8 || w.count.Load() != 4 || n > 9 {
			t.Errorf("got %q after %d tasks, %d failures", w.calls, n, w.count.Load())
		}
		if !loose && (dead != 5 || !slices.IsSortedFunc(w.settled, func(a, b *message) int { return int(a.Offset - b.Offset) })) {
			t.Errorf("messages have not waited for the dead letter: %q", w.calls)
		}
		if want := "6: <nil> true"; !slices.Contains(w.calls, want) {
			t.Errorf("got %q, want %q", w.calls, want)
		}
		if w.order.all.out != 0 {
			t.Errorf("%d messages were not let go", w.order.all.out)
		}
	}
}

// TestSettlerFates ends the attempts of one message as its fate says.
func TestSettlerFates(t *testing.T) {
	for want, fate := range map[string]fate{
		"[1: <nil> true done]":  fateLetter,
		"[1: <nil> false done]": fateOver,
		"[1: bad false done]":   fateEnded,
		"[later]":               fateStuck,
	} {
		w := newSettling(true)
		w.fate = fate
		w.run(w.batch(1), 1)
		if got := fmt.Sprint(w.calls); got != want {
			t.Errorf("fate %d: got %s, want %s", fate, got, want)
		}
	}
}

// TestSettlerCloses gives a batch back whose attempts are used up, when nothing runs again.
func TestSettlerCloses(t *testing.T) {
	w := newSettling(true)
	w.closing = true
	w.run(w.batch(2), 2)
	if got := fmt.Sprint(w.calls); got != "[1: bad false 2: bad false done]" {
		t.Errorf("got %s", got)
	}
}

// TestSettlerGivesBack lets the system repeat attempts, except after an outage.
func TestSettlerGivesBack(t *testing.T) {
	w := newSettling(true)
	w.givesBack = true
	one := w.batch(1)
	one.verdict, one.err = verdictAgain, errors.New("bad")
	w.follow(one)
	two := w.batch(1)
	two.verdict, two.outage.since = verdictAgain, time.Unix(1, 0)
	w.follow(two)
	if got := fmt.Sprint(w.calls); got != "[1: bad false done later]" {
		t.Errorf("got %s", got)
	}
}
