package batch

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/batch/internal/spool"
)

// A disk that takes nothing, or gives nothing back, is tried again after a time
// that doubles between these two. Each attempt may leave a file of events that
// count as not written: with a disk whose fsync always fails, a larger cap keeps
// their number small.
const (
	diskRetry    = 250 * time.Millisecond
	diskRetryCap = 30 * time.Second
)

// A scribe writes events to the spool: all of them soon after they come, with
// WriteAhead, and those that memory has no room for, under Spill. It has one
// goroutine.
type scribe struct {
	*pipeline
	wake chan struct{} // holds one, for many are as good
	tick time.Duration // between two rounds, so that one writes many events

	failed atomic.Bool   // an fsync has, since the last round
	delay  time.Duration // before the next round; owned by run
}

func newScribe(p *pipeline) *scribe {
	// Half of the time between an event and its fsync passes here, half in the
	// spool.
	tick := p.disk.SyncEvery / 2
	if tick <= 0 {
		tick = 5 * time.Millisecond
	}
	return &scribe{pipeline: p, wake: make(chan struct{}, 1), tick: tick}
}

// nudge makes the scribe look. Calling it on nil does nothing.
func (s *scribe) nudge() {
	if s == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

func (s *scribe) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.quit:
			return
		}
		next := s.tick
		if s.pressed() {
			next = s.round() // producers wait
		}
		for next > 0 {
			timer.Reset(next)
			select {
			case <-timer.C:
			case <-s.quit:
				return
			}
			next = s.round()
		}
	}
}

// pressed reports whether producers wait for what only the scribe can do.
func (s *scribe) pressed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spills && s.mu.room != nil
}

// round writes what is to be written. It returns when to try again, or 0 when
// that takes another nudge.
func (s *scribe) round() time.Duration {
	err := s.writeOpen()
	if err == nil {
		err = s.writeSealed()
	}
	if err == nil {
		err = s.spill()
	}
	failed := s.failed.Swap(false)
	s.setBroken(err, failed)
	s.pipeline.nudge()
	switch {
	case err != nil:
		return diskRetry
	case failed:
		s.delay = min(max(2*s.delay, diskRetry), diskRetryCap)
		return s.delay
	}
	s.delay = 0
	return 0
}

// setBroken notes whether the disk takes events; where it does not, batches do not
// wait for it.
func (p *pipeline) setBroken(err error, failed bool) {
	if err != nil {
		p.log.write(slog.LevelError, "batch: the spool takes no events", "dir", p.disk.Dir, "err", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.broken = err != nil || failed
	p.mu.lookAll = true // chunks are written, or need not be
}

// writeOpen writes what came to the open chunks.
func (s *scribe) writeOpen() error {
	if !s.ahead {
		return nil
	}
	for _, sh := range s.all {
		w := s.snapshot(sh)
		if w.chunk == nil {
			continue
		}
		err := s.write(w)
		w.memory.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// A writing is the first events of a chunk, to be on disk.
type writing struct {
	chunk   *chunk
	events  events
	receipt *receipt
	memory  *arena // of the events; whoever made the writing releases it
}

// snapshot takes the events of a shard's open chunk, as far as they go: more may
// be appended while they are written. Without any, its chunk is nil.
func (s *scribe) snapshot(sh *shard) writing {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.unsaved = false
	c := sh.mu.open
	if c == nil || len(c.arena.ends) == 0 {
		return writing{}
	}
	c.arena.retain()
	return writing{c, c.arena.events, c.receipt, c.arena}
}

// writeSealed writes the rest of the sealed chunks that are to be on disk.
func (s *scribe) writeSealed() error {
	for {
		c := s.unwritten()
		if c == nil {
			return nil
		}
		if err := s.writeChunk(c); err != nil {
			return err
		}
	}
}

// unwritten is the first sealed chunk that is not wholly on disk.
func (s *scribe) unwritten() *chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.mu.unwritten) > 0 {
		if c := s.mu.unwritten[0]; !c.wholly() && !c.settled.Load() {
			return c
		}
		s.mu.unwritten = s.mu.unwritten[1:]
	}
	s.mu.unwritten = nil
	return nil
}

// writeChunk writes the rest of a sealed chunk.
func (p *pipeline) writeChunk(c *chunk) error {
	a := p.hold(c)
	if a == nil {
		return nil
	}
	defer a.release()
	return p.write(writing{c, a.events, c.receipt, a})
}

// hold keeps the memory of a sealed chunk from being used again, until the caller
// releases it. It returns nil when the chunk is settled or on disk only.
func (p *pipeline) hold(c *chunk) *arena {
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.settled.Load() || c.arena == nil {
		return nil
	}
	c.arena.retain()
	return c.arena
}

// write appends to the spool what w holds beyond what is there of its chunk.
func (p *pipeline) write(w writing) error {
	at, to, round, err := p.append(w)
	switch {
	case err != nil || to == 0:
		return err
	case p.disk.SyncEvery < 0:
		w.receipt.makeDurable(to) // as far as was asked for
		return nil
	}
	p.spool.Durable(at, func(err error) { p.covered(w, round, to, err) })
	return nil
}

// append is write without what follows. It returns up to which event it has
// written, 0 when there was nothing to do, and in which round.
func (p *pipeline) append(w writing) (at spool.Position, to, round int, err error) {
	c := w.chunk
	c.disk.Lock()
	defer c.disk.Unlock()
	from, to := int(c.written.Load()), len(w.events.ends)
	if to <= from || c.settled.Load() {
		return at, 0, 0, nil
	}
	buf := p.buffers.Get().(*[]byte)
	defer p.buffers.Put(buf)
	*buf = appendData((*buf)[:0], p.format, c.lane.id, len(p.lanes), w.events, from, to)
	at, err = p.spool.Append(spool.Record{
		Kind: spool.Data, Lane: c.shard, Epoch: c.epoch, Seq: c.base + uint64(from),
		Count: uint32(to - from), Payload: *buf,
	})
	if err != nil {
		return at, 0, 0, err
	}
	c.disk.records = append(c.disk.records, record{at, from, to})
	c.written.Store(int32(to))
	if p.disk.SyncEvery < 0 {
		c.disk.durable = to
	}
	return at, to, c.disk.round, nil
}

// covered is told of the fsync of a record.
func (p *pipeline) covered(w writing, round, to int, err error) {
	switch {
	case err == nil:
		if w.chunk.advance(round, to) {
			w.receipt.makeDurable(to)
			p.evict(w.chunk)
		}
	case p.rewrite(w.chunk, round):
		p.log.write(slog.LevelError, "batch: events are written to the spool again", "err", err)
		p.scribe.failed.Store(true)
		p.scribe.nudge()
	}
}

// advance notes that the events before to are on disk for certain. It reports
// false for a record of an earlier round: those before it may have failed.
func (c *chunk) advance(round, to int) bool {
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.disk.round != round {
		return false
	}
	c.disk.durable = max(c.disk.durable, to)
	return true
}

// rewrite has a chunk written from its start once more, unless its events are no
// longer in memory, or another record of the same round has seen to it. Recovery knows two records of the same events by their
// ordinals.
func (p *pipeline) rewrite(c *chunk, round int) bool {
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.settled.Load() || c.disk.round != round {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.order != 0 && c.arena == nil {
		return false
	}
	c.disk.round++
	c.written.Store(0)
	for _, r := range c.disk.records { // not to be read, but still to be acknowledged
		c.disk.others = append(c.disk.others, r.at)
	}
	c.disk.records = nil
	c.disk.durable = 0
	c.evicting = false
	if c.order != 0 {
		p.mu.unwritten = append(p.mu.unwritten, c)
	}
	return true
}

// spill writes chunks that wait in memory when producers wait for room, the
// latest first: the receiver takes the others earlier. They leave memory when
// they are durable.
func (s *scribe) spill() error {
	if !s.spills {
		return nil
	}
	victims := s.victims()
	for _, c := range victims {
		if err := s.writeChunk(c); err != nil {
			s.spare(victims)
			return err
		}
	}
	for _, c := range victims {
		s.evict(c) // those which were durable before
	}
	if len(victims) > 0 && s.disk.SyncEvery > 0 {
		return s.spool.Sync()
	}
	return nil
}

// victims are an eighth of the queue, from the end of each lane. It is empty when
// nobody waits for room.
func (s *scribe) victims() []*chunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.room == nil {
		return nil
	}
	var all []*chunk
	events, bytes := max(1, s.maxEvents/8), max(1, s.maxBytes/8)
	for _, l := range s.lanes {
		for _, c := range slices.Backward(l.memory.waiting()) {
			if events <= 0 || bytes <= 0 {
				break
			}
			c.evicting = true
			all = append(all, c)
			events -= c.slots
			bytes -= c.cost
		}
	}
	return all
}

// spare lets chunks stay in memory after all.
func (s *scribe) spare(chunks []*chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range chunks {
		c.evicting = false
	}
}

// evict takes the memory of a chunk that is on disk and was chosen for it.
func (p *pipeline) evict(c *chunk) {
	c.disk.Lock()
	defer c.disk.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.evicting || !c.queued || c.arena == nil || c.disk.durable < c.n {
		return
	}
	c.arena.release()
	c.arena, c.evicting = nil, false
	c.lane.memory.remove(c)
	p.mu.counts.queued -= uint64(c.n)
	p.mu.counts.spooled += uint64(c.n)
	p.unreserveLocked(c)
}

// forget tells the spool that the events of chunks are settled: in one call, so
// that a batch comes back after a crash as a whole, under its key, or not at all.
func (p *pipeline) forget(chunks ...*chunk) {
	var all []spool.Position
	for _, c := range chunks {
		all = c.settle(all)
	}
	if len(all) > 0 {
		p.spool.Ack(all...)
	}
}

// settle marks the chunk, so that nothing of it is written any more, and appends
// its records.
func (c *chunk) settle(all []spool.Position) []spool.Position {
	c.disk.Lock()
	defer c.disk.Unlock()
	c.settled.Store(true)
	if !c.disk.stuck {
		for _, r := range c.disk.records {
			all = append(all, r.at)
		}
	}
	all = append(all, c.disk.others...)
	c.disk.records, c.disk.others = nil, nil
	return all
}

// keep writes a batch on its way to disk, whatever is not there.
func (p *pipeline) keep(b *Batch) {
	for _, c := range b.chunks {
		if err := p.writeChunk(c); err != nil {
			p.setBroken(err, false)
			return
		}
	}
	p.note(b)
}

// note writes down what a batch is made of, before it is sent: after a crash it
// is sent again as it was, under the key that it had, so that the receiver knows
// it. A batch that is not wholly on disk has no note; neither has one for which
// the disk has no room. Their events are sent under other keys after a crash.
func (p *pipeline) note(b *Batch) {
	if p.spool == nil {
		return
	}
	for _, c := range b.chunks {
		if !c.wholly() {
			return
		}
	}
	c := b.chunks[0]
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.disk.noted || c.settled.Load() {
		return
	}
	at, err := p.spool.Append(spool.Record{
		Kind: spool.Batch, Lane: c.shard, Epoch: p.epoch,
		Payload: appendNote(nil, b.key, b.chunks),
	})
	if err != nil {
		p.log.write(slog.LevelWarn, "batch: after a crash, the receiver may get a batch twice", "err", err)
		return
	}
	c.disk.noted = true
	c.disk.others = append(c.disk.others, at)
}

// load reads the events of a batch that are on disk only. A disk that does not
// give them back may do so later; load waits for that until Close ends sending,
// and reports false then.
func (p *pipeline) load(b *Batch) bool {
	var parts []part
	for _, c := range b.chunks {
		if c.arena != nil {
			parts = append(parts, part{c, 0, c.n})
			continue
		}
		some, ok := p.read(c)
		if !ok {
			return false
		}
		parts = append(parts, some...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	made := b.count
	b.parts, b.count, b.size = parts, 0, 0
	for _, x := range parts {
		b.count += x.n()
		b.size += int64(len(x.bytes()))
	}
	b.short = b.count < made
	return true
}

// read brings a chunk back from disk. It returns the parts of it that are sound,
// and drops the others.
func (p *pipeline) read(c *chunk) (parts []part, ok bool) {
	for tries, delay := 1, diskRetry; ; tries, delay = tries+1, min(2*delay, diskRetryCap) {
		err := p.readRecords(c, tries == mostReads)
		if err == nil {
			break
		}
		if scarce(err) {
			tries-- // that passes by itself
		}
		p.log.write(slog.LevelError, "batch: the spool cannot be read; events wait there", "dir", p.disk.Dir, "err", err)
		if !rest(p.sending, delay, nil, nil) {
			return nil, false
		}
	}
	missing := 0
	var why error
	for i := 0; i < c.n; {
		from := i
		for i < c.n && c.arena.ends[i] > uint32(c.arena.start(i)) {
			i++
		}
		if i > from {
			parts = append(parts, part{c, from, i})
		}
		from = i
		for i < c.n && c.arena.ends[i] == uint32(c.arena.start(i)) {
			i++
		}
		if i > from {
			missing += i - from
			why = c.damage
			c.receipt.fail(from, i, &EventError{Unreadable, why})
		}
	}
	if missing > 0 {
		p.countDrop(missing, Unreadable)
		p.tell(Dropped{Unreadable, "", why, make([][]byte, missing)})
	}
	return parts, true
}

// mostReads is how often a record is read that the disk does not give back. What is
// behind it in its lane waits meanwhile, for seconds.
const mostReads = 5

// scarce reports whether an error of reading is for want of something that others
// use up.
func scarce(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// readRecords fills a new arena for c. Events whose bytes are damaged are empty; so
// are, at the last try, those that the disk does not give back, whose records stay
// in the spool: a later run may have more luck. Otherwise its error is the disk's.
func (p *pipeline) readRecords(c *chunk, last bool) error {
	c.disk.Lock()
	defer c.disk.Unlock()
	a := &arena{events: events{make([]byte, 0, c.size), make([]uint32, 0, c.n)}}
	if c.n <= p.chunkEvents && c.size <= int64(p.chunkBytes) {
		a = p.arenas.Get().(*arena)
	}
	a.refs.Store(1)
	var payload []byte
	for _, r := range c.disk.records {
		if r.to <= len(a.ends) {
			continue // written twice
		}
		var d data
		var err error
		if payload, err = p.spool.Read(r.at, payload[:0]); err == nil {
			d, err = parseData(payload, r.to-r.from)
		} else if !damaged(err) {
			if !last {
				a.release()
				return err
			}
			c.disk.stuck = true
		}
		for i := len(a.ends); i < r.to; i++ {
			switch {
			case err != nil:
				c.damage = err
			case i >= r.from:
				a.buf = append(a.buf, d.event(i-r.from)...)
				if p.format != Raw {
					a.buf = append(a.buf, p.sep)
				}
			}
			a.ends = append(a.ends, uint32(len(a.buf)))
		}
	}
	for len(a.ends) < c.n {
		a.ends = append(a.ends, uint32(len(a.buf)))
	}
	c.arena = a
	return nil
}

// damaged reports whether an error of reading will be the same next time.
func damaged(err error) bool {
	var corrupt *spool.CorruptError
	return errors.As(err, &corrupt) || errors.Is(err, spool.ErrGone)
}

// openSpool opens the spool's folder and queues what is there.
func (p *pipeline) openSpool() error {
	syncEvery, syncBytes := p.disk.SyncEvery/2, p.disk.SyncBytes
	if p.disk.SyncEvery < 0 {
		syncEvery, syncBytes = -1, -1
	}
	sp, found, err := spool.Open(spool.Options{
		Dir:          p.disk.Dir,
		SegmentBytes: p.disk.SegmentBytes,
		MaxBytes:     p.disk.MaxBytes,
		SyncEvery:    syncEvery,
		SyncBytes:    syncBytes,
		FS:           p.disk.fs,
		Logger:       p.logger,
	})
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	p.spool = sp
	p.epoch = sp.Epoch()
	p.mu.counts.corrupt, p.mu.counts.lost = uint64(found.Corrupt), found.LostEvents
	p.recover()
	if n := p.mu.counts.recovered; n > 0 {
		p.log.write(slog.LevelInfo, "batch: the spool holds events of an earlier run, which are sent now", "events", n, "dir", p.disk.Dir)
	}
	p.scribe = newScribe(p)
	p.work.Go(p.labelled("spool", p.scribe.run))
	return nil
}
