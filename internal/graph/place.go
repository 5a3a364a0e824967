package graph

import (
	"math"
	"slices"
)

// place gives each vertex its place. Heights are those of Brandes and Köpf: Fast and Simple Horizontal
// Coordinate Assignment, 2001: vertices are lined up with the medians of their neighbours, in four ways,
// whose middle is taken. Two things differ: what is lined up are the ends of links, which are not in the
// middle of nodes, and lines are moved together along the longest paths, and then back.
func (p *part) place() {
	p.width = 0
	for _, layer := range p.layers {
		widest := 0.0
		for _, v := range layer {
			widest = max(widest, p.vertices[v].width)
		}
		for _, v := range layer {
			p.vertices[v].x = p.width
			if v >= p.real {
				p.vertices[v].width = widest
			}
		}
		p.width += widest + layerGap
	}
	p.width -= layerGap

	crossed := p.conflicts()
	var ways [4][]float64
	for i := range ways {
		ways[i] = p.line(i&1 == 1, i&2 == 2, crossed)
	}
	p.middle(ways)
}

// conflicts returns the segments that cross one of a link which passes on both sides: those are straight.
func (p *part) conflicts() map[[2]int]bool {
	crossed := make(map[[2]int]bool)
	for i := 1; i < len(p.layers); i++ {
		before, layer := p.layers[i-1], p.layers[i]
		from, begun := 0, 0
		for j, v := range layer {
			to, straight := len(before), false
			for _, s := range p.vertices[v].left {
				if s.passes {
					to, straight = p.pos[s.to], true
				}
			}
			if !straight && j < len(layer)-1 {
				continue
			}
			for _, w := range layer[begun : j+1] {
				for _, s := range p.vertices[w].left {
					if at := p.pos[s.to]; !s.passes && (at < from || at > to) {
						crossed[[2]int{s.to, w}] = true
					}
				}
			}
			begun, from = j+1, to
		}
	}
	return crossed
}

// line lines the vertices up with neighbours to their left or right, from the top or the bottom, and
// returns their heights.
func (p *part) line(right, bottom bool, crossed map[[2]int]bool) []float64 {
	n := len(p.vertices)
	root, next, shift := make([]int, n), make([]int, n), make([]float64, n)
	for v := range n {
		root[v], next[v] = v, v
	}
	sign := 1.0
	layers := p.snapshot()
	if right {
		slices.Reverse(layers)
	}
	if bottom {
		sign = -1
		for _, layer := range layers {
			slices.Reverse(layer)
		}
	}
	pos := make([]int, n)
	for _, layer := range layers {
		for i, v := range layer {
			pos[v] = i
		}
	}
	for _, layer := range layers {
		last := -1
		for _, v := range layer {
			near := p.vertices[v].left
			if right {
				near = p.vertices[v].right
			}
			near = slices.Clone(near)
			slices.SortStableFunc(near, func(a, b segment) int {
				if c := pos[a.to] - pos[b.to]; c != 0 {
					return c
				}
				return int(math.Copysign(1, sign*(a.there-b.there)))
			})
			for _, m := range medians(len(near)) {
				s := near[m]
				pair := [2]int{s.to, v}
				if right {
					pair = [2]int{v, s.to}
				}
				if next[v] == v && last < pos[s.to] && !crossed[pair] {
					next[s.to] = v
					root[v] = root[s.to]
					next[v] = root[v]
					shift[v] = shift[s.to] + sign*(s.there-s.here)
					last = pos[s.to]
				}
			}
		}
	}
	heights := p.compact(layers, root, shift)
	for v := range heights {
		heights[v] *= sign
	}
	return heights
}

// medians returns the indexes in the middle of so many.
func medians(n int) []int {
	switch {
	case n == 0:
		return nil
	case n%2 == 1:
		return []int{n / 2}
	}
	return []int{n/2 - 1, n / 2}
}

// compact moves the lines, each of which has a root, as near to each other as their vertices may be.
func (p *part) compact(layers [][]int, root []int, shift []float64) []float64 {
	type apart struct {
		line     int
		distance float64
	}
	n := len(p.vertices)
	after := make([][]apart, n)
	waits := make([]int, n)
	for _, layer := range layers {
		for i := 1; i < len(layer); i++ {
			u, v := layer[i-1], layer[i]
			gap := nodeGap
			if u >= p.real || v >= p.real {
				gap = linkGap
			}
			d := (p.vertices[u].height+p.vertices[v].height)/2 + gap + shift[u] - shift[v]
			after[root[u]] = append(after[root[u]], apart{root[v], d})
			waits[root[v]]++
		}
	}
	var turn []int
	for v := range n {
		if root[v] == v && waits[v] == 0 {
			turn = append(turn, v)
		}
	}
	at := make([]float64, n)
	for i := 0; i < len(turn); i++ {
		for _, a := range after[turn[i]] {
			at[a.line] = max(at[a.line], at[turn[i]]+a.distance)
			if waits[a.line]--; waits[a.line] == 0 {
				turn = append(turn, a.line)
			}
		}
	}
	for _, line := range slices.Backward(turn) {
		limit := math.Inf(1)
		for _, a := range after[line] {
			limit = min(limit, at[a.line]-a.distance)
		}
		if !math.IsInf(limit, 1) {
			at[line] = max(at[line], limit)
		}
	}
	heights := make([]float64, n)
	for v := range n {
		heights[v] = at[root[v]] + shift[v]
	}
	return heights
}

// middle gives each vertex the middle of its four heights, which are moved to where the lowest picture
// of them is.
func (p *part) middle(ways [4][]float64) {
	var tops, bottoms [4]float64
	lowest := 0
	for i, heights := range ways {
		tops[i], bottoms[i] = math.Inf(1), math.Inf(-1)
		for v, y := range heights {
			half := p.vertices[v].height / 2
			tops[i], bottoms[i] = min(tops[i], y-half), max(bottoms[i], y+half)
		}
		if bottoms[i]-tops[i] < bottoms[lowest]-tops[lowest] {
			lowest = i
		}
	}
	top := math.Inf(1)
	for v := range p.vertices {
		var four [4]float64
		for i, heights := range ways {
			if four[i] = heights[v] - tops[i] + tops[lowest]; i&2 == 2 { // from the bottom
				four[i] = heights[v] - bottoms[i] + bottoms[lowest]
			}
		}
		slices.Sort(four[:])
		p.vertices[v].y = (four[1] + four[2]) / 2
		top = min(top, p.vertices[v].y-p.vertices[v].height/2)
	}
	p.height = 0
	for i := range p.vertices {
		v := &p.vertices[i]
		v.y = max(v.y-top, v.height/2) // not -0
		p.height = max(p.height, v.y+v.height/2)
	}
}
