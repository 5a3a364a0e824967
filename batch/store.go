package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"syscall"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A store keeps chunks on disk: it writes them, reads them, and acknowledges those that
// are settled. The methods of a nil store, which is one without Spool, do nothing.
//
// A chunk's lock, chunk.disk, is held while the chunk is written or read.
type store struct {
	*settings
	records recordLog
	arenas  *arenas
	env     storeEnv
	buffers sync.Pool // of *[]byte, for records
}

// A recordLog is what a store needs of a spool.Spool.
type recordLog interface {
	Append(spool.Record) (spool.Position, error)
	Durable(spool.Position, func(error))
	Read(spool.Position, []byte) ([]byte, error)
	Ack(...spool.Position)
	Sync() error
}

// A storeEnv is what a store needs of its pipeline.
type storeEnv struct {
	// evict says how many events of a chunk are durable, so that the chunk may leave
	// memory. It is called with the lock of the chunk.
	evict func(c *chunk, durable int)
	// rewrite has a chunk written from its start again. It reports false if the chunk
	// is on disk only. It is called with the lock of the chunk.
	rewrite    func(c *chunk) bool
	syncFailed func()            // an fsync has failed
	broken     func(broken bool) // whether the disk takes events now
	lost       func(events int)  // of a batch on its way, and cannot be read
}

func newStore(s *settings, records recordLog, arenas *arenas, env storeEnv) *store {
	made := &store{settings: s, records: records, arenas: arenas, env: env}
	made.buffers.New = func() any { return new([]byte) }
	return made
}

// A pendingWrite is the first events of a chunk, which are to be written to disk.
type pendingWrite struct {
	chunk   *chunk
	events  events
	receipt *receipt
	memory  *arena // of the events; the maker of the pendingWrite releases it
}

// writeChunk writes the rest of a sealed chunk.
func (s *store) writeChunk(c *chunk) error {
	a := s.retainArena(c)
	if a == nil {
		return nil
	}
	defer a.release()
	return s.write(pendingWrite{c, a.events, c.receipt, a})
}

// retainArena returns the memory of a sealed chunk, which is not reused until the
// caller releases it. It returns nil if the chunk is settled or on disk only.
func (s *store) retainArena(c *chunk) *arena {
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.settled.Load() || c.arena == nil {
		return nil
	}
	c.arena.retain()
	return c.arena
}

// write appends to the spool the events of w that it does not hold yet.
func (s *store) write(w pendingWrite) error {
	r, round, err := s.append(w)
	switch {
	case err != nil || r.to == 0:
		return err
	case s.disk.SyncEvery < 0:
		w.receipt.makeDurable(r.to) // the user asked for no fsync
		return nil
	}
	s.records.Durable(r.at, func(err error) {
		if err == nil {
			s.synced(w, round, r.to)
			return
		}
		if s.rewrite(w.chunk, round) {
			s.log.write(slog.LevelError, "batch: events are written to the spool again", "err", err)
			s.env.syncFailed()
		}
	})
	return nil
}

// append is write without the wait for durability. It returns the record, which is zero
// if there was nothing to do, and its round.
func (s *store) append(w pendingWrite) (r record, round int, err error) {
	c := w.chunk
	c.disk.Lock()
	defer c.disk.Unlock()
	r = record{from: int(c.written.Load()), to: len(w.events.ends)}
	if r.to <= r.from || c.settled.Load() {
		return record{}, 0, nil
	}
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	*buf = appendData((*buf)[:0], s.format, s.placeOf(c.lane), w.events, r.from, r.to)
	r.at, err = s.records.Append(spool.Record{
		Kind: spool.Data, Lane: c.shard, Epoch: c.epoch, Seq: c.base + uint64(r.from),
		Count: uint32(r.to - r.from), Payload: *buf,
	})
	if err != nil {
		return record{}, 0, err
	}
	c.disk.records = append(c.disk.records, r)
	c.written.Store(int32(r.to))
	if s.disk.SyncEvery < 0 {
		c.disk.durable = r.to
	}
	return r, c.disk.round, nil
}

// placeOf returns where the events of a lane belong.
func (s *settings) placeOf(l *lane) placement {
	return placement{l.id, s.laneCount, s.laneCount > 1, s.keyFingerprint}
}

// synced notes that the events before to are durable, unless the record is of an earlier
// round, in which records before it may have failed.
func (s *store) synced(w pendingWrite, round, to int) {
	c := w.chunk
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.disk.round != round {
		return
	}
	c.disk.durable = max(c.disk.durable, to)
	w.receipt.makeDurable(to)
	s.env.evict(c, c.disk.durable)
}

// evict lets a chunk leave memory that was durable before it was chosen for that.
func (s *store) evict(c *chunk) {
	c.disk.Lock()
	defer c.disk.Unlock()
	s.env.evict(c, c.disk.durable)
}

// rewrite arranges that a chunk is written from its start again, unless its events
// are no longer in memory or another record of the same round has done so. Recovery
// recognizes two records of the same events by their ordinals.
func (s *store) rewrite(c *chunk, round int) bool {
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.settled.Load() || c.disk.round != round || !s.env.rewrite(c) {
		return false
	}
	c.disk.round++
	for _, r := range c.disk.records { // they are not read, but still acknowledged
		c.disk.others = append(c.disk.others, r.at)
	}
	c.disk.records, c.disk.durable = nil, 0
	return true
}

// ack acknowledges the events of chunks to the spool. It does so in one call,
// so that after a crash a batch comes back as a whole, under its key, or not at all.
func (s *store) ack(chunks ...*chunk) {
	if s == nil {
		return
	}
	var all []spool.Position
	for _, c := range chunks {
		all = c.settle(all)
	}
	if len(all) > 0 {
		s.records.Ack(all...)
	}
}

// settle marks the chunk, so that it is not written any more, and appends its
// records to all.
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

// report says whether the disk takes events: err is of writing, and failed says that an
// fsync has failed.
func (s *store) report(err error, failed bool) {
	if err != nil {
		s.log.write(slog.LevelError, "batch: the spool cannot be written", "dir", s.disk.Dir, "err", err)
	}
	s.env.broken(err != nil || failed)
}

// persist writes the events of a batch on its way that are not on disk.
func (s *store) persist(b *Batch) {
	if s == nil {
		return
	}
	for _, c := range b.chunks {
		if err := s.writeChunk(c); err != nil {
			s.report(err, false)
			return
		}
	}
	s.writeNote(b)
}

// writeNote writes to the spool which chunks a batch consists of, before it is sent.
// After a crash the batch is sent again with the same events under the same key, so
// that the receiver recognizes it. A batch has no note if some of its events are not
// on disk, or if the disk is full. After a crash its events get other keys.
func (s *store) writeNote(b *Batch) {
	if s == nil {
		return
	}
	for _, c := range b.chunks {
		if !c.allWritten() {
			return
		}
	}
	c := b.chunks[0]
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.disk.noted || c.settled.Load() {
		return
	}
	at, err := s.records.Append(spool.Record{
		Kind: spool.Batch, Lane: c.shard, Epoch: s.epoch,
		Payload: appendNote(nil, b.key, spans(b.chunks)),
	})
	if err != nil {
		s.log.write(slog.LevelWarn, "batch: after a crash, the receiver may get a batch twice", "err", err)
		return
	}
	c.disk.noted = true
	c.disk.others = append(c.disk.others, at)
}

// load returns the events of chunks, and reads those that are on disk only. If the disk
// fails, it tries again until ctx ends, and then reports false.
func (s *store) load(ctx context.Context, chunks []*chunk) (parts []part, ok bool) {
	for _, c := range chunks {
		some, ok := []part{{c, 0, c.n}}, true
		if c.arena == nil {
			some, ok = s.read(ctx, c)
		}
		if !ok {
			return nil, false
		}
		parts = append(parts, some...)
	}
	return parts, true
}

// read reads a chunk from disk. It returns the parts that are sound, and drops the
// other events.
func (s *store) read(ctx context.Context, c *chunk) (parts []part, ok bool) {
	for tries, delay := 1, diskRetry; ; tries, delay = tries+1, min(2*delay, diskRetryCap) {
		err := s.readRecords(c, tries == maxReads)
		if err == nil {
			break
		}
		if transient(err) {
			tries-- // it goes away without a change of ours
		}
		s.log.write(slog.LevelError, "batch: the spool cannot be read; events wait there", "dir", s.disk.Dir, "err", err)
		if !sleep(ctx, delay, nil, nil) {
			return nil, false
		}
	}
	missing := 0
	for i := 0; i < c.n; {
		from, gone := i, c.arena.empty(i)
		for i < c.n && c.arena.empty(i) == gone {
			i++
		}
		if !gone {
			parts = append(parts, part{c, from, i})
			continue
		}
		missing += i - from
		c.receipt.fail(from, i, &EventError{ReasonUnreadable, c.damage})
	}
	if missing > 0 {
		s.env.lost(missing)
		s.notifyDropped(Dropped{Reason: ReasonUnreadable, Err: c.damage, Events: make([][]byte, missing)}, missing)
	}
	return parts, true
}

// maxReads is how often a record is read that the disk fails to return. Its lane
// waits for seconds meanwhile.
const maxReads = 5

// transient reports whether an error of reading is a lack of resources that other
// parts of the system use.
func transient(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR},
		func(e error) bool { return errors.Is(err, e) })
}

// readRecords reads c into a new arena. Damaged events are empty. If the disk fails,
// the error is the disk's; at the last try, the events that it fails to return are
// empty too, and their records stay in the spool for a later run.
func (s *store) readRecords(c *chunk, last bool) error {
	c.disk.Lock()
	defer c.disk.Unlock()
	a := s.arenas.get(c.n, int(c.size))
	var payload []byte
	for _, r := range c.disk.records {
		if r.to <= len(a.ends) {
			continue // written twice
		}
		var d data
		var err error
		if payload, err = s.records.Read(r.at, payload[:0]); err == nil {
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
				if s.format != FormatRaw {
					a.buf = append(a.buf, s.sep)
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

// damaged reports whether a read fails in the same way the next time.
func damaged(err error) bool {
	var corrupt *spool.CorruptError
	return errors.As(err, &corrupt) || errors.Is(err, spool.ErrGone)
}

// keep writes what is left to the spool, with notes on the batches that were
// tried. The error says why something could not be written.
func (s *store) keep(left []remainder, tried []*transmission) error {
	if s == nil {
		return nil
	}
	for _, r := range left {
		if !r.held { // OnDrop has not returned yet, but its events are counted
			s.ack(r.chunk)
		}
	}
	for _, t := range tried {
		if !s.persistRest(t) {
			s.persist(t.whole)
		}
	}
	// After a failed fsync, chunks are written again elsewhere: see rewrite.
	var err error
	for range 3 {
		err = nil
		for _, r := range left {
			if len(r.parts) == 0 {
				continue
			}
			if e := s.writeChunk(r.chunk); e != nil {
				err = fmt.Errorf("batch: %w", e) // the disk is full: one message is enough
			}
		}
		e := s.records.Sync()
		if e == nil {
			break
		}
		err = fmt.Errorf("batch: %w", e)
	}
	return err
}

// persistRest writes the unsettled events of a batch of which some events are
// settled, and acknowledges the records of the whole batch. So the next processor
// neither sends nor reports an event twice. It reports false if nothing of the batch
// is settled or if it cannot do that: then the whole batch stays.
func (s *store) persistRest(t *transmission) bool {
	left := 0
	for _, b := range t.todo {
		left += b.count
	}
	if left == t.whole.count || t.whole.incomplete {
		return false
	}
	if slices.ContainsFunc(t.whole.chunks, func(c *chunk) bool { return c.foreign }) {
		return false // only its records say to which lane it belongs
	}
	fresh, err := s.appendPieces(t.todo)
	if err == nil {
		err = s.records.Sync()
	}
	if err != nil {
		s.log.write(slog.LevelWarn, "batch: settled events may be sent again, because the spool cannot be written", "dir", s.disk.Dir, "err", err)
		s.records.Ack(fresh...)
		return false
	}
	s.ack(t.whole.chunks...)
	for _, c := range t.whole.chunks {
		c.written.Store(int32(c.n)) // the unsettled events are on disk
	}
	return true
}

// appendPieces appends the events of pieces to the spool, and the keys of the pieces
// that were sent. It returns the appended records, also with an error.
func (s *store) appendPieces(pieces []*Batch) (fresh []spool.Position, err error) {
	put := func(r spool.Record) {
		if err != nil {
			return
		}
		var at spool.Position
		if at, err = s.records.Append(r); err == nil {
			fresh = append(fresh, at)
		}
	}
	for _, b := range pieces {
		spans := make([]span, 0, len(b.parts))
		for _, x := range b.parts {
			at := span{x.chunk.shard, x.chunk.epoch, x.chunk.base + uint64(x.from), x.n()}
			put(spool.Record{
				Kind: spool.Data, Lane: at.shard, Epoch: at.epoch, Seq: at.base, Count: uint32(at.events),
				Payload: appendData(nil, s.format, s.placeOf(x.chunk.lane), x.chunk.arena.events, x.from, x.to),
			})
			spans = append(spans, at)
		}
		if b.attempt > 0 && len(b.key) <= math.MaxUint8 { // a note has no room for a longer key
			put(spool.Record{Kind: spool.Batch, Lane: spans[0].shard, Epoch: s.epoch, Payload: appendNote(nil, b.key, spans)})
		}
	}
	return fresh, err
}
