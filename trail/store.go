package trail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/uniflow-labs/uniflow/internal/spool"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A Store is an open folder of events. Make one with Open, and Close it. All
// methods can be called from several goroutines; queries run beside each other
// and beside whatever changes the store.
//
// A store that is open for writing has three goroutines: the committer takes
// appends, the flusher writes what is in memory to segments, the compactor merges
// segments. One open for reading has none.
type Store struct {
	dir    string
	opt    Options
	fs     spool.FS
	mapped bool // segments are mapped, being files of the real file system
	log    *slog.Logger
	now    func() time.Time
	width  int64 // of a bucket, in ms; immutable after Open
	lock   io.Closer
	wal    *spool.Spool

	current atomic.Pointer[snapshot] // nil after Close
	slots   chan struct{}            // one for each worker that a query may have; capacity GOMAXPROCS

	budget    *semaphore.Weighted // bytes of appends that wait
	requests  chan *request       // to the committer; bounded by the budget, the capacity only spares switches
	ops       chan func()         // run by the committer between commits; unbuffered
	wake      chan struct{}       // tells the flusher to look; capacity 1: one look is enough
	compact   chan struct{}       // tells the compactor to look; capacity 1
	room      chan struct{}       // tells the committer that a flush has ended; capacity 1
	flushes   chan chan error     // calls of Flush, to the flusher
	jobs      chan *compactJob    // calls of Compact, to the compactor
	importing chan struct{}       // held by the one import; capacity 1
	stopped   chan struct{}       // closed by the committer at its end

	memory   atomic.Int64 // bytes of runs in memory
	nextFile atomic.Uint64
	flushErr atomic.Pointer[error] // of the last flush; nil if it went well

	ctx    context.Context // done when the store closes
	cancel context.CancelFunc
	wg     sync.WaitGroup // the three goroutines
	calls  sync.WaitGroup // calls that change the store; added to under mu while it is open

	closeOnce sync.Once
	closeErr  error

	turn struct { // held during the I/O of the manifest
		sync.Mutex
		man        *manifest
		generation uint64       // the highest that was ever tried
		garbage    []string     // files that the second copy may still name
		cursor     spool.Cursor // of one who reads: how far the log is read
	}
	mu struct { // never held during I/O
		sync.Mutex
		closed  bool
		commit  uint64 // the last number given
		shown   uint64 // the last of which the events are in the state
		pending uint64 // the commit of a deletion that is being written; 0 for none
		sources []*source
		schema  event.Schema // changed by the committer alone
		horizon int64
		tombs   *tombstones
		cohorts []*cohort         // immutable
		marks   map[string][]byte // immutable
		records []logged
		rows    int       // in memory
		oldest  time.Time // when the first of the records was written
		flushed uint64    // runs up to this commit are being flushed, and left alone by others
	}
}

// logged is a record of the log that is in no segment yet.
type logged struct {
	commit uint64
	pos    spool.Position
}

// Open opens the store in a folder, which it makes unless it is for reading only.
// A damaged or missing segment is logged, and costs the queries that need it;
// *LockedError tells of a second writer.
func Open(dir string, opt Options) (*Store, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	s := newStore(dir, opt)
	if opt.ReadOnly {
		if err := s.load(); err != nil {
			s.cancel()
			return nil, fmt.Errorf("open store %s: %w", dir, err)
		}
		return s, nil
	}
	if err := s.openWriter(); err != nil {
		s.cancel()
		if _, ok := errors.AsType[*LockedError](err); ok {
			return nil, err // says all there is to say
		}
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	return s, nil
}

func newStore(dir string, opt Options) *Store {
	s := &Store{
		dir: dir, opt: opt, fs: opt.fs, log: opt.Log, now: opt.now,
		slots:     make(chan struct{}, runtime.GOMAXPROCS(0)),
		budget:    semaphore.NewWeighted(maxWaiting),
		requests:  make(chan *request, 256),
		ops:       make(chan func()),
		wake:      make(chan struct{}, 1),
		compact:   make(chan struct{}, 1),
		room:      make(chan struct{}, 1),
		flushes:   make(chan chan error),
		jobs:      make(chan *compactJob),
		importing: make(chan struct{}, 1),
		stopped:   make(chan struct{}),
	}
	if s.fs == nil {
		s.fs, s.mapped = spool.Disk(), true
		if opt.ReadOnly {
			s.fs = spool.Reading()
		}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.horizon = math.MinInt64
	s.mu.tombs = newTombstones(nil)
	return s
}

func (s *Store) openWriter() (err error) {
	for _, d := range []string{"", segmentDir, cohortDir, tmpDir} {
		if err := s.fs.MkdirAll(filepath.Join(s.dir, d)); err != nil {
			return err
		}
	}
	if err := s.acquire(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if s.wal != nil {
				err = errors.Join(err, s.wal.Close())
			}
			err = errors.Join(err, s.lock.Close())
		}
	}()
	if err := s.readOrMake(); err != nil {
		return err
	}
	s.adopt(s.turn.man, nil)
	if err := s.clean(); err != nil {
		return err
	}
	if err := s.openLog(); err != nil {
		return err
	}
	s.mu.Lock()
	s.publishLocked()
	s.mu.Unlock()
	s.wg.Go(s.commitLoop)
	s.wg.Go(s.flushLoop)
	s.wg.Go(s.compactLoop)
	s.nudge(s.wake)
	s.nudge(s.compact)
	return nil
}

// readOrMake sets the manifest: the one that is there, with both copies alike
// afterwards, or that of a new store.
func (s *Store) readOrMake() error {
	found := readManifests(s.fs, s.dir)
	for i, err := range found.errs {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Error("trail: a copy of the manifest is damaged", "path", filepath.Join(s.dir, manifestNames[i]), "err", err)
		}
	}
	man := found.best
	switch {
	case man != nil:
	case found.none():
		names, err := s.fs.ReadDir(filepath.Join(s.dir, segmentDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if slices.ContainsFunc(names, isSegment) {
			return s.rebuild(errors.New("both copies of the manifest are missing, and there are segments"))
		}
		man = &manifest{Version: manifestVersion, Bucket: s.opt.Bucket.Milliseconds()}
	default:
		for _, err := range found.errs {
			if v, ok := errors.AsType[*versionError](err); ok {
				return v
			}
		}
		return s.rebuild(found.err())
	}
	s.turn.man, s.turn.generation = man, man.Generation
	if found.same() {
		return nil
	}
	err := s.rewriteManifest()
	if err != nil && found.best != nil {
		s.log.Warn("trail: one copy of the manifest is not as it should be", "err", err)
		return nil
	}
	return err
}

// rewriteManifest writes the manifest as it is, in a new generation.
func (s *Store) rewriteManifest() error {
	s.turn.generation++
	s.turn.man.Generation = s.turn.generation
	return writeManifest(s.fs, s.dir, s.turn.man)
}

// adopt makes a manifest the state, with the sources that are open already.
func (s *Store) adopt(man *manifest, open map[string]*source) {
	s.width = man.Bucket
	schema, err := fieldsSchema(man.Schema)
	if err != nil { // decodeManifest has looked
		s.log.Error("trail: schema of the manifest", "err", err)
	}
	var sources []*source
	for _, e := range man.Segments {
		src := open[e.File]
		if src == nil {
			src = s.openSource(e)
		}
		sources = append(sources, src)
	}
	var cohorts []*cohort
	for _, c := range man.Cohorts {
		cohorts = append(cohorts, &cohort{cohortEntry: c})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.commit, s.mu.shown = man.Commit, man.Commit
	s.mu.sources, s.mu.schema, s.mu.horizon, s.mu.cohorts = sources, schema, man.horizon(), cohorts
	s.mu.tombs = newTombstones(man.Deleted)
	s.mu.marks = man.Marks
	s.nextFile.Store(max(s.nextFile.Load(), man.NextFile))
}

// openSource opens a segment. If that cannot be done, the source says why.
func (s *Store) openSource(e entry) *source {
	src := &source{entry: e}
	path := s.segmentPath(e.File)
	seg, err := openSegment(s.fs, s.mapped, path)
	if err == nil && int64(seg.Rows()) != e.Rows {
		err = errors.Join(&segment.DamageError{Path: path, Section: "footer", Reason: fmt.Sprintf("it has %d rows, and the manifest says %d", seg.Rows(), e.Rows)}, seg.Close())
		seg = nil
	}
	src.seg = seg
	if err != nil {
		src.damage = err
		s.log.Error("trail: a segment cannot be read; queries that need it will fail", "path", path, "err", err)
	}
	return src
}

// clean deletes what a crash has left: files that the manifest does not name.
func (s *Store) clean() error {
	if !readManifests(s.fs, s.dir).same() {
		return nil // the other copy may name more
	}
	named := make(map[string]bool)
	for _, e := range s.turn.man.Segments {
		named[filepath.Join(segmentDir, e.File)] = true
	}
	for _, c := range s.turn.man.Cohorts {
		named[filepath.Join(cohortDir, c.File)] = true
	}
	next := s.nextFile.Load()
	for _, dir := range []string{segmentDir, cohortDir, tmpDir} {
		names, err := s.fs.ReadDir(filepath.Join(s.dir, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if n, ok := fileNumber(name); ok {
				next = max(next, n+1)
			}
			path := filepath.Join(dir, name)
			if !named[path] {
				s.log.Info("trail: delete a file that no manifest names", "path", path)
				s.discard(filepath.Join(s.dir, path))
			}
		}
	}
	s.nextFile.Store(next)
	return nil
}

// rebuild makes a manifest from the segments, if that is allowed.
func (s *Store) rebuild(why error) error {
	if !s.opt.Rebuild {
		return fmt.Errorf("%w; opening it with Options.Rebuild makes a new one from the segments that are there, and loses deletions, the horizon, marks and cohorts", why)
	}
	names, err := s.fs.ReadDir(filepath.Join(s.dir, segmentDir))
	if err != nil {
		return err
	}
	man := &manifest{Version: manifestVersion, Bucket: s.opt.Bucket.Milliseconds()}
	var schema event.Schema
	for _, name := range names {
		number, commit, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		man.NextFile = max(man.NextFile, number+1)
		seg, err := openSegment(s.fs, s.mapped, s.segmentPath(name))
		if err != nil {
			s.log.Error("trail: rebuild: a segment is left out", "file", name, "err", err)
			continue
		}
		merged, err := schema.Merge(seg.Schema())
		if err != nil {
			return errors.Join(fmt.Errorf("rebuild: %s: %w", name, err), seg.Close())
		}
		schema = merged
		for i := range schema {
			schema[i].Name = strings.Clone(schema[i].Name) // it may be lent from the map
		}
		man.Segments = append(man.Segments, entryOf(seg, name, bucketOf(seg.MinTime(), man.Bucket), commit, commit))
		man.Commit = max(man.Commit, commit)
		if bucketOf(seg.MinTime(), man.Bucket) != bucketOf(seg.MaxTime(), man.Bucket) {
			return errors.Join(fmt.Errorf("rebuild: %s covers more than a bucket of %v: open the store with the bucket it was made with", name, s.opt.Bucket), seg.Close())
		}
		if err := seg.Close(); err != nil {
			return err
		}
	}
	man.Flushed = man.Commit
	man.Schema = schemaFields(schema)
	s.log.Warn("trail: the manifest was made anew from the segments; deletions, the horizon, marks and cohorts are lost", "why", why, "segments", len(man.Segments))
	s.turn.man = man
	return s.rewriteManifest()
}

// entryOf describes a segment.
func entryOf(seg *segment.Segment, file string, bucket int64, commit, applied uint64) entry {
	return entry{
		File: file, Bucket: bucket, Commit: commit, Applied: applied,
		Rows: int64(seg.Rows()), Users: int64(seg.Users()), MinTime: seg.MinTime(), MaxTime: seg.MaxTime(),
		Bytes: seg.Size(), IDs: seg.HasIDs(),
	}
}

// segmentName returns a name that was never used: its number, and the last commit
// in it, for rebuild.
func (s *Store) segmentName(commit uint64) string {
	return fmt.Sprintf("%012d-%d.seg", s.nextFile.Add(1)-1, commit)
}

func isSegment(name string) bool { return strings.HasSuffix(name, ".seg") }

func parseSegmentName(name string) (number, commit uint64, ok bool) {
	_, err := fmt.Sscanf(name, "%d-%d.seg", &number, &commit)
	return number, commit, err == nil && isSegment(name)
}

// epochMonday is the Monday that weeks, and so buckets, are counted from.
const epochMonday = 4 * 24 * 60 * 60 * 1000

// bucketOf returns the number of the bucket that a time is in.
func bucketOf(millis, width int64) int64 {
	d := millis - epochMonday
	b := d / width
	if d%width < 0 {
		b--
	}
	return b
}

// begin marks the start of a call that changes the store; its context is done when
// the store closes. The call ends with end.
func (s *Store) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	if s.opt.ReadOnly {
		return nil, nil, ErrReadOnly
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, nil, ErrClosed
	}
	s.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel(); s.calls.Done() }, nil
}

// onCommitter runs f between two commits.
func (s *Store) onCommitter(f func()) {
	done := make(chan struct{})
	select {
	case s.ops <- func() { defer close(done); f() }:
		<-done
	case <-s.stopped:
		f() // there are no commits any more, and the flusher is alone
	}
}

func (s *Store) nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has not yet looked since the last time
	}
}

// Close ends the background work, writes what is in memory to segments, and
// releases the lock. Queries that run go on, and free what they use when they end;
// other calls are cancelled. A second call returns what the first did.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.shut() })
	return s.closeErr
}

// shut closes in this order: no new calls; the context of those that run is done,
// and they end; the committer refuses what waits and ends; the flusher flushes and
// ends, the compactor ends; the log; the snapshot; the lock.
func (s *Store) shut() error {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.cancel()
	s.calls.Wait()
	s.wg.Wait()
	var err error
	if s.wal != nil {
		if p := s.flushErr.Load(); p != nil {
			s.log.Warn("trail: what is in memory stays in the log", "err", *p)
		}
		err = s.wal.Close()
	}
	if sn := s.current.Swap(nil); sn != nil {
		sn.unpin()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// Schema returns the properties of the events in the store. The caller must not
// change it.
func (s *Store) Schema() event.Schema {
	sn, err := s.view()
	if err != nil {
		return nil
	}
	defer sn.unpin()
	return sn.schema
}

// Mark returns the last mark that AppendMarked kept for a source, nil for none.
func (s *Store) Mark(source string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.marks[source])
}

// commitManifest writes the manifest that change makes of a copy of the present
// one, and then has apply change the state in the same way, under mu. What apply
// returns are sources that are gone from the state; their files are deleted when
// nobody reads them.
//
// After an error nothing has changed; but if it is unsure, the next Open may find
// the new manifest, and files that it names must be left.
func (s *Store) commitManifest(change func(m *manifest) error, apply func() []*source) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	next := s.turn.man.clone()
	s.mu.Lock()
	next.Commit = s.mu.commit
	next.Schema = schemaFields(s.mu.schema)
	s.mu.Unlock()
	next.NextFile = s.nextFile.Load()
	if err := change(next); err != nil {
		return err
	}
	next.prune()
	s.turn.generation++
	next.Generation = s.turn.generation
	err := writeManifest(s.fs, s.dir, next)
	if failed, ok := errors.AsType[*writeError](err); ok && !failed.committed {
		return err
	}
	s.turn.man = next
	s.mu.Lock()
	if !slices.Equal(next.Deleted, s.mu.tombs.all) {
		s.mu.tombs = newTombstones(next.Deleted)
	}
	gone := apply()
	old := s.publishLocked()
	s.mu.Unlock()
	if err != nil {
		s.log.Error("trail: the second copy of the manifest", "err", err)
		for _, src := range gone {
			s.turn.garbage = append(s.turn.garbage, s.segmentPath(src.File))
		}
		old.unpin()
		return nil
	}
	for _, src := range gone {
		src.spent.Store(!src.memory)
	}
	old.unpin()
	for _, path := range s.turn.garbage {
		s.discard(path)
	}
	s.turn.garbage = nil
	return nil
}

// prune takes out the deletions that no source is subject to any more, nor can be:
// everything that was appended before them is in a segment.
func (m *manifest) prune() {
	m.Deleted = slices.DeleteFunc(m.Deleted, func(t tombstone) bool {
		return t.Commit <= m.Flushed && !slices.ContainsFunc(m.Segments, func(e entry) bool { return e.subject(t) })
	})
}

// replaceLocked swaps sources of the state. The caller has mu.
func (s *Store) replaceLocked(out []*source, in ...*source) {
	s.mu.sources = slices.DeleteFunc(slices.Clone(s.mu.sources), func(src *source) bool { return slices.Contains(out, src) })
	s.mu.sources = append(s.mu.sources, in...)
}

// appliedLocked returns the commit up to which all deletions are in the state.
func (s *Store) appliedLocked() uint64 {
	if s.mu.pending > 0 {
		return s.mu.pending - 1
	}
	return s.mu.commit
}

// inputsLocked describes sources to a merge. The caller has mu, and a pin on a
// snapshot that has them or the mark that they are busy.
func (s *Store) inputsLocked(sources []*source, horizon int64) []segment.Input {
	inputs := make([]segment.Input, len(sources))
	for i, src := range sources {
		inputs[i] = segment.Input{Segment: src.seg, Dropped: s.mu.tombs.of(&src.entry), From: horizon}
	}
	return inputs
}

// horizonAt returns the time before which there are no events.
func (s *Store) horizonAt(kept int64) int64 {
	if s.opt.Keep > 0 {
		return max(kept, event.Millis(s.now().Add(-s.opt.Keep)))
	}
	return kept
}

var hostname = sync.OnceValue(func() string {
	name, err := os.Hostname()
	if err != nil {
		return "this machine"
	}
	return name
})
