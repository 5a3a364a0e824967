package run

import (
	"errors"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A fixed node returns the same result for every packet.
type fixed struct{ result node.Result }

func (f fixed) Receive(node.Process, node.Packet) node.Result { return f.result }

// TestObserved reports the ports that a result sends to, and leaves the result as it
// is.
func TestObserved(t *testing.T) {
	f := func(r node.Result, wantPorts ...int) {
		t.Helper()
		var ports []int
		received := 0
		o := &observe.Observer{
			Received: func(observe.Packet) { received++ },
			Sent:     func(p observe.Packet) { ports = append(ports, p.Port) },
		}
		got := observed(fixed{r}, node.Ref{Name: "n"}, o).Receive(new(process), node.Packet{Payload: value.Int(1)})
		g, w := got.Effect(), r.Effect()
		if g.Op != w.Op || g.Port != w.Port || !g.Payload.Equal(w.Payload) {
			t.Errorf("got result %+v, want %+v", g, w)
		}
		if received != 1 {
			t.Errorf("got %d packets received, want 1", received)
		}
		if len(ports) != len(wantPorts) {
			t.Fatalf("op %d: got ports %v, want %v", w.Op, ports, wantPorts)
		}
		for i := range ports {
			if ports[i] != wantPorts[i] {
				t.Errorf("op %d: got ports %v, want %v", w.Op, ports, wantPorts)
			}
		}
	}
	f(node.Answer(value.Int(2)))
	f(node.None())
	f(node.Send(1, value.Int(2)), 1)
	f(node.Fail(errors.New("x")), observe.ErrorPort)
	f(node.SendThen(3, value.Int(2), nil), 3)
	f(node.SendAll([]node.Out{{Port: 0}, {Port: 2}}, nil), 0, 2)
}

// TestShared leaves what a node keeps for all packets unchanged.
func TestShared(t *testing.T) {
	calls := 0
	call := node.NewCall(func(_ node.Process, resp node.Response) node.Result {
		calls++
		return node.Respond(resp)
	})
	shared := call.Send(0, value.Int(1))
	sent := 0
	wrapped := observed(fixed{shared}, node.Ref{}, &observe.Observer{Sent: func(observe.Packet) { sent++ }})
	for range 3 {
		r := wrapped.Receive(new(process), node.Packet{})
		r.Effect().More.Then(nil, node.Response{})
	}
	if calls != 3 || sent != 3 {
		t.Errorf("got %d calls, %d packets sent, want 3 of each", calls, sent)
	}
}

// TestNothing costs nothing and needs nothing where an observer has no functions.
func TestNothing(t *testing.T) {
	wrapped := observed(fixed{node.Send(0, value.Int(1))}, node.Ref{}, &observe.Observer{})
	if got := wrapped.Receive(new(process), node.Packet{}); got.Effect().Op != effect.Send || got.Effect().More != nil {
		t.Errorf("got %+v, want the node's own result", got)
	}
}
