package uniflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/compile"
	"github.com/uniflow-labs/uniflow/internal/inspect"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// A Test is a node that tests the workflow: see [node.Tester].
type Test struct {
	Node node.Ref
	node.TestSettings
	Durable bool // what it tests is a durable process: [Engine.Test] takes [Options.Journal]
	Crashes bool // a run of tests repeats it with crashes

	at int32 // in the program of the outline
	of *outlined
}

// A crasher is a [node.Tester] that may be repeated with crashes.
type crasher interface{ Crashes() bool }

// outlined is what tests of an outline are made of. It is immutable.
type outlined struct {
	plan   *compile.Plan
	sys    *inspect.System
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
	outline := outlineOf(prog)
	for i := range prog.Vertices {
		if t, ok := prog.Vertices[i].Node.(node.Tester); ok {
			test := Test{Node: prog.Vertices[i].Ref, TestSettings: t.Test(), Durable: prog.Outline[i].Traits.Is.Has(node.Durable), at: int32(i), of: of}
			if c, ok := t.(crasher); ok {
				test.Crashes = c.Crashes()
			}
			outline.Tests = append(outline.Tests, test)
		}
	}
	return outline, list
}

// Describe returns the nodes and links of what the engine serves now, without tests; nothing while
// it serves nothing.
func (e *Engine) Describe() Outline {
	g := e.current.Load()
	if g == nil {
		return Outline{}
	}
	return outlineOf(g.Program())
}

func outlineOf(prog *compile.Program) Outline {
	o := Outline{Nodes: nodesOf(prog), Vertices: prog.Outline, Outer: make([]int, len(prog.Outer)), Links: linksOf(prog)}
	for i, outer := range prog.Outer {
		o.Outer[i] = int(outer)
	}
	return o
}

// TestValues returns the values that the tests in a source bring, of all namespaces and in
// spec order: see [node.TestSettings]; nil for a test that brings none. They are read before
// anything is compiled, for a [Source.Values] that the rest may need. The findings are those of
// reading.
func (e *Engine) TestValues(source Source) (all []map[string]value.Value, list diag.List) {
	specs, list := e.read(source, true)
	for _, s := range slices.Concat(specs.Nodes, specs.Bodies) {
		if def, ok := specs.Kinds.Kind(s.Kind); ok && def.Role.Has(node.Tests) {
			values, _ := node.TestValues(s.Config.Field(node.FieldValues)) // New reports the error
			all = append(all, values)
		}
	}
	return all, e.hide(list, source)
}

// ApplyTest is [Engine.Apply] of the part of a source that a test of its outline needs: the
// nodes that the test leads to, and the nodes of its namespace that no test leads to, with
// all that these lead to. Nothing is compiled again, so it takes the same time however many
// tests there are. The kinds come from the engine that made the outline; any number of
// engines may use the same outline at a time.
//
// Replace returns what makes a node in place of its kind's New, or nil. With Whole, the
// engine that made the outline also asks it for sub-graphs: the def has the ports of the
// sub-graph, and the indexes of its out-ports follow the indexes of its in-ports. What is
// in a sub-graph that is replaced is left out, unless the test is in it.
func (e *Engine) ApplyTest(ctx context.Context, t Test, replace func(node.Ref, *node.Def) func(*node.Init) (node.Node, error)) error {
	if t.of == nil {
		return errors.New("the test is not from an outline")
	}
	sys := *t.of.sys
	sys.Current = e.current.Load
	e.secrets.Learn(sys.Secrets)
	prog, list := t.of.plan.Test(t.at, e.nodeOptions(&sys), replace)
	if prog == nil {
		e.totals.Refuse()
		return e.hide(list, t.of.source).Err()
	}
	return e.apply(ctx, prog, t.of.source)
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
		return errNothing
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

// A Status says what an engine serves.
type Status struct {
	Generation int        // from 1; 0 while nothing is served
	Since      time.Time  // when it began to serve
	Nodes      []node.Ref // in spec order
	InFlight   int        // processes in progress
}

// Status returns what the engine serves now.
func (e *Engine) Status() Status {
	g := e.current.Load()
	if g == nil {
		return Status{}
	}
	s := Status{Generation: g.Number, Since: g.Since, InFlight: g.InFlight()}
	s.Nodes = nodesOf(g.Program())
	return s
}

// A Waiting is a process that has waited for something, such as an answer, a timer or a database. At is empty
// while it goes on.
type Waiting = run.Waiting

// Waiting returns the processes of what the engine serves now that have waited, in no order. Those that have only
// run are left out.
func (e *Engine) Waiting() (all []Waiting) {
	if g := e.current.Load(); g != nil {
		g.Waiting(func(w Waiting) { all = append(all, w) })
	}
	return all
}

// Cancel ends a process that [Engine.Waiting] returns with a node that it waits in, by its id, and reports whether there is one: its context ends,
// and each of its packets that is not answered yet gets an error of code [diag.CodeCancelled] and status 503.
func (e *Engine) Cancel(id string) bool {
	g := e.current.Load()
	return g != nil && g.Cancel(id)
}

// A Link joins two nodes.
type Link struct {
	From, To node.Ref
	Out, In  string // names of ports, as the document has them

	// OutPort and InPort are the indexes of the ports, as observers have them. OutPort
	// is below [observe.ErrorPort] for a lifecycle port.
	OutPort, InPort int

	Pos diag.Pos // where the document has it
}

// Links returns the links of what the engine serves now, in spec order.
func (e *Engine) Links() []Link {
	g := e.current.Load()
	if g == nil {
		return nil
	}
	return linksOf(g.Program())
}

func linksOf(prog *compile.Program) []Link {
	links := make([]Link, len(prog.Links))
	for i, l := range prog.Links {
		links[i] = Link{From: prog.Vertices[l.From].Ref, To: prog.Vertices[l.To].Ref, Out: l.Out, In: l.In, OutPort: l.OutPort, InPort: l.InPort, Pos: l.Pos}
	}
	return links
}

// Ready returns why nodes of what the engine serves are not ready, such as a connection
// that is tried again in the background; none if all are. Errors are mostly a [*ReadyError].
func (e *Engine) Ready() (reasons []error) {
	g := e.current.Load()
	if g == nil {
		return []error{errNothing}
	}
	return g.Ready()
}

var errNothing = errors.New("the engine serves nothing yet")

// A ReadyError is why a node is not ready, with its place.
type ReadyError = run.ReadyError

// A Trigger is a node that starts processes by itself.
type Trigger struct {
	Node node.Ref
	Ends bool // its work comes to an end by itself

	// Finished is closed when the work has ended; nil for a node that never says so.
	Finished <-chan struct{}

	// Progress returns how far the work is, or was when the node was closed. It is nil if
	// the node does not say. Any goroutine may call it.
	Progress func() node.Progress
}

// Triggers returns the triggers of what the engine serves now, in spec order. Triggers
// that get their work by links, such as one that collects packets, are left out.
func (e *Engine) Triggers() []Trigger {
	g := e.current.Load()
	if g == nil {
		return nil
	}
	return triggersOf(g.Program(), g.Progress)
}

// TriggersOf is [Engine.Triggers] of a source before it is served: it starts nothing, and
// the results have only Node and Ends. The findings are as from [Engine.Check].
func (e *Engine) TriggersOf(source Source) ([]Trigger, diag.List) {
	prog, _, list := e.compile(source, false, false)
	if prog == nil {
		return nil, list
	}
	return triggersOf(prog, nil), list
}

func triggersOf(prog *compile.Program, progress func(at int32) node.Progress) []Trigger {
	var all []Trigger
	for _, of := range inspect.Triggers(prog) {
		t := Trigger{Node: prog.Vertices[of.At].Ref, Ends: of.Finite != nil && of.Finite.Ends()}
		if of.Finite != nil && progress != nil {
			t.Finished = of.Finite.Finished()
			t.Progress = func() node.Progress { return progress(of.At) }
		}
		all = append(all, t)
	}
	return all
}
