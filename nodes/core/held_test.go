package core_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A backend is a kind that counts its packets and answers each as reply says. reply
// may wait until its context is done. Its nodes answer with the number of the packet
// if there is no reply.
type backend struct {
	calls atomic.Int64
	reply func(ctx context.Context, call int64) node.Result
}

func (b *backend) Concurrency() int { return 100 }

func (b *backend) Receive(_ node.Process, pkt node.Packet) node.Result {
	call := b.calls.Add(1)
	if b.reply == nil {
		return node.Answer(value.Int(call))
	}
	return node.Block(func(ctx context.Context) node.Result { return b.reply(ctx, call) })
}

// stall answers after its context is done.
func stall(ctx context.Context) node.Result {
	<-ctx.Done()
	return node.Fail(context.Cause(ctx))
}

// with returns an engine with the kind backend, and a function that applies a
// document to it.
func (b *backend) engine(t *testing.T) (e *uniflow.Engine, apply func(doc string)) {
	t.Helper()
	kinds := append(core.Defs(core.Options{Languages: builtin.Languages(), Language: "cel"}),
		&node.Def{Kind: "backend", Summary: "Counts.", In: []node.Port{{Name: "in", Doc: "A packet."}}, New: func(*node.Init) (node.Node, error) { return b, nil }},
		&node.Def{
			Kind: "burst", Summary: "Sends a packet for each element of a list.", In: []node.Port{{Name: "in", Doc: "A list."}}, Out: []node.Port{{Name: "out", Doc: "An element."}},
			New: func(*node.Init) (node.Node, error) {
				return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
					var packets []node.Out
					for _, e := range pkt.Payload.Elems() {
						packets = append(packets, node.Out{Payload: e})
					}
					return node.SendAll(packets, func(_ node.Process, resps []node.Response) node.Result { return node.Respond(node.Join(resps)) })
				}), nil
			},
		})
	e, err := uniflow.New(uniflow.Options{Kinds: kinds, Metrics: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e, func(doc string) {
		t.Helper()
		list, err := e.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}})
		if err != nil || list.HasErrors() {
			t.Fatal(err, list)
		}
	}
}

// A reply is the answer to a packet that was sent by a goroutine of the test.
type reply struct {
	v   value.Value
	err error
}

// start sends a payload to the node n on a goroutine of its own.
func start(ctx context.Context, e *uniflow.Engine, payload value.Value) <-chan reply {
	done := make(chan reply, 1)
	go func() {
		v, _, err := e.Run(ctx, "n", payload)
		done <- reply{v, err}
	}()
	return done
}

// pass lets time pass, in a bubble.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := (node.SystemClock{}).Sleep(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// figures returns the figures of nodes, with a label after a slash.
func figures(e *uniflow.Engine) map[string]float64 {
	all := make(map[string]float64)
	for _, f := range e.Metrics().Figures {
		name := f.Metric.Name
		for _, l := range f.Metric.Labels {
			name += "/" + l.Value
		}
		all[name] = f.Metric.Value
	}
	return all
}

func wantFigures(t *testing.T, e *uniflow.Engine, want map[string]float64) {
	t.Helper()
	got := figures(e)
	for name, v := range want {
		if got[name] != v {
			t.Errorf("%s: got %v, want %v", name, got[name], v)
		}
	}
}

var errBackend = errors.New("the backend is down")

// bubble runs a test with a clock that stands still while something is done.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
