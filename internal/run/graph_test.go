package run_test

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
)

// A graph is a program made by hand: nodes by index, linked with link.
type graph struct{ vertices []compile.Vertex }

type nodeFunc func(node.Process, node.Packet) node.Result

func (f nodeFunc) Receive(p node.Process, pkt node.Packet) node.Result { return f(p, pkt) }

// add adds a node with a number of out-ports and returns its index.
func (g *graph) add(n node.Node, outs int) int32 {
	at := int32(len(g.vertices))
	g.vertices = append(g.vertices, compile.Vertex{
		Ref:         node.Ref{Kind: "test", Name: string(rune('a' + at%26)), Namespace: "default"},
		Node:        n,
		In:          1,
		Out:         make([][]compile.Edge, outs),
		Concurrency: 1,
	})
	return at
}

func (g *graph) fn(outs int, f nodeFunc) int32 { return g.add(f, outs) }

func (g *graph) link(from int32, port int, to int32) {
	out := &g.vertices[from].Out[port]
	*out = append(*out, compile.Edge{Node: to})
}

func (g *graph) linkErr(from, to int32) {
	g.vertices[from].Err = append(g.vertices[from].Err, compile.Edge{Node: to})
}

// linkSome links the nodes at random, each to some after it.
func (g *graph) linkSome(intN func(int) int) {
	last := len(g.vertices) - 1
	for from := range last {
		later := func() int32 { return int32(from + 1 + intN(last-from)) }
		for port := range g.vertices[from].Out {
			for range intN(3) {
				g.link(int32(from), port, later())
			}
		}
		if intN(2) == 0 {
			g.linkErr(int32(from), later())
		}
	}
}

// program opens the last node first.
func (g *graph) program() *compile.Program {
	order := make([]int32, len(g.vertices))
	for i := range order {
		order[i] = int32(len(order) - 1 - i)
	}
	return &compile.Program{Vertices: g.vertices, Order: order}
}

func (g *graph) open(tb testing.TB, opts run.Options) *run.Generation {
	tb.Helper()
	gen := run.New(g.program(), opts)
	if err := gen.Open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := gen.Stop(tb.Context()); err != nil {
			tb.Error(err)
		}
		if err := gen.Close(tb.Context()); err != nil {
			tb.Error(err)
		}
	})
	return gen
}
