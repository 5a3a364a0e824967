// Package loader receives batches of events over HTTP, keeps each once, and says
// of each event whether it did.
//
// Read [Options], [Open] and handler.go (what clients see) first, then commit.go:
// handlers check batches and make lines of them (body.go, split.go, scan.go), and
// one goroutine, the committer, writes the lines of all that wait to a [Sink] and
// then what it has done to the journal (journal.go, record.go). dedupe.go
// remembers what was answered to which key, files.go is the sink, store.go what
// may be beside it or in its place.
//
// Invariants: a batch is answered 200 when its events and then its record are
// durable, never before. What no record vouches for is taken away at the next
// start, and after an error before anything else is written; so an event is
// there once if its batch was answered, and once or not at all if it was not.
// With a store, which takes nothing back, the records are kept with the events,
// and the journal gets those that it lacks at those same moments. A
// key is looked up and remembered by the committer alone, so two batches with
// the same one are one. Memory is bounded: by what may be in flight, by the
// keys that are remembered, and nothing else.
//
// The package must not know who sends events, or what is in them.
package loader

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Options are what a loader does. Dir is required. Zero values stand for the
// defaults that are given; negative ones are errors.
type Options struct {
	Dir    string // of all files; made if it is missing
	Rotate int64  // bytes of a file of events, unless one batch has more; default 64 MiB

	MaxBody          int64 // bytes of a batch, as it is sent and again when it is decompressed; default 8 MiB
	MaxEvent         int   // bytes of an event; default 1 MiB
	MaxInflight      int   // batches that have come and are checked, wait or are written; default 64
	MaxInflightBytes int64 // memory that these take; one alone may take more; default 128 MiB

	DedupeKeys  int           // keys that are remembered at least, but for huge verdicts; default 1,000,000
	BodyTimeout time.Duration // for a client to send a batch; default 30 s

	// Sink keeps the events, instead of files in Dir; Rotate says nothing then. The
	// loader closes it, but not when Open fails.
	Sink Sink

	// Store, unless it is nil, gets the events, too; events that it does not take
	// are refused. The loader does not close it.
	Store Store

	Version string       // of the program, for metrics
	Log     *slog.Logger // nil discards

	journalRotate int64         // bytes of a journal; default 16 MiB
	probeEvery    time.Duration // between attempts to write after an error; default 1 s
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
		standard(&o.Rotate, "Rotate", 64<<20),
		standard(&o.MaxBody, "MaxBody", 8<<20),
		standard(&o.MaxEvent, "MaxEvent", 1<<20),
		standard(&o.MaxInflight, "MaxInflight", 64),
		standard(&o.MaxInflightBytes, "MaxInflightBytes", 128<<20),
		standard(&o.DedupeKeys, "DedupeKeys", 1_000_000),
		standard(&o.BodyTimeout, "BodyTimeout", 30*time.Second),
		standard(&o.journalRotate, "journalRotate", 16<<20),
		standard(&o.probeEvery, "probeEvery", time.Second),
	)
	if o.MaxBody > maxMaxBody {
		errs = append(errs, fmt.Errorf("MaxBody: %d is more than %d", o.MaxBody, int64(maxMaxBody)))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, errors.Join(errs...)
}

// standard sets a field to its default if it is zero.
func standard[N int | int64 | time.Duration](field *N, name string, value N) error {
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

// errClosed answers batches that come after Close.
var errClosed = errors.New("the loader is closed")

// A Loader keeps events in a folder. Its methods may be called from any
// goroutine. It must be closed.
type Loader struct {
	opts    Options
	log     *slog.Logger
	lock    *os.File
	sink    Sink     // the committer's
	journal *journal // the committer's
	window  *window
	metrics *metrics
	zstd    *zstd.Decoder // for DecodeAll, which may be called at once

	queue   chan *request // room for all that may be in flight, so that nobody waits to send
	workers sync.WaitGroup
	inputs  sync.Pool // of *input

	recovered Recovered
	counts    counts
	failing   atomic.Pointer[string] // why the last write failed; nil if it did not
	broken    bool                   // the committer's: something must be mended before the next write
	piled     bool                   // the committer's: it was logged that journals pile up
	scratch   scratch                // the committer's

	mu struct {
		sync.Mutex
		closed   bool
		clients  int           // that are in take, whether their batch has come or not
		inflight int           // batches that have come
		bytes    int64         // of memory
		idle     chan struct{} // made by Close; closed when no client is left
	}
}

// Recovered is what a loader found in its folder.
type Recovered struct {
	Events  uint64 // that were taken in all the time of the folder
	Batches uint64
	Keys    int // that are remembered
}

// Open opens a folder, and takes back what a loader before could not finish
// writing. The error is [ErrInUse], among others.
func Open(opts Options) (*Loader, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	if opts.Dir, err = filepath.Abs(opts.Dir); err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	lock, err := lockFolder(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("loader: %s: %w", opts.Dir, err)
	}
	l := &Loader{
		opts: opts, log: opts.Log, lock: lock,
		window: newWindow(opts.DedupeKeys), queue: make(chan *request, opts.MaxInflight),
	}
	l.inputs.New = func() any { return l.newInput() }
	if err := l.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("loader: %w", err), lock.Close())
	}
	l.workers.Go(l.commitAll)
	return l, nil
}

// open reads the folder and makes it ready.
func (l *Loader) open() (err error) {
	if l.metrics, err = newMetrics(l); err != nil {
		return err
	}
	// Concurrency 0 is one for each processor. The limit is what the buffers given
	// to it hold; WithDecoderMaxMemory would refuse small bodies of encoders with a
	// large window, which is what they have if they do not know the size.
	l.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	if l.sink = l.opts.Sink; l.sink == nil {
		files := newFiles(l.opts.Dir, l.opts.Rotate, l.log)
		defer func() {
			if err != nil {
				err = errors.Join(err, files.Close())
			}
		}()
		l.sink = files
	}
	l.journal = newJournal(l.opts.Dir, l.opts.journalRotate, l.log, l.metrics.synced)
	if err := l.recover(); err != nil {
		l.zstd.Close()
		return errors.Join(err, l.journal.close())
	}
	return nil
}

// recover makes the files say what the journal says, and remembers the keys.
func (l *Loader) recover() error {
	found, err := l.journal.read(func(r *record, number uint64) {
		if r.key != "" {
			l.remember(digestOf(r.key), outcome{uint32(r.accepted), string(r.rejected)}, number)
		}
	})
	if err != nil {
		return err
	}
	if !found {
		// Without a journal nothing is known about what is there: it is left alone.
		if l.journal.base.end, err = l.sink.End(); err != nil {
			return err
		}
		if l.journal.base.end != (Position{}) {
			l.log.Warn("no journal vouches for the events that are there; they are left as they are", "folder", l.opts.Dir)
		}
	}
	if err := l.journal.start(); err != nil {
		return err
	}
	if err := l.redo(); err != nil {
		return err
	}
	if err := l.sink.Cut(l.journal.base.end); err != nil {
		return err
	}
	l.counts.files.Store(int64(l.sink.Files()))
	l.recovered = Recovered{l.journal.base.events, l.journal.base.batches, l.window.len()}
	return l.journal.turn()
}

// remember adds a key to the window and counts it for its journal.
func (l *Loader) remember(key digest, o outcome, number uint64) {
	added, gone := l.window.add(key, o, number, l.scratch.gone[:0])
	if added {
		l.journal.remember(number)
	}
	for _, n := range gone {
		l.journal.forget(n)
	}
	l.scratch.gone = gone
}

// Close ends the loader: batches that come are refused, those that are in flight
// are finished, and the folder is let go of. It waits for clients that are still
// sending, for Options.BodyTimeout at most; end their connections first.
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
	close(l.queue) // nobody is left to send
	l.workers.Wait()
	l.zstd.Close()
	return errors.Join(l.sink.Close(), l.journal.close(), l.lock.Close())
}

// Recovered returns what was found when the folder was opened.
func (l *Loader) Recovered() Recovered { return l.recovered }

// Dir returns the folder, as an absolute path.
func (l *Loader) Dir() string { return l.opts.Dir }

// Stats are counts since the folder was opened.
type Stats struct {
	Batches    uint64 // taken
	Duplicates uint64 // answered again
	Refused    uint64 // not taken as a whole, for whatever reason
	Accepted   uint64 // events
	Rejected   uint64 // events
	Bytes      uint64 // of accepted events, as they are in files

	Inflight      int   // batches that have come
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
