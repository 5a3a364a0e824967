package trail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

const (
	maxWaiting = 64 << 20  // bytes of appends that wait for the committer
	maxGroup   = 8 << 20   // bytes of appends that are committed together
	maxAppend  = 512 << 20 // bytes of one append
)

// Append adds events: all, or none. When it returns nil they are durable and
// visible to queries. Concurrent calls share the fsync. While too many events wait
// already, it blocks until ctx is done.
//
// The error is a *RejectedError for events that can never be taken: malformed ones,
// those outside Options.Times or from before the horizon of the store, and those
// with a property of another type. Any other error, such as that of a full disk, may
// go away.
//
// Of events equal in user, time and id (other than "") the store keeps the first;
// AppendCounted tells how many it had already.
func (s *Store) Append(ctx context.Context, events []event.Event) error {
	_, err := s.append(ctx, events, "", nil)
	return err
}

// Appended is what became of the events of an append.
type Appended struct {
	Events     int64 // that the store has now and did not have before
	Duplicates int64 // left out because the store, or the same append, has the same user, time and id
}

// AppendCounted is Append, and tells how many of the events were new. Counts are zero
// with an error.
func (s *Store) AppendCounted(ctx context.Context, events []event.Event) (Appended, error) {
	return s.append(ctx, events, "", nil)
}

// AppendMarked adds events, and keeps a mark under the name of their source, both
// or neither: after a crash, Mark tells what has to be appended again. events may be
// empty.
func (s *Store) AppendMarked(ctx context.Context, events []event.Event, source string, mark []byte) error {
	if mark == nil {
		mark = []byte{}
	}
	_, err := s.append(ctx, events, source, mark)
	return err
}

// A request is a call of Append that waits for the committer.
type request struct {
	events []event.Event // the caller's, who waits once the request is taken
	chunk  []byte
	schema event.Schema
	large  []event.Property // integers that a number cannot hold exactly, one for each property
	state  atomic.Int32     // waiting, then taken or cancelled
	twice  int64            // events that were left out as duplicates; set before done
	done   chan error       // capacity 1; gets the outcome once it was taken
}

const (
	waiting int32 = iota
	taken
	cancelled
)

func (s *Store) append(ctx context.Context, events []event.Event, source string, mark []byte) (Appended, error) {
	if s.opt.ReadOnly {
		return Appended{}, ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return Appended{}, err
	}
	if len(events) == 0 && mark == nil {
		return Appended{}, nil
	}
	times, err := s.times()
	if err != nil {
		return Appended{}, err
	}
	chunk, schema, large, err := encode(events, source, mark, times)
	if err != nil {
		return Appended{}, err
	}
	if len(chunk) > maxAppend {
		return Appended{}, fmt.Errorf("an append of %d bytes: at most %d go together", len(chunk), maxAppend)
	}
	r := &request{events: events, chunk: chunk, schema: schema, large: large, done: make(chan error, 1)}
	size := min(int64(len(chunk)), maxWaiting)
	if err := s.budget.Acquire(ctx, size); err != nil {
		return Appended{}, err
	}
	defer s.budget.Release(size)
	select {
	case s.requests <- r:
	case <-ctx.Done():
		return Appended{}, ctx.Err()
	case <-s.stopped:
		return Appended{}, ErrClosed
	}
	select {
	case err = <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, cancelled) {
			return Appended{}, ctx.Err()
		}
		err = s.outcome(r)
	case <-s.stopped:
		err = s.outcome(r)
	}
	if err != nil {
		return Appended{}, refusals(err, events)
	}
	return Appended{Events: int64(len(events)) - r.twice, Duplicates: r.twice}, nil
}

// times returns which times of events are taken now.
func (s *Store) times() (window, error) {
	sn := s.current.Load()
	if sn == nil {
		return window{}, ErrClosed
	}
	w := s.opt.Times.window(s.now())
	w.kept = s.horizonAt(sn.horizon)
	return w, nil
}

// outcome returns the outcome of a request that was taken, or ErrClosed.
func (s *Store) outcome(r *request) error {
	select {
	case err := <-r.done:
		return err
	case <-s.stopped:
	}
	select {
	case err := <-r.done:
		return err
	default:
		return ErrClosed
	}
}

// refusals finds the events which have the property that the store has in another
// type, or cannot keep exactly.
func refusals(err error, events []event.Event) error {
	var why func(p event.Property) error
	if wrong, ok := errors.AsType[*event.TypeError](err); ok {
		why = func(p event.Property) error {
			if _, ok := event.Widen(wrong.Have, p.Value.Type()); ok || p.Name != wrong.Property {
				return nil
			}
			return &event.TypeError{Property: p.Name, Have: wrong.Have, Got: p.Value.Type()}
		}
	} else if wrong, ok := errors.AsType[*event.InexactError](err); ok {
		why = func(p event.Property) error {
			if p.Name != wrong.Property || wrong.Value.Missing() && p.Value.Type() != event.Float || !wrong.Value.Missing() && p.Value.Exact(event.Float) {
				return nil
			}
			if wrong.Value.Missing() {
				return wrong
			}
			return &event.InexactError{Property: p.Name, Value: p.Value}
		}
	} else {
		return err
	}
	var refused []Rejection
	for i, ev := range events {
		for _, p := range ev.Properties {
			if err := why(p); err != nil {
				refused = append(refused, Rejection{i, err})
				break
			}
		}
	}
	if len(refused) == 0 {
		return err
	}
	return &RejectedError{Refused: refused}
}

// A committer turns appends into records of the log and runs in memory. Only its
// goroutine, run, uses it.
type committer struct {
	s        *Store
	builders map[int64]*bucketBuilder // by bucket, used again
	used     []int64                  // buckets of this commit
	twice    []int64                  // by chunk of the records in the builders: events left out as duplicates
	row      row
	values   []event.Value
	payload  []byte
	voided   []uint64 // commits refused after they were written; the next record names them
	seen     seen
	buckets  bucketLimit
}

// A bucketBuilder has the rows of a bucket, and knows which chunks they are of.
type bucketBuilder struct {
	*segment.Builder
	begins []chunkRows // ascending
}

// chunkRows says that the rows of a builder from one on are of a chunk.
type chunkRows struct{ row, chunk int }

// chunkOf returns the chunk of a row.
func (b *bucketBuilder) chunkOf(row uint32) int {
	behind := sort.Search(len(b.begins), func(i int) bool { return b.begins[i].row > int(row) })
	return b.begins[behind-1].chunk
}

// keepBuilders is up to how many buckets builders are used again.
const keepBuilders = 16

func newCommitter(s *Store) *committer {
	return &committer{s: s, builders: make(map[int64]*bucketBuilder)}
}

func (c *committer) run() {
	defer close(c.s.stopped)
	for {
		select {
		case <-c.s.ctx.Done():
			return
		case op := <-c.s.ops:
			op()
		case r := <-c.s.requests:
			c.commit(c.nextGroup(r))
		}
	}
}

// nextGroup returns first and the requests that wait, up to maxGroup bytes.
func (c *committer) nextGroup(first *request) []*request {
	group := []*request{first}
	size := len(first.chunk)
	for size < maxGroup {
		select {
		case r := <-c.s.requests:
			group = append(group, r)
			size += len(r.chunk)
		default:
			return group
		}
	}
	return group
}

func (c *committer) commit(group []*request) {
	s := c.s
	full := c.waitForRoom()
	group = slices.DeleteFunc(group, func(r *request) bool { return !r.state.CompareAndSwap(waiting, taken) })
	schema := s.current.Load().schema
	c.buckets.begin(s)
	defer c.buckets.end()
	group = slices.DeleteFunc(group, func(r *request) bool {
		err := full
		if err == nil {
			err = c.buckets.take(r.events)
		}
		if err == nil {
			var merged event.Schema
			if merged, err = widen(schema, r.schema); err == nil {
				err = s.checkExact(schema, merged, r.schema, r.large)
			}
			if err == nil {
				schema = merged
				return false
			}
		}
		r.done <- err
		return true
	})
	if len(group) == 0 {
		return
	}
	buckets, err := c.write(group, schema)
	if err != nil && len(group) > 1 && errors.Is(err, errBuild) {
		for _, r := range group { // find the one that fails
			buckets, err := c.write([]*request{r}, schema)
			r.done <- err
			c.mergeSmallRuns(buckets)
		}
		return
	}
	for _, r := range group {
		r.done <- err
	}
	c.mergeSmallRuns(buckets)
}

// widen returns the schema that has the fields of both: have itself, if nothing is
// new to it.
func widen(have, more event.Schema) (event.Schema, error) {
	for _, f := range more {
		if f.Type == event.Unknown {
			continue
		}
		if t, ok := event.Widen(have.Type(f.Name), f.Type); !ok || t != have.Type(f.Name) {
			known := slices.DeleteFunc(slices.Clone(more), func(f event.Field) bool { return f.Type == event.Unknown })
			return have.Merge(known)
		}
	}
	return have, nil
}

// waitForRoom waits while there is too much in memory. It returns an error if the
// memory cannot be flushed.
func (c *committer) waitForRoom() error {
	s := c.s
	for s.memory.Load() > 2*s.opt.Memory {
		if p := s.flushErr.Load(); p != nil {
			return fmt.Errorf("memory is full, and cannot be flushed: %w", *p)
		}
		notify(s.wakeFlusher)
		select {
		case <-s.wakeCommitter:
		case op := <-s.ops:
			op()
		case <-s.ctx.Done():
			return ErrClosed
		}
	}
	return nil
}

// errBuild is wrapped by errors about events which the segment format refuses.
var errBuild = errors.New("build a run")

// write commits requests: to the log, and while that becomes durable into runs;
// then it makes them visible. It returns the buckets that got a run.
func (c *committer) write(group []*request, schema event.Schema) ([]int64, error) {
	s := c.s
	s.mu.Lock()
	s.mu.commit++
	commit := s.mu.commit
	s.mu.Unlock()
	rec := record{commit: commit, voided: c.voided}
	for _, r := range group {
		rec.chunks = append(rec.chunks, r.chunk)
	}
	c.payload = encodeRecord(c.payload[:0], rec)
	pos, err := s.wal.Append(spool.Record{Kind: spool.Data, Seq: commit, Count: 1, Payload: c.payload})
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	synced := make(chan error, 1)
	if s.opt.NoSync {
		synced <- nil
	} else {
		s.wg.Go(func() { synced <- s.wal.Sync() })
	}
	runs, marks, buildErr := c.build(rec, schema)
	if buildErr == nil {
		for i, r := range group {
			r.twice = c.twice[i]
		}
	}
	positions := []spool.Position{pos}
	if err = <-synced; err != nil {
		// What the fsync should have covered counts as lost. The log has begun
		// another file: write the commit there again, once.
		s.log.Warn("trail: fsync of the log failed; trying once more in another file", "err", err)
		if pos, err = s.wal.Append(spool.Record{Kind: spool.Data, Seq: commit, Count: 1, Payload: c.payload}); err == nil {
			positions = append(positions, pos)
			err = s.wal.Sync()
		}
	}
	if cap(c.payload) > 2*maxGroup {
		c.payload = nil
	}
	if err == nil {
		err = buildErr
	}
	if err != nil {
		c.retract(commit, positions)
		return nil, fmt.Errorf("append: %w", err)
	}
	if !s.opt.NoSync {
		s.acked.write(commit)
	}
	s.mu.Lock()
	for _, p := range positions {
		s.mu.records = append(s.mu.records, logRecord{commit, p})
	}
	if len(s.mu.records) == len(positions) {
		s.mu.oldest = s.now()
	}
	s.mu.schema, s.mu.visible = schema, commit
	if len(marks) > 0 {
		all := maps.Clone(s.mu.marks)
		if all == nil {
			all = make(map[string][]byte)
		}
		maps.Copy(all, marks)
		s.mu.marks = all
	}
	s.mu.sources = append(slices.Clone(s.mu.sources), runs...)
	first := len(s.mu.records) == len(positions)
	due := s.countLocked(runs)
	old := s.publishLocked()
	s.mu.Unlock()
	old.unpin()
	if due || first {
		notify(s.wakeFlusher)
	}
	var buckets []int64
	for _, r := range runs {
		buckets = append(buckets, r.Bucket)
	}
	return buckets, nil
}

// retract takes back a commit that was written and then refused. A kill may lose the
// acknowledgement, so the log gets a note, too: now and with every later record.
func (c *committer) retract(commit uint64, positions []spool.Position) {
	s := c.s
	s.wal.Ack(positions...)
	c.voided = append(c.voided, commit)
	s.mu.Lock()
	s.mu.commit++
	number := s.mu.commit
	s.mu.Unlock()
	note := encodeRecord(nil, record{commit: number, voided: []uint64{commit}})
	pos, err := s.wal.Append(spool.Record{Kind: spool.Data, Seq: number, Count: 1, Payload: note})
	if err != nil {
		s.log.Warn("trail: note in the log that a commit was refused", "err", err)
		return
	}
	if err := s.wal.Sync(); err != nil {
		s.log.Warn("trail: make durable that a commit was refused", "err", err)
	}
	s.mu.Lock()
	s.mu.records = append(s.mu.records, logRecord{number, pos})
	s.mu.Unlock()
}

// countLocked adds runs to what is in memory, and reports whether a flush is due.
func (s *Store) countLocked(runs []*source) bool {
	for _, r := range runs {
		s.mu.rows += r.seg.Rows()
		s.memory.Add(r.seg.Size())
	}
	return s.mu.rows >= s.opt.FlushRows || s.memory.Load() >= s.opt.Memory
}

// build makes a run for each bucket of a record, and returns the marks it has.
func (c *committer) build(rec record, schema event.Schema) (runs []*source, marks map[string][]byte, err error) {
	defer c.resetBuilders()
	sn, err := c.s.view()
	if err != nil {
		return nil, nil, err
	}
	defer sn.unpin()
	marks, err = c.add(rec, schema, sn.sources, sn.tombs, c.s.horizonAt(sn.horizon))
	if err != nil {
		return nil, nil, err
	}
	runs, err = c.seal(rec.commit)
	return runs, marks, err
}

// add puts the events of a record into builders. It leaves out events that the
// sources have already and those older than the horizon.
func (c *committer) add(rec record, schema event.Schema, sources []*source, tombs *tombstones, horizon int64) (map[string][]byte, error) {
	var marks map[string][]byte
	c.seen.reset(c.s, sources, tombs)
	if len(c.used) == 0 {
		c.twice = c.twice[:0]
	}
	for _, chunk := range rec.chunks {
		number := len(c.twice)
		c.twice = append(c.twice, 0)
		r, err := openChunk(chunk)
		if err != nil {
			return nil, err
		}
		if r.mark != nil {
			if marks == nil {
				marks = make(map[string][]byte)
			}
			marks[strings.Clone(r.source)] = slices.Clone(r.mark)
		}
		places := make([]int, len(r.schema)) // in schema, of the chunk's properties
		for i, f := range r.schema {
			places[i] = schema.Index(f.Name)
		}
		if len(c.values) < len(schema) {
			c.values = make([]event.Value, len(schema))
		}
		values := c.values[:len(schema)]
		for r.next(&c.row) {
			if c.row.time < horizon {
				continue
			}
			bucket := bucketOf(c.row.time, c.s.width)
			if c.row.id != 0 && c.seen.has(bucket, c.row.user, c.row.time, c.row.id) {
				c.twice[number]++
				continue
			}
			clear(values)
			for i, v := range c.row.values {
				if p := places[i]; p >= 0 {
					values[p], _ = v.As(schema[p].Type) // always ok, because widen made the schema
				}
			}
			c.builder(bucket, schema, number).Add(c.row.user, c.row.time, c.row.name, c.row.id, values)
		}
		if err := r.err(); err != nil {
			return nil, err
		}
	}
	clear(c.values)
	c.row = row{values: c.row.values[:0]}
	return marks, nil
}

// builder returns the builder of a bucket for the next row of a chunk.
func (c *committer) builder(bucket int64, schema event.Schema, chunk int) *bucketBuilder {
	b := c.builders[bucket]
	if b == nil {
		b = &bucketBuilder{Builder: segment.NewBuilder(schema)}
		c.builders[bucket] = b
	}
	if b.Rows() == 0 && !slices.Contains(c.used, bucket) {
		b.Extend(schema)
		c.used = append(c.used, bucket)
	}
	if n := len(b.begins); n == 0 || b.begins[n-1].chunk != chunk {
		b.begins = append(b.begins, chunkRows{b.Rows(), chunk})
	}
	return b
}

func (c *committer) seal(commit uint64) ([]*source, error) {
	var runs []*source
	for _, bucket := range c.used {
		b := c.builders[bucket]
		if b.Rows() == 0 {
			continue
		}
		image, err := b.Image()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBuild, err)
		}
		for _, row := range b.Duplicates() {
			c.twice[b.chunkOf(row)]++
		}
		run, err := memorySource(image, bucket, commit, 0)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBuild, err)
		}
		runs = append(runs, run)
	}
	c.used = c.used[:0]
	return runs, nil
}

// resetBuilders empties the builders after a commit, whether it went well or not.
func (c *committer) resetBuilders() {
	for bucket, b := range c.builders {
		b.Reset()
		b.begins = b.begins[:0]
		if len(c.builders) > keepBuilders || b.Bytes() > maxGroup {
			delete(c.builders, bucket)
		}
	}
	c.used = c.used[:0]
}

func memorySource(image []byte, bucket int64, commit, applied uint64) (*source, error) {
	seg, err := segment.FromBytes("memory", image)
	if err != nil {
		return nil, err
	}
	return &source{entry: entryOf(seg, "", bucket, commit, applied), seg: seg, memory: true}, nil
}
