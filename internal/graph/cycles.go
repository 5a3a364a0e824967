package graph

import "slices"

// cut marks the links that lead back: those that close a cycle on a walk in depth from where paths
// begin, then from nodes without a link to them, then from the others, each in their order. So a cut is
// where a reader of the document meets a node that was there before.
func (p *part) cut() {
	next := make([][]int, len(p.vertices)) // links by from
	targets := make([]bool, len(p.vertices))
	for i, k := range p.links {
		next[k.from] = append(next[k.from], i)
		targets[k.to] = true
	}
	var starts []int
	for v := range p.vertices {
		starts = append(starts, v)
	}
	order := func(v int) int {
		switch {
		case p.vertices[v].begins:
			return 0
		case !targets[v]:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(starts, func(a, b int) int { return order(a) - order(b) })

	const unseen, open, done = 0, 1, 2
	state := make([]int, len(p.vertices))
	type step struct{ vertex, next int }
	for _, start := range starts {
		if state[start] != unseen {
			continue
		}
		state[start] = open
		for walk := []step{{start, 0}}; len(walk) > 0; {
			at := &walk[len(walk)-1]
			if at.next == len(next[at.vertex]) {
				state[at.vertex] = done
				walk = walk[:len(walk)-1]
				continue
			}
			k := &p.links[next[at.vertex][at.next]]
			at.next++
			switch state[k.to] {
			case open:
				k.back = true
			case unseen:
				state[k.to] = open
				walk = append(walk, step{k.to, 0})
			}
		}
	}
}
