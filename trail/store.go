package trail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
)

// A Store is an open folder of events. Make one with Open, and Close it. All
// methods can be called concurrently; queries run concurrently with each other and
// with changes.
//
// A store that is open for writing has four goroutines: the committer takes
// appends, the flusher writes what is in memory to segments, the compactor merges
// segments, and the sweeper frees snapshots. One open for reading has the sweeper
// only.
type Store struct {
	opt     Options
	log     *slog.Logger
	files   *folder
	state   *state
	acked   ackNote
	catalog *catalog // of a writer
	reader  reader   // of a reader

	committer *committer
	flusher   *flusher
	compactor *compactor
	admission *admission
	segments  *segmentWriter
	importing chan struct{} // has an element while an import runs; capacity 1

	lock io.Closer
	wal  *spool.Spool

	slots   chan struct{} // one for each worker of a query; capacity GOMAXPROCS
	scratch exec.Scratch  // of queries

	ctx    context.Context // done when the store closes
	cancel context.CancelFunc
	wg     sync.WaitGroup // of the goroutines
	mu     struct {       // nothing is locked under it
		sync.Mutex
		closed bool
	}
	calls sync.WaitGroup // that change the store; added to under mu while it is open

	closeOnce sync.Once
	closeErr  error
}

// Open opens the store in a folder, which it makes unless it is for reading only.
// A damaged or missing segment is logged, and queries that need it fail. The error is
// a *LockedError if another process has the store open for writing.
func Open(dir string, opt Options) (*Store, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	s := newStore(dir, opt)
	open := s.openWriter
	if opt.ReadOnly {
		open = s.openReader
	}
	if err := open(); err != nil {
		s.cancel()
		if _, ok := errors.AsType[*LockedError](err); ok {
			return nil, err // it names the store
		}
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	return s, nil
}

func newStore(dir string, opt Options) *Store {
	files := newFolder(dir, opt)
	st := newState(files, opt)
	s := &Store{
		opt: opt, log: opt.Log, files: files, state: st,
		acked:     ackNote{files: files},
		catalog:   &catalog{files: files, state: st},
		admission: newAdmission(st, opt.buckets),
		segments:  &segmentWriter{files: files, state: st, rows: opt.rows},
		importing: make(chan struct{}, 1),
		slots:     make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	s.reader = reader{files: files, state: st, acked: &s.acked}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// start wires the goroutines of a writer and starts them.
func (s *Store) start() {
	builder := newRunBuilder(s.log)
	env := commitEnv{
		wal:   s.wal,
		room:  func() (bool, error) { return s.flusher.room() },
		admit: s.admission.admit,
		build: func(rec record, schema event.Schema) (built, error) {
			sn, err := s.state.view()
			if err != nil {
				return built{}, err
			}
			defer sn.unpin()
			return builder.build(rec, schema, sn)
		},
		settle: s.settle,
	}
	if !s.opt.NoSync {
		env.durable = s.acked.write
	}
	s.committer = newCommitter(env, s.state)
	s.flusher = newFlusher(flushEnv{
		between: s.committer.do,
		write:   s.segments.write,
		replace: s.catalog.replace,
		deleted: s.catalog.deletedSinceFlush,
		ack: func(positions ...spool.Position) {
			s.wal.Ack(positions...)
			notify(s.compactor.wake)
		},
		flushed: func() { notify(s.committer.flushed) },
	}, s.state, s.opt)
	s.compactor = newCompactor(compactEnv{
		expire: s.expire, write: s.segments.write, replace: s.catalog.replace, commit: s.catalog.commit,
	}, s.state)
	s.wg.Go(func() { s.committer.run(s.ctx) })
	s.wg.Go(func() { s.flusher.run(s.ctx, s.committer.stopped) })
	s.wg.Go(func() { s.compactor.run(s.ctx) })
	notify(s.flusher.wake)
	notify(s.compactor.wake)
}

// settle merges the small runs in memory of the buckets that a commit brought, and wakes
// the flusher for more.
func (s *Store) settle(runs []*source, first bool) {
	if first || s.flusher.much() {
		notify(s.flusher.wake)
	}
	if len(runs) == 0 {
		return
	}
	buckets := bucketsOf(runs)
	for s.state.mergeRuns(buckets, fewRows) {
	}
	if s.state.hasCrowded(buckets, manyRows) {
		notify(s.flusher.wake)
	}
}

// Flush writes what is in memory to segments.
func (s *Store) Flush(ctx context.Context) error {
	return s.change(ctx, func(ctx context.Context) error { return s.flusher.call(ctx) })
}

// Compact makes one segment of each bucket that has several, or one for each part of its
// users if they have many events, and carries out deletions and the horizon. The progress
// is in bytes of segments read. Queries and appends go on meanwhile.
//
// A damaged segment stays as it is, with a warning in the log; users stay hidden
// in it until it is given up with Discard.
func (s *Store) Compact(ctx context.Context, progress func(done, total int64)) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	return s.change(ctx, func(ctx context.Context) error {
		if err := s.flusher.call(ctx); err != nil {
			return err
		}
		return s.compactor.do(ctx, func() error { return s.compactor.mergeAll(ctx, progress) })
	})
}

// change runs f, which changes the store. Its context is done when the store closes.
func (s *Store) change(ctx context.Context, f func(ctx context.Context) error) error {
	if s.opt.ReadOnly {
		return ErrReadOnly
	}
	return s.call(ctx, f)
}

// call runs f while the store is open, and Close waits for it. Its context is done when
// the store closes.
func (s *Store) call(ctx context.Context, f func(ctx context.Context) error) error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.calls.Add(1)
	s.mu.Unlock()
	defer s.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	return f(ctx)
}

// notify wakes the goroutine that waits for c.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// Close ends the background work, writes what is in memory to segments, and
// releases the lock. Running queries continue, and free what they use when they end.
// Other calls are cancelled. A second call returns the result of the first.
func (s *Store) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.shutdown() })
	return s.closeErr
}

// shutdown refuses new calls and cancels running ones; then the committer refuses
// waiting requests and ends, the flusher flushes and ends, and the compactor ends;
// then it closes the log, the snapshot and the lock, in this order.
func (s *Store) shutdown() error {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.cancel()
	s.calls.Wait()
	s.wg.Wait()
	var err error
	if s.wal != nil {
		if last := s.flusher.failure.Load(); last != nil {
			s.log.Warn("trail: events in memory stay in the log", "err", last.err)
		}
		err = s.wal.Close()
	}
	err = errors.Join(err, s.acked.note.Close())
	if sn := s.state.current.Swap(nil); sn != nil {
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
	sn, err := s.state.view()
	if err != nil {
		return nil
	}
	defer sn.unpin()
	return sn.schema
}

// Mark returns the last mark that AppendMarked kept for a source, nil for none.
func (s *Store) Mark(source string) []byte {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	return slices.Clone(s.state.mu.marks[source])
}
