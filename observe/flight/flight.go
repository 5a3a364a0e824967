// Package flight records slow processes: their timelines, and the last seconds of
// the Go runtime's execution trace.
//
// [Start] starts a recorder, [Recorder.Watch] connects it to an engine, and
// [Recorder.Handler] serves its files. They are in a folder of bounded size, from
// which the oldest are removed first (folder.go). Their contents are in timeline.go.
//
// Invariants: processes never wait for the disk, because one goroutine writes the
// files, and counts and drops processes when it is too slow; a file under its final
// name is complete.
//
// The package must not know how processes are run.
package flight

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/observe"
)

// Options are what to keep, and where. Slow and Dir are required.
type Options struct {
	Slow   time.Duration // processes that take at least this long are kept
	Dir    string        // folder of the files; created if it does not exist
	Window time.Duration // length of the runtime's trace; 5 s
	Bytes  int64         // of all files; 64 MiB
	Log    *slog.Logger  // gets a record of each slow process; nil discards

	// Link returns the URL of [Recorder.Handler] for the log, such as
	// "http://127.0.0.1:9000/api/v1/slow/", or "" if it is not served. It is called
	// for the first log record.
	Link func() string
}

// Limits of what is kept in memory and on the disk.
const (
	maxQueue = 256              // slow processes that wait to be written
	maxFiles = 2000             // in the folder
	traceGap = time.Second      // between two traces, each of which covers some seconds
	traceMem = 16 << 20         // of the window; the runtime takes it as a hint
	suffix   = ".timeline.json" // of a process
	traced   = ".trace"         // of the runtime
)

// A Recorder records slow processes. Any goroutine may call its methods. It must be
// closed.
type Recorder struct {
	opts   Options
	window *trace.FlightRecorder
	queue  chan *observe.Timeline // never closed; if it is full, processes are dropped
	missed atomic.Uint64          // slow processes that were not queued
	stop   context.CancelFunc
	worker sync.WaitGroup
}

// Start creates the folder and starts to record the runtime's trace, which adds a
// few percent of overhead. A program can have one recorder.
func Start(opts Options) (*Recorder, error) {
	if opts.Slow <= 0 {
		return nil, fmt.Errorf("slow processes: the duration must be above 0, got %v", opts.Slow)
	}
	if opts.Window == 0 {
		opts.Window = 5 * time.Second
	}
	if opts.Bytes == 0 {
		opts.Bytes = 64 << 20
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Link == nil {
		opts.Link = func() string { return "" }
	}
	// The files are private, because they show what workflows do.
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of slow processes: %w", err)
	}
	r := &Recorder{
		opts:   opts,
		window: trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: opts.Window, MaxBytes: traceMem}),
		queue:  make(chan *observe.Timeline, maxQueue),
	}
	if err := r.trim(); err != nil {
		return nil, fmt.Errorf("folder of slow processes: %w", err)
	}
	if err := r.window.Start(); err != nil {
		return nil, fmt.Errorf("flight recorder: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.worker.Go(func() { r.work(ctx) })
	return r, nil
}

// Watch returns the observe.Recorder for an engine.
func (r *Recorder) Watch() observe.Recorder {
	return observe.Recorder{Ended: r.ended}
}

func (r *Recorder) ended(t *observe.Timeline) {
	if t.Duration < r.opts.Slow {
		return
	}
	select {
	case r.queue <- t:
	default:
		r.missed.Add(1)
	}
}

// Close writes what is queued and ends the recording.
func (r *Recorder) Close() {
	r.stop()
	r.worker.Wait()
	r.window.Stop()
}

// work writes slow processes. Slow processes of the same second share a trace, which is
// taken after the last of them has ended.
func (r *Recorder) work(ctx context.Context) {
	var slow []*observe.Timeline
	var due <-chan time.Time
	last := time.Now().Add(-traceGap)
	for {
		select {
		case t := <-r.queue:
			slow = append(slow, t)
			if due == nil {
				due = time.After(time.Until(last.Add(traceGap)))
			}
			if len(slow) < maxQueue {
				continue
			}
		case <-due:
		case <-ctx.Done():
			for len(r.queue) > 0 {
				slow = append(slow, <-r.queue)
			}
			if len(slow) > 0 {
				r.keep(slow)
			}
			return
		}
		r.keep(slow)
		slow, due, last = nil, nil, time.Now()
	}
}

// keep writes processes and the trace of the time around them, and logs them.
func (r *Recorder) keep(slow []*observe.Timeline) {
	file := stamp(time.Now()) + traced
	err := r.write(file, func(w *bufio.Writer) error {
		_, err := r.window.WriteTo(w)
		return err
	})
	if err != nil {
		r.opts.Log.Error("trace of slow processes not kept", "error", err)
		file = ""
	}
	link := r.opts.Link()
	for _, t := range slow {
		name := stamp(t.Start) + "-" + t.Process + suffix
		err := r.write(name, func(w *bufio.Writer) error { return encode(w, t, file) })
		if err != nil {
			r.opts.Log.Error("timeline of a slow process not kept", "process", t.Process, "error", err)
			name = ""
		}
		r.log(t, name, file, link)
	}
	if n := r.missed.Swap(0); n > 0 {
		r.opts.Log.Warn("slow processes not recorded: there were too many", "processes", n)
	}
	if err := r.trim(); err != nil {
		r.opts.Log.Error("folder of slow processes", "error", err)
	}
}

func (r *Recorder) log(t *observe.Timeline, timeline, file, link string) {
	attrs := []any{"process", t.Process, "duration", t.Duration.Round(time.Microsecond), "outcome", t.Outcome.String(), "trigger", t.Trigger.String()}
	if s := slowest(t); s != nil {
		attrs = append(attrs, "slowest", s.Node.String(), "took", s.Own().Round(time.Microsecond))
	}
	for _, kept := range []struct{ key, name string }{{"timeline", timeline}, {"trace", file}} {
		switch {
		case kept.name == "":
		case link != "":
			attrs = append(attrs, kept.key, link+kept.name)
		default:
			attrs = append(attrs, kept.key, filepath.Join(r.opts.Dir, kept.name))
		}
	}
	r.opts.Log.Warn("slow process", attrs...)
}

// slowest returns the span with the most time of its own.
func slowest(t *observe.Timeline) *observe.Span {
	var most *observe.Span
	for i := range t.Spans {
		if most == nil || t.Spans[i].Own() > most.Own() {
			most = &t.Spans[i]
		}
	}
	return most
}
