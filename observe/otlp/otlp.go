// Package otlp sends the timelines of processes to an OpenTelemetry receiver, as
// traces: OTLP over HTTP.
//
// [New] makes an [Exporter], [Exporter.Recorder] is what an engine is given. A
// process becomes a span, and each packet at a node one below it; see span.go.
//
// Invariants: a process never waits for the network; what the receiver cannot
// take in time is counted and dropped, and memory stays bounded.
//
// The package must not know how processes are run.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/uniflow-labs/uniflow/observe"
)

// Options are where to send traces, and which. Only URL is required. What the
// OpenTelemetry specification has variables of the environment for, such as
// OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_SERVICE_NAME
// and OTEL_RESOURCE_ATTRIBUTES, is taken from there.
type Options struct {
	URL     string            // http://HOST:PORT or https://HOST:PORT; "/v1/traces" is the path if there is none
	Headers map[string]string // of requests, besides those of the environment

	// Ratio is the share, 0 to 1, that is sent of processes that no trace
	// reaches with their request. Those that one reaches are sent if that is
	// sampled.
	Ratio float64

	Service string        // the attribute service.name; "uniflow"
	Version string        // the attribute service.version
	Queue   int           // how many timelines may wait; 2,048
	Timeout time.Duration // of one request to the receiver; 10 s
	Retry   time.Duration // how long a batch is tried again; 1 min
	Log     *slog.Logger  // nil discards
}

// Limits of a batch.
const (
	batchSpans = 4096
	batchDelay = time.Second // how long the first timeline of a batch waits
)

// dropGap is the least time between two records of the log about dropped traces.
const dropGap = time.Minute

// An Exporter sends traces. Its methods may be called from any goroutine. It must
// be closed.
type Exporter struct {
	opts     Options
	client   otlptrace.Client
	resource *resource
	queue    chan *observe.Timeline // never closed; a full one drops

	closing  chan struct{} // closed by Close
	once     sync.Once
	worker   sync.WaitGroup
	sending  context.Context // of requests; done when Close's is
	giveUp   context.CancelFunc
	stats    struct{ spans, dropped, failed atomic.Uint64 }
	reported uint64    // dropped processes that the log knows of; the worker's
	last     time.Time // when it was told; the worker's
	down     bool      // the last request failed; the worker's
}

// Stats are what became of processes that were recorded.
type Stats struct {
	Spans   uint64 // that the receiver has taken
	Dropped uint64 // processes that came faster than they could be sent
	Failed  uint64 // processes in batches that the receiver did not take
}

// CheckURL reports why traces cannot be sent to a URL.
func CheckURL(text string) error {
	_, err := endpoint(text)
	return err
}

func endpoint(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("URL %q: want http://HOST:PORT or https://HOST:PORT", text)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("URL %q: want no user, query or fragment", text)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// New returns an exporter. It does not connect: a receiver may come later.
func New(opts Options) (*Exporter, error) {
	target, err := endpoint(opts.URL)
	if err != nil {
		return nil, err
	}
	if opts.Ratio < 0 || opts.Ratio > 1 || opts.Ratio != opts.Ratio {
		return nil, fmt.Errorf("share of traces: want 0 to 1, got %v", opts.Ratio)
	}
	if opts.Service == "" {
		opts.Service = "uniflow"
	}
	if opts.Queue == 0 {
		opts.Queue = 2048
	}
	if opts.Timeout == 0 {
		opts.Timeout = 10 * time.Second
	}
	if opts.Retry == 0 {
		opts.Retry = time.Minute
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	about, err := newResource(opts.Service, opts.Version)
	if err != nil {
		return nil, err
	}
	http := []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(target),
		otlptracehttp.WithTimeout(opts.Timeout),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 10 * time.Second, MaxElapsedTime: opts.Retry,
		}),
	}
	if len(opts.Headers) > 0 {
		http = append(http, otlptracehttp.WithHeaders(opts.Headers))
	}
	e := &Exporter{
		opts:     opts,
		client:   otlptracehttp.NewClient(http...),
		resource: about,
		queue:    make(chan *observe.Timeline, opts.Queue),
		closing:  make(chan struct{}),
	}
	e.sending, e.giveUp = context.WithCancel(context.Background())
	if err := e.client.Start(e.sending); err != nil {
		return nil, err
	}
	e.worker.Go(e.work)
	return e, nil
}

// Recorder returns what makes an engine hand over its processes.
func (e *Exporter) Recorder() observe.Recorder {
	return observe.Recorder{Wants: e.wants, Traces: true, Ended: e.ended}
}

func (e *Exporter) wants(parent observe.Trace) bool {
	if !parent.IsZero() {
		return parent.Sampled
	}
	return e.opts.Ratio == 1 || rand.Float64() < e.opts.Ratio
}

func (e *Exporter) ended(t *observe.Timeline) {
	select {
	case e.queue <- t:
	default:
		e.stats.dropped.Add(1)
	}
}

// Stats returns what became of processes so far.
func (e *Exporter) Stats() Stats {
	return Stats{e.stats.spans.Load(), e.stats.dropped.Load(), e.stats.failed.Load()}
}

// Close sends what is queued, as long as ctx lasts, and reports what could not be
// sent then. No process may end any more. A second call returns nil.
func (e *Exporter) Close(ctx context.Context) error {
	var err error
	e.once.Do(func() {
		before := e.Stats()
		stop := context.AfterFunc(ctx, e.giveUp)
		close(e.closing)
		e.worker.Wait()
		stop()
		e.giveUp()
		if lost := e.Stats().Failed - before.Failed; lost > 0 {
			err = fmt.Errorf("traces of %d processes were not sent to %s", lost, e.opts.URL)
		}
		err = errors.Join(err, e.client.Stop(context.WithoutCancel(ctx)))
	})
	return err
}

// work sends batches until the exporter is closed and nothing is left.
func (e *Exporter) work() {
	for {
		batch, more := e.gather()
		if len(batch) > 0 {
			e.send(batch)
		}
		e.tellDropped(!more)
		if !more {
			return
		}
	}
}

// gather waits for a timeline, and for more of them until the batch is full or
// old enough. There are no more once the exporter is closing and has none left.
func (e *Exporter) gather() (batch []*observe.Timeline, more bool) {
	var due <-chan time.Time
	spans := 0
	for spans < batchSpans {
		select {
		case t := <-e.queue:
			batch = append(batch, t)
			spans += 1 + len(t.Spans)
			if due == nil {
				due = time.After(batchDelay)
			}
		case <-due:
			return batch, true
		case <-e.closing:
			for spans < batchSpans {
				select {
				case t := <-e.queue:
					batch = append(batch, t)
					spans += 1 + len(t.Spans)
				default:
					return batch, false
				}
			}
			return batch, true
		}
	}
	return batch, true
}

// send sends a batch; the client tries again what may be tried again.
func (e *Exporter) send(batch []*observe.Timeline) {
	var spans []*tracepb.Span
	for _, t := range batch {
		spans = appendSpans(spans, t)
	}
	err := e.client.UploadTraces(e.sending, e.resource.wrap(spans))
	if err != nil {
		e.stats.failed.Add(uint64(len(batch)))
	} else {
		e.stats.spans.Add(uint64(len(spans)))
	}
	// Once for each change: a receiver may be down for days.
	switch {
	case err != nil && !e.down:
		e.opts.Log.Error("traces not sent", "url", e.opts.URL, "processes", len(batch), "error", err)
	case err == nil && e.down:
		e.opts.Log.Info("traces are sent again", "url", e.opts.URL, "failed", e.stats.failed.Load())
	}
	e.down = err != nil
}

func (e *Exporter) tellDropped(last bool) {
	dropped := e.stats.dropped.Load()
	if dropped == e.reported || !last && time.Since(e.last) < dropGap {
		return
	}
	e.opts.Log.Warn("traces dropped: processes end faster than they can be sent; see --otlp-ratio", "processes", dropped-e.reported)
	e.reported, e.last = dropped, time.Now()
}
