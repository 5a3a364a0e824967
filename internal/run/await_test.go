package run_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A parkingLot is a node that awaits a result for each packet.
type parkingLot struct {
	sync.Mutex
	parked []spot
	came   chan struct{} // gets a signal for each packet
}

// A spot is a packet that waits.
type spot struct {
	payload value.Value
	ctx     context.Context
	done    func(node.Result)
}

func newLot() *parkingLot { return &parkingLot{came: make(chan struct{}, 100_000)} }

func (l *parkingLot) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		l.Lock()
		defer l.Unlock()
		l.parked = append(l.parked, spot{pkt.Payload, ctx, done})
		l.came <- struct{}{}
	})
}

// take waits until n packets are parked, and takes them.
func (l *parkingLot) take(n int) []spot {
	for range n {
		<-l.came
	}
	l.Lock()
	defer l.Unlock()
	taken := l.parked
	l.parked = nil
	return taken
}

// served opens a generation of a trigger that is linked to a node.
func served(t testing.TB, g *graph, next int32, opts run.Options) (src node.Starter, gen *run.Generation) {
	t.Helper()
	trigger := &starter{}
	g.link(g.add(trigger, 1), 0, next)
	gen = g.open(t, opts)
	if err := gen.Serve(); err != nil {
		t.Fatal(err)
	}
	return trigger.src, gen
}

// answers collects the responses of processes.
func answers(n int) (answered func(node.Response), next func() node.Response) {
	c := make(chan node.Response, n)
	return func(r node.Response) { c <- r }, func() node.Response { return <-c }
}

// TestAwait answers before begin has returned, later, and with what a result can do.
func TestAwait(t *testing.T) {
	immediately := func(r node.Result) nodeFunc {
		return func(node.Process, node.Packet) node.Result {
			return node.Await(func(_ context.Context, done func(node.Result)) { done(r) })
		}
	}
	later := func(r node.Result) nodeFunc {
		return func(node.Process, node.Packet) node.Result {
			return node.Await(func(_ context.Context, done func(node.Result)) { go done(r) })
		}
	}
	results := []struct {
		r    node.Result
		want string
	}{
		{node.Answer(value.Int(1)), "1"},
		{node.None(), "None"},
		{node.Fail(errors.New("no")), "error: no"},
		{node.Send(0, value.String("x")), "xb"},
		{node.SendThen(0, value.String("x"), func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) }), "xb"},
		{node.Block(func(context.Context) node.Result { return node.Send(0, value.String("y")) }), "yb"},
		{node.Await(func(_ context.Context, done func(node.Result)) { done(node.Send(0, value.String("z"))) }), "zb"},
	}
	for _, form := range []func(node.Result) nodeFunc{immediately, later} {
		for _, c := range results {
			g := &graph{}
			at := g.fn(1, form(c.r))
			g.link(at, 0, g.fn(1, suffix("b", false)))
			src, gen := served(t, g, at, run.Options{})
			answered, next := answers(1)
			for range 3 {
				wantText(t, gen.Send(t.Context(), nil, at, 0, value.Null()), c.want)
				src.Start(t.Context(), nil, node.Send(0, value.Null()), answered)
				wantText(t, next(), c.want)
				wantText(t, src.Run(t.Context(), node.Spawn([]node.Result{node.Send(0, value.Null())}, 0, func(_ node.Process, resps []node.Response) node.Result {
					return node.Respond(resps[0])
				})), c.want)
			}
		}
	}
	g := &graph{}
	at := g.fn(1, func(node.Process, node.Packet) node.Result { return node.Await(nil) })
	resp := g.open(t, run.Options{}).Send(t.Context(), nil, at, 0, value.Null())
	if got := text(resp); !strings.Contains(got, "node.Await was given a nil function") {
		t.Errorf("got %s", got)
	}
}

// TestAwaitParked parks thousands of processes of all sorts, and holds no goroutine.
func TestAwaitParked(t *testing.T) {
	const n = 3000
	g := &graph{}
	lot := newLot()
	at := g.add(lot, 1)
	src, gen := served(t, g, at, run.Options{})
	before := runtime.NumGoroutine()
	answered, next := answers(3 * n)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range n {
		v := value.Int(int64(i))
		src.Start(ctx, nil, node.Send(0, v), answered)
		src.Start(ctx, nil, node.Spawn([]node.Result{node.Send(0, v)}, 0, func(_ node.Process, resps []node.Response) node.Result {
			return node.Respond(resps[0])
		}), answered)
		src.Start(ctx, nil, node.Fork(node.Send(0, v)), answered)
	}
	for range n {
		wantText(t, next(), "None") // the forks go on
	}
	parked := lot.take(3 * n)
	if got := gen.InFlight(); got != 4*n {
		t.Errorf("got %d processes, want %d", got, 4*n)
	}
	for runtime.NumGoroutine() > before+10 { // those that parked end
		runtime.Gosched()
	}
	waiting := 0
	gen.Waiting(func(w run.Waiting) {
		if len(w.At) == 1 && w.ID != "" && w.Trigger.Name != w.At[0].Name {
			waiting++
		}
	})
	if waiting != 3*n {
		t.Errorf("got %d processes that wait, want %d", waiting, 3*n)
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := w; i < len(parked); i += 4 {
				parked[i].done(node.Answer(parked[i].payload))
			}
		})
	}
	workers.Wait()
	sum := 0
	for range 2 * n {
		resp := next()
		i, _ := resp.Payload.AsInt()
		sum += int(i)
	}
	if want := n * (n - 1); sum != want {
		t.Errorf("the answers sum up to %d, want %d", sum, want)
	}
	cancel()
}

// TestAwaitGate keeps packets at an in-port in order: the next one waits until the result
// of the one before has come. A concurrent node gets as many as it allows.
func TestAwaitGate(t *testing.T) {
	for _, concurrency := range []int{1, 2} {
		g := &graph{}
		lot := newLot()
		root, at := g.fn(1, numbers(4)), g.add(lot, 1)
		g.vertices[at].Concurrency = concurrency
		g.link(root, 0, at)
		src, _ := served(t, g, root, run.Options{})
		answered, next := answers(1)
		src.Start(t.Context(), nil, node.Send(0, value.Null()), answered)
		for i := 0; i < 4; i += concurrency {
			spots := lot.take(concurrency)
			if len(spots) != concurrency {
				t.Fatalf("%d packets came, want %d", len(spots), concurrency)
			}
			for k := range spots { // the last first: responses keep their order
				s := spots[len(spots)-1-k]
				s.done(node.Answer(s.payload))
				if concurrency == 2 && k == 0 && i == 0 {
					more := lot.take(1)
					more[0].done(node.Answer(more[0].payload))
					last := lot.take(1)
					last[0].done(node.Answer(last[0].payload))
					i += 2
				}
			}
		}
		wantText(t, next(), "[0 1 2 3]")
	}
}

// TestAwaitTwice ends an Await twice: that is logged, and another packet that waits by
// the same means keeps waiting.
func TestAwaitTwice(t *testing.T) {
	var log bytes.Buffer
	g := &graph{}
	lot := newLot()
	src, _ := served(t, g, g.add(lot, 1), run.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	answered, next := answers(2)
	src.Start(t.Context(), nil, node.Send(0, value.Null()), answered)
	first := lot.take(1)[0]
	first.done(node.Answer(value.Int(1)))
	wantText(t, next(), "1")
	for range 100 { // one of them on the same process object
		src.Start(t.Context(), nil, node.Send(0, value.Null()), answered)
		second := lot.take(1)[0]
		first.done(node.Answer(value.Int(666)))
		second.done(node.Answer(value.Int(2)))
		wantText(t, next(), "2")
	}
	if got := log.String(); strings.Count(got, "a node ended an Await twice") != 10 || !strings.Contains(got, "code=F7006") {
		t.Errorf("got log %s", got)
	}
}

// TestAwaitPanic ends a process whose begin panics, before or after it has called done.
func TestAwaitPanic(t *testing.T) {
	cases := map[string]func(done func(node.Result)){
		"before": func(func(node.Result)) {},
		"after":  func(done func(node.Result)) { done(node.Answer(value.Int(1))) },
		"beside": func(done func(node.Result)) { go done(node.Answer(value.Int(1))) },
	}
	for name, before := range cases {
		t.Run(name, func(t *testing.T) {
			g := &graph{}
			root := g.fn(1, pass)
			lot := newLot()
			at := g.fn(1, func(node.Process, node.Packet) node.Result {
				return node.Await(func(_ context.Context, done func(node.Result)) {
					before(done)
					panic("boom")
				})
			})
			g.link(root, 0, g.add(lot, 1))
			g.link(root, 0, at)
			src, gen := served(t, g, root, run.Options{})
			answered, next := answers(1)
			for range 100 {
				src.Start(t.Context(), nil, node.Send(0, value.Null()), answered)
				lot.take(1)[0].done(node.None())
				wantText(t, next(), "error: panic: boom")
				boom := node.Await(func(_ context.Context, done func(node.Result)) {
					before(done)
					panic("boom")
				})
				src.Start(t.Context(), nil, boom, answered) // what the trigger returned panics
				wantText(t, next(), "error: panic: boom")
			}
			// A process ends just after its answer, perhaps on the goroutine of done.
			for tick, late := time.Tick(time.Millisecond), time.After(10*time.Second); gen.InFlight() != 0; {
				select {
				case <-tick:
				case <-late:
					t.Fatalf("%d processes in flight", gen.InFlight())
				}
			}
		})
	}
}

// obedient ends its Await when the context ends.
func obedient(_ node.Process, pkt node.Packet) node.Result {
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		context.AfterFunc(ctx, func() { done(node.Answer(pkt.Payload)) })
	})
}

// TestAwaitCancel ends processes that wait when their client leaves, or when another
// branch ends the process; it waits for done.
func TestAwaitCancel(t *testing.T) {
	g := &graph{}
	at := g.fn(1, obedient)
	src, gen := served(t, g, at, run.Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	answered, next := answers(100)
	for range 100 {
		src.Start(ctx, nil, node.Send(0, value.Null()), answered)
	}
	if n := gen.InFlight(); n != 100 {
		t.Errorf("%d processes in flight, want 100", n)
	}
	cancel(errors.New("the client left"))
	for range 100 {
		wantText(t, next(), "error: process cancelled: the client left")
	}

	g = &graph{}
	root := g.fn(1, pass)
	g.link(root, 0, g.fn(1, obedient))
	g.link(root, 0, g.fn(1, func(node.Process, node.Packet) node.Result { panic("boom") }))
	wantText(t, g.open(t, run.Options{}).Send(t.Context(), nil, root, 0, value.Null()), "error: panic: boom")
}

// TestAwaitStop waits for what is parked, then cancels it, then abandons it; done may come
// after all of that.
func TestAwaitStop(t *testing.T) {
	open := func(t *testing.T, n node.Node) (node.Starter, *run.Generation) {
		g := &graph{}
		trigger := &starter{}
		g.link(g.add(trigger, 1), 0, g.add(n, 1))
		gen := run.New(g.program(), run.Options{})
		if err := errors.Join(gen.Open(t.Context()), gen.Serve()); err != nil {
			t.Fatal(err)
		}
		return trigger.src, gen
	}
	t.Run("waits", func(t *testing.T) {
		lot := newLot()
		src, gen := open(t, lot)
		var answered atomic.Int32
		for range 1000 {
			src.Start(t.Context(), nil, node.Send(0, value.Null()), func(node.Response) { answered.Add(1) })
		}
		var stopping sync.WaitGroup
		stopping.Go(func() {
			for _, s := range lot.take(1000) {
				s.done(node.None())
			}
		})
		if err := gen.Stop(t.Context()); err != nil || answered.Load() != 1000 {
			t.Errorf("got %v, and %d answers before it", err, answered.Load())
		}
		stopping.Wait()
		refused := false
		src.Start(t.Context(), nil, node.Send(0, value.Null()), func(r node.Response) {
			refused = errors.Is(r.Payload.AsError(), node.ErrStopped)
		})
		if !refused {
			t.Error("a process has started after the stop")
		}
		if err := gen.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	t.Run("cancels", func(t *testing.T) {
		src, gen := open(t, nodeFunc(obedient))
		answered, next := answers(100)
		for range 100 {
			src.Start(context.Background(), nil, node.Send(0, value.Null()), answered)
		}
		if err := errors.Join(gen.Stop(over), gen.Close(t.Context())); err != nil {
			t.Error(err)
		}
		for range 100 {
			wantText(t, next(), "error: the grace of the shutdown is over")
		}
	})
	t.Run("abandons", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			lot := newLot()
			src, gen := open(t, lot)
			answered, next := answers(1)
			src.Start(context.Background(), nil, node.Send(0, value.Null()), answered)
			if err := gen.Stop(over); !errors.Is(err, run.ErrAbandoned) {
				t.Errorf("got %v, want ErrAbandoned", err)
			}
			if err := gen.Close(t.Context()); err != nil {
				t.Error(err)
			}
			lot.take(1)[0].done(node.Answer(value.Int(1)))
			wantText(t, next(), "error: the grace of the shutdown is over")
		})
	})
}

// TestStartHoldsNothing runs neither blocking work nor deferred functions on the goroutine
// that starts a process, nor on that which ends an Await.
func TestStartHoldsNothing(t *testing.T) {
	g := &graph{}
	returned := make(chan struct{})
	waits := func(ctx context.Context) node.Result {
		<-returned
		return node.None()
	}
	blocks := g.fn(1, func(p node.Process, pkt node.Packet) node.Result {
		switch s, _ := pkt.Payload.AsString(); s {
		case "defer":
			p.Defer(func() { <-returned })
			return node.None()
		default:
			return node.Block(waits)
		}
	})
	lot := newLot()
	at := g.add(lot, 1)
	g.link(at, 0, blocks)
	src, _ := served(t, g, at, run.Options{})
	answered, next := answers(6)
	for _, what := range []string{"block", "defer"} {
		src.Start(t.Context(), nil, node.Send(0, value.String(what)), answered)
		lot.take(1)[0].done(node.Send(0, value.String(what)))
	}
	src.Start(t.Context(), nil, node.Block(waits), answered)
	src.Start(t.Context(), nil, node.Spawn([]node.Result{node.Block(waits)}, 0, func(node.Process, []node.Response) node.Result { return node.None() }), answered)
	close(returned)
	for range 4 {
		next()
	}
}

// TestStartPanic logs a panic of the function that gets the answer.
func TestStartPanic(t *testing.T) {
	var log bytes.Buffer
	g := &graph{}
	src, gen := served(t, g, g.fn(1, pass), run.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	src.Start(t.Context(), nil, node.Send(0, value.Null()), func(node.Response) { panic("boom") })
	if !strings.Contains(log.String(), "boom") || gen.InFlight() != 0 {
		t.Errorf("got log %s, %d in flight", log.String(), gen.InFlight())
	}
}

// TestAwaitClock lets time pass while a process is parked, and stand still while it runs.
func TestAwaitClock(t *testing.T) {
	c, opts := timed(t)
	g := &graph{}
	sleeps := g.fn(1, sleeper)
	at := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		return node.Await(func(_ context.Context, done func(node.Result)) {
			c.AfterFunc(2*time.Hour, func(context.Context) { done(node.Send(0, pkt.Payload)) })
		})
	})
	g.link(at, 0, sleeps)
	src, gen := served(t, g, at, opts)
	answered, next := answers(1)
	src.Start(t.Context(), nil, node.Send(0, value.Int(3)), answered)
	wantText(t, next(), "3")
	wantTime(t, c, 5*time.Hour)
	wantText(t, gen.Send(t.Context(), nil, at, 0, value.Int(1)), "1")
	wantTime(t, c, 8*time.Hour)

	g = &graph{}
	lot := newLot()
	at = g.add(lot, 1)
	g.link(at, 0, g.fn(1, sleeper))
	src, _ = served(t, g, at, opts)
	src.Start(t.Context(), nil, node.Send(0, value.Null()), answered)
	spots := lot.take(1)
	c.Begin()
	if err := c.Sleep(t.Context(), time.Hour); err != nil { // the process is parked
		t.Error(err)
	}
	c.End()
	wantTime(t, c, 9*time.Hour)
	spots[0].done(node.Send(0, value.Int(4))) // from outside of the clock
	wantText(t, next(), "4")
	wantTime(t, c, 13*time.Hour)
}

// TestAwaitObserved shows an Await to observers and in timelines, where it is waiting.
func TestAwaitObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &graph{}
		lot := newLot()
		at := g.add(lot, 1)
		g.link(at, 0, g.fn(1, suffix("!", false)))
		src, gen := served(t, g, at, run.Options{})
		var log []string
		var timeline *observe.Timeline
		gen.Instrument(run.Instruments{
			Observers: []*observe.Observer{{
				Received: func(p observe.Packet) { log = append(log, p.Node.String()+" got") },
				Sent:     func(p observe.Packet) { log = append(log, fmt.Sprintf("%s sent %d", p.Node, p.Port)) },
				Answered: func(a observe.Answer) { log = append(log, fmt.Sprintf("%s answered %s", a.Node, text(a.Response))) },
			}},
			Recorders: []observe.Recorder{{Ended: func(tl *observe.Timeline) { timeline = tl }}},
			Metrics:   true,
			Labels:    true,
		})
		answered, next := answers(1)
		src.Start(t.Context(), nil, node.Send(0, value.String("x")), answered)
		spots := lot.take(1)
		<-time.After(time.Minute)
		spots[0].done(node.Send(0, value.String("y")))
		wantText(t, next(), "y!")
		want := "c sent 0; a got; a sent 0; b got; b sent 0; b answered y!; a answered y!; c answered y!"
		if got := strings.Join(log, "; "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if len(timeline.Spans) != 2 {
			t.Fatalf("got %d spans", len(timeline.Spans))
		}
		if s := timeline.Spans[0]; s.Wait != time.Minute || s.Run != 0 || s.Error != "" {
			t.Errorf("got %+v, want a minute of waiting", s)
		}
	})
}

// TestSleepMeasured counts the time that a node sleeps as its own, in timelines and metrics.
func TestSleepMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &graph{}
		at := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			return node.Sleep(time.Minute, func(node.Process, node.Response) node.Result { return node.Send(0, pkt.Payload) })
		})
		g.link(at, 0, g.fn(1, suffix("!", false)))
		src, gen := served(t, g, at, run.Options{})
		var timeline *observe.Timeline
		gen.Instrument(run.Instruments{
			Recorders: []observe.Recorder{{Ended: func(tl *observe.Timeline) { timeline = tl }}},
			Metrics:   true,
		})
		answered, next := answers(1)
		src.Start(t.Context(), nil, node.Send(0, value.String("x")), answered)
		wantText(t, next(), "x!")
		if s := timeline.Spans[0]; s.Wait != time.Minute || s.Run != 0 || s.Error != "" {
			t.Errorf("got %+v, want a minute of waiting", s)
		}
		if own := gen.Metrics().Nodes[at].Latency.Sum; own != time.Minute {
			t.Errorf("the metrics have %v, want a minute", own)
		}
	})
}

// TestAwaitHammer ends awaited results from several goroutines while packets of the same
// processes go on, and generations are stopped.
func TestAwaitHammer(t *testing.T) {
	for range 20 {
		g := &graph{}
		results := make(chan func(node.Result), 1000)
		awaits := func(node.Process, node.Packet) node.Result {
			return node.Await(func(ctx context.Context, done func(node.Result)) { results <- done })
		}
		root := g.fn(1, numbers(5))
		first, second := g.fn(1, awaits), g.fn(1, awaits)
		g.vertices[second].Concurrency = 3
		g.link(root, 0, first)
		g.link(root, 0, second)
		g.link(first, 0, second)
		g.link(second, 0, g.fn(1, suffix("s", true)))
		trigger := &starter{}
		g.link(g.add(trigger, 1), 0, root)
		gen := run.New(&compile.Program{Vertices: g.vertices, Order: g.program().Order}, run.Options{})
		if err := errors.Join(gen.Open(t.Context()), gen.Serve()); err != nil {
			t.Fatal(err)
		}
		var workers, senders sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				for done := range results {
					done(node.Send(0, value.String("r")))
				}
			})
		}
		var ended atomic.Int32
		for range 2 {
			senders.Go(func() {
				for range 50 {
					trigger.src.Start(t.Context(), nil, node.Send(0, value.Null()), func(node.Response) { ended.Add(1) })
				}
			})
		}
		senders.Wait()
		if err := errors.Join(gen.Stop(t.Context()), gen.Close(t.Context())); err != nil {
			t.Error(err)
		}
		close(results)
		workers.Wait()
		if got := ended.Load(); got != 100 {
			t.Errorf("got %d answers, want 100", got)
		}
	}
}

// TestAwaitAllocations is the budget of a process that waits once (S7): one allocation is
// the node's, one the engine's.
func TestAwaitAllocations(t *testing.T) {
	if invariant.Enabled {
		return // the checks allocate
	}
	var pending func(node.Result)
	start := awaiting(t, func(done func(node.Result)) { pending = done })
	answered := func(node.Response) {}
	if n := testing.AllocsPerRun(100, func() {
		start(value.Int(1), answered)
		pending(node.Answer(value.Int(2)))
	}); n > 2 {
		t.Errorf("got %v allocations a process, want 2", n)
	}
}

// TestParkedMemory is the budget of processes that wait: 1,400 bytes each, without their
// payloads.
func TestParkedMemory(t *testing.T) {
	if invariant.Enabled {
		return
	}
	const n = 20_000
	pending := make([]func(node.Result), 0, n)
	start := awaiting(t, func(done func(node.Result)) { pending = append(pending, done) })
	answered := func(node.Response) {}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		start(value.Int(1), answered)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n; each > 1400 {
		t.Errorf("got %d bytes a process, want at most 1400", each)
	}
	for _, done := range pending {
		done(node.None())
	}
}

// A taker takes parts of an answer.
type taker struct{}

func (taker) Part(context.Context, value.Value) error { return nil }

// TestPartsOf finds what takes an answer in pieces in the process and in its children, but
// not in forks, which outlive the client.
func TestPartsOf(t *testing.T) {
	g := &graph{}
	forked := make(chan bool, 1)
	found := func(p node.Process) bool {
		_, ok := node.PartsOf(p.Context())
		return ok
	}
	leaf := g.fn(0, func(p node.Process, pkt node.Packet) node.Result {
		if pkt.Payload.IsNull() {
			forked <- found(p)
		}
		return node.Answer(value.Bool(found(p)))
	})
	root := g.fn(1, func(p node.Process, pkt node.Packet) node.Result {
		return node.After(node.Fork(node.Send(0, value.Null())), func(p node.Process, _ node.Response) node.Result {
			return node.Spawn([]node.Result{node.Send(0, value.Int(1)), node.Block(func(ctx context.Context) node.Result {
				_, ok := node.PartsOf(ctx)
				return node.Answer(value.Bool(ok))
			})}, 0, func(p node.Process, resps []node.Response) node.Result {
				return node.Answer(value.List(value.Bool(found(p)), resps[0].Payload, resps[1].Payload))
			})
		})
	})
	g.link(root, 0, leaf)
	gen := g.open(t, run.Options{})
	resp := gen.Send(node.WithParts(t.Context(), taker{}), nil, root, 0, value.Null())
	if got := resp.Payload.String(); got != "[true,true,true]" {
		t.Errorf("got %s", got)
	}
	if <-forked {
		t.Error("a fork finds what takes the parts")
	}
}

// TestAwaitContextAfterDone uses the context of processes that have ended.
func TestAwaitContextAfterDone(t *testing.T) {
	lot := newLot()
	g := &graph{}
	src, gen := served(t, g, g.add(lot, 1), run.Options{})
	var watchers sync.WaitGroup
	var ended []context.Context
	use := func(ctx context.Context) {
		_, _ = ctx.Deadline()
		_, _, _ = ctx.Err(), context.Cause(ctx), ctx.Value("key")
		context.AfterFunc(ctx, func() {})()
	}
	for range 500 {
		answered, next := answers(1)
		src.Start(t.Context(), nil, node.Send(0, value.Null()), answered)
		s := lot.take(1)[0]
		watchers.Add(1)
		context.AfterFunc(s.ctx, func() { // when the process ends
			defer watchers.Done()
			use(s.ctx)
		})
		s.done(node.None())
		next()
		use(s.ctx)
		ended = append(ended, s.ctx)
	}
	watchers.Wait()
	if err := gen.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, ctx := range ended {
		use(ctx)
		select {
		case <-ctx.Done():
		default:
			t.Fatal("the context of a process that has ended is not done")
		}
		if ctx.Err() == nil {
			t.Fatal("it has no error")
		}
	}
}
