package loader

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Store keeps events in a form of its own, such as a database. It need not be
// able to remove events again. Instead it keeps a mark with the events, and the
// mark holds the record that the journal gets next. If the loader ends before the
// journal has that record, the next start copies it from the mark.
//
// Only the committer calls Append and Mark; any goroutine may call NewBatch.
type Store interface {
	// NewBatch returns a buffer for the events of one batch at a time.
	NewBatch() Batch

	// Append adds the events of batches and replaces the mark, all or nothing.
	// When it returns nil, both survive a loss of power. It must keep neither
	// argument. The error is a [*RefusedError] if some events can never be taken.
	Append(batches []Batch, mark []byte) error

	// Mark returns the last mark, empty if there is none.
	Mark() []byte
}

// A Batch holds the events of a batch in the form of its store.
type Batch interface {
	// Add adds an event, which is one JSON value and must not be kept. The error
	// says why the store does not take it.
	Add(event []byte) error

	// Remove removes an event by its index among those that are there.
	Remove(i int)

	// Reset removes all events.
	Reset()
}

// A RefusedError lists events that a store does not take, although [Batch.Add] has
// taken them: because of other events that were appended in between.
type RefusedError struct {
	Refused []Refusal // at least one; sorted by batch, then by event
}

// A Refusal says why one event is not taken.
type Refusal struct {
	Batch, Event int // indexes, from 0
	Err          error
}

func (e *RefusedError) Error() string {
	if len(e.Refused) == 0 {
		return "no events are refused"
	}
	r := e.Refused[0]
	return fmt.Sprintf("%d events are refused, such as event %d of batch %d: %v", len(e.Refused), r.Event, r.Batch, r.Err)
}

// storeFactor is how much memory the events of a batch need in the form of a
// store, as a multiple of the body: an estimate.
const storeFactor = 4

// storeGroup is groupBytes with a store, where a group is in memory twice.
const storeGroup = 4 << 20

// replayMark copies the group of the store's mark to the journal if the journal
// lacks it. That can only be the group of the last Append.
func (l *Loader) replayMark() error {
	if l.opts.Store == nil {
		return nil
	}
	mark := l.opts.Store.Mark()
	if len(mark) == 0 {
		return nil
	}
	var g group
	switch err := g.decode(mark); {
	case errors.Is(err, errOldGroup):
		l.log.Warn("the mark in the store is not used: batches of it that are sent again are taken again", "error", err)
		return nil
	case err != nil:
		return fmt.Errorf("the mark in the store cannot be read: %w", err)
	}
	have := l.journal.totals.batches
	if have >= g.after().batches {
		return nil
	}
	if have < g.batches {
		l.log.Warn("the journal lacks batches that are in the store: those that are sent again are taken again", "batches", g.batches-have)
	}
	if end := l.journal.totals.end; g.end.before(end) {
		g.end = end // of files that are newer than the store knows
	}
	if err := l.journal.append(&g, g.append(nil)); err != nil {
		return err
	}
	l.log.Info("batches of the store were not in the journal", "batches", len(g.records))
	l.rememberAll(&g)
	return nil
}

// putInStore appends the events of batches to the store. If it returns no error,
// the store has them.
func (l *Loader) putInStore(fresh []*request, mark []byte) error {
	batches := l.scratch.batches[:0]
	for _, r := range fresh {
		if r.accepted > 0 {
			batches = append(batches, r.batch)
		}
	}
	l.scratch.batches = batches
	defer clear(batches)
	if len(batches) == 0 {
		return nil
	}
	began := time.Now()
	err := l.opts.Store.Append(batches, mark)
	l.metrics.stored.Observe(time.Since(began).Seconds())
	if err != nil && bytes.Equal(l.opts.Store.Mark(), mark) {
		l.log.Warn("the store has kept events in spite of an error", "error", err)
		return nil
	}
	return err
}

// refuse removes the events that the store refuses from a group, and adds
// verdicts. It returns what is left of the group: a batch with too many verdicts is
// refused as a whole. It returns false if the error makes no sense.
func (l *Loader) refuse(batches []*request, e *RefusedError) (left []*request, ok bool) {
	var of []*request // by the index in the error
	for _, r := range batches {
		if r.accepted > 0 {
			of = append(of, r)
		}
	}
	for _, refused := range slices.Backward(e.Refused) { // so that indexes stay valid
		if refused.Batch < 0 || refused.Batch >= len(of) || refused.Event < 0 || refused.Event >= of[refused.Batch].accepted {
			return batches, false
		}
		r := of[refused.Batch]
		if err := r.remove(refused.Event, refused.Err); err != nil {
			r.err = refusef(400, "the batch cannot be taken: %v", err)
		}
	}
	return slices.DeleteFunc(batches, func(r *request) bool { return r.err != nil }), len(e.Refused) > 0
}

// remove removes an event by its index, and adds a verdict. The error is
// errRejected.
func (r *request) remove(i int, why error) error {
	start := 0
	for range i {
		start += bytes.IndexByte(r.lines[start:], '\n') + 1
	}
	end := start + bytes.IndexByte(r.lines[start:], '\n') + 1
	r.lines = slices.Delete(r.lines, start, end)
	r.batch.Remove(i)
	s := r.split
	s.index = int(s.places[i])
	s.places = slices.Delete(s.places, i, i+1)
	r.accepted--
	err := s.refuse(unfit, reasonText(why))
	r.rejected, r.refused = s.rejected, s.refused
	return err
}

// maxReason is how many bytes of a store's reason a verdict has.
const maxReason = 200

func reasonText(err error) string {
	text := err.Error()
	if len(text) > maxReason {
		text = text[:maxReason] + "…"
	}
	return text
}
