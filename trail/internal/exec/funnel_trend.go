package exec

import (
	"cmp"
	"math"
	"slices"
)

// A reached is the level of a user in a bucket of a trend.
type reached struct {
	bucket, level int
}

// reach notes a level of the bucket of an event of step 1.
func (f *funnelFold) reach(t int64, level int) {
	n := len(f.reached)
	if n > 0 {
		last := &f.reached[n-1]
		if starts := f.trend.starts; t >= starts[last.bucket] && t < starts[last.bucket+1] {
			last.level = max(last.level, level)
			return
		}
	}
	f.reached = append(f.reached, reached{f.trend.find(t), level})
}

// trends notes the levels of the buckets of the moments, of which the best chain of all
// has a level.
func (f *funnelFold) trends(best int) {
	c := &f.chain
	if plain(f.modes) {
		// The level of a bucket is the longest chain that begins in it.
		c.end, c.endMask, c.endHits = len(c.moments), math.MaxUint64, 0
		f.levels = slices.Grow(f.levels[:0], len(c.moments))[:len(c.moments)]
		for i := range c.moments {
			f.levels[i] = uint8(c.moments[i].mask & 1)
		}
		for level := 2; level <= best; level++ {
			c.start(f.funnel, level, func(i int) { f.levels[i] = uint8(level) })
		}
		for i, level := range f.levels {
			if level > 0 {
				f.reach(c.moments[i].t, int(level))
			}
		}
		return
	}
	// An event may end chains of some buckets and not of others, so each bucket is
	// followed by itself, from its first event of step 1 until all of its chains end.
	until := int64(math.MinInt64)
	for i := range c.moments {
		m := &c.moments[i]
		if m.mask&1 == 0 || m.t < until {
			continue
		}
		until = f.trend.starts[f.trend.find(m.t)+1]
		f.reach(m.t, c.level(f.funnel, i, until))
	}
}

// countTrend counts the user in each bucket by the highest level.
func (f *funnelFold) countTrend() {
	slices.SortFunc(f.reached, func(a, b reached) int { return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(b.level, a.level)) })
	for i, r := range f.reached {
		if i == 0 || f.reached[i-1].bucket != r.bucket {
			f.buckets[r.bucket*f.steps+r.level-1]++
		}
	}
}
