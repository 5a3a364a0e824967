package batch

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A pendingWrite is the first events of a chunk, which are to be written to disk.
type pendingWrite struct {
	chunk   *chunk
	events  events
	receipt *receipt
	memory  *arena // of the events; the maker of the pendingWrite releases it
}

// writeChunk writes the rest of a sealed chunk.
func (p *pipeline) writeChunk(c *chunk) error {
	a := p.retainArena(c)
	if a == nil {
		return nil
	}
	defer a.release()
	return p.write(pendingWrite{c, a.events, c.receipt, a})
}

// retainArena returns the memory of a sealed chunk, which is not reused until the
// caller releases it. It returns nil if the chunk is settled or on disk only.
func (p *pipeline) retainArena(c *chunk) *arena {
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.settled.Load() || c.arena == nil {
		return nil
	}
	c.arena.retain()
	return c.arena
}

// write appends to the spool the events of w that it does not hold yet.
func (p *pipeline) write(w pendingWrite) error {
	at, to, round, err := p.append(w)
	switch {
	case err != nil || to == 0:
		return err
	case p.disk.SyncEvery < 0:
		w.receipt.makeDurable(to) // the user asked for no fsync
		return nil
	}
	p.spool.Durable(at, func(err error) { p.onSynced(w, round, to, err) })
	return nil
}

// append is write without the wait for durability. It returns how many events of
// the chunk are written, 0 if there was nothing to do, and the round.
func (p *pipeline) append(w pendingWrite) (at spool.Position, to, round int, err error) {
	c := w.chunk
	c.disk.Lock()
	defer c.disk.Unlock()
	from, to := int(c.written.Load()), len(w.events.ends)
	if to <= from || c.settled.Load() {
		return at, 0, 0, nil
	}
	buf := p.buffers.Get().(*[]byte)
	defer p.buffers.Put(buf)
	*buf = appendData((*buf)[:0], p.format, p.placeOf(c.lane), w.events, from, to)
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

func (p *pipeline) placeOf(l *lane) placement {
	return placement{l.id, p.laneCount, p.laneCount > 1, p.keyFingerprint}
}

// onSynced is called with the result of the fsync of a record.
func (p *pipeline) onSynced(w pendingWrite, round, to int, err error) {
	switch {
	case err == nil:
		if w.chunk.advance(round, to) {
			w.receipt.makeDurable(to)
			p.evict(w.chunk)
		}
	case p.rewrite(w.chunk, round):
		p.log.write(slog.LevelError, "batch: events are written to the spool again", "err", err)
		p.writer.failed.Store(true)
		p.writer.wake()
	}
}

// advance notes that the events before to are durable. It reports false for a
// record of an earlier round, in which records before it may have failed.
func (c *chunk) advance(round, to int) bool {
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.disk.round != round {
		return false
	}
	c.disk.durable = max(c.disk.durable, to)
	return true
}

// ack tells the spool that the events of chunks are settled. It does so in one call,
// so that after a crash a batch comes back as a whole, under its key, or not at all.
func (p *pipeline) ack(chunks ...*chunk) {
	var all []spool.Position
	for _, c := range chunks {
		all = c.settle(all)
	}
	if len(all) > 0 {
		p.spool.Ack(all...)
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

// persist writes the events of a batch on its way that are not on disk.
func (p *pipeline) persist(b *Batch) {
	for _, c := range b.chunks {
		if err := p.writeChunk(c); err != nil {
			p.setBroken(err, false)
			return
		}
	}
	p.writeNote(b)
}

// writeNote writes to the spool which chunks a batch consists of, before it is sent.
// After a crash the batch is sent again with the same events under the same key, so
// that the receiver recognizes it. A batch has no note if some of its events are not
// on disk, or if the disk is full. After a crash its events get other keys.
func (p *pipeline) writeNote(b *Batch) {
	if p.spool == nil {
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
	at, err := p.spool.Append(spool.Record{
		Kind: spool.Batch, Lane: c.shard, Epoch: p.epoch,
		Payload: appendNote(nil, b.key, spans(b.chunks)),
	})
	if err != nil {
		p.log.write(slog.LevelWarn, "batch: after a crash, the receiver may get a batch twice", "err", err)
		return
	}
	c.disk.noted = true
	c.disk.others = append(c.disk.others, at)
}

// load reads the events of a batch that are on disk only. If the disk fails, it
// tries again until Close ends sending, and then reports false.
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
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	made := b.count
	b.parts, b.count, b.size = parts, 0, 0
	for _, x := range parts {
		b.count += x.n()
		b.size += int64(len(x.bytes()))
	}
	b.incomplete = b.count < made
	return true
}

// read reads a chunk from disk. It returns the parts that are sound, and drops the
// other events.
func (p *pipeline) read(c *chunk) (parts []part, ok bool) {
	for tries, delay := 1, diskRetry; ; tries, delay = tries+1, min(2*delay, diskRetryCap) {
		err := p.readRecords(c, tries == maxReads)
		if err == nil {
			break
		}
		if transient(err) {
			tries-- // it goes away without a change of ours
		}
		p.log.write(slog.LevelError, "batch: the spool cannot be read; events wait there", "dir", p.disk.Dir, "err", err)
		if !sleep(p.sending, delay, nil, nil) {
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
			c.receipt.fail(from, i, &EventError{ReasonUnreadable, why})
		}
	}
	if missing > 0 {
		p.countDrop(missing, ReasonUnreadable)
		p.notifyDropped(Dropped{Reason: ReasonUnreadable, Err: why, Events: make([][]byte, missing)}, missing)
	}
	return parts, true
}

// maxReads is how often a record is read that the disk fails to return. Its lane
// waits for seconds meanwhile.
const maxReads = 5

// transient reports whether an error of reading is a lack of resources that other
// parts of the system use.
func transient(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// readRecords reads c into a new arena. Damaged events are empty. If the disk fails,
// the error is the disk's; at the last try, the events that it fails to return are
// empty too, and their records stay in the spool for a later run.
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
				if p.format != FormatRaw {
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

// damaged reports whether a read fails in the same way the next time.
func damaged(err error) bool {
	var corrupt *spool.CorruptError
	return errors.As(err, &corrupt) || errors.Is(err, spool.ErrGone)
}

// openSpool opens the folder of the spool and queues the events in it.
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
		Log:          p.log.log,
	})
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	p.spool = sp
	p.epoch = sp.Epoch()
	p.queue.mu.counts.Corrupt, p.queue.mu.counts.LostOnDisk = uint64(found.Corrupt), found.LostEvents
	p.recover()
	if n := p.queue.mu.counts.Recovered; n > 0 {
		p.log.write(slog.LevelInfo, "batch: the spool holds events of an earlier run, which are sent now", "events", n, "dir", p.disk.Dir)
	}
	p.writer = newSpoolWriter(p)
	p.work.Go(p.labeled("spool", p.writer.run))
	return nil
}

// evict releases the memory of a chunk that was chosen for it and is durable.
func (p *pipeline) evict(c *chunk) {
	c.disk.Lock()
	defer c.disk.Unlock()
	p.queue.evict(c, c.disk.durable)
}

// rewrite arranges that a chunk is written from its start again, unless its events
// are no longer in memory or another record of the same round has done so. Recovery
// recognizes two records of the same events by their ordinals.
func (p *pipeline) rewrite(c *chunk, round int) bool {
	c.disk.Lock()
	defer c.disk.Unlock()
	if c.settled.Load() || c.disk.round != round || !p.queue.rewrite(c) {
		return false
	}
	c.disk.round++
	for _, r := range c.disk.records { // they are not read, but still acknowledged
		c.disk.others = append(c.disk.others, r.at)
	}
	c.disk.records, c.disk.durable = nil, 0
	return true
}
