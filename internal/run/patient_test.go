package run_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// TestHeldDeadline holds processes that have ten seconds at their node "b", and lets them go on: what they are
// held for is not of these seconds.
func TestHeldDeadline(t *testing.T) {
	errLate := errors.New("nothing takes ten seconds")
	sleep := func(d time.Duration) nodeFunc {
		return func(_ node.Process, pkt node.Packet) node.Result {
			return node.Sleep(d, func(node.Process, node.Response) node.Result { return node.Send(0, pkt.Payload) })
		}
	}
	block := func(d time.Duration) nodeFunc {
		return func(_ node.Process, pkt node.Packet) node.Result {
			return node.Block(func(ctx context.Context) node.Result {
				select {
				case <-time.After(d):
					return node.Answer(pkt.Payload)
				case <-ctx.Done():
					return node.Answer(value.Error(fmt.Errorf("%w because of: %w", ctx.Err(), context.Cause(ctx))))
				}
			})
		}
	}
	both := func(_ node.Process, pkt node.Packet) node.Result {
		return node.SendAll([]node.Out{{Port: 0, Payload: pkt.Payload}, {Port: 1, Payload: pkt.Payload}}, func(_ node.Process, resps []node.Response) node.Result {
			return node.Respond(node.Join(resps))
		})
	}
	child := func(_ node.Process, pkt node.Packet) node.Result {
		return node.Spawn([]node.Result{node.Send(0, pkt.Payload)}, 0, func(_ node.Process, resps []node.Response) node.Result { return node.Respond(resps[0]) })
	}
	const s = time.Second
	for _, c := range []struct {
		name       string
		first      nodeFunc      // before b, and in parallel with c
		b, c       nodeFunc      // b is held before it has the packet
		held       time.Duration // each time
		gone       time.Duration // when the client leaves; 0 for never
		answer     string
		code       diag.Code
		took       time.Duration
		everyPoint bool
	}{
		{name: "past its deadline", first: sleep(9 * s), held: 60 * s, answer: "1", took: 69 * s},
		{name: "to its deadline", first: sleep(9 * s), held: s, answer: "1", took: 10 * s},
		{name: "with time that is left", first: sleep(5 * s), b: block(4 * s), held: 60 * s, answer: "1", took: 69 * s},
		{name: "then late", first: sleep(5 * s), b: block(6 * s), held: 60 * s, answer: errLate.Error(), code: diag.CodeTimeout, took: 70 * s},
		{name: "then late, before the first deadline", b: sleep(20 * s), held: 2 * s, answer: errLate.Error(), code: diag.CodeTimeout, took: 12 * s},
		{name: "not held", first: sleep(20 * s), answer: errLate.Error(), code: diag.CodeTimeout, took: 10 * s},
		{name: "twice", first: sleep(9 * s), held: 60 * s, everyPoint: true, answer: "1", took: 129 * s},
		{name: "with parallel work that began before", first: both, c: block(9 * s), held: 60 * s, answer: "[1,1]", took: 60 * s},
		{name: "with parallel work that is late", first: both, c: block(90 * s), held: 60 * s, answer: errLate.Error(), code: diag.CodeTimeout, took: 70 * s},
		{name: "in a child", first: child, b: block(9 * s), held: 60 * s, answer: "1", took: 69 * s},
		{name: "in a child, then late", first: child, b: block(11 * s), held: 60 * s, answer: errLate.Error(), code: diag.CodeTimeout, took: 70 * s},
		{name: "the client leaves", first: sleep(s), held: 60 * s, gone: 5 * s, answer: context.Canceled.Error(), code: diag.CodeCancelled, took: 5 * s},
		{name: "the client leaves afterwards", first: sleep(s), b: sleep(5 * s), held: 3 * s, gone: 6 * s, answer: context.Canceled.Error(), code: diag.CodeCancelled, took: 6 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pass := func(_ node.Process, pkt node.Packet) node.Result { return node.Send(0, pkt.Payload) }
				or := func(f nodeFunc) nodeFunc {
					if f == nil {
						return pass
					}
					return f
				}
				g := &graph{}
				a := g.fn(2, or(c.first))
				b, other := g.fn(1, or(c.b)), g.fn(1, or(c.c))
				g.link(a, 0, b)
				g.link(a, 1, other)
				gen := g.open(t, run.Options{})
				points := observe.PointIn
				if c.everyPoint {
					points |= observe.PointAnswer
				}
				gen.Instrument(run.Instruments{
					Recorders: []observe.Recorder{{Traces: true, Ended: func(*observe.Timeline) {}}},
					Debugger: &observe.Debugger{
						At: func(ref node.Ref) observe.Points {
							if ref.Name == "b" && c.held > 0 {
								return points
							}
							return 0
						},
						Holds: func(*observe.Moment) bool { return true },
						Hold: func(ctx context.Context, m *observe.Moment, resume func(observe.Move)) {
							move := observe.Move{Payload: m.Payload, Response: m.Response}
							ctx, end := context.WithTimeoutCause(context.WithoutCancel(ctx), c.held, nil)
							stop := context.AfterFunc(m.Process.Context(), end)
							context.AfterFunc(ctx, func() { stop(); end(); resume(move) })
						},
					},
				})
				for range 2 { // objects are used again
					ctx, leave := context.WithCancel(t.Context())
					if c.gone > 0 {
						time.AfterFunc(c.gone, leave)
					}
					ctx, end := context.WithTimeoutCause(ctx, 10*s, errLate)
					start := time.Now()
					resp := gen.Send(ctx, nil, a, 0, value.Int(1))
					if got, took := fmt.Sprint(resp.Payload), time.Since(start); !strings.Contains(got, c.answer) || took != c.took {
						t.Errorf("answered %s after %v; want %s after %v", got, took, c.answer, c.took)
					}
					if resp.IsError() {
						if got := node.Describe(resp.Payload.AsError()).Code; got != string(c.code) {
							t.Errorf("answered %v, code %s; want %s", resp.Payload, got, c.code)
						}
					}
					end()
					leave()
				}
			})
		})
	}
}
