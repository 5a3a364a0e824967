package batch

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
	"unsafe"
)

// A shard takes events. Producers on different processors use different shards
// of a lane, so that they seldom wait for each other; what is ordered uses one.
type shard struct {
	id   uint16 // among all shards of the processor
	lane *lane
	mu   struct {
		sync.Mutex
		open     *chunk // takes the next event; nil until there is one
		longest  int    // bytes of open's longest event
		closed   bool
		unsaved  bool   // the scribe was told that events wait for the disk
		accepted uint64 // events
		base     uint64 // ordinal of open's first event, or of the next one's
	}
	_ [64]byte // keeps two shards' locks out of one pair of cache lines
}

// Add adds an event, which is encoded before Add returns. When the queue is
// full, it does what Queue.Full says; under Block and Spill it waits, for as long
// as the receiver is away: AddWait has a limit. It returns nil, ErrFull,
// ErrTooLarge, ErrClosed, or ErrEncode around Encode's error. An event for which
// it returns nil is delivered, or reported by OnDrop or Close.
func (p *Processor[T]) Add(v *T) error {
	_, err := p.add(context.Background(), v, p.pipe.full, false)
	return err
}

// AddWait adds an event as Add does, and waits for room, if need be, until ctx
// ends. Under DropOldest there is always room. With a ctx that has ended it does
// not wait, and adds the event if there is room.
func (p *Processor[T]) AddWait(ctx context.Context, v *T) error {
	_, err := p.add(ctx, v, p.pipe.patient(), false)
	return err
}

// AddAll adds events in order, each as AddWait does, and returns how many it has
// added: all of them, or those before the one that the error is about.
func (p *Processor[T]) AddAll(ctx context.Context, events []T) (n int, err error) {
	for i := range events {
		if err := p.AddWait(ctx, &events[i]); err != nil {
			return i, err
		}
	}
	return len(events), nil
}

// AddAck adds an event as AddWait does, and returns a Ticket that tells when
// the event is on disk or delivered.
func (p *Processor[T]) AddAck(ctx context.Context, v *T) (Ticket, error) {
	return p.add(ctx, v, p.pipe.patient(), true)
}

func (p *Processor[T]) add(ctx context.Context, v *T, full Policy, ack bool) (Ticket, error) {
	for {
		t, room, err := p.put(v, ack)
		if room == nil {
			return t, err
		}
		switch full {
		case PolicyReject:
			p.pipe.rejected.Add(1)
			return Ticket{}, ErrFull
		case PolicyDropNewest:
			return Ticket{}, p.dropNewest(v)
		case PolicyDropOldest:
			if p.pipe.dropOldest() {
				continue
			}
		}
		select {
		case <-room:
		case <-p.pipe.draining:
			return Ticket{}, ErrClosed
		case <-ctx.Done():
			return Ticket{}, ctx.Err()
		}
	}
}

// enter chooses the shard for an event, and returns it locked.
func (p *Processor[T]) enter(v *T) *shard {
	lanes := p.pipe.lanes
	l := lanes[0]
	if len(lanes) > 1 {
		l = lanes[spread(p.key(v))%uint64(len(lanes))]
	}
	if len(l.shards) == 1 {
		s := l.shards[0]
		s.mu.Lock()
		return s
	}
	// A pool hands out what was last put back on the same processor, so that
	// each processor keeps to a shard of its own. Where two have come to share
	// one, who finds it locked moves on, and stays there: that took 15 % of the
	// time of two producers off.
	s := p.pipe.shards.Get().(*shard)
	if !s.mu.TryLock() {
		s = l.shards[(int(s.id)+1)%len(l.shards)]
		s.mu.Lock()
	}
	p.pipe.shards.Put(s)
	return s
}

// spread mixes the bits of a key, so that keys with a common factor do not meet
// in few lanes (the finalizer of SplitMix64; S. Vigna, 2015).
func spread(k uint64) uint64 {
	k ^= k >> 30
	k *= 0xbf58476d1ce4e5b9
	k ^= k >> 27
	k *= 0x94d049bb133111eb
	return k ^ k>>31
}

// put adds the event to the shard's open chunk. When a chunk has to be opened and
// there is no room for one, it adds nothing and returns what to wait for.
func (p *Processor[T]) put(v *T, ack bool) (Ticket, <-chan struct{}, error) {
	s := p.enter(v)
	defer s.mu.Unlock() // deferred, for the caller's Encode may panic
	if s.mu.closed {
		return Ticket{}, nil, ErrClosed
	}
	c := s.mu.open
	if c == nil {
		var room <-chan struct{}
		if c, room = p.pipe.open(s, p.pipe.chunkBytes); c == nil {
			return Ticket{}, room, nil
		}
	}
	a := c.arena
	from := len(a.buf)
	buf, err := p.encode(a.buf, v)
	if buf, err = p.pipe.finish(a.buf, buf, err); err != nil {
		p.pipe.rejected.Add(1)
		return Ticket{}, nil, err
	}
	size := len(buf) - from
	if unsafe.SliceData(buf) != unsafe.SliceData(a.buf) {
		// It did not fit, so that append moved it elsewhere: it begins the
		// next chunk.
		if size > p.pipe.largest {
			p.pipe.rejected.Add(1)
			return Ticket{}, nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, size-p.pipe.format.separators(), p.pipe.largest-p.pipe.format.separators())
		}
		p.pipe.seal(s)
		var room <-chan struct{}
		if c, room = p.pipe.open(s, max(size, p.pipe.chunkBytes)); c == nil {
			return Ticket{}, room, nil
		}
		a = c.arena
		buf = append(a.buf, buf[from:]...)
	}
	a.buf = buf
	a.ends = append(a.ends, uint32(len(buf)))
	s.mu.accepted++
	s.mu.longest = max(s.mu.longest, size)
	var t Ticket
	if ack {
		if c.receipt == nil {
			c.receipt = new(receipt)
		}
		t = Ticket{c.receipt, len(a.ends) - 1}
	}
	if p.pipe.ahead && !s.mu.unsaved {
		s.mu.unsaved = true
		p.pipe.scribe.nudge()
	}
	// Sealing when the next event would probably not fit saves encoding it for
	// nothing.
	if len(a.ends) == c.slots || cap(a.buf)-len(a.buf) < s.mu.longest {
		p.pipe.seal(s)
	}
	return t, nil, nil
}

// finish checks what Encode made of dst and puts the separator behind it.
func (p *pipeline) finish(dst, buf []byte, failed error) ([]byte, error) {
	from := len(dst)
	if failed != nil {
		return nil, fmt.Errorf("%w: %w", ErrEncode, failed)
	}
	if len(buf) <= from {
		return nil, fmt.Errorf("%w: nothing was appended", ErrEncode)
	}
	if p.format == FormatRaw {
		return buf, nil
	}
	if p.format == FormatLines && bytes.IndexByte(buf[from:], '\n') >= 0 {
		return nil, fmt.Errorf("%w: the event holds a newline, which separates events in the format lines", ErrEncode)
	}
	// When Encode has moved the event, a mistaken one may have left out what
	// was there before; its last bytes tell.
	if tail := max(0, from-16); !bytes.Equal(buf[tail:from], dst[tail:]) {
		return nil, fmt.Errorf("%w: the event was not appended to dst", ErrEncode)
	}
	return append(buf, p.sep), nil
}

// open gives the shard a new chunk, with room for size bytes, reserved in the
// queue as a whole: that makes one update of the shared count for hundreds of
// events, and no moment between the check of the limit and the insertion. It
// returns nil and what to wait for when there is no room. The caller holds the
// shard's lock.
func (p *pipeline) open(s *shard, size int) (*chunk, <-chan struct{}) {
	c := &chunk{
		lane: s.lane, shard: s.id, epoch: p.epoch, base: s.mu.base,
		first: time.Now(), slots: p.chunkEvents, cost: int64(size),
	}
	room, wake := p.reserve(c)
	if wake {
		p.nudge()
	}
	if room != nil {
		return nil, room
	}
	c.arena = p.arena(size)
	s.mu.open, s.mu.longest = c, 0
	return c, nil
}

// reserve takes room in the queue for c, or returns what to wait for. It tells
// whether the dispatcher should look: c's lane was empty, or somebody waits.
func (p *pipeline) reserve(c *chunk) (room <-chan struct{}, wake bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.events+c.slots > p.maxEvents || p.mu.bytes+c.cost > p.maxBytes {
		if p.mu.room == nil { // later ones have nothing new to tell
			p.mu.room = make(chan struct{})
			p.pressLocked()
			wake = true
			if p.spills {
				p.scribe.nudge()
			}
		}
		return p.mu.room, wake
	}
	p.mu.events += c.slots
	p.mu.bytes += c.cost
	if wake = c.lane.idleLocked(); wake {
		p.lookLocked(c.lane)
	}
	c.lane.opened = append(c.lane.opened, c)
	return nil, wake
}

// arena returns memory for size bytes of events.
func (p *pipeline) arena(size int) *arena {
	var a *arena
	if size > p.chunkBytes {
		a = &arena{events: events{make([]byte, 0, size), make([]uint32, 0, p.chunkEvents)}}
	} else {
		a = p.arenas.Get().(*arena)
	}
	a.refs.Store(1)
	return a
}

// seal closes the shard's open chunk and puts it into its lane's queue. The
// caller holds the shard's lock.
func (p *pipeline) seal(s *shard) {
	c := s.mu.open
	if c == nil {
		return
	}
	s.mu.open = nil
	n := len(c.arena.ends)
	s.mu.base += uint64(n)
	if p.enqueue(c, n) {
		p.nudge()
	}
}

// enqueue gives back the room c did not use and queues c; one without events
// goes away. It reports whether the dispatcher should look at the lane.
func (p *pipeline) enqueue(c *chunk, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := c.lane
	for i, o := range l.opened {
		if o == c {
			l.opened = append(l.opened[:i], l.opened[i+1:]...)
			break
		}
	}
	unused := c.slots - n
	p.mu.events -= unused
	c.slots, c.n, c.size = n, n, int64(len(c.arena.buf))
	if cost := int64(cap(c.arena.buf)); cost < c.cost {
		p.mu.bytes -= c.cost - cost
		c.cost = cost
	}
	if n == 0 {
		p.mu.bytes -= c.cost
		p.roomLocked()
		c.arena.release()
		return false
	}
	if unused > 0 {
		p.roomLocked()
	}
	p.listLocked(c)
	p.mu.counts.queued += uint64(n)
	l.pushLocked(c)
	if p.ahead {
		p.mu.unwritten = append(p.mu.unwritten, c)
	}
	if p.ahead || p.spills && p.mu.room != nil {
		p.scribe.nudge()
	}
	if l.events < p.count && l.size < p.bytes {
		return false
	}
	p.lookLocked(l)
	return true
}

// roomLocked wakes the producers that wait for room.
func (p *pipeline) roomLocked() {
	if p.mu.room != nil {
		close(p.mu.room)
		p.mu.room = nil
	}
}

// patient is the policy of those who wait.
func (p *pipeline) patient() Policy {
	if p.full == PolicyDropOldest {
		return PolicyDropOldest
	}
	return PolicyBlock
}

// dropNewest accepts an event and drops it.
func (p *Processor[T]) dropNewest(v *T) error {
	buf, err := p.encode(nil, v)
	if buf, err = p.pipe.finish(nil, buf, err); err != nil {
		p.pipe.rejected.Add(1)
		return err
	}
	s := p.enter(v)
	counted := p.pipe.countNewestLocked(s)
	s.mu.Unlock()
	if !counted {
		return ErrClosed
	}
	p.pipe.tell(Dropped{Reason: ReasonQueueFull, Events: [][]byte{buf[:len(buf)-p.pipe.format.separators()]}}, 1)
	return nil
}

// countNewestLocked counts an event that is accepted and dropped, unless the
// shard, which the caller has locked, is closed.
func (p *pipeline) countNewestLocked(s *shard) bool {
	if s.mu.closed {
		return false
	}
	s.mu.accepted++
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.counts.full++
	return true
}

// dropOldest drops the chunk in memory that has waited longest. It reports false
// when none waits.
func (p *pipeline) dropOldest() bool {
	c := p.takeOldest()
	if c == nil {
		return false
	}
	defer p.work.Done()
	p.report([]part{{c, 0, c.n}}, Dropped{Reason: ReasonQueueFull})
	p.forget(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unlistLocked(c)
	c.arena.release()
	return true
}

// takeOldest takes the chunk that has waited longest out of its lane, and counts
// its events as dropped. Once Close has begun, what waits is Close's, and it
// returns nil. Otherwise Close waits for the caller's call of work.Done.
func (p *pipeline) takeOldest() *chunk {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing() {
		return nil
	}
	var oldest *chunk
	for _, l := range p.lanes {
		if c := l.memory.front(); c != nil && (oldest == nil || c.order < oldest.order) {
			oldest = c
		}
	}
	if oldest == nil {
		return nil
	}
	p.work.Add(1) // the dispatcher is still at work, too
	oldest.lane.removeLocked(oldest)
	p.departLocked(oldest)
	p.mu.counts.drop(oldest.n, ReasonQueueFull)
	return oldest
}
