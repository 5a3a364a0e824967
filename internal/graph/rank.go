package graph

import (
	"math"
	"slices"
)

// rank gives each vertex a layer, so that links lead to the right and are as short as they can be
// together: network simplex, as in Gansner, Koutsofios, North and Vo: A Technique for Drawing Directed
// Graphs, 1993, sections 2.3 and 2.4.
func (p *part) rank() {
	s := simplex{n: len(p.vertices)}
	weights := make(map[[2]int]int)
	for _, k := range p.links {
		switch {
		case k.from == k.to:
		case k.back:
			weights[[2]int{k.to, k.from}]++
		default:
			weights[[2]int{k.from, k.to}]++
		}
	}
	pairs := make([][2]int, 0, len(weights))
	for pair := range weights {
		pairs = append(pairs, pair)
	}
	slices.SortFunc(pairs, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	for _, pair := range pairs {
		s.edges = append(s.edges, edge{from: pair[0], to: pair[1], least: 1, weight: weights[pair]})
	}
	if p.enter >= 0 { // nothing is outside of the sides of a frame
		for v := range p.vertices {
			if v != p.enter && weights[[2]int{p.enter, v}] == 0 {
				s.edges = append(s.edges, edge{from: p.enter, to: v, least: 1})
			}
			if v != p.enter && v != p.leave && weights[[2]int{v, p.leave}] == 0 {
				s.edges = append(s.edges, edge{from: v, to: p.leave, least: 1})
			}
		}
	}
	s.run()
	for v := range p.vertices {
		p.vertices[v].rank = s.rank[v]
	}
}

// An edge demands a distance of ranks.
type edge struct {
	from, to      int
	least, weight int
	cut           int  // its cut value, if it is in the tree
	tree          bool // it is
}

// A simplex finds ranks with the least sum of weighted lengths of edges. Its graph has a vertex, has no cycle,
// is connected, and has one edge at most between two vertices.
type simplex struct {
	n     int
	edges []edge
	rank  []int

	at     [][]int // edges by vertex
	tree   [][]int // those of the tree, by vertex
	inTree []int   // the edges of the tree
	parent []int   // by vertex, the edge to it in the tree; -1 at the root
	low    []int   // by vertex, the least number below it
	number []int   // by vertex, in postorder
	byTurn []int   // vertices by number
	search int     // where the search for the next edge that leaves the tree goes on
}

func (s *simplex) run() {
	s.rank = make([]int, s.n)
	s.at, s.tree = make([][]int, s.n), make([][]int, s.n)
	for i, e := range s.edges {
		s.at[e.from] = append(s.at[e.from], i)
		s.at[e.to] = append(s.at[e.to], i)
	}
	s.longest()
	s.span()
	s.parent, s.low, s.number, s.byTurn = make([]int, s.n), make([]int, s.n), make([]int, s.n), make([]int, s.n)
	s.visit(0, -1, 0)
	s.cuts()
	// Each exchange shortens the sum or leaves it as it is; what is left after so many is drawn as it is.
	for range 20*s.n + 1000 {
		leaving := s.leaving()
		if leaving < 0 {
			break
		}
		s.exchange(leaving, s.entering(leaving))
	}
	least := math.MaxInt
	for _, r := range s.rank {
		least = min(least, r)
	}
	for v := range s.rank {
		s.rank[v] -= least
	}
}

// longest gives each vertex the least rank that its edges allow.
func (s *simplex) longest() {
	waits := make([]int, s.n)
	for _, e := range s.edges {
		waits[e.to]++
	}
	var ready []int
	for v := range s.n {
		if waits[v] == 0 {
			ready = append(ready, v)
		}
	}
	for i := 0; i < len(ready); i++ {
		for _, at := range s.at[ready[i]] {
			if e := s.edges[at]; e.from == ready[i] {
				s.rank[e.to] = max(s.rank[e.to], s.rank[e.from]+e.least)
				if waits[e.to]--; waits[e.to] == 0 {
					ready = append(ready, e.to)
				}
			}
		}
	}
}

func (s *simplex) slack(e *edge) int { return s.rank[e.to] - s.rank[e.from] - e.least }

// span makes a spanning tree of edges without slack: it moves trees towards the first one, by the
// edge between them that has the least.
func (s *simplex) span() {
	of := make([]int, s.n) // the tree of a vertex, from 1
	var members [][]int
	for v := range s.n {
		if of[v] > 0 {
			continue
		}
		tree := len(members) + 1
		of[v] = tree
		list := []int{v}
		for i := 0; i < len(list); i++ {
			for _, at := range s.at[list[i]] {
				e := &s.edges[at]
				if other := e.from + e.to - list[i]; of[other] == 0 && s.slack(e) == 0 {
					of[other] = tree
					list = append(list, other)
					s.join(at)
				}
			}
		}
		members = append(members, list)
	}
	for list := members[0]; len(list) < s.n; {
		nearest := -1
		for at := range s.edges {
			e := &s.edges[at]
			if (of[e.from] == 1) != (of[e.to] == 1) && (nearest < 0 || s.slack(e) < s.slack(&s.edges[nearest])) {
				nearest = at
			}
		}
		e := &s.edges[nearest]
		moved, shift := of[e.to], -s.slack(e)
		if moved == 1 {
			moved, shift = of[e.from], -shift
		}
		for _, v := range members[moved-1] {
			s.rank[v] += shift
			of[v] = 1
		}
		list = append(list, members[moved-1]...)
		s.join(nearest)
	}
}

func (s *simplex) join(at int) {
	e := &s.edges[at]
	e.tree = true
	s.inTree = append(s.inTree, at)
	s.tree[e.from] = append(s.tree[e.from], at)
	s.tree[e.to] = append(s.tree[e.to], at)
}

// visit numbers the tree below a vertex, from a number on, which the vertices below it have had
// among them.
func (s *simplex) visit(v, parent, from int) {
	type step struct{ vertex, next int }
	s.parent[v], s.low[v] = parent, from
	for walk := []step{{v, 0}}; len(walk) > 0; {
		at := &walk[len(walk)-1]
		if at.next == len(s.tree[at.vertex]) {
			s.number[at.vertex], s.byTurn[from] = from, at.vertex
			from++
			walk = walk[:len(walk)-1]
			continue
		}
		edge := s.tree[at.vertex][at.next]
		at.next++
		if edge == s.parent[at.vertex] {
			continue
		}
		below := s.edges[edge].from + s.edges[edge].to - at.vertex
		s.parent[below], s.low[below] = edge, from
		walk = append(walk, step{below, 0})
	}
}

// child returns the end of an edge of the tree that is below the other one.
func (s *simplex) child(e *edge) int {
	if s.number[e.from] < s.number[e.to] {
		return e.from
	}
	return e.to
}

// below reports whether a vertex is in the tree below another one, or is that.
func (s *simplex) below(v, top int) bool {
	return s.low[top] <= s.number[v] && s.number[v] <= s.number[top]
}

// cuts computes the cut values of the edges of the tree, from those of the edges below.
func (s *simplex) cuts() {
	for _, v := range s.byTurn[:s.n-1] {
		up := &s.edges[s.parent[v]]
		isTail := up.from == v
		up.cut = up.weight
		for _, at := range s.at[v] {
			e := &s.edges[at]
			if at == s.parent[v] {
				continue
			}
			value := e.weight
			if e.tree {
				value -= e.cut
			}
			if (e.from == v) != isTail {
				value = -value
			}
			up.cut += value
		}
	}
}

// leaving returns an edge of the tree whose cut value is below 0, the least of some; -1 for none.
func (s *simplex) leaving() int {
	const some = 30
	best, found := -1, 0
	for i := range s.inTree {
		at := s.inTree[(s.search+i)%len(s.inTree)]
		if s.edges[at].cut >= 0 {
			continue
		}
		if best < 0 || s.edges[at].cut < s.edges[best].cut {
			best = at
		}
		if found++; found == some {
			s.search = (s.search + i + 1) % len(s.inTree)
			break
		}
	}
	return best
}

// entering returns the edge with the least slack that may replace one of the tree: it joins the two
// halves the other way round.
func (s *simplex) entering(leaving int) int {
	e := &s.edges[leaving]
	top := s.child(e)
	into := e.from == top // it leads into the half below
	best := -1
	for turn := s.low[top]; turn <= s.number[top]; turn++ {
		v := s.byTurn[turn]
		for _, at := range s.at[v] {
			f := &s.edges[at]
			if f.tree || (f.to == v) != into || s.below(f.from+f.to-v, top) {
				continue
			}
			if best < 0 || s.slack(f) < s.slack(&s.edges[best]) {
				best = at
			}
		}
	}
	return best
}

// exchange replaces an edge of the tree.
func (s *simplex) exchange(leaving, entering int) {
	e, f := &s.edges[leaving], &s.edges[entering]
	top := s.child(e)
	shift := s.slack(f)
	if s.below(f.to, top) {
		shift = -shift
	}
	for turn := s.low[top]; turn <= s.number[top]; turn++ {
		s.rank[s.byTurn[turn]] += shift
	}
	cut := e.cut
	meet := s.update(f.from, f.to, cut, true)
	s.update(f.to, f.from, cut, false)
	f.cut, e.cut = -cut, 0
	e.tree, f.tree = false, true
	s.inTree[slices.Index(s.inTree, leaving)] = entering
	for _, v := range []int{e.from, e.to} {
		s.tree[v] = slices.Delete(s.tree[v], slices.Index(s.tree[v], leaving), slices.Index(s.tree[v], leaving)+1)
	}
	for _, v := range []int{f.from, f.to} {
		s.tree[v] = append(s.tree[v], entering)
	}
	s.visit(meet, s.parent[meet], s.low[meet])
}

// update changes the cut values on the way up from a vertex, until another one is below. It returns
// where they meet.
func (s *simplex) update(v, other, cut int, out bool) int {
	for !s.below(other, v) {
		e := &s.edges[s.parent[v]]
		if (e.from == v) == out {
			e.cut += cut
		} else {
			e.cut -= cut
		}
		v = e.from + e.to - v
	}
	return v
}
