package stream

import (
	"context"
	"errors"
	"net/http"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/value"
)

// With durability, a message starts a run, and is acknowledged when that start is durable. From then on the
// journal has it. Its task stays until the run has ended or left memory: so the bounds of what is in flight
// and the order hold for runs, too. If the program ends between the commit and the acknowledgement, the
// message comes again, and its key leads to the same run.

// beginRun begins to start a durable run of a message, unless that is not durable. ended says that the
// submission could not be made.
func (w *runner) beginRun(t *task, d *field.Durability) (begun, ended bool) {
	c, m := w.consumer, t.messages[0]
	s, durable, err := d.Submission(c.settling, m.payload(), m.identity())
	if r, ok := c.reader.(Nameless); ok && durable && !d.Keyed() && err == nil {
		err = r.Nameless(&m.Message)
	}
	if err != nil {
		t.resp = node.Response{Payload: value.Error(err)}
		t.phase.Store(phaseOver)
		return false, true
	}
	if !durable {
		return false, false
	}
	s.Same = m.body
	t.phase.Store(phaseParked)
	c.runs.Go(func() { t.finish(t.carry(s)) })
	return true, false
}

// identity is what is the same at each delivery of a message, and for no other one; empty if the system
// does not deliver messages again. The body is part of it, as a file or a topic that was made again may
// have the numbers of an earlier one.
func (m *message) identity() string {
	if t := m.consumer.source.Traits; t.Transient || !t.Redelivers && !t.Positions {
		return ""
	}
	var b value.MapBuilder
	m.consumer.reader.Fields(&m.Message, &b)
	id, ok := b.Build().Get("id")
	if !ok {
		return ""
	}
	return id.String() + "\x00" + m.body.String()
}

// carry starts the run of a message, acknowledges that, and returns when the run takes no more memory, or
// the generation of the task ends. The response is an error if the start is not durable.
func (t *task) carry(s node.Submission) node.Response {
	ctx := t.generation.ctx
	r, err := t.generation.starter.(node.DurableStarter).Submit(ctx, s)
	if err == nil {
		defer r.Leave()
		err = stored(ctx, r)
	}
	var asked *node.Error
	switch {
	case err == nil:
		t.acknowledge(r.Run)
		select {
		case <-r.Away():
		case <-ctx.Done():
		case <-t.consumer.left:
		}
	case errors.As(err, &asked) && asked.Status == http.StatusConflict: // its run was put aside: it has been started
		t.acknowledge("")
	case errors.As(err, &asked) && asked.Status == http.StatusServiceUnavailable && !errors.Is(err, node.ErrStopped):
		err = &node.Error{Err: err, Status: asked.Status, RetryAfter: asked.RetryAfter, Outage: true} // the journal is away, whatever the message is
		return node.Response{Payload: value.Error(err)}
	default:
		return node.Response{Payload: value.Error(err)}
	}
	return node.Response{None: true}
}

// stored waits until the start of a run is durable.
func stored(ctx context.Context, r *node.Receipt) error {
	done := make(chan error, 1)
	r.Stored(func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// acknowledge settles the message of a task whose run the journal has. Who has sent the message and waits
// for an answer gets the id of the run, as the answer may come days later.
func (t *task) acknowledge(run string) {
	c, m := t.consumer, t.messages[0]
	c.replies.refuse(m, node.Response{Payload: value.Map(
		value.Field{Name: envelope.KeyStatus, Value: value.Int(http.StatusAccepted)},
		value.Field{Name: envelope.KeyBody, Value: value.Map(value.Field{Name: "run", Value: value.String(run)})},
	)})
	c.mu.Lock()
	defer c.mu.Unlock()
	t.run = true
	c.inFlight.runs++
	c.inFlight.runBytes += m.size
	c.settled(m, Outcome{})
}

// runEnded notes that the run of a task takes no more memory. The caller holds the lock.
func (c *consumer) runEnded(t *task) {
	if !t.run {
		return
	}
	t.run = false
	c.inFlight.runs--
	c.inFlight.runBytes -= t.messages[0].size
	c.room.Broadcast()
}
