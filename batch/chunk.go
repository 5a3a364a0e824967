package batch

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// arenaBytes is the usual size of an arena: large enough that what is done once
// for each chunk (a reservation, a lock, an fsync) does not show in the cost of
// an event, small enough that a few mostly empty ones do not matter.
const arenaBytes = 64 << 10

// events are encoded events, one after the other.
type events struct {
	buf  []byte
	ends []uint32 // end of each event in buf, its separator included
}

// start is where event i begins.
func (e events) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(e.ends[i-1])
}

// An arena is memory for events. It never grows, so that what was written stays
// where it is and can be read, without a lock, while more is appended behind it.
type arena struct {
	events
	refs atomic.Int32
	pool *sync.Pool // nil when the arena is not to be used again
}

func (a *arena) retain() { a.refs.Add(1) }

// release gives the memory back when nobody else holds it.
func (a *arena) release() {
	switch n := a.refs.Add(-1); {
	case n < 0:
		panic("batch: arena released twice")
	case n == 0 && a.pool != nil:
		a.buf, a.ends = a.buf[:0], a.ends[:0]
		a.pool.Put(a)
	}
}

// A chunk is a run of events of one shard: what is accounted for, queued,
// written to disk and settled as one. Its events are in memory, on disk, or
// both.
type chunk struct {
	lane  *lane
	shard uint16
	epoch uint64    // of the processor that accepted the events
	base  uint64    // ordinal of the first event, within shard and epoch
	first time.Time // when the first event was added
	cost  int64     // bytes reserved in the queue
	slots int       // events reserved in the queue

	receipt *receipt // made with the first ticket, under the shard's lock

	// Set when the chunk is sealed; guarded by the pipeline's lock.
	order      uint64 // place in the order of sealing
	n          int    // events
	size       int64  // bytes, separators included
	arena      *arena // nil when the events are on disk only
	queued     bool   // waits in its lane
	prev, next *chunk // in the list of chunks that are not settled
	foreign    bool   // comes from a processor with other lanes: see pipeline.mu.barrier

	// key is the batch that this chunk alone makes up: it was sent, or was
	// about to be, by a processor before this one. Empty otherwise.
	key string

	evicting bool  // is to leave memory once it is durable
	damage   error // why some events could not be read from disk

	written atomic.Int32 // events on disk, from the first
	settled atomic.Bool
	disk    struct { // held while the chunk is written or read
		sync.Mutex
		records []record
		others  []spool.Position // records to acknowledge with these: notes, and what an fsync failed for
		noted   bool             // others has the note of the batch that the chunk is the first of
		durable int              // events on disk for certain, from the first
		stuck   bool             // some records cannot be read at the moment, and stay
		round   int              // how often the chunk has been begun from its start again
	}
}

// A record is where some of a chunk's events, [from, to), are on disk.
type record struct {
	at       spool.Position
	from, to int
}

// wholly reports whether every event of a sealed chunk is on disk.
func (c *chunk) wholly() bool { return int(c.written.Load()) == c.n }

// A deque is a queue of chunks, which can also be walked from its end.
type deque struct {
	items []*chunk
	head  int
}

func (q *deque) len() int { return len(q.items) - q.head }

func (q *deque) front() *chunk {
	if q.len() == 0 {
		return nil
	}
	return q.items[q.head]
}

func (q *deque) push(c *chunk) {
	if q.head > 32 && q.head*2 >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, c)
}

func (q *deque) pop() *chunk {
	c := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return c
}

// remove takes out a chunk that is near the end.
func (q *deque) remove(c *chunk) {
	for i := len(q.items) - 1; i >= q.head; i-- {
		if q.items[i] == c {
			q.items = slices.Delete(q.items, i, i+1)
			return
		}
	}
}

// waiting are the chunks in the queue, oldest first.
func (q *deque) waiting() []*chunk { return q.items[q.head:] }
