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

	at int32 // in the program of the outline
	of *outlined
}

// outlined is what tests of an outline are made of. It is immutable.
type outlined struct {
	plan   *compile.Plan
	sys    *system
	source Source
}

// An Outline is what a source has, of all namespaces and in spec order.
type Outline struct {
	Nodes    []node.Ref
	Vertices []node.Vertex // the nodes as kinds see them
	Outer    []int         // by node: the index of the sub-graph that it is in; -1 for none
	Links    []Link
	Tests    []Test
}

// Outline returns what a source has, and the findings of [Engine.CheckAll]. If one of
// them is an error, the outline is empty. It starts nothing.
func (e *Engine) Outline(source Source) (Outline, diag.List) {
	prog, sys, list := e.compile(source, true, true)
	if prog == nil {
		return Outline{}, list
	}
	of := &outlined{prog.Plan, sys, source}
	outline := Outline{Nodes: nodesOf(prog), Vertices: prog.Outline, Outer: make([]int, len(prog.Vertices)), Links: linksOf(prog)}
	for i := range prog.Vertices {
		at := int32(i)
		outline.Outer[i] = int(prog.Plan.Outer(at))
		if t, ok := prog.Vertices[i].Node.(node.Tester); ok {
			outline.Tests = append(outline.Tests, Test{prog.Vertices[i].Ref, t.Test(), at, of})
		}
	}
	return outline, list
}

// ApplyTest is [Engine.Apply] of the part of a source that a test of its outline needs: the
// nodes that the test leads to, and those of its namespace that no test leads to, with all
// that these lead to. Nothing is compiled again, so it takes the same time however many
// tests there are. The kinds are those of the engine that made the outline; any number of
// engines may use the same outline at a time.
//
// Replace returns what makes a node in place of its kind's New, or nil. With Whole, the
// engine that made the outline also asks it for sub-graphs: the def has the ports of that
// one, and the indexes of its out-ports follow those of its in-ports. What is in a
// sub-graph that is replaced is left out, unless the test is in it.
func (e *Engine) ApplyTest(ctx context.Context, t Test, replace func(node.Ref, *node.Def) func(*node.Init) (node.Node, error)) error {
	if t.of == nil {
		return errors.New("the test is not that of an outline")
	}
	sys := *t.of.sys
	sys.engine = e
	e.secrets.Learn(sys.secrets)
	prog, list := t.of.plan.Test(t.at, e.nodeOptions(&sys), replace)
	if prog == nil {
		e.metrics.refuse()
		return e.redact(list, t.of.source).Err()
	}
	return e.apply(ctx, prog)
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
