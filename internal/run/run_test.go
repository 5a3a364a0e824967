package run_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// text renders a response for comparison.
func text(r node.Response) string {
	switch {
	case r.None:
		return "None"
	case r.IsError():
		return "error: " + node.Message(r.Payload.AsError())
	}
	if r.Payload.Kind() == value.KindList {
		var parts []string
		for _, e := range r.Payload.Elems() {
			parts = append(parts, text(node.Response{Payload: e}))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	if i, ok := r.Payload.AsInt(); ok {
		return fmt.Sprint(i)
	}
	s, _ := r.Payload.AsString()
	return s
}

func wantText(t *testing.T, got node.Response, want string) {
	t.Helper()
	if text(got) != want {
		t.Errorf("got %s, want %s", text(got), want)
	}
}

func answer(v value.Value) nodeFunc {
	return func(node.Process, node.Packet) node.Result { return node.Answer(v) }
}

func fail(message string) nodeFunc {
	return func(node.Process, node.Packet) node.Result { return node.Fail(errors.New(message)) }
}

// suffix adds a letter to its payload and sends it on, from blocking work if blocks is
// set.
func suffix(letter string, blocks bool) nodeFunc {
	return func(_ node.Process, pkt node.Packet) node.Result {
		s, _ := pkt.Payload.AsString()
		r := node.Send(0, value.String(s+letter))
		if blocks {
			return node.Block(func(context.Context) node.Result { return r })
		}
		return r
	}
}

// TestImplicitResponse is rules 1 and 2: the output of the last node of a branch
// is the answer.
func TestImplicitResponse(t *testing.T) {
	g := &graph{}
	a, b, c := g.fn(1, suffix("a", false)), g.fn(1, suffix("b", true)), g.fn(1, suffix("c", false))
	g.link(a, 0, b)
	g.link(b, 0, c)
	gen := g.open(t, run.Options{})
	wantText(t, gen.Send(t.Context(), nil, a, 0, value.String("")), "abc")
}

// TestFanOut is rules 3 and 4: responses are joined in the order of the links,
// whichever answers first.
func TestFanOut(t *testing.T) {
	cases := []struct {
		name     string
		branches []nodeFunc
		want     string
	}{
		{"list in link order", []nodeFunc{suffix("1", true), suffix("2", false), suffix("3", true)}, "[1 2 3]"},
		{"none is skipped", []nodeFunc{func(node.Process, node.Packet) node.Result { return node.None() }, suffix("2", false)}, "2"},
		{"nothing left", []nodeFunc{
			func(node.Process, node.Packet) node.Result { return node.None() },
			func(node.Process, node.Packet) node.Result { return node.None() },
		}, "None"},
		{"an error wins", []nodeFunc{suffix("1", false), fail("no"), suffix("3", true)}, "error: no"},
		{"errors are joined", []nodeFunc{fail("one"), suffix("2", false), fail("three")}, "error: one\nthree"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := &graph{}
			root := g.fn(1, pass)
			for _, b := range c.branches {
				g.link(root, 0, g.fn(1, b))
			}
			gen := g.open(t, run.Options{})
			wantText(t, gen.Send(t.Context(), nil, root, 0, value.String("")), c.want)
		})
	}
}

// TestOrder is rule 5: a node gets the packets of one process in the order in which
// they were sent, also if it blocks, and the sender gets the responses in the same
// order.
func TestOrder(t *testing.T) {
	const n = 200
	g := &graph{}
	var seen []int64
	var mu sync.Mutex
	sender := g.fn(1, func(node.Process, node.Packet) node.Result {
		packets := make([]node.Out, n)
		for i := range packets {
			packets[i] = node.Out{Payload: value.Int(int64(i))}
		}
		return node.SendAll(packets, func(_ node.Process, resps []node.Response) node.Result {
			return node.Respond(node.Join(resps))
		})
	})
	blocker := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		if i, _ := pkt.Payload.AsInt(); i%3 == 0 {
			return node.Send(0, pkt.Payload)
		}
		return node.Block(func(context.Context) node.Result { return node.Send(0, pkt.Payload) })
	})
	recorder := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		i, _ := pkt.Payload.AsInt()
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, i)
		return node.Send(0, pkt.Payload)
	})
	g.link(sender, 0, blocker)
	g.link(blocker, 0, recorder)
	gen := g.open(t, run.Options{})
	resp := gen.Send(t.Context(), nil, sender, 0, value.Null())
	if resp.Payload.Len() != n {
		t.Fatalf("got %s, want %d responses", text(resp), n)
	}
	for i := range n {
		if got, _ := resp.Payload.At(i).AsInt(); got != int64(i) {
			t.Fatalf("response %d is %d", i, got)
		}
		if seen[i] != int64(i) {
			t.Fatalf("packet %d arrived at place %d", seen[i], i)
		}
	}
}

// TestConcurrency lets as many packets of a process into one node concurrently as
// the node allows, with responses in order.
func TestConcurrency(t *testing.T) {
	const n, limit = 30, 3
	g := &graph{}
	var inside, most atomic.Int64
	full := make(chan struct{})
	var once sync.Once
	sender := g.fn(1, func(node.Process, node.Packet) node.Result {
		packets := make([]node.Out, n)
		for i := range packets {
			packets[i].Payload = value.Int(int64(i))
		}
		return node.SendAll(packets, func(_ node.Process, resps []node.Response) node.Result {
			return node.Respond(node.Join(resps))
		})
	})
	worker := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			now := inside.Add(1)
			defer inside.Add(-1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			if now == limit {
				once.Do(func() { close(full) })
			}
			select {
			case <-full: // all that are allowed are here together
			case <-ctx.Done():
			}
			return node.Answer(pkt.Payload)
		})
	})
	g.vertices[worker].Concurrency = limit
	g.link(sender, 0, worker)
	resp := g.open(t, run.Options{}).Send(t.Context(), nil, sender, 0, value.Null())
	for i := range n {
		if got, _ := resp.Payload.At(i).AsInt(); got != int64(i) {
			t.Fatalf("response %d is %d", i, got)
		}
	}
	if most.Load() > limit {
		t.Errorf("got %d packets in the node together, want at most %d", most.Load(), limit)
	}
}

// TestPipelining is the other half of rule 5: while one node of a process
// blocks, others go on.
func TestPipelining(t *testing.T) {
	g := &graph{}
	released := make(chan struct{})
	root := g.fn(1, pass)
	g.link(root, 0, g.fn(1, func(node.Process, node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			select {
			case <-released:
				return node.Answer(value.String("released"))
			case <-ctx.Done():
				return node.Fail(ctx.Err())
			}
		})
	}))
	g.link(root, 0, g.fn(1, func(node.Process, node.Packet) node.Result {
		close(released)
		return node.Answer(value.String("releaser"))
	}))
	gen := g.open(t, run.Options{})
	wantText(t, gen.Send(t.Context(), nil, root, 0, value.Null()), "[released releaser]")
}

// TestErrorPort is rule 6: a failure goes to the error port, if that is linked.
func TestErrorPort(t *testing.T) {
	t.Run("own failure goes to the error port", func(t *testing.T) {
		g := &graph{}
		a := g.fn(1, fail("broken"))
		g.linkErr(a, g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			return node.Answer(value.String("handled " + node.Message(pkt.Payload.AsError())))
		}))
		wantText(t, g.open(t, run.Options{}).Send(t.Context(), nil, a, 0, value.Null()), "handled broken")
	})
	t.Run("an error from downstream passes", func(t *testing.T) {
		g := &graph{}
		a := g.fn(1, pass)
		g.link(a, 0, g.fn(1, fail("downstream")))
		g.linkErr(a, g.fn(1, answer(value.String("handled"))))
		resp := g.open(t, run.Options{}).Send(t.Context(), nil, a, 0, value.Null())
		wantText(t, resp, "error: downstream")
		var e *node.Error
		if !errors.As(resp.Payload.AsError(), &e) || e.Node.Name != "b" {
			t.Errorf("got %v, want an error located at node b", resp.Payload.AsError())
		}
	})
}

// TestCall covers waiting for a response and going on, also over unlinked ports.
func TestCall(t *testing.T) {
	g := &graph{}
	caller := g.fn(2, func(_ node.Process, pkt node.Packet) node.Result {
		return node.SendThen(0, pkt.Payload, func(_ node.Process, first node.Response) node.Result {
			return node.SendThen(1, first.Payload, func(_ node.Process, second node.Response) node.Result {
				return node.Answer(value.List(first.Payload, second.Payload))
			})
		})
	})
	g.link(caller, 0, g.fn(1, suffix("x", true)))
	wantText(t, g.open(t, run.Options{}).Send(t.Context(), nil, caller, 0, value.String("in-")), "[in-x in-x]")
}

// TestPanicBehindGates has a node panic while packets wait for two others, one of
// them with nothing behind it: all are answered, and the process ends.
func TestPanicBehindGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &graph{}
		root := g.fn(2, func(_ node.Process, pkt node.Packet) node.Result {
			return node.SendAll([]node.Out{{Port: 0}, {Port: 1}, {Port: 1}, {Port: 1}},
				func(node.Process, []node.Response) node.Result { return node.Answer(value.Int(1)) })
		})
		g.link(root, 0, g.fn(0, func(node.Process, node.Packet) node.Result {
			return node.Block(func(context.Context) node.Result {
				after(time.Minute)
				return node.None()
			})
		}))
		quick := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			return node.Block(func(context.Context) node.Result {
				after(time.Second)
				return node.Send(0, pkt.Payload)
			})
		})
		g.link(root, 1, quick)
		g.link(quick, 0, g.fn(0, func(node.Process, node.Packet) node.Result { panic("boom") }))
		wantText(t, g.open(t, run.Options{}).Send(t.Context(), nil, root, 0, value.Null()), "error: panic: boom")
	})
}

// TestPanic is rule 7: wherever node code panics, the process ends with an error
// and the next one is fine.
func TestPanic(t *testing.T) {
	panics := map[string]nodeFunc{
		"receive": func(node.Process, node.Packet) node.Result { panic("boom") },
		"then": func(node.Process, node.Packet) node.Result {
			return node.SendThen(0, value.Null(), func(node.Process, node.Response) node.Result { panic("boom") })
		},
		"block": func(node.Process, node.Packet) node.Result {
			return node.Block(func(context.Context) node.Result { panic("boom") })
		},
		"all": func(node.Process, node.Packet) node.Result {
			return node.SendAll([]node.Out{{}, {}}, func(node.Process, []node.Response) node.Result { panic("boom") })
		},
		"defer": func(p node.Process, pkt node.Packet) node.Result {
			p.Enlist(node.PhaseMark, func(context.Context, error) (bool, error) { panic("boom") })
			return node.Send(0, pkt.Payload)
		},
		"child": func(node.Process, node.Packet) node.Result {
			child := node.Block(func(context.Context) node.Result { panic("boom") })
			return node.Spawn([]node.Result{child}, 0, func(_ node.Process, resps []node.Response) node.Result {
				return node.Respond(node.Join(resps))
			})
		},
	}
	for name, f := range panics {
		t.Run(name, func(t *testing.T) {
			g := &graph{}
			root := g.fn(1, pass)
			g.link(root, 0, g.fn(1, f))
			g.link(root, 0, g.fn(1, suffix("ok", true)))
			healthy := g.fn(1, suffix("!", false))
			gen := g.open(t, run.Options{})
			for range 3 {
				wantText(t, gen.Send(t.Context(), nil, root, 0, value.Null()), "error: panic: boom")
				wantText(t, gen.Send(t.Context(), nil, healthy, 0, value.String("fine")), "fine!")
			}
		})
	}
}

// TestStorage is rule 10: children see a parent's values and shadow them.
func TestStorage(t *testing.T) {
	key := node.NewKey[string]("who")
	g := &graph{}
	var parent, child string
	at := g.fn(1, func(p node.Process, _ node.Packet) node.Result {
		key.Store(p, "parent")
		r := node.Block(func(context.Context) node.Result {
			return node.SendThen(0, value.Null(), func(p node.Process, _ node.Response) node.Result {
				before, _ := key.Load(p)
				key.Store(p, "child")
				after, _ := key.Load(p)
				child = before + "," + after
				return node.None()
			})
		})
		return node.Spawn([]node.Result{r}, 0, func(p node.Process, _ []node.Response) node.Result {
			parent, _ = key.Load(p)
			return node.None()
		})
	})
	wantText(t, g.open(t, run.Options{}).Send(t.Context(), nil, at, 0, value.Null()), "None")
	if child != "parent,child" || parent != "parent" {
		t.Errorf("got child %q, parent %q, want \"parent,child\" and \"parent\"", child, parent)
	}
}

// TestCancel is rule 9, for blocking work, for a loop that never blocks, and for
// children.
func TestCancel(t *testing.T) {
	waits := func(ctx context.Context) node.Result {
		<-ctx.Done()
		return node.Fail(ctx.Err())
	}
	started := make(chan struct{}, 8)
	cases := map[string]nodeFunc{
		"block": func(node.Process, node.Packet) node.Result {
			started <- struct{}{}
			return node.Block(waits)
		},
		"loop": func(_ node.Process, pkt node.Packet) node.Result {
			select {
			case started <- struct{}{}:
			default:
			}
			return node.Send(0, pkt.Payload)
		},
		"children": func(node.Process, node.Packet) node.Result {
			started <- struct{}{}
			return node.Spawn([]node.Result{node.Block(waits), node.Block(waits)}, 0,
				func(_ node.Process, resps []node.Response) node.Result { return node.Respond(node.Join(resps)) })
		},
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			g := &graph{}
			at := g.fn(1, f)
			if name == "loop" {
				g.link(at, 0, at)
			}
			gen := g.open(t, run.Options{Budget: run.Budget{Deliveries: 1 << 40}})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			resp := gen.Send(ctx, nil, at, 0, value.Null())
			if !errors.Is(resp.Payload.AsError(), context.Canceled) {
				t.Errorf("got %s, want a cancellation", text(resp))
			}
			for len(started) > 0 {
				<-started
			}
		})
	}
}

// TestBudget is rule 11: each bound ends the process with an error that names it.
func TestBudget(t *testing.T) {
	f := func(name string, budget run.Budget, n nodeFunc, loop bool, want string) {
		t.Helper()
		g := &graph{}
		at := g.fn(1, n)
		sink := g.fn(1, pass)
		if loop {
			g.link(at, 0, at)
		} else {
			g.link(at, 0, sink)
		}
		resp := g.open(t, run.Options{Budget: budget}).Send(t.Context(), nil, at, 0, value.String("x"))
		if got := text(resp); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	many := func(node.Process, node.Packet) node.Result {
		return node.SendAll(make([]node.Out, 100), func(_ node.Process, resps []node.Response) node.Result {
			return node.Respond(node.Join(resps))
		})
	}
	big := func(node.Process, node.Packet) node.Result {
		packets := make([]node.Out, 20)
		for i := range packets {
			packets[i].Payload = value.String(strings.Repeat("x", 1000))
		}
		return node.SendAll(packets, func(_ node.Process, resps []node.Response) node.Result { return node.None() })
	}
	again := node.NewCall(nil)
	again = node.NewCall(func(node.Process, node.Response) node.Result { return again.Send(0, value.Null()) })
	f("cycle", run.Budget{Deliveries: 1000}, pass, true, "more than 1000 deliveries")
	f("packets", run.Budget{Packets: 50}, many, false, "more than 50 pending packets")
	f("bytes", run.Budget{Bytes: 10_000}, big, false, "more than 10000 pending bytes")
	f("growing payload", run.Budget{Bytes: 10_000}, func(_ node.Process, pkt node.Packet) node.Result {
		text, _ := pkt.Payload.AsString()
		return node.Send(0, value.String(text+text))
	}, true, "more than 10000 pending bytes")
	f("growing cycle", run.Budget{Packets: 1000}, func(_ node.Process, pkt node.Packet) node.Result {
		return node.SendAll([]node.Out{{}, {}}, func(node.Process, []node.Response) node.Result { return node.None() })
	}, true, "more than 1000 pending packets")
	f("calls of an unlinked port", run.Budget{Deliveries: 1000}, func(node.Process, node.Packet) node.Result {
		return node.SendThen(0, value.Null(), func(node.Process, node.Response) node.Result { return again.Send(0, value.Null()) })
	}, false, "more than 1000 deliveries")
}

// TestMisuse reports a node that sends to a port that it has not got.
func TestMisuse(t *testing.T) {
	g := &graph{}
	at := g.fn(1, func(node.Process, node.Packet) node.Result { return node.Send(7, value.Null()) })
	resp := g.open(t, run.Options{}).Send(t.Context(), nil, at, 0, value.Null())
	wantText(t, resp, "error: kind test: sent to out-port 7 of 1")
}

// TestLifecycle is rule 14, with the order of the whole life of a node.
func TestLifecycle(t *testing.T) {
	var log []string
	g := &graph{}
	hook := func(phase string) int32 {
		return g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			name, _ := pkt.Payload.Get("name")
			log = append(log, phase+" "+text(node.Response{Payload: name}))
			return node.None()
		})
	}
	at := g.add(&recorded{log: &log}, 1)
	for phase, name := range map[lifecycle.Phase]string{
		lifecycle.Init: "init", lifecycle.Active: "active", lifecycle.Deactive: "deactive", lifecycle.Deinit: "deinit",
	} {
		g.vertices[at].Lifecycle[phase] = []compile.Edge{{Node: hook(name)}}
	}
	gen := run.New(&compile.Program{Vertices: g.vertices, Order: []int32{1, 2, 3, 4, 0}}, run.Options{})
	if err := errors.Join(gen.Open(t.Context()), gen.Serve(), gen.Stop(t.Context()), gen.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	want := "init a; open; active a; find; serve; stop; deactive a; close; deinit a"
	if got := strings.Join(log, "; "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNotOpen sends to a node from the workflow at its port init, and to another one that opens
// later. Neither gets the packet; those that come later they get, also from a fork that began before.
func TestNotOpen(t *testing.T) {
	for _, in := range []run.Instruments{{}, {Metrics: true, Observers: []*observe.Observer{{}}}} {
		var log []string
		g := &graph{}
		var answers []string
		early := g.fn(2, func(_ node.Process, pkt node.Packet) node.Result {
			return node.SendThen(0, pkt.Payload, func(_ node.Process, r node.Response) node.Result {
				answers = append(answers, text(r))
				return node.SendThen(1, pkt.Payload, func(_ node.Process, r node.Response) node.Result {
					answers = append(answers, text(r))
					return node.None()
				})
			})
		})
		opened := make(chan struct{})
		late := make(chan node.Response, 1)
		forks := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			return node.Fork(node.Block(func(context.Context) node.Result {
				<-opened
				return node.SendThen(0, pkt.Payload, func(_ node.Process, r node.Response) node.Result {
					late <- r
					return node.None()
				})
			}))
		})
		own, later := g.add(&recorded{log: &log}, 1), g.add(&recorded{log: &log}, 1)
		g.link(early, 0, own)
		g.link(early, 1, later)
		g.link(forks, 0, own)
		g.vertices[own].Lifecycle[lifecycle.Init] = []compile.Edge{{Node: early}, {Node: forks}}
		gen := run.New(&compile.Program{Vertices: g.vertices, Order: []int32{early, forks, own, later}}, run.Options{})
		gen.Instrument(in)
		if err := gen.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(opened)
		wantText(t, <-late, "None")
		not := "error: " + node.ErrNotOpen.Error()
		if want := []string{not, not}; !slices.Equal(answers, want) {
			t.Errorf("got %q, want %q", answers, want)
		}
		answers = nil
		gen.Send(t.Context(), nil, early, 0, value.Null())
		if want := []string{"None", "None"}; !slices.Equal(answers, want) {
			t.Errorf("got %q after Open, want %q", answers, want)
		}
		if err := errors.Join(gen.Stop(t.Context()), gen.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFindFails ends the start of a generation.
func TestFindFails(t *testing.T) {
	var log []string
	g := &graph{}
	g.add(&lost{recorded{log: &log}}, 1)
	gen := run.New(&compile.Program{Vertices: g.vertices, Order: []int32{0}}, run.Options{})
	err := gen.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "lost for ever") {
		t.Errorf("got %v, want the error of Find", err)
	}
	if err := gen.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := strings.Join(log, "; "); got != "open; close" {
		t.Errorf("got %s", got)
	}
}

type lost struct{ recorded }

func (*lost) Find(context.Context) error { return errors.New("lost for ever") }

type recorded struct{ log *[]string }

func (r *recorded) add(what string) error { *r.log = append(*r.log, what); return nil }

func (r *recorded) Receive(node.Process, node.Packet) node.Result { return node.None() }
func (r *recorded) Open(context.Context) error                    { return r.add("open") }
func (r *recorded) Find(context.Context) error                    { return r.add("find") }
func (r *recorded) Serve(node.Starter) error                      { return r.add("serve") }
func (r *recorded) Stop(context.Context) error                    { return r.add("stop") }
func (r *recorded) Close() error                                  { return r.add("close") }

// TestLifecycleTimeout ends an init workflow that does not answer.
func TestLifecycleTimeout(t *testing.T) {
	g := &graph{}
	at := g.fn(1, pass)
	stuck := g.fn(1, func(node.Process, node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			<-ctx.Done()
			return node.Fail(ctx.Err())
		})
	})
	g.vertices[at].Lifecycle[lifecycle.Init] = []compile.Edge{{Node: stuck}}
	for _, f := range []struct{ general, own time.Duration }{{time.Millisecond, 0}, {0, time.Millisecond}, {time.Hour, time.Millisecond}} {
		g.vertices[at].LifecycleTimeout = f.own
		gen := run.New(&compile.Program{Vertices: g.vertices, Order: []int32{1, 0}}, run.Options{LifecycleTimeout: f.general})
		err := gen.Open(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "init") {
			t.Errorf("%v: got %v, want a deadline exceeded in init", f, err)
		}
		if err := gen.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestStop is the end of rule 9: when the grace is over, contexts end, also in a
// process which only its own work knows.
func TestStop(t *testing.T) {
	g := &graph{}
	started := make(chan struct{})
	at := g.fn(1, func(node.Process, node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			close(started)
			<-ctx.Done()
			return node.Fail(context.Cause(ctx))
		})
	})
	gen := run.New(&compile.Program{Vertices: g.vertices, Order: []int32{at}}, run.Options{})
	resps := make(chan node.Response, 1)
	go func() { resps <- gen.Send(context.Background(), nil, at, 0, value.Null()) }()
	<-started
	grace, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if err := gen.Stop(grace); err != nil {
		t.Error(err)
	}
	if resp := <-resps; !resp.IsError() {
		t.Errorf("got %s, want an error", text(resp))
	}
	if resp := gen.Send(t.Context(), nil, at, 0, value.Null()); !errors.Is(resp.Payload.AsError(), node.ErrStopped) {
		t.Errorf("after stop got %s, want ErrStopped", text(resp))
	}
	if err := gen.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// holding is a node that holds packets until it is drained, or one that waits for them.
type holding struct {
	node.ReceiverFunc
	name  string
	steps *[]string
}

func (h holding) Drain() { *h.steps = append(*h.steps, "drain "+h.name) }

func (h holding) Stop(context.Context) error {
	*h.steps = append(*h.steps, "stop "+h.name)
	return nil
}

// TestDrain lets go what nodes hold before any Stop, from upstream to downstream.
func TestDrain(t *testing.T) {
	g := &graph{}
	var steps []string
	first, second := g.fn(1, pass), g.fn(1, pass)
	g.link(first, 0, second)
	g.vertices[first].Node = holding{pass, "first", &steps}
	g.vertices[second].Node = holding{pass, "second", &steps}
	gen := run.New(&compile.Program{Vertices: g.vertices, Order: []int32{second, first}}, run.Options{})
	if err := gen.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := fmt.Sprint(steps), "[drain first drain second stop first stop second]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := gen.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHammer runs many concurrent processes through all that passes tokens between
// goroutines, for the race detector and the invariants.
func TestHammer(t *testing.T) {
	g := &graph{}
	root := g.fn(1, pass)
	for i := range 4 {
		mid := g.fn(1, suffix(fmt.Sprint(i), i%2 == 0))
		end := g.fn(1, suffix("z", i%3 == 0))
		g.link(root, 0, mid)
		g.link(mid, 0, end)
	}
	spawner := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		children := []node.Result{node.Send(0, pkt.Payload), node.Send(0, pkt.Payload), node.Send(0, pkt.Payload)}
		return node.Spawn(children, 2, func(_ node.Process, resps []node.Response) node.Result {
			return node.Respond(resps[len(resps)-1])
		})
	})
	g.link(spawner, 0, root)
	gen := g.open(t, run.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if got := text(gen.Send(context.Background(), nil, spawner, 0, value.String("p"))); got != "[p0z p1z p2z p3z]" {
					t.Errorf("got %s", got)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := gen.InFlight(); n != 0 {
		t.Errorf("%d processes in flight at the end", n)
	}
}

// TestAllocations is the budget of the hot path: a process, its hops and a call
// allocate nothing.
func TestAllocations(t *testing.T) {
	if invariant.Enabled {
		return // the checks allocate
	}
	g := &graph{}
	call := node.NewCall(func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) })
	caller := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result { return call.Send(0, pkt.Payload) })
	next := g.fn(1, pass)
	g.link(caller, 0, next)
	g.link(next, 0, g.fn(1, pass))
	gen := g.open(t, run.Options{})
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() { gen.Send(ctx, nil, caller, 0, value.Int(1)) }); n > 0 {
		t.Errorf("got %v allocations a process, want 0", n)
	}
}
