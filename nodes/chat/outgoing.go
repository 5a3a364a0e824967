package chat

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
)

const (
	// editEvery is how long a message that is being written stays as it is, at least.
	editEvery = time.Second

	// mostOutgoing is how many messages of a conversation may wait for the platform.
	mostOutgoing = 64

	// mostTries is how often a message is sent, if the platform is overloaded or cannot be
	// reached; longestWait is how long it may ask to wait.
	mostTries, longestWait = 6, time.Minute
)

// A poster sends messages to a platform. The errors are of type *apiError where the
// platform has answered.
type poster interface {
	// post sends a message, and returns its id. Several may wait for the platform.
	post(ctx context.Context, to target, text string, buttons []button) (id string, err error)

	// edit replaces a message.
	edit(ctx context.Context, to target, id, text string, buttons []button) error

	// silent says that a message is not answered.
	silent(ctx context.Context, to target) error
}

// A target is where answers go: a chat, a thread, or an interaction.
type target struct {
	conversation           string
	channel, thread, token string
	answered               *bool     // of an interaction, whose first message is another; owned by the sender
	until                  time.Time // how long an interaction can be answered
}

// An outgoing message is one on its way to the platform. The lock of the outbox guards it,
// except for what its sender alone uses.
type outgoing struct {
	place   state.Place[string, *outgoing]
	to      target
	text    string
	buttons []button
	final   bool          // it does not change any more
	silent  bool          // there is no message: the platform learns that
	failed  bool          // it could not be sent
	mark    bool          // there is no message: done learns that all before it are sent
	weighs  int64         // bytes counted, while it waits
	changed chan struct{} // of one, which wakes the sender; nil if it was final from the beginning
	done    func(error)

	before *outgoing // the one that it replaces, or nil
	ids    []string  // of the messages that it has become; of the sender
	shown  string    // its text there; of the sender
	sent   time.Time // when that was sent; of the sender
}

// sendAll sends a message until it is final, and returns the next of its conversation.
func (o *outbox) sendAll(m *outgoing) (next *outgoing) {
	ctx := o.dispatcher.ctx
	for {
		state := o.state(m)
		err := o.send(ctx, m, state)
		if err != nil || state.final {
			next = o.leave(m, err != nil)
			if m.done != nil {
				m.done(err)
			}
			if err != nil && ctx.Err() == nil {
				o.log.Error("a message could not be sent", "conversation", m.to.conversation, "error", node.Clip(err.Error(), 1000))
			}
			return next
		}
		// It is being written: the next edit has to wait. What sends sees the end of ctx.
		if o.clock.Wait(ctx, m.changed) == nil {
			_ = o.clock.Sleep(ctx, editEvery-o.clock.Now().Sub(m.sent))
		}
	}
}

// A draft is what an outgoing message is now.
type draft struct {
	text          string
	buttons       []button
	final, silent bool
}

func (o *outbox) state(m *outgoing) draft {
	o.mu.Lock()
	defer o.mu.Unlock()
	return draft{m.text, m.buttons, m.final, m.silent}
}

func (o *outbox) leave(m *outgoing, failed bool) (next *outgoing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m.final, m.failed = true, failed
	o.weighLocked(m, 0)
	if place := o.queues.Leave(&m.place); place != nil {
		next = place.Value
	}
	return next
}

// weight is what a message has in memory, in bytes.
func (m *outgoing) weight() int64 {
	n := messageWeight + len(m.text)
	for _, button := range m.buttons {
		n += len(button.Text) + len(button.Data) + len(button.URL)
	}
	return int64(n)
}

// send brings what the platform shows up to date.
func (o *outbox) send(ctx context.Context, m *outgoing, state draft) error {
	p := *o.poster.Load()
	if m.mark {
		return ctx.Err()
	}
	if state.silent {
		return o.try(ctx, func() error { return p.silent(ctx, m.to) })
	}
	if before := m.before; before != nil {
		m.ids, m.before = before.ids, nil
		_ = o.clock.Sleep(ctx, editEvery-o.clock.Now().Sub(before.sent)) // what sends sees the end of ctx
	}
	pieces := split(state.text, o.longest)
	if !state.final {
		pieces = pieces[:1] // the others follow at the end
	}
	shown := strings.Join(pieces, "")
	if shown == m.shown && len(m.ids) > 0 && !(state.final && len(state.buttons) > 0) {
		return nil
	}
	for i, piece := range pieces {
		var buttons []button
		if state.final && i == len(pieces)-1 {
			buttons = state.buttons
		}
		err := error(nil)
		if i < len(m.ids) {
			err = o.try(ctx, func() error { return p.edit(ctx, m.to, m.ids[i], piece, buttons) })
		} else if piece != "" || len(buttons) > 0 {
			id := ""
			if err = o.try(ctx, func() (err error) { id, err = p.post(ctx, m.to, piece, buttons); return err }); err == nil {
				m.ids = append(m.ids, id)
			}
		}
		if err != nil {
			return err
		}
	}
	m.shown, m.sent = shown, o.clock.Now()
	return nil
}

// try repeats what the platform refuses for now.
func (o *outbox) try(ctx context.Context, f func() error) error {
	wait := editEvery
	for n := 1; ; n++ {
		err := f()
		var e *apiError
		switch {
		case err == nil, ctx.Err() != nil, n == mostTries:
			return err
		case !errors.As(err, &e): // it cannot be reached
		case e.retryAfter > longestWait, !e.again():
			return err
		case e.retryAfter > 0:
			wait = e.retryAfter
		}
		if o.clock.Sleep(ctx, wait) != nil {
			return err
		}
		wait *= 2
	}
}

// split cuts text into pieces that a platform takes, at ends of lines or words if there are
// some. There is one at least.
func split(text string, most int) (pieces []string) {
	for {
		n, units := 0, 0
		for n < len(text) {
			r, size := utf8.DecodeRuneInString(text[n:])
			if units++; r > 0xFFFF {
				units++
			}
			if units > most {
				break
			}
			n += size
		}
		if n == len(text) {
			return append(pieces, text)
		}
		for _, end := range []string{"\n", " "} {
			if i := strings.LastIndex(text[:n], end); i > n/2 {
				n = i + 1
				break
			}
		}
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
}
