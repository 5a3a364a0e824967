package batch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/batch/internal/spool"
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
func New[T any](c Config[T]) (*Processor[T], error) {
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
	flights int      // batches on the way
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

// takeLocked takes out the first chunk in memory, before which there may be some
// that are on disk only, of an earlier run.
func (l *lane) takeLocked(c *chunk) {
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

// lookLocked has the next nudge make the dispatcher look at a lane.
func (p *pipeline) lookLocked(l *lane) {
	if !l.looked {
		l.looked = true
		p.mu.look = append(p.mu.look, l)
	}
}

// pressLocked has the dispatcher look at some lanes that can make room, in turn:
// with a thousand of them, a look at all would cost more than the room is worth.
func (p *pipeline) pressLocked() {
	const most = 8
	for found, i := 0, 0; found < most && i < len(p.lanes); i++ {
		l := p.lanes[p.mu.turn]
		p.mu.turn = (p.mu.turn + 1) % len(p.lanes)
		if !l.idleLocked() && p.mayLocked(l) {
			p.lookLocked(l)
			found++
		}
	}
}

// nudge makes the dispatcher look at the lanes that were marked for it.
func (p *pipeline) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// dispatch sends what is due, until quit. It has one timer, which is set for the
// first moment at which something may become due, and none when nothing waits.
func (p *pipeline) dispatch() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := p.step(time.Now())
		timer.Stop()
		var due <-chan time.Time
		if next >= 0 {
			timer.Reset(next)
			due = timer.C
		}
		select {
		case <-p.wake:
		case <-due:
		case <-p.quit:
			return
		}
	}
}

// step starts every batch that is due, and returns how long it takes until the
// next one may be; negative when only a call of nudge can make one due.
func (p *pipeline) step(now time.Time) (next time.Duration) {
	all := p.marked()
	next = -1
	for _, l := range p.lanes {
		if all || l.look || !l.next.IsZero() && !now.Before(l.next) {
			l.look = false
			l.next = p.serve(l, now)
		}
		if l.next.IsZero() {
			continue
		}
		if wait := max(0, l.next.Sub(now)); next < 0 || wait < next {
			next = wait
		}
	}
	return next
}

// marked notes which lanes to look at, or reports that it is all of them.
func (p *pipeline) marked() (all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.mu.look {
		l.look, l.looked = true, false
	}
	clear(p.mu.look)
	p.mu.look = p.mu.look[:0]
	all = p.mu.lookAll
	p.mu.lookAll = false
	return all
}

// serve starts every batch of a lane that is due, and returns when to look at it
// again though nothing has changed; zero for never.
func (p *pipeline) serve(l *lane, now time.Time) (next time.Time) {
	for {
		f, wait := p.form(l, now)
		switch {
		case f != nil:
			p.work.Go(p.labelled("send", f.run))
		case wait < 0:
			return time.Time{}
		default:
			return now.Add(wait)
		}
	}
}

// form makes a flight of the lane's next batch when one is due and may be sent;
// otherwise it returns how long it takes until one may be due, negative for never.
func (p *pipeline) form(l *lane, now time.Time) (*flight, time.Duration) {
	due, open, wait := p.due(l, now)
	if !due {
		return nil, wait
	}
	if open {
		p.sealAll(l)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.takeLocked(l, now)
	if b == nil {
		return nil, -1
	}
	f := &flight{p, l, b, []*Batch{b}}
	l.flights++
	p.mu.flights[f] = struct{}{}
	return f, -1
}

// sealAll queues the lane's open chunks.
func (p *pipeline) sealAll(l *lane) {
	for _, s := range l.shards {
		s.mu.Lock()
		p.seal(s)
		s.mu.Unlock()
	}
}

// due tells whether a batch of the lane is due, and whether the events of its
// open chunks go along; or else how long it takes until one may be.
func (p *pipeline) due(l *lane, now time.Time) (due, open bool, wait time.Duration) {
	moved := p.idle > 0 && p.moved(l)
	p.mu.Lock()
	defer p.mu.Unlock()
	first, any := l.oldestLocked()
	switch {
	case !any, !p.mayLocked(l):
		return false, false, -1
	case p.closing():
		return true, true, 0
	case p.mu.room != nil:
		// Somebody waits for room, for which no other trigger may come: that
		// of a count above the size of the queue, for one.
		return true, l.events < p.count, 0
	case l.queue.len() > 0 && l.queue.front().order <= l.through,
		l.events >= p.count, l.size >= p.bytes,
		l.queue.len() > 0 && l.queue.front().key != "":
		return true, false, 0
	}
	wait = -1
	if p.linger > 0 {
		if wait = first.Add(p.linger).Sub(now); wait <= 0 {
			return true, true, 0
		}
	}
	if p.idle > 0 {
		if moved || l.still.Before(first) {
			l.still = now
		}
		rest := l.still.Add(p.idle).Sub(now)
		if rest <= 0 {
			return true, true, 0
		}
		// Events between now and then are seen only when looked for.
		if rest = min(rest, max(p.idle/4, time.Millisecond)); wait < 0 || rest < wait {
			wait = rest
		}
	}
	return false, false, wait
}

// moved reports whether the lane accepted events since the last call.
func (p *pipeline) moved(l *lane) bool {
	var n uint64
	for _, s := range l.shards {
		s.mu.Lock()
		n += s.mu.accepted
		s.mu.Unlock()
	}
	was := l.seen
	l.seen = n
	return n != was
}

func (p *pipeline) closing() bool {
	select {
	case <-p.draining:
		return true
	default:
		return false
	}
}

// mayLocked reports whether the lane may send another batch.
func (p *pipeline) mayLocked(l *lane) bool {
	return !p.mu.abandoned && l.flights < l.max && !l.halted && (p.mu.barrier == 0 || l.id == 0)
}

// takeLocked makes a batch of the first chunks of the lane's queue, nil when
// they have to wait for the disk.
func (p *pipeline) takeLocked(l *lane, now time.Time) *Batch {
	b := &Batch{format: p.format, lane: l.id, bodies: &p.bodies}
	first := now
	for c := l.queue.front(); c != nil; c = l.queue.front() {
		if p.ahead && !c.wholly() && !p.mu.broken {
			break // the scribe is on it, and nudges
		}
		if len(b.chunks) > 0 && (c.key != "" || b.count+c.n > p.count || b.size+c.size > p.bytes) {
			break
		}
		l.popLocked()
		p.departLocked(c)
		b.chunks = append(b.chunks, c)
		b.parts = append(b.parts, part{c, 0, c.n})
		b.count += c.n
		b.size += c.size
		if c.first.Before(first) {
			first = c.first
		}
		if b.key = c.key; b.key != "" {
			break
		}
	}
	if len(b.chunks) == 0 {
		return nil
	}
	if b.key == "" {
		l.seq++
		b.key = p.batchKey(l.id, l.seq)
	}
	b.stem = b.key
	b.refs.Store(1)
	p.mu.counts.batches++
	p.mu.counts.size.add(float64(b.count))
	p.mu.counts.wait.add(now.Sub(first).Seconds())
	return b
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

// A journal writes to the log, each message at most once a second: what goes
// wrong with one batch goes wrong with thousands.
type journal struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		last    map[string]time.Time
		skipped map[string]int
	}
}

func newJournal(log *slog.Logger) *journal {
	j := &journal{log: log}
	j.mu.last = make(map[string]time.Time)
	j.mu.skipped = make(map[string]int)
	return j
}

func (j *journal) write(level slog.Level, msg string, args ...any) {
	if j.log == nil {
		return
	}
	if skipped, ok := j.turn(msg, time.Now()); ok {
		if skipped > 0 {
			args = append(args, "skipped", skipped)
		}
		j.log.Log(context.Background(), level, msg, args...)
	}
}

func (j *journal) turn(msg string, now time.Time) (skipped int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if last, ok := j.mu.last[msg]; ok && now.Sub(last) < time.Second {
		j.mu.skipped[msg]++
		return 0, false
	}
	skipped = j.mu.skipped[msg]
	j.mu.last[msg] = now
	delete(j.mu.skipped, msg)
	return skipped, true
}

// need returns an error that says what, unless ok.
func need(ok bool, what string) error {
	if ok {
		return nil
	}
	return errors.New("batch: " + what)
}
