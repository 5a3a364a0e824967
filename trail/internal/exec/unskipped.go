package exec

import (
	"math"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// unskipped returns the masks that the rows of a view have if all of them are read, and
// none are left out because of summaries, event sets and bits of presence. It is not
// ok if a part of the file is damaged, which a query may never come to.
func (v *view) unskipped() (masks []uint64, ok bool) {
	w := &worker{arena: &arena{held: newBudget(math.MaxInt64)}}
	all := *v
	all.prepared = nil
	all.hashes = v.seg.Hashes()[v.UserLo:v.UserHi]
	all.starts = v.seg.FirstRows(w.arena.ints(v.UserHi-v.UserLo+1), v.UserLo, v.UserHi+1)
	if err := w.prepare(&all, v.events, false, v.RowLo, v.RowHi); err != nil {
		return nil, false
	}
	masks = w.arena.words(v.rows())
	mask(masks, &all, stretch{v.RowLo, v.RowHi}, w.arena)
	passed := w.arena.bytes(v.rows())
	for _, f := range v.wheres {
		if err := f.prepare(&all, w, v.RowLo, v.RowHi); err != nil {
			return nil, false
		}
		f.eval(passed, &all, v.RowLo, w.arena)
		exclude(masks, passed, f.mask)
	}
	if len(v.dropped) > 0 {
		drop(masks, &all)
	}
	return masks, true
}

// checkSkipped checks that what was left out of a view has no matcher. Only tests are
// made with it.
func (v *view) checkSkipped() {
	if !invariant.Enabled {
		return
	}
	masks, ok := v.unskipped()
	if !ok {
		return
	}
	for row, want := range masks {
		got := uint64(0) // of a view that is left out as a whole
		if v.mask8 != nil || v.mask64 != nil {
			got = v.mask(row)
		}
		if got != want {
			invariant.Check(false, "exec: row %d of %s has matchers %b, and %b if nothing is left out", v.RowLo+row, v.seg.Name(), got, want)
		}
	}
}
