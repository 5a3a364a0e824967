// Package otlp sends the timelines of processes to an OpenTelemetry receiver, as
// traces: OTLP over HTTP.
//
// [New] makes an [Exporter], [Exporter.Recorder] is what an engine is given. A
// process becomes a span, and each packet at a node one below it; see span.go.
// What is queued is sent by the one goroutine of send.go.
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
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"

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
	Queue   int           // how many timelines may wait, of 128 spans on average; 2,048
	Timeout time.Duration // of one request to the receiver; 10 s
	Retry   time.Duration // how long a batch is tried again; 1 min
	Log     *slog.Logger  // nil discards
}

// Limits of a batch. A receiver refuses requests past a size; the collector's has
// 20 MiB, which one more timeline of 1,000 spans with the longest texts is below.
const (
	batchBytes = 2 << 20     // estimated, before compression
	batchDelay = time.Second // how long the first timeline of a batch waits
)

// queueSpans is how many spans a timeline that waits may have on average: those of
// 1,000 spans, the longest, would hold 350 MB in a queue of the default length.
const queueSpans = 128

// Pauses between tries of a batch, the first and the longest.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 10 * time.Second
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
	waiting  atomic.Int64           // spans in the queue

	closing  chan struct{} // closed by Close
	once     sync.Once
	worker   sync.WaitGroup
	sending  context.Context // of requests; done when Close's is
	giveUp   context.CancelFunc
	stats    struct{ spans, rejected, dropped, failed atomic.Uint64 }
	conn     net.Conn  // of the last request; the worker's
	reported uint64    // dropped processes that the log knows of; the worker's
	last     time.Time // when it was told; the worker's
	state    state     // of the last request; the worker's
}

// Stats are what became of processes that were recorded.
type Stats struct {
	Spans    uint64 // that the receiver has taken
	Rejected uint64 // spans that it refused of batches that it took otherwise
	Dropped  uint64 // processes that came faster than they could be sent
	Failed   uint64 // processes in batches that the receiver did not take
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
	options := []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(target),
		otlptracehttp.WithTimeout(opts.Timeout),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: firstPause, MaxInterval: maxPause, MaxElapsedTime: opts.Retry,
		}),
		// This is the default, but a client that is told has connections of its own:
		// else they are shared with other exporters of the program, and Close closes.
		otlptracehttp.WithProxy(http.ProxyFromEnvironment),
	}
	if len(opts.Headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(opts.Headers))
	}
	e := &Exporter{
		opts:     opts,
		client:   otlptracehttp.NewClient(options...),
		resource: about,
		queue:    make(chan *observe.Timeline, opts.Queue),
		closing:  make(chan struct{}),
	}
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { e.conn = info.Conn },
	})
	e.sending, e.giveUp = context.WithCancel(ctx)
	if err := e.client.Start(e.sending); err != nil {
		return nil, err
	}
	e.worker.Go(e.work)
	return e, nil
}

// Recorder returns what makes an engine hand over its processes.
func (e *Exporter) Recorder() observe.Recorder {
	return observe.Recorder{Filter: e.wants, Traces: true, Ended: e.ended}
}

func (e *Exporter) wants(parent observe.Trace) bool {
	if !parent.IsZero() {
		return parent.Sampled
	}
	return e.opts.Ratio == 1 || rand.Float64() < e.opts.Ratio
}

func (e *Exporter) ended(t *observe.Timeline) {
	if e.waiting.Load() < int64(cap(e.queue))*queueSpans {
		spans := int64(1 + len(t.Spans))
		e.waiting.Add(spans)
		select {
		case e.queue <- t:
			return
		default:
			e.waiting.Add(-spans)
		}
	}
	e.stats.dropped.Add(1)
}

// Stats returns what became of processes so far.
func (e *Exporter) Stats() Stats {
	return Stats{e.stats.spans.Load(), e.stats.rejected.Load(), e.stats.dropped.Load(), e.stats.failed.Load()}
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
		if e.conn != nil {
			// Kept for a next request, it would live for 90 s, with two goroutines.
			_ = e.conn.Close() // an error says that it is closed already
		}
		if lost := e.Stats().Failed - before.Failed; lost > 0 {
			err = fmt.Errorf("traces of %d processes were not sent to %s", lost, e.opts.URL)
		}
		err = errors.Join(err, e.client.Stop(context.WithoutCancel(ctx)))
	})
	return err
}
