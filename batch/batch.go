package batch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Batch is a run of events on its way to the receiver. It belongs to the
// processor: a SendFunc reads it and must not keep it after it returns. Methods
// may be called from several goroutines.
type Batch struct {
	parts        []part
	count        int
	size         int64 // of the events with their separators
	format       Format
	key          string
	lane         int
	attempt      int
	first        time.Time // when the oldest event of the whole batch was added
	firstAttempt time.Time // first attempt of the whole batch
	incomplete   bool      // some events could not be read from disk
	mustSplit    bool      // the receiver is known to refuse some of it
	sibling      *Batch    // in the first half of a bisection: the second half
	loss         *loss     // why the events are given up; nil if they are not

	// For an event that was refused and put aside; see transmission.suspect.
	suspected   bool    // the event may be fine, and the receiver at fault
	streak      *streak // that the last attempt is part of
	rechecked   bool    // the event is sent once more
	takesNeeded uint64  // health.taken that shows that the receiver takes others
	takesBefore uint64  // health.taken when it was last sent

	// baseKey is the key without the suffix that counts how often the receiver
	// asked for some of the events again.
	baseKey string
	retries int

	chunks []*chunk // of the whole batch

	// parent is the batch of which this one is a piece. It owns the memory.
	parent *Batch
	// refs counts the processor and each open body: a transport may read a body
	// after the response has come, until it closes it (see http.RoundTripper). The
	// last one releases the memory.
	refs   atomic.Int32
	bodies *openCounter

	packed struct { // the compressed body, kept for further attempts
		sync.Mutex
		body *bytes.Buffer
	}
}

// A part is the events [from, to) of a chunk.
type part struct {
	chunk    *chunk
	from, to int
}

func (p part) n() int { return p.to - p.from }

// bytes returns the events with their separators.
func (p part) bytes() []byte {
	a := p.chunk.arena
	return a.buf[a.start(p.from):a.ends[p.to-1]]
}

// Key identifies the batch. All attempts of a batch have the same key, and no two
// batches share one. The form is producer/epoch/lane/seq. Each cut into halves
// appends .0 or .1, and .r marks the events that the receiver asked for again. A
// receiver that remembers its response to each key takes each event once.
func (b *Batch) Key() string { return b.key }

// Len returns the number of events.
func (b *Batch) Len() int { return b.count }

// Lane returns the lane on which the batch is sent, from 0.
func (b *Batch) Lane() int { return b.lane }

// Attempt returns the number of the attempt, from 1.
func (b *Batch) Attempt() int { return b.attempt }

// Format returns how the body joins the events.
func (b *Batch) Format() Format { return b.format }

// Size returns the length of the body in bytes, before compression.
func (b *Batch) Size() int64 {
	if b.format == FormatArray {
		return b.size + 1 // two brackets, and no comma after the last event
	}
	return b.size
}

// Events iterates over the encoded events. Their bytes are valid until Send
// returns.
func (b *Batch) Events() iter.Seq[[]byte] { return eventsOf(b.parts, b.format) }

// eventsOf iterates over the encoded events of parts, without their separators.
func eventsOf(parts []part, f Format) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, x := range parts {
			for i := x.from; i < x.to; i++ {
				if !yield(x.chunk.event(i, f)) {
					return
				}
			}
		}
	}
}

// event returns event i without its separator.
func (c *chunk) event(i int, f Format) []byte {
	end := int(c.arena.ends[i])
	return c.arena.buf[c.arena.start(i) : end-f.separators() : end-f.separators()]
}

// separators returns the number of bytes between two events.
func (f Format) separators() int {
	if f == FormatRaw {
		return 0
	}
	return 1
}

func (f Format) separator() byte {
	if f == FormatArray {
		return ','
	}
	return '\n'
}

// Body returns a reader of the batch from its start. Close each reader: the memory
// of the batch is reused only when all of them are closed.
func (b *Batch) Body() io.ReadCloser {
	pieces := make([][]byte, 0, len(b.parts)+2)
	if b.format == FormatArray {
		pieces = append(pieces, []byte{'['})
	}
	for _, x := range b.parts {
		pieces = append(pieces, x.bytes())
	}
	if b.format == FormatArray {
		last := &pieces[len(pieces)-1]
		*last = (*last)[:len(*last)-1]
		pieces = append(pieces, []byte{']'})
	}
	return b.reader(pieces)
}

// reader returns a reader of pieces of the batch's memory, which is not reused
// until the reader is closed.
func (b *Batch) reader(pieces [][]byte) io.ReadCloser {
	b.retain()
	b.bodies.add(1)
	return &body{batch: b, rest: pieces}
}

var errBodyClosed = errors.New("batch: body is closed")

// A body reads a batch. To abort, transports close a body from another goroutine
// while they read it. The lock makes Close wait for a Read that is in progress, so
// that no byte is read after Close.
type body struct {
	mu    sync.Mutex
	batch *Batch // nil when closed
	rest  [][]byte
}

func (b *body) Read(dst []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.batch == nil {
		return 0, errBodyClosed
	}
	for n < len(dst) && len(b.rest) > 0 {
		k := copy(dst[n:], b.rest[0])
		n += k
		if b.rest[0] = b.rest[0][k:]; len(b.rest[0]) == 0 {
			b.rest = b.rest[1:]
		}
	}
	if n == 0 && len(dst) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close releases the memory. Further calls do nothing.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.batch != nil {
		b.batch.release()
		b.batch.bodies.add(-1)
		b.batch, b.rest = nil, nil
	}
	return nil
}

// An openCounter counts open bodies. The zero value is ready to use.
type openCounter struct {
	mu struct {
		sync.Mutex
		n    int
		none chan struct{} // closed when n is 0; nil if no goroutine waits
	}
}

func (c *openCounter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.n += n
	if c.mu.n == 0 && c.mu.none != nil {
		close(c.mu.none)
		c.mu.none = nil
	}
}

// wait waits until nothing is open, or ctx ends.
func (c *openCounter) wait(ctx context.Context) {
	select {
	case <-c.zero():
	case <-ctx.Done():
	}
}

func (c *openCounter) zero() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	none := make(chan struct{})
	if c.mu.n == 0 {
		close(none)
		return none
	}
	c.mu.none = none // only Close waits
	return none
}

func (b *Batch) retain() { b.refs.Add(1) }

// release drops a reference. The last one releases the compressed body and the
// memory of the chunks, or the parent's reference if the batch is a piece.
func (b *Batch) release() {
	switch n := b.refs.Add(-1); {
	case n < 0:
		panic("batch: batch released twice")
	case n > 0:
		return
	}
	if b.packed.body != nil {
		packedBuffers.Put(b.packed.body)
		b.packed.body = nil
	}
	if b.parent != nil {
		b.parent.release()
		return
	}
	for _, c := range b.chunks {
		if c.arena != nil {
			c.arena.release()
		}
	}
}

// piece returns a batch of some of b's events, with b's key and the suffix.
func (b *Batch) piece(parts []part, suffix string) *Batch {
	p := &Batch{
		format: b.format, key: b.key + suffix, baseKey: b.key + suffix,
		lane: b.lane, parent: b, bodies: b.bodies,
	}
	p.setParts(parts)
	b.retain()
	p.refs.Store(1)
	return p
}

func (b *Batch) setParts(parts []part) {
	b.parts, b.count, b.size = parts, 0, 0
	for _, x := range parts {
		b.count += x.n()
		b.size += int64(len(x.bytes()))
	}
}

// cut splits a batch before event at, which is not the first.
func (b *Batch) cut(at int) (first, second *Batch) {
	var head, tail []part
	for _, x := range b.parts {
		n := min(x.n(), at)
		at -= n
		if n > 0 {
			head = append(head, part{x.chunk, x.from, x.from + n})
		}
		if x.from+n < x.to {
			tail = append(tail, part{x.chunk, x.from + n, x.to})
		}
	}
	return b.piece(head, ".0"), b.piece(tail, ".1")
}

func (b *Batch) at(i int) part {
	for _, x := range b.parts {
		if n := x.n(); i >= n {
			i -= n
			continue
		}
		return part{x.chunk, x.from + i, x.from + i + 1}
	}
	panic("batch: index beyond the batch")
}

// compare orders parts by their place in the batch.
func (b *Batch) compare(x, y part) int {
	return cmp.Or(cmp.Compare(slices.Index(b.chunks, x.chunk), slices.Index(b.chunks, y.chunk)), cmp.Compare(x.from, y.from))
}

func copies(parts []part, f Format) [][]byte {
	var all [][]byte
	for event := range eventsOf(parts, f) {
		all = append(all, slices.Clone(event))
	}
	return all
}
