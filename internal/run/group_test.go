package run_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A batch is a node.Group of integers. It notes how each of its processes has ended.
type batch struct {
	payloads []int64
	stops    bool // at the first process that goes on by itself

	mu       sync.Mutex
	started  int
	alone    map[int]bool
	ends     map[int64]string
	open     int
	finished chan struct{}
}

func newBatch(payloads []int64, stops bool) *batch {
	return &batch{payloads: payloads, stops: stops, alone: make(map[int]bool), ends: make(map[int64]string), open: 1, finished: make(chan struct{})}
}

func (b *batch) Len() int { return len(b.payloads) }

func (b *batch) Payload(i int) value.Value {
	b.started = i + 1
	return value.Int(b.payloads[i])
}

func (b *batch) Leaves(i int) (done func(node.Response), more bool) { return b.Fails(i), !b.stops }

func (b *batch) Fails(i int) (done func(node.Response)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.alone[i] = true
	b.open++
	return func(r node.Response) { b.end(r, i) }
}

func (b *batch) Done(r node.Response) {
	var rest []int
	if b.started == 0 { // refused
		b.started = len(b.payloads)
	}
	for i := range b.started {
		if !b.alone[i] {
			rest = append(rest, i)
		}
	}
	b.end(r, rest...)
}

func (b *batch) end(r node.Response, processes ...int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range processes {
		b.ends[b.payloads[i]] += ended(r)
	}
	if b.open--; b.open == 0 {
		close(b.finished)
	}
}

func ended(r node.Response) string {
	if r.IsError() {
		return text(r)
	}
	return "well"
}

// A pool is a sink that takes packets together. It answers later, from another goroutine, and
// notes what it has got. If it is binding, it gets them when their process has ended.
type pool struct {
	binding bool

	mu    sync.Mutex
	got   map[int64]int
	order []int64 // in which a binding one got them
	sizes []int
	work  sync.WaitGroup
}

// fails reports whether a packet fails, and refuses whether it is not taken with others.
func (*pool) fails(n int64) error {
	if n%13 == 5 {
		return fmt.Errorf("the sink refuses %d", n%13)
	}
	return nil
}

func (*pool) refuses(payload value.Value) bool { n, ok := payload.AsInt(); return !ok || n%11 == 3 }

func (s *pool) Receive(p node.Process, pkt node.Packet) node.Result {
	if s.binding {
		n, _ := pkt.Payload.AsInt()
		if err := s.fails(n); err != nil {
			return node.Fail(err)
		}
		return s.bind(p, n)
	}
	return node.Queue(func(_ context.Context, done func(node.Result)) {
		n, _ := pkt.Payload.AsInt()
		s.later(func() {
			if err := s.fails(n); err != nil {
				done(node.Fail(err))
				return
			}
			done(node.None())
		}, n)
	})
}

func (s *pool) bind(p node.Process, got ...int64) node.Result {
	p.Enlist(node.PhaseSend, func(context.Context, error) (kept bool, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, n := range got {
			s.got[n]++
			s.order = append(s.order, n)
		}
		return true, nil
	})
	return node.None()
}

func (s *pool) later(f func(), got ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range got {
		s.got[n]++
	}
	s.work.Go(f)
}

func (s *pool) Gathers() (ok, queues bool) { return true, true }

func (s *pool) Gather(p node.Process, payload value.Value) node.Gathering {
	g := &pooled{pool: s}
	if !g.Add(p, payload) {
		return nil
	}
	return g
}

type pooled struct {
	*pool
	packets []int64
}

func (g *pooled) Add(_ node.Process, payload value.Value) bool {
	n, _ := payload.AsInt()
	if g.refuses(payload) || g.binding && g.fails(n) != nil {
		return false
	}
	g.packets = append(g.packets, n)
	return true
}

func (g *pooled) Send(p node.Process, failed func(int, error)) node.Result {
	g.mu.Lock()
	g.sizes = append(g.sizes, len(g.packets))
	g.mu.Unlock()
	if g.binding {
		return g.bind(p, g.packets...)
	}
	return node.Queue(func(_ context.Context, done func(node.Result)) {
		g.later(func() {
			for i, n := range g.packets {
				if err := g.fails(n); err != nil {
					failed(i, err)
				}
			}
			done(node.None())
		}, g.packets...)
	})
}

// moods is what a node may do about a packet.
var moods = []nodeFunc{
	pass, pass, pass, pass, pass,
	func(node.Process, node.Packet) node.Result { return node.None() },
	answer(value.String("a")),
	fail("failed"),
	func(node.Process, node.Packet) node.Result { panic("panicked") },
	func(p node.Process, pkt node.Packet) node.Result {
		p.Store("key", true)
		return pass(p, pkt)
	},
	func(p node.Process, pkt node.Packet) node.Result {
		if _, ok := p.Load("key"); ok {
			return node.Answer(value.Error(errors.New("the state of another process")))
		}
		p.Defer(func() {})
		return pass(p, pkt)
	},
	func(_ node.Process, pkt node.Packet) node.Result { return node.Send(1, pkt.Payload) }, // two links
	func(_ node.Process, pkt node.Packet) node.Result { return node.Send(2, pkt.Payload) }, // none
	func(_ node.Process, pkt node.Packet) node.Result { return node.Send(9, pkt.Payload) }, // no such port
	func(_ node.Process, pkt node.Packet) node.Result { return node.Send(3, pkt.Payload) }, // another sink
	func(_ node.Process, pkt node.Packet) node.Result {
		return node.Sleep(time.Microsecond, func(node.Process, node.Response) node.Result { return node.Send(0, pkt.Payload) })
	},
	func(_ node.Process, pkt node.Packet) node.Result {
		return node.Block(func(context.Context) node.Result { return node.Send(0, pkt.Payload) })
	},
	func(p node.Process, pkt node.Packet) node.Result { p.Context().Done(); return pass(p, pkt) },
	func(p node.Process, pkt node.Packet) node.Result { p.ID(); return pass(p, pkt) },
}

// grouped is a program of a trigger, a node of all moods and two sinks.
func grouped(t testing.TB, handled, binding bool) (src node.GroupStarter, gen *run.Generation, sinks []*pool) {
	g := &graph{}
	mood := g.fn(4, func(p node.Process, pkt node.Packet) node.Result {
		n, _ := pkt.Payload.AsInt()
		return moods[int(n/1000)%len(moods)](p, pkt)
	})
	for range 2 {
		sinks = append(sinks, &pool{binding: binding, got: make(map[int64]int)})
	}
	sink := g.add(sinks[0], 1)
	between := g.fn(1, pass)
	g.link(mood, 0, between)
	g.link(between, 0, sink)
	g.link(mood, 1, sink)
	g.link(mood, 1, g.fn(1, pass))
	g.link(mood, 3, g.add(sinks[1], 1))
	if handled {
		g.linkErr(sink, g.fn(1, answer(value.String("handled"))))
	}
	started, gen := served(t, g, mood, run.Options{})
	return started.(node.GroupStarter), gen, sinks
}

// isSink is for programs of grouped.
func isSink(ref node.Ref) bool { return ref.Name == "b" || ref.Name == "e" }

// TestGroup starts processes together, and one by one: each ends in the same way, each packet
// comes to a sink as often, and as many processes are counted.
func TestGroup(t *testing.T) {
	gathered, alone, stopped := 0, 0, 0
	for round := range 60 {
		handled, stops, watched, binding := round%2 == 0, round%3 == 0, round%5, round%7 > 3
		payloads := make([]int64, 200)
		for i := range payloads {
			mood := rand.IntN(len(moods))
			if round%4 != 0 && rand.IntN(4) > 0 {
				mood = 0
			}
			payloads[i] = int64(i) + 1000*int64(mood)
		}
		type outcome struct {
			Ends    map[int64]string
			Got     []map[int64]int
			Started uint64
			Ended   [len(observe.Metrics{}.Ended)]uint64
			Packets []uint64
			Errors  []uint64
			Seen    int64 // by an observer of the sinks
		}
		var outcomes []outcome
		for _, together := range []bool{true, false} {
			src, gen, sinks := grouped(t, handled, binding)
			var seen atomic.Int64
			in := run.Instruments{Metrics: watched > 0}
			if watched > 2 {
				in.Observers = []*observe.Observer{{Filter: isSink, Received: func(observe.Packet) { seen.Add(1) }}}
			}
			gen.Instrument(in)
			if ok, queues := src.Gathers(); !ok || !queues {
				t.Fatalf("got %v, %v", ok, queues)
			}
			o := outcome{Ends: make(map[int64]string)}
			for left := payloads; len(left) > 0; {
				n := min(len(left), 1+rand.IntN(40))
				b := newBatch(left[:n], stops)
				if together {
					src.StartGroup(t.Context(), b)
				} else {
					for i := range n {
						src.Start(t.Context(), nil, node.Send(0, b.Payload(i)), b.Fails(i))
					}
					b.Done(node.Response{None: true})
				}
				<-b.finished
				for _, s := range sinks { // one that leaves comes after those before it
					if stops && together && !slices.IsSortedFunc(s.order, func(a, b int64) int { return cmp.Compare(a%1000, b%1000) }) {
						t.Errorf("a binding sink got %v", s.order)
					}
					s.order = nil
				}
				for payload, end := range b.ends {
					o.Ends[payload] += end
				}
				if left = left[b.started:]; b.started < n {
					stopped++
				}
				if together {
					alone += len(b.alone)
				}
			}
			for gen.InFlight() > 0 { // a process counts until a moment after it was answered
				runtime.Gosched()
			}
			m := gen.Metrics()
			o.Started, o.Ended, o.Seen = m.Started, m.Ended, seen.Load()
			for _, n := range m.Nodes {
				o.Packets, o.Errors = append(o.Packets, n.Packets), append(o.Errors, n.Errors)
			}
			for _, s := range sinks {
				s.work.Wait()
				o.Got = append(o.Got, s.got)
				for _, n := range s.sizes {
					gathered += n
				}
			}
			if (o.Seen > 0) != (in.Observers != nil) {
				t.Errorf("%d packets were observed", o.Seen)
			}
			outcomes = append(outcomes, o)
		}
		if !reflect.DeepEqual(outcomes[0], outcomes[1]) {
			t.Fatalf("round %d: together\n%v\none by one\n%v", round, outcomes[0], outcomes[1])
		}
	}
	if t.Logf("%d gathered, %d alone, %d groups stopped", gathered, alone, stopped); gathered < 1000 || alone < 1000 || stopped < 100 {
		t.Error("too few")
	}
}

// TestGroupStop stops a generation with a group that waits, and refuses one after that.
func TestGroupStop(t *testing.T) {
	g := &graph{}
	lot := &lotOf{newLot()}
	trigger := &starter{}
	g.link(g.add(trigger, 1), 0, g.add(lot, 1))
	gen := run.New(g.program(), run.Options{})
	if err := errors.Join(gen.Open(t.Context()), gen.Serve()); err != nil {
		t.Fatal(err)
	}
	src := trigger.src.(node.GroupStarter)
	waits, refused := newBatch([]int64{1, 2, 3}, false), newBatch([]int64{4, 5}, false)
	src.StartGroup(t.Context(), waits)
	over, cancel := context.WithCancel(t.Context())
	var stopping sync.WaitGroup
	stopping.Go(func() {
		s := lot.take(1)[0]
		cancel()
		<-s.ctx.Done()
		s.done(node.None())
	})
	if err := errors.Join(gen.Stop(over), gen.Close(t.Context())); err != nil {
		t.Error(err)
	}
	stopping.Wait()
	<-waits.finished
	src.StartGroup(t.Context(), refused)
	<-refused.finished
	for b, want := range map[*batch]string{waits: "error: the grace of the shutdown is over", refused: "error: " + node.ErrStopped.Error()} {
		for _, n := range b.payloads {
			if b.ends[n] != want {
				t.Errorf("%d: got %q, want %q", n, b.ends[n], want)
			}
		}
	}
	if m := gen.Metrics(); m.InFlight != 0 || m.Started != 3 || m.Ended[observe.Cancelled] != 3 {
		t.Errorf("got %+v", m)
	}
}

// A lotOf takes packets together, which wait in a parkingLot.
type lotOf struct{ *parkingLot }

func (l *lotOf) Gathers() (ok, queues bool)                      { return true, true }
func (l *lotOf) Gather(node.Process, value.Value) node.Gathering { return l }
func (l *lotOf) Add(node.Process, value.Value) bool              { return true }
func (l *lotOf) Send(node.Process, func(int, error)) node.Result {
	return l.Receive(nil, node.Packet{})
}

// A failing sink takes packets together and fails at the end of their process.
type failing struct{}

func (failing) Receive(node.Process, node.Packet) node.Result { panic("it takes all together") }

func (failing) Gathers() (ok, queues bool)                        { return true, true }
func (f failing) Gather(node.Process, value.Value) node.Gathering { return f }
func (failing) Add(node.Process, value.Value) bool                { return true }
func (failing) Send(p node.Process, _ func(int, error)) node.Result {
	p.Enlist(node.PhaseSend, func(context.Context, error) (bool, error) { return false, errors.New("no room") })
	return node.None()
}

// TestGroupEndFails fails all packets that were taken together, and no other process.
func TestGroupEndFails(t *testing.T) {
	g := &graph{}
	moods := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		if n, _ := pkt.Payload.AsInt(); n == 2 {
			return node.Sleep(time.Microsecond, func(node.Process, node.Response) node.Result { return node.None() })
		}
		return node.Send(0, pkt.Payload)
	})
	g.link(moods, 0, g.add(failing{}, 1))
	src, gen := served(t, g, moods, run.Options{})
	b := newBatch([]int64{1, 2, 3}, false)
	src.(node.GroupStarter).StartGroup(t.Context(), b)
	<-b.finished
	want := map[int64]string{1: "error: no room", 2: "well", 3: "error: no room"}
	if !maps.Equal(b.ends, want) {
		t.Errorf("got %v, want %v", b.ends, want)
	}
	for gen.InFlight() > 0 {
		runtime.Gosched()
	}
	if m := gen.Metrics(); m.Started != 3 || m.Ended[observe.Failed] != 2 {
		t.Errorf("got %+v", m)
	}
}

// An endless group is one that can be started again and again.
type endless struct {
	n       int
	payload value.Value
	done    atomic.Int64
}

func (g *endless) Len() int                               { return g.n }
func (g *endless) Payload(int) value.Value                { return g.payload }
func (g *endless) Leaves(int) (func(node.Response), bool) { panic("a process has left") }
func (g *endless) Fails(int) func(node.Response)          { panic("a process has failed") }
func (g *endless) Done(node.Response)                     { g.done.Add(1) }

// TestGroupAllocations is the budget of a group: its wait allocates, and its processes nothing.
func TestGroupAllocations(t *testing.T) {
	if invariant.Enabled {
		return // the checks allocate
	}
	g := &graph{}
	src, _ := served(t, g, g.fn(1, pass), run.Options{})
	group := &endless{n: 30, payload: value.Int(1)}
	if n := testing.AllocsPerRun(100, func() { src.(node.GroupStarter).StartGroup(t.Context(), group) }); n > 0 {
		t.Errorf("got %v allocations a group, want 0", n)
	}
}
