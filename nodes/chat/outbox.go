package chat

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// An outbox has what waits to be sent to a platform, in order for each conversation. It lives
// in the pool, as the dispatcher does.
type outbox struct {
	dispatcher *dispatcher
	held       *node.Account // bytes of what waits
	clock      node.Clock
	log        *slog.Logger
	longest    int                    // UTF-16 units of a message
	poster     atomic.Pointer[poster] // of the last generation

	mu     sync.Mutex
	queues state.Queues[string, *outgoing] // by conversation; the first is being sent
}

func newOutbox(c *dispatcher, held *node.Account, clock node.Clock, log *slog.Logger, p poster, longest int) *outbox {
	o := &outbox{dispatcher: c, held: held, clock: clock, log: log, longest: longest}
	o.poster.Store(&p)
	return o
}

var errCrowded = errors.New("too many messages wait to be sent")

// add sends a message after those before it.
func (o *outbox) add(m *outgoing) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queues.Count(m.to.conversation) >= mostOutgoing {
		return errCrowded
	}
	if !m.final {
		m.changed = make(chan struct{}, 1)
	}
	o.weighLocked(m, m.weight())
	o.joinLocked(m)
	return nil
}

// joinLocked puts a message behind those of its conversation, and sends it if there are none.
func (o *outbox) joinLocked(m *outgoing) {
	m.place.Key, m.place.Value = m.to.conversation, m
	if o.queues.Join(&m.place) {
		o.dispatcher.work.Add(1)
		o.clock.AfterFunc(0, func(context.Context) {
			defer o.dispatcher.work.Done()
			for ; m != nil; m = o.sendAll(m) {
			}
		})
	}
}

// after calls done when all that was added for a conversation before has been sent, or could not be; with an
// error if the program has ended meanwhile.
func (o *outbox) after(to target, done func(error)) {
	m := &outgoing{to: to, mark: true, final: true, done: done}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.joinLocked(m)
}

// change changes a message that is not final.
func (o *outbox) change(m *outgoing, f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
	if m.weighs > 0 { // it still waits
		o.weighLocked(m, m.weight())
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// weighLocked counts what a message weighs now. It has been made already: answers of what has
// begun are not refused.
func (o *outbox) weighLocked(m *outgoing, weight int64) {
	if more := weight - m.weighs; more > 0 {
		o.held.Hold(more)
	} else {
		o.held.Free(-more)
	}
	m.weighs = weight
}

// flush waits until all has been sent, or for ctx.
func (o *outbox) flush(ctx context.Context) error {
	o.mu.Lock()
	empty := o.queues.Empty()
	o.mu.Unlock()
	return node.WaitFor(ctx, empty)
}

// A delivery is the outlet of a message of a platform.
type delivery struct {
	outbox *outbox
	to     target
	held   int64 // bytes of the message, counted until its process has ended
	waits  bool  // for the platform to take each message, as the process is durable

	mu struct {
		sync.Mutex
		open *outgoing // that is being written
		last *outgoing
		any  bool
	}
}

func (d *delivery) begin() {}

// Part implements [node.Parts]. Pieces of a message that is being written do not wait for the platform.
func (d *delivery) Part(ctx context.Context, v value.Value) error {
	if err := d.part(ctx, v); err != nil || !d.waits || v.Kind() == value.KindString {
		return err
	}
	sent := make(chan error, 1)
	d.outbox.after(d.to, func(err error) { sent <- err })
	select {
	case err := <-sent:
		if err == nil && d.failed() {
			err = errNotSent
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errNotSent = errors.New("the platform has not taken the message")

// failed reports whether the last message could not be sent.
func (d *delivery) failed() bool {
	d.mu.Lock()
	last := d.mu.last
	d.mu.Unlock()
	d.outbox.mu.Lock()
	defer d.outbox.mu.Unlock()
	return last != nil && last.failed
}

// part is Part without waiting.
func (d *delivery) part(ctx context.Context, v value.Value) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	piece, isPiece, whole, err := pieceOf(v)
	if err != nil {
		return err
	}
	if d.outbox.held.Full() {
		return busy(errMemory)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !isPiece {
		for _, a := range whole {
			if err := d.put(a); err != nil {
				return err
			}
		}
		return nil
	}
	if piece == "" {
		return nil
	}
	if d.mu.open == nil {
		d.mu.open = &outgoing{to: d.to, text: piece}
		d.mu.last, d.mu.any = d.mu.open, true
		return d.outbox.add(d.mu.open)
	}
	if len(d.mu.open.text)+len(piece) > mostText {
		return errors.New("the answer is too long")
	}
	d.outbox.change(d.mu.open, func() { d.mu.open.text += piece })
	return nil
}

// TryPart implements [node.TryParts].
func (d *delivery) TryPart(ctx context.Context, v value.Value) (rest func(context.Context) error, err error) {
	if d.waits {
		return func(ctx context.Context) error { return d.Part(ctx, v) }, nil
	}
	return nil, d.part(ctx, v)
}

// put sends a message, or replaces the one that is being written.
func (d *delivery) put(a answer) error {
	b := d.mu.open
	d.mu.open = nil
	if b != nil {
		into := a.edit
		d.outbox.change(b, func() {
			if into = into && !b.failed; into {
				b.text, b.buttons = a.whole(), a.buttons
			}
			b.final = true
		})
		if into {
			return nil
		}
	}
	b = &outgoing{to: d.to, text: a.whole(), buttons: a.buttons, final: true}
	if a.edit {
		b.before = d.mu.last
	}
	d.mu.last, d.mu.any = b, true
	return d.outbox.add(b)
}

// end sends the answers. The first is the whole of the message that is being written.
func (d *delivery) end(answers []answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.outbox.held.Free(d.held)
	err := error(nil)
	for i, a := range answers {
		if i == 0 && d.mu.open != nil && !a.failed {
			a.edit = true
		}
		if err == nil {
			err = d.put(a)
		}
	}
	if b := d.mu.open; b != nil {
		d.outbox.change(b, func() { b.final = true })
		d.mu.open = nil
	}
	if !d.mu.any && err == nil {
		err = d.outbox.add(&outgoing{to: d.to, silent: true, final: true})
	}
	if err != nil {
		d.outbox.log.Error("an answer could not be sent", "conversation", d.to.conversation, "error", err)
	}
}

// whole is the text with the addresses of the files, which platforms show.
func (a *answer) whole() string {
	text := a.text
	for _, f := range a.files {
		if text != "" {
			text += "\n"
		}
		text += f.Name + ": " + f.URL
	}
	return text
}
