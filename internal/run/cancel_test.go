package run_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// waitsIn returns a graph that waits in a node, and then sends to one that counts.
func waitsIn(t *testing.T, wait func(node.Process, node.Packet) node.Result) (gen *run.Generation, first int32, after *atomic.Int64) {
	g := &graph{}
	after = new(atomic.Int64)
	a := g.fn(1, wait)
	b := g.fn(0, func(_ node.Process, pkt node.Packet) node.Result {
		after.Add(1)
		return node.Answer(pkt.Payload)
	})
	g.link(a, 0, b)
	return g.open(t, run.Options{}), a, after
}

// TestCancelByID cancels a process that waits in each way: nothing more of the workflow runs.
func TestCancelByID(t *testing.T) {
	for name, wait := range map[string]func(node.Process, node.Packet) node.Result{
		"sleep": func(_ node.Process, pkt node.Packet) node.Result {
			return node.Sleep(time.Hour, func(node.Process, node.Response) node.Result { return node.Send(0, pkt.Payload) })
		},
		"block": func(_ node.Process, pkt node.Packet) node.Result {
			return node.Block(func(ctx context.Context) node.Result {
				<-ctx.Done()
				return node.Send(0, pkt.Payload) // although it was cancelled
			})
		},
		"await": func(_ node.Process, pkt node.Packet) node.Result {
			return node.Await(func(ctx context.Context, done func(node.Result)) {
				context.AfterFunc(ctx, func() { done(node.Send(0, pkt.Payload)) })
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			gen, first, after := waitsIn(t, wait)
			answered := make(chan node.Response, 1)
			go func() { answered <- gen.Send(t.Context(), nil, first, 0, value.Int(1)) }()
			id := ""
			for id == "" {
				gen.Waiting(func(w run.Waiting) {
					if len(w.At) > 0 {
						id = w.ID
					}
				})
			}
			if gen.Cancel("none") || !gen.Cancel(id) {
				t.Error("the process is not found, or another is")
			}
			e := node.Describe((<-answered).Payload.AsError())
			if e.Code != string(diag.CodeCancelled) || e.Status != 503 || after.Load() != 0 {
				t.Errorf("answered %v, status %d, and %d packets went on", e, e.Status, after.Load())
			}
			if gen.Cancel(id) {
				t.Error("it is cancelled after its end")
			}
		})
	}
}

// TestCancelOthers cancels processes under load: only those end with an error, also when their objects are used again.
func TestCancelOthers(t *testing.T) {
	gen, first, _ := waitsIn(t, func(_ node.Process, pkt node.Packet) node.Result {
		return node.Sleep(time.Duration(rand.IntN(200))*time.Microsecond, func(node.Process, node.Response) node.Result { return node.Send(0, pkt.Payload) })
	})
	var answered, ended atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 8 {
		load.Go(func() {
			for n := int64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				resp := gen.Send(t.Context(), nil, first, 0, value.Int(n))
				switch err := resp.Payload.AsError(); {
				case err == nil && resp.Payload.Equal(value.Int(n)):
					answered.Add(1)
				case err != nil && node.Describe(err).Code == string(diag.CodeCancelled):
					ended.Add(1)
				default:
					t.Errorf("request %d: %v, %v", n, resp, err)
				}
			}
		})
	}
	cancelled := int64(0)
	for answered.Load() < 20_000 {
		var ids []string
		gen.Waiting(func(w run.Waiting) { ids = append(ids, w.ID) })
		if len(ids) > 0 && gen.Cancel(ids[rand.IntN(len(ids))]) {
			cancelled++
		}
	}
	close(stop)
	load.Wait()
	if n := ended.Load(); n > cancelled || n < 100 {
		t.Errorf("%d ended with an error, %d were cancelled", n, cancelled)
	}
}
