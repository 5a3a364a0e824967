package run_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A lineage knows of each packet, by the number that is its payload, which packet has sent it,
// and on which out-port.
type lineage struct {
	sync.Mutex
	rnd    *rand.Rand
	sent   []sentBy
	counts map[[2]int]uint64 // by node and out-port
}

type sentBy struct{ cause, port int }

func (l *lineage) intN(n int) int {
	l.Lock()
	defer l.Unlock()
	return l.rnd.IntN(n)
}

// next returns the payload of a packet that a node sends because of another.
func (l *lineage) next(at, cause, port int) value.Value {
	l.Lock()
	defer l.Unlock()
	l.sent = append(l.sent, sentBy{cause, port})
	l.counts[[2]int{at, port}]++
	return value.Int(int64(len(l.sent) - 1))
}

func numberOf(t *testing.T, v value.Value) int {
	t.Helper()
	text := fmt.Sprint(v)
	if v.IsError() {
		text = v.AsError().Error()
		text = text[strings.LastIndex(text, " ")+1:]
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Error(err)
	}
	return n
}

const lineagePorts = 3

// receive does one of the things that a node can do with a packet, at random.
func (l *lineage) receive(t *testing.T, at int, pkt node.Packet) node.Result {
	cause := numberOf(t, pkt.Payload)
	return l.act(at, cause, 3)
}

func (l *lineage) act(at, cause, depth int) node.Result {
	port := l.intN(lineagePorts)
	then := func(node.Process, node.Response) node.Result { return l.act(at, cause, depth-1) }
	ops := 12
	if depth == 0 {
		ops = 4
	}
	switch l.intN(ops) {
	case 0, 1:
		return node.Send(port, l.next(at, cause, port))
	case 2:
		n := l.next(at, cause, observe.ErrorPort)
		return node.Fail(errors.New("no " + fmt.Sprint(n)))
	case 3:
		return node.None()
	case 4:
		return node.SendThen(port, l.next(at, cause, port), then)
	case 5, 6:
		var out []node.Out
		for range l.intN(6) {
			port := l.intN(lineagePorts)
			out = append(out, node.Out{Port: port, Payload: l.next(at, cause, port)})
		}
		return node.SendAll(out, func(node.Process, []node.Response) node.Result { return l.act(at, cause, depth-1) })
	case 7:
		var out []node.Out
		for range l.intN(6) {
			out = append(out, node.Out{Port: port, Payload: l.next(at, cause, port)})
		}
		return node.UntilError(node.SendAll(out, func(node.Process, []node.Response) node.Result { return l.act(at, cause, depth-1) }))
	case 8:
		return node.Block(func(context.Context) node.Result { return l.act(at, cause, depth-1) })
	case 9:
		return node.Await(func(_ context.Context, done func(node.Result)) {
			if l.intN(2) == 0 {
				done(l.act(at, cause, depth-1))
				return
			}
			go func() { done(l.act(at, cause, depth-1)) }()
		})
	case 10:
		return node.Sleep(time.Microsecond, then)
	}
	return node.After(l.act(at, cause, depth-1), func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) })
}

// TestParents runs random programs of nodes that do all that a node can do: each span has the
// span and the out-port that its packet came from, and each out-port as many packets as were sent.
func TestParents(t *testing.T) {
	seed := rand.Uint64()
	spans := 0
	for round := range 300 {
		l := &lineage{rnd: rand.New(rand.NewPCG(seed, uint64(round))), counts: make(map[[2]int]uint64)}
		g := &graph{}
		const nodes = 7
		for at := range nodes {
			g.fn(lineagePorts, func(_ node.Process, pkt node.Packet) node.Result { return l.receive(t, at, pkt) })
			g.vertices[at].Concurrency = 1 + l.intN(3)
		}
		g.linkSome(l.intN)
		gen := g.open(t, run.Options{})
		var tp tape
		gen.Instrument(run.Instruments{
			Metrics:   true,
			Observers: []*observe.Observer{{Sent: func(observe.Packet) {}, Answered: func(observe.Answer) {}}},
			Recorders: []observe.Recorder{{Payloads: true, Ended: tp.add}},
		})
		gen.Run(t.Context(), 0, node.Send(0, l.next(0, -1, 0)))
		for _, tl := range tp.timelines {
			if tl.Unrecorded > 0 || tl.First == nil {
				continue
			}
			for i, s := range tl.Spans {
				spans++
				want := l.sent[numberOf(t, *s.Payload)]
				cause := -1
				if s.Parent >= 0 {
					cause = numberOf(t, *tl.Spans[s.Parent].Payload)
				}
				if got := (sentBy{cause, s.Out}); got != want {
					t.Fatalf("seed %d, round %d, span %d of %s: came from packet %d on port %d, want %d on %d",
						seed, round, i, s.Node.Name, got.cause, got.port, want.cause, want.port)
				}
			}
			if len(tl.Spans) >= 100 { // more are measured now and then
				continue
			}
			for at, m := range gen.Metrics().Nodes {
				var want []uint64
				for port := range lineagePorts {
					want = append(want, l.counts[[2]int{at, port}])
				}
				want = append(want, l.counts[[2]int{at, observe.ErrorPort}])
				if m.Sent == nil {
					m.Sent = make([]uint64, len(want))
				}
				if !slices.Equal(m.Sent, want) {
					t.Fatalf("seed %d, round %d, node %d: sent %v, want %v", seed, round, at, m.Sent, want)
				}
			}
		}
	}
	if spans < 1000 {
		t.Errorf("%d packets were looked at: too few", spans)
	}
}
