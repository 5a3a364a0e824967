package run_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/clock"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// sleeper sends its payload on after so many hours.
func sleeper(_ node.Process, pkt node.Packet) node.Result {
	h, _ := pkt.Payload.AsInt()
	return node.Sleep(time.Duration(h)*time.Hour, func(_ node.Process, resp node.Response) node.Result {
		if !resp.None {
			return node.Respond(resp)
		}
		return node.Send(0, pkt.Payload)
	})
}

// numbers sends the numbers below n, and answers with the responses.
func numbers(n int) nodeFunc {
	return func(node.Process, node.Packet) node.Result {
		packets := make([]node.Out, n)
		for i := range packets {
			packets[i] = node.Out{Payload: value.Int(int64(i))}
		}
		return node.SendAll(packets, func(_ node.Process, resps []node.Response) node.Result {
			return node.Respond(node.Join(resps))
		})
	}
}

func timed(t *testing.T) (*clock.Fake, run.Options) {
	c := clock.New(epoch)
	t.Cleanup(c.Close)
	return c, run.Options{Clock: c}
}

func wantTime(t *testing.T, c *clock.Fake, want time.Duration) {
	t.Helper()
	if got := c.Now().Sub(epoch); got != want {
		t.Errorf("%s have passed, want %s", got, want)
	}
}

// TestSleepGate keeps packets at an in-port in order: one sleeps after the other.
func TestSleepGate(t *testing.T) {
	c, opts := timed(t)
	g := &graph{}
	root, sleeps := g.fn(1, numbers(5)), g.fn(1, sleeper)
	g.link(root, 0, sleeps)
	wantText(t, g.open(t, opts).Send(t.Context(), nil, root, 0, value.Null()), "[0 1 2 3 4]")
	wantTime(t, c, 10*time.Hour)
}

// TestSleepTogether lets packets of a concurrent node sleep at the same time. They
// arrive downstream in the order of their times; the answers keep the order of the
// packets.
func TestSleepTogether(t *testing.T) {
	c, opts := timed(t)
	g := &graph{}
	var order []string
	var mu sync.Mutex
	root := g.fn(1, func(node.Process, node.Packet) node.Result {
		var packets []node.Out
		for _, h := range []int64{3, 1, 2, 0} {
			packets = append(packets, node.Out{Payload: value.Int(h)})
		}
		return node.SendAll(packets, func(_ node.Process, resps []node.Response) node.Result { return node.Respond(node.Join(resps)) })
	})
	sleeps := g.fn(1, sleeper)
	g.vertices[sleeps].Concurrency = 10
	arrives := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, pkt.Payload.String())
		return node.Answer(pkt.Payload)
	})
	g.link(root, 0, sleeps)
	g.link(sleeps, 0, arrives)
	wantText(t, g.open(t, opts).Send(t.Context(), nil, root, 0, value.Null()), "[3 1 2 0]")
	if fmt.Sprint(order) != "[0 1 2 3]" {
		t.Errorf("got order %v", order)
	}
	wantTime(t, c, 3*time.Hour)
}

// TestSleepChildren sleeps in children, two at a time, and in a fork.
func TestSleepChildren(t *testing.T) {
	c, opts := timed(t)
	g := &graph{}
	forked := make(chan time.Duration, 1)
	sleep := func(h int64) node.Result {
		return node.Sleep(time.Duration(h)*time.Hour, func(node.Process, node.Response) node.Result { return node.Answer(value.Int(h)) })
	}
	root := g.fn(1, func(node.Process, node.Packet) node.Result {
		return node.Spawn([]node.Result{sleep(1), sleep(4), sleep(2), sleep(1)}, 2, func(_ node.Process, resps []node.Response) node.Result {
			return node.After(node.Fork(node.Sleep(time.Hour, func(node.Process, node.Response) node.Result {
				forked <- c.Now().Sub(epoch)
				return node.None()
			})), func(node.Process, node.Response) node.Result { return node.Respond(node.Join(resps)) })
		})
	})
	wantText(t, g.open(t, opts).Send(t.Context(), nil, root, 0, value.Null()), "[1 4 2 1]")
	if got := <-forked; got != 5*time.Hour {
		t.Errorf("the fork woke after %s, want 5h: children take 4h, two at a time", got)
	}
}

// TestSleepBesideBlock stands still while something blocks outside of the clock.
func TestSleepBesideBlock(t *testing.T) {
	c, opts := timed(t)
	g := &graph{}
	root, sleeps := g.fn(1, numbers(2)), g.fn(1, sleeper)
	release := make(chan struct{})
	blocks := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		return node.Block(func(context.Context) node.Result {
			if i, _ := pkt.Payload.AsInt(); i == 0 {
				<-release
				if got := c.Now().Sub(epoch); got != 0 {
					t.Errorf("%s passed while a node was busy", got)
				}
			}
			return node.Answer(pkt.Payload)
		})
	})
	g.link(root, 0, sleeps)
	g.link(root, 0, blocks)
	gen := g.open(t, opts)
	var worker sync.WaitGroup
	worker.Go(func() {
		wantText(t, gen.Send(t.Context(), nil, root, 0, value.Null()), "[[0 0] [1 1]]")
	})
	close(release)
	worker.Wait()
	wantTime(t, c, time.Hour)
}

// TestSleepCancelled ends sleeps with their process, and leaves no timer behind that
// would move the clock.
func TestSleepCancelled(t *testing.T) {
	for range 100 {
		c, opts := timed(t)
		g := &graph{}
		asleep := make(chan struct{})
		var seen node.Response
		root := g.fn(1, func(node.Process, node.Packet) node.Result {
			close(asleep)
			return node.Sleep(1000*time.Hour, func(_ node.Process, resp node.Response) node.Result {
				seen = resp
				return node.Respond(resp)
			})
		})
		gen := g.open(t, opts)
		left := errors.New("the client left")
		ctx, cancel := context.WithCancelCause(t.Context())
		c.Begin() // this goroutine, so that time stands still until the process is cancelled
		var worker sync.WaitGroup
		worker.Go(func() {
			r := gen.Send(ctx, nil, root, 0, value.Null())
			if !r.IsError() || !errors.Is(r.Payload.AsError(), left) {
				t.Errorf("got %v, want the cause", text(r))
			}
		})
		<-asleep
		cancel(left)
		c.End()
		worker.Wait()
		wantTime(t, c, 0)
		if seen.None {
			t.Error("the sleep went on as if its time had come")
		}
		c.Begin()
		if err := c.Sleep(t.Context(), time.Hour); err != nil { // no timer is left between
			t.Error(err)
		}
		wantTime(t, c, time.Hour)
		c.End()
	}
}

// TestSleepNested starts a process from a node's blocking work, as a trigger inside a
// process does. It is one goroutine, and counts once.
func TestSleepNested(t *testing.T) {
	c, opts := timed(t)
	g := &graph{}
	sleeps := g.fn(1, sleeper)
	var gen *run.Generation
	root := g.fn(1, func(node.Process, node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			return node.Respond(gen.Send(ctx, nil, sleeps, 0, value.Int(2)))
		})
	})
	forks := g.fn(1, func(node.Process, node.Packet) node.Result {
		return node.Fork(node.Block(func(ctx context.Context) node.Result {
			return node.Respond(gen.Send(ctx, nil, sleeps, 0, value.Int(3)))
		}))
	})
	gen = g.open(t, opts)
	wantText(t, gen.Send(t.Context(), nil, root, 0, value.Null()), "2")
	wantTime(t, c, 2*time.Hour)
	c.Begin()
	wantText(t, gen.Send(c.Context(t.Context()), nil, forks, 0, value.Null()), "None")
	if err := c.Sleep(t.Context(), 4*time.Hour); err != nil {
		t.Error(err)
	}
	wantTime(t, c, 6*time.Hour)
	c.End()
}

// TestSleepStopped ends sleeps when the grace is over.
func TestSleepStopped(t *testing.T) {
	g := &graph{}
	asleep := make(chan struct{})
	root := g.fn(1, func(node.Process, node.Packet) node.Result {
		close(asleep)
		return node.Sleep(time.Hour, func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) })
	})
	gen := run.New(g.program(), run.Options{})
	if err := gen.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var worker sync.WaitGroup
	worker.Go(func() {
		if r := gen.Send(context.Background(), nil, root, 0, value.Null()); !r.IsError() {
			t.Errorf("got %s, want an error", text(r))
		}
	})
	<-asleep
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := gen.Stop(over); err != nil {
		t.Error(err)
	}
	worker.Wait()
	if err := gen.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSleepLoop sleeps again and again, in no time and without a goroutine each.
func TestSleepLoop(t *testing.T) {
	c, opts := timed(t)
	g := &graph{}
	rounds := 0
	var again func(node.Process, node.Response) node.Result
	again = func(node.Process, node.Response) node.Result {
		if rounds++; rounds == 10_000 {
			return node.Answer(value.Int(int64(rounds)))
		}
		return node.Sleep(time.Second, again)
	}
	root := g.fn(1, func(node.Process, node.Packet) node.Result { return node.Sleep(time.Second, again) })
	wantText(t, g.open(t, opts).Send(t.Context(), nil, root, 0, value.Null()), "10000")
	wantTime(t, c, 10_000*time.Second)
}

// TestAgain is, as long as nothing is recorded, the result itself.
func TestAgain(t *testing.T) {
	g := &graph{}
	attempts := 0
	flaky := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
		if attempts++; attempts < 3 {
			return node.Fail(errors.New("not yet"))
		}
		return node.Answer(pkt.Payload)
	})
	var call *node.Call
	call = node.NewCall(func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Again(call.Send(0, value.Int(7)))
		}
		return node.Respond(resp)
	})
	root := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result { return call.Send(0, pkt.Payload) })
	g.link(root, 0, flaky)
	wantText(t, g.open(t, run.Options{}).Send(t.Context(), nil, root, 0, value.Int(7)), "7")
	if attempts != 3 {
		t.Errorf("got %d attempts", attempts)
	}
}
