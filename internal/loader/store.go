package loader

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Store keeps events in a form of its own, such as a database, beside a [Sink]
// or, with [Nowhere], in place of one. It need not be able to take anything back:
// it keeps a mark with the events, and the mark has the records that the journal
// gets next. If the loader ends between the two, the next start gives the journal
// what the mark has and the journal has not.
//
// The committer alone calls Append, and Mark; any goroutine NewBatch.
type Store interface {
	// NewBatch returns room for the events of one batch at a time.
	NewBatch() Batch

	// Append adds the events of batches, all or none, and remembers the mark, in
	// one: when it returns, both survive a loss of power. It keeps neither. The
	// error is a [*RefusedError] if some events can never be taken.
	Append(batches []Batch, mark []byte) error

	// Mark returns the last mark, empty if there is none.
	Mark() []byte
}

// A Batch holds the events of a batch as its store wants them.
type Batch interface {
	// Add reads an event, which is one JSON value, and which it must not keep. The
	// error says why the store does not take it.
	Add(event []byte) error

	// Remove takes out an event, by its place among those that are there.
	Remove(i int)

	// Reset takes out all.
	Reset()
}

// A RefusedError names events that a store does not take, though [Batch.Add] has
// taken them: because of other events that came in between.
type RefusedError struct {
	Refused []Refusal // at least one; by batch, then event, ascending
}

// A Refusal says why one event is not taken.
type Refusal struct {
	Batch, Event int // places, from 0
	Err          error
}

// Error tells the first reason.
func (e *RefusedError) Error() string {
	if len(e.Refused) == 0 {
		return "no events are refused"
	}
	r := e.Refused[0]
	return fmt.Sprintf("%d events are refused, such as event %d of batch %d: %v", len(e.Refused), r.Event, r.Batch, r.Err)
}

// storeFactor is how much memory the events of a batch are taken to need in a
// store's form, as a multiple of the body's.
const storeFactor = 4

// storeGroup is groupBytes with a store, where a group is in memory twice.
const storeGroup = 4 << 20

// Nowhere returns a sink that keeps no events, for loaders with a [Store]. The
// journal tells events by their number then: the offset of a batch is how many
// came before it, its length how many it has.
func Nowhere() Sink { return &nowhere{} }

type nowhere struct{ at Position }

// Append counts lines.
func (s *nowhere) Append(lines []byte) (Span, error) {
	span := Span{s.at, int64(bytes.Count(lines, []byte{'\n'}))}
	s.at = span.end()
	return span, nil
}

// Sync has nothing to do.
func (*nowhere) Sync() error { return nil }

// Cut goes on counting from a position.
func (s *nowhere) Cut(p Position) error {
	s.at = Position{max(p.File, 1), p.Offset}
	return nil
}

// End is the beginning.
func (*nowhere) End() (Position, error) { return Position{}, nil }

// Files returns 0.
func (*nowhere) Files() int { return 0 }

// Close has nothing to do.
func (*nowhere) Close() error { return nil }

// errMark is a mark that this package has not written.
var errMark = errors.New("the mark in the store cannot be read: it is not of a loader, or of a newer one")

// mark makes the mark of records that the journal gets next: a header with what
// the journal says so far, and the records, as they are in a journal.
func (l *Loader) mark(records []record) []byte {
	base := &l.journal.base
	head := record{header: true, span: Span{Position: base.end}, accepted: base.events, batches: base.batches}
	b := head.append(l.scratch.mark[:0])
	for i := range records {
		b = records[i].append(b)
	}
	l.scratch.mark = b
	return b
}

// readMark reads what mark has made.
func readMark(mark []byte) (head record, records []record, err error) {
	s, err := scanRecords(bytes.NewReader(mark), func(r *record) {
		if r.header {
			head = *r
			return
		}
		kept := *r
		kept.rejected = slices.Clone(r.rejected)
		records = append(records, kept)
	})
	if err != nil {
		return head, nil, err
	}
	if !head.header || s.torn || s.damaged > 0 || s.records != len(records)+1 {
		return head, nil, errMark
	}
	return head, records, nil
}

// redo gives the journal the records of batches that are in the store and not in
// the journal. Those can only be of the last Append. The journal must be ready
// for records.
func (l *Loader) redo() error {
	if l.opts.Store == nil {
		return nil
	}
	mark := l.opts.Store.Mark()
	if len(mark) == 0 {
		return nil
	}
	head, records, err := readMark(mark)
	if err != nil {
		return err
	}
	base := &l.journal.base
	switch have := base.batches; {
	case have >= head.batches+uint64(len(records)):
		return nil
	case have < head.batches:
		// Somebody has removed the journal, or its lines are damaged.
		l.log.Warn("the journal lacks batches that are in the store: such as come again are taken again", "batches", head.batches-have)
		base.add(&head)
	default:
		records = records[have-head.batches:]
	}
	if err := l.journal.append(records); err != nil {
		return err
	}
	l.log.Info("batches of the store had no record yet", "batches", len(records))
	for i := range records {
		if r := &records[i]; r.key != "" {
			l.remember(digestOf(r.key), outcome{uint32(r.accepted), string(r.rejected)}, l.journal.number)
		}
	}
	return nil
}

// put adds the events of batches to the store, and has done so when it returns
// no error.
func (l *Loader) put(fresh []*request, records []record) error {
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
	mark := l.mark(records)
	began := time.Now()
	err := l.opts.Store.Append(batches, mark)
	l.metrics.stored.Observe(time.Since(began).Seconds())
	if err != nil && bytes.Equal(l.opts.Store.Mark(), mark) {
		l.log.Warn("the store has kept events in spite of an error", "error", err)
		return nil
	}
	return err
}

// refuse takes events that the store refuses out of a group, and adds verdicts.
// It returns what is left of the group: a batch with too many verdicts is refused
// as a whole. It is not ok if the error makes no sense.
func (l *Loader) refuse(group []*request, e *RefusedError) (left []*request, ok bool) {
	var of []*request // by the number that the error has
	for _, r := range group {
		if r.accepted > 0 {
			of = append(of, r)
		}
	}
	for _, refused := range slices.Backward(e.Refused) { // so that places hold
		if refused.Batch < 0 || refused.Batch >= len(of) || refused.Event < 0 || refused.Event >= of[refused.Batch].accepted {
			return group, false
		}
		r := of[refused.Batch]
		if err := r.remove(refused.Event, refused.Err); err != nil {
			r.err = refusef(400, "the batch cannot be taken: %v", err)
		}
	}
	return slices.DeleteFunc(group, func(r *request) bool { return r.err != nil }), len(e.Refused) > 0
}

// remove takes out an event by its place, and adds a verdict. The error is
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

// maxReason is how much of a store's reason is told and remembered, in bytes.
const maxReason = 200

// reasonText returns the text of a verdict.
func reasonText(err error) string {
	text := err.Error()
	if len(text) > maxReason {
		text = text[:maxReason] + "…"
	}
	return text
}
