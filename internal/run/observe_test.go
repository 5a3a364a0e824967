package run_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// TestObserve reports all that a process does, through every kind of result, and
// nothing once the observer is stopped.
func TestObserve(t *testing.T) {
	g := &graph{}
	a := g.fn(2, func(_ node.Process, pkt node.Packet) node.Result {
		return node.SendThen(0, pkt.Payload, func(_ node.Process, resp node.Response) node.Result {
			return node.Block(func(context.Context) node.Result { return node.Send(1, resp.Payload) })
		})
	})
	b := g.fn(1, suffix("b", false))
	c := g.fn(1, fail("c failed"))
	d := g.fn(1, func(node.Process, node.Packet) node.Result { return node.None() })
	g.link(a, 0, b)
	g.link(a, 1, c)
	g.linkErr(c, d)
	gen := g.open(t, run.Options{})

	var mu sync.Mutex
	var log []string
	note := func(verb string) func(observe.Packet) {
		return func(p observe.Packet) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, fmt.Sprintf("%s %s %d %s", p.Node, verb, p.Port, text(node.Response{Payload: p.Payload})))
		}
	}
	gen.Instrument(run.Instruments{Observers: []*observe.Observer{{
		Received: note("got"),
		Sent:     note("sent"),
		Answered: func(a observe.Answer) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, fmt.Sprintf("%s answered %s", a.Node, text(a.Response)))
		},
	}}})
	wantText(t, gen.Send(t.Context(), nil, a, 0, value.String("x")), "None")
	want := "a got 0 x; a sent 0 x; b got 0 x; b sent 0 xb; b answered xb; a sent 1 xb; c got 0 xb; " +
		"c sent -1 error: c failed; d got 0 error: c failed; d answered None; c answered None; a answered None"
	if got := strings.Join(log, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	gen.Instrument(run.Instruments{})
	log = nil
	wantText(t, gen.Send(t.Context(), nil, a, 0, value.String("x")), "None")
	if len(log) > 0 {
		t.Errorf("got %v after stop", log)
	}
}

// BenchmarkObserver is a chain of ten without an observer, and with an
// observer that does nothing (P12 compares the first with BenchmarkParallel's
// program, which is the same).
func BenchmarkObserver(b *testing.B) {
	for _, observed := range []bool{false, true} {
		b.Run(fmt.Sprintf("observed=%v", observed), func(b *testing.B) {
			gen := chain(b, 10)
			if observed {
				gen.Instrument(run.Instruments{Observers: []*observe.Observer{{Received: func(observe.Packet) {}, Sent: func(observe.Packet) {}}}})
			}
			in := value.String("ping")
			b.ReportAllocs()
			for b.Loop() {
				gen.Send(b.Context(), nil, 0, 0, in)
			}
		})
	}
}

// TestObserveTrigger reports what a trigger begins a process with, and the answer;
// nothing about nodes that the observer does not want.
func TestObserveTrigger(t *testing.T) {
	g := &graph{}
	trigger := &starter{}
	a := g.add(trigger, 1)
	b := g.fn(1, suffix("b", false))
	g.link(a, 0, b)
	gen := g.open(t, run.Options{})
	if err := gen.Serve(); err != nil {
		t.Fatal(err)
	}
	var log []string
	gen.Instrument(run.Instruments{Observers: []*observe.Observer{{
		Filter:   func(ref node.Ref) bool { return ref.Name == "a" },
		Received: func(p observe.Packet) { log = append(log, p.Node.String()+" got") },
		Sent:     func(p observe.Packet) { log = append(log, fmt.Sprintf("%s sent %d", p.Node, p.Port)) },
		Answered: func(a observe.Answer) {
			log = append(log, fmt.Sprintf("%s answered %d %s", a.Node, a.Port, text(a.Response)))
		},
	}}})
	call := node.NewCall(func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) })
	wantText(t, trigger.src.Run(t.Context(), call.Send(0, value.String("x"))), "xb")
	if got, want := strings.Join(log, "; "), "a sent 0; a answered -2 xb"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A starter is a trigger that keeps its source.
type starter struct{ src node.Starter }

func (*starter) Receive(node.Process, node.Packet) node.Result { return node.None() }
func (s *starter) Serve(src node.Starter) error                { s.src = src; return nil }
