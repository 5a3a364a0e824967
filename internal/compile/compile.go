package compile

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/check"
	"github.com/uniflow-labs/uniflow/internal/expand"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// Options are what a program is compiled with.
type Options struct {
	Kinds    *registry.Registry
	Log      *slog.Logger   // of the nodes
	Pool     *node.Pool     // handed to the nodes; nothing is acquired while compiling
	Memory   *node.Memory   // handed to the nodes
	Clock    node.Clock     // of the nodes
	System   node.System    // of the nodes
	Waits    node.Waits     // of the nodes
	Signals  node.Signals   // likewise
	Queues   node.Queues    // likewise
	Job      *node.Job      // of the nodes
	Programs *node.Programs // of the nodes
	Whole    bool           // keep all hops through sub-graphs, for observers to see
	Plan     bool           // keep Program.Plan

	// Incomplete says that some specs could not be read, so targets of links may be missing.
	Incomplete bool
}

// Compile makes a program of specs whose templates have been rendered. It reports
// all findings; the program is nil if one of them is an error. The nodes have
// acquired nothing yet, so a program that is not run needs no clean-up.
func Compile(specs []*spec.Node, opts Options) (*Program, diag.List) {
	c := &compiler{opts: opts, units: make([]unit, len(specs)), prog: &Program{Vertices: make([]Vertex, len(specs))}}
	for i, s := range specs {
		c.units[i].spec = s
		c.prog.Vertices[i].Ref = node.Ref{ID: s.ID, Kind: s.Kind, Namespace: s.Namespace, Name: s.Path(), Pos: s.Pos}
		c.prog.Vertices[i].LifecycleTimeout = s.LifecycleTimeout
	}
	c.index()
	for i := range c.units {
		c.configure(&c.units[i])
	}
	c.link()
	c.endless()
	known := !slices.ContainsFunc(c.units, func(u unit) bool { return u.def == nil })
	if known && !opts.Incomplete && !c.lost {
		c.unreachable()
	}
	c.shorten()
	c.makeGraph()
	report := func(i int, d *diag.Diagnostic) { c.report(&c.units[i], d) }
	check.Graph(c.graph, report)
	if known {
		check.Needs(c.graph, report)
	}
	for i := range c.units {
		c.make(int32(i), &c.prog.Vertices[i], nil)
	}
	c.list.Sort()
	if c.list.HasErrors() {
		return nil, c.list
	}
	c.prog.Order = order(c.prog.Vertices)
	c.prog.Outline, c.prog.Outer = c.graph, make([]int32, len(c.units))
	for i := range c.units {
		c.prog.Outer[i] = -1
		if outer, ok := c.bySpec[c.units[i].spec.Outer]; ok {
			c.prog.Outer[i] = outer
		}
	}
	if c.opts.Plan {
		c.prog.Plan = newPlan(c)
	}
	return c.prog, c.list
}

type compiler struct {
	opts   Options
	units  []unit
	byName map[scoped]int32
	byID   map[string]int32
	bySpec map[*spec.Node]int32
	prog   *Program
	list   diag.List
	hints  int           // searches for the nearest name
	lost   bool          // it is not known where a link leads
	wrong  []int32       // targets of links at a port that does not exist
	graph  []node.Vertex // by unit
	shapes shapes
}

// A unit is a spec on its way to becoming a vertex.
type unit struct {
	spec   *spec.Node
	def    *node.Def // nil if the kind is unknown
	config schema.Config
	found  diag.List // in its config
	broken bool      // its config has errors, so it is linked but not made
	fits   bool      // its config and its out-ports are as the kind has them
	in     []int     // number of links to each in-port
	out    []int     // number of links from each out-port
}

// A scoped name is one of a document, or of a sub-graph.
type scoped struct {
	namespace string
	outer     *spec.Node
	name      string
}

func scopeOf(s *spec.Node, name string) scoped { return scoped{s.Namespace, s.Outer, name} }

// report adds findings. One without a node or a place gets the node or the place of the spec.
func (c *compiler) report(u *unit, list ...*diag.Diagnostic) {
	for _, d := range list {
		if d.Node == "" {
			d.Node = nodeName(u.spec)
		}
		if !d.Pos.IsValid() {
			d.Pos = u.spec.Pos
		}
		d.UsedAt = u.spec.UsedAt
		c.list.Add(d)
	}
}

func nodeName(s *spec.Node) string {
	if path := s.Path(); path != "" {
		return path
	}
	return s.Kind
}

// index maps names and ids to specs, and reports duplicates.
func (c *compiler) index() {
	c.byName = make(map[scoped]int32, len(c.units))
	c.byID = make(map[string]int32, len(c.units))
	c.bySpec = make(map[*spec.Node]int32)
	for i := range c.units {
		u := &c.units[i]
		if u.spec.Boundary != nil {
			c.bySpec[u.spec] = int32(i)
		}
		if other, dup := c.byID[u.spec.ID]; dup && u.spec.IDPos.IsValid() { // a derived id is a duplicate if the name is
			c.report(u, diag.Errorf(diag.CodeDuplicateID, "id %s is already used at %s", u.spec.ID, c.units[other].spec.Pos).At(u.spec.IDPos, "id"))
		} else {
			c.byID[u.spec.ID] = int32(i)
		}
		if u.spec.Name == "" {
			continue
		}
		key := scopeOf(u.spec, u.spec.Name)
		if other, dup := c.byName[key]; dup {
			c.report(u, diag.Errorf(diag.CodeDuplicateName, "name %q is already used at %s", u.spec.Name, c.units[other].spec.Pos).
				WithHint("rename one of the two: names are unique in a namespace, also across files").At(u.spec.NamePos, "name"))
			c.lost = true
			continue
		}
		c.byName[key] = int32(i)
	}
}

// configure finds the kind of a spec and decodes its config.
func (c *compiler) configure(u *unit) {
	def, ok := c.opts.Kinds.Kind(u.spec.Kind)
	if u.spec.Kind == "" || !ok && c.opts.Kinds.IsBroken(u.spec.Kind) {
		return // reported where it was read
	}
	if !ok {
		d := diag.Errorf(diag.CodeUnknownKind, "unknown kind %q", u.spec.Kind)
		if d.Hint = registry.Elsewhere(u.spec.Kind); d.Hint == "" && !d.Suggest(u.spec.Kind, c.opts.Kinds.Kinds()) {
			d.Hint = "uniflow list shows all kinds; those of a folder need --plugins FOLDER"
		}
		c.report(u, d.At(u.spec.KindPos, "kind"))
		return
	}
	u.def = def
	if b := u.spec.Boundary; b != nil { // its config is settled
		own := *def
		own.In, own.Out = expand.Ports(b)
		u.def = &own
		return
	}
	if def.Subgraph != node.NoSubgraph || u.spec.Unrendered {
		u.broken = true // what is wrong has been reported
		return
	}
	config, list := def.Config.Decode(u.spec.Config)
	u.config, u.found, u.broken = config, list, list.HasErrors()
	hintCommon(u.spec.Config, u.def.Out, list)
	c.report(u, list...)
}

// make makes the node of a vertex: by maker, or else by its kind.
func (c *compiler) make(i int32, v *Vertex, maker func(*node.Init) (node.Node, error)) {
	u := &c.units[i]
	if u.def == nil {
		return
	}
	if u.broken {
		c.report(u, withheld(u, c.probe(i))...)
		return
	}
	v.Concurrency, v.Client = 1, u.def.Role.Has(node.HasClient)
	v.Repeats = u.def.Traits != nil && u.spec.Boundary == nil && u.def.Traits(u.config).Is.Has(node.RepeatsErrors)
	if u.def.Recall != nil {
		v.Recall = u.def.Recall(u.config)
	}
	switch {
	case maker != nil:
	case u.spec.Boundary != nil:
		v.Recall = node.Pure
		v.Node = newBoundary(u, len(v.Err) > 0)
		return
	default:
		maker = u.def.New
	}
	err := Guard(c.opts.Log, v.Ref, "New", func() (err error) {
		v.Node, err = maker(c.init(i, c.opts.Log))
		if n, ok := v.Node.(node.Concurrent); ok && err == nil {
			v.Concurrency = max(1, n.Concurrency())
		}
		return err
	})
	switch {
	case err != nil:
		c.report(u, withheld(u, findings(err))...)
	case v.Node == nil:
		c.report(u, diag.Errorf(diag.CodeBadNode, "New of kind %s returned neither a node nor an error", v.Ref.Kind).
			WithHint("this is a bug of the kind"))
	}
}

// init returns what a node is made of.
func (c *compiler) init(i int32, log *slog.Logger) *node.Init {
	u, v := &c.units[i], &c.prog.Vertices[i]
	return &node.Init{
		Config:     u.config,
		Node:       v.Ref,
		InLinks:    u.in,
		OutLinks:   u.out,
		ErrorLinks: len(v.Err),
		Log:        log.With("node", v.Ref.String(), "kind", v.Ref.Kind, "namespace", v.Ref.Namespace),
		Pool:       c.opts.Pool,
		Memory:     c.opts.Memory,
		Clock:      c.opts.Clock,
		System:     c.opts.System,
		Waits:      c.opts.Waits,
		Signals:    c.opts.Signals,
		Queues:     c.opts.Queues,
		Job:        c.opts.Job,
		Programs:   c.opts.Programs,
		Vertex:     &c.graph[i],
		Exhausted:  c.exhausted(),
		Shape:      func() *schema.Shape { return c.shape(i, 0) },
		Warn:       func(d *diag.Diagnostic) { c.report(u, withheld(u, []*diag.Diagnostic{d})...) },
		Place:      func(name, id, port string) (node.Place, error) { return c.place(u, name, id, port) },
	}
}

// exhausted returns what reports whether all triggers of a job are exhausted.
func (c *compiler) exhausted() func() bool {
	if c.opts.Job == nil {
		return nil
	}
	prog := c.prog
	return func() bool {
		for i := range prog.Vertices {
			if f, ok := prog.Vertices[i].Node.(node.Finite); ok && !f.Exhausted() {
				return false
			}
		}
		return true
	}
}

// Guard calls a function of a node outside of processes, such as its New or Close.
// It logs a panic with its stack and returns it as an error.
func Guard(log *slog.Logger, ref node.Ref, step string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("panic in node code", "code", string(diag.CodePanic), "step", step, "node", ref.String(),
				"at", ref.Pos.String(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = &node.Error{Err: fmt.Errorf("panic in %s: %v", step, v), Code: string(diag.CodePanic)}
		}
	}()
	return f()
}

// findings splits an error of a kind's New into diagnostics.
func findings(err error) []*diag.Diagnostic {
	switch e := err.(type) {
	case *diag.Diagnostic:
		return []*diag.Diagnostic{e}
	case diag.List:
		return e
	case interface{ Unwrap() []error }:
		var all []*diag.Diagnostic
		for _, part := range e.Unwrap() {
			all = append(all, findings(part)...)
		}
		return all
	}
	var d *diag.Diagnostic
	if errors.As(err, &d) {
		return []*diag.Diagnostic{d}
	}
	code := diag.CodeBadNode
	if e := node.Describe(err); e.Code == string(diag.CodePanic) {
		code, err = diag.CodePanic, e.Err
	}
	return []*diag.Diagnostic{diag.Errorf(code, "%w", err)}
}

// order lists the vertices so that each comes after those that it sends to; in
// cycles the order of the specs counts.
func order(vertices []Vertex) []int32 {
	type step struct {
		at   int32
		left []int32 // targets that were not followed yet
	}
	seen := make([]bool, len(vertices))
	list := make([]int32, 0, len(vertices))
	var stack []step
	visit := func(i int32) {
		if !seen[i] {
			seen[i] = true
			stack = append(stack, step{i, vertices[i].Targets()})
		}
	}
	for root := range vertices {
		visit(int32(root))
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.left) == 0 {
				list = append(list, top.at)
				stack = stack[:len(stack)-1]
				continue
			}
			to := top.left[0]
			top.left = top.left[1:]
			visit(to)
		}
	}
	return list
}

// Targets returns the nodes that the links of a node lead to, those of its lifecycle ports included.
func (v *Vertex) Targets() []int32 {
	var all []int32
	add := func(edges []Edge) {
		for _, e := range edges {
			all = append(all, e.Node)
		}
	}
	for _, edges := range v.Out {
		add(edges)
	}
	add(v.Err)
	for _, edges := range v.Lifecycle {
		add(edges)
	}
	return all
}
