package uniflow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// natural is a kind as one writes it after reading the contract: what Open has
// acquired is released by Close.
func natural(open *atomic.Int64) *node.Def {
	return &node.Def{
		Kind: "natural", Summary: "Holds a resource.",
		Config: schema.Fields(schema.Bool("broken").Default(false)),
		In:     []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(init *node.Init) (node.Node, error) {
			return &naturalNode{pool: init.Pool, open: open, broken: init.Config.Bool("broken")}, nil
		},
	}
}

type naturalNode struct {
	pool    *node.Pool
	open    *atomic.Int64
	broken  bool
	release func() error
}

func (n *naturalNode) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Send(0, pkt.Payload)
}

func (n *naturalNode) Open(context.Context) (err error) {
	_, n.release, err = node.Acquire(n.pool, "natural", func() (*counted, error) {
		if n.broken {
			return nil, errors.New("broken resource")
		}
		n.open.Add(1)
		return &counted{n.open}, nil
	})
	return err
}

func (n *naturalNode) Close() error { return n.release() }

type counted struct{ open *atomic.Int64 }

func (c *counted) Close() error { c.open.Add(-1); return nil }

// TestNeverOpened checks that a node is closed only if it was opened: not if it was
// only checked, if another node has an error, or if one before it does not open.
func TestNeverOpened(t *testing.T) {
	var open atomic.Int64
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{natural(&open)}})
	if err != nil {
		t.Fatal(err)
	}
	good := source("- {kind: natural, name: a}")
	if list := engine.Check(good); len(list) > 0 {
		t.Errorf("check: got %v", list)
	}
	if list, err := engine.Apply(t.Context(), source("- {kind: natural, name: a}\n- {kind: natural, name: b, brken: true}")); err != nil || !list.HasErrors() {
		t.Errorf("got %v, %v, want findings", list, err)
	}
	if _, err := engine.Apply(t.Context(), source("- {kind: natural, name: a, broken: true}")); err == nil || !strings.Contains(err.Error(), "broken resource") {
		t.Errorf("got %v, want the error of Open", err)
	}
	if list, err := engine.Apply(t.Context(), good); err != nil || len(list) > 0 {
		t.Fatal(list, err)
	}
	// The reload that fails leaves what is served as it is.
	if list, err := engine.Apply(t.Context(), source("- {kind: natural, name: a}\n- {kind: nonsense, name: b}")); err != nil || !list.HasErrors() {
		t.Errorf("got %v, %v, want findings", list, err)
	}
	if got, _, err := engine.Run(t.Context(), "a", value.Int(7)); err != nil || !got.Equal(value.Int(7)) {
		t.Errorf("got %v, %v", got, err)
	}
	if open.Load() != 1 {
		t.Errorf("got %d resources, want 1", open.Load())
	}
	if err := engine.Shutdown(t.Context()); err != nil || open.Load() != 0 {
		t.Errorf("got %v, %d resources left", err, open.Load())
	}
}

// TestPanicsOfKinds makes findings and errors of what kinds panic with, and goes on.
func TestPanicsOfKinds(t *testing.T) {
	log := &syncWriter{}
	at := ""
	check := func(step string) {
		if step == at {
			panic("boom")
		}
	}
	kind := &node.Def{
		Kind: "panics", Summary: "Panics.",
		In: []node.Port{{Name: "in", Indexes: func(schema.Config) int { check("indexes"); return 1 }}},
		New: func(*node.Init) (node.Node, error) {
			check("new")
			return &panicNode{check}, nil
		},
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{kind}, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	f := func(step, want string) {
		t.Helper()
		at = step
		list, err := engine.Apply(t.Context(), source("- {kind: panics, name: a}"))
		got := ""
		if err = errors.Join(list.Err(), err); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", step, got, want)
		}
	}
	f("nowhere", "")
	f("indexes", "panic while compiling: boom [F9001]")
	f("new", `node "a": panic in New: boom [F7001]`)
	f("open", "panic in Open: boom [F7001]")
	f("serve", "panic in Serve: boom [F7001]")
	at = "measure"
	engine.Metrics()
	log.await(t, "step=Measure")
	if got := engine.Status().Generation; got != 1 {
		t.Errorf("got generation %d, want 1", got)
	}
	at = "close"
	if err := engine.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "panic in Close: boom [F7001]") {
		t.Errorf("got %v", err)
	}
}

type panicNode struct{ check func(string) }

func (*panicNode) Receive(node.Process, node.Packet) node.Result { return node.None() }
func (n *panicNode) Open(context.Context) error                  { n.check("open"); return nil }
func (n *panicNode) Serve(node.Starter) error                    { n.check("serve"); return nil }
func (n *panicNode) Measure(func(node.Metric))                   { n.check("measure") }
func (n *panicNode) Close() error                                { n.check("close"); return nil }

// TestHandledError finds an error that the workflow answers itself in the log: at
// the node, and with the request; all lines name the process.
func TestHandledError(t *testing.T) {
	f := flowtest.New(t, std.Defs("")...)
	f.Serve(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, access_log: true, ports: {out: [{name: size, port: in}], error: [{name: sorry, port: in}]}}
- {kind: snippet, name: size, language: javascript, code: "export default (r) => r.nothing.size"}
- {kind: snippet, name: sorry, language: json, code: '{"status": 500, "body": "sorry"}'}
`)
	if got := f.Request("GET", "/", ""); got.Status != 500 || got.Body != "sorry" {
		t.Errorf("got %d %q", got.Status, got.Body)
	}
	f.Close()
	record := regexp.MustCompile(`level=WARN msg="error goes to an error port" node=size at=test.yaml:3:3 port_of=web process=(\S+) error=.`).FindStringSubmatch(f.Log())
	if record == nil || !strings.Contains(f.Log(), "msg=request ") || strings.Count(f.Log(), "process="+record[1]) != 3 {
		t.Errorf("got %v in\n%s", record, f.Log())
	}
}

// hung is a kind whose nodes hang at one step until they are let go.
func hung(letGo <-chan struct{}) *node.Def {
	return &node.Def{
		Kind: "hung", Summary: "Does not obey its context.",
		Config: schema.Fields(schema.String("at")), // receive, open, stop, close
		In:     []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(init *node.Init) (node.Node, error) {
			return &hungNode{init.Config.String("at"), letGo, init.Log}, nil
		},
	}
}

type hungNode struct {
	at    string
	letGo <-chan struct{}
	log   *slog.Logger
}

func (n *hungNode) hang(step string) {
	if n.at == step {
		n.log.Info("hangs", "at", step)
		<-n.letGo
	}
}

func (n *hungNode) Receive(_ node.Process, pkt node.Packet) node.Result {
	n.hang("receive")
	return node.Send(0, pkt.Payload)
}
func (n *hungNode) Open(context.Context) error { n.hang("open"); return nil }
func (n *hungNode) Stop(context.Context) error { n.hang("stop"); return nil }
func (n *hungNode) Close() error               { n.hang("close"); return nil }

// TestShutdownEnds ends within the grace and a second, whatever hangs, and says
// that it has left something behind.
func TestShutdownEnds(t *testing.T) {
	f := func(at string, more func(*uniflow.Engine)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			letGo := make(chan struct{})
			engine, log := hungEngine(t, letGo, at)
			if more != nil {
				go func() { _, _, _ = engine.Run(context.Background(), "a", value.Null()) }()
				synctest.Wait()
				more(engine)
			}
			start := time.Now()
			if err := engine.Shutdown(context.Background()); !errors.Is(err, uniflow.ErrAbandoned) {
				t.Errorf("%s: got %v, want ErrAbandoned", at, err)
			}
			if took := time.Since(start); took > hungGrace+900*time.Millisecond {
				t.Errorf("%s: it took %s, want less than the grace and a second", at, took)
			}
			if !strings.Contains(log.String(), "abandoned") {
				t.Errorf("%s: the log says nothing of it: %s", at, log)
			}
			close(letGo)
		})
	}
	f("receive", func(*uniflow.Engine) {})
	f("receive", func(e *uniflow.Engine) { // on a generation that was replaced
		if list, err := e.Apply(context.Background(), source("- {kind: hung, name: a}")); err != nil || list.HasErrors() {
			t.Error(list, err)
		}
		if got := e.Metrics().Draining; got != 1 {
			t.Errorf("got %d generations that drain, want 1", got)
		}
	})
	f("stop", nil)
	f("close", nil)
}

// TestShutdownWhileOpening gives up a reload that hangs, and drains what is served.
func TestShutdownWhileOpening(t *testing.T) {
	letGo := make(chan struct{})
	engine, log := hungEngine(t, letGo, "nowhere")
	applied := make(chan error, 1)
	go func() {
		_, err := engine.Apply(context.Background(), source("- {kind: hung, name: b, at: open}"))
		applied <- err
	}()
	log.await(t, "msg=hangs")
	if err := engine.Shutdown(context.Background()); !errors.Is(err, uniflow.ErrAbandoned) {
		t.Errorf("got %v, want ErrAbandoned", err)
	}
	if err := <-applied; !errors.Is(err, uniflow.ErrAbandoned) {
		t.Errorf("the reload: got %v, want ErrAbandoned", err)
	}
	if !strings.Contains(log.String(), `msg="generation drained" generation=1`) {
		t.Errorf("what was served has not drained: %s", log)
	}
	close(letGo)
}

const hungGrace = 3 * time.Second

// hungEngine serves a node a that hangs at one step.
func hungEngine(t *testing.T, letGo <-chan struct{}, at string) (*uniflow.Engine, *syncWriter) {
	t.Helper()
	log := &syncWriter{}
	engine, err := uniflow.New(uniflow.Options{
		Kinds: []*node.Def{hung(letGo)}, Grace: hungGrace, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := engine.Apply(context.Background(), source("- {kind: hung, name: a, at: "+at+"}")); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	return engine, log
}

// TestDrained logs once of every generation that it has drained.
func TestDrained(t *testing.T) {
	var log syncWriter
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{hung(nil)}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if list, err := engine.Apply(t.Context(), source("- {kind: hung, name: a}")); err != nil || list.HasErrors() {
			t.Fatal(list, err)
		}
	}
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if line := fmt.Sprintf("msg=\"generation drained\" generation=%d\n", i+1); strings.Count(log.String(), line) != 1 {
			t.Errorf("got %s, want one line with %s", log.String(), line)
		}
	}
}

// figured is a kind whose nodes have figures of their own.
func figured() *node.Def {
	return &node.Def{
		Kind: "figured", Summary: "Has figures.", Config: schema.Fields(schema.Int("size").Required()),
		In: []node.Port{{Name: "in"}},
		New: func(init *node.Init) (node.Node, error) {
			return &figuredNode{size: float64(init.Config.Int("size"))}, nil
		},
	}
}

type figuredNode struct{ size float64 }

func (*figuredNode) Receive(node.Process, node.Packet) node.Result { return node.None() }

func (n *figuredNode) Measure(report func(node.Metric)) {
	if n.size < 0 {
		panic("no size")
	}
	report(node.Metric{Name: "size", Help: "The size.", Value: n.size})
	report(node.Metric{
		Name: "sizes", Help: "The sizes.", Type: node.MetricHistogram, Labels: []node.Label{{Name: "of", Value: "x"}},
		Bounds: []float64{1}, Counts: []uint64{0, uint64(n.size)}, Sum: n.size,
	})
}

// TestFigures reads what nodes have of their own at each call: of the generation
// that serves, and summed up for nodes without a name.
func TestFigures(t *testing.T) {
	log := &syncWriter{}
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{figured()}, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	applied := 0
	f := func(doc, want string) {
		t.Helper()
		if doc != "" {
			if list, err := engine.Apply(t.Context(), source(doc)); err != nil || list.HasErrors() {
				t.Fatal(list, err)
			}
			if applied++; applied > 1 {
				log.await(t, fmt.Sprintf("msg=\"generation drained\" generation=%d", applied-1))
			}
		}
		got := ""
		for _, f := range engine.Metrics().Figures {
			got += fmt.Sprintf("%s.%s=%v%v ", f.Node.Name, f.Metric.Name, f.Metric.Value, f.Metric.Counts)
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f("- {kind: figured, name: a, size: 1}\n- {kind: figured, size: 20}\n- {kind: figured, size: 22}",
		"a.size=1[] a.sizes=0[0 1] .size=42[] .sizes=0[0 42] ")
	f("- {kind: figured, name: a, size: 2}", "a.size=2[] a.sizes=0[0 2] ")
	f("- {kind: figured, name: a, size: -1}\n- {kind: figured, name: b, size: 3}", "b.size=3[] b.sizes=0[0 3] ")
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	f("", "")
}

func TestLinks(t *testing.T) {
	var open atomic.Int64
	engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{natural(&open)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := engine.Links(); got != nil {
		t.Errorf("got %v before anything is served", got)
	}
	list, err := engine.Apply(t.Context(), source(`
- {kind: natural, name: a, ports: {out: [{name: b, port: in}, {name: a}], error: [{name: b}]}}
- {kind: natural, name: b}
`))
	if err = errors.Join(list.Err(), err); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, l := range engine.Links() {
		got += l.From.Name + "." + l.Out + " " + l.To.Name + "." + l.In + "; "
	}
	if want := "a.out b.in; a.out a.in; a.error b.in; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := engine.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestLastReload says whether the last workflow was served, and when.
func TestLastReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		engine, err := uniflow.New(uniflow.Options{Kinds: []*node.Def{natural(&open)}})
		if err != nil {
			t.Fatal(err)
		}
		if m := engine.Metrics(); !m.LastReload.IsZero() {
			t.Errorf("got %v before the first", m.LastReload)
		}
		f := func(doc string, want bool) {
			t.Helper()
			_, _ = engine.Apply(t.Context(), source(doc)) // want says how that ends
			if m := engine.Metrics(); m.LastReloadOK != want || !m.LastReload.Equal(time.Now()) {
				t.Errorf("got %v at %v, want %v", m.LastReloadOK, m.LastReload, want)
			}
			<-time.After(time.Second)
		}
		f("- {kind: natural}", true)
		f("- {kind: nonsense}", false)
		f("- {kind: natural, broken: true}", true) // the resource is shared with the generation before
		f("- {kind: natural, brokn: true}", false)
		f("- {kind: natural}", true)
		if err := engine.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}
