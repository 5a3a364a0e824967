package exec

import (
	"bytes"
	"slices"
)

// A decision holds which codes of a column pass a test. It has one of three forms: a
// table, a set, or a range. Rows and the summaries of their blocks are checked by the same
// decision, so that they cannot differ.
type decision struct {
	table   []uint8  // by code: pass or 0; nil if there are too many codes
	set     []uint32 // without a table: sorted codes that pass, each once; nil for none
	lo, hi  uint32   // without table and set: codes from lo up to, not including, hi pass
	not     bool     // set, or lo and hi, are negated for codes from 1 on
	missing bool     // whether code 0 passes; a table has it, too
}

// tabulate turns any other form into a table.
func (d *decision) tabulate(codes uint32) {
	table := make([]uint8, codes)
	for c := range table {
		table[c] = verdict(d.passes(uint32(c)))
	}
	*d = decision{table: table, missing: d.missing}
}

// passes reports whether a code passes.
func (d *decision) passes(c uint32) bool {
	switch {
	case d.table != nil:
		return d.table[c] != 0
	case c == 0:
		return d.missing
	case d.set != nil:
		_, in := slices.BinarySearch(d.set, c)
		return in != d.not
	}
	return (c-d.lo < d.hi-d.lo) != d.not
}

// passesSome reports whether one of some codes passes: bit c of the set is code c, and
// codes are below a limit.
func (d *decision) passesSome(set uint64, limit uint32) bool {
	for ; set != 0; set &= set - 1 {
		if c := uint32(lowest(set)); c < limit && d.passes(c) { // beyond it the set is damaged
			return true
		}
	}
	return false
}

// passesWithin reports whether one of the codes from lo to hi passes, both included.
func (d *decision) passesWithin(lo, hi uint32) bool {
	switch {
	case d.table != nil:
		return bytes.IndexByte(d.table[lo:hi+1], pass) >= 0
	case lo == 0 && d.missing:
		return true
	}
	if lo = max(lo, 1); lo > hi {
		return false
	}
	in := uint32(0) // codes of set or range among them
	if d.set != nil {
		first, _ := slices.BinarySearch(d.set, lo)
		behind, _ := slices.BinarySearch(d.set, hi+1)
		in = uint32(behind - first)
	} else if from, to := max(lo, d.lo), min(hi+1, d.hi); from < to {
		in = to - from
	}
	if d.not {
		return in < hi-lo+1
	}
	return in > 0
}
