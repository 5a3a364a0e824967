// Package loader receives batches of events over HTTP, keeps each event once, and
// answers which events it has taken.
//
// Read [Options], [Open] and handler.go (what clients see) first, then commit.go.
// Handlers check batches and make lines of them (body.go, split.go). One
// goroutine, the committer, writes the lines of all batches that wait, as a group,
// to files (files.go), to a [Store] (store.go), or to both, and then one record of
// the group to the journal (journal.go, group.go). dedupe.go remembers the answers
// by key.
//
// Invariants: a batch is answered 200 when its events and then the journal's record
// of it are durable, never before. Events without a record are removed at the next
// start, and after an error before anything else is written. So an event is there
// once if its batch was answered, and once or not at all if it was not. A store
// cannot remove events, so it keeps the record with the events, and the journal
// gets the records that it lacks from there. Only the committer looks up keys and
// remembers them, so two batches with the same key are one. Memory is bounded by
// what may be in flight and by the keys that are remembered.
//
// The package must not know who sends events, or what is in them.
package loader

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// Options are the settings of a loader. Dir is required. Zero values mean the
// defaults below; negative values are errors.
type Options struct {
	Dir    string // of the events and the journal; made if it is missing
	Rotate int64  // bytes of a file of events, unless one batch has more; default 64 MiB

	MaxBody          int64 // bytes of a batch, both as it is sent and decompressed; default 8 MiB
	MaxEvent         int   // bytes of an event; default 1 MiB
	MaxInflight      int   // batches that have arrived and are checked, wait or are written; default 64
	MaxInflightBytes int64 // memory that these take; one alone may take more; default 128 MiB

	DedupeKeys  int           // keys that are remembered, fewer if their verdicts are huge; default 1,000,000
	BodyTimeout time.Duration // for a client to send a batch; default 30 s

	// Store gets the events as well as the files do; nil: there is none. Events
	// that it does not take are refused. The loader does not close it.
	Store Store

	// NoFiles keeps events in Store only.
	NoFiles bool

	Version string       // of the program, for metrics
	Log     *slog.Logger // nil discards

	fs           vfs.FS        // default the operating system's
	journalBytes int64         // bytes of a file of the journal; default 16 MiB
	probeEvery   time.Duration // between attempts to write after an error; default 1 s
}

// maxWindow is the largest window that encoders use ("zstd --long=31").
const maxWindow = 1 << 31

// maxMaxBody is the most that MaxBody may be: a batch is in memory as a whole.
const maxMaxBody = 1 << 30

// withDefaults returns the options with what was left out.
func (o Options) withDefaults() (Options, error) {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("the folder is missing"))
	}
	errs = append(errs,
		setDefault(&o.Rotate, "Rotate", 64<<20),
		setDefault(&o.MaxBody, "MaxBody", 8<<20),
		setDefault(&o.MaxEvent, "MaxEvent", 1<<20),
		setDefault(&o.MaxInflight, "MaxInflight", 64),
		setDefault(&o.MaxInflightBytes, "MaxInflightBytes", 128<<20),
		setDefault(&o.DedupeKeys, "DedupeKeys", 1_000_000),
		setDefault(&o.BodyTimeout, "BodyTimeout", 30*time.Second),
		setDefault(&o.journalBytes, "journalBytes", 16<<20),
		setDefault(&o.probeEvery, "probeEvery", time.Second),
	)
	if o.MaxBody > maxMaxBody {
		errs = append(errs, fmt.Errorf("MaxBody: %d is more than %d", o.MaxBody, int64(maxMaxBody)))
	}
	if o.fs == nil {
		o.fs = vfs.OS{Public: true} // other programs read the events
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(errs...)
}

// setDefault sets a field to a value if it is zero.
func setDefault[N int | int64 | time.Duration](field *N, name string, value N) error {
	if *field < 0 {
		return fmt.Errorf("%s: %v is negative", name, *field)
	}
	if *field == 0 {
		*field = value
	}
	return nil
}

// ErrInUse is the error of [Open] for a folder that another loader has open.
var ErrInUse = errors.New("another loader is using the folder")

// errClosed refuses batches that arrive after Close.
var errClosed = errors.New("the loader is closed")

// A Loader keeps events in a folder. Its methods may be called from any
// goroutine. It must be closed.
type Loader struct {
	opts    Options
	log     *slog.Logger
	files   *files   // the committer's; nil with Options.NoFiles
	journal *journal // the committer's
	window  *window
	metrics *metrics
	zstd    *zstd.Decoder // for DecodeAll, which may be called concurrently

	queue   chan *request // has room for all that may be in flight, so a send never blocks
	workers sync.WaitGroup
	inputs  sync.Pool // of *input

	recovered Recovered
	counts    counts
	failing   atomic.Pointer[string] // why the last write failed; nil if it did not
	broken    bool                   // the committer's: repair must succeed before the next write
	scratch   scratch                // the committer's

	mu struct {
		sync.Mutex
		closed   bool
		clients  int           // in take, whether their batch has arrived or not
		inflight int           // batches that have arrived
		bytes    int64         // of memory
		idle     chan struct{} // made by Close; closed when no client is left
	}
}

// Recovered is what a loader found in its folder.
type Recovered struct {
	Events  uint64 // taken since the folder was made
	Batches uint64
	Keys    int // that are remembered
}

// Open opens a folder, and removes what an earlier loader could not finish
// writing. The error is [ErrInUse], among others.
func Open(opts Options) (*Loader, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	if opts.Dir, err = filepath.Abs(opts.Dir); err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	if err := opts.fs.MkdirAll(opts.Dir); err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	l := &Loader{
		opts: opts, log: opts.Log,
		window: newWindow(opts.DedupeKeys), queue: make(chan *request, opts.MaxInflight),
	}
	l.inputs.New = func() any { return l.newInput() }
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	l.workers.Go(l.commitAll)
	return l, nil
}

// open reads the folder and makes it ready.
func (l *Loader) open() (err error) {
	if l.metrics, err = newMetrics(l); err != nil {
		return err
	}
	l.journal, err = openJournal(l.opts.fs, l.opts.Dir, l.opts.journalBytes, l.log, l.metrics.synced)
	if err != nil {
		return err
	}
	if !l.opts.NoFiles {
		l.files = newFiles(l.opts.fs, l.opts.Dir, l.opts.Rotate, l.log)
	}
	if err := l.opts.fs.SyncDir(l.opts.Dir); err != nil { // which has the journal's folder
		return errors.Join(err, l.closeFiles())
	}
	if err := l.recover(); err != nil {
		return errors.Join(err, l.closeFiles())
	}
	// Concurrency 0 is one for each processor. The limit is the size of the buffers
	// that DecodeAll gets; WithDecoderMaxMemory would refuse small bodies of encoders
	// with a large window, which encoders use when they do not know the size.
	l.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return errors.Join(err, l.closeFiles())
	}
	return nil
}

// recover removes events that no record of the journal covers, and remembers the
// keys.
func (l *Loader) recover() error {
	found, err := l.journal.replay(l.rememberAll)
	if err != nil {
		return err
	}
	if !found {
		// Without a journal the loader cannot know whether events are complete. This
		// holds with NoFiles too: the next start may be without that option.
		start := group{events: l.journal.acked.events, batches: l.journal.acked.batches}
		if start.end, err = newFiles(l.opts.fs, l.opts.Dir, l.opts.Rotate, l.log).next(); err != nil {
			return err
		}
		if start.end != (position{}) {
			l.log.Warn("there are events and no journal: the files stay as they are", "folder", l.opts.Dir)
		}
		if err := l.journal.append(&start, start.append(nil)); err != nil {
			return err
		}
	}
	if err := l.replayMark(); err != nil {
		return err
	}
	if err := l.journal.restore(); err != nil {
		return err
	}
	if l.files != nil {
		if err := l.files.cut(l.journal.totals.end); err != nil {
			return err
		}
	}
	l.countFiles()
	l.recovered = Recovered{l.journal.totals.events, l.journal.totals.batches, l.window.len()}
	return nil
}

// rememberAll adds the keys of the newest group of the journal to the window.
func (l *Loader) rememberAll(g *group) {
	for i := range g.records {
		if r := &g.records[i]; r.key != "" {
			l.remember(digestOf(r.key), outcome{uint32(r.accepted), string(r.rejected)})
		}
	}
}

// remember adds a key of the newest group of the journal to the window.
func (l *Loader) remember(key digest, o outcome) {
	added, forgotten := l.window.add(key, o)
	if added {
		l.journal.remember()
	}
	l.journal.forget(forgotten)
}

// Close ends the loader: it refuses new batches, finishes the batches in flight, and
// unlocks the folder. It waits for clients that are still sending, up to
// Options.BodyTimeout; end their connections first.
func (l *Loader) Close() error {
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return nil
	}
	l.mu.closed = true
	idle := make(chan struct{})
	l.mu.idle = idle
	if l.mu.clients == 0 {
		close(idle)
	}
	l.mu.Unlock()
	<-idle
	close(l.queue) // no handler is left to send
	l.workers.Wait()
	l.zstd.Close()
	return l.closeFiles()
}

func (l *Loader) closeFiles() error {
	err := l.journal.close()
	if l.files != nil {
		err = errors.Join(l.files.close(), err)
	}
	return err
}

// Recovered returns what was found when the folder was opened.
func (l *Loader) Recovered() Recovered { return l.recovered }

// Dir returns the folder, as an absolute path.
func (l *Loader) Dir() string { return l.opts.Dir }

// Stats are counts since the folder was opened.
type Stats struct {
	Batches    uint64 // taken
	Duplicates uint64 // answered again
	Refused    uint64 // not taken as a whole
	Accepted   uint64 // events
	Rejected   uint64 // events
	Bytes      uint64 // of accepted events, as they are in files

	Inflight      int   // batches that have arrived
	InflightBytes int64 // memory that they take
	Keys          int   // that are remembered
	Files         int   // of events

	// Failing says why nothing can be written; empty if it can.
	Failing string
}

// counts are what the committer and the handlers count.
type counts struct {
	batches, duplicates, refused, accepted, bytes, received atomic.Uint64
	rejected                                                [reasons]atomic.Uint64
	files                                                   atomic.Int64
}

// Stats returns counts. They are read one by one, not at one moment.
func (l *Loader) Stats() Stats {
	s := Stats{
		Batches: l.counts.batches.Load(), Duplicates: l.counts.duplicates.Load(), Refused: l.counts.refused.Load(),
		Accepted: l.counts.accepted.Load(), Bytes: l.counts.bytes.Load(),
		Keys: l.window.len(), Files: int(l.counts.files.Load()),
	}
	for i := range l.counts.rejected {
		s.Rejected += l.counts.rejected[i].Load()
	}
	if why := l.failing.Load(); why != nil {
		s.Failing = *why
	}
	l.mu.Lock()
	s.Inflight, s.InflightBytes = l.mu.inflight, l.mu.bytes
	l.mu.Unlock()
	return s
}
