package run_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestSpawn runs children at most limit at a time, with answers in order.
func TestSpawn(t *testing.T) {
	const n, limit = 50, 3
	g := &graph{}
	var inside, most atomic.Int64
	at := g.fn(1, func(node.Process, node.Packet) node.Result {
		children := make([]node.Result, n)
		for i := range children {
			children[i] = node.Block(func(context.Context) node.Result {
				now := inside.Add(1)
				defer inside.Add(-1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				return node.Send(0, value.Int(int64(i)))
			})
		}
		return node.Spawn(children, limit, func(_ node.Process, resps []node.Response) node.Result {
			return node.Respond(node.Join(resps))
		})
	})
	resp := g.open(t, run.Options{}).Send(t.Context(), nil, at, 0, value.Null())
	if resp.Payload.Len() != n {
		t.Fatalf("got %s, want %d answers", text(resp), n)
	}
	for i := range n {
		if got, _ := resp.Payload.At(i).AsInt(); got != int64(i) {
			t.Errorf("answer %d is %d", i, got)
		}
	}
	if most.Load() > limit {
		t.Errorf("got %d concurrent children, want at most %d", most.Load(), limit)
	}
}

// TestWithin ends the context of a child that takes too long, and of no other.
func TestWithin(t *testing.T) {
	g := &graph{}
	at := g.fn(1, func(node.Process, node.Packet) node.Result {
		waits := node.Block(func(ctx context.Context) node.Result {
			<-ctx.Done()
			return node.Fail(context.Cause(ctx))
		})
		long := node.Block(func(ctx context.Context) node.Result { return node.Answer(value.String(fmt.Sprint(ctx.Err()))) })
		return node.Spawn([]node.Result{node.Within(time.Millisecond, waits), node.Within(time.Hour, long), node.Within(0, long)}, 0,
			func(_ node.Process, resps []node.Response) node.Result {
				if !errors.Is(resps[0].Payload.AsError(), node.ErrTimeLimit) {
					t.Errorf("got %s, want the time limit", text(resps[0]))
				}
				return node.Within(time.Nanosecond, node.Respond(node.Join(resps[1:]))) // which is not a child
			})
	})
	if got := text(g.open(t, run.Options{}).Send(t.Context(), nil, at, 0, value.Null())); got != "[<nil> <nil>]" {
		t.Errorf("got %s", got)
	}
}

// TestFork answers immediately, and Stop waits for the child.
func TestFork(t *testing.T) {
	g := &graph{}
	release, ended := make(chan struct{}), make(chan string, 1)
	key := node.NewKey[string]("k")
	at := g.fn(1, func(p node.Process, pkt node.Packet) node.Result {
		key.Store(p, "kept")
		return node.Fork(node.SendThen(0, pkt.Payload, func(p node.Process, resp node.Response) node.Result {
			v, _ := key.Load(p)
			ended <- v + " " + text(resp)
			return node.None()
		}))
	})
	g.link(at, 0, g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return node.Answer(value.String("slow"))
		})
	}))
	gen := run.New(&compile.Program{Vertices: g.vertices, Order: []int32{1, 0}}, run.Options{})
	if err := gen.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	wantText(t, gen.Send(ctx, nil, at, 0, value.Null()), "None")
	leave()
	stopped := make(chan error, 1)
	go func() { stopped <- gen.Stop(context.Background()) }()
	select {
	case err := <-stopped:
		t.Fatalf("stop did not wait for the forked child: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got != "kept slow" {
		t.Errorf("got %q, want \"kept slow\"", got)
	}
	if err := gen.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
