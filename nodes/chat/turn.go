package chat

import (
	"context"
	"errors"
	"slices"

	"github.com/uniflow-labs/uniflow/value"
)

// A turn is the outlet of one message: its answers become lines of the room.
type turn struct {
	room *room
	held int64 // what its message weighs until its process has ended

	// All of these are guarded by room.mu.
	done   func([]line) // gets the answers once the process ends or asks back; may be nil
	paused bool         // the process has asked back
	open   *line        // that is being written
	made   []*line      // for done
	prev   *line        // the last one
}

func (t *turn) begin() {
	r := t.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.turn = t
	r.tell(frame{Type: "busy", Busy: true})
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
	r := t.room
	r.mu.Lock()
	defer r.unlock()
	if !isPiece {
		for _, a := range whole {
			t.put(a)
		}
		return nil
	}
	switch {
	case piece == "":
	case t.open == nil:
		t.add(&line{From: "bot", Text: piece, Open: true})
		t.open = t.prev
	case len(t.open.Text)+len(piece) > mostText:
		return errors.New("the answer is too long")
	default:
		t.open.Text += piece
		r.mu.bytes += len(piece)
		r.tell(frame{Type: "append", ID: t.open.ID, Text: piece})
	}
	return nil
}

// TryPart implements [node.TryParts], as Part never waits.
func (t *turn) TryPart(ctx context.Context, v value.Value) (rest func(context.Context) error, err error) {
	return nil, t.Part(ctx, v)
}

func (t *turn) add(l *line) {
	t.prev = l
	if t.done != nil {
		t.made = append(t.made, l)
	}
	t.room.add(l)
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

// write makes a message of an answer, in place of a line if that is not nil. The caller
// holds the lock.
func (t *turn) write(into *line, a answer) {
	t.open = nil
	if into == nil {
		t.add(&line{From: "bot", Text: a.text, Buttons: a.buttons, Files: a.files, Failed: a.failed})
		return
	}
	before := into.weight()
	into.Text, into.Buttons, into.Files, into.Failed, into.Open = a.text, a.buttons, a.files, a.failed, false
	if slices.Contains(t.room.mu.lines, into) {
		t.room.mu.bytes += into.weight() - before
	}
	t.room.tell(frame{Type: "message", Message: into})
}

// close ends the message that is being written. The caller holds the lock.
func (t *turn) close() {
	if t.open != nil {
		t.open.Open = false
		t.room.tell(frame{Type: "message", Message: t.open})
		t.open = nil
	}
}

// end adds the answers of the process. The first of them is the whole of the message that
// is being written, unless that has failed.
func (t *turn) end(answers []answer) {
	if done, lines := t.finish(answers); done != nil {
		done(lines)
	}
}

func (t *turn) finish(answers []answer) (done func([]line), lines []line) {
	r := t.room
	r.mu.Lock()
	defer r.unlock()
	for i, a := range answers {
		if i == 0 && t.open != nil && !a.failed {
			t.write(t.open, a)
		} else {
			t.put(a)
		}
	}
	t.close()
	r.forget()
	r.mu.turn = nil
	r.rooms.held.Free(t.held)
	r.unpin()
	r.tell(frame{Type: "busy"})
	return t.hand()
}

// Pause implements [node.PauseParts]: the person has to say something now.
func (t *turn) Pause() {
	if done, lines := t.pause(); done != nil {
		done(lines)
	}
}

func (t *turn) pause() (done func([]line), lines []line) {
	r := t.room
	r.mu.Lock()
	defer r.mu.Unlock()
	t.close()
	t.paused = true
	r.tell(frame{Type: "busy"})
	return t.hand()
}

// hand returns what to call with which lines. The caller holds the lock.
func (t *turn) hand() (done func([]line), lines []line) {
	lines = make([]line, len(t.made))
	for i, l := range t.made {
		lines[i] = *l
	}
	done, t.done, t.made = t.done, nil, nil
	return done, lines
}

// resume says that a message comes for a process that has asked back, before that gets it.
// done gets the answers from here on. It returns nil if there is no such process.
func (r *room) resume(done func([]line)) *turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.mu.turn
	if t == nil || !t.paused {
		return nil
	}
	t.paused, t.done = false, done
	r.tell(frame{Type: "busy", Busy: true})
	return t
}

// quit takes back what resume has said of done: the message is not for this turn.
func (t *turn) quit() {
	t.room.mu.Lock()
	defer t.room.mu.Unlock()
	t.done, t.made = nil, nil
}
