package exec

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// A chain finds how far one user went, and when, from moments. It follows windowFunnel
// of ClickHouse 26.9 in every mode, ties included, and adds exclusions and funnels in
// any order.
//
// Events of one time are taken in the order of their steps; an event that is several
// steps is taken as each of them. Exclusions come before all steps, and then, for
// strict_order, events of no step.
//
// All of it is linear in the events of the user, times the steps. Only with strict_once
// does the work for the events of one time grow with a higher power of the steps.
type chain struct {
	moments []moment
	trail   []entry // the events of the moments; nil unless strict_once needs them
	held    int64   // bytes that were accounted for

	// What level has read: the moments before end, of the last one the steps of
	// endMask alone.
	end     int
	endMask uint64
	endHits int // of the last step of endMask, its first events; 0 for all

	first []int64 // by level: start of the latest chain, or none
	last  []int64 // by level: time of its last event
	set   []bool  // by level: whether a chain has reached it
	prior []int64 // strict_once: first as it was before the events of this time
	match matching
	done  []int64 // by step: when the steps from it to the level can be finished
	open  []uint64
	times []int64 // of the steps of the winning chain
}

// A moment is the events of one time.
type moment struct {
	t      int64
	mask   uint64 // of steps and exclusions
	twice  uint64 // of steps that several events are
	lo, hi int32  // the events, in the trail
	other  bool   // strict_order: an event matches no step
	lone   bool   // an event is step 1 and no other step
	shared bool   // strict_once: an event is several steps
}

// none stands for the start of a chain where there is no chain.
const none = math.MinInt64

// add adds an event, which must not be earlier than the events before.
func (c *chain) add(f *funnel, t int64, mask uint64) *moment {
	n := len(c.moments)
	if n == 0 || c.moments[n-1].t != t {
		c.moments = append(c.moments, moment{t: t})
		n++
	}
	m := &c.moments[n-1]
	steps := mask & f.stepMask
	m.twice |= m.mask & steps
	m.mask |= mask &^ f.orderMask
	m.other = m.other || f.orderMask != 0 && steps == 0
	m.lone = m.lone || steps == 1
	return m
}

// addTrail adds the events of a trail, which are by time.
func (c *chain) addTrail(f *funnel, trail []entry) {
	c.moments, c.trail = c.moments[:0], nil
	if f.modes.StrictOnce {
		c.trail = trail
	}
	for i := range trail {
		m := c.add(f, trail[i].t, trail[i].mask)
		if m.hi == 0 {
			m.lo = int32(i)
		}
		m.hi = int32(i + 1)
		steps := trail[i].mask & f.stepMask
		m.shared = m.shared || f.modes.StrictOnce && steps&(steps-1) != 0
	}
	if !f.modes.StrictOnce {
		return
	}
	for i := range c.moments {
		if m := &c.moments[i]; m.shared && m.hi-m.lo > 1 {
			// Only together with strict_deduplication does it matter which of two
			// events of one step comes first; it must not depend on the order of rows.
			slices.SortFunc(trail[m.lo:m.hi], func(a, b entry) int { return cmp.Compare(a.mask&f.stepMask, b.mask&f.stepMask) })
		}
	}
}

// grown returns how many bytes more than before the chain holds.
func (c *chain) grown() int64 {
	held := int64(cap(c.moments))*48 + int64(cap(c.open))*8
	grown := held - c.held
	c.held = held
	return grown
}

func (c *chain) reset(steps int) {
	if len(c.first) != steps+1 {
		c.first, c.last, c.set = make([]int64, steps+1), make([]int64, steps+1), make([]bool, steps+1)
		c.prior, c.done, c.times = make([]int64, steps+1), make([]int64, steps+2), make([]int64, steps)
	}
	for k := range c.first {
		c.first[k], c.last[k], c.set[k], c.prior[k] = none, none, false, none
	}
}

// upTo returns the mask of the steps before k+1.
func upTo(k int) uint64 { return 1<<k - 1 }

// stop notes where level has ended: in a moment, of which it took the steps up to k.
func (c *chain) stop(i, k, hits int) {
	c.end, c.endMask, c.endHits = i+1, c.moments[i].mask&upTo(k), hits
}

// level returns the level that the events from a moment on reach. Events of step 1 that
// are not before until are none.
func (c *chain) level(f *funnel, from int, until int64) int {
	c.reset(f.steps)
	c.end, c.endMask, c.endHits = len(c.moments), math.MaxUint64, 0
	if c.scan(f, from, until) {
		return f.steps
	}
	for k := f.steps; k > 0; k-- {
		if c.set[k] {
			return k
		}
	}
	return 0
}

// scan takes moments until one ends it. It reports whether the last step was reached.
func (c *chain) scan(f *funnel, from int, until int64) bool {
	modes := f.modes
	latest := int64(none) // event of step 1
	for i := from; i < len(c.moments); i++ {
		m := &c.moments[i]
		steps, other := m.mask&f.stepMask, m.other
		if m.t >= until {
			if !within(latest, m.t, f.window) {
				return false // all chains have ended
			}
			steps &^= 1
			other = other || m.lone && f.orderMask != 0
		} else if steps&1 != 0 {
			latest = m.t
		}
		c.exclude(f, m.mask)
		if other && c.set[1] {
			c.end, c.endMask = i, math.MaxUint64
			return false
		}
		if modes.StrictOnce {
			copy(c.prior, c.first)
		}
		shared := m.shared && !modes.StrictIncrease
		if shared {
			c.match.begin(f, c.trail[m.lo:m.hi])
		}
		for ; steps != 0; steps &= steps - 1 {
			k := lowest(steps) + 1
			switch {
			case k == 1:
			case modes.StrictDeduplication && c.set[k]:
				c.stop(i, k-1, 0)
				return false
			case modes.StrictOrder && c.set[1] && !c.set[k-1]:
				if !modes.AllowReentry {
					c.stop(i, k-1, 0)
					return false
				}
				continue
			}
			if shared {
				if ended := c.once(f, m.t, i, k); ended {
					return c.set[f.steps]
				}
				continue
			}
			c.take(f, m.t, k)
			switch {
			case k == f.steps && c.set[k]:
				c.stop(i, k, 0)
				return true
			case k > 1 && modes.StrictDeduplication && c.set[k] && m.twice>>(k-1)&1 != 0:
				c.stop(i, k, 0)
				return false
			}
		}
	}
	return false
}

// exclude ends the chains that an event of a mask may not be between the steps of.
func (c *chain) exclude(f *funnel, mask uint64) {
	for x := mask &^ f.stepMask; x != 0; x &= x - 1 {
		e := &f.q.Exclude[lowest(x)-f.steps]
		for l := e.After; l < e.Before; l++ {
			c.first[l] = none
		}
	}
}

// take continues the latest chain with a step.
func (c *chain) take(f *funnel, t int64, k int) {
	if k == 1 {
		c.first[1], c.last[1], c.set[1] = t, t, true
		return
	}
	start := c.first[k-1]
	if f.modes.StrictIncrease {
		if f.modes.StrictOnce {
			start = c.prior[k-1]
		} else if c.last[k-1] >= t {
			return
		}
	}
	if start != none && within(start, t, f.window) {
		c.first[k], c.last[k], c.set[k] = start, t, true
	}
}

// once is take for the events of one time of which one is several steps, with
// strict_once: a chain may use an event for one step only. So a chain that was at a
// level before this time, or begins now, reaches step k if different events of this
// time can take the steps between. It reports whether this has ended the scan.
func (c *chain) once(f *funnel, t int64, i, k int) (ended bool) {
	hits := len(c.match.lists[k-1])
	floor := c.match.lo
	for n := 1; n <= hits; n++ {
		if n > 1 && k > 1 && f.modes.StrictDeduplication && c.set[k] {
			c.stop(i, k, n-1)
			return true
		}
		low := c.match.extend(k-1, n)
		for j := low; j < k; j++ {
			start := t
			if j > 0 {
				start = c.prior[j]
			}
			if start != none && within(start, t, f.window) && start >= c.first[k] {
				c.first[k], c.last[k], c.set[k] = start, t, true
			}
		}
		if k == f.steps && c.set[k] {
			c.stop(i, k, n)
			return true
		}
		if low == floor && !(f.modes.StrictDeduplication && c.set[k]) {
			break // more events of the step change nothing
		}
		if n < hits {
			c.match.undo(k - 1)
		}
	}
	return false
}

// mask returns the mask of a moment, of the steps that level has read.
func (c *chain) mask(f *funnel, i int) uint64 {
	if i == c.end-1 {
		return c.moments[i].mask & (c.endMask | ^f.stepMask)
	}
	return c.moments[i].mask
}

// reach returns, by step, the level from which the events of a moment can take a chain
// to the step, for moments with shared events. It is more than the step's own number
// less one if they cannot.
func (c *chain) reach(f *funnel, i int) *[33]int {
	m := &c.moments[i]
	c.match.begin(f, c.trail[m.lo:m.hi])
	mask := c.mask(f, i)
	for k := range f.steps {
		hits := len(c.match.lists[k])
		if mask>>k&1 == 0 {
			hits = 0
		} else if i == c.end-1 && c.endHits > 0 && mask&f.stepMask>>(k+1) == 0 {
			hits = c.endHits
		}
		if hits == 0 {
			c.match.low[k] = k + 1
			continue
		}
		c.match.low[k] = c.match.extend(k, hits)
	}
	return &c.match.low
}

// start returns the first moment at which a chain of a level begins, among those that
// level has read; -1 if there is none. It calls each, unless nil, for all of them.
func (c *chain) start(f *funnel, level int, each func(i int)) int {
	// From the end backwards: done[k] is when the steps from k to the level can be
	// finished if k is taken after here.
	done := c.done[:level+2]
	for k := range done {
		done[k] = none
	}
	best := -1
	for i := c.end - 1; i >= 0; i-- {
		m := &c.moments[i]
		mask := c.mask(f, i)
		begin := int64(none)        // when a chain is finished that begins here
		later := func(k, end int) { // take the steps from k to end here
			fin := m.t
			if end < level {
				fin = done[end+1]
			}
			if fin == none {
				return
			}
			if done[k] == none || fin < done[k] {
				done[k] = fin
			}
			if k == 1 && (begin == none || fin < begin) {
				begin = fin
			}
		}
		switch steps := mask & upTo(level) & f.stepMask; {
		case steps == 0:
		case f.modes.StrictIncrease:
			for ; steps != 0; steps &= steps - 1 {
				later(lowest(steps)+1, lowest(steps)+1)
			}
		case m.shared:
			low := c.reach(f, i)
			for k := 1; k <= level; k++ {
				for end := k; end <= level && low[end-1] < k; end++ {
					later(k, end)
				}
			}
		default:
			for ; steps != 0; steps &^= 1 << (bits.Len64(steps) - 1) {
				k := bits.Len64(steps)
				fin := m.t
				if k < level {
					fin = done[k+1]
				}
				if fin == none {
					continue
				}
				if done[k] == none || fin < done[k] {
					done[k] = fin
				}
				if k == 1 {
					begin = fin
				}
			}
		}
		if begin != none && within(m.t, begin, f.window) {
			if best = i; each != nil {
				each(i)
			}
		}
		for x := mask &^ f.stepMask; x != 0; x &= x - 1 {
			e := &f.q.Exclude[lowest(x)-f.steps]
			for k := e.After + 1; k <= e.Before && k <= level; k++ {
				done[k] = none
			}
		}
	}
	return best
}

// winner returns the times of the steps of the winning chain: of all that level has
// read and that reach it, the one whose step 1 comes first, of those the one
// whose step 2 comes first, and so on.
func (c *chain) winner(f *funnel, level int) []int64 {
	times := c.times[:level]
	at := c.start(f, level, nil)
	if at < 0 {
		return nil // level found one
	}
	start := c.moments[at].t
	times[0] = start
	if level == 1 {
		return times
	}
	// From the end backwards again: bit k is set if the steps behind the first k can be
	// finished in time after here; c.open keeps these bits for each moment.
	c.open = slices.Grow(c.open[:0], c.end)[:c.end]
	open := uint64(1) << level
	for i := c.end - 1; i >= at; i-- {
		m := &c.moments[i]
		if !within(start, m.t, f.window) {
			continue
		}
		c.open[i] = open
		mask := c.mask(f, i)
		for k := level - 1; k >= 0; k-- {
			if c.jump(f, i, k, c.open[i], level) > k {
				open |= 1 << k
			}
		}
		for x := mask &^ f.stepMask; x != 0; x &= x - 1 {
			e := &f.q.Exclude[lowest(x)-f.steps]
			open &^= upTo(min(e.Before, level)) &^ upTo(e.After)
		}
	}
	taken := 0
	for i := at; taken < level; i++ {
		for to := c.jump(f, i, taken, c.open[i], level); taken < to; taken++ {
			times[taken] = c.moments[i].t
		}
	}
	return times
}

// jump returns how far a chain of some steps comes with the events of a moment, such that
// the remaining steps can be finished after it, by the bits of open; 0 if it cannot.
func (c *chain) jump(f *funnel, i, taken int, open uint64, level int) (to int) {
	steps := c.mask(f, i) & upTo(level) & f.stepMask
	if steps>>taken&1 == 0 {
		return 0
	}
	m := &c.moments[i]
	var low *[33]int
	if m.shared && !f.modes.StrictIncrease {
		low = c.reach(f, i)
	}
	for end := taken + 1; end <= level && steps>>(end-1)&1 != 0; end++ {
		if low != nil && low[end-1] > taken || f.modes.StrictIncrease && end > taken+1 {
			break
		}
		if open>>end&1 != 0 {
			to = end
		}
	}
	return to
}

// anyOrder returns the largest number of different steps within one window, and the
// start of the earliest such window.
func (c *chain) anyOrder(f *funnel) (level int, start int64) {
	c.reset(f.steps)
	counts := c.last // by step from 1: moments of it between lo and hi
	clear(counts)
	distinct, hi := 0, 0
	for lo := range c.moments {
		for hi < len(c.moments) && within(c.moments[lo].t, c.moments[hi].t, f.window) {
			for m := c.moments[hi].mask; m != 0; m &= m - 1 {
				if counts[lowest(m)+1]++; counts[lowest(m)+1] == 1 {
					distinct++
				}
			}
			hi++
		}
		if distinct > level {
			level, start = distinct, c.moments[lo].t
		}
		for m := c.moments[lo].mask; m != 0; m &= m - 1 {
			if counts[lowest(m)+1]--; counts[lowest(m)+1] == 0 {
				distinct--
			}
		}
	}
	return level, start
}

// A matching gives the steps of one time to different events: a matching in a bipartite
// graph, by augmenting paths. Of each step, one event more than there are steps is
// enough: the other steps cannot take them all.
type matching struct {
	lists [32][]int16 // by step: events that are it
	owner []int8      // by event: the step that has it and one, 0 for none
	given [32]int16   // by step: its event
	seen  []uint32    // by event: the last search that saw it
	turn  uint32
	lo    int // the steps from lo to next have events
	next  int
	low   [33]int

	before   [32]int16 // given before the last extend
	beforeLo int
}

// begin takes the events of a time.
func (g *matching) begin(f *funnel, trail []entry) {
	for k := range f.steps {
		g.lists[k] = g.lists[k][:0]
	}
	g.owner, g.lo, g.next = g.owner[:0], 0, 0
	full := uint64(0) // steps that have enough events
	for i := range trail {
		steps := trail[i].mask & f.stepMask
		if steps&^full == 0 {
			continue
		}
		event := int16(len(g.owner))
		g.owner = append(g.owner, 0)
		for s := steps &^ full; s != 0; s &= s - 1 {
			k := lowest(s)
			if g.lists[k] = append(g.lists[k], event); len(g.lists[k]) > f.steps {
				full |= 1 << k
			}
		}
	}
	if len(g.seen) < len(g.owner) {
		g.seen, g.turn = make([]uint32, cap(g.owner)), 0
	}
}

// extend gives one of the first hits of step k an event, after the events of the steps
// before it. If there are not enough events it takes them from the lowest steps; a step
// without any, which was not extended, takes from all steps before it. It returns the lowest
// step that still has an event.
func (g *matching) extend(k, hits int) int {
	for ; g.next < k; g.next++ { // steps that were not extended
		g.release(g.next)
		g.lo = g.next + 1
	}
	g.next = k + 1
	g.before, g.beforeLo = g.given, g.lo
	for !g.give(k, hits) {
		g.release(g.lo + 1)
	}
	return g.lo
}

// release takes away the events of the steps before k.
func (g *matching) release(k int) {
	for ; g.lo < k; g.lo++ {
		g.owner[g.given[g.lo]] = 0
	}
}

// undo takes back the last extend.
func (g *matching) undo(k int) {
	for s := g.lo; s <= k; s++ {
		g.owner[g.given[s]] = 0
	}
	g.given, g.lo = g.before, g.beforeLo
	for s := g.lo; s < k; s++ {
		g.owner[g.given[s]] = int8(s + 1)
	}
}

func (g *matching) give(k, hits int) bool {
	if g.turn++; g.turn == 0 {
		clear(g.seen)
		g.turn = 1
	}
	return g.search(k, hits)
}

// search finds an event for a step, and moves other steps if it must.
func (g *matching) search(k, hits int) bool {
	for _, e := range g.lists[k][:hits] {
		if g.seen[e] == g.turn {
			continue
		}
		g.seen[e] = g.turn
		if s := int(g.owner[e]) - 1; s < 0 || g.search(s, len(g.lists[s])) {
			g.owner[e], g.given[k] = int8(k+1), e
			return true
		}
	}
	return false
}

// plain reports whether each chain counts whose steps are in order, so that levels can
// be found by looking for chains.
func plain(m query.Modes) bool {
	m.StrictOnce = false
	return m == query.Modes{}
}
