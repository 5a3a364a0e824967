package graph

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// random returns a graph as workflows are: mostly chains and branches, some links that join, and few
// that lead back.
func random(seed uint64, nodes, links int) Graph {
	r := rand.New(rand.NewPCG(seed, 1))
	var g Graph
	for i := range nodes {
		g.Nodes = append(g.Nodes, Node{Width: 200, Height: 48, Outer: -1, Begins: i%40 == 0})
		if i > 0 && i%40 != 0 {
			g.Links = append(g.Links, Link{From: max(0, i-1-r.IntN(5)), To: i, Out: r.IntN(4)})
		}
	}
	for len(g.Links) < links {
		from := r.IntN(nodes)
		to := from + 1 + r.IntN(12)
		switch r.IntN(20) {
		case 0:
			to = from - r.IntN(12)
		case 1:
			to = from + r.IntN(200) - 100
		}
		if to >= 0 && to < nodes {
			g.Links = append(g.Links, Link{From: from, To: to, Out: r.IntN(4), In: r.IntN(2)})
		}
	}
	return g
}

// framed puts nodes of a graph into frames, as deep as three, with links to their sides.
func framed(seed uint64) Graph {
	r := rand.New(rand.NewPCG(seed, 2))
	g := Graph{Nodes: []Node{{Width: 200, Height: 48, Outer: -1}}}
	for range 40 {
		outer := -1
		if len(g.Nodes) > 1 && r.IntN(3) > 0 {
			outer = r.IntN(len(g.Nodes))
		}
		i := len(g.Nodes)
		g.Nodes = append(g.Nodes, Node{Width: 200, Height: 48, Outer: outer})
		if outer >= 0 && r.IntN(3) == 0 {
			g.Links = append(g.Links, Link{From: outer, To: i, Out: r.IntN(3)}, Link{From: i, To: outer, In: r.IntN(2)})
		}
		for j := range i {
			if g.Nodes[j].Outer == outer && r.IntN(4) == 0 {
				g.Links = append(g.Links, Link{From: j, To: i, Out: r.IntN(3)})
			}
		}
	}
	return g
}

// check reports what must not be in a picture.
func check(t *testing.T, name string, g Graph) {
	t.Helper()
	p := Layout(g)
	if again := Layout(g); !reflect.DeepEqual(p, again) {
		t.Errorf("%s: the second picture is another one", name)
	}
	inside := func(i, frame int) bool {
		for ; i >= 0; i = g.Nodes[i].Outer {
			if i == frame {
				return true
			}
		}
		return false
	}
	for i, a := range p.Boxes {
		if a.X < 0 || a.Y < 0 || a.X+a.Width > p.Width+0.01 || a.Y+a.Height > p.Height+0.01 || a.Width < 200 || a.Height < 48 {
			t.Errorf("%s: node %d at %v is not in the picture of %v x %v", name, i, a, p.Width, p.Height)
		}
		for j := range i {
			b := p.Boxes[j]
			apart := a.X >= b.X+b.Width || b.X >= a.X+a.Width || a.Y >= b.Y+b.Height || b.Y >= a.Y+a.Height
			within := a.X > b.X && a.Y > b.Y && a.X+a.Width < b.X+b.Width && a.Y+a.Height < b.Y+b.Height
			if inside(i, j) && !within || !inside(i, j) && !apart {
				t.Errorf("%s: node %d at %v and node %d at %v", name, i, a, j, b)
			}
		}
	}
	over := 0
	for i, path := range p.Paths {
		k := g.Links[i]
		from, to := p.Boxes[k.From], p.Boxes[k.To]
		if len(path)%3 != 1 {
			t.Fatalf("%s: link %d has %d points", name, i, len(path))
		}
		start, end := Point{from.X + from.Width, path[0].Y}, Point{to.X, path[len(path)-1].Y}
		if g.Nodes[k.To].Outer == k.From {
			start.X = from.X
		}
		if g.Nodes[k.From].Outer == k.To {
			end.X = to.X + to.Width
		}
		if !near(path[0], start) || !near(path[len(path)-1], end) || start.Y < from.Y || start.Y > from.Y+from.Height || end.Y < to.Y || end.Y > to.Y+to.Height {
			t.Errorf("%s: link %d of %v to %v goes from %v to %v", name, i, from, to, path[0], path[len(path)-1])
		}
		if crosses(p, g, i) {
			over++
		}
	}
	if over > 0 {
		t.Errorf("%s: %d of %d links are over a node", name, over, len(g.Links))
	}
}

func near(a, b Point) bool { return max(a.X-b.X, b.X-a.X, a.Y-b.Y, b.Y-a.Y) < 0.01 }

// crosses reports whether a link is over a node that is in the same frame.
func crosses(p *Placed, g Graph, link int) bool {
	path, k := p.Paths[link], g.Links[link]
	frame := g.Nodes[k.From].Outer
	if g.Nodes[k.To].Outer == k.From {
		frame = k.From
	}
	for i := 0; i+3 < len(path); i += 3 {
		a, b, c, d := path[i], path[i+1], path[i+2], path[i+3]
		for step := 1; step < 16; step++ {
			u := float64(step) / 16
			v := 1 - u
			at := Point{v*v*v*a.X + 3*v*v*u*b.X + 3*v*u*u*c.X + u*u*u*d.X, v*v*v*a.Y + 3*v*v*u*b.Y + 3*v*u*u*c.Y + u*u*u*d.Y}
			for n, box := range p.Boxes {
				if g.Nodes[n].Outer == frame && at.X > box.X+0.01 && at.X < box.X+box.Width-0.01 && at.Y > box.Y && at.Y < box.Y+box.Height {
					return true
				}
			}
		}
	}
	return false
}

func TestRandom(t *testing.T) {
	for seed := range uint64(200) {
		nodes := 1 + int(seed)%60
		check(t, fmt.Sprintf("graph %d", seed), random(seed, nodes, nodes+nodes/3))
		check(t, fmt.Sprintf("frames %d", seed), framed(seed))
	}
}

// TestCycles has links that lead back, to the node itself, and twice between two.
func TestCycles(t *testing.T) {
	node := Node{Width: 200, Height: 48, Outer: -1}
	nodes := []Node{node, node, node, node}
	nodes[1].Begins = true
	for name, links := range map[string][]Link{
		"none":    nil,
		"itself":  {{From: 0, To: 0}, {From: 0, To: 1}},
		"pair":    {{From: 0, To: 1}, {From: 1, To: 0}, {From: 1, To: 0, Out: 1}},
		"ring":    {{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 3}, {From: 3, To: 0}},
		"several": {{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 0}, {From: 2, To: 3}, {From: 3, To: 1}, {From: 3, To: 3}},
	} {
		check(t, name, Graph{Nodes: nodes, Links: links})
	}
}

// TestCut cuts a cycle where it comes back to what begins.
func TestCut(t *testing.T) {
	node := Node{Width: 200, Height: 48, Outer: -1}
	g := Graph{Nodes: []Node{node, node, node}, Links: []Link{{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 0}}}
	g.Nodes[1].Begins = true
	p := Layout(g)
	if b := p.Boxes; b[1].X >= b[2].X || b[2].X >= b[0].X {
		t.Errorf("got %v", b)
	}
}

// TestStraight draws a chain as one line, and a second place below the first.
func TestStraight(t *testing.T) {
	node := Node{Width: 200, Height: 48, Outer: -1}
	g := Graph{Nodes: []Node{node, node, node, node}, Links: []Link{{From: 0, To: 1}, {From: 1, To: 2, Out: 1}, {From: 1, To: 3}}}
	p := Layout(g)
	for i, path := range p.Paths[:1] {
		if path[0].Y != path[len(path)-1].Y {
			t.Errorf("link %d bends: %v", i, path)
		}
	}
	if p.Boxes[3].Y >= p.Boxes[2].Y {
		t.Errorf("the first place is not above the second: %v", p.Boxes)
	}
}

// TestRank finds ranks that no exchange makes better: the cut value of each edge of the tree, by its
// definition, is what the simplex has, and not below 0.
func TestRank(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := simplex{n: 2 + r.IntN(40)}
		for to := 1; to < s.n; to++ {
			from := r.IntN(to)
			s.edges = append(s.edges, edge{from: from, to: to, least: 1, weight: r.IntN(4)})
			for other := range to {
				if other != from && r.IntN(8) == 0 {
					s.edges = append(s.edges, edge{from: other, to: to, least: 1, weight: r.IntN(4)})
				}
			}
		}
		s.run()
		for i, e := range s.edges {
			if length := s.rank[e.to] - s.rank[e.from]; length < 1 || e.tree && length > 1 {
				t.Errorf("seed %d: edge %d has the length %d", seed, i, length)
			}
			if want := cutValue(&s, i); e.tree && (e.cut != want || want < 0) {
				t.Errorf("seed %d: edge %d has the cut value %d, want %d, from 0", seed, i, e.cut, want)
			}
		}
	}
}

// cutValue is the weight of all edges from the half of the tree where one begins to the other half, less
// that of those which lead back.
func cutValue(s *simplex, at int) (value int) {
	half := map[int]bool{s.edges[at].from: true}
	for todo := []int{s.edges[at].from}; len(todo) > 0; {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, i := range s.tree[v] {
			if other := s.edges[i].from + s.edges[i].to - v; i != at && !half[other] {
				half[other] = true
				todo = append(todo, other)
			}
		}
	}
	for _, e := range s.edges {
		switch {
		case half[e.from] && !half[e.to]:
			value += e.weight
		case half[e.to] && !half[e.from]:
			value -= e.weight
		}
	}
	return value
}

func TestInversions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	for range 200 {
		ends := make([]float64, r.IntN(30))
		for i := range ends {
			ends[i] = float64(r.IntN(10))
		}
		want := 0
		for i, a := range ends {
			for _, b := range ends[:i] {
				if b > a {
					want++
				}
			}
		}
		if got := inversions(ends, make([]float64, len(ends))); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
}

// TestTime has limits far above what it takes on a quiet machine, which the benchmarks measure.
func TestTime(t *testing.T) {
	for _, size := range []struct {
		nodes, links int
		most         time.Duration
	}{{500, 700, 2 * time.Second}, {10_000, 14_000, 20 * time.Second}} {
		g, began := random(7, size.nodes, size.links), time.Now()
		Layout(g)
		if took := time.Since(began); took > size.most {
			t.Errorf("%d nodes took %v, want %v at most", size.nodes, took, size.most)
		}
	}
}

func BenchmarkLayout(b *testing.B) {
	for _, size := range [][2]int{{20, 25}, {500, 700}, {10_000, 14_000}} {
		g := random(7, size[0], size[1])
		b.Run(fmt.Sprintf("nodes=%d", size[0]), func(b *testing.B) {
			for b.Loop() {
				Layout(g)
			}
		})
	}
}
