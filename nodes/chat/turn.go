package chat

import (
	"context"
	"errors"
	"slices"

	"github.com/uniflow-labs/uniflow/value"
)

// A turn is the outlet of one message: its answers become messages of the conversation.
type turn struct {
	conversation *conversation
	held         int64 // what its message weighs until its process has ended

	// All of these are guarded by conversation.mu.
	done   func([]message) // gets the answers once the process ends or asks back; may be nil
	paused bool            // the process has asked back
	open   *message        // that is being written
	made   []*message      // for done
	prev   *message        // the last one
}

func (t *turn) begin() {
	conv := t.conversation
	conv.mu.Lock()
	defer conv.mu.Unlock()
	conv.mu.turn = t
	conv.broadcast(event{Type: "busy", Busy: true})
}

// Part implements [node.Parts]. It does not wait for the clients.
func (t *turn) Part(ctx context.Context, v value.Value) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	piece, isPiece, whole, err := pieceOf(v)
	if err != nil {
		return err
	}
	conv := t.conversation
	conv.mu.Lock()
	defer conv.unlock()
	if !isPiece {
		for _, a := range whole {
			t.put(a)
		}
		return nil
	}
	switch {
	case piece == "":
	case t.open == nil:
		t.add(&message{From: "bot", Text: piece, Open: true})
		t.open = t.prev
	case len(t.open.Text)+len(piece) > mostText:
		return errors.New("the answer is too long")
	default:
		t.open.Text += piece
		conv.mu.bytes += len(piece)
		conv.broadcast(event{Type: "append", ID: t.open.ID, Text: piece})
	}
	return nil
}

// TryPart implements [node.TryParts], as Part never waits.
func (t *turn) TryPart(ctx context.Context, v value.Value) (rest func(context.Context) error, err error) {
	return nil, t.Part(ctx, v)
}

func (t *turn) add(l *message) {
	t.prev = l
	if t.done != nil {
		t.made = append(t.made, l)
	}
	t.conversation.add(l)
}

// put adds a message, or replaces one. The caller holds the lock.
func (t *turn) put(a answer) {
	into := t.open
	if into == nil && a.edit {
		into = t.prev
	} else if !a.edit {
		t.close()
		into = nil
	}
	t.write(into, a)
}

// write makes a message of an answer, in place of into if that is not nil. The caller holds
// the lock.
func (t *turn) write(into *message, a answer) {
	t.open = nil
	if into == nil {
		t.add(&message{From: "bot", Text: a.text, Buttons: a.buttons, Files: a.files, Failed: a.failed})
		return
	}
	before := into.weight()
	into.Text, into.Buttons, into.Files, into.Failed, into.Open = a.text, a.buttons, a.files, a.failed, false
	if slices.Contains(t.conversation.mu.messages, into) {
		t.conversation.mu.bytes += into.weight() - before
	}
	t.conversation.broadcast(event{Type: "message", Message: into})
}

// close ends the message that is being written. The caller holds the lock.
func (t *turn) close() {
	if t.open != nil {
		t.open.Open = false
		t.conversation.broadcast(event{Type: "message", Message: t.open})
		t.open = nil
	}
}

// end adds the answers of the process. The first of them is the whole of the message that
// is being written, unless that has failed.
func (t *turn) end(answers []answer) {
	t.finish(answers)()
}

func (t *turn) finish(answers []answer) (pass func()) {
	conv := t.conversation
	conv.mu.Lock()
	defer conv.unlock()
	for i, a := range answers {
		if i == 0 && t.open != nil && !a.failed {
			t.write(t.open, a)
		} else {
			t.put(a)
		}
	}
	t.close()
	conv.forget()
	conv.mu.turn = nil
	conv.all.held.Free(t.held)
	conv.unpin()
	conv.broadcast(event{Type: "busy"})
	return t.hand()
}

// Pause implements [node.PauseParts]: the person has to say something now.
func (t *turn) Pause() {
	t.pause()()
}

func (t *turn) pause() (pass func()) {
	conv := t.conversation
	conv.mu.Lock()
	defer conv.mu.Unlock()
	t.close()
	t.paused = true
	conv.broadcast(event{Type: "busy"})
	return t.hand()
}

// hand returns what passes the messages to done, to be called without the lock. The caller
// holds it.
func (t *turn) hand() (pass func()) {
	done, messages := t.done, make([]message, len(t.made))
	for i, m := range t.made {
		messages[i] = *m
	}
	t.done, t.made = nil, nil
	if done == nil {
		return func() {}
	}
	return func() { done(messages) }
}

// resume says that a message comes for a process that has asked back, before that gets it.
// done gets the answers from here on. It returns nil if there is no such process.
func (conv *conversation) resume(done func([]message)) *turn {
	conv.mu.Lock()
	defer conv.mu.Unlock()
	t := conv.mu.turn
	if t == nil || !t.paused {
		return nil
	}
	t.paused, t.done = false, done
	conv.broadcast(event{Type: "busy", Busy: true})
	return t
}

// quit takes back what resume has said of done: the message is not for this turn.
func (t *turn) quit() {
	t.conversation.mu.Lock()
	defer t.conversation.mu.Unlock()
	t.done, t.made = nil, nil
}
