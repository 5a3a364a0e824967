package segment

import "iter"

// A Part is what a part of a segment takes.
type Part struct {
	Layout string // by the names in docs/trail-format.md; "" where there is one way alone
	Bytes  int64  // without padding
}

// Parts returns the parts of the segment by the names that errors have, in the order of
// the file. The names are lent from it.
func (s *Segment) Parts() iter.Seq2[string, Part] {
	layouts := map[string]string{nameTimes: s.times.Encoding()}
	for _, c := range s.all {
		layouts[c.who] = c.Encoding()
	}
	return func(yield func(string, Part) bool) {
		sizes := make(map[string]int64)
		for _, sec := range s.sections {
			sizes[sec.name] += sec.span.len
		}
		for _, c := range s.all { // constants have no section
			if sizes[c.who] == 0 && !yield(c.who, Part{Layout: layouts[c.who]}) {
				return
			}
		}
		for _, sec := range s.sections {
			n, ok := sizes[sec.name]
			delete(sizes, sec.name)
			if ok && !yield(sec.name, Part{layouts[sec.name], n}) {
				return
			}
		}
	}
}
