package exec

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// maxTable is the number of codes up to which a test is evaluated for each code in
// advance. With more codes, rows are compared with ranges and sorted sets; but tests
// that look into strings are always evaluated for each string of the dictionary.
const maxTable = 1 << 16

// A selector is a condition in one segment.
type selector struct {
	all, any []*selector
	leaf     *leaf
	leaves   []*leaf // of all parts, those that read a column
}

// A leaf is a test in one segment, decided on the codes of its column.
type leaf struct {
	column *segment.Column // nil if every row gets the same answer, or for cohorts
	same   bool            // that answer

	decision                        // for columns with codes
	raw      func(event.Value) bool // for raw columns: whether a value passes
	bare     bool                   // all that matters is whether there is a value: missing, or else not, passes
	users    []uint64               // of cohorts; not negates it
	cohort   bool
}

// selector prepares a condition for a segment. A condition that passes all rows or
// none becomes a leaf with that answer.
func (b *builder) selector(c *condition, seg *segment.Segment) (*selector, error) {
	if s := b.selectors[c]; s != nil {
		return s, nil
	}
	s, err := b.decide(c, seg)
	if err == nil {
		b.selectors[c] = s
	}
	return s, err
}

func (b *builder) decide(c *condition, seg *segment.Segment) (*selector, error) {
	if c.test != nil {
		l, err := b.leaf(c.test, seg)
		s := &selector{leaf: l}
		if l != nil && l.column != nil {
			s.leaves = []*leaf{l}
		}
		return s, err
	}
	list, absorb := c.all, false // absorb is the answer of a part that decides the whole
	if list == nil {
		list, absorb = c.any, true
	}
	var kept []*selector
	var leaves []*leaf
	for _, sub := range list {
		s, err := b.selector(sub, seg)
		if err != nil {
			return nil, err
		}
		if same, ok := s.constant(); ok {
			if same == absorb {
				return s, nil
			}
			continue
		}
		kept, leaves = append(kept, s), append(leaves, s.leaves...)
	}
	switch {
	case len(kept) == 0:
		return &selector{leaf: &leaf{same: !absorb}}, nil
	case len(kept) == 1:
		return kept[0], nil
	case absorb:
		return &selector{any: kept, leaves: leaves}, nil
	}
	return &selector{all: kept, leaves: leaves}, nil
}

// constant returns the answer for every row, if it is one.
func (s *selector) constant() (same, ok bool) {
	if s.leaf != nil && s.leaf.column == nil && !s.leaf.cohort {
		return s.leaf.same, true
	}
	return false, false
}

// leaf evaluates a test for the codes of a segment. Here "exists" becomes "is not code
// 0", and "contains" and "matches" become a table over the dictionary.
func (b *builder) leaf(t *test, seg *segment.Segment) (*leaf, error) {
	if t.op == query.InCohort || t.op == query.NotInCohort {
		return &leaf{cohort: true, users: t.users, decision: decision{not: t.op == query.NotInCohort}}, nil
	}
	col := seg.Column(t.property)
	if col == nil {
		return &leaf{same: t.missing}, nil
	}
	if err := b.open(col); err != nil {
		return nil, err
	}
	l := &leaf{column: col, decision: decision{missing: t.missing}}
	if col.Codes() == 0 {
		l.raw = t.passes
		return l, nil
	}
	t.decide(l)
	l.narrow()
	return l, b.held.take(int64(len(l.table)) + 4*int64(len(l.set)))
}

// decide fills in which codes from 1 on pass.
func (t *test) decide(l *leaf) {
	col := l.column
	codes := uint32(col.Codes())
	l.lo, l.hi = 1, 1
	switch t.op {
	case query.Exists:
		l.hi = codes
	case query.Missing:
	case query.Eq, query.In, query.Ne, query.NotIn:
		l.not = t.op == query.Ne || t.op == query.NotIn
		if len(t.values) == 1 {
			l.lo, l.hi = t.span(col, 0)
			break
		}
		for i := range t.values {
			for lo, hi := t.span(col, i); lo < hi; lo++ {
				l.set = append(l.set, lo)
			}
		}
		slices.Sort(l.set)
		l.set = slices.Compact(l.set)
	case query.Prefix:
		l.lo, _ = col.Search(t.first())
		l.hi = codes
		if end := successor(t.first().Text()); end != "" {
			l.hi, _ = col.Search(event.StringOf(end))
		}
		if t.first().Missing() {
			l.lo = 1
		}
	case query.Gt:
		_, l.lo = t.span(col, 0)
		l.hi = codes
	case query.Gte:
		l.lo, _ = t.span(col, 0)
		l.hi = codes
	case query.Lt:
		l.hi, _ = t.span(col, 0)
	case query.Lte:
		_, l.hi = t.span(col, 0)
	case query.Between:
		l.lo, _ = t.span(col, 0)
		_, l.hi = t.span(col, 1)
	case query.Contains, query.Suffix, query.Matches, query.NotContains, query.NotMatches:
		not := t.op == query.NotContains || t.op == query.NotMatches
		l.table = make([]uint8, codes)
		l.table[0] = verdict(t.missing)
		for c := uint32(1); c < codes; c++ {
			l.table[c] = verdict(t.match(col.Value(c).Text()) != not)
		}
	}
	l.hi = max(l.hi, l.lo)
	if l.table == nil && (codes <= 1<<8 || codes <= maxTable && int(codes) <= 4*col.Rows()) {
		l.tabulate(codes)
	}
}

// first is the first value, missing for the empty string.
func (t *test) first() event.Value {
	if len(t.values) == 0 {
		return event.Value{}
	}
	return t.values[0]
}

// narrow makes a constant of a leaf that passes every row or none.
func (l *leaf) narrow() {
	var none, all bool // of the codes from 1 on
	switch {
	case l.table != nil:
		none, all = !slices.Contains(l.table[1:], pass), !slices.Contains(l.table[1:], 0)
	case l.set != nil:
		return
	default:
		none, all = l.lo == l.hi, l.lo <= 1 && int(l.hi) == l.column.Codes()
		if l.not {
			none, all = all, none
		}
	}
	missing := l.column.MissingCount()
	if none && (!l.missing || missing == 0) {
		*l = leaf{same: false}
	} else if all && (l.missing || missing == 0) {
		*l = leaf{same: true}
	} else {
		l.bare = (none || all) && l.column.KeepsPresence()
	}
}

// span returns the codes that have one of the values: from lo up to, not including,
// hi. If no code has a value, both are the place where it would be. In a column with
// integers, whose property has become a number, several codes may be the same number.
func (t *test) span(col *segment.Column, i int) (lo, hi uint32) {
	v := t.values[i]
	if t.typ == event.Float && col.Type() == event.Int {
		n := col.Codes() - 1
		number := func(i int) float64 { return col.Value(uint32(i + 1)).Float() }
		first := sort.Search(n, func(i int) bool { return number(i) >= v.Float() })
		behind := sort.Search(n, func(i int) bool { return number(i) > v.Float() })
		return uint32(first + 1), uint32(behind + 1)
	}
	lo, exact := col.Search(v)
	if exact {
		return lo, lo + 1
	}
	return lo, lo
}

// successor returns the first string after all that begin with prefix, "" if
// there is none.
func successor(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return ""
}

// prepare makes sure that rows [lo,hi) of the segment can be read, for every column.
func (s *selector) prepare(v *view, w *worker, lo, hi int) error {
	for _, l := range s.leaves {
		if err := w.prepare(v, l.column, l.bare, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// pass is the byte of a row that passes, in what selectors fill; others are 0.
const pass = 0xff

// eval sets dst, which is of the arena, to pass for those rows of the segment from lo on
// that pass, and to 0 for the others.
func (s *selector) eval(dst []uint8, v *view, lo int, a *arena) {
	if s.leaf != nil {
		s.leaf.eval(dst, v, lo, a)
		return
	}
	list, and := s.all, true
	if list == nil {
		list, and = s.any, false
	}
	list[0].eval(dst, v, lo, a)
	m := a.mark()
	other := a.bytes(len(dst))
	for i := range list[1:] {
		list[i+1].eval(other, v, lo, a)
		to, from := words8(dst), words8(other)
		if and {
			for j, w := range from {
				to[j] &= w
			}
		} else {
			for j, w := range from {
				to[j] |= w
			}
		}
	}
	a.release(m)
}

func (l *leaf) eval(dst []uint8, v *view, lo int, a *arena) {
	n := len(dst)
	switch {
	case l.cohort:
		l.evalUsers(dst, v, lo)
		return
	case l.column == nil:
		paint(dst, verdict(l.same))
		return
	case l.bare:
		l.column.Presence(dst, l.missing, lo, lo+n)
		return
	}
	m := a.mark()
	defer a.release(m)
	switch codes := l.column.Codes(); {
	case codes == 0:
		for i, bits := range l.column.ReadRaw(a.words(n), lo, lo+n)[:n] {
			value, ok := rawValue(l.column.Type(), bits)
			dst[i] = verdict(ok && l.raw(value) || !ok && l.missing)
		}
	case codes <= 1<<8:
		var table [256]uint8 // of its own, so that no bounds are checked
		copy(table[:], l.table)
		l.column.Map8(dst, &table, lo, lo+n)
	case l.table != nil && codes <= maxTable:
		for i, c := range l.column.Read16(a.halves(n), lo, lo+n)[:n] {
			dst[i] = l.table[c]
		}
	case l.table != nil:
		for i, c := range l.column.Read32(a.ints(n), lo, lo+n)[:n] {
			dst[i] = l.table[c]
		}
	case l.set != nil:
		for i, c := range l.column.Read32(a.ints(n), lo, lo+n)[:n] {
			dst[i] = verdict(l.passes(c))
		}
	default:
		width, not, missing := l.hi-l.lo, verdict(l.not), verdict(l.missing)
		for i, c := range l.column.Read32(a.ints(n), lo, lo+n)[:n] {
			in := verdict(c-l.lo < width) ^ not
			if c == 0 {
				in = missing
			}
			dst[i] = in
		}
	}
}

func verdict(passes bool) uint8 {
	if passes {
		return pass
	}
	return 0
}

// evalUsers decides by the user of a row.
func (l *leaf) evalUsers(dst []uint8, v *view, lo int) {
	first := lo - v.RowLo
	u, _ := slices.BinarySearch(v.starts, uint32(lo)+1) // the first user behind the row's
	u--
	at, _ := slices.BinarySearch(l.users, v.hashes[u])
	for ; u < len(v.hashes) && v.row(u) < first+len(dst); u++ {
		h := v.hashes[u]
		for at < len(l.users) && l.users[at] < h {
			at++
		}
		in := at < len(l.users) && l.users[at] == h
		paint(dst[max(v.row(u)-first, 0):min(v.row(u+1)-first, len(dst))], verdict(in != l.not))
	}
}

// rawValue returns a value of a raw column, not ok and missing if it is.
func rawValue(t event.Type, raw uint64) (v event.Value, ok bool) {
	if t == event.Float {
		v = event.FloatOf(math.Float64frombits(raw))
	} else if int64(raw) != math.MinInt64 {
		v = event.IntOf(int64(raw))
	}
	return v, !v.Missing()
}

// meanings returns a mask for each code of a segment's events: bit k of the
// mask of a code is set if match k means that event.
func meanings(matches []matcher, events *segment.Column) []uint64 {
	table := make([]uint64, events.Codes())
	for k := range matches {
		bit := uint64(1) << k
		if len(matches[k].events) == 0 {
			for c := range table {
				table[c] |= bit
			}
			continue
		}
		for _, name := range matches[k].events {
			if c, ok := events.Search(event.StringOf(name)); ok {
				table[c] |= bit
			}
		}
	}
	table[0] = 0
	return table
}

// lowest returns the number of the lowest bit of a mask.
func lowest(m uint64) int { return bits.TrailingZeros64(m) }
