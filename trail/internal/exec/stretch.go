package exec

import (
	"slices"

	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// Questions about few rows cost little because columns are read in stretches: of events,
// those blocks of a segment whose summaries do not rule out a match; of what a filter
// needs, those chunks of rows in which an event left something to decide.

// chunk is the rows for which a filter is evaluated or not. Fewer cost more to begin
// with than they save.
const chunk = 512

// A stretch is the rows [lo,hi) of a segment.
type stretch struct{ lo, hi int }

// addStretch adds rows to a list, as one with what ends where they begin.
func addStretch(list []stretch, lo, hi int) []stretch {
	if n := len(list); n > 0 && list[n-1].hi == lo {
		list[n-1].hi = hi
		return list
	}
	return append(list, stretch{lo, hi})
}

// possible lists the rows of a view without the blocks in which no row can match. There
// are none if the events of its users rule out all.
func (w *worker) possible(v *view) error {
	w.stretches = w.stretches[:0]
	if !v.every {
		touched, err := v.events.PrepareBlocks(v.RowLo, v.RowHi)
		w.cost.bytes += touched
		if err != nil {
			return err
		}
	}
	for _, f := range v.wheres {
		for _, l := range f.leaves {
			touched, err := l.column.PrepareBlocks(v.RowLo, v.RowHi)
			w.cost.bytes += touched
			if err != nil {
				return err
			}
		}
	}
	for lo := v.RowLo; lo < v.RowHi; {
		block := lo / segment.BlockRows
		hi := min((block+1)*segment.BlockRows, v.RowHi)
		if v.source.possible(block) != 0 {
			w.stretches = addStretch(w.stretches, lo, hi)
		} else {
			w.cost.blocks++
		}
		lo = hi
	}
	if len(w.stretches) == 0 {
		return nil
	}
	some, err := w.someUser(v)
	if !some {
		w.stretches = w.stretches[:0]
		w.cost.views++
	}
	return err
}

// possible returns the matchers that a row of a block can have.
func (s *source) possible(block int) (live uint64) {
	live = s.live
	if set, ok := s.events.Occurs(block); ok && !s.every {
		live = 0
		for ; set != 0; set &= set - 1 {
			if c := lowest(set); c < len(s.table) { // else the summary is damaged
				live |= s.table[c]
			}
		}
	}
	for _, f := range s.wheres {
		if live&f.mask != 0 && !f.possible(block) {
			live &^= f.mask
		}
	}
	return live
}

// someUser reports whether a user of a view can have an event that matches, by the event
// sets as far as the first such user. Summaries of events are more exact, where there are any.
func (w *worker) someUser(v *view) (bool, error) {
	sets := v.seg.EventSets()
	if sets == nil || v.every {
		return true, nil
	}
	if _, ok := v.events.Occurs(v.RowLo / segment.BlockRows); ok {
		return true, nil
	}
	wanted := uint64(0)
	for i, matchers := range v.table[1:] {
		if matchers != 0 {
			wanted |= 1 << i
		}
	}
	var buf [64]uint64
	for lo := v.UserLo; lo < v.UserHi; lo += len(buf) {
		hi := min(lo+len(buf), v.UserHi)
		touched, err := sets.Prepare(lo, hi)
		v.setBytes += touched
		w.cost.bytes += touched
		if err != nil {
			return false, err
		}
		for _, set := range sets.Read(buf[:], lo, hi) {
			if set&wanted != 0 {
				return true, nil
			}
		}
	}
	return false, nil
}

// possible reports whether a row of a block can pass.
func (s *selector) possible(block int) bool {
	switch {
	case s.leaf != nil:
		return s.leaf.possible(block)
	case s.all != nil:
		return !slices.ContainsFunc(s.all, func(sub *selector) bool { return !sub.possible(block) })
	}
	return slices.ContainsFunc(s.any, func(sub *selector) bool { return sub.possible(block) })
}

// possible reports whether a row of a block can pass: whether the leaf's decision passes
// a code that the summary of the block has.
func (l *leaf) possible(block int) bool {
	if l.column == nil {
		return l.cohort || l.same
	}
	if set, ok := l.column.Occurs(block); ok {
		return l.passesSome(set, uint32(l.column.Codes()))
	}
	lo, hi, ok := l.column.Span(block)
	if !ok || lo > hi || int(hi) >= l.column.Codes() { // else the summary is damaged
		return true
	}
	return l.passesWithin(lo, hi)
}

// presence returns the leaf of a selector that passes only rows with a value, and whose
// column has a bit for each row with one; nil for none. Its bits are much cheaper than its codes.
func (s *selector) presence() *leaf {
	if l := s.leaf; l != nil && l.column != nil && !l.bare && !l.missing && l.column.KeepsPresence() {
		return l
	}
	for _, sub := range s.all {
		if l := sub.presence(); l != nil {
			return l
		}
	}
	return nil
}

// undecided lists the rows of a stretch that some matchers still mean, by chunks.
func undecided[M uint8 | uint64](dst []stretch, masks []M, base int, in stretch, mask M) []stretch {
	for lo := in.lo; lo < in.hi; {
		hi := min((lo/chunk+1)*chunk, in.hi)
		if anyOf(masks[lo-base:hi-base], mask) {
			dst = addStretch(dst, lo, hi)
		}
		lo = hi
	}
	return dst
}

// anyOf reports whether any mask has some of the bits.
func anyOf[M uint8 | uint64](masks []M, bits M) bool {
	if bytes, ok := any(masks).([]uint8); ok {
		eight := uint64(bits) * ones
		for ; len(bytes) >= 8; bytes = bytes[8:] {
			if load(bytes, 0)&eight != 0 {
				return true
			}
		}
		masks = masks[len(masks)-len(bytes):]
	}
	for _, m := range masks {
		if m&bits != 0 {
			return true
		}
	}
	return false
}
