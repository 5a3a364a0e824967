package exec

import (
	"cmp"
	"math"
	"slices"
)

// A chain finds how far one user went, from the events that were collected. It follows
// windowFunnel of ClickHouse 26.9 in every mode, ties included, and adds
// exclusions and funnels in any order.
//
// Events of one time are taken in the order of their steps; an event that is several
// steps is taken as each of them. Exclusions come before all steps, and then, for
// strict_order, events of no step.
type chain struct {
	hits     []hit // what was looked at, up to where it ended
	multiple bool  // an event is several steps

	first []int64 // by level: start of the latest chain, or none
	last  []int64 // by level: time of its last event
	set   []bool  // by level: whether a chain has reached it
	prior []int64 // strict_once: first as it was before the events of this time
	group []hit   // strict_once: the steps of this time
	owner []int   // scratch of matching
	seen  []bool  // scratch of matching
	done  []int64 // scratch of start
	later []int64 // scratch of start
}

// A hit is an event as one of the things that a funnel looks for.
type hit struct {
	t     int64
	kind  int16 // of steps from 1; nothing; exclusions are negative
	event int32 // in the trail
}

// nothing is the kind of an event of no step.
const nothing = 0

// none stands for the start of a chain where there is no chain.
const none = math.MinInt64

// expand lists the hits of a trail in the order in which they are taken.
func (c *chain) expand(f *funnel, trail []entry) {
	c.hits, c.multiple = c.hits[:0], false
	steps := uint64(1)<<f.steps - 1
	for lo := 0; lo < len(trail); {
		hi := lo + 1
		for hi < len(trail) && trail[hi].t == trail[lo].t {
			hi++
		}
		group := trail[lo:hi]
		var all uint64
		for i := range group {
			all |= group[i].mask
			m := group[i].mask & steps
			c.multiple = c.multiple || m&(m-1) != 0
		}
		if f.q.Modes.StrictOnce && len(group) > 1 {
			// Only together with strict_deduplication does it matter which of two
			// events of one step comes first; the order must not be that of the rows.
			slices.SortFunc(group, func(a, b entry) int { return cmp.Compare(a.mask&steps, b.mask&steps) })
		}
		t := group[0].t
		for x := range f.q.Exclude {
			for i := range group {
				if group[i].mask>>(f.steps+x)&1 != 0 {
					c.hits = append(c.hits, hit{t, -int16(x) - 1, int32(lo + i)})
				}
			}
		}
		if f.order >= 0 {
			for i := range group {
				if group[i].mask&steps == 0 {
					c.hits = append(c.hits, hit{t, nothing, int32(lo + i)})
				}
			}
		}
		for m := all & steps; m != 0; m &= m - 1 {
			k := lowest(m)
			for i := range group {
				if group[i].mask>>k&1 != 0 {
					c.hits = append(c.hits, hit{t, int16(k + 1), int32(lo + i)})
				}
			}
		}
		lo = hi
	}
}

func (c *chain) reset(steps int) {
	if len(c.first) != steps+1 {
		c.first, c.last, c.set = make([]int64, steps+1), make([]int64, steps+1), make([]bool, steps+1)
		c.prior, c.done, c.later = make([]int64, steps+1), make([]int64, steps+2), make([]int64, steps+2)
	}
	for k := range c.first {
		c.first[k], c.last[k], c.set[k], c.prior[k] = none, none, false, none
	}
}

// run returns the level that a trail reaches. It leaves in hits what was looked at.
func (c *chain) run(f *funnel, trail []entry) int {
	c.expand(f, trail)
	c.reset(f.steps)
	level, end := c.scan(f, c.hits)
	c.hits = c.hits[:end]
	return level
}

// scan takes hits until one ends it, and returns the level and how many it took.
func (c *chain) scan(f *funnel, hits []hit) (level, end int) {
	modes := f.q.Modes
	now := int64(none)
	for i, h := range hits {
		if h.t != now {
			now = h.t
			if modes.StrictOnce {
				copy(c.prior, c.first)
				c.group = c.group[:0]
			}
		}
		k := int(h.kind)
		switch {
		case k < 0:
			x := f.q.Exclude[-k-1]
			for l := x.After; l < x.Before; l++ {
				c.first[l], c.prior[l] = none, none
			}
			continue
		case k == nothing:
			if c.set[1] {
				return c.level(f), i
			}
			continue
		case k == 1:
		case modes.StrictDeduplication && c.set[k]:
			return c.level(f), i
		case modes.StrictOrder && c.set[1] && !c.set[k-1]:
			if !modes.AllowReentry {
				return c.level(f), i
			}
			continue
		}
		if modes.StrictOnce {
			c.once(f, h)
		} else {
			c.take(f, h)
		}
		if k == f.steps && c.set[k] {
			return f.steps, i + 1
		}
	}
	return c.level(f), len(hits)
}

// level returns the highest level that is set.
func (c *chain) level(f *funnel) int {
	for k := f.steps; k > 0; k-- {
		if c.set[k] {
			return k
		}
	}
	return 0
}

// take continues the latest chain with a step.
func (c *chain) take(f *funnel, h hit) {
	k := h.kind
	switch {
	case k == 1:
		c.first[1], c.last[1], c.set[1] = h.t, h.t, true
	case c.first[k-1] != none && within(c.first[k-1], h.t, f.window) && (!f.q.Modes.StrictIncrease || c.last[k-1] < h.t):
		c.first[k], c.last[k], c.set[k] = c.first[k-1], h.t, true
	}
}

// once is take for strict_once, where a chain may use an event for one step only. It
// could use an event twice only among the events of one time. So a chain that was at a
// level before this time, or begins now, reaches step k if different events of this
// time can take the steps between.
func (c *chain) once(f *funnel, h hit) {
	c.group = append(c.group, h)
	k := int(h.kind)
	if k == 1 {
		c.first[1], c.set[1] = h.t, true
		return
	}
	if f.q.Modes.StrictIncrease {
		if s := c.prior[k-1]; s != none && within(s, h.t, f.window) {
			c.first[k], c.set[k] = s, true
		}
		return
	}
	for j := k - 1; j >= 0; j-- { // chains that begin later first
		start := h.t
		if j > 0 {
			start = c.prior[j]
		}
		if start == none || !within(start, h.t, f.window) || c.first[k] != none && c.first[k] >= start {
			continue
		}
		if c.distinct(j+1, k) {
			c.first[k], c.set[k] = start, true
		}
	}
}

// distinct reports whether the steps from lo to hi can be given to different events
// of the group: a matching in a bipartite graph, by augmenting paths.
func (c *chain) distinct(lo, hi int) bool {
	c.owner = slices.Grow(c.owner[:0], len(c.group))[:len(c.group)]
	c.seen = slices.Grow(c.seen[:0], len(c.group))[:len(c.group)]
	clear(c.owner)
	for k := lo; k <= hi; k++ {
		clear(c.seen)
		if !c.give(k) {
			return false
		}
	}
	return true
}

// give finds an event for a step, and moves other steps if it must. The first hit of
// an event in the group stands for the event.
func (c *chain) give(k int) bool {
	for i := range c.group {
		if int(c.group[i].kind) != k {
			continue
		}
		e := i
		for j := range i {
			if c.group[j].event == c.group[i].event {
				e = j
				break
			}
		}
		if c.seen[e] {
			continue
		}
		c.seen[e] = true
		if c.owner[e] == 0 || c.give(c.owner[e]) {
			c.owner[e] = k
			return true
		}
	}
	return false
}

// start returns when the winning chain of the last run began: the time of the
// earliest event of step 1 from which the user can reach the level.
func (c *chain) start(f *funnel, level int) int64 {
	if f.q.AnyOrder {
		return c.first[0]
	}
	if f.q.Modes.StrictOnce && c.multiple {
		return c.startOnce(f, level)
	}
	// From the end backwards: done[k] is when the steps from k to the level can be
	// finished if k is gone after here; nearer events finish no later.
	done := c.done[:level+2]
	for k := range done {
		done[k] = none
	}
	best := int64(none)
	for hi := len(c.hits); hi > 0; {
		lo := hi - 1
		for lo > 0 && c.hits[lo-1].t == c.hits[hi-1].t {
			lo--
		}
		best = c.back(f, c.hits[lo:hi], done, level, best)
		hi = lo
	}
	return best
}

// back takes the hits of one time for start.
func (c *chain) back(f *funnel, group []hit, done []int64, level int, best int64) int64 {
	rest := done // what can be finished after a hit
	if f.q.Modes.StrictIncrease {
		rest = c.later[:len(done)] // steps of one time do not follow on each other
		copy(rest, done)
	}
	for i := len(group) - 1; i >= 0; i-- {
		h := group[i]
		k := int(h.kind)
		switch {
		case k < 0:
			x := f.q.Exclude[-k-1]
			for s := x.After + 1; s <= x.Before && s <= level; s++ {
				done[s] = none
			}
		case k == nothing || k > level:
		default:
			end := h.t
			if k < level {
				end = rest[k+1]
			}
			if end == none {
				continue
			}
			if done[k] = end; k == 1 && within(h.t, end, f.window) {
				best = h.t
			}
		}
	}
	return best
}

// startOnce is start for strict_once: it tries the events of step 1 in turn.
func (c *chain) startOnce(f *funnel, level int) int64 {
	hits := c.hits
	if level == 1 {
		for _, h := range hits {
			if h.kind == 1 {
				return h.t
			}
		}
	}
	for i, h := range hits {
		if h.kind != 1 {
			continue
		}
		if c.reaches(f, hits, i, level) {
			return h.t
		}
	}
	return none
}

// reaches reports whether a chain that begins with the hit at i, and no other one,
// comes to a level.
func (c *chain) reaches(f *funnel, hits []hit, i, level int) bool {
	c.reset(f.steps)
	c.group = append(c.group[:0], hits[i])
	c.first[1], c.set[1] = hits[i].t, true
	now := hits[i].t
	for _, h := range hits[i+1:] {
		if !within(hits[i].t, h.t, f.window) {
			return false
		}
		if h.t != now {
			now = h.t
			copy(c.prior, c.first)
			c.group = c.group[:0]
		}
		switch k := int(h.kind); {
		case k < 0:
			x := f.q.Exclude[-k-1]
			for l := x.After; l < x.Before; l++ {
				c.first[l], c.prior[l] = none, none
			}
		case k > 1:
			c.once(f, h)
			if k == level && c.set[k] {
				return true
			}
		}
	}
	return false
}

// anyOrder returns the largest number of different steps within one window. It leaves
// the start of the earliest such window in first[0].
func (c *chain) anyOrder(f *funnel, trail []entry) int {
	c.reset(f.steps)
	counts := c.last // by step from 1: events of it between lo and hi
	clear(counts)
	level, distinct, hi := 0, 0, 0
	for lo := range trail {
		for hi < len(trail) && within(trail[lo].t, trail[hi].t, f.window) {
			for m := trail[hi].mask; m != 0; m &= m - 1 {
				if counts[lowest(m)+1]++; counts[lowest(m)+1] == 1 {
					distinct++
				}
			}
			hi++
		}
		if distinct > level && (lo == 0 || trail[lo-1].t != trail[lo].t) {
			level, c.first[0] = distinct, trail[lo].t
		}
		for m := trail[lo].mask; m != 0; m &= m - 1 {
			if counts[lowest(m)+1]--; counts[lowest(m)+1] == 0 {
				distinct--
			}
		}
	}
	return level
}
