package sqlstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
)

// The bits of the column packed: what is kept as the hash of a row of blobs.
const (
	packedInput   = 1 // of a run
	packedAnswer  = 2 // of a run
	packedPayload = 1 // of a record
)

// RunArgs appends the arguments of one run of [Statements.InsertRuns], which may have ended. If the
// input is large, it also returns its blob, and so for the answer.
func RunArgs(args []any, r *journal.Run, e *journal.End, p *Packer) (all []any, large, largeAnswer *Blob) {
	input, large := p.pack(r.ID, r.Input)
	packed := int64(0)
	if large != nil {
		packed = packedInput
	}
	state, answer, why, ended := int64(r.State), any(nil), any(nil), any(nil)
	if e != nil {
		var bits int64
		state, answer, why, bits, ended, largeAnswer = endColumns(e, p)
		packed |= bits
	}
	until := any(nil)
	if len(r.Key) > 0 {
		until = ms(r.KeyUntil)
	}
	return append(args, r.ID[:], r.Namespace, r.Trigger, r.Revision, int64(r.Level), state, bytes(r.Key), until,
		bytes(input), int64(r.InputHash), packed, r.Created.UnixMilli(), number(int64(r.Port)), text(r.Queue), itemOr(r, r.QueueKey),
		itemOr(r, int64(r.Priority)), itemOr(r, ms(r.Due)), answer, why, ended), large, largeAnswer
}

// itemOr returns v for an item, else nil.
func itemOr(r *journal.Run, v any) any {
	if r.Queue == "" {
		return nil
	}
	return v
}

// ClaimArgs is as [RunArgs], of [Statements.Claim].
func ClaimArgs(args []any, c *journal.Claim) []any {
	unkey := int64(0)
	if c.Unkey {
		unkey = 1
	}
	return append(args, text(c.Revision), c.At.UnixMilli(), unkey, unkey, c.Run[:])
}

// RetryArgs is as [RunArgs], of [Statements.Retry].
func RetryArgs(args []any, r *journal.Retry) []any {
	moved, failures := int64(0), int64(0)
	if r.Revision != "" {
		moved = 1
	}
	if r.Failures {
		failures = 1
	}
	return append(args, text(r.Revision), moved, failures, r.Run[:])
}

// RequeueArgs is as [RunArgs], of [Statements.Requeue].
func RequeueArgs(args []any, r *journal.Requeue, p *Packer) ([]any, *Blob) {
	var blob *Blob
	input, packed := any(nil), any(nil)
	if len(r.Input) > 0 {
		column, large := p.pack(r.Run, r.Input)
		input, packed = column, int64(0)
		if blob = large; blob != nil {
			packed = int64(packedInput)
		}
	}
	forget := int64(0)
	if r.Forget {
		forget = 1
	}
	return append(args, ms(r.Due), int64(r.Attempts), bytes([]byte(r.Error)), input, packed, forget, forget, r.Run[:]), blob
}

// StateOf makes the state of a queue of a row of [Statements.Queues].
func StateOf(row []any) (journal.QueueState, error) {
	c := columns{row: row}
	s := journal.QueueState{Queue: journal.QueueID{Namespace: c.text(), Name: c.text()}, Paused: c.number() != 0, Queued: int(c.number()), Taken: int(c.number()), Oldest: c.time()}
	return s, c.err
}

// TextOf returns the text in the first column of a row.
func TextOf(row []any) (string, error) {
	c := columns{row: row}
	s := c.text()
	return s, c.err
}

// NumberOf returns the number in the first column of a row.
func NumberOf(row []any) (int64, error) {
	c := columns{row: row}
	n := c.number()
	return n, c.err
}

// RecordArgs is as [RunArgs], of [Statements.InsertRecords].
func RecordArgs(args []any, r *journal.Record, p *Packer) ([]any, *Blob) {
	payload, blob := p.pack(r.Run, r.Payload)
	packed := int64(0)
	if blob != nil {
		packed = packedPayload
	}
	key := any(nil)
	if r.Key != 0 {
		key = int64(r.Key)
	}
	return append(args, r.Run[:], int64(r.N), int64(r.Pos), r.Node, int64(r.Type), int64(r.Op), int64(r.Port), bytes(payload),
		int64(r.InputHash), packed, r.At.UnixMilli(), key), blob
}

// EndArgs is as [RunArgs], of [Statements.EndRun].
func EndArgs(args []any, e *journal.End, p *Packer) ([]any, *Blob) {
	state, answer, why, packed, ended, blob := endColumns(e, p)
	return append(args, state, answer, why, packed, ended, e.Run[:]), blob
}

// endColumns returns what an end sets.
func endColumns(e *journal.End, p *Packer) (state int64, answer, why any, packed int64, ended any, blob *Blob) {
	column, blob := p.pack(e.Run, e.Answer)
	if blob != nil {
		packed = packedAnswer
	}
	if e.State >= journal.OK {
		ended = e.At.UnixMilli()
	}
	return int64(e.State), bytes(column), bytes([]byte(e.Error)), packed, ended, blob
}

// BlobArgs is as [RunArgs], of [Statements.PutBlob].
func BlobArgs(args []any, b *Blob) []any {
	return append(args, b.Run[:], b.Hash, b.Body, b.Size)
}

// WaitArgs is as [RunArgs], of [Statements.PutWait].
func WaitArgs(args []any, w *journal.Wait) []any {
	event, key := any(nil), any(nil)
	if w.Event != "" {
		event, key = w.Event, w.Key
	}
	return append(args, w.Run[:], int64(w.Pos), w.Namespace, event, key, ms(w.Due), bytes(w.Token))
}

// SignalArgs is as [RunArgs], of [Statements.PutSignal]. came is when it came, in microseconds
// since 1970: of signals that come one after the other, the number grows.
func SignalArgs(args []any, s *journal.Signal, came int64) []any {
	return append(args, SignalKey(s.Namespace, s.ID), s.Namespace, s.Event, s.Key, bytes(s.Payload), s.Until.UnixMilli(), came)
}

// SignalKey returns what the column id of signals has.
func SignalKey(namespace, id string) []byte { return []byte(namespace + "\x00" + id) }

// RunOf makes a run of a row of [Statements.RunByID], RunByKey or Unfinished.
func RunOf(row []any, p *Packer) (*journal.Run, error) {
	c := columns{row: row}
	r := c.run()
	packed := c.number()
	input, answer := c.bytes(), c.bytes()
	if c.err != nil {
		return nil, c.err
	}
	var errInput, errAnswer error
	r.Input, errInput = p.unpack(input, packed&packedInput != 0)
	r.Answer, errAnswer = p.unpack(answer, packed&packedAnswer != 0)
	if err := errors.Join(errInput, errAnswer); err != nil {
		return nil, fmt.Errorf("run %x: %w", r.ID, err)
	}
	return r, nil
}

// ListedOf makes a run of a row of [Statements.List].
func ListedOf(row []any) (*journal.Run, error) {
	c := columns{row: row}
	r := c.run()
	return r, c.err
}

// RecordOf makes a record of a row of [Statements.Records].
func RecordOf(row []any, p *Packer) (journal.Record, error) {
	c := columns{row: row}
	r := journal.Record{
		Run: c.id(), N: int32(c.number()), Pos: uint64(c.number()), Node: c.text(), Type: journal.RecordType(c.number()), Op: uint8(c.number()),
		Port: int32(c.number()), InputHash: uint64(c.number()), Key: uint64(c.number()), At: c.time(),
	}
	packed := c.number()
	payload := c.bytes()
	if c.err != nil {
		return r, c.err
	}
	var err error
	if r.Payload, err = p.unpack(payload, packed&packedPayload != 0); err != nil {
		return r, fmt.Errorf("record %d of run %x: %w", r.N, r.Run, err)
	}
	return r, nil
}

// WaitOf makes a wait of a row of [Statements.Waiting], Token, Due or Waits.
func WaitOf(row []any) (journal.Wait, error) {
	c := columns{row: row}
	w := journal.Wait{Run: c.id(), Pos: uint64(c.number()), Namespace: c.text(), Event: c.text(), Key: c.text(), Due: c.time(), Token: c.bytes()}
	return w, c.err
}

// SignalOf makes a signal of a row of [Statements.Signals] or Untaken.
func SignalOf(row []any) (journal.Signal, error) {
	c := columns{row: row}
	id := c.bytes()
	s := journal.Signal{Namespace: c.text(), Event: c.text(), Key: c.text(), Payload: c.bytes(), Until: c.time()}
	if c.err != nil {
		return s, c.err
	}
	var ok bool
	if s.ID, ok = strings.CutPrefix(string(id), s.Namespace+"\x00"); !ok {
		return s, fmt.Errorf("signal %q is not of the namespace %q: the journal is damaged", id, s.Namespace)
	}
	return s, nil
}

// TimeOf returns the time in the first column of a row.
func TimeOf(row []any) (time.Time, error) {
	c := columns{row: row}
	t := c.time()
	return t, c.err
}

// KeyOf returns the bytes in the first column of a row.
func KeyOf(row []any) ([]byte, error) {
	c := columns{row: row}
	b := c.bytes()
	return b, c.err
}

// IDOf returns the id in the first column of a row.
func IDOf(row []any) (journal.ID, error) {
	c := columns{row: row}
	id := c.id()
	return id, c.err
}

// columns reads a row from the left. After the first error all is zero.
type columns struct {
	row []any
	at  int
	err error
}

func (c *columns) run() *journal.Run {
	return &journal.Run{ // in the order of the columns
		ID: c.id(), Namespace: c.text(), Trigger: c.text(), Revision: c.text(), Level: uint8(c.number()), State: journal.State(c.number()),
		Key: c.bytes(), KeyUntil: c.time(), InputHash: uint64(c.number()), Error: string(c.bytes()), Resumed: int(c.number()), Created: c.time(), Ended: c.time(), Port: int32(c.number()),
		Retried: int32(c.number()), Moved: c.number() != 0,
		Item: journal.Item{Queue: c.text(), QueueKey: c.text(), Priority: int(c.number()), Due: c.time(), Attempts: int(c.number()), Begun: c.time()},
	}
}

func (c *columns) next() any {
	if c.err != nil {
		return nil
	}
	if c.at == len(c.row) {
		c.err = fmt.Errorf("a row of %d columns is too short", len(c.row))
		return nil
	}
	c.at++
	return c.row[c.at-1]
}

// wrong keeps the error. SQLite keeps what a damaged file has, whatever the column's type.
func (c *columns) wrong(v any) {
	if c.err == nil {
		c.err = fmt.Errorf("column %d has a %T: the journal is damaged", c.at, v)
	}
}

func (c *columns) number() int64 {
	switch v := c.next().(type) {
	case nil:
		return 0
	case int64:
		return v
	default:
		c.wrong(v)
		return 0
	}
}

func (c *columns) text() string {
	switch v := c.next().(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		c.wrong(v)
		return ""
	}
}

func (c *columns) bytes() []byte {
	switch v := c.next().(type) {
	case nil:
		return nil
	case []byte:
		return v
	default:
		c.wrong(v)
		return nil
	}
}

func (c *columns) id() (id journal.ID) {
	b := c.bytes()
	if len(b) == len(id) {
		return journal.ID(b)
	}
	c.wrong(b)
	return id
}

func (c *columns) time() time.Time {
	switch v := c.next().(type) {
	case nil:
		return time.Time{}
	case int64:
		return time.UnixMilli(v).UTC()
	default:
		c.wrong(v)
		return time.Time{}
	}
}

// bytes returns nil for an empty slice: a driver may make either of the two of the other.
func bytes(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// number returns nil for 0.
func number(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// text returns nil for an empty text.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func ms(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}
