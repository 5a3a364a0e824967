package exec

import (
	"math"
	"sort"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// won counts a user whose level the scan has found, or lists the user. It looks for
// the winning chain as far as the query needs it, and where it can be.
//
// A chain of all steps is finished when the scan found the first one, or another one
// with the same start would be. So it is looked for in the window before that time,
// which is mostly a small part of the events. With strict_increase the scan may not have
// seen an earlier one, as windowFunnel keeps the latest chain alone.
func (f *funnelScan) won(parts []part, level int) error {
	f.best.level, f.best.times, f.best.group = level, f.best.times[:0], group{}
	if !f.wins() {
		return f.count(parts)
	}
	step := f.byStep(level)
	times := f.q.Times != query.NoTimes
	if !times && (len(f.by) == 0 || step > level) || level == 1 && step > 1 {
		return f.count(parts)
	}
	if !times && f.constant(parts) {
		f.best.group = f.group(&parts[0], parts[0].lo)
		return f.count(parts)
	}
	if !f.ordered(parts) {
		return f.user(parts, false)
	}
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	ends := level == f.steps && f.window != math.MaxInt64 && !f.modes.StrictIncrease
	if ends {
		hi = f.last[f.steps]
		lo = hi - f.window
	}
	switch first := step == 1 && !times; {
	case level == 1 || first && f.window == math.MaxInt64:
		f.best.times = append(f.best.times, f.firstOf(parts))
	case first && ends:
		f.best.times = append(f.best.times, f.startOf(parts, lo, hi))
	case first:
		f.best.times = append(f.best.times, f.startAt(parts, level))
	default:
		f.chain.addParts(f.funnel, parts, lo, hi)
		f.best.times = append(f.best.times, f.chain.winner(f.funnel, f.chain.level(f.funnel, 0, math.MaxInt64))...)
		if err := f.w.held.take(f.chain.grown()); err != nil {
			return err
		}
	}
	if step <= level {
		f.best.group = f.groupOf(parts, level, f.best.times, 0)
	}
	return f.count(parts)
}

// constant reports whether all rows of a user have the same values of by, so that it
// does not matter where the user's chain was.
func (f *funnelScan) constant(parts []part) bool {
	for i := range parts {
		p := &parts[i]
		for _, column := range f.by {
			if !p.codes[column].constant(p.lo, p.hi) {
				return false
			}
		}
	}
	for i := 1; i < len(parts); i++ {
		if f.group(&parts[i], parts[i].lo) != f.group(&parts[0], parts[0].lo) {
			return false
		}
	}
	return true
}

// firstOf returns the time of the first event of step 1.
func (f *funnelScan) firstOf(parts []part) int64 {
	for i := range parts {
		p := &parts[i]
		for r, m := range p.mask8[p.lo:p.hi] {
			if m&1 != 0 {
				return p.time(p.lo + r)
			}
		}
	}
	return none // the scan found one
}

// startOf returns when the first chain of all steps begins that ends at a time: from
// there backwards, bit k of open is set if the steps behind the first k can be finished.
func (f *funnelScan) startOf(parts []part, from, end int64) int64 {
	open, start := uint64(1)<<f.steps, int64(none)
	for i := len(parts) - 1; i >= 0; i-- {
		p := &parts[i]
		if p.time(p.lo) > end {
			continue
		}
		times, masks := p.times[p.lo:p.hi], p.mask8[p.lo:p.hi]
		last := (end - p.base) / p.unit
		first := max(0, (from-p.base+p.unit-1)/p.unit)
		r := sort.Search(len(times), func(i int) bool { return int64(times[i]) > last }) - 1
		for r >= 0 && int64(times[r]) >= first {
			t, m := times[r], uint64(masks[r])
			for r--; r >= 0 && times[r] == t; r-- {
				m |= uint64(masks[r])
			}
			if int64(t) < last || p.base+p.unit*last != end {
				open &^= 1 << f.steps // another event of the last step is too early
			}
			begins := m & (open >> 1) // steps that can be taken here
			for ; begins&^open != 0; begins = m & (open >> 1) {
				open |= begins
			}
			if begins&1 != 0 {
				start = p.base + p.unit*int64(t)
			}
		}
	}
	return start
}

// startAt returns when the first chain of a level begins: from the end backwards, done has
// when the steps from one to the level can be finished.
func (f *funnelScan) startAt(parts []part, level int) int64 {
	var done [10]int64
	for k := range done {
		done[k] = none
	}
	start, steps := int64(none), uint8(upTo(level))
	for i := len(parts) - 1; i >= 0; i-- {
		p := &parts[i]
		times, masks := p.times[p.lo:p.hi], p.mask8[p.lo:p.hi]
		for r := len(masks) - 1; r >= 0; {
			m := masks[r] & steps
			if m == 0 {
				r--
				continue
			}
			at := times[r]
			for r--; r >= 0 && times[r] == at; r-- {
				m |= masks[r] & steps
			}
			t := p.base + p.unit*int64(at)
			if f.modes.StrictIncrease {
				for k := 1; k < level; k++ { // done[k+1] is still of later events
					if m>>(k-1)&1 != 0 && done[k+1] != none {
						done[k] = done[k+1]
					}
				}
			}
			if m>>(level-1) != 0 {
				done[level] = t
			}
			if !f.modes.StrictIncrease {
				for k := level - 1; k > 0; k-- {
					if m>>(k-1)&1 != 0 && done[k+1] != none {
						done[k] = done[k+1]
					}
				}
			}
			if m&1 != 0 && done[1] != none && within(t, done[1], f.window) {
				start = t
			}
		}
	}
	return start
}
