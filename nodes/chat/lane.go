package chat

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/node"
)

const (
	// editEvery is how long a message that is being written stays as it is, at least.
	editEvery = time.Second

	// mostBubbles is how many messages of a conversation may wait for the platform.
	mostBubbles = 64

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

	// longest is how many UTF-16 units the text of a message may have.
	longest() int
}

// A target is where answers go: a chat, a thread, or an interaction.
type target struct {
	conversation           string
	channel, thread, token string
	answered               *bool // of an interaction, whose first message is another; owned by its lane
}

// A bubble is a message on its way to the platform. It is guarded by post.mu, except for
// what the lane alone uses.
type bubble struct {
	to      target
	text    string
	buttons []button
	final   bool  // it does not change any more
	silent  bool  // there is no message: the platform is told that
	failed  bool  // it could not be sent
	weighs  int64 // bytes counted, while it is in a lane
	done    func(error)

	before *bubble   // the one that it replaces, or nil
	ids    []string  // of the messages that it has become; of the lane
	shown  string    // its text there; of the lane
	sent   time.Time // when that was sent; of the lane
}

// A lane sends the bubbles of a conversation.
type lane struct {
	office       *postOffice
	conversation string
	bubbles      []*bubble     // guarded by postOffice.mu
	changed      chan struct{} // of one: something is new
}

func (l *lane) wakeLocked() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// run sends bubbles until there are none, or only ones that are shown as far as they are
// written and will wake it.
func (l *lane) run() {
	o := l.office
	ctx := o.desk.ctx
	for {
		b, state, ok := l.first()
		if !ok {
			return
		}
		switch err := l.send(ctx, b, state); {
		case err != nil || state.final:
			l.pop(b, err != nil)
			if b.done != nil {
				b.done(err)
			}
			if err != nil && ctx.Err() == nil {
				o.log.Error("a message could not be sent", "conversation", l.conversation, "error", node.Clip(err.Error(), 1000))
			}
			continue
		}
		// It is being written: the next edit has to wait. What sends sees the end of ctx.
		if o.clock.Wait(ctx, l.changed) == nil {
			_ = o.clock.Sleep(ctx, o.every-o.clock.Now().Sub(b.sent))
		}
	}
}

// first returns the bubble to send and its state; without one, the lane ends.
func (l *lane) first() (b *bubble, state bubble, ok bool) {
	o := l.office
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(l.bubbles) > 0 {
		return l.bubbles[0], *l.bubbles[0], true
	}
	delete(o.mu.lanes, l.conversation)
	if len(o.mu.lanes) == 0 && o.mu.empty != nil {
		close(o.mu.empty)
		o.mu.empty = nil
	}
	return nil, bubble{}, false
}

func (l *lane) pop(b *bubble, failed bool) {
	l.office.mu.Lock()
	defer l.office.mu.Unlock()
	if len(l.bubbles) > 0 && l.bubbles[0] == b {
		l.bubbles = l.bubbles[1:]
	}
	b.final, b.failed = true, failed
	l.office.weighLocked(b, 0)
}

// weight is what a bubble has in memory, in bytes.
func (b *bubble) weight() int64 {
	n := lineWeight + len(b.text)
	for _, button := range b.buttons {
		n += len(button.Text) + len(button.Data) + len(button.URL)
	}
	return int64(n)
}

// send brings what the platform shows up to date.
func (l *lane) send(ctx context.Context, b *bubble, state bubble) error {
	p := *l.office.poster.Load()
	if state.silent {
		return l.try(ctx, func() error { return p.silent(ctx, b.to) })
	}
	if before := b.before; before != nil {
		b.ids, b.before = before.ids, nil
		_ = l.office.clock.Sleep(ctx, l.office.every-l.office.clock.Now().Sub(before.sent)) // what sends sees the end of ctx
	}
	pieces := split(state.text, p.longest())
	if !state.final {
		pieces = pieces[:1] // the others follow at the end
	}
	shown := strings.Join(pieces, "")
	if shown == b.shown && len(b.ids) > 0 && !(state.final && len(state.buttons) > 0) {
		return nil
	}
	for i, piece := range pieces {
		var buttons []button
		if state.final && i == len(pieces)-1 {
			buttons = state.buttons
		}
		err := error(nil)
		if i < len(b.ids) {
			err = l.try(ctx, func() error { return p.edit(ctx, b.to, b.ids[i], piece, buttons) })
		} else if piece != "" || len(buttons) > 0 {
			id := ""
			if err = l.try(ctx, func() (err error) { id, err = p.post(ctx, b.to, piece, buttons); return err }); err == nil {
				b.ids = append(b.ids, id)
			}
		}
		if err != nil {
			return err
		}
	}
	b.shown, b.sent = shown, l.office.clock.Now()
	return nil
}

// try repeats what the platform refuses for now.
func (l *lane) try(ctx context.Context, f func() error) error {
	wait := l.office.every
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
		if l.office.clock.Sleep(ctx, wait) != nil {
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
