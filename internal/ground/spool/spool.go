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

// Options are the settings of a spool. All except Dir have defaults.
type Options struct {
	// Dir is the folder. It is made if missing. Only the spool may write in it.
	Dir string
	// SegmentBytes is the size at which the next file is begun: default 64 MiB, at
	// most an eighth of MaxBytes. Whole files are deleted to give space back. A
	// longer record gets a file of its own.
	SegmentBytes int64
	// MaxBytes limits the total size of the segments; 0: no limit.
	MaxBytes int64
	// SyncEvery is how long a record may wait for its fsync: default 10 ms. If
	// negative, there is no such limit.
	SyncEvery time.Duration
	// SyncBytes makes the fsync earlier, after this many bytes: default 1 MiB. If
	// negative, there is no such limit.
	SyncBytes int64
	// CheckpointEvery is how often new acknowledgements are written: default 100 ms.
	// Records acknowledged since the last checkpoint come back after a crash.
	CheckpointEvery time.Duration
	// FS is the file system; nil: the real one.
	FS vfs.FS
	// Log gets messages about damage and about a disk that fails or works again;
	// nil: none.
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
	// ErrFull is wrapped by the error of Append if the disk is full or MaxBytes is
	// reached. Nothing of the record was kept. A later Append works when there is
	// space again.
	ErrFull = errors.New("spool is full")
	// ErrTooLarge is returned by Append for a payload of 2 GiB or more.
	ErrTooLarge = errors.New("record too large for the spool")
	// ErrClosed is returned by methods of a spool that is closed.
	ErrClosed = errors.New("spool is closed")
	// ErrGone is wrapped by the error of Read for a record whose segment was deleted,
	// after everything in it had been acknowledged.
	ErrGone = errors.New("record is gone")
)

// A CorruptError is returned by Read for a damaged record.
type CorruptError struct {
	Position Position
	Path     string // of the segment
	Reason   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s at byte %d: damaged record: %s", e.Path, e.Position.offset, e.Reason)
}

// A SyncError is passed to Durable callbacks for records that may not be on disk,
// because an fsync failed. They stay readable and unacknowledged. A caller that still
// has their content should append it again.
type SyncError struct {
	Path string // of the segment
	Err  error
}

func (e *SyncError) Error() string { return fmt.Sprintf("%s: not durable: %v", e.Path, e.Err) }

func (e *SyncError) Unwrap() error { return e.Err }

// Stats are the figures of a spool.
type Stats struct {
	Bytes       int64         // in segments
	LiveBytes   int64         // of records that are not acknowledged
	LiveEvents  uint64        // in these records
	LiveRecords uint64        //
	Segments    int           // files
	Appended    uint64        // records, since Open
	Corrupt     int           // damaged places, found by Open or later
	Syncs       uint64        // of segments, since Open
	LastSync    time.Duration // how long the last took
	LastErr     error         // of the last append or fsync; nil again when they work
}

// A Spool is an open folder of segments. Make one with Open, and Close it. Methods may
// be called from several goroutines.
//
// It has one goroutine, which makes records durable, writes checkpoints, deletes files
// and runs Durable callbacks. If nothing is appended or acknowledged, it waits without
// a timer.
type Spool struct {
	opt     Options
	fs      vfs.FS
	log     *slog.Logger
	lock    io.Closer
	epoch   uint64
	old     []*segment    // for Recovered; taken by the first call
	wake    chan struct{} // wakes the goroutine; capacity 1, since one signal is enough
	wg      sync.WaitGroup
	loop    loopState // of the goroutine
	w       writer
	remover remover // its lock is taken after the lock of w

	closeOnce sync.Once
	closeErr  error

	mu struct { // locked after the other two, never during I/O
		sync.Mutex
		segments []*segment // by number, with the one of the writer
		bytes    int64      // sum of the segments' ends
		live     int64      // bytes of records not acknowledged
		records  uint64     // not acknowledged
		open     int        // files held open

		queue     []*segment // with records not covered by an fsync, the oldest first
		pending   int64      // bytes not covered by an fsync
		finish    []*segment // sealed, to be truncated to their length
		dead      []*segment // sealed, all records acknowledged
		callbacks []callback // Durable callbacks
		syncers   []chan error
		syncErr   error  // of segments that failed since the last Sync
		recheck   bool   // a callback may be settled already
		force     bool   // fsync now
		changed   bool   // the checkpoint is out of date
		next      uint64 // above the number of every segment
		closing   bool

		appended uint64
		corrupt  int
		syncs    uint64
		lastSync time.Duration
		writeErr error // of the last append
		diskErr  error // of fsyncs, checkpoints and deletions since the last fsync that worked
	}
}

type callback struct {
	p Position
	f func(error)
}

// A segment is one file. Fields without another note are guarded by Spool.mu.
type segment struct {
	number   uint64   // immutable
	path     string   // immutable
	file     vfs.File // nil if closed; closed only when refs is 0
	refs     int      // uses of the file
	end      int64    // of the last record
	synced   int64    // everything before is durable
	failed   *SyncError
	reported bool // a callback of Durable has got failed
	sealed   bool // no more records are appended
	queued   bool // it is in Spool.mu.queue
	dying    bool // it is being deleted
	acks     ackSet

	events       uint64 // appended, or found when opened
	syncedEvents uint64 // events before synced
	ackedEvents  uint64

	entered bool   // the folder entry is durable; owned by the goroutine
	room    int64  // reserved length of the file; immutable
	damaged []span // found when opened; immutable
}

// deadLocked reports whether all records of the segment are acknowledged.
func (g *segment) deadLocked() bool { return g.acks.mark >= g.end }

// Epoch returns a number of this opening of the folder. It is greater than the number
// of any earlier opening.
func (s *Spool) Epoch() uint64 { return s.epoch }

// Stats returns the current figures.
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

// Read appends the payload of a record to dst and returns the result. With a capacity
// of Position.Size bytes in dst, it does not allocate. The error is a *CorruptError if
// the record is damaged.
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
			return dst[:start], s.damaged(&CorruptError{p, g.path, "the file ends within the record"})
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

// maxOpen is how many unused files stay open.
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

// release drops a reference of use or of the writer.
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

// closeFile closes a file whose content is durable already.
func (s *Spool) closeFile(f vfs.File, path string) {
	if err := f.Close(); err != nil {
		s.log.Warn("spool: close", "path", path, "err", err)
	}
}

// Close makes everything durable, runs the waiting callbacks, writes a checkpoint,
// deletes acknowledged segments, ends the goroutine and releases the lock. Callbacks
// may still append until the last fsync has succeeded. The error says what is not
// durable. Do not call Close from a callback.
func (s *Spool) Close() error {
	s.closeOnce.Do(func() {
		var unreported error
		err := s.Sync()
		for range 2 { // callbacks have appended the records of a broken file again
			if err == nil {
				break
			}
			unreported = errors.Join(unreported, s.unreported(err))
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
		s.mu.Lock()
		last := s.mu.syncErr // of records that were appended after the last Sync
		s.mu.Unlock()
		s.closeErr = errors.Join(unreported, err, last, s.loop.err, s.lock.Close())
	})
	return s.closeErr
}

// unreported returns the error of Sync, unless a callback has got it, which can append the
// records again.
func (s *Spool) unreported(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.mu.segments {
		if g.reported && errors.Is(err, g.failed) {
			return nil
		}
	}
	return err
}

func (s *Spool) wakeLoop() {
	select {
	case s.wake <- struct{}{}:
	default: // it is woken already
	}
}

func (s *Spool) join(name string) string { return filepath.Join(s.opt.Dir, name) }
