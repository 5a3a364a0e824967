// Package expand replaces sub-graphs by their nodes: sub-graphs of the kinds that run
// specs one after the other or as a graph of their own, and of templates. What comes
// out is one flat list; a sub-graph itself stays in it for its ports.
//
// Read [Subgraphs] first, then [Specs.Instantiate].
//
// The package must not know how nodes are made or run.
package expand

import (
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// maxNodes bounds what templates may grow to. A document has at most as many specs.
const maxNodes = 50_000

// maxDepth bounds sub-graphs in sub-graphs.
const maxDepth = 32

// Specs are the specs of documents, with sub-graphs expanded.
type Specs struct {
	// Nodes are the specs of the documents, each sub-graph before its nodes. Uses of
	// templates have no nodes before Instantiate.
	Nodes []*spec.Node

	// Bodies are the templates and their nodes as they are written.
	Bodies []*spec.Node

	Kinds *registry.Registry // with a kind for each template

	templates map[string]*template
	declared  map[string]*declared
	tests     []*spec.Node // of declared kinds
}

// WithTests adds the tests of declared kinds to the nodes. Call it before Instantiate.
func (s *Specs) WithTests() { s.Nodes = append(s.Nodes, s.tests...) }

// Subgraphs expands the sub-graphs in specs, and makes kinds of the templates.
func Subgraphs(specs []*spec.Node, kinds *registry.Registry) (*Specs, diag.List) {
	e := &expander{kinds: kinds, specs: &Specs{templates: make(map[string]*template), declared: make(map[string]*declared)}}
	for _, n := range specs {
		if kinds.IsTemplate(n.Kind) {
			e.declare(n)
		} else {
			e.specs.Nodes = append(e.specs.Nodes, e.expand(n)...)
		}
	}
	e.register()
	e.list.Sort()
	return e.specs, e.list
}

type expander struct {
	kinds *registry.Registry
	specs *Specs
	list  diag.List

	broken []string // kinds whose declarations are wrong
}

// expand returns a node with all nodes in it.
func (e *expander) expand(n *spec.Node) []*spec.Node {
	nodes := []*spec.Node{n}
	def, ok := e.kinds.Kind(n.Kind)
	if !ok || def.Subgraph == node.NoSubgraph || e.specs.templates[n.Kind] != nil {
		return nodes
	}
	if e.tooDeep(n) {
		return nodes
	}
	_, found := def.Config.Decode(n.Config)
	e.report(n, found...)
	for _, inner := range e.inner(n, def.Subgraph, n.Config) {
		nodes = append(nodes, e.expand(inner)...)
	}
	n.Config = without(n.Config, "specs", "inbounds", "outbounds")
	return nodes
}

// tooDeep reports a sub-graph that is in too many others.
func (e *expander) tooDeep(n *spec.Node) bool {
	depth := 0
	for outer := n.Outer; outer != nil; outer = outer.Outer {
		depth++
	}
	if depth >= maxDepth {
		e.report(n, diag.Errorf(diag.CodeSubgraph, "more than %d sub-graphs are within each other", maxDepth))
	}
	return depth >= maxDepth
}

// without returns a map without some of its fields.
func without(raw *schema.Raw, names ...string) *schema.Raw {
	rest := *raw
	rest.Fields = slices.DeleteFunc(slices.Clone(raw.Fields), func(f schema.RawField) bool { return slices.Contains(names, f.Name) })
	return &rest
}

// inner parses the nodes of a sub-graph, and sets its boundary.
func (e *expander) inner(n *spec.Node, form node.Subgraph, config *schema.Raw) []*spec.Node {
	n.Boundary = &spec.Boundary{}
	nodes, found := spec.ParseInner(config.Field("specs"), n)
	e.report(n, found...)
	nodes = slices.DeleteFunc(nodes, func(inner *spec.Node) bool {
		inner.UsedAt = n.UsedAt
		if e.kinds.IsTemplate(inner.Kind) {
			e.report(inner, diag.Errorf(diag.CodeSubgraph, "a template stands in a document, not in another spec").At(inner.KindPos, "kind"))
			return true
		}
		return false
	})
	if form == node.SubgraphSequence {
		e.sequence(n, nodes)
	} else {
		e.bounds(n, nodes, config)
	}
	return nodes
}

// sequence links nodes one after the other.
func (e *expander) sequence(n *spec.Node, nodes []*spec.Node) {
	n.Boundary.Out = []string{"out"}
	if len(nodes) == 0 {
		return
	}
	n.Boundary.In = []spec.Port{{Name: "in", Pos: nodes[0].Pos, Links: []spec.Link{linkTo(nodes[0], "in")}}}
	for i, inner := range nodes {
		last := i == len(nodes)-1
		if def, ok := e.kinds.Kind(inner.Kind); ok && len(def.Out) == 0 && def.Subgraph == node.NoSubgraph {
			if !last {
				e.report(inner, diag.Errorf(diag.CodeSubgraph, "kind %s sends nothing on, so the specs after it are never reached", inner.Kind).
					WithHint("put it last, or behind an if or a switch").At(inner.Pos, ""))
			}
			continue
		}
		next := spec.Link{Exit: true, Port: "out", Pos: inner.Pos, NamePos: inner.Pos, PortPos: inner.Pos}
		if !last {
			next = linkTo(nodes[i+1], "in")
		}
		addLink(inner, "out", inner.PortsPos, next)
	}
}

func linkTo(n *spec.Node, port string) spec.Link {
	return spec.Link{Name: n.Name, Port: port, Pos: n.Pos, NamePos: n.Pos, PortPos: n.Pos}
}

// addLink adds a link to an out-port of a node.
func addLink(n *spec.Node, port string, pos diag.Pos, l spec.Link) {
	for i := range n.Ports {
		if samePort(n.Ports[i].Name, port) {
			n.Ports[i].Links = append(n.Ports[i].Links, l)
			return
		}
	}
	n.Ports = append(n.Ports, spec.Port{Name: port, Pos: pos, Links: []spec.Link{l}})
}

// samePort compares names of ports, of which out and out[0] are one.
func samePort(a, b string) bool {
	return strings.TrimSuffix(a, "[0]") == strings.TrimSuffix(b, "[0]")
}

// bounds reads the fields inbounds and outbounds of a sub-graph.
func (e *expander) bounds(n *spec.Node, nodes []*spec.Node, config *schema.Raw) {
	for i := range config.Fields {
		f := &config.Fields[i]
		switch f.Name {
		case "inbounds":
			ports, found := spec.ParseBoundary(f, n, "in")
			e.report(n, found...)
			n.Boundary.In = e.named(n, ports, f.Name)
		case "outbounds":
			ports, found := spec.ParseBoundary(f, n, "out")
			e.report(n, found...)
			ports = e.named(n, ports, f.Name)
			n.Boundary.Out = outPorts(ports)
			for _, port := range ports {
				for _, l := range port.Links {
					e.exit(n, nodes, port, l)
				}
			}
		}
	}
}

// named returns the ports that may have their names.
func (e *expander) named(n *spec.Node, ports []spec.Port, field string) []spec.Port {
	return slices.DeleteFunc(ports, func(port spec.Port) bool {
		_, reserved := lifecycle.Of(port.Name)
		if reserved || port.Name == "" || port.Name == "error" && field == "inbounds" || strings.ContainsAny(port.Name, "[]") {
			e.report(n, diag.Errorf(diag.CodeSubgraph, "%q cannot be the name of a port here", port.Name).
				WithHint("give it another name").At(port.Pos, field))
			return true
		}
		return false
	})
}

// outPorts returns the names of ports, error last.
func outPorts(ports []spec.Port) []string {
	var names []string
	for _, port := range ports {
		if port.Name != "error" {
			names = append(names, port.Name)
		}
	}
	if len(names) < len(ports) {
		names = append(names, "error")
	}
	return names
}

// exit links an out-port of a node of a sub-graph to one of the sub-graph.
func (e *expander) exit(n *spec.Node, nodes []*spec.Node, port spec.Port, l spec.Link) {
	i := slices.IndexFunc(nodes, func(inner *spec.Node) bool {
		return l.Name != "" && inner.Name == l.Name || l.ID != "" && inner.ID == l.ID
	})
	if i < 0 {
		d := diag.Errorf(diag.CodeUnknownTarget, "no node %q in %s", l.Name+l.ID, n.Path())
		var names []string
		for _, inner := range nodes {
			names = append(names, inner.Name)
		}
		if !d.Suggest(l.Name, names) {
			d.Hint = "name one of its specs: " + strings.Join(names[:min(len(names), 10)], ", ")
		}
		e.report(n, d.At(l.NamePos, "outbounds."+port.Name))
		return
	}
	addLink(nodes[i], l.Port, l.PortPos, spec.Link{Exit: true, Port: port.Name, Pos: l.Pos, NamePos: l.NamePos, PortPos: l.PortPos})
}

// report adds findings about a node. One without a place gets the place of the node.
func (e *expander) report(n *spec.Node, list ...*diag.Diagnostic) {
	for _, d := range list {
		if d.Node == "" {
			d.Node = n.Path()
		}
		if d.Node == "" {
			d.Node = n.Kind
		}
		if !d.Pos.IsValid() {
			d.Pos = n.Pos
		}
		d.UsedAt = n.UsedAt
		e.list.Add(d)
	}
}
