package observe_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A fixed node returns the same result for every packet.
type fixed struct{ result node.Result }

func (f fixed) Receive(node.Process, node.Packet) node.Result { return f.result }

// TestWrap tells what a result sends, and leaves the result as it is.
func TestWrap(t *testing.T) {
	f := func(r node.Result, wantPorts ...int) {
		t.Helper()
		var ports []int
		received := 0
		o := &observe.Observer{
			Received: func(observe.Packet) { received++ },
			Sent:     func(p observe.Packet) { ports = append(ports, p.Port) },
		}
		got := observe.Wrap(fixed{r}, node.Ref{Name: "n"}, o).Receive(nil, node.Packet{Payload: value.Int(1)})
		if got.Op != r.Op || got.Port != r.Port || !got.Payload.Equal(r.Payload) {
			t.Errorf("got result %+v, want %+v", got, r)
		}
		if received != 1 {
			t.Errorf("got %d packets received, want 1", received)
		}
		if len(ports) != len(wantPorts) {
			t.Fatalf("op %d: got ports %v, want %v", r.Op, ports, wantPorts)
		}
		for i := range ports {
			if ports[i] != wantPorts[i] {
				t.Errorf("op %d: got ports %v, want %v", r.Op, ports, wantPorts)
			}
		}
	}
	f(node.Answer(value.Int(2)))
	f(node.None())
	f(node.Send(1, value.Int(2)), 1)
	f(node.Divert(value.Int(2)), observe.ErrorPort)
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
	wrapped := observe.Wrap(fixed{shared}, node.Ref{}, &observe.Observer{Sent: func(observe.Packet) { sent++ }})
	for range 3 {
		r := wrapped.Receive(nil, node.Packet{})
		r.More.Then(nil, node.Response{})
	}
	if calls != 3 || sent != 3 {
		t.Errorf("got %d calls, %d packets sent, want 3 of each", calls, sent)
	}
}

// TestNothing costs nothing and needs nothing where an observer has no functions.
func TestNothing(t *testing.T) {
	wrapped := observe.Wrap(fixed{node.Send(0, value.Int(1))}, node.Ref{}, &observe.Observer{})
	if got := wrapped.Receive(nil, node.Packet{}); got.Op != node.OpSend || got.More != nil {
		t.Errorf("got %+v, want the node's own result", got)
	}
}
