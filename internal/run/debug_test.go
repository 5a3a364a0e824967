package run_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A destiny decides what nodes do by the packet alone, so that a program does the same whatever
// holds its processes. It counts what packets come to which nodes.
type destiny struct {
	seed uint64
	mu   sync.Mutex
	seen map[string]int
}

func (d *destiny) receive(at int, pkt node.Packet) node.Result {
	name := fmt.Sprint(pkt.Payload)
	if pkt.Payload.IsError() {
		name = pkt.Payload.AsError().Error()
		name = name[strings.LastIndex(name, " ")+1:]
	}
	d.mu.Lock()
	d.seen[fmt.Sprint(at, " ", name)]++
	d.mu.Unlock()
	return d.act(name, 0)
}

// act does one of the things that a node can do with a packet, by its name.
func (d *destiny) act(name string, depth int) node.Result {
	hash := d.seed
	for _, c := range []byte(fmt.Sprint(name, depth)) {
		hash = (hash ^ uint64(c)) * 1099511628211
	}
	rnd := rand.New(rand.NewPCG(hash, 1))
	out := func(i int) node.Out {
		return node.Out{Port: rnd.IntN(lineagePorts), Payload: value.String(fmt.Sprintf("%s.%d%d", name, depth, i))}
	}
	then := func(_ node.Process, resp node.Response) node.Result { return d.act(name, depth+1) }
	ops := 12
	if depth > 2 || len(name) > 20 {
		ops = 4
	}
	switch rnd.IntN(ops) {
	case 0:
		return node.Answer(value.String(name))
	case 1:
		o := out(0)
		return node.Send(o.Port, o.Payload)
	case 2:
		return node.Fail(errors.New("no " + name + ".e"))
	case 3:
		return node.None()
	case 4:
		o := out(0)
		return node.SendThen(o.Port, o.Payload, then)
	case 5, 6, 7: // without UntilError: what an error leaves out depends on time
		var outs []node.Out
		for i := range rnd.IntN(4) {
			outs = append(outs, out(i))
		}
		return node.SendAll(outs, func(node.Process, []node.Response) node.Result { return d.act(name, depth+1) })
	case 8:
		return node.Block(func(context.Context) node.Result { return d.act(name, depth+1) })
	case 9:
		return node.Await(func(_ context.Context, done func(node.Result)) { go func() { done(d.act(name, depth+1)) }() })
	case 10:
		return node.Sleep(time.Microsecond, then)
	}
	return node.After(d.act(name, depth+1), func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) })
}

// TestHeld runs random programs of nodes that do all that a node can do, and holds their processes
// at random points, for random steps: what nodes receive and how processes are answered is as
// without a debugger.
func TestHeld(t *testing.T) {
	seed := rand.Uint64()
	held := make(map[observe.Points]int)
	steps := 0
	for round := range 200 {
		rnd := rand.New(rand.NewPCG(seed, uint64(round)))
		g := &graph{}
		d := &destiny{seed: rnd.Uint64()}
		const nodes = 7
		for at := range nodes {
			g.fn(lineagePorts, func(_ node.Process, pkt node.Packet) node.Result { return d.receive(at, pkt) })
			g.vertices[at].Concurrency = 1 + rnd.IntN(3)
		}
		g.linkSome(rnd.IntN)
		gen := g.open(t, run.Options{})
		all := func() (answers []string, seen map[string]int) {
			d.seen = make(map[string]int)
			for i := range 4 {
				resp := gen.Send(t.Context(), nil, 0, 0, value.String(fmt.Sprint(i)))
				answers = append(answers, fmt.Sprint(resp.Payload, resp.None))
			}
			return answers, d.seen
		}
		want, received := all()

		var mu sync.Mutex // of the numbers at random
		chance := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return rnd.IntN(n)
		}
		var going sync.WaitGroup
		gen.Instrument(run.Instruments{
			Metrics:   true,
			Recorders: []observe.Recorder{{Payloads: true, Ended: func(*observe.Timeline) {}}},
			Debugger: &observe.Debugger{
				At: func(node.Ref) observe.Points { return observe.Points(chance(8)) },
				Holds: func(m *observe.Moment) bool {
					return chance(3) == 0 || m.Step
				},
				Hold: func(_ context.Context, m *observe.Moment, resume func(observe.Move)) {
					mu.Lock()
					held[m.Point]++
					if m.Step {
						steps++
					}
					mu.Unlock()
					move := observe.Move{Step: observe.Step(chance(3)), Payload: m.Payload, Packets: m.Packets, Response: m.Response}
					if len(m.Callers) == 0 {
						t.Error("no one waits for the answer")
					}
					if chance(3) == 0 {
						resume(move)
						return
					}
					going.Go(func() { resume(move) })
				},
			},
		})
		answers, seen := all()
		going.Wait()
		if !slices.Equal(answers, want) {
			t.Fatalf("seed %d, round %d: answered %q, want %q", seed, round, answers, want)
		}
		for what, n := range received {
			if seen[what] != n {
				t.Errorf("seed %d, round %d: packet %s came %d times, want %d", seed, round, what, seen[what], n)
			}
		}
		if len(seen) != len(received) {
			t.Fatalf("seed %d, round %d: %d packets, want %d", seed, round, len(seen), len(received))
		}
	}
	if held[observe.PointIn] < 100 || held[observe.PointOut] < 100 || held[observe.PointAnswer] < 100 || steps < 100 {
		t.Errorf("processes were held %v times, and made %d steps: too few", held, steps)
	}
}

// A change is how a process goes on.
type change func(*observe.Move)

func steps(all ...observe.Step) (changes []change) {
	for _, step := range all {
		changes = append(changes, func(m *observe.Move) { m.Step = step })
	}
	return changes
}

func instead(r node.Result) []change {
	return []change{func(m *observe.Move) { m.Instead = &r }}
}

// TestMoves lets a process go on in each way, from each point.
func TestMoves(t *testing.T) {
	const in, out, answer = observe.PointIn, observe.PointOut, observe.PointAnswer
	x := value.String("x")
	for _, c := range []struct {
		name   string
		node   string
		point  observe.Points
		moves  []change // continue after these
		answer string
		stops  string // the node, the point, and who waits
	}{
		{"continue", "b", in, nil, "1b+", "b in for a"},
		{"edit what comes", "b", in, []change{func(m *observe.Move) { m.Payload = x }}, "xb+", "b in for a"},
		{"edit what is sent", "a", out, []change{func(m *observe.Move) { m.Packets[0].Payload = x }}, "xb+", "a out for a"},
		{"edit the answer", "b", answer, []change{func(m *observe.Move) { m.Response.Payload = x }}, "x+", "b answer for a"},
		{"into", "a", in, steps(observe.Into, observe.Into, observe.Into, observe.Into, observe.Into), "1b+", "a in for a, a out for a, b in for a, b answer for a, a answer for a"},
		{"over", "a", in, steps(observe.Over), "1b+", "a in for a, a answer for a"},
		{"out", "a", in, steps(observe.Into, observe.Into, observe.Out), "1b+", "a in for a, a out for a, b in for a, a answer for a"},
		{"over from what is sent", "a", out, steps(observe.Over), "1b+", "a out for a, b in for a"},
		{"over from the answer", "a", in, steps(observe.Into, observe.Into, observe.Into, observe.Over), "1b+", "a in for a, a out for a, b in for a, b answer for a, a answer for a"},
		{"out from the answer", "a", in, steps(observe.Into, observe.Into, observe.Into, observe.Out), "1b+", "a in for a, a out for a, b in for a, b answer for a, a answer for a"},
		{"out of the last", "b", in, steps(observe.Out), "1b+", "b in for a"},
		{"answer instead", "b", in, instead(node.Answer(x)), "x+", "b in for a"},
		{"nothing instead", "a", in, instead(node.None()), "null", "a in for a"},
		{"fail instead", "a", out, instead(node.Fail(errors.New("on purpose"))), "on purpose", "a out for a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &graph{}
				a := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
					return node.SendThen(0, pkt.Payload, func(_ node.Process, resp node.Response) node.Result {
						return node.Answer(value.String(fmt.Sprint(resp.Payload, "+")))
					})
				})
				b := g.fn(0, func(_ node.Process, pkt node.Packet) node.Result {
					return node.Answer(value.String(fmt.Sprint(pkt.Payload, "b")))
				})
				g.link(a, 0, b)
				gen := g.open(t, run.Options{})
				var stops []string
				moves := c.moves
				gen.Instrument(run.Instruments{Debugger: &observe.Debugger{
					At: func(ref node.Ref) observe.Points {
						if ref.Name == c.node {
							return c.point
						}
						return 0
					},
					Holds: func(m *observe.Moment) bool { return m.Step || m.Node.Name == c.node && m.Point == c.point },
					Hold: func(_ context.Context, m *observe.Moment, resume func(observe.Move)) {
						stops = append(stops, fmt.Sprint(m.Node.Name, map[observe.Points]string{in: " in", out: " out", answer: " answer"}[m.Point], " for ", m.Callers[0].Name))
						move := observe.Move{Payload: m.Payload, Packets: m.Packets, Response: m.Response}
						if len(moves) > 0 {
							moves[0](&move)
							moves = moves[1:]
						}
						time.AfterFunc(time.Minute, func() { resume(move) })
					},
				}})
				resp := gen.Send(t.Context(), nil, a, 0, value.Int(1))
				if got := fmt.Sprint(resp.Payload); !strings.Contains(got, c.answer) || strings.Join(stops, ", ") != c.stops {
					t.Errorf("answered %s, held at %q; want %s, %s", got, stops, c.answer, c.stops)
				}
			})
		})
	}
}

// TestHeldAfterBlocking holds a process at each packet that a node sends because of blocking work, once.
func TestHeldAfterBlocking(t *testing.T) {
	g := &graph{}
	a := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		return node.Block(func(context.Context) node.Result {
			return node.SendThen(0, value.Int(1), func(node.Process, node.Response) node.Result { return node.Send(0, value.Int(2)) })
		})
	})
	b := g.fn(0, func(_ node.Process, pkt node.Packet) node.Result { return node.Answer(pkt.Payload) })
	g.link(a, 0, b)
	gen := g.open(t, run.Options{})
	var sent []string
	gen.Instrument(run.Instruments{Debugger: &observe.Debugger{
		At:    func(node.Ref) observe.Points { return observe.PointOut },
		Holds: func(*observe.Moment) bool { return true },
		Hold: func(_ context.Context, m *observe.Moment, resume func(observe.Move)) {
			sent = append(sent, fmt.Sprint(m.Packets[0].Payload))
			resume(observe.Move{Packets: m.Packets})
		},
	}})
	resp := gen.Send(t.Context(), nil, a, 0, value.Null())
	if got := strings.Join(sent, " "); got != "1 2" || fmt.Sprint(resp.Payload) != "2" {
		t.Errorf("held at %s, answered %v", got, resp.Payload)
	}
}

// BenchmarkDebugger has a debugger that asks about no node, about one, and about all nodes of ten.
func BenchmarkDebugger(b *testing.B) {
	for name, at := range map[string]func(node.Ref) observe.Points{
		"detached": nil,
		"none":     func(node.Ref) observe.Points { return 0 },
		"one":      func(ref node.Ref) observe.Points { return map[string]observe.Points{"c": observe.PointIn}[ref.Name] },
		"all":      func(node.Ref) observe.Points { return observe.PointIn | observe.PointOut | observe.PointAnswer },
	} {
		b.Run(name, func(b *testing.B) {
			gen := chain(b, 10)
			if at != nil {
				gen.Instrument(run.Instruments{Debugger: &observe.Debugger{At: at, Holds: func(*observe.Moment) bool { return false }}})
			}
			in := value.String("ping")
			b.ReportAllocs()
			for b.Loop() {
				gen.Send(b.Context(), nil, 0, 0, in)
			}
		})
	}
}
