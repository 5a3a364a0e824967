package batch

import (
	"cmp"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A foundRecord is a record with events that an earlier processor left on disk.
type foundRecord struct {
	span
	at    spool.Position
	size  int64
	place placement
	taken bool // belongs to a chunk
}

// A recovery makes chunks of the records that an earlier processor has left in a spool.
type recovery struct {
	*settings
	lanes         []*lane
	ack           func(...spool.Position) // acknowledges records to the spool
	corrupt, lost uint64                  // records that cannot be decoded, and their events
}

// chunks returns the chunks of what was found. A batch that was being sent keeps its
// events and its key. The other events form new batches, in the order in which they were
// accepted.
func (r *recovery) chunks(found iter.Seq2[spool.Position, spool.Record]) []*chunk {
	records, notes := r.decode(found)
	slices.SortStableFunc(records, func(a, b *foundRecord) int { return a.compare(b.span) })
	records = r.dropDuplicates(records)
	var chunks []*chunk
	for _, n := range slices.Backward(notes) { // of two notes on one chunk, the later one is valid
		if c := r.regroup(n, records); c != nil {
			chunks = append(chunks, c)
		} else {
			r.ack(n.at)
		}
	}
	chunks = append(chunks, r.group(records)...)
	slices.SortStableFunc(chunks, func(a, b *chunk) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.base, b.base))
	})
	return chunks
}

// A note says which chunks a batch had.
type note struct {
	at    spool.Position
	key   string
	spans []span
}

// decode reads the records. One that it does not understand cannot be
// sent: it is acknowledged, so that it is deleted.
func (r *recovery) decode(found iter.Seq2[spool.Position, spool.Record]) (records []*foundRecord, notes []note) {
	for at, rec := range found {
		var err error
		switch rec.Kind {
		case spool.Data:
			var d data
			if d, err = parseData(rec.Payload, int(rec.Count)); err == nil {
				records = append(records, &foundRecord{
					span: span{rec.Lane, rec.Epoch, rec.Seq, int(rec.Count)}, at: at,
					size: int64(len(d.events)) + int64(rec.Count), place: d.placement,
				})
			}
		case spool.Batch:
			n := note{at: at}
			if n.key, n.spans, err = parseNote(rec.Payload); err == nil {
				notes = append(notes, n)
			}
		default:
			err = errRecord
		}
		if err != nil {
			r.log.write(slog.LevelError, "batch: the spool holds a record that cannot be decoded", "kind", rec.Kind, "events", rec.Count, "err", err)
			r.corrupt++
			r.lost += uint64(rec.Count)
			r.ack(at)
		}
	}
	return records, notes
}

// dropDuplicates removes records whose events another record holds as well: a chunk
// is written again when an fsync fails, and the later record is the safer one. Records
// that overlap in part stay, and the common events are sent twice.
func (r *recovery) dropDuplicates(records []*foundRecord) []*foundRecord {
	kept := records[:0]
	for _, f := range records {
		if n := len(kept); n > 0 {
			if l := kept[n-1]; l.epoch == f.epoch && l.shard == f.shard {
				if f.base == l.base && f.end() >= l.end() {
					r.ack(l.at)
					kept[n-1] = f
					continue
				}
				if f.end() <= l.end() {
					r.ack(f.at)
					continue
				}
			}
		}
		kept = append(kept, f)
	}
	return kept
}

// regroup makes the chunk of a batch. It returns nil if some of the events are
// missing: then the key must not be used for the others.
func (r *recovery) regroup(n note, records []*foundRecord) *chunk {
	var all []*foundRecord
	for _, s := range n.spans {
		at, end := s.base, s.end()
		i, _ := slices.BinarySearchFunc(records, s, func(f *foundRecord, s span) int { return f.compare(s) })
		for ; at < end && i < len(records); i++ {
			f := records[i]
			if f.taken || f.epoch != s.epoch || f.shard != s.shard || f.base != at || f.end() > end {
				return nil
			}
			all = append(all, f)
			at = f.end()
		}
		if at < end {
			return nil
		}
	}
	c := r.restore(all)
	c.key = n.key
	c.disk.others, c.disk.noted = []spool.Position{n.at}, true
	return c
}

// group makes chunks of the records that are not taken. They are as large as the chunks
// filled by producers.
func (r *recovery) group(records []*foundRecord) []*chunk {
	var chunks []*chunk
	var run []*foundRecord
	events, size := 0, int64(0)
	flush := func() {
		if len(run) > 0 {
			chunks = append(chunks, r.restore(run))
		}
		run, events, size = nil, 0, 0
	}
	for _, f := range records {
		if f.taken {
			continue
		}
		if len(run) > 0 {
			if l := run[len(run)-1]; l.epoch != f.epoch || l.shard != f.shard || l.end() != f.base ||
				events+f.events > r.chunkEvents || size+f.size > int64(r.chunkBytes) {
				flush()
			}
		}
		run = append(run, f)
		events += f.events
		size += f.size
	}
	flush()
	return chunks
}

// restore makes a chunk of records. It is on disk only.
func (r *recovery) restore(records []*foundRecord) *chunk {
	f := records[0]
	c := &chunk{shard: f.shard, epoch: f.epoch, base: f.base, first: time.Now()}
	for _, f := range records {
		f.taken = true
		c.disk.records = append(c.disk.records, record{f.at, c.n, c.n + f.events})
		c.n += f.events
		c.size += f.size
	}
	c.written.Store(int32(c.n))
	c.disk.durable = c.n
	// With another number of lanes or another Lanes.Key, keys belonged to other
	// lanes. Then the first lane sends all recovered events, and the others wait
	// until it is done: so the events of each key keep their order.
	c.foreign = r.ordered && !r.same(f.place)
	c.lane = r.lanes[0]
	if r.ordered && !c.foreign {
		c.lane = r.lanes[f.place.lane]
	}
	return c
}

// same reports whether events would get the same lane now.
func (r *recovery) same(was placement) bool {
	switch {
	case was.lanes != r.laneCount:
		return false
	case was.lanes == 1:
		return true
	}
	return was.byKey && was.keyFingerprint == r.keyFingerprint && r.keyFingerprint != 0
}
