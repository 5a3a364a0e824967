package flowtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A witness is a test that keeps its failures. It runs on a goroutine of its own, so
// that Fatal can end it.
type witness struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (w *witness) Helper() {}

func (w *witness) Cleanup(f func()) { w.cleanups = append(w.cleanups, f) }

func (w *witness) Error(args ...any) { w.Errorf("%s", fmt.Sprint(args...)) }

func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

func (w *witness) Fatal(args ...any) { w.Fatalf("%s", fmt.Sprint(args...)) }

func (w *witness) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}

// watch runs a check, and what it leaves for the end.
func (w *witness) watch(check func(testing.TB)) {
	for _, f := range []func(){func() { check(w) }, func() {
		for i := len(w.cleanups) - 1; i >= 0; i-- {
			w.cleanups[i]()
		}
		w.cleanups = nil
	}} {
		var worker sync.WaitGroup
		worker.Go(f)
		worker.Wait()
	}
}

// failures returns what Conform finds, by part.
func failures(t *testing.T, c Case) map[string]string {
	t.Helper()
	all := make(map[string]string)
	whole := &witness{TB: t}
	whole.watch(func(tb testing.TB) {
		conform(tb, c, func(name string, check func(testing.TB)) {
			part := &witness{TB: t}
			part.watch(check)
			if len(part.failures) > 0 {
				all[name] = strings.Join(part.failures, "\n")
			}
		})
	})
	if len(whole.failures) > 0 {
		all["whole"] = strings.Join(whole.failures, "\n")
	}
	return all
}

// kind returns a kind that conforms, with another Receive.
func kind(receive node.ReceiverFunc) *node.Def {
	return &node.Def{
		Kind:    "k",
		Summary: "Sends on what it gets.",
		Page:    node.Page{Example: "- {kind: k, name: n}"},
		Config:  schema.Fields(schema.Int("limit").Default(3).Range(1, 10).Doc("A number."), schema.String("mode").Doc("A word.")),
		In:      []node.Port{{Name: "in", Doc: "Anything."}},
		Out:     []node.Port{{Name: "out", Doc: "The same."}},
		Recall:  node.Always(node.Pure),
		New:     func(*node.Init) (node.Node, error) { return receive, nil },
	}
}

func pass(_ node.Process, pkt node.Packet) node.Result { return node.Send(0, pkt.Payload) }

func caseOf(d *node.Def) Case {
	return Case{
		Kind: "k", Kinds: []*node.Def{d},
		Document: "- {kind: k, name: n, limit: 4, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.String("x"),
		Example:  []value.Value{value.Int(1)},
		Prepare: func(f *Flow) {
			f.patience = 200 * time.Millisecond
			f.Options.Grace = 10 * time.Millisecond
		},
	}
}

// TestConformFinds has a kind for each mistake, and the part that finds it.
func TestConformFinds(t *testing.T) {
	f := func(name string, d *node.Def, part, message string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			c := caseOf(d)
			if part == "" { // nothing hangs, however long it takes
				c.Prepare = nil
			}
			found := failures(t, c)
			if part == "" && len(found) > 0 || part != "" && !strings.Contains(found[part], message) {
				t.Errorf("got %v, want %q from %q", found, message, part)
			}
		})
	}
	change := func(receive node.ReceiverFunc, how func(*node.Def)) *node.Def {
		d := kind(receive)
		how(d)
		return d
	}
	end := make(chan struct{}) // of what does not end by itself
	f("nothing", kind(pass), "", "")
	f("no sentence", change(pass, func(d *node.Def) { d.Summary = "sends" }), "def", "Summary")
	f("no recall", change(pass, func(d *node.Def) { d.Recall = nil }), "def", "Recall")
	f("a port without doc", change(pass, func(d *node.Def) { d.Out[0].Doc = "" }), "def", "port out")
	f("a field without doc", change(pass, func(d *node.Def) { d.Config = schema.Fields(schema.Int("limit")) }), "def", "field limit")
	f("a bad example", change(pass, func(d *node.Def) { d.Example = "- {kind: k, name: n, limmit: 1}" }), "def", "limmit")
	f("an example that fails", kind(func(_ node.Process, pkt node.Packet) node.Result {
		if _, ok := pkt.Payload.AsInt(); ok {
			return node.Fail(errors.New("no integers"))
		}
		return node.Send(0, pkt.Payload)
	}), "def", "no integers")
	f("New panics", change(pass, func(d *node.Def) {
		d.New = func(init *node.Init) (node.Node, error) {
			if init.Config.Has("mode") && init.Config.String("mode") == "" {
				panic("no mode")
			}
			return node.ReceiverFunc(pass), nil
		}
	}), "config", "no mode")
	f("New accepts anything", change(pass, func(d *node.Def) {
		d.Config = schema.Fields(schema.Any("limit").Doc("A number."))
	}), "", "")
	f("panics", kind(func(_ node.Process, pkt node.Packet) node.Result {
		return node.Send(0, value.Bool(pkt.Payload.Kind() == value.KindNull && []bool{}[0]))
	}), "payloads", "null: got")
	f("sends nowhere", kind(func(_ node.Process, pkt node.Packet) node.Result {
		return node.Send(pkt.Payload.Len(), pkt.Payload)
	}), "payloads", "F7006")
	f("trusts its downstream", kind(func(_ node.Process, pkt node.Packet) node.Result {
		return node.SendThen(0, pkt.Payload, func(_ node.Process, r node.Response) node.Result {
			return node.Fail(r.Payload.AsError()) // nil, unless it has failed
		})
	}), "downstream", "F7006")
	f("ignores its context", kind(func(node.Process, node.Packet) node.Result {
		return node.Block(func(context.Context) node.Result {
			<-end
			return node.None()
		})
	}), "payloads", "waited")
	var counted atomic.Int64
	f("is not pure", kind(func(node.Process, node.Packet) node.Result { return node.Send(0, value.Int(counted.Add(1))) }), "order", "pure kind")
	f("is not pure over a reload", change(pass, func(d *node.Def) {
		d.New = func(*node.Init) (node.Node, error) {
			made := value.Int(counted.Add(1))
			return node.ReceiverFunc(func(node.Process, node.Packet) node.Result { return node.Send(0, made) }), nil
		}
	}), "reload", "over a reload")
	f("closes with processes", change(pass, func(d *node.Def) {
		d.New = func(*node.Init) (node.Node, error) { return &fragile{}, nil }
	}), "reload", "port is taken")
	f("needs Serve", change(pass, func(d *node.Def) {
		d.New = func(*node.Init) (node.Node, error) { return &early{}, nil }
	}), "start", "it does not serve")
	if !invariant.Race && !invariant.Enabled {
		f("allocates", kind(func(_ node.Process, pkt node.Packet) node.Result {
			return node.Send(0, value.List(pkt.Payload))
		}), "allocs", "got 1 allocations")
	}
	var workers sync.WaitGroup
	f("leaves goroutines", kind(func(_ node.Process, pkt node.Packet) node.Result {
		workers.Go(func() { <-end })
		return node.Send(0, pkt.Payload)
	}), "whole", "goroutines left behind")
	close(end)
	workers.Wait()
}

// An early node gets a packet before Serve.
type early struct{ src node.Starter }

func (n *early) Receive(_ node.Process, pkt node.Packet) node.Result {
	if n.src == nil {
		panic("it does not serve")
	}
	return pass(nil, pkt)
}

func (n *early) Serve(src node.Starter) error { n.src = src; return nil }

var open atomic.Int64

// A fragile can be open once, so no reload is possible.
type fragile struct{}

func (*fragile) Receive(_ node.Process, pkt node.Packet) node.Result { return pass(nil, pkt) }

func (*fragile) Open(context.Context) error {
	if !open.CompareAndSwap(0, 1) {
		return errors.New("the port is taken")
	}
	return nil
}

func (*fragile) Close() error { open.Store(0); return nil }

// TestConformCase refuses cases that test nothing.
func TestConformCase(t *testing.T) {
	for want, c := range map[string]Case{
		`kind "other" is not among`:       {Kind: "other", Kinds: []*node.Def{kind(pass)}},
		`no node of kind "k" with a name`: {Kind: "k", Kinds: []*node.Def{kind(pass)}, Document: "- {kind: k}"},
	} {
		if got := failures(t, c)["whole"]; !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
