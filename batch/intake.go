package batch

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// An intake accepts events: it puts them into the open chunks of shards, and passes these
// on when they are full or due.
type intake struct {
	*settings
	shards    []*shard  // of all lanes; the index is shard.id
	idle      sync.Pool // of *shard, if the only lane has several
	next      atomic.Uint32
	arenas    *arenas
	env       intakeEnv
	rejected  atomic.Uint64
	notifying sync.WaitGroup // the goroutines of Ticket.Notify
}

// An intakeEnv is what an intake needs of its pipeline. All are called with the lock of a
// shard held.
type intakeEnv struct {
	reserve func(c *chunk) (room <-chan struct{}) // takes room for c, or returns a channel to wait on
	enqueue func(c *chunk, n int)                 // takes c, which has n events
	unsaved func()                                // with WriteAhead: events wait for the disk
	dropped func()                                // an event was accepted and dropped
}

// A shard accepts events. Producers on different processors use different shards of a
// lane, so that they rarely wait for each other. An ordered lane has one shard.
type shard struct {
	id   uint16 // index in intake.shards
	lane *lane
	mu   struct {
		sync.Mutex
		open     *chunk // gets the next event; nil if there is none
		longest  int    // bytes of the longest event in open
		closed   bool
		unsaved  bool   // the spool writer was woken for events that wait for the disk
		accepted uint64 // events
		base     uint64 // ordinal of the first event of open, or of the next event
	}
	_ [64]byte // keeps the locks of two shards out of one pair of cache lines
}

func newIntake(s *settings, lanes []*lane, arenas *arenas, env intakeEnv) *intake {
	in := &intake{settings: s, arenas: arenas, env: env}
	for _, l := range lanes {
		for range s.laneShards {
			in.shards = append(in.shards, &shard{id: uint16(len(in.shards)), lane: l})
		}
	}
	in.idle.New = func() any {
		return in.shards[int(in.next.Add(1))%len(in.shards)]
	}
	return in
}

func (in *intake) of(lane int) []*shard {
	return in.shards[lane*in.laneShards : (lane+1)*in.laneShards]
}

// lock chooses the shard for an event with a key, and locks it.
func (in *intake) lock(key uint64) *shard {
	if in.laneShards == 1 {
		s := in.shards[0]
		if len(in.shards) > 1 {
			s = in.shards[spread(key)%uint64(len(in.shards))]
		}
		s.mu.Lock()
		return s
	}
	// A pool returns what was last put back on the same processor, so that each
	// processor stays with its own shard. If two share one, the one that finds it
	// locked moves to the next shard and stays there: that saved 15 % of the time
	// of two producers.
	s := in.idle.Get().(*shard)
	if !s.mu.TryLock() {
		s = in.shards[(int(s.id)+1)%len(in.shards)]
		s.mu.Lock()
	}
	in.idle.Put(s)
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

// begin opens a chunk for a shard that has none, as after close. If there is no room, it
// returns a channel to wait on. The caller holds the lock of the shard.
func (in *intake) begin(s *shard) (room <-chan struct{}, err error) {
	if s.mu.closed {
		return nil, ErrClosed
	}
	return in.open(s, in.chunkBytes), nil
}

// add adds the event that Encode has appended to the memory of the open chunk. If there is no room
// for a chunk that has to be opened, it adds nothing and returns a channel to wait on.
// The caller holds the lock of the shard, since it has read that memory.
func (in *intake) add(s *shard, buf []byte, failed error, ack bool) (Ticket, <-chan struct{}, error) {
	c := s.mu.open
	a := c.arena
	from := len(a.buf)
	buf, err := in.finishEvent(a.buf, buf, failed)
	if err != nil {
		return Ticket{}, nil, err
	}
	size := len(buf) - from
	if unsafe.SliceData(buf) != unsafe.SliceData(a.buf) {
		// It did not fit, so append moved it elsewhere: it begins the next chunk.
		if size > in.largest {
			return Ticket{}, nil, in.reject("%w: %d bytes, the limit is %d", ErrTooLarge, size-in.format.separators(), in.largest-in.format.separators())
		}
		in.seal(s)
		if room := in.open(s, max(size, in.chunkBytes)); room != nil {
			return Ticket{}, room, nil
		}
		c = s.mu.open
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
			c.receipt = &receipt{notifying: &in.notifying}
		}
		t = Ticket{c.receipt, len(a.ends) - 1}
	}
	if in.ahead && !s.mu.unsaved {
		s.mu.unsaved = true
		in.env.unsaved()
	}
	// If the next event would probably not fit, sealing now saves encoding it twice.
	if len(a.ends) == c.slots || cap(a.buf)-len(a.buf) < s.mu.longest {
		in.seal(s)
	}
	return t, nil, nil
}

// dropNewest accepts an event that was encoded into new memory, and drops it.
func (in *intake) dropNewest(key uint64, buf []byte, failed error) error {
	buf, err := in.finishEvent(nil, buf, failed)
	if err != nil {
		return err
	}
	if !in.countDropped(key) {
		return ErrClosed
	}
	in.notifyDropped(Dropped{Reason: ReasonQueueFull, Events: [][]byte{buf[:len(buf)-in.format.separators()]}}, 1)
	return nil
}

// countDropped counts an event that is accepted and dropped. It reports false if the
// intake is closed.
func (in *intake) countDropped(key uint64) bool {
	s := in.lock(key)
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	s.mu.accepted++
	in.env.dropped()
	return true
}

// reject counts an event that is not accepted, and returns why.
func (in *intake) reject(format string, args ...any) error {
	in.rejected.Add(1)
	return fmt.Errorf(format, args...)
}

// finishEvent checks the result of Encode and appends the separator.
func (in *intake) finishEvent(dst, buf []byte, failed error) ([]byte, error) {
	from := len(dst)
	if failed != nil {
		return nil, in.reject("%w: %w", ErrEncode, failed)
	}
	if len(buf) <= from {
		return nil, in.reject("%w: nothing was appended", ErrEncode)
	}
	if in.format == FormatRaw {
		return buf, nil
	}
	if in.format == FormatLines && bytes.IndexByte(buf[from:], '\n') >= 0 {
		return nil, in.reject("%w: the event contains a newline, which separates events in the format lines", ErrEncode)
	}
	// An Encode that returns a new slice may have left out what was in dst. Its
	// last bytes show that.
	if tail := max(0, from-16); !bytes.Equal(buf[tail:from], dst[tail:]) {
		return nil, in.reject("%w: the event was not appended to dst", ErrEncode)
	}
	return append(buf, in.sep), nil
}

// open gives the shard a new chunk with room for size bytes. The room is reserved in
// the queue as a whole: so the shared count is updated once for hundreds of events,
// and the limit cannot be passed between its check and the insertion. If there is no
// room, it returns a channel to wait on. The caller holds the lock of the shard.
func (in *intake) open(s *shard, size int) (room <-chan struct{}) {
	c := &chunk{
		lane: s.lane, shard: s.id, epoch: in.epoch, base: s.mu.base,
		first: time.Now(), slots: in.chunkEvents, cost: int64(size),
	}
	if room := in.env.reserve(c); room != nil {
		return room
	}
	c.arena = in.arenas.get(in.chunkEvents, size)
	s.mu.open, s.mu.longest = c, 0
	return nil
}

// seal passes the open chunk of the shard on. The caller holds the lock of the shard.
func (in *intake) seal(s *shard) {
	c := s.mu.open
	if c == nil {
		return
	}
	s.mu.open = nil
	n := len(c.arena.ends)
	s.mu.base += uint64(n)
	in.env.enqueue(c, n)
}

// sealLane passes the open chunks of a lane on. If they have to wait, it shrinks them
// first: many calls of Flush while the receiver is away would otherwise fill the
// queue with large chunks of one event each.
func (in *intake) sealLane(lane int, wait bool) {
	for _, s := range in.of(lane) {
		s.mu.Lock()
		if c := s.mu.open; c != nil && wait {
			c.shrink()
		}
		in.seal(s)
		s.mu.Unlock()
	}
}

// shrink moves the events of an open chunk that is at most half full to memory of
// their size. The caller holds the lock of the shard.
func (c *chunk) shrink() {
	a := c.arena
	if len(a.buf) > cap(a.buf)/2 {
		return
	}
	c.arena = newArena(len(a.ends), len(a.buf), nil)
	c.arena.buf, c.arena.ends = append(c.arena.buf, a.buf...), append(c.arena.ends, a.ends...)
	c.arena.refs.Store(1)
	a.release()
}

// close accepts no more events, and passes the open chunks on.
func (in *intake) close() {
	for _, s := range in.shards {
		s.mu.Lock()
		s.mu.closed = true // Add holds the same lock, so no event is added after this
		in.seal(s)
		s.mu.Unlock()
	}
}

// accepted returns how many events a lane has accepted.
func (in *intake) accepted(lane int) (n uint64) {
	for _, s := range in.of(lane) {
		s.mu.Lock()
		n += s.mu.accepted
		s.mu.Unlock()
	}
	return n
}

// newEvents iterates over the events that open chunks have now: more may be appended
// while they are written.
func (in *intake) newEvents(yield func(pendingWrite) bool) {
	for _, s := range in.shards {
		if w := s.snapshot(); w.chunk != nil && !yield(w) {
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

// stats returns the figures of open and sealed chunks of one moment. sealed returns its
// figures, and when its oldest event was added, or now.
func (in *intake) stats(sealed func(now time.Time) (Stats, time.Time)) Stats {
	for _, sh := range in.shards { // stops all producers
		sh.mu.Lock()
		defer sh.mu.Unlock()
	}
	now := time.Now()
	s, oldest := sealed(now)
	s.Rejected = in.rejected.Load()
	for _, sh := range in.shards {
		s.Accepted += sh.mu.accepted
		if c := sh.mu.open; c != nil {
			s.Queued += uint64(len(c.arena.ends))
			if c.first.Before(oldest) {
				oldest = c.first
			}
		}
	}
	s.OldestAge = max(0, now.Sub(oldest))
	return s
}
