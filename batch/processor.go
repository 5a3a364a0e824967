package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A Processor takes events one by one and sends them in batches. Methods may be
// called from several goroutines. Make one with New, and end it with Close.
type Processor[T any] struct {
	pipe   *pipeline
	encode func([]byte, *T) ([]byte, error)
	key    func(*T) uint64
}

// New makes a processor and starts its goroutines, which Close ends. With a spool it
// reads the events in it and begins to send them. The error lists all problems of the
// options, or says why the folder of the spool cannot be used.
func New[T any](c Options[T]) (*Processor[T], error) {
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	p, err := newPipeline(s)
	if err != nil {
		return nil, err
	}
	return &Processor[T]{p, c.Encode, c.Lanes.Key}, nil
}

// A pipeline is a processor without the type of its events: everything after the
// encoding.
//
// Locks are taken in this order: shard, pipeline, receipt. Each is held briefly, and
// never while a function of the user runs.
type pipeline struct {
	settings
	lanes   []*lane
	all     []*shard  // of all lanes; the index is shard.id
	shards  sync.Pool // of *shard, if the only lane has several
	next    atomic.Uint32
	arenas  sync.Pool
	buffers sync.Pool // of *[]byte, for records
	epoch   uint64

	spool  *spool.Spool // nil without Spool
	writer *spoolWriter // nil without a spool

	wake     chan struct{}   // to the dispatcher; capacity 1, since one signal is enough
	draining chan struct{}   // closed when Close begins
	sending  context.Context // ends when Close has sent what it could
	cancel   context.CancelFunc
	work     sync.WaitGroup // the dispatcher, the spool writer and the flights

	notifying sync.WaitGroup // the goroutines of Ticket.Notify

	closeOnce sync.Once
	closed    Report
	closeErr  error

	bodies   openCounter // open readers of batches
	throttle *throttle
	evidence *evidence
	rejected atomic.Uint64

	mu struct {
		sync.Mutex
		events    int           // reserved in the queue
		bytes     int64         // reserved in the queue
		room      chan struct{} // closed when room is made; nil if no producer waits
		dirty     []*lane       // whose state has changed since the dispatcher checked them
		cursor    int           // the lane at which makeRoomLocked continues
		allDirty  bool          // the state of all lanes has changed
		order     uint64        // of the last sealed chunk
		oldest    *chunk        // of the unsettled ones, in the order of sealing
		newest    *chunk
		flushes   []*flush
		barrier   int      // chunks to settle before lanes other than the first continue
		unwritten []*chunk // sealed, and to be written to the spool; with WriteAhead
		broken    bool     // the disk does not take events now
		counts    counts
		aside     aside // of all lanes
		waiting   int   // batches that wait for their next attempt
		flights   map[*flight]struct{}
		abandoned bool          // batches on the way belong to Close
		drained   chan struct{} // closed when Close has nothing left to wait for
	}
}

// A lane is a queue with a limit of batches that are sent concurrently.
type lane struct {
	id     int
	max    int
	shards []*shard

	// Guarded by the lock of the pipeline.
	opened  []*chunk // open chunks of the shards
	queue   deque    // sealed chunks
	memory  deque    // those of them that are in memory
	events  int      // in queue
	size    int64    // bytes in queue
	flights int      // batches on the way, and not aside
	aside   int      // batches that wait for an attempt and let others go first
	seq     uint64   // of the next batch
	through uint64   // chunks up to this order are sent without waiting for full batches
	paused  int      // batches on the way that wait for Resume
	halted  bool     // sends nothing more, because an event is missing and Close has begun

	inDirty bool // the lane is in pipeline.mu.dirty

	// Owned by the dispatcher.
	dirty          bool      // something has changed
	next           time.Time // when to check the lane if nothing changes; zero: never
	acceptedBefore uint64    // events accepted until the last check, for Trigger.Idle
	unchangedSince time.Time // since when seen has not changed
}

func (l *lane) idleLocked() bool { return len(l.opened) == 0 && l.queue.len() == 0 }

func (l *lane) pushLocked(c *chunk) {
	c.queued = true
	l.queue.push(c)
	if c.arena != nil {
		l.memory.push(c)
	}
	l.events += c.n
	l.size += c.size
}

func (l *lane) popLocked() *chunk {
	c := l.queue.pop()
	c.queued = false
	if c.arena != nil {
		l.memory.pop() // it is the first of them too
	}
	l.events -= c.n
	l.size -= c.size
	return c
}

// removeLocked removes the first chunk in memory. Chunks of an earlier run, which are
// on disk only, may precede it in the queue.
func (l *lane) removeLocked(c *chunk) {
	if c == l.queue.front() {
		l.popLocked()
		return
	}
	l.queue.remove(c)
	l.memory.pop()
	c.queued = false
	l.events -= c.n
	l.size -= c.size
}

// oldestLocked returns when the oldest waiting event of the lane was added.
func (l *lane) oldestLocked() (first time.Time, ok bool) {
	if c := l.queue.front(); c != nil {
		first, ok = c.first, true
	}
	for _, c := range l.opened {
		if !ok || c.first.Before(first) {
			first, ok = c.first, true
		}
	}
	return first, ok
}

func newPipeline(s settings) (*pipeline, error) {
	p := &pipeline{
		settings: s,
		epoch:    uint64(time.Now().UnixNano()),
		wake:     make(chan struct{}, 1),
		draining: make(chan struct{}),
		throttle: newThrottle(s.lanesMax),
		evidence: newEvidence(),
	}
	p.sending, p.cancel = context.WithCancel(context.Background())
	p.mu.flights = make(map[*flight]struct{})
	p.mu.counts.size.least, p.mu.counts.attempts.least = 1, 1
	p.mu.counts.wait.least = 1e-3
	p.arenas.New = func() any {
		return &arena{
			events: events{make([]byte, 0, p.chunkBytes), make([]uint32, 0, p.chunkEvents)},
			pool:   &p.arenas,
		}
	}
	p.buffers.New = func() any { return new([]byte) }
	for i := range s.laneCount {
		l := &lane{id: i, max: s.laneFlights}
		for range s.laneShards {
			sh := &shard{id: uint16(len(p.all)), lane: l}
			l.shards = append(l.shards, sh)
			p.all = append(p.all, sh)
		}
		p.lanes = append(p.lanes, l)
	}
	p.shards.New = func() any {
		return p.all[int(p.next.Add(1))%len(p.all)]
	}
	if s.disk != nil {
		if err := p.openSpool(); err != nil {
			p.cancel()
			return nil, err
		}
	}
	p.mu.allDirty = true
	p.work.Go(p.labeled("dispatch", p.dispatch))
	return p, nil
}

// markInFlightLocked counts the events of a waiting chunk as on the way.
func (p *pipeline) markInFlightLocked(c *chunk) {
	p.mu.counts.InFlight += uint64(c.n)
	if c.arena == nil {
		p.mu.counts.Spooled -= uint64(c.n)
		return
	}
	p.mu.counts.Queued -= uint64(c.n)
	p.unreserveLocked(c)
}

// unreserveLocked gives the room of a chunk back to the queue.
func (p *pipeline) unreserveLocked(c *chunk) {
	p.mu.events -= c.slots
	p.mu.bytes -= c.cost
	p.roomLocked()
}

// listLocked appends a sealed chunk to the list of unsettled chunks.
func (p *pipeline) listLocked(c *chunk) {
	p.mu.order++
	c.order = p.mu.order
	c.prev = p.mu.newest
	if c.prev != nil {
		c.prev.next = c
	} else {
		p.mu.oldest = c
	}
	p.mu.newest = c
}

// unlistLocked removes a settled chunk from the list, and ends the flushes that
// waited for it.
func (p *pipeline) unlistLocked(c *chunk) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		p.mu.oldest = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		p.mu.newest = c.prev
	}
	c.prev, c.next = nil, nil
	if c.foreign {
		p.mu.barrier--
		p.mu.allDirty = p.mu.allDirty || p.mu.barrier == 0
	}
	rest := p.mu.flushes[:0]
	for _, f := range p.mu.flushes {
		if p.mu.oldest == nil || p.mu.oldest.order > f.through {
			close(f.done)
			continue
		}
		rest = append(rest, f)
	}
	clear(p.mu.flushes[len(rest):])
	p.mu.flushes = rest
}

// need returns an error with the text, unless ok.
func need(ok bool, what string) error {
	if ok {
		return nil
	}
	return errors.New("batch: " + what)
}
