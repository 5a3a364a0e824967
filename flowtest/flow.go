// Package flowtest tests kinds of nodes.
//
// A [Flow] runs workflows for one test. [New] makes it from kinds, [Flow.Load] serves a
// YAML document, and [Flow.Send] sends a payload to a node and returns the response. A
// link to a name that no spec has leads to a [Probe], which keeps what it gets and
// answers as the test says: with a payload, an error, nothing, never, with a panic.
// Loading again is a reload. Time is from a clock that stands still while the test or a
// node does something, and jumps to the next timer when all of them wait: see
// [Flow.Sleep].
//
// [Flow.Serve] and [Flow.Request] are for documents with a listener, by the clock of the machine.
//
// [Conform] checks what every kind has to fulfil. Each test of a kind begins with it.
//
// The package must not know any kind but its own two.
package flowtest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/clock"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// epoch is the time of a new clock.
var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// A Flow is an engine for a test. Make one with [New]; the fields may be set until the
// first Load. Only the goroutine of the test may call its methods, unless they say
// otherwise.
type Flow struct {
	// Options are for the engine; New sets Kinds. Without a Log, the log is kept for
	// [Flow.Log]; without a Clock, time jumps.
	Options     uniflow.Options
	Variables   string            // a values file
	Environment map[string]string // of the process, for env

	tb     testing.TB
	engine *uniflow.Engine
	time   *clock.Fake // nil if the options have a clock
	calls  sync.WaitGroup
	log    syncbuffer.Buffer
	quiet  bool                // probes keep nothing
	doing  string              // for the message of a wait in vain
	client func() *http.Client // made when it is asked for

	patience time.Duration // how long a test waits for what should happen immediately

	mu struct {
		sync.Mutex
		probes   map[string]*Probe
		arrivals []Arrival
		sources  map[string]node.Starter
	}
}

// New returns a flow with kinds, and with [Probe] and [Source] as two more. It is shut
// down at the end of the test, which fails if that does not succeed.
func New(tb testing.TB, kinds ...*node.Def) *Flow {
	f := &Flow{tb: tb, patience: 30 * time.Second}
	f.Options.Kinds = kinds
	f.client = sync.OnceValue(f.newClient)
	f.mu.probes = make(map[string]*Probe)
	f.mu.sources = make(map[string]node.Starter)
	return f
}

// ready makes the engine before the first Load.
func (f *Flow) ready() {
	if f.engine != nil {
		return
	}
	f.tb.Helper()
	opts := f.Options
	opts.Kinds = append(opts.Kinds[:len(opts.Kinds):len(opts.Kinds)], f.probeDef(), f.sourceDef())
	if opts.Clock == nil {
		if f.time == nil {
			f.time = clock.New(epoch)
		}
		f.time.Begin() // this goroutine
		opts.Clock = f.time
	}
	f.Options.Clock = opts.Clock
	if opts.Log == nil {
		opts.Log = slog.New(slog.NewTextHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	engine, err := uniflow.New(opts)
	if err != nil {
		f.tb.Fatal(err)
	}
	f.engine = engine
	f.tb.Cleanup(f.Close)
}

// Close shuts the engine down, and fails the test if something goes on. The end of the
// test calls it otherwise.
func (f *Flow) Close() {
	if f.engine == nil {
		return
	}
	f.tb.Helper()
	f.paused(func() {
		if err := f.engine.Shutdown(context.Background()); err != nil {
			f.tb.Errorf("shutdown: %v", err)
			return // what was abandoned goes on
		}
		f.calls.Wait()
	})
	if f.time != nil {
		f.time.Close()
	}
	f.engine = nil
}

// paused calls a function that waits, while time may pass.
func (f *Flow) paused(wait func()) {
	if f.time != nil {
		f.time.End()
		defer f.time.Begin()
	}
	wait()
}

// context returns ctx for a goroutine that the clock counts.
func (f *Flow) context(ctx context.Context) context.Context {
	if f.time == nil {
		return ctx
	}
	return f.time.Context(ctx)
}

// Load serves a document, in place of the one before, and fails the test if that is
// not possible.
func (f *Flow) Load(document string) {
	f.tb.Helper()
	list, err := f.Apply(document)
	if err != nil {
		f.tb.Fatal(err)
	}
	if list.HasErrors() {
		f.tb.Fatal(list)
	}
}

// Apply is [uniflow.Engine.Apply] of a document.
func (f *Flow) Apply(document string) (diag.List, error) {
	f.tb.Helper()
	f.ready()
	return f.engine.Apply(f.context(context.Background()), f.source(document))
}

// Check is [uniflow.Engine.Check] of a document.
func (f *Flow) Check(document string) diag.List {
	f.tb.Helper()
	f.ready()
	return f.engine.Check(f.source(document))
}

// source returns a document with the probes that it links to.
func (f *Flow) source(document string) uniflow.Source {
	return f.sourceWith(document, missing(document))
}

// sourceWith returns a document with the specs of its probes.
func (f *Flow) sourceWith(document string, probes []byte) uniflow.Source {
	src := uniflow.Source{
		Documents:   []spec.Document{{File: "test.yaml", Data: []byte(document)}},
		Environment: f.Environment,
	}
	if f.Variables != "" {
		src.Variables = []spec.Document{{File: "values.yaml", Data: []byte(f.Variables)}}
	}
	if len(probes) > 0 {
		src.Documents = append(src.Documents, spec.Document{File: "probes.yaml", Data: probes})
	}
	return src
}

// missing returns the specs of probes for the names that a document links to without a
// spec of that name.
func missing(document string) []byte {
	nodes := parse(document)
	named := make(map[[2]string]bool)
	for _, n := range nodes {
		named[[2]string{n.Namespace, n.Name}] = true
	}
	var specs []byte
	for _, n := range nodes {
		for _, p := range n.Ports {
			for _, l := range p.Links {
				if key := [2]string{n.Namespace, l.Name}; l.Name != "" && !named[key] {
					named[key] = true
					specs = append(specs, "- "+compact(value.Map(
						value.Field{Name: "kind", Value: value.String("probe")},
						value.Field{Name: "name", Value: value.String(l.Name)},
						value.Field{Name: "namespace", Value: value.String(n.Namespace)},
					))+"\n"...)
				}
			}
		}
	}
	return specs
}

// compact returns a value as JSON on one line.
func compact(v value.Value) string {
	text, err := v.AppendJSON(nil)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(text)
}

// Send sends a payload to in-port 0 of a node, and returns the response when the
// process has ended. Time passes while the process waits. For other in-ports, and for
// several packets of one process, see [Flow.Source].
func (f *Flow) Send(name string, payload value.Value) node.Response {
	f.tb.Helper()
	return f.Start(name, payload).Response()
}

// send sends on this goroutine.
func (f *Flow) send(ctx context.Context, name string, payload value.Value) node.Response {
	if f.engine == nil {
		return node.Response{Payload: value.Error(errNotLoaded)}
	}
	answer, ok, err := f.engine.Run(ctx, name, payload)
	if err != nil {
		return node.Response{Payload: value.Error(err)}
	}
	return node.Response{Payload: answer, None: !ok}
}

// SendJSON is [Flow.Send] of JSON; it returns what [Show] makes of the response.
func (f *Flow) SendJSON(name, payload string) string {
	f.tb.Helper()
	return Show(f.Send(name, Parse(f.tb, payload)))
}

// Show returns a response as text: JSON, "none", or "error: " and the message.
func Show(r node.Response) string {
	switch {
	case r.None:
		return "none"
	case r.IsError():
		return "error: " + node.Message(r.Payload.AsError())
	}
	return compact(r.Payload)
}

// A Call is a process that runs while the test goes on.
type Call struct {
	flow   *Flow
	cancel context.CancelCauseFunc
	done   chan struct{}
	resp   node.Response // once done is closed
}

// Start is [Flow.Send] on another goroutine.
func (f *Flow) Start(name string, payload value.Value) *Call {
	return f.call(f.tb.Context(), func(ctx context.Context) node.Response { return f.send(ctx, name, payload) })
}

// call calls run on another goroutine.
func (f *Flow) call(ctx context.Context, run func(context.Context) node.Response) *Call {
	ctx, cancel := context.WithCancelCause(f.context(ctx))
	c := &Call{flow: f, cancel: cancel, done: make(chan struct{})}
	if f.time != nil {
		f.time.Begin()
	}
	f.calls.Go(func() {
		if f.time != nil {
			defer f.time.End()
		}
		defer cancel(nil)
		c.resp = run(ctx)
		close(c.done)
	})
	return c
}

// Cancel ends the context of the call, as a client does that leaves.
func (c *Call) Cancel() { c.cancel(context.Canceled) }

// Response waits until the process has ended, and returns the response.
func (c *Call) Response() node.Response {
	c.flow.tb.Helper()
	c.flow.Wait(c.done)
	return c.resp
}

// Wait waits until a channel is closed. Time passes meanwhile. It ends the test if
// nothing happens.
func (f *Flow) Wait(ready <-chan struct{}) {
	f.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), f.patience)
	defer cancel()
	if err := f.Options.Clock.Wait(ctx, ready); err != nil {
		f.tb.Fatalf("%swaited %s in vain; %d processes are under way", f.doing, f.patience, f.engine.Status().InFlight)
	}
}

// Sleep lets time pass: all that is due within d happens. Otherwise time stands still
// while the test does something.
func (f *Flow) Sleep(d time.Duration) {
	f.tb.Helper()
	f.ready()
	if err := f.Options.Clock.Sleep(f.tb.Context(), d); err != nil {
		f.tb.Fatal(err)
	}
}

// Now returns the time of the clock. A test begins with the year 2030, UTC.
func (f *Flow) Now() time.Time {
	f.tb.Helper()
	f.ready()
	return f.Options.Clock.Now()
}

// Engine returns the engine, for what a Flow has no method for.
func (f *Flow) Engine() *uniflow.Engine {
	f.tb.Helper()
	f.ready()
	return f.engine
}

// Figure returns the sum of a metric of the nodes, over all nodes and labels. Any goroutine may call
// it after the first Load.
func (f *Flow) Figure(name string) (sum float64) {
	for _, figure := range f.engine.Metrics().Figures {
		if figure.Metric.Name == name {
			sum += figure.Metric.Value
		}
	}
	return sum
}

// Log returns what was logged until now, a record a line, if the options have no log
// of their own. Any goroutine may call it.
func (f *Flow) Log() string { return f.log.String() }
