// Package diagram draws workflows: which nodes and links a picture has, where they are, and the picture
// as SVG, as Mermaid or as data.
//
// Read [Of] first. Places are found by package graph.
//
// The package must not know how a workflow runs, or what shows the picture.
package diagram

import (
	"math"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/graph"
	"github.com/uniflow-labs/uniflow/node"
)

// A Diagram is the picture of one namespace. Lengths are in CSS pixels.
type Diagram struct {
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Nodes  []Node  `json:"nodes"` // sub-graphs come before what is in them
	Links  []Link  `json:"links"`
}

// A Node is a box with its upper left corner and its size.
type Node struct {
	ID        string  `json:"id"`
	Kind      string  `json:"kind"`
	Namespace string  `json:"namespace"`
	Name      string  `json:"name,omitempty"` // without the names of the sub-graphs around it
	Path      string  `json:"path,omitempty"` // with them, as in metrics and logs; empty as the name of the spec
	File      string  `json:"file,omitempty"`
	Line      int     `json:"line,omitempty"`
	Col       int     `json:"col,omitempty"`
	Group     Group   `json:"group"`
	Outer     int     `json:"outer"`              // index of the sub-graph that it is in; -1 for none
	Subgraph  bool    `json:"subgraph,omitempty"` // it has nodes of its own
	Open      bool    `json:"open,omitempty"`     // they are drawn in it
	X         float64 `json:"x"`
	Y         float64 `json:"y"`
	Width     float64 `json:"width"`
	Height    float64 `json:"height"`
}

// words are what is written in the box: the name and the kind, or the kind alone.
func (n *Node) words() (title, below string) {
	if n.Name == "" || n.Name == n.Kind {
		return n.Kind, ""
	}
	return n.Name, n.Kind
}

// A Link is drawn along its path: x and y of its start, and then, for each cubic Bézier curve, x and y of
// its two control points and its end.
type Link struct {
	From    int       `json:"from"` // indexes of nodes
	To      int       `json:"to"`
	Out     string    `json:"out"` // names of ports, as the document has them
	In      string    `json:"in"`
	OutPort int       `json:"out_port"` // as in [uniflow.Link]
	InPort  int       `json:"in_port"`
	Path    []float64 `json:"path"`
}

// A Group is what a node does, as far as its hue and its sign tell.
type Group string

// The groups.
const (
	Trigger Group = "trigger" // it starts processes
	Net     Group = "net"     // it talks to another system
	Code    Group = "code"    // it runs code of the document
	Control Group = "control" // it decides where packets go, or anything else
)

func groupOf(v *node.Vertex) Group {
	const asks = node.FailsByStatus | node.TakesStatements
	switch {
	case v.Def == nil:
		return Control
	case v.Def.Begins():
		return Trigger
	case v.Def.Role.Has(node.Connects) || v.Traits.Is&asks != 0:
		return Net
	case v.Def.Config.Has("code"):
		return Code
	}
	return Control
}

// Size of a box, which grows with the ports that links use.
const (
	boxWidth  = 200.0
	boxHeight = 48.0
	portGap   = 14.0
)

// diagramGap is the distance of diagrams in one picture.
const diagramGap = 48.0

// Of draws what a namespace has, without tests and what only these lead to. Sub-graphs show their nodes
// in place if open returns true for their id; a nil open opens none.
func Of(o uniflow.Outline, namespace string, open func(id string) bool) Diagram {
	index := make(map[string]int, len(o.Nodes))
	inside := make([]bool, len(o.Nodes)) // whether a node has others in it
	for i, ref := range o.Nodes {
		index[ref.ID] = i
		if outer := o.Outer[i]; outer >= 0 {
			inside[outer] = true
		}
	}
	hidden := tests(o, index)
	d := Diagram{Nodes: []Node{}, Links: []Link{}}
	shown := make([]int, len(o.Nodes)) // the index in the diagram; -1 for others
	for i, ref := range o.Nodes {
		shown[i] = -1
		outer := o.Outer[i]
		if ref.Namespace != namespace || hidden[i] || outer >= 0 && (shown[outer] < 0 || !d.Nodes[shown[outer]].Open) {
			continue
		}
		n := Node{
			ID: ref.ID, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Path: ref.Name, File: ref.Pos.File, Line: ref.Pos.Line, Col: ref.Pos.Col,
			Group: groupOf(&o.Vertices[i]), Outer: -1, Subgraph: inside[i], Width: boxWidth,
		}
		n.Open = n.Subgraph && open != nil && open(ref.ID)
		if outer >= 0 {
			n.Outer = shown[outer]
			n.Name = within(o.Nodes[outer], n.Name)
		}
		shown[i] = len(d.Nodes)
		d.Nodes = append(d.Nodes, n)
	}
	for _, l := range o.Links {
		if from, to := shown[index[l.From.ID]], shown[index[l.To.ID]]; from >= 0 && to >= 0 {
			d.Links = append(d.Links, Link{From: from, To: to, Out: l.Out, In: l.In, OutPort: l.OutPort, InPort: l.InPort})
		}
	}
	d.place()
	return d
}

// Add draws another diagram below this one.
func (d *Diagram) Add(other Diagram) {
	first, top := len(d.Nodes), d.Height
	if first > 0 && len(other.Nodes) > 0 {
		top += diagramGap
	}
	for _, n := range other.Nodes {
		if n.Y += top; n.Outer >= 0 {
			n.Outer += first
		}
		d.Nodes = append(d.Nodes, n)
	}
	for _, l := range other.Links {
		l.From, l.To = l.From+first, l.To+first
		for i := 1; i < len(l.Path); i += 2 {
			l.Path[i] += top
		}
		d.Links = append(d.Links, l)
	}
	d.Width, d.Height = max(d.Width, other.Width), top+other.Height
}

// Hide replaces the texts of documents by what redact returns. The picture's own words stay: a secret may
// be one of them.
func (d *Diagram) Hide(redact func(string) string) {
	for i := range d.Nodes {
		n := &d.Nodes[i]
		n.ID, n.Name, n.Path, n.Namespace, n.File = redact(n.ID), redact(n.Name), redact(n.Path), redact(n.Namespace), redact(n.File)
	}
	for i := range d.Links {
		l := &d.Links[i]
		l.Out, l.In = redact(l.Out), redact(l.In)
	}
}

// within returns the name of a node in its sub-graph; none for one that has only a number there.
func within(outer node.Ref, name string) string {
	title := outer.Name
	if title == "" {
		title = outer.Kind
	}
	name = strings.TrimPrefix(name, title+"/")
	if strings.HasPrefix(name, "$") {
		return ""
	}
	return name
}

// tests returns which nodes are tests, or judge them, and those that only such nodes lead to.
func tests(o uniflow.Outline, index map[string]int) []bool {
	hidden := make([]bool, len(o.Nodes))
	into := make([][]int, len(o.Nodes))
	for _, l := range o.Links {
		into[index[l.To.ID]] = append(into[index[l.To.ID]], index[l.From.ID])
	}
	for i, v := range o.Vertices {
		hidden[i] = v.Def != nil && (v.Def.Role.Has(node.Tests) || v.Def.Role.Has(node.Judges))
	}
	for more := true; more; {
		more = false
		for i, from := range into {
			if !hidden[i] && len(from) > 0 && !slices.ContainsFunc(from, func(f int) bool { return !hidden[f] }) {
				hidden[i], more = true, true
			}
		}
	}
	return hidden
}

// lastPorts is where the ports that have no index of their own come, after the others.
const lastPorts = 1 << 20

// place finds where all is.
func (d *Diagram) place() {
	g := graph.Graph{Nodes: make([]graph.Node, len(d.Nodes)), Links: make([]graph.Link, len(d.Links))}
	ports := make([]map[[2]int]bool, len(d.Nodes)) // that links use at the sides of a node
	for i := range ports {
		ports[i] = make(map[[2]int]bool)
	}
	for i, l := range d.Links {
		out := l.OutPort
		if out < 0 {
			out = lastPorts - out
		}
		g.Links[i] = graph.Link{From: l.From, To: l.To, Out: out, In: l.InPort}
		ports[l.From][[2]int{1, out}] = true
		ports[l.To][[2]int{0, l.InPort}] = true
	}
	for i, n := range d.Nodes {
		var most [2]int
		for p := range ports[i] {
			most[p[0]]++
		}
		g.Nodes[i] = graph.Node{Width: n.Width, Height: max(boxHeight, portGap*float64(max(most[0], most[1])+1)), Outer: n.Outer, Begins: n.Group == Trigger}
	}
	placed := graph.Layout(g)
	d.Width, d.Height = placed.Width, placed.Height
	for i, box := range placed.Boxes {
		n := &d.Nodes[i]
		n.X, n.Y, n.Width, n.Height = round(box.X), round(box.Y), round(box.Width), round(box.Height)
	}
	for i, path := range placed.Paths {
		for _, p := range path {
			d.Links[i].Path = append(d.Links[i].Path, round(p.X), round(p.Y))
		}
	}
}

// round keeps a tenth of a pixel: more is not seen, and makes the picture long.
func round(x float64) float64 { return math.Round(x*10) / 10 }
