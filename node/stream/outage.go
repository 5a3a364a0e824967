package stream

import (
	"errors"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// An outage is what a task waits for if the other side of a sink, or of another node, is
// away. That is not the fault of its messages: it uses up no attempt, halves no batch, and
// sends nothing to the port error.
//
// Except that a message may be why connections break, and would stop its source for ever. A
// task that was under way when two of them broke is a suspect: see [quarantine].
type outage struct {
	since  time.Time // of the first failure; zero while there is none, or it is over
	waits  int       // failures that were waited for
	breaks int       // connections that have broken while the messages were under way
	alone  bool      // it is a suspect, and runs without others
}

// A passedOverError is the cause of the error of a record that was not confirmed in time,
// although others were.
type passedOverError struct{ error }

// Unwrap lets errors.Is find the reason.
func (e *passedOverError) Unwrap() error { return e.error }

// waitsOut reports whether the task waits until an outage is over, after an error of its
// process: unless its messages are to blame, or the field give_up says that it has waited for
// long enough.
func (t *task) waitsOut(err error, now time.Time) bool {
	if !node.Describe(err).Outage {
		t.outage.since, t.outage.breaks = time.Time{}, 0
		return false
	}
	if over := (*passedOverError)(nil); errors.Is(err, ErrLost) || errors.As(err, &over) {
		if t.outage.breaks++; t.suspected() && (t.outage.alone || !t.accompanied.Load()) {
			t.outage.since = time.Time{}
			return false
		}
	}
	giveUp := t.generation.settings.retry.giveUp
	if since := t.consumer.awaySince(now, giveUp); t.outage.since.IsZero() {
		t.outage.since = since
	}
	if giveUp > 0 && now.Sub(t.outage.since) >= giveUp {
		return false // and so does each attempt after this one, until the outage is over
	}
	t.outage.waits++
	return true
}

func (c *consumer) awaySince(now time.Time, giveUp time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outages.failed(now, giveUp)
}

// suspected reports whether the messages of a task may be why connections break.
func (t *task) suspected() bool { return t.outage.breaks > 1 }

// outages are what a consumer knows of systems that are away. It guards them.
type outages struct {
	log func(string, ...any)

	since  time.Time // the first failure after the last good message; zero if there is none
	seen   time.Time // the latest
	held   int       // tasks that wait for an outage to be over
	err    error     // the latest
	logged time.Time
}

// failed notes a failure, and returns since when systems are away: the first failure after
// the last good message. So messages that wait for one another do not wait for give_up one
// after the other. After a longer time without a failure, it is another outage.
func (o *outages) failed(now time.Time, giveUp time.Duration) time.Time {
	if o.since.IsZero() || giveUp > 0 && now.Sub(o.seen) > giveUp {
		o.since = now
	}
	o.seen = now
	return o.since
}

// hold notes that a task waits until an outage is over. inFlight is how many messages are held.
func (o *outages) hold(t *task, inFlight int, now time.Time) {
	if t.outage.waits == 1 {
		o.held++
	}
	o.err = t.err
	if now.Sub(o.logged) >= time.Minute {
		o.logged = now
		o.log("messages are held until an outage is over", "held", inFlight, "since", t.outage.since, "error", t.err)
	}
}

// end notes that a task does not wait for an outage any more: it is over, or given up.
func (o *outages) end(t *task) {
	if t.outage.waits > 0 {
		o.held--
	}
	t.outage = outage{since: t.outage.since, breaks: t.outage.breaks}
	if t.verdict == verdictGood {
		t.outage.since = time.Time{}
		if !t.letter {
			o.since = time.Time{}
		}
	}
}

// ready returns why the source is not ready, although it is connected: nothing takes its
// messages.
func (o *outages) ready() error {
	if o.held == 0 {
		return nil
	}
	return fmt.Errorf("messages are held until an outage is over: %w", o.err)
}

// A quarantine is for tasks that are suspects: each goes on without other suspects, and then a
// connection that breaks uses up an attempt. So those that were under way with it are not
// blamed. The consumer guards it.
type quarantine struct {
	suspects fifo[*task] // whose turn has come again
	trying   int         // suspects that go on
	most     int         // how many may
	single   *task       // that runs without others, as far as is known
	release  func(*task) // lets a suspect go on
}

// add takes a suspect whose turn has come.
func (q *quarantine) add(t *task) {
	q.suspects.push(t)
	q.next()
}

// next lets suspects go on: one, and after each that has ended well twice as many, as a
// network that breaks again and again makes suspects of good messages.
func (q *quarantine) next() {
	for q.suspects.len() > 0 && q.trying < q.most {
		t := q.suspects.pop()
		q.trying++
		t.trying, t.outage.alone = true, q.most == 1
		q.release(t)
	}
}

// began notes which tasks run while others do: if one runs alone when a connection breaks,
// there is no other to blame.
func (q *quarantine) began(t *task, alone bool) {
	if alone {
		q.single = t
		if t.accompanied.Load() { // a load is cheaper than a store
			t.accompanied.Store(false)
		}
		return
	}
	if !t.accompanied.Load() {
		t.accompanied.Store(true)
	}
	if q.single != nil {
		q.single.accompanied.Store(true)
		q.single = nil
	}
}

// ended notes how a task has ended.
func (q *quarantine) ended(t *task, good bool) {
	if q.single == t {
		q.single = nil
	}
	if !t.trying {
		return
	}
	t.trying, t.outage.alone = false, false
	q.trying--
	if q.most *= 2; !good || q.suspects.len() == 0 {
		q.most = 1
	}
	q.next()
}
