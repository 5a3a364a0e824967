// Package otlp sends the timelines of processes as traces to an OpenTelemetry
// receiver, with OTLP over HTTP.
//
// [New] makes an [Exporter]; give its [Exporter.Recorder] to an engine. A process
// becomes a span, and each packet at a node a span below it: see span.go. One
// goroutine sends the queue: see send.go. It makes requests as client.go says.
//
// Invariants: a process never waits for the network. What the receiver cannot take in
// time is counted and dropped. Memory stays bounded.
//
// The package must not know how processes are run.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/observe"
)

// Options say where to send traces, and which. Only URL is required. These environment
// variables of the OpenTelemetry specification apply as well: OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS, …_CERTIFICATE,
// …_CLIENT_CERTIFICATE and …_CLIENT_KEY, and those for traces only, as
// OTEL_EXPORTER_OTLP_TRACES_HEADERS.
type Options struct {
	URL     string            // http://HOST:PORT or https://HOST:PORT; "/v1/traces" is the path if there is none
	Headers map[string]string // of requests, in addition to the headers of the environment, over which they take precedence

	// Ratio is the share, 0 to 1, of processes to send if their request has no
	// trace. If it has one, the process is sent if that trace is sampled.
	Ratio float64

	Service string        // the attribute service.name; empty means "uniflow"
	Version string        // the attribute service.version
	Queue   int           // the most timelines that wait, of 128 spans on average; 0 means 2,048
	Timeout time.Duration // of one request to the receiver; 0 means 10 s
	Retry   time.Duration // how long a batch is retried; 0 means 1 min
	Log     *slog.Logger  // nil discards
}

// Limits of a batch. Receivers refuse large requests: the collector's limit is 20 MiB.
// A batch stays below that even if its last timeline has 1,000 spans with the longest
// texts.
const (
	batchBytes = 2 << 20     // estimated, before compression
	batchDelay = time.Second // how long the first timeline of a batch waits for others
)

// queueSpans is the average number of spans for which the queue has room. A queue of
// the default length would hold 350 MB if all its timelines had 1,000 spans, the most.
const queueSpans = 128

// pauses are those between attempts to send a batch. Programs do not try in step.
var pauses = field.Backoff{Initial: 500 * time.Millisecond, Factor: 2, Max: 10 * time.Second, Jitter: 0.5}

// dropLogEvery is how often it is logged that traces were dropped.
const dropLogEvery = time.Minute

// An Exporter sends traces. Its methods may be called from any goroutine. It must
// be closed.
type Exporter struct {
	opts     Options
	client   *client
	resource *resource
	queue    chan *observe.Timeline // never closed; if it is full, timelines are dropped
	waiting  atomic.Int64           // spans in the queue

	closing chan struct{} // closed by Close
	once    sync.Once
	worker  sync.WaitGroup
	sending context.Context // of requests; done when the context of Close is
	giveUp  context.CancelFunc
	stats   struct{ spans, rejected, dropped, failed atomic.Uint64 }

	// Only the worker uses these.
	conn          net.Conn // of the last request
	state         state
	droppedLogged uint64    // dropped processes that were logged
	dropLogged    time.Time // when that was logged
}

// Stats count what became of recorded processes.
type Stats struct {
	Spans    uint64 // that the receiver has accepted
	Rejected uint64 // spans that it rejected of batches that it accepted otherwise
	Dropped  uint64 // processes that ended while the queue was full
	Failed   uint64 // processes in batches that the receiver did not accept
}

// CheckURL returns an error if traces cannot be sent to a URL.
func CheckURL(text string) error {
	_, err := endpoint(text)
	return err
}

func endpoint(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("URL %q: must be http://HOST:PORT or https://HOST:PORT", text)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("URL %q: must not have a user, query or fragment", text)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// New returns an exporter. It does not connect yet: the receiver may start later.
func New(opts Options) (*Exporter, error) {
	target, err := endpoint(opts.URL)
	if err != nil {
		return nil, err
	}
	if opts.Ratio < 0 || opts.Ratio > 1 || opts.Ratio != opts.Ratio {
		return nil, fmt.Errorf("share of traces: must be 0 to 1, got %v", opts.Ratio)
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
	client, err := newClient(target, &opts)
	if err != nil {
		return nil, err
	}
	e := &Exporter{
		opts:     opts,
		client:   client,
		resource: about,
		queue:    make(chan *observe.Timeline, opts.Queue),
		closing:  make(chan struct{}),
	}
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { e.conn = info.Conn },
	})
	e.sending, e.giveUp = context.WithCancel(ctx)
	e.worker.Go(e.work)
	return e, nil
}

// Recorder returns the recorder to give to an engine.
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

// Stats returns the counts so far.
func (e *Exporter) Stats() Stats {
	return Stats{e.stats.spans.Load(), e.stats.rejected.Load(), e.stats.dropped.Load(), e.stats.failed.Load()}
}

// Close sends the queue until ctx is done, and returns an error with the number of
// processes that were not sent. No process may end after it is called. A second call
// returns nil.
func (e *Exporter) Close(ctx context.Context) error {
	var err error
	e.once.Do(func() {
		before := e.Stats()
		stop := context.AfterFunc(ctx, e.giveUp)
		close(e.closing)
		e.worker.Wait()
		stop()
		e.giveUp()
		e.client.http.CloseIdleConnections()
		if e.conn != nil {
			// One of HTTP/2 may not count as idle yet, and would stay for 90 s.
			_ = e.conn.Close() // an error means that it is closed already
		}
		if lost := e.Stats().Failed - before.Failed; lost > 0 {
			err = fmt.Errorf("traces of %d processes were not sent to %s", lost, e.opts.URL)
		}
	})
	return err
}
