package exec

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"
)

// A funnelScan is the fold of funnels in the default mode and in strict_increase:
// per level it keeps the latest chain, as windowFunnel does.
//
// Most events of most funnels are of step 1 or of none. A row of step 1 matters only
// by its time, and only if no other row of step 1 comes before the next step. So such
// rows are skipped eight at a time, and their times are not read.
type funnelScan struct {
	*funnelFold          // for users that masks are not enough for
	first       [9]int64 // by level: the start of the latest chain
	last        [9]int64 // by level: the time of its last event
	level       int      // the highest that was reached; those below it were, too
	loose       []entry  // rows of users who are in several views at one time
}

func (f *funnelScan) shard(views []*view) error {
	f.values.open(views)
	u := &f.w.users
	u.open(views)
	alone := !f.wins() && f.trend == nil && f.lister == nil // only the level is asked for
	for u.next() {
		if u.selective && !u.relevant() {
			continue
		}
		level := 0
		if len(u.parts) > 1 && f.w.overlap && !inOrder(u.parts) {
			level = f.merged(u.parts)
		} else {
			for i := range u.parts {
				if level = f.scan(&u.parts[i]); level == f.steps {
					break
				}
			}
		}
		if level == 0 {
			continue
		}
		f.level = 0
		if alone {
			f.tally.reached[level-1]++
			continue
		}
		if err := f.won(u.parts, level); err != nil {
			return err
		}
	}
	return f.values.err
}

// others is a word of eight masks in which bits other than step 1 are set.
const others = ^uint64(ones)

// scan takes the rows of a part, which lie after the rows of earlier calls, and
// returns the level.
func (f *funnelScan) scan(p *part) int {
	masks := p.mask8
	i, hi := p.lo, p.hi
	for {
		// Rows from i to j are of step 1 or of none.
		j := i
		for j < hi {
			word := load(masks, j) & others
			if word != 0 {
				j += bits.TrailingZeros64(word) >> 3
				break
			}
			j += 8
		}
		j = min(j, hi)
		for q := j; q > i; { // the last of step 1
			end := q
			q = max(q-8, i)
			if word := load(masks, q) & (1<<(8*(end-q)) - 1); word != 0 {
				t := p.time(q + (bits.Len64(word)-1)>>3)
				f.first[1], f.last[1] = t, t
				f.level = max(f.level, 1)
				break
			}
		}
		if j == hi {
			return f.level
		}
		// The row at j, and the others of its time: in order of the steps.
		t, m := p.times[j], uint64(masks[j])
		for i = j + 1; i < hi && p.times[i] == t; i++ {
			m |= uint64(masks[i])
		}
		if f.apply(p.base+p.unit*int64(t), m) {
			return f.steps
		}
	}
}

// apply takes the steps of one time. It reports whether the last step was reached.
func (f *funnelScan) apply(t int64, m uint64) bool {
	for ; m != 0; m &= m - 1 {
		k := lowest(m) + 1
		switch {
		case k == 1:
			f.first[1], f.last[1] = t, t
			f.level = max(f.level, 1)
		case k-1 <= f.level && within(f.first[k-1], t, f.window) && (!f.q.Modes.StrictIncrease || f.last[k-1] < t):
			f.first[k], f.last[k] = f.first[k-1], t
			f.level = max(f.level, k)
		}
		if f.level == f.steps {
			return true
		}
	}
	return false
}

// load returns eight masks from a place; the arena has eight bytes more than rows.
func load(masks []uint8, at int) uint64 {
	return binary.LittleEndian.Uint64(unsafe.Slice((*uint8)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(masks)), at)), 8))
}

// inOrder reports whether all times of a part come before the times of the next part.
func inOrder(parts []part) bool {
	for i := 1; i < len(parts); i++ {
		before, after := &parts[i-1], &parts[i]
		if before.time(before.hi-1) >= after.time(after.lo) {
			return false
		}
	}
	return true
}

// merged takes a user whose parts overlap in time.
func (f *funnelScan) merged(parts []part) int {
	f.loose = f.loose[:0]
	for i := range parts {
		p := &parts[i]
		for r := p.lo; r < p.hi; r++ {
			if m := p.mask8[r]; m != 0 {
				f.loose = append(f.loose, entry{t: p.time(r), mask: uint64(m)})
			}
		}
	}
	slices.SortFunc(f.loose, func(a, b entry) int { return cmp.Compare(a.t, b.t) })
	for i := 0; i < len(f.loose); {
		t, m := f.loose[i].t, uint64(0)
		for ; i < len(f.loose) && f.loose[i].t == t; i++ {
			m |= f.loose[i].mask
		}
		if f.apply(t, m) {
			break
		}
	}
	return f.level
}
