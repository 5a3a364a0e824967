package batch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// arenaBytes is the usual size of an arena. It is large enough that the work per
// chunk (a reservation, a lock, an fsync) does not show in the cost of an event,
// and small enough that a few mostly empty arenas do not matter.
const arenaBytes = 64 << 10

// events are encoded events, one after the other.
type events struct {
	buf  []byte
	ends []uint32 // end of each event in buf, with its separator
}

// start returns the offset of event i.
func (e events) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(e.ends[i-1])
}

// empty reports whether event i could not be read from disk.
func (e events) empty(i int) bool { return int(e.ends[i]) == e.start(i) }

// An arena is memory for events. It never grows, so written events do not move
// and can be read without a lock while more are appended.
type arena struct {
	events
	refs atomic.Int32
	pool *sync.Pool // nil if the arena is not reused
}

func (a *arena) retain() { a.refs.Add(1) }

// release drops a reference. The last one gives the arena back to its pool.
func (a *arena) release() {
	switch n := a.refs.Add(-1); {
	case n < 0:
		panic("batch: arena released twice")
	case n == 0 && a.pool != nil:
		a.buf, a.ends = a.buf[:0], a.ends[:0]
		a.pool.Put(a)
	}
}

// arenas makes arenas, and reuses the ones of the usual size.
type arenas struct {
	pool          sync.Pool
	events, bytes int // that fit into one of the usual size
}

func newArenas(events, bytes int) *arenas {
	a := &arenas{events: events, bytes: bytes}
	a.pool.New = func() any { return newArena(events, bytes, &a.pool) }
	return a
}

func newArena(n, bytes int, pool *sync.Pool) *arena {
	return &arena{events: events{make([]byte, 0, bytes), make([]uint32, 0, n)}, pool: pool}
}

// get returns memory for n events with so many bytes.
func (a *arenas) get(n, bytes int) (m *arena) {
	if n <= a.events && bytes <= a.bytes {
		m = a.pool.Get().(*arena)
	} else {
		m = newArena(n, bytes, nil)
	}
	m.refs.Store(1)
	return m
}

// A chunk is a run of events of one shard. It is the unit of accounting, queueing,
// writing and settling. Its events are in memory, on disk, or both.
type chunk struct {
	lane  *lane
	shard uint16
	epoch uint64    // of the processor that accepted the events
	base  uint64    // ordinal of the first event within shard and epoch
	first time.Time // when the first event was added
	cost  int64     // bytes reserved in the queue
	slots int       // events reserved in the queue

	receipt *receipt // made with the first ticket, under the lock of the shard

	// Set when the chunk is sealed; guarded by the lock of the queue.
	order      uint64 // placement in the order of sealing
	n          int    // events
	size       int64  // bytes, with separators
	arena      *arena // nil if the events are on disk only
	queued     bool   // it waits in its lane
	prev, next *chunk // in the list of unsettled chunks
	foreign    bool   // written by a processor with other lanes; see unsettled.foreign

	// key is set for a chunk that is a whole batch: an earlier processor had sent
	// it, or was about to.
	key string

	evicting bool  // it leaves memory once it is durable
	damage   error // why some events could not be read from disk

	written atomic.Int32 // events on disk, from the first
	settled atomic.Bool
	disk    struct { // locked while the chunk is written or read
		sync.Mutex
		records []record
		others  []spool.Position // acknowledged with the records: notes, and records whose fsync failed
		noted   bool             // others has the note of the batch that begins with this chunk
		durable int              // events covered by an fsync, from the first
		stuck   bool             // some records cannot be read now, and stay in the spool
		round   int              // how often the chunk was written from its start again
	}
}

// A record is the place on disk of the events [from, to) of a chunk.
type record struct {
	at       spool.Position
	from, to int
}

// allWritten reports whether all events of a sealed chunk are on disk.
func (c *chunk) allWritten() bool { return int(c.written.Load()) == c.n }
