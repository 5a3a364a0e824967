package uniflow

import (
	"context"
	"errors"
	"fmt"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// A Test is a node that tests the workflow: see [node.Tester].
type Test struct {
	Node node.Ref
	node.TestSettings
}

// An Outline is what a source has, of all namespaces and in spec order.
type Outline struct {
	Nodes    []node.Ref
	Vertices []node.Vertex // the nodes as kinds see them
	Links    []Link
	Tests    []Test
}

// Outline returns what a source has, and the findings of [Engine.CheckAll]. If one of
// them is an error, the outline is empty. It starts nothing.
func (e *Engine) Outline(source Source) (Outline, diag.List) {
	prog, list := e.compile(source, compile.Options{Outline: true}, true)
	if prog == nil {
		return Outline{}, list
	}
	outline := Outline{Nodes: nodesOf(prog), Vertices: prog.Outline, Links: linksOf(prog)}
	for i := range prog.Vertices {
		if t, ok := prog.Vertices[i].Node.(node.Tester); ok {
			outline.Tests = append(outline.Tests, Test{prog.Vertices[i].Ref, t.Test()})
		}
	}
	return outline, list
}

func nodesOf(prog *compile.Program) []node.Ref {
	nodes := make([]node.Ref, len(prog.Vertices))
	for i := range nodes {
		nodes[i] = prog.Vertices[i].Ref
	}
	return nodes
}

// Test runs the test with a name, once, and returns why it failed. The observer of the
// engine gives the process its frames: see [node.FramesKey].
func (e *Engine) Test(ctx context.Context, name string) error {
	g := e.current.Load()
	if g == nil {
		return errors.New("the engine serves nothing yet")
	}
	at, ok := g.Program().Find(e.opts.Namespace, name)
	if ok {
		_, ok = g.Program().Vertices[at].Node.(node.Tester)
	}
	if !ok {
		return fmt.Errorf("no test %q in namespace %q", name, e.opts.Namespace)
	}
	return g.Send(ctx, envelope.Judge, at, 0, value.Null()).Payload.AsError()
}
