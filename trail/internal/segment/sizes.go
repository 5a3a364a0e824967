package segment

import "iter"

// A Size is what a section, or the sections of a column, take.
type Size struct {
	Layout string // by the names in docs/trail-format.md; "" where there is one way alone
	Bytes  int64  // without padding
}

// Sizes returns the sizes of the sections by the names that errors have, in the order of
// the file. The names share its memory.
func (s *Segment) Sizes() iter.Seq2[string, Size] {
	layouts := map[string]string{nameTimes: s.times.Encoding()}
	for _, c := range s.all {
		layouts[c.who] = c.Encoding()
	}
	return func(yield func(string, Size) bool) {
		sizes := make(map[string]int64)
		for _, sec := range s.sections {
			sizes[sec.name] += sec.span.len
		}
		for _, c := range s.all { // constants have no section
			if sizes[c.who] == 0 && !yield(c.who, Size{Layout: layouts[c.who]}) {
				return
			}
		}
		for _, sec := range s.sections {
			n, ok := sizes[sec.name]
			delete(sizes, sec.name)
			if ok && !yield(sec.name, Size{layouts[sec.name], n}) {
				return
			}
		}
	}
}
