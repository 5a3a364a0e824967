package spool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// Options are what a spool is opened with. Zero values are the defaults, but for
// Dir.
type Options struct {
	// Dir is the folder, made if missing. No one else may write in it.
	Dir string
	// SegmentBytes is how long a file becomes before the next is begun: default
	// 64 MiB, at most an eighth of MaxBytes. Disk is given back by whole files. A
	// longer record gets a file of its own.
	SegmentBytes int64
	// MaxBytes is how much the segments may hold together; 0: no limit.
	MaxBytes int64
	// SyncEvery is how long a record may wait for its fsync: default 10 ms. If
	// negative, time calls for none.
	SyncEvery time.Duration
	// SyncBytes is how much may be written before an fsync is made earlier than
	// that: default 1 MiB. If negative, there is no such limit.
	SyncBytes int64
	// CheckpointEvery is how often acknowledgements are written, when there are
	// new ones: default 100 ms. What was acknowledged since comes back after a
	// crash.
	CheckpointEvery time.Duration
	// FS is the file system; nil: the real one.
	FS vfs.FS
	// Log is told of damage and of changes between working and failing; nil:
	// nobody is.
	Log *slog.Logger
}

const (
	defaultSegment    = 64 << 20
	minSegment        = 4 << 10
	defaultSyncBytes  = 1 << 20
	defaultSyncEvery  = 10 * time.Millisecond
	defaultCheckpoint = 100 * time.Millisecond
)

func (o Options) withDefaults() Options {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = defaultSegment
	}
	if o.MaxBytes > 0 {
		o.SegmentBytes = min(o.SegmentBytes, max(o.MaxBytes/8, minSegment))
	}
	if o.SyncEvery == 0 {
		o.SyncEvery = defaultSyncEvery
	}
	if o.SyncBytes == 0 {
		o.SyncBytes = defaultSyncBytes
	}
	if o.CheckpointEvery <= 0 {
		o.CheckpointEvery = defaultCheckpoint
	}
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

var (
	// ErrFull is wrapped by what Append returns for a lack of space, be it the
	// disk's or MaxBytes. Nothing of the record was kept; a later Append works
	// when there is space again.
	ErrFull = errors.New("spool is full")
	// ErrTooLarge is returned by Append for a payload of 2 GiB or more.
	ErrTooLarge = errors.New("record too large for the spool")
	// ErrClosed is returned by what needs an open spool.
	ErrClosed = errors.New("spool is closed")
	// ErrGone is wrapped by what Read returns for a record whose segment was
	// deleted, since everything in it had been acknowledged.
	ErrGone = errors.New("record is gone")
)

// A CorruptError is returned by Read for a record that is not what was written.
type CorruptError struct {
	Position Position
	Path     string // of the segment
	Reason   string
}

// Error says which record is damaged, and how.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s at byte %d: damaged record: %s", e.Path, e.Position.offset, e.Reason)
}

// A SyncError is given to the callbacks of Durable for records of which it is
// not known whether they are on disk. They stay readable and unacknowledged; who
// still has their content appends it anew.
type SyncError struct {
	Path string // of the segment
	Err  error
}

// Error says which file could not be made durable.
func (e *SyncError) Error() string { return fmt.Sprintf("%s: not durable: %v", e.Path, e.Err) }

// Unwrap returns the error of the fsync.
func (e *SyncError) Unwrap() error { return e.Err }

// Stats are figures of a moment.
type Stats struct {
	Bytes       int64         // in segments
	LiveBytes   int64         // of records that are not acknowledged
	LiveEvents  uint64        // within them
	LiveRecords uint64        //
	Segments    int           // files
	Appended    uint64        // records, since Open
	Corrupt     int           // damaged places, since Open and at it
	Syncs       uint64        // of segments, since Open
	LastSync    time.Duration // how long the last took
	LastErr     error         // of the last append, or else of making durable; nil again when that works
}

// A Spool is an open folder of segments. Make one with Open, and Close it; all
// methods may be called from several goroutines.
//
// It has one goroutine, which makes records durable, writes checkpoints, deletes
// files and runs the callbacks of Durable. When nothing is appended or
// acknowledged, it waits without a timer.
type Spool struct {
	opt     Options
	fs      vfs.FS
	log     *slog.Logger
	lock    io.Closer
	epoch   uint64
	old     []*segment    // to be given back by Recovered; taken by the first call
	wake    chan struct{} // tells the goroutine to look at what is below; capacity 1: one look is enough
	wg      sync.WaitGroup
	loop    loopState // of the goroutine
	w       writer
	remover remover // its lock is taken after w's

	closeOnce sync.Once
	closeErr  error

	mu struct { // taken after the other two, and never held during I/O
		sync.Mutex
		segments []*segment // by number; the writer's is among them
		bytes    int64      // sum of their ends
		live     int64      // bytes of records not acknowledged
		records  uint64     // not acknowledged
		open     int        // files held open

		queue   []*segment // with records that no fsync covers yet, the oldest first
		pending int64      // bytes that no fsync covers yet
		finish  []*segment // sealed, and not yet cut to length
		dead    []*segment // sealed and wholly acknowledged
		waiters []waiter   // the callbacks of Durable
		syncers []chan error
		syncErr error  // of segments that failed since the last answer to a syncer
		recheck bool   // a waiter may be settled already
		force   bool   // fsync now
		changed bool   // the checkpoint is out of date
		next    uint64 // above the number of every segment
		closing bool

		appended uint64
		corrupt  int
		syncs    uint64
		lastSync time.Duration
		writeErr error // of the last append
		diskErr  error // of making durable, of checkpoints and deleting, since an fsync worked
	}
}

type waiter struct {
	p Position
	f func(error)
}

// A segment is one file. Fields without a note are guarded by Spool.mu.
type segment struct {
	number uint64   // immutable
	path   string   // immutable
	file   vfs.File // nil if closed; closed only when refs is 0
	refs   int      // of those who use the file
	end    int64    // of the last record
	synced int64    // everything before is durable
	failed *SyncError
	sealed bool // nothing is appended any more
	queued bool // is in queue
	dying  bool // someone deletes it
	acks   ackSet

	events       uint64 // appended, or found when opened
	syncedEvents uint64 // those before synced
	ackedEvents  uint64

	entered bool   // the folder's entry is durable; of the goroutine
	room    int64  // how long the file was made; immutable
	damaged []span // found when opened; immutable
}

// deadLocked reports whether nothing in the segment is needed.
func (g *segment) deadLocked() bool { return g.acks.mark >= g.end }

// Epoch returns a number that is greater than any this folder had before. It is
// of this opening: two spools never have the same one.
func (s *Spool) Epoch() uint64 { return s.epoch }

// Stats returns figures of this moment.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{
		Bytes: s.mu.bytes, LiveBytes: s.mu.live, LiveRecords: s.mu.records, Segments: len(s.mu.segments),
		Appended: s.mu.appended, Corrupt: s.mu.corrupt, Syncs: s.mu.syncs, LastSync: s.mu.lastSync, LastErr: cmp.Or(s.mu.writeErr, s.mu.diskErr),
	}
	for _, g := range s.mu.segments {
		st.LiveEvents += g.events - min(g.ackedEvents, g.events)
	}
	return st
}

// Read appends the payload of a record to dst and returns the result. Give dst
// room for Position.Size bytes to spare an allocation. The error is a
// *CorruptError if the record is damaged.
func (s *Spool) Read(p Position, dst []byte) ([]byte, error) {
	g, f, err := s.use(p.segment)
	if err != nil {
		return dst, fmt.Errorf("read spool at %v: %w", p, err)
	}
	defer s.release(g)
	start := len(dst)
	dst = append(dst, make([]byte, p.length)...) // makes no second slice
	b := dst[start:]
	if n, err := f.ReadAt(b, p.offset); n < len(b) {
		if errors.Is(err, io.EOF) {
			return dst[:start], s.damaged(&CorruptError{p, g.path, "the file ends within it"})
		}
		return dst[:start], fmt.Errorf("read spool at %v: %w", p, err)
	}
	if _, ok := parseRecord(b); !ok {
		return dst[:start], s.damaged(&CorruptError{p, g.path, "wrong checksum"})
	}
	n := copy(b, b[recordHeader:])
	return dst[:start+n], nil
}

func (s *Spool) damaged(err *CorruptError) error {
	s.mu.Lock()
	s.mu.corrupt++
	s.mu.Unlock()
	s.log.Error("spool: damaged record", "err", err)
	return err
}

// findLocked returns the segment of a number, or nil.
func (s *Spool) findLocked(number uint64) *segment {
	// Positions are mostly of the newest segments or the oldest; there are few.
	lo, hi := 0, len(s.mu.segments)
	for lo < hi {
		mid := (lo + hi) / 2
		if s.mu.segments[mid].number < number {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(s.mu.segments) && s.mu.segments[lo].number == number {
		return s.mu.segments[lo]
	}
	return nil
}

// maxOpen is how many files stay open that nobody uses just now.
const maxOpen = 16

// use returns a segment and its file, which stays open until release.
func (s *Spool) use(number uint64) (*segment, vfs.File, error) {
	s.mu.Lock()
	g := s.findLocked(number)
	switch {
	case s.mu.closing:
		s.mu.Unlock()
		return nil, nil, ErrClosed
	case g == nil || g.dying:
		s.mu.Unlock()
		return nil, nil, ErrGone
	}
	g.refs++
	f := g.file
	s.mu.Unlock()
	if f != nil {
		return g, f, nil
	}
	f, err := s.fs.Open(g.path)
	s.mu.Lock()
	if err != nil {
		g.refs--
		s.mu.Unlock()
		return nil, nil, err
	}
	var extra vfs.File
	if g.file == nil {
		g.file = f
		s.mu.open++
	} else { // another was faster
		extra, f = f, g.file
	}
	s.mu.Unlock()
	if extra != nil {
		s.closeFile(extra, g.path)
	}
	return g, f, nil
}

// release gives back what use returned, or the writer's reference.
func (s *Spool) release(g *segment) {
	var f vfs.File
	s.mu.Lock()
	g.refs--
	if g.refs == 0 && g.file != nil && (g.dying || s.mu.closing || s.mu.open > maxOpen) {
		f, g.file = g.file, nil
		s.mu.open--
	}
	s.mu.Unlock()
	if f != nil {
		s.closeFile(f, g.path)
	}
}

// closeFile closes a file of which everything that matters is durable already.
func (s *Spool) closeFile(f vfs.File, path string) {
	if err := f.Close(); err != nil {
		s.log.Warn("spool: close", "path", path, "err", err)
	}
}

// Close makes everything durable, runs the callbacks that wait, writes the
// checkpoint, deletes what is wholly acknowledged, ends the goroutine and
// releases the lock. Callbacks may still append until the last fsync succeeded.
// The error says what is not durable. Do not call it from a callback.
func (s *Spool) Close() error {
	s.closeOnce.Do(func() {
		err := s.Sync()
		for range 2 { // callbacks have appended anew what a broken file had
			if err == nil {
				break
			}
			err = s.Sync()
		}
		s.w.Lock()
		s.w.closed = true
		s.w.Unlock()
		s.mu.Lock()
		s.mu.closing = true
		s.mu.Unlock()
		s.wakeLoop()
		s.wg.Wait()
		s.closeErr = errors.Join(err, s.loop.err, s.lock.Close())
	})
	return s.closeErr
}

// wakeLoop wakes the goroutine.
func (s *Spool) wakeLoop() {
	select {
	case s.wake <- struct{}{}:
	default: // it has not yet looked since the last time
	}
}

func (s *Spool) join(name string) string { return filepath.Join(s.opt.Dir, name) }
