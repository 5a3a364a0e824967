package batch

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Batch is a run of events on its way to the receiver. A Send reads it; it is
// the processor's, and must not be kept after Send has returned. Its methods may
// be called from several goroutines.
type Batch struct {
	parts   []part
	count   int
	size    int64 // of the events with their separators
	format  Format
	key     string
	lane    int
	attempt int
	first   time.Time // when its oldest event was added, of the whole batch
	tried   time.Time // first attempt, of the whole batch
	short   bool      // some of its events were unreadable on disk
	known   bool      // that the receiver cannot take all of it
	other   *Batch    // the second half, of the first one of a bisection
	loss    *loss     // why it is to be given up; nil if it is not

	// Of an event that was refused and put aside; see flight.doubt.
	doubted bool   // it is not certain that it is to be given up
	again   bool   // it is to be sent once more
	takes   uint64 // pipeline.mu.takes that would show that the receiver takes others
	seen    uint64 // pipeline.mu.takes when it was last sent

	// stem is the key without what the wanted-th request for some of the events
	// has added.
	stem   string
	wanted int

	chunks []*chunk // of the whole batch

	// parent is the batch this one is a piece of; its memory is the parent's.
	parent *Batch
	// refs counts the processor and each open body: a transport may read a body
	// after the answer has come, until it closes it (net/http says so of
	// RoundTripper). The last one gives the memory back.
	refs   atomic.Int32
	bodies *tally

	packed struct { // the compressed body, kept for further attempts
		sync.Mutex
		body *bytes.Buffer
	}
}

// A part is a run of events of one chunk.
type part struct {
	chunk    *chunk
	from, to int
}

// n is the number of events.
func (x part) n() int { return x.to - x.from }

// bytes are the part's events with their separators.
func (x part) bytes() []byte {
	a := x.chunk.arena
	return a.buf[a.start(x.from):a.ends[x.to-1]]
}

// Key names the batch: the same for each attempt, and another for each batch.
// It has the form producer/epoch/lane/seq, with .0 or .1 behind it for each time
// it was cut in halves and .r for the events of it that the receiver wants
// again. A receiver that remembers the answer it gave to a key takes each event
// once.
func (b *Batch) Key() string { return b.key }

// Len is the number of events.
func (b *Batch) Len() int { return b.count }

// Lane is the lane the batch is sent on, from 0.
func (b *Batch) Lane() int { return b.lane }

// Attempt is the number of the attempt, from 1.
func (b *Batch) Attempt() int { return b.attempt }

// Format is how the body joins the events.
func (b *Batch) Format() Format { return b.format }

// Size is the number of bytes of the body.
func (b *Batch) Size() int64 {
	if b.format == FormatArray {
		return b.size + 1 // two brackets, and no comma behind the last event
	}
	return b.size
}

// Events iterates over the encoded events. Their bytes are valid until Send
// returns.
func (b *Batch) Events() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, x := range b.parts {
			for i := x.from; i < x.to; i++ {
				if !yield(x.chunk.event(i, b.format)) {
					return
				}
			}
		}
	}
}

// event is event i without its separator.
func (c *chunk) event(i int, f Format) []byte {
	end := int(c.arena.ends[i])
	return c.arena.buf[c.arena.start(i) : end-f.separators() : end-f.separators()]
}

// separators is the number of bytes between two events.
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

// Body returns a reader of the batch from its start. Each one must be closed:
// the batch's memory is used again only when all are, however late.
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

// reader reads pieces of the batch's memory, which it keeps from being used
// again until it is closed.
func (b *Batch) reader(pieces [][]byte) io.ReadCloser {
	b.retain()
	b.bodies.open()
	return &body{batch: b, rest: pieces}
}

var errBodyClosed = errors.New("batch: body is closed")

// A body reads a batch. Transports close bodies while they read them, from
// another goroutine, to abort; its lock makes Close wait for the copy that goes
// on, so that no byte is read after it.
type body struct {
	mu    sync.Mutex
	batch *Batch // nil when closed
	rest  [][]byte
}

// Read implements io.Reader.
func (r *body) Read(dst []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.batch == nil {
		return 0, errBodyClosed
	}
	for n < len(dst) && len(r.rest) > 0 {
		k := copy(dst[n:], r.rest[0])
		n += k
		if r.rest[0] = r.rest[0][k:]; len(r.rest[0]) == 0 {
			r.rest = r.rest[1:]
		}
	}
	if n == 0 && len(dst) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close implements io.Closer. Further calls do nothing.
func (r *body) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.batch != nil {
		r.batch.release()
		r.batch.bodies.close()
		r.batch, r.rest = nil, nil
	}
	return nil
}

func (b *Batch) retain() { b.refs.Add(1) }

// release gives the memory back when it was the last to hold it: that of the
// compressed body, and, unless the batch is a piece of another, its chunks'.
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

// piece is a batch of some of b's events, with b's key and suffix.
func (b *Batch) piece(parts []part, suffix string) *Batch {
	p := &Batch{
		parts: parts, format: b.format, key: b.key + suffix, stem: b.key + suffix,
		lane: b.lane, parent: b, bodies: b.bodies,
	}
	for _, x := range parts {
		p.count += x.n()
		p.size += int64(len(x.bytes()))
	}
	b.retain()
	p.refs.Store(1)
	return p
}

// cut cuts a batch before event at, which is not its first.
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

// at is event i of the batch as a part.
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

// compare orders parts of the batch by their place in it.
func (b *Batch) compare(x, y part) int {
	return cmp.Or(cmp.Compare(slices.Index(b.chunks, x.chunk), slices.Index(b.chunks, y.chunk)), cmp.Compare(x.from, y.from))
}

// copies returns the events' bytes for someone to keep.
func copies(parts []part, f Format) [][]byte {
	var all [][]byte
	for _, x := range parts {
		for i := x.from; i < x.to; i++ {
			all = append(all, append([]byte(nil), x.chunk.event(i, f)...))
		}
	}
	return all
}
