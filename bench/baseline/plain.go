package baseline

import (
	"context"
	"sync"

	"github.com/uniflow-labs/uniflow/value"
)

// A Node handles a payload. It is an interface, as in the engine.
type Node interface {
	Receive(value.Value) value.Value
}

// Pass is the node that returns its payload.
type Pass struct{}

func (Pass) Receive(v value.Value) value.Value { return v }

// Calls is a chain that calls one node after another.
type Calls []Node

// NewCalls returns a chain of n nodes.
func NewCalls(n int) Calls {
	c := make(Calls, n)
	for i := range c {
		c[i] = Pass{}
	}
	return c
}

// Send passes a payload through the chain.
func (c Calls) Send(v value.Value) value.Value {
	for _, n := range c {
		v = n.Receive(v)
	}
	return v
}

// Goroutines is a chain with a goroutine for each node, and a channel for each
// link. It must be closed. One payload is on its way at a time.
type Goroutines struct {
	in   chan value.Value
	out  chan value.Value
	done sync.WaitGroup
}

// NewGoroutines returns a running chain of n nodes.
func NewGoroutines(n int) *Goroutines {
	g := &Goroutines{in: make(chan value.Value)}
	g.out = g.in
	for range n {
		from, to := g.out, make(chan value.Value)
		g.out = to
		g.done.Go(func() {
			defer close(to)
			var node Node = Pass{}
			for v := range from {
				to <- node.Receive(v)
			}
		})
	}
	return g
}

// Send passes a payload through the chain, unless the context is done.
func (g *Goroutines) Send(ctx context.Context, v value.Value) (value.Value, error) {
	select {
	case g.in <- v:
	case <-ctx.Done():
		return value.Value{}, ctx.Err()
	}
	return <-g.out, nil
}

func (g *Goroutines) Close() {
	close(g.in)
	g.done.Wait()
}
