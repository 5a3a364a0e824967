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
		at, row := firstStart(parts)
		f.best.times = append(f.best.times, parts[at].time(row))
	case first:
		f.best.times = append(f.best.times, f.startAt(parts, level, lo, hi))
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

// startAt returns when the first chain of a level begins whose events are between two
// times, both included: from the end backwards, done has when the steps from one to the
// level can be finished.
func (f *funnelScan) startAt(parts []part, level int, from, to int64) int64 {
	var done [10]int64
	for k := range done {
		done[k] = none
	}
	start, steps := int64(none), uint8(upTo(level))
	for i := len(parts) - 1; i >= 0; i-- {
		p := &parts[i]
		times, masks := p.times[p.lo:p.hi], p.mask8[p.lo:p.hi]
		r := len(masks) - 1
		if to != math.MaxInt64 {
			r = sort.Search(len(times), func(i int) bool { return p.time(p.lo+i) > to }) - 1
		}
		for r >= 0 {
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
			if t < from {
				return start
			}
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
