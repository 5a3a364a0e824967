package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A Processor takes events one by one and ships them in batches. Its methods
// may be called from any number of goroutines. New makes one; Close ends it.
type Processor[T any] struct {
	pipe   *pipeline
	encode func([]byte, *T) ([]byte, error)
	key    func(*T) uint64
}

// New makes a processor and starts its goroutines, which Close ends. With a
// spool it reads the events that are there and begins to send them. It returns
// everything that is wrong with the configuration, or why the spool's folder
// cannot be used.
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

// A pipeline is a processor without its type of events: everything behind the
// encoding.
//
// Locks are taken in this order, each held briefly and never while calling out:
// a shard's, the pipeline's, a receipt's.
type pipeline struct {
	settings
	lanes   []*lane
	all     []*shard  // of every lane; a shard's id is its place
	shards  sync.Pool // the same, of the one lane that has several
	next    atomic.Uint32
	arenas  sync.Pool
	buffers sync.Pool // of *[]byte, for records
	epoch   uint64

	spool  *spool.Spool // nil without Spool
	scribe *scribe      // nil without a spool

	wake     chan struct{} // to the dispatcher; holds one, for many are as good
	draining chan struct{} // closed when Close begins
	quit     chan struct{} // closed when nothing is to be dispatched any more
	sending  context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup // the dispatcher, the scribe and what ships batches

	closeOnce sync.Once
	closed    Report
	closeErr  error

	bodies   tally // that may still be read
	gate     gate
	limit    *limiter
	rejected atomic.Uint64
	log      *journal

	mu struct {
		sync.Mutex
		events    int           // reserved in the queue
		bytes     int64         // reserved in the queue
		room      chan struct{} // closed when room is made; nil when nobody waits
		look      []*lane       // whose state has changed since the dispatcher looked
		turn      int           // the lane to press next
		lookAll   bool          // that of all lanes has
		order     uint64        // of the last sealed chunk
		oldest    *chunk        // of those not settled, in order of sealing
		newest    *chunk
		flushes   []*flush
		barrier   int // chunks to settle before lanes other than the first go on
		resume    chan struct{}
		unwritten []*chunk // sealed, and to be written to the spool; with WriteAhead
		broken    bool     // the disk does not take events at the moment
		counts    counts
		aside     aside  // of all lanes
		standing  int    // batches that wait for their next attempt
		takes     uint64 // attempts that were taken
		streak    int    // events that failed alone since
		flights   map[*flight]struct{}
		abandoned bool          // what is on the way is Close's
		drained   chan struct{} // closed when Close has nothing to wait for
	}
}

// A lane is one way to the receiver: a queue, and a number of batches that may
// be on the way at once.
type lane struct {
	id     int
	max    int
	shards []*shard

	// Guarded by the pipeline's lock.
	opened  []*chunk // open chunks of the lane's shards
	queue   deque    // sealed chunks
	memory  deque    // those of them that are in memory
	events  int      // in queue
	size    int64    // bytes in queue
	flights int      // batches on the way, and not aside
	aside   int      // batches that let others go first while they wait
	seq     uint64   // of the next batch
	through uint64   // chunks up to this order are sent without waiting for more
	paused  int      // batches on the way that wait for Resume
	halted  bool     // sends nothing more: an event is missing, and Close has begun

	looked bool // is in pipeline.mu.look

	// Owned by the dispatcher.
	look  bool      // something has changed
	next  time.Time // when to look though nothing has changed; zero for never
	seen  uint64    // events ever accepted at the last look, for Trigger.Idle
	still time.Time // since when seen has not changed
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
		l.memory.pop() // it is the first there, too
	}
	l.events -= c.n
	l.size -= c.size
	return c
}

// removeLocked takes out the first chunk in memory, before which there may be some
// that are on disk only, of an earlier run.
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

// oldestLocked returns when the lane's oldest waiting event was added.
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
		quit:     make(chan struct{}),
		limit:    newLimiter(s.lanesMax),
		log:      newJournal(s.logger),
	}
	p.sending, p.cancel = context.WithCancel(context.Background())
	p.mu.resume = make(chan struct{})
	p.mu.flights = make(map[*flight]struct{})
	p.mu.counts.size.least, p.mu.counts.attempts.least = 1, 1
	p.mu.counts.wait.least, p.mu.counts.latency.least = 1e-3, 1e-3
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
	p.mu.lookAll = true
	p.work.Go(p.labelled("dispatch", p.dispatch))
	return p, nil
}

// departLocked moves a chunk's events from what waits to what is on the way.
func (p *pipeline) departLocked(c *chunk) {
	p.mu.counts.flying += uint64(c.n)
	if c.arena == nil {
		p.mu.counts.spooled -= uint64(c.n)
		return
	}
	p.mu.counts.queued -= uint64(c.n)
	p.unreserveLocked(c)
}

// unreserveLocked gives the room of a chunk back to the queue.
func (p *pipeline) unreserveLocked(c *chunk) {
	p.mu.events -= c.slots
	p.mu.bytes -= c.cost
	p.roomLocked()
}

// listLocked appends a sealed chunk to the list of those not settled.
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

// unlistLocked takes a chunk, now settled, out of the list, and ends the flushes
// that waited for it.
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
		p.mu.lookAll = p.mu.lookAll || p.mu.barrier == 0
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

// need returns an error that says what, unless ok.
func need(ok bool, what string) error {
	if ok {
		return nil
	}
	return errors.New("batch: " + what)
}
