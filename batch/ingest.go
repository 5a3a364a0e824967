package batch

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
	"unsafe"
)

// A shard accepts events. Producers on different processors use different shards of a
// lane, so that they rarely wait for each other. An ordered lane has one shard.
type shard struct {
	id   uint16 // index in pipeline.all
	lane *lane
	mu   struct {
		sync.Mutex
		open     *chunk // gets the next event; nil if there is none
		longest  int    // bytes of the longest event in open
		closed   bool
		unsaved  bool   // the spool writer was told that events wait for the disk
		accepted uint64 // events
		base     uint64 // ordinal of the first event of open, or of the next event
	}
	_ [64]byte // keeps the locks of two shards out of one pair of cache lines
}

// Add adds an event, which is encoded before Add returns. If the queue is full, it
// does what Queue.Full says. With PolicyBlock and PolicySpill it waits as long as the
// receiver is away; use AddWait for a limit. It returns nil, ErrFull, ErrTooLarge,
// ErrClosed, or ErrEncode with Encode's error. An event for which it returns nil is
// delivered, or reported by OnDrop or Close.
func (p *Processor[T]) Add(v *T) error {
	_, err := p.add(context.Background(), v, p.pipe.full, false)
	return err
}

// AddWait adds an event like Add, and waits for room until ctx ends. With
// PolicyDropOldest there is always room. With a ctx that has ended it does not wait,
// and adds the event if there is room.
func (p *Processor[T]) AddWait(ctx context.Context, v *T) error {
	_, err := p.add(ctx, v, p.pipe.waitPolicy(), false)
	return err
}

// AddAll adds events in order, each like AddWait, and returns how many it added. It
// stops at the first error.
func (p *Processor[T]) AddAll(ctx context.Context, events []T) (n int, err error) {
	for i := range events {
		if err := p.AddWait(ctx, &events[i]); err != nil {
			return i, err
		}
	}
	return len(events), nil
}

// AddAck adds an event like AddWait, and returns a Ticket to wait until the event is
// on disk or delivered.
func (p *Processor[T]) AddAck(ctx context.Context, v *T) (Ticket, error) {
	return p.add(ctx, v, p.pipe.waitPolicy(), true)
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
		case <-p.pipe.shipper.draining:
			return Ticket{}, ErrClosed
		case <-ctx.Done():
			return Ticket{}, ctx.Err()
		}
	}
}

// lockShard chooses the shard for an event and locks it.
func (p *Processor[T]) lockShard(v *T) *shard {
	lanes := p.pipe.queue.lanes
	l := lanes[0]
	if len(lanes) > 1 {
		l = lanes[spread(p.key(v))%uint64(len(lanes))]
	}
	if len(l.shards) == 1 {
		s := l.shards[0]
		s.mu.Lock()
		return s
	}
	// A pool returns what was last put back on the same processor, so that each
	// processor stays with its own shard. If two share one, the one that finds it
	// locked moves to the next shard and stays there: that saved 15 % of the time
	// of two producers.
	s := p.pipe.shards.Get().(*shard)
	if !s.mu.TryLock() {
		s = l.shards[(int(s.id)+1)%len(l.shards)]
		s.mu.Lock()
	}
	p.pipe.shards.Put(s)
	return s
}

// spread mixes the bits of a key, so that keys with a common factor are spread over
// all lanes (the finalizer of SplitMix64; S. Vigna, 2015).
func spread(k uint64) uint64 {
	k ^= k >> 30
	k *= 0xbf58476d1ce4e5b9
	k ^= k >> 27
	k *= 0x94d049bb133111eb
	return k ^ k>>31
}

// put adds the event to the open chunk of its shard. If there is no room for a chunk
// that it has to open, it adds nothing and returns a channel to wait on.
func (p *Processor[T]) put(v *T, ack bool) (Ticket, <-chan struct{}, error) {
	s := p.lockShard(v)
	defer s.mu.Unlock() // deferred, because Encode may panic
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
	if buf, err = p.pipe.finishEvent(a.buf, buf, err); err != nil {
		p.pipe.rejected.Add(1)
		return Ticket{}, nil, err
	}
	size := len(buf) - from
	if unsafe.SliceData(buf) != unsafe.SliceData(a.buf) {
		// It did not fit, so append moved it elsewhere: it begins the next chunk.
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
			c.receipt = &receipt{notifying: &p.pipe.notifying}
		}
		t = Ticket{c.receipt, len(a.ends) - 1}
	}
	if p.pipe.ahead && !s.mu.unsaved {
		s.mu.unsaved = true
		p.pipe.writer.wake()
	}
	// If the next event would probably not fit, sealing now saves encoding it twice.
	if len(a.ends) == c.slots || cap(a.buf)-len(a.buf) < s.mu.longest {
		p.pipe.seal(s)
	}
	return t, nil, nil
}

// finishEvent checks the result of Encode and appends the separator.
func (p *pipeline) finishEvent(dst, buf []byte, failed error) ([]byte, error) {
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
		return nil, fmt.Errorf("%w: the event contains a newline, which separates events in the format lines", ErrEncode)
	}
	// An Encode that returns a new slice may have left out what was in dst. Its
	// last bytes show that.
	if tail := max(0, from-16); !bytes.Equal(buf[tail:from], dst[tail:]) {
		return nil, fmt.Errorf("%w: the event was not appended to dst", ErrEncode)
	}
	return append(buf, p.sep), nil
}

// open gives the shard a new chunk with room for size bytes. The room is reserved in
// the queue as a whole: so the shared count is updated once for hundreds of events,
// and the limit cannot be passed between its check and the insertion. If there is no
// room, it returns nil and a channel to wait on. The caller holds the lock of the
// shard.
func (p *pipeline) open(s *shard, size int) (*chunk, <-chan struct{}) {
	c := &chunk{
		lane: s.lane, shard: s.id, epoch: p.epoch, base: s.mu.base,
		first: time.Now(), slots: p.chunkEvents, cost: int64(size),
	}
	if room := p.queue.reserve(c); room != nil {
		return nil, room
	}
	c.arena = p.arenas.get(p.chunkEvents, size)
	s.mu.open, s.mu.longest = c, 0
	return c, nil
}

// seal moves the open chunk of the shard into the queue of its lane. The caller holds
// the lock of the shard.
func (p *pipeline) seal(s *shard) {
	c := s.mu.open
	if c == nil {
		return
	}
	s.mu.open = nil
	n := len(c.arena.ends)
	s.mu.base += uint64(n)
	p.queue.enqueue(c, n)
}

// waitPolicy returns the policy of the methods that wait for room.
func (p *pipeline) waitPolicy() Policy {
	if p.full == PolicyDropOldest {
		return PolicyDropOldest
	}
	return PolicyBlock
}

// dropNewest accepts an event and drops it.
func (p *Processor[T]) dropNewest(v *T) error {
	buf, err := p.encode(nil, v)
	if buf, err = p.pipe.finishEvent(nil, buf, err); err != nil {
		p.pipe.rejected.Add(1)
		return err
	}
	s := p.lockShard(v)
	counted := p.pipe.countNewestLocked(s)
	s.mu.Unlock()
	if !counted {
		return ErrClosed
	}
	p.pipe.notifyDropped(Dropped{Reason: ReasonQueueFull, Events: [][]byte{buf[:len(buf)-p.pipe.format.separators()]}}, 1)
	return nil
}

// countNewestLocked counts an event that is accepted and dropped, unless the shard is
// closed. The caller holds the lock of the shard.
func (p *pipeline) countNewestLocked(s *shard) bool {
	if s.mu.closed {
		return false
	}
	s.mu.accepted++
	p.queue.dropNewest()
	return true
}

// dropOldest drops the chunk in memory that has waited longest. It reports false if
// there is none.
func (p *pipeline) dropOldest() bool {
	c := p.queue.takeOldest(&p.work)
	if c == nil {
		return false
	}
	defer p.work.Done()
	p.reportDropped([]part{{c, 0, c.n}}, Dropped{Reason: ReasonQueueFull})
	p.shipper.store.ack(c)
	p.queue.settled(c)
	c.arena.release()
	return true
}

// sealAll queues the open chunks of the lane.
func (p *pipeline) sealAll(l *lane) {
	for _, s := range l.shards {
		s.mu.Lock()
		p.seal(s)
		s.mu.Unlock()
	}
}

// accepted returns how many events the shards of a lane have accepted.
func (p *pipeline) accepted(l *lane) (n uint64) {
	for _, s := range l.shards {
		s.mu.Lock()
		n += s.mu.accepted
		s.mu.Unlock()
	}
	return n
}

// newEvents iterates over the events that open chunks have now: more may be appended
// while they are written.
func (p *pipeline) newEvents(yield func(pendingWrite) bool) {
	for _, sh := range p.all {
		if w := sh.snapshot(); w.chunk != nil && !yield(w) {
			return
		}
	}
}

// snapshot returns the events of the open chunk. Without events, the chunk is nil.
func (s *shard) snapshot() pendingWrite {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.unsaved = false
	c := s.mu.open
	if c == nil || len(c.arena.ends) == 0 {
		return pendingWrite{}
	}
	c.arena.retain()
	return pendingWrite{c, c.arena.events, c.receipt, c.arena}
}
