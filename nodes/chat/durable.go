package chat

import (
	"context"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// With durability, a message of a platform is in the journal before the platform is told that it was taken:
// as the answer that a run has waited for, or as a run of its own, whose key is the id of the event. So what
// the platform sends again, also after a crash, is found there. A run in memory has its turn in its
// conversation, as other processes have; one that waits and has left memory has none.

// An intake lets the messages of a conversation become durable one after the other, in the order in which
// they came. The zero intake is empty.
type intake struct {
	mu     sync.Mutex
	queues state.Queues[string, chan struct{}] // closed when it is its turn
}

// enter waits for the turn of a message.
func (in *intake) enter(ctx context.Context, conversation string) (leave func(), err error) {
	p := &state.Place[string, chan struct{}]{Key: conversation, Value: make(chan struct{})}
	in.mu.Lock()
	first := in.queues.Join(p)
	in.mu.Unlock()
	leave = func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		if next := in.queues.Leave(p); next != nil {
			close(next.Value)
		}
	}
	if first {
		return leave, nil
	}
	select {
	case <-p.Value:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

// asked has the interactions that can be answered: what that takes is not in the payload of their runs, and not
// in the journal.
type asked struct {
	clock node.Clock
	mu    *sync.Mutex
	ids   *state.Entries[string, target]
}

func newAsked(clock node.Clock) asked {
	return asked{clock: clock, mu: new(sync.Mutex), ids: state.NewEntries[string, target](nil)}
}

// keep keeps where the answers to an event go, if that is an interaction that is new.
func (a *asked) keep(e *platformEvent) (isNew bool) {
	now := a.clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.to.token == "" || a.ids.Has(e.id, now) {
		return false
	}
	to := e.to
	to.channel = strings.Clone(to.channel) // it may be a part of the event, as the id
	return a.ids.Put(strings.Clone(e.id), to, 0, now, e.to.until, state.Limits{Count: mostSeen})
}

func (a *asked) forget(e *platformEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids.Remove(e.id)
}

func (a *asked) find(id string) (to target, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ids.Get(id, a.clock.Now())
}

// submit makes an event durable, and reports whether a process has waited for it. It blocks.
func (b *branch) submit(ctx context.Context, g *generation, d *field.Durability, e *platformEvent) (r *node.Receipt, err error) {
	leave, err := b.intake.enter(ctx, e.conversation)
	if err != nil {
		return nil, err
	}
	defer leave()
	payload := e.payload()
	s, _, err := d.Submission(ctx, payload, e.once)
	if err != nil {
		return nil, err
	}
	s.Offer = func() bool { return g.waits != nil && g.waits.Deliver(e.conversation, payload) }
	ref := g.node.(*platformNode).init.Node
	s.Message = &node.Signal{Namespace: ref.Namespace, Event: node.EventReply, Key: e.conversation, ID: "message/" + ref.ID + "/" + e.once, Payload: payload, Keep: s.KeyTTL}
	if err := b.refuses(e.conversation); err != nil {
		return nil, err
	}
	return g.starter.(node.DurableStarter).Submit(ctx, s)
}

// refuses returns why no message of a conversation is taken now, or nil.
func (b *branch) refuses(conversation string) error {
	if b.held.Full() {
		return errMemory
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.Serving():
		return errStopped
	case b.queues.Count(conversation) > mostWaiting:
		return errTooFast
	}
	return nil
}

// takeDurable takes an event, whether it has come before or not. It blocks until that is durable.
func (b *branch) takeDurable(ctx context.Context, g *generation, d *field.Durability, e *platformEvent) (answer value.Value, err error) {
	isNew := b.asked.keep(e)
	r, err := b.submit(ctx, g, d, e)
	if isNew && (err != nil || r.Given || r.Attached) { // it begins no process that answers it
		b.asked.forget(e)
	}
	if err != nil {
		b.counts.refused.Add(1)
		return value.Null(), err
	}
	r.Leave() // the answer is sent by the run
	switch {
	case r.Given:
		b.counts.delivered.Add(1)
	case !r.Attached:
		b.counts.taken.Add(1)
	}
	if e.answer != nil {
		answer = e.answer(r.Given)
	}
	return answer, nil
}

// Visit implements [node.Host].
func (n *platformNode) Visit(payload value.Value) *node.Visit {
	conversation := textOrNumber(payload, "conversation")
	to, ok := n.branch.asked.find(textOrNumber(payload, "id"))
	err := error(nil)
	if !ok {
		to, err = n.hook.find(conversation)
	}
	if err != nil { // of a payload of another bot: its token was changed
		n.init.Log.Warn("a run has no conversation", "conversation", conversation, "error", err)
		to = target{conversation: conversation}
	}
	size := int64(payload.Size())
	n.branch.held.Hold(size)
	d := &delivery{outbox: n.branch.outbox, to: to, waits: true}
	e := &entry{dispatcher: n.branch.dispatcher, payload: payload, to: d}
	e.place.Key, e.place.Value = conversation, e
	return &node.Visit{
		Context: func(ctx context.Context) context.Context {
			return node.WithParts(node.WithConversation(ctx, conversation), d)
		},
		Begin: e.await,
		Judge: e.failure,
		Answer: func(resp node.Response, done func(error)) {
			e.resp, e.generation = resp, e.dispatcher.Current()
			if e.generation == nil { // the program ends
				done(errStopped)
				return
			}
			e.answer()
			n.branch.outbox.after(d.to, done)
		},
		End: func() {
			n.branch.held.Free(size)
			e.end()
		},
	}
}

// await calls begin when it is the turn of a durable process in its conversation.
func (e *entry) await(begin func()) {
	c := e.dispatcher
	e.begin = begin
	c.mu.Lock()
	first := c.queues.Join(&e.place)
	c.mu.Unlock()
	if first {
		e.to.begin()
		begin()
	}
}

// end gives the turn of a durable process to the next.
func (e *entry) end() {
	if e.begin == nil { // it has not come to its turn, as no process could start
		return
	}
	c := e.dispatcher
	if next := c.leave(e); next != nil {
		c.work.Go(func() { c.runAll(next) })
	}
}
