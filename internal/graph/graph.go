// Package graph places the nodes of a directed graph and routes its links, from left to right. The
// same graph gives the same picture.
//
// Read [Graph] first, then [Layout], which is in steps: cycles are cut (cycles.go), nodes get layers
// (rank.go), the nodes of a layer an order (order.go) and a height (place.go), links a path (route.go).
// It is the method of Sugiyama, Tagawa and Toda, 1981, with the parts that each file names.
//
// The package must not know what the nodes are.
package graph

import (
	"math"
	"slices"
)

// A Graph is what is drawn.
type Graph struct {
	Nodes []Node
	Links []Link
}

// A Node is a box. One that others have as their Outer is a frame around them.
type Node struct {
	Width, Height float64 // of a frame: at least
	Outer         int     // the index of the frame that it is in, which comes before it; -1 for none
	Begins        bool    // links lead away from it where a cycle has to be cut
}

// A Link leads from the right of a node to the left of another one. Both are in the same frame, or
// one is the frame of the other: the link is in it then, from its left side or to its right one.
type Link struct {
	From, To int // indexes of nodes
	Out, In  int // which places at their sides, from the top; links with the same one share it
}

// Placed is where all is, in the units of the sizes of nodes.
type Placed struct {
	Width, Height float64
	Boxes         []Box     // by node
	Paths         [][]Point // by link: a point, and then three for each cubic Bézier curve that follows
}

// A Box is where a node is: its upper left corner, and its size.
type Box struct{ X, Y, Width, Height float64 }

// A Point is one of a path.
type Point struct{ X, Y float64 }

// Distances.
const (
	layerGap  = 72.0 // between layers; links bend there
	nodeGap   = 24.0 // between nodes of a layer
	linkGap   = 12.0 // between links that pass a layer, and nodes
	partGap   = 48.0 // between parts that no link joins
	frameTop  = 32.0 // in a frame, for its title
	frameSide = 20.0
)

// shape is the width of a picture by its height that parts are arranged for.
const shape = 1.6

// Layout places a graph.
func Layout(g Graph) *Placed {
	p := &Placed{Boxes: make([]Box, len(g.Nodes)), Paths: make([][]Point, len(g.Links))}
	l := &levels{graph: g, placed: p, inner: make([][]int, len(g.Nodes)+1), links: make([][]int, len(g.Nodes)+1)}
	for i, n := range g.Nodes {
		l.inner[n.Outer+1] = append(l.inner[n.Outer+1], i)
	}
	for i, k := range g.Links {
		frame := g.Nodes[k.From].Outer
		switch {
		case g.Nodes[k.To].Outer == k.From:
			frame = k.From
		case frame == k.To:
		case g.Nodes[k.To].Outer != frame:
			continue // nothing leads there
		}
		l.links[frame+1] = append(l.links[frame+1], i)
	}
	p.Width, p.Height = l.place(-1)
	for i, n := range g.Nodes { // frames come before what is in them
		if n.Outer >= 0 {
			p.Boxes[i].X += p.Boxes[n.Outer].X
			p.Boxes[i].Y += p.Boxes[n.Outer].Y
		}
	}
	for frame := range g.Nodes {
		for _, i := range l.links[frame+1] {
			move(p.Paths[i], p.Boxes[frame].X, p.Boxes[frame].Y)
		}
	}
	return p
}

// levels places the nodes of one frame after the other, the innermost first. Frame -1 is the picture.
type levels struct {
	graph  Graph
	placed *Placed
	inner  [][]int // the nodes of a frame, by its index plus 1
	links  [][]int // those that are in it
}

// place places what is in a frame, relative to its corner, and returns the size of the frame.
func (l *levels) place(frame int) (width, height float64) {
	for _, i := range l.inner[frame+1] {
		n := l.graph.Nodes[i]
		box := &l.placed.Boxes[i]
		if box.Width, box.Height = n.Width, n.Height; len(l.inner[i+1]) > 0 {
			w, h := l.place(i)
			box.Width, box.Height = max(n.Width, w), max(n.Height, h)
		}
	}
	parts := l.parts(frame)
	widest, area := 0.0, 0.0
	for _, part := range parts {
		part.layout()
		widest = max(widest, part.width)
		area += (part.width + partGap) * (part.height + partGap)
	}
	left, top := 0.0, 0.0
	if frame >= 0 {
		left, top = frameSide, frameTop
	}
	limit := max(widest, math.Sqrt(area*shape))
	x, y, row := 0.0, 0.0, 0.0
	for _, part := range parts { // in rows
		if x > 0 && x+part.width > limit {
			x, y, row = 0, y+row+partGap, 0
		}
		l.take(part, left+x, top+y)
		width, height = max(width, x+part.width), max(height, y+part.height)
		x, row = x+part.width+partGap, max(row, part.height)
	}
	if frame >= 0 {
		width, height = width+2*frameSide, height+frameTop+frameSide
		l.attach(frame, width)
	}
	return width, height
}

// parts returns the parts of a frame that no link joins, in the order of their first nodes. With
// links to the frame itself there is one part.
func (l *levels) parts(frame int) []*part {
	nodes := l.inner[frame+1]
	of := make(map[int]int, len(nodes)) // the first node of the part, as a forest
	for _, i := range nodes {
		of[i] = i
	}
	first := func(i int) int {
		for of[i] != i {
			of[i] = of[of[i]]
			i = of[i]
		}
		return i
	}
	framed := false
	for _, i := range l.links[frame+1] {
		k := l.graph.Links[i]
		if k.From == frame || k.To == frame {
			framed = true
			continue
		}
		if a, b := first(k.From), first(k.To); a != b {
			of[max(a, b)] = min(a, b)
		}
	}
	var parts []*part
	byFirst := make(map[int]*part)
	at := func(i int) *part {
		root := -1
		if !framed {
			root = first(i)
		}
		if byFirst[root] == nil {
			byFirst[root] = &part{index: make(map[int]int), enter: -1, leave: -1}
			parts = append(parts, byFirst[root])
		}
		return byFirst[root]
	}
	for _, i := range nodes {
		box := l.placed.Boxes[i]
		at(i).node(i, box.Width, box.Height, l.graph.Nodes[i].Begins)
	}
	if framed {
		parts[0].sides()
	}
	for _, i := range l.links[frame+1] {
		k := l.graph.Links[i]
		inside := k.From
		if inside == frame {
			inside = k.To
		}
		at(inside).link(i, k)
	}
	return parts
}

// take moves a part to its place.
func (l *levels) take(p *part, x, y float64) {
	for _, v := range p.vertices[:p.real] {
		if v.node >= 0 {
			box := &l.placed.Boxes[v.node]
			box.X, box.Y = x+v.x, y+v.y-v.height/2
		}
	}
	for i, k := range p.links {
		move(p.paths[i], x, y)
		l.placed.Paths[k.index] = p.paths[i]
	}
}

// attach lets the links of a frame itself begin and end at its sides.
func (l *levels) attach(frame int, width float64) {
	for _, i := range l.links[frame+1] {
		k, path := l.graph.Links[i], l.placed.Paths[i]
		if k.From == frame {
			path = append([]Point{{0, path[0].Y}}, append(line(Point{0, path[0].Y}, path[0]), path[1:]...)...)
		}
		if k.To == frame {
			end := path[len(path)-1]
			path = append(path, line(end, Point{width, end.Y})...)
		}
		l.placed.Paths[i] = path
	}
}

func move(path []Point, x, y float64) {
	for i := range path {
		path[i].X += x
		path[i].Y += y
	}
}

// A part is a graph whose nodes are joined, and what has been found about it.
type part struct {
	vertices []vertex
	real     int         // the first vertices, which are nodes and sides of the frame; links pass the others
	index    map[int]int // the vertex of a node
	enter    int         // the vertex of the left side of the frame; -1 for none
	leave    int         // of its right side
	links    []link
	paths    [][]Point // by link

	layers        [][]int // vertices by layer, from the left, each from the top
	pos           []int   // of a vertex in its layer
	width, height float64
}

// A vertex is a node, a side of the frame, or a place where a link passes a layer.
type vertex struct {
	node          int // -1 for others
	begins        bool
	width, height float64
	rank          int // of its layer
	x, y          float64
	left, right   []segment // to the layers next to it
	ins, outs     []int     // the places at its sides that links use, in order
}

// A segment is the share of a link between two layers.
type segment struct {
	to          int     // the vertex at its other end
	here, there float64 // where it ends at the vertices, from their middles
	from, into  float64 // the same by their heights, from -0.5 to 0.5
	passes      bool    // both ends are of links that pass
}

// A link is one of a part, between vertices.
type link struct {
	index    int // in the graph
	from, to int
	out, in  int
	back     bool  // it leads to the left, or back to its node
	chain    []int // the vertices that it passes, from the left
}

func (p *part) node(i int, width, height float64, begins bool) {
	p.index[i] = len(p.vertices)
	p.vertices = append(p.vertices, vertex{node: i, width: width, height: height, begins: begins})
}

// sides adds the sides of the frame.
func (p *part) sides() {
	p.enter, p.leave = len(p.vertices), len(p.vertices)+1
	p.vertices = append(p.vertices, vertex{node: -1, height: linkGap, begins: true}, vertex{node: -1, height: linkGap})
}

func (p *part) link(i int, k Link) {
	from, ok := p.index[k.From]
	if !ok {
		from = p.enter
	}
	to, ok := p.index[k.To]
	if !ok {
		to = p.leave
	}
	p.links = append(p.links, link{index: i, from: from, to: to, out: k.Out, in: k.In})
}

// layout places the vertices of the part, and routes its links.
func (p *part) layout() {
	p.real = len(p.vertices)
	for _, k := range p.links {
		v := &p.vertices[k.from]
		v.outs = append(v.outs, k.out)
		v = &p.vertices[k.to]
		v.ins = append(v.ins, k.in)
	}
	for i := range p.vertices {
		v := &p.vertices[i]
		slices.Sort(v.outs)
		slices.Sort(v.ins)
		v.outs, v.ins = slices.Compact(v.outs), slices.Compact(v.ins)
	}
	p.cut()
	p.rank()
	p.pass()
	p.order()
	p.place()
	p.route()
}

// share returns where a place is at the side of a vertex, from -0.5 to 0.5.
func share(places []int, place int) float64 {
	i, _ := slices.BinarySearch(places, place)
	return float64(i+1)/float64(len(places)+1) - 0.5
}
