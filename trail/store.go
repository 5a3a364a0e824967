package trail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
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
	dir    string
	opt    Options
	fs     vfs.FS
	mapped bool // segments are mapped, being files of the real file system
	log    *slog.Logger
	now    func() time.Time
	width  int64 // of a bucket, in ms; immutable after Open
	lock   io.Closer
	wal    *spool.Spool
	acked  ackNote
	large  map[string]bool // properties known to have integers that a number cannot hold exactly; owned by the committer

	current atomic.Pointer[snapshot] // nil after Close
	sweeper sweeper
	slots   chan struct{} // one for each worker of a query; capacity GOMAXPROCS

	budget        *semaphore.Weighted // bytes of appends that wait
	requests      chan *request       // to the committer; the budget bounds it, the capacity saves goroutine switches
	ops           chan func()         // run by the committer between commits; unbuffered
	wakeFlusher   chan struct{}       // capacity 1
	wakeCompactor chan struct{}       // capacity 1
	wakeCommitter chan struct{}       // sent after each flush; capacity 1
	flushes       chan chan error     // calls of Flush, to the flusher
	jobs          chan *compactJob    // calls of Compact, to the compactor
	importing     chan struct{}       // has an element while an import runs; capacity 1
	stopped       chan struct{}       // closed when the committer has ended

	memory   atomic.Int64 // bytes of runs in memory
	nextFile atomic.Uint64
	flushErr atomic.Pointer[error] // of the last flush; nil if it went well

	ctx    context.Context // done when the store closes
	cancel context.CancelFunc
	wg     sync.WaitGroup // of the goroutines
	calls  sync.WaitGroup // calls that change the store; added to under mu while it is open

	closeOnce sync.Once
	closeErr  error

	manifest struct { // held during the I/O of the manifest
		sync.Mutex
		current    *manifest
		generation uint64   // the highest that was ever tried
		garbage    []string // files that the second copy may still name
		log        logScan  // of a reader: the log so far
	}
	mu struct { // never held during I/O
		sync.Mutex
		closed  bool
		commit  uint64 // the last number assigned
		visible uint64 // the last commit whose events are in the state
		pending uint64 // the commit of a deletion that is being written; 0 for none
		sources []*source
		schema  event.Schema // changed by the committer alone
		horizon int64
		tombs   *tombstones
		cohorts []*cohort         // immutable
		marks   map[string][]byte // immutable
		records []logRecord
		rows    int       // in memory
		oldest  time.Time // when the first of the records was written
		flushed uint64    // runs up to this commit are being flushed, and left alone by others
		lost    int       // places of the log that have lost records

		logBytes, logRecords int64 // of a reader: the part of the log that is in no segment
	}

	scratch exec.Scratch // of queries
}

// logRecord is a record of the log that is in no segment yet.
type logRecord struct {
	commit uint64
	pos    spool.Position
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
	if opt.ReadOnly {
		if err := s.load(); err != nil {
			s.cancel()
			return nil, fmt.Errorf("open store %s: %w", dir, err)
		}
		s.sweeper.start(s.ctx, &s.wg)
		return s, nil
	}
	if err := s.openWriter(); err != nil {
		s.cancel()
		if _, ok := errors.AsType[*LockedError](err); ok {
			return nil, err // it names the store
		}
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	return s, nil
}

func newStore(dir string, opt Options) *Store {
	s := &Store{
		dir: dir, opt: opt, fs: opt.fs, log: opt.Log, now: opt.now,
		slots:         make(chan struct{}, runtime.GOMAXPROCS(0)),
		budget:        semaphore.NewWeighted(maxWaiting),
		requests:      make(chan *request, 256),
		ops:           make(chan func()),
		wakeFlusher:   make(chan struct{}, 1),
		wakeCompactor: make(chan struct{}, 1),
		sweeper:       sweeper{wake: make(chan struct{}, 1)},
		wakeCommitter: make(chan struct{}, 1),
		flushes:       make(chan chan error),
		jobs:          make(chan *compactJob),
		importing:     make(chan struct{}, 1),
		stopped:       make(chan struct{}),
		large:         make(map[string]bool),
	}
	if s.fs == nil {
		s.fs, s.mapped = vfs.OS{}, true
		if opt.ReadOnly {
			s.fs = vfs.OS{ReadOnly: true}
		}
	}
	s.acked = ackNote{fs: s.fs, path: filepath.Join(dir, ackedName), log: s.log}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.horizon = math.MinInt64
	s.mu.tombs = newTombstones(nil)
	return s
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

func (s *Store) onCommitter(f func()) {
	done := make(chan struct{})
	select {
	case s.ops <- func() { defer close(done); f() }:
		<-done
	case <-s.stopped:
		f() // the committer has ended, and only the flusher calls this
	}
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
		if p := s.flushErr.Load(); p != nil {
			s.log.Warn("trail: events in memory stay in the log", "err", *p)
		}
		err = s.wal.Close()
	}
	err = errors.Join(err, s.acked.note.Close())
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
