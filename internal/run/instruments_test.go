package run_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// TestMetrics counts every packet and failure, and how processes end.
func TestMetrics(t *testing.T) {
	g := &graph{}
	a := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		if i, _ := pkt.Payload.AsInt(); i%4 == 3 {
			return node.None()
		}
		return node.Send(0, pkt.Payload)
	})
	b := g.fn(1, pass)
	c := g.fn(0, func(_ node.Process, pkt node.Packet) node.Result {
		if i, _ := pkt.Payload.AsInt(); i%4 == 2 {
			return node.Fail(errors.New("two"))
		}
		return node.Answer(pkt.Payload)
	})
	g.link(a, 0, b)
	g.link(b, 0, c)
	gen := g.open(t, run.Options{})
	gen.Instrument(run.Instruments{Metrics: true})
	const clients, each = 4, 1000
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := range int64(each) {
				gen.Send(t.Context(), nil, a, 0, value.Int(i))
			}
		})
	}
	wg.Wait()

	m := gen.Metrics()
	const all = clients * each
	for i, want := range []uint64{all, all * 3 / 4, all * 3 / 4} {
		if got := m.Nodes[i].Packets; got != want {
			t.Errorf("node %s: got %d packets, want %d", m.Nodes[i].Name, got, want)
		}
	}
	if a, c := m.Nodes[a].Errors, m.Nodes[c].Errors; a != 0 || c != all/4 {
		t.Errorf("got %d and %d errors, want none of the first node and %d of the last", a, c, all/4)
	}
	want := [len(observe.Metrics{}.Ended)]uint64{observe.Answered: all / 2, observe.Nothing: all / 4, observe.Failed: all / 4}
	if m.Ended != want || m.Started != all || m.InFlight != 0 {
		t.Errorf("got %d started, %v ended, %d in flight, want %d, %v, none", m.Started, m.Ended, m.InFlight, all, want)
	}
}

// after waits for some time of the bubble's clock.
func after(d time.Duration) { <-time.After(d) }

// TestSample measures some of the processes; each represents those that were not
// measured.
func TestSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &graph{}
		g.fn(1, pass)
		gen := g.open(t, run.Options{})
		gen.Instrument(run.Instruments{Metrics: true})
		const burst, bursts = 500, 20
		for range bursts {
			for range burst {
				gen.Send(t.Context(), nil, 0, 0, value.Int(1))
			}
			after(time.Second)
		}
		got, all := total(gen.Metrics().Nodes[0].Latency), uint64(burst*bursts)
		if got > all || got == 0 {
			t.Errorf("got %d packets measured, want at most %d", got, all)
		}
		if !invariant.Race && got < all*3/4 { // the race detector has pools lose processes, and what they stood for
			t.Errorf("got %d packets measured, want nearly %d", got, all)
		}
	})
}

func total(h observe.Histogram) (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// TestRare measures every process when they are few.
func TestRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &graph{}
		slow := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			after(30 * time.Microsecond) // as a node should not, but a busy one does
			return node.Block(func(context.Context) node.Result {
				after(time.Millisecond)
				return node.Send(0, pkt.Payload)
			})
		})
		gen := g.open(t, run.Options{})
		gen.Instrument(run.Instruments{Metrics: true})
		const n = 10
		for range n {
			gen.Send(t.Context(), nil, slow, 0, value.Int(1))
			after(time.Second)
		}
		m := gen.Metrics().Nodes[slow]
		if m.Busy != n*30*time.Microsecond || m.Latency.Sum != n*1030*time.Microsecond {
			t.Errorf("got %v busy, %v in all, want %v and %v", m.Busy, m.Latency.Sum, n*30*time.Microsecond, n*1030*time.Microsecond)
		}
		if bucket := m.Latency.Bucket(1030 * time.Microsecond); m.Latency.Counts[bucket] != n {
			t.Errorf("got counts %v, want %d up to %v", m.Latency.Counts, n, m.Latency.Bound(bucket))
		}
	})
}

// TestPending shows what waits while a process waits, and nothing afterwards.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &graph{}
		a := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			return node.SendAll([]node.Out{{Payload: pkt.Payload}, {Payload: pkt.Payload}, {Payload: pkt.Payload}},
				func(node.Process, []node.Response) node.Result { return node.None() })
		})
		b := g.fn(0, func(_ node.Process, pkt node.Packet) node.Result {
			return node.Block(func(context.Context) node.Result {
				after(time.Second)
				return node.None()
			})
		})
		g.link(a, 0, b)
		gen := g.open(t, run.Options{})
		gen.Instrument(run.Instruments{Metrics: true})
		var wg sync.WaitGroup
		payload := value.String(strings.Repeat("x", 1000))
		wg.Go(func() { gen.Send(t.Context(), nil, a, 0, payload) })
		synctest.Wait()
		if m := gen.Metrics(); m.Pending != 2 || m.PendingBytes < 2*1000 || m.InFlight != 1 {
			t.Errorf("got %d packets, %d bytes pending, %d in flight, want 2, 2,000 and more, 1", m.Pending, m.PendingBytes, m.InFlight)
		}
		wg.Wait()
		if m := gen.Metrics(); m.Pending != 0 || m.PendingBytes != 0 || m.InFlight != 0 {
			t.Errorf("got %d packets, %d bytes pending, %d in flight, want none", m.Pending, m.PendingBytes, m.InFlight)
		}
	})
}

// TestPanicCounts records and counts a panic as a failure of the node's.
func TestPanicCounts(t *testing.T) {
	g := &graph{}
	g.fn(0, func(node.Process, node.Packet) node.Result { panic("oops") })
	gen := g.open(t, run.Options{})
	var tp tape
	gen.Instrument(run.Instruments{Metrics: true, Recorders: []observe.Recorder{{Ended: tp.add}}})
	gen.Send(t.Context(), nil, 0, 0, value.Int(1))
	m := gen.Metrics()
	if m.Nodes[0].Errors != 1 || m.Ended[observe.Failed] != 1 {
		t.Errorf("got %d errors, ended %v, want 1, failed", m.Nodes[0].Errors, m.Ended)
	}
	if got := tp.timelines[0]; len(got.Spans) != 1 || got.Spans[0].Error != "panic" || !strings.Contains(got.Error, "oops") {
		t.Errorf("got %+v", got)
	}
}

// TestCancelled distinguishes a process that ran out of time from one that failed.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &graph{}
		g.fn(0, func(node.Process, node.Packet) node.Result {
			return node.Block(func(ctx context.Context) node.Result {
				<-ctx.Done()
				return node.Fail(ctx.Err())
			})
		})
		gen := g.open(t, run.Options{})
		gen.Instrument(run.Instruments{Metrics: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gen.Send(ctx, nil, 0, 0, value.Int(1))
		if m := gen.Metrics(); m.Ended[observe.Cancelled] != 1 {
			t.Errorf("got ended %v, want it cancelled", m.Ended)
		}
	})
}

// A tape keeps timelines.
type tape struct {
	sync.Mutex
	timelines []*observe.Timeline
}

func (tp *tape) add(t *observe.Timeline) {
	tp.Lock()
	defer tp.Unlock()
	tp.timelines = append(tp.timelines, t)
}

// TestTimeline records when packets arrived, waited and were handled.
func TestTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &graph{}
		a := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			after(2 * time.Millisecond)
			return node.SendAll([]node.Out{{Payload: pkt.Payload}, {Payload: pkt.Payload}},
				func(node.Process, []node.Response) node.Result {
					after(3 * time.Millisecond)
					return node.Answer(value.Int(1))
				})
		})
		b := g.fn(0, func(_ node.Process, pkt node.Packet) node.Result {
			return node.Block(func(context.Context) node.Result {
				after(10 * time.Millisecond)
				return node.Fail(errors.New("no answer"))
			})
		})
		g.link(a, 0, b)
		gen := g.open(t, run.Options{})
		var tp tape
		gen.Instrument(run.Instruments{Recorders: []observe.Recorder{
			{Ended: tp.add}, {Filter: func(observe.Trace) bool { return false }, Ended: func(*observe.Timeline) { t.Error("got a timeline that the recorder did not ask for") }},
		}})
		gen.Send(t.Context(), nil, a, 0, value.Int(1))

		if len(tp.timelines) != 1 {
			t.Fatalf("got %d timelines, want 1", len(tp.timelines))
		}
		got := tp.timelines[0]
		if got.Duration != 25*time.Millisecond || got.Outcome != observe.Answered || got.Trigger.Name != "a" || got.Process == "" || got.Trace.IsZero() || got.Trace.Sampled {
			t.Errorf("got %+v", got)
		}
		const ms = time.Millisecond
		want := []observe.Span{
			{Start: 0, Run: 5 * ms, End: 25 * ms, Parent: -1},
			{Start: 2 * ms, Wait: 10 * ms, End: 12 * ms, Error: "no answer"},
			{Start: 2 * ms, Queue: 10 * ms, Wait: 10 * ms, End: 22 * ms, Error: "no answer"},
		}
		if len(got.Spans) != len(want) {
			t.Fatalf("got %d spans, want %d", len(got.Spans), len(want))
		}
		for i, s := range got.Spans {
			want[i].Node = gen.Program().Vertices[min(i, 1)].Ref
			if !reflect.DeepEqual(s, want[i]) {
				t.Errorf("span %d:\ngot  %+v\nwant %+v", i, s, want[i])
			}
		}
	})
}

// TestLongProcess sends a packet after hours: its times are right although the
// stamps of waiting packets have wrapped around.
func TestLongProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &graph{}
		a := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			return node.Block(func(context.Context) node.Result {
				after(3 * time.Hour)
				return node.SendAll([]node.Out{{Payload: pkt.Payload}, {Payload: pkt.Payload}},
					func(node.Process, []node.Response) node.Result { return node.Answer(value.Int(1)) })
			})
		})
		g.link(a, 0, g.fn(0, func(_ node.Process, pkt node.Packet) node.Result {
			return node.Block(func(context.Context) node.Result {
				after(time.Minute)
				return node.Answer(pkt.Payload)
			})
		}))
		gen := g.open(t, run.Options{})
		var tp tape
		gen.Instrument(run.Instruments{Recorders: []observe.Recorder{{Ended: tp.add}}})
		gen.Send(t.Context(), nil, a, 0, value.Int(1))
		for i, want := range []observe.Span{
			{End: 3*time.Hour + 2*time.Minute},
			{Start: 3 * time.Hour, End: 3*time.Hour + time.Minute},
			{Start: 3 * time.Hour, Queue: time.Minute, End: 3*time.Hour + 2*time.Minute},
		} {
			if s := tp.timelines[0].Spans[i]; s.Start != want.Start || s.Queue != want.Queue || s.End != want.End {
				t.Errorf("span %d: got start %v, queue %v, end %v, want %v, %v, %v", i, s.Start, s.Queue, s.End, want.Start, want.Queue, want.End)
			}
		}
	})
}

// TestPanicOutsideTheToken lets blocking work panic while the holder of the token
// moves between the recorded and the plain variant of the program.
func TestPanicOutsideTheToken(t *testing.T) {
	g := &graph{}
	root := g.fn(2, func(_ node.Process, pkt node.Packet) node.Result {
		return node.SendAll([]node.Out{{Port: 0, Payload: pkt.Payload}, {Port: 1, Payload: value.Int(20000)}},
			func(node.Process, []node.Response) node.Result { return node.Answer(value.Int(1)) })
	})
	g.link(root, 0, g.fn(0, func(node.Process, node.Packet) node.Result {
		return node.Block(func(context.Context) node.Result { panic("boom") })
	}))
	loop := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		i, _ := pkt.Payload.AsInt()
		if i == 0 {
			return node.None()
		}
		return node.Send(0, value.Int(i-1))
	})
	g.link(root, 1, loop)
	g.link(loop, 0, loop)
	gen := g.open(t, run.Options{})
	gen.Instrument(run.Instruments{Metrics: true})
	for range 20 {
		wantText(t, gen.Send(t.Context(), nil, root, 0, value.Int(1)), "1")
	}
}

// TestTraces puts a process and its children into the trace of its request, which nodes
// find in their context.
func TestTraces(t *testing.T) {
	g := &graph{}
	var seen sync.Map // the traces that nodes found, by node
	tell := func(name string, p node.Process) {
		if trace, ok := observe.TraceOf(p.Context()); ok {
			seen.Store(name, trace)
		}
	}
	look := func(name string) nodeFunc {
		return func(p node.Process, pkt node.Packet) node.Result {
			tell(name, p)
			return node.Answer(pkt.Payload)
		}
	}
	a := g.fn(2, func(p node.Process, pkt node.Packet) node.Result {
		tell("root", p)
		return node.Spawn([]node.Result{node.Send(0, pkt.Payload)}, 1, func(node.Process, []node.Response) node.Result {
			return node.Fork(node.Send(1, pkt.Payload))
		})
	})
	g.link(a, 0, g.fn(0, look("spawned")))
	g.link(a, 1, g.fn(0, look("forked")))
	gen := g.open(t, run.Options{})
	var tp tape
	gen.Instrument(run.Instruments{Recorders: []observe.Recorder{
		{Filter: func(p observe.Trace) bool { return p.Sampled }, Traces: true, Ended: tp.add},
	}})
	parent, ok := observe.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1")
	if !ok {
		t.Fatal("got no trace")
	}
	gen.Send(t.Context(), nil, a, 0, value.Int(1)) // not asked for
	seen.Range(func(name, trace any) bool {
		t.Errorf("%s: got trace %v, want none", name, trace)
		return true
	})
	gen.Send(observe.WithTrace(t.Context(), parent), nil, a, 0, value.Int(1))
	if err := gen.Stop(t.Context()); err != nil { // waits for the forked one
		t.Fatal(err)
	}
	if len(tp.timelines) != 3 {
		t.Fatalf("got %d timelines, want 3", len(tp.timelines))
	}
	root, _ := seen.Load("root")
	for _, timeline := range tp.timelines {
		want := root.(observe.Trace).Span
		if timeline.Trace == root {
			want = parent.Span
		}
		if timeline.Trace.ID != parent.ID || timeline.Trace.State != "vendor=1" || !timeline.Trace.Sampled || timeline.Parent != want {
			t.Errorf("got trace %v under %x, want one of %x under %x", timeline.Trace, timeline.Parent, parent.ID, want)
		}
	}
	for _, name := range []string{"spawned", "forked"} {
		trace, _ := seen.Load(name)
		if trace.(observe.Trace).ID != parent.ID || trace.(observe.Trace).Span == root.(observe.Trace).Span {
			t.Errorf("%s: got trace %v, want a span of its own in %x", name, trace, parent.ID)
		}
	}
}

// TestLongRecording bounds what is kept of a long process, and still measures it.
func TestLongRecording(t *testing.T) {
	const hops = 50_000
	g := &graph{}
	loop := g.fn(2, func(_ node.Process, pkt node.Packet) node.Result {
		i, _ := pkt.Payload.AsInt()
		if i == 1 {
			return node.Send(1, pkt.Payload)
		}
		return node.Send(0, value.Int(i-1))
	})
	g.link(loop, 0, loop)
	gen := g.open(t, run.Options{})
	var tp tape
	gen.Instrument(run.Instruments{Metrics: true, Recorders: []observe.Recorder{{Ended: tp.add}}})
	gen.Send(t.Context(), nil, loop, 0, value.Int(hops))
	if got := tp.timelines[0]; len(got.Spans) != 1000 || got.Unrecorded != hops-1000 {
		t.Errorf("got %d spans, %d beyond, want 1,000 and the rest of %d", len(got.Spans), got.Unrecorded, hops)
	}
	m := gen.Metrics().Nodes[loop]
	if got := total(m.Latency); m.Packets != hops || got > hops || got < hops*9/10 {
		t.Errorf("got %d packets, %d measured, want %d and nearly as many", m.Packets, got, hops)
	}
}

// TestLongMeasured measures fewer and fewer packets of a long process; they
// represent all others.
func TestLongMeasured(t *testing.T) {
	const rounds = 500_000
	g := &graph{}
	even := g.fn(2, func(_ node.Process, pkt node.Packet) node.Result {
		i, _ := pkt.Payload.AsInt()
		if i == 0 {
			return node.Send(1, pkt.Payload)
		}
		return node.Send(0, value.Int(i-1))
	})
	odd := g.fn(1, pass)
	g.link(even, 0, odd)
	g.link(odd, 0, even)
	gen := g.open(t, run.Options{})
	gen.Instrument(run.Instruments{Metrics: true})
	gen.Send(t.Context(), nil, even, 0, value.Int(rounds))
	m := gen.Metrics().Nodes
	if m[even].Packets != rounds+1 || m[odd].Packets != rounds {
		t.Errorf("got %d and %d packets, want %d and one less", m[even].Packets, m[odd].Packets, rounds+1)
	}
	a, b := total(m[even].Latency), total(m[odd].Latency)
	if sum := a + b; sum < 2*rounds*99/100 || sum > 2*rounds+2 {
		t.Errorf("got %d packets measured, want %d", sum, 2*rounds)
	}
	if a < rounds/2 || b < rounds/2 {
		t.Errorf("got %d and %d measured, want about as many of each node", a, b)
	}
}

// TestLabels labels the goroutine with the node that it runs, and gives the
// caller's goroutine its own labels back.
func TestLabels(t *testing.T) {
	g := &graph{}
	var profile bytes.Buffer
	a := g.fn(1, pass)
	g.link(a, 0, g.fn(0, func(_ node.Process, pkt node.Packet) node.Result {
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
			t.Error(err)
		}
		return node.Answer(pkt.Payload)
	}))
	gen := g.open(t, run.Options{})
	send := func() string {
		profile.Reset()
		pprof.Do(t.Context(), pprof.Labels("caller", "mine"), func(ctx context.Context) {
			gen.Send(ctx, nil, a, 0, value.Int(1))
			if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
				t.Error(err)
			}
		})
		return profile.String()
	}
	const labels, callers = `# labels: {"kind":"test", "namespace":"default", "node":"b"}`, `# labels: {"caller":"mine"}`
	if got := send(); strings.Contains(got, labels) {
		t.Error("got labels before they were set")
	}
	gen.Instrument(run.Instruments{Labels: true})
	if got := send(); !strings.Contains(got, labels) || strings.Count(got, callers) != 1 {
		t.Errorf("got no labels of the node, or none of the caller afterwards:\n%.2000s", got)
	}
	gen.Instrument(run.Instruments{})
	if got := send(); strings.Contains(got, labels) {
		t.Error("got labels after they were taken off")
	}
}

// TestMetricsAllocate nothing where a process is not measured.
func TestMetricsAllocate(t *testing.T) {
	if invariant.Enabled {
		t.Log("not measured: a build with checks allocates more")
		return
	}
	synctest.Test(t, func(t *testing.T) { // whose clock stands still, so that only the first few are measured
		gen := chain(t, 10)
		gen.Instrument(run.Instruments{Metrics: true})
		in := value.String("ping")
		if n := testing.AllocsPerRun(100_000, func() { gen.Send(t.Context(), nil, 0, 0, in) }); n != 0 {
			t.Errorf("got %v allocations, want none", n)
		}
	})
}
