package chat

import (
	"context"
	"errors"

	"github.com/uniflow-labs/uniflow/value"
)

// A turn is the outlet of one message: its answers become lines of the room.
type turn struct {
	room *room
	done func([]line) // gets all answers at the end; may be nil

	open *line   // that is being written; guarded by room.mu
	said []*line // of this turn; guarded by room.mu, filled only for done
	prev *line   // the last one; guarded by room.mu
}

func (t *turn) begin() {
	r := t.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.turns++; r.mu.turns == 1 {
		r.tell(frame{Type: "busy", Busy: true})
	}
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
	defer r.mu.Unlock()
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
		t.said = append(t.said, l)
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
	t.room.mu.bytes += len(a.text) - len(into.Text)
	into.Text, into.Buttons, into.Files, into.Failed, into.Open = a.text, a.buttons, a.files, a.failed, false
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
	lines := t.finish(answers)
	if t.done != nil {
		t.done(lines)
	}
}

func (t *turn) finish(answers []answer) []line {
	r := t.room
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, a := range answers {
		if i == 0 && t.open != nil && !a.failed {
			t.write(t.open, a)
		} else {
			t.put(a)
		}
	}
	t.close()
	r.forget()
	if r.mu.turns--; r.mu.turns == 0 {
		r.tell(frame{Type: "busy"})
	}
	lines := make([]line, len(t.said))
	for i, l := range t.said {
		lines[i] = *l
	}
	return lines
}
