package batch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthog/posthog-go"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/uniflow-labs/uniflow/batch"
)

// A subject ships events to the receiver.
type subject interface {
	// Offer hands over an event, which stays the caller's. An error says why it was
	// not accepted. Several goroutines may call it concurrently.
	Offer(e *event) error
	// Close sends what is waiting, as far as the design does so, and ends the
	// subject. Offer is not called after it. It returns the number of events
	// that the subject knows it has lost after it had accepted them.
	Close(ctx context.Context) (lost int64, err error)
}

// options are what a subject is made from. A design ignores what does not apply to it.
type options struct {
	url      string // of the receiver; batches go to /batch
	dir      string // an empty folder on a disk
	interval time.Duration
	limit    int // events in a batch
}

// A design is a way of shipping events.
type design struct {
	name   string
	closed bool // events that fall due while the design keeps the producer waiting are not offered
	ours   bool // loses nothing
	other  bool // written by others: measured at a rate only
	make   func(options) (subject, error)
	// under are prefixes of the names of the functions that run the processor, and copies
	// of the names of the functions that copy events from memory to memory. Encoding an
	// event or handing its memory on is not a copy. Without, the share of copies is not
	// measured.
	under, copies []string
}

// designs returns the designs of the founding article, the last of them with a queue, ours,
// and designs of other libraries.
func designs() []design {
	return []design{
		pooled("10 workers, synchronous", shape{workers: 10}),
		pooled("100 workers, synchronous", shape{workers: 100}),
		pooled("1 worker, asynchronous, copying", shape{workers: 1, async: true}),
		pooled("1 worker, asynchronous, queue of 4096", shape{workers: 1, async: true, queue: queue}),
		processor("batch", false),
		processor("batch, spool", true),
		{name: "OpenTelemetry batch span processor", other: true, make: newSpans},
		{name: "posthog-go", other: true, make: newCaptures},
	}
}

// newClient returns a client that keeps enough connections, so that 100 workers do not pay
// for new ones; the default of net/http would keep 2.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}, Timeout: 30 * time.Second}
}

// post posts events as a JSON array.
func (o *options) post(ctx context.Context, client *http.Client, events []event) error {
	body := appendArray(make([]byte, 0, len(events)*(jsonSize+1)+2), events, jsonSize)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url+"/batch", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// A shape is what distinguishes the designs of the article.
type shape struct {
	workers int
	async   bool // a worker copies its events, and posts the copy in the background
	queue   int  // 0: the channel has no buffer
}

// here is what the names of this package's functions begin with.
const here = "github.com/uniflow-labs/uniflow/bench/batch_test."

func pooled(name string, s shape) design {
	return design{
		name: name, closed: true,
		make: func(o options) (subject, error) { return newPool(o, s), nil },
		// What flush does in the background belongs to run as well.
		under:  []string{here + "(*pool).run", here + "(*pool).flush"},
		copies: []string{here + "deepCopy"},
	}
}

// A pool is workers that read from one channel, collect events until there are enough or
// their ticker ticks, and then post them, themselves or in the background. Everything else
// is as in our processor: the same function encodes events into memory of the right size, and
// connections are reused.
type pool struct {
	shape
	o      options
	events chan event    // never closed, as producers send
	done   chan struct{} // closed by Close
	client *http.Client

	workers sync.WaitGroup
	sends   sync.WaitGroup // in the background
	failed  atomic.Int64   // events of batches that were not taken
}

func newPool(o options, s shape) *pool {
	p := &pool{shape: s, o: o, events: make(chan event, s.queue), done: make(chan struct{}), client: newClient()}
	for range s.workers {
		p.workers.Go(p.run)
	}
	return p
}

var errClosed = errors.New("closed")

func (p *pool) Offer(e *event) error {
	select {
	case p.events <- *e:
		return nil
	case <-p.done:
		return errClosed
	}
}

// run is a worker. All start together, so their tickers tick together, and no one
// reads the channel while all of them post.
func (p *pool) run() {
	every := time.NewTicker(p.o.interval)
	defer every.Stop()
	batch := make([]event, 0, p.o.limit)
	add := func(e event) {
		if batch = append(batch, e); len(batch) >= p.o.limit {
			batch = p.flush(batch)
		}
	}
	for {
		select {
		case e := <-p.events:
			add(e)
		case <-every.C:
			batch = p.flush(batch)
		case <-p.done:
			for {
				select {
				case e := <-p.events:
					add(e)
				default:
					p.flush(batch)
					return
				}
			}
		}
	}
}

// flush posts a batch, and returns its memory.
func (p *pool) flush(batch []event) []event {
	if len(batch) == 0 {
		return batch
	}
	if p.async {
		own := deepCopy(batch)
		p.sends.Go(func() { p.post(own) })
	} else {
		p.post(batch)
	}
	return batch[:0]
}

// deepCopy is what allows a worker to go on with its memory.
//
//go:noinline
func deepCopy(batch []event) []event {
	own := make([]event, len(batch))
	copy(own, batch)
	return own
}

func (p *pool) post(batch []event) {
	if err := p.o.post(context.Background(), p.client, batch); err != nil {
		p.failed.Add(int64(len(batch)))
	}
}

// Close lets the workers post what they have, and waits.
func (p *pool) Close(context.Context) (int64, error) {
	close(p.done)
	p.workers.Wait()
	p.sends.Wait()
	p.client.CloseIdleConnections()
	return p.failed.Load(), nil
}

// processor is our design: in memory, or with every event written to disk ahead.
func processor(name string, ahead bool) design {
	const pkg = "github.com/uniflow-labs/uniflow/batch."
	return design{
		name: name, ours: true,
		make: func(o options) (subject, error) { return newProcessor(o, ahead) },
		// All functions of the package and its sub-packages. None of them copies
		// encoded events: they are sent from the memory they were written to. So
		// copies are functions that clone bytes, and any that is named so.
		under:  []string{pkg, "github.com/uniflow-labs/uniflow/batch/"},
		copies: []string{"slices.Clone", "bytes.Clone", "bytes.Join", "slices.Concat", pkg + "copy", pkg + "clone", pkg + "(*chunk).copy", pkg + "(*chunk).clone"},
	}
}

type ours struct {
	*batch.Processor[event]
	dropped atomic.Int64
}

func newProcessor(o options, ahead bool) (subject, error) {
	send, err := batch.NewHTTP(o.url+"/batch", batch.HTTPOptions{})
	if err != nil {
		return nil, err
	}
	s := &ours{}
	c := batch.Options[event]{
		Encode:  func(dst []byte, e *event) ([]byte, error) { return appendJSON(dst, e, jsonSize), nil },
		Send:    send,
		Format:  batch.FormatArray,
		Trigger: batch.Trigger{Count: o.limit, Linger: o.interval},
		OnDrop:  func(d batch.Dropped) { s.dropped.Add(int64(len(d.Events))) },
	}
	if ahead {
		c.Spool = &batch.Spool{Dir: o.dir, WriteAhead: true}
	}
	s.Processor, err = batch.New(c)
	return s, err
}

func (s *ours) Offer(e *event) error { return s.Add(e) }

func (s *ours) Close(ctx context.Context) (int64, error) {
	err := settled(ctx, s.Processor)
	return s.dropped.Load(), err
}

// settled closes a processor. Undelivered events are an error, and so are statistics that do
// not add up.
func settled(ctx context.Context, p *batch.Processor[event]) error {
	report, err := p.Close(ctx)
	if err == nil && report.Undelivered > 0 {
		err = fmt.Errorf("%d events are given back", report.Undelivered)
	}
	return errors.Join(err, p.Stats().Balance())
}

// spans is OpenTelemetry's BatchSpanProcessor with its default queue of 2,048 spans. An
// event is a span which begins and ends immediately and has the event's fields as attributes;
// the exporter posts the benchmark's JSON of them. It does not report what it drops.
type spans struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

func newSpans(o options) (subject, error) {
	p := sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithBatcher(&exporter{o: o, client: newClient()}, sdk.WithBatchTimeout(o.interval), sdk.WithMaxExportBatchSize(o.limit)),
	)
	return &spans{p, p.Tracer("bench")}, nil
}

func (s *spans) Offer(e *event) error {
	at := trace.WithTimestamp(time.Unix(0, e.Time))
	_, span := s.tracer.Start(context.Background(), "event", at, trace.WithAttributes(
		attribute.Int64("seq", int64(e.Seq)), attribute.Int64("time", e.Time),
		attribute.Int64("user", int64(e.User)), attribute.Int64("value", int64(e.Value)),
	))
	span.End()
	return nil
}

func (s *spans) Close(ctx context.Context) (int64, error) { return 0, s.provider.Shutdown(ctx) }

// An exporter posts spans as events.
type exporter struct {
	o      options
	client *http.Client
}

// ExportSpans posts a batch. The processor does not call it again before it has
// returned.
func (x *exporter) ExportSpans(ctx context.Context, all []sdk.ReadOnlySpan) error {
	events := make([]event, len(all))
	for i, span := range all {
		for _, a := range span.Attributes() {
			switch n := a.Value.AsInt64(); a.Key {
			case "seq":
				events[i].Seq = uint64(n)
			case "time":
				events[i].Time = n
			case "user":
				events[i].User = uint64(n)
			case "value":
				events[i].Value = uint64(n)
			}
		}
	}
	return x.o.post(ctx, x.client, events)
}

func (x *exporter) Shutdown(context.Context) error {
	x.client.CloseIdleConnections()
	return nil
}

// captures is posthog-go. An event is a capture with the event's fields as properties; what
// else it writes, a UUID, the library's name and the time among it, makes the body about
// three times as long. It sends no more than 500 kB at a time, whatever its configuration.
type captures struct {
	client    posthog.Client
	transport *http.Transport
	failed    atomic.Int64
}

func newCaptures(o options) (subject, error) {
	s := &captures{transport: newClient().Transport.(*http.Transport)}
	var err error
	s.client, err = posthog.NewWithConfig("key", posthog.Config{
		Endpoint: o.url, Interval: o.interval, BatchSize: o.limit, Transport: s.transport, Callback: s, Logger: silent{},
	})
	return s, err
}

// payload makes the properties of an event about as long as the benchmark's.
const payload = "The quick brown fox jumps over the lazy dog while the five boxing wizards jump"

// Offer waits when the client's channel is full.
func (s *captures) Offer(e *event) error {
	return s.client.Enqueue(posthog.Capture{
		DistinctId: strconv.FormatUint(e.User, 10), Event: "event",
		Properties: posthog.Properties{"seq": e.Seq, "time": e.Time, "value": e.Value, "payload": payload},
	})
}

// Close sends what is waiting. The client takes no context for it.
func (s *captures) Close(context.Context) (int64, error) {
	err := s.client.Close()
	s.transport.CloseIdleConnections()
	return s.failed.Load(), err
}

func (s *captures) Success(posthog.APIMessage) {}

// Failure counts an event that was not taken.
func (s *captures) Failure(posthog.APIMessage, error) { s.failed.Add(1) }

// silent drops what the client logs. Failures are counted.
type silent struct{}

func (silent) Logf(string, ...any) {}

func (silent) Errorf(string, ...any) {}
