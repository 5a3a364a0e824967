package segment

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// Verify checks all pages, and then what the format promises of their values: orders,
// counts, and that the parts agree. It returns the damage in the order of the file.
// It checks values only if all pages are sound, and reports the first fault of each
// part.
func (s *Segment) Verify() []DamageError {
	v := &verifier{s: s}
	for page := range (s.body + pageSize - 1) >> pageBits {
		at := span{page << pageBits, min(pageSize, s.body-page<<pageBits)}
		v.add(s.checkPage(page, s.sectionsOf(at)))
	}
	if len(v.found) > 0 {
		return v.found
	}
	v.users()
	if len(v.found) > 0 {
		return v.found // the other checks need the users' rows
	}
	v.times()
	for _, c := range s.allColumns() {
		v.column(c)
	}
	if len(v.found) == 0 {
		v.eventIDs()
		v.sets()
		for _, c := range s.allColumns() {
			v.blocks(c)
		}
	}
	return v.found
}

func (s *Segment) allColumns() []*Column {
	all := []*Column{s.events}
	if s.eventIDs != nil {
		all = append(all, s.eventIDs)
	}
	return append(all, s.columns...)
}

func (s *Segment) sectionsOf(p span) string {
	var names []string
	if p.off < headerSize {
		names = append(names, nameHeader)
	}
	for _, sec := range s.sections {
		if sec.span.off < p.off+p.len && p.off < sec.span.off+sec.span.len && !slices.Contains(names, sec.name) {
			names = append(names, sec.name)
		}
	}
	return strings.Join(names, ", ")
}

// A verifier gathers what Verify finds.
type verifier struct {
	s     *Segment
	found []DamageError
}

func (v *verifier) add(err error) {
	if err == nil {
		return
	}
	d := &DamageError{Path: v.s.name, Section: nameUsers, Length: v.s.Size(), Reason: err.Error()}
	errors.As(err, &d) // errors of reading are of that type
	v.found = append(v.found, *d)
}

func (v *verifier) fail(section string, at span, format string, args ...any) {
	v.add(v.s.damage(section, at, fmt.Sprintf(format, args...)))
}

// users checks the order of the users, and their hashes against their ids.
func (v *verifier) users() {
	s := v.s
	if err := s.checkOrder(); err != nil {
		v.add(err)
		return
	}
	before := ""
	for u := range s.users {
		if s.FirstRow(u) == s.FirstRow(u+1) {
			v.fail(nameUsers, s.starts.place(u), "user %d has no rows", u)
			return
		}
		id, err := s.UserID(u)
		if err != nil {
			v.add(err)
			return
		}
		h := s.hashes[u]
		if event.Hash(id) != h {
			v.fail(nameUsers, s.hashAt.part(u, u+1, 8), "the stored hash of user %d is not the hash of the id", u)
			return
		}
		if u > 0 && (h < s.hashes[u-1] || h == s.hashes[u-1] && id <= before) {
			v.fail(nameUsers, s.hashAt.part(u, u+1, 8), "user %d is out of order", u)
			return
		}
		before = id
	}
}

// verifyRows is the number of rows decoded at a time.
const verifyRows = 16 << 10

// times checks that each user's times ascend and that the summary has the first and
// the last one.
func (v *verifier) times() {
	t := v.s.Times()
	low, top := int64(math.MaxInt64), int64(math.MinInt64)
	if t.gaps != nil && !v.gaps(t.gaps) {
		return
	}
	var buf []uint32
	last, user := uint32(0), -1
	for lo := 0; lo < v.s.rows; lo += verifyRows {
		buf = t.Read(buf[:cap(buf):cap(buf)], lo, min(lo+verifyRows, v.s.rows))
		for i, off := range buf {
			if row := lo + i; row == v.s.FirstRow(user+1) {
				user++
			} else if off < last {
				v.fail(nameTimes, t.place(row), "row %d is before the row before it", row)
				return
			}
			last = off
			at := t.base + t.unit*int64(off)
			low, top = min(low, at), max(top, at)
		}
	}
	if v.s.rows > 0 && (low != v.s.minTime || top != v.s.maxTime) {
		v.fail(nameTimes, t.place(0), "times from %d to %d, the footer has %d to %d", low, top, v.s.minTime, v.s.maxTime)
	}
}

// gaps checks what reading gaps relies on.
func (v *verifier) gaps(g *gaps) bool {
	if _, err := g.prepare(v.s, 0, v.s.rows); err != nil {
		v.add(err)
		return false
	}
	groups := gapGroups(g.rows)
	if g.starts[0] != 0 || int64(g.starts[groups])+slack != g.gapAt.len {
		v.fail(nameTimes, g.startAt, "groups do not cover the gaps")
		return false
	}
	var rows [gapGroup]uint32
	for k, user := 0, 0; k < groups; k++ {
		if before := rows[gapGroup-1]; g.marks[k] != before {
			v.fail(nameTimes, g.markAt.part(k, k+1, 4), "the mark of group %d is %d, the gaps give %d", k, g.marks[k], before)
			return false
		}
		user = g.group(&rows, v.s, k, user, gapGroup)
	}
	return true
}

// column checks the dictionary of a column, how its codes are laid out, and them.
func (v *verifier) column(c *Column) {
	if !v.dictionary(c) || !v.layout(c) {
		return
	}
	missing := 0
	if c.codes == 0 {
		var buf []uint64
		for lo := 0; lo < c.rows; lo += verifyRows {
			buf = c.ReadRaw(buf, lo, min(lo+verifyRows, c.rows))
			missing += missingIn(buf, RawMissing(c.typ))
		}
	} else {
		var buf []uint32
		for lo := 0; lo < c.rows; lo += verifyRows {
			buf = c.Read32(buf, lo, min(lo+verifyRows, c.rows))
			for i, code := range buf {
				if int64(code) >= int64(c.codes) {
					v.fail(c.section(), c.meta.data, "row %d has code %d of %d", lo+i, code, c.codes)
					return
				}
				missing += 1 - b2i(code != 0)
			}
		}
	}
	if missing != c.missing || c.role == roleEvents && missing > 0 {
		v.fail(c.section(), c.meta.data, "%d rows without a value, the footer has %d", missing, c.missing)
	}
}

func (v *verifier) dictionary(c *Column) bool {
	switch c.dict {
	case dictText, dictPackedText:
		if c.end(0) != 0 || int(c.end(uint32(c.codes-1))) != len(c.bytes) {
			v.fail(c.dictSection(), c.terms, "ends do not cover the text")
			return false
		}
		for code := 1; code < c.codes; code++ {
			if end := c.end(uint32(code)); end <= c.end(uint32(code-1)) || int(end) > len(c.bytes) ||
				code > 1 && c.term(uint32(code)) <= c.term(uint32(code-1)) {
				v.fail(c.dictSection(), c.terms, "the string of code %d is out of order", code)
				return false
			}
		}
	case dictValues:
		for code := 1; code < c.codes; code++ {
			if c.Value(uint32(code)).Missing() || code > 1 && c.compare(uint32(code-1), c.Value(uint32(code))) >= 0 {
				v.fail(c.dictSection(), c.terms.part(code-1, code, 8), "the value of code %d is out of order", code)
				return false
			}
		}
	}
	return true
}

// layout checks what the methods that read rely on.
func (v *verifier) layout(c *Column) bool {
	switch c.enc {
	case encSparse, encRawSparse:
		for i, row := range c.places {
			if int(row) >= c.rows || i > 0 && row <= c.places[i-1] {
				v.fail(c.section(), c.meta.places.part(i, i+1, 4), "exception %d is out of order", i)
				return false
			}
		}
	case encRuns:
		row := 0
		for i, n := range c.runs {
			for next := (row + runBlock - 1) / runBlock * runBlock; next < row+int(n) && next < c.rows; next += runBlock {
				if c.blocks[next/runBlock] != uint64(i)<<8|uint64(next-row) {
					v.fail(c.section(), c.meta.index.part(next/runBlock, next/runBlock+1, 8), "the index is wrong about row %d", next)
					return false
				}
			}
			if n == 0 {
				v.fail(c.section(), c.meta.places.part(i, i+1, 1), "run %d has no rows", i)
				return false
			}
			row += int(n)
		}
		if row != c.rows {
			v.fail(c.section(), c.meta.places, "runs of %d rows, there are %d", row, c.rows)
			return false
		}
	case encDigits:
		limit := uint8(1)
		for range digitsIn(c.width) {
			limit *= uint8(c.width) // 0 if all bytes have digits
		}
		for i, b := range c.data8 {
			if limit > 0 && b >= limit {
				v.fail(c.section(), c.meta.data.part(i, i+1, 1), "byte %d has more than its digits", i)
				return false
			}
		}
	case encPresent:
		return v.present(c)
	case encUserSparse:
		return v.userSparse(c)
	}
	return true
}

func (v *verifier) present(c *Column) bool {
	n := 0
	for i, word := range c.bits {
		if i%(runBlock/64) == 0 && int(c.ranks[i/(runBlock/64)]) != n {
			v.fail(c.section(), c.meta.index.part(i/(runBlock/64), i/(runBlock/64)+1, 4), "the rank of row %d is not %d", i*64, n)
			return false
		}
		n += bits.OnesCount64(word)
	}
	if last := len(c.bits) - 1; last >= 0 && c.rows&63 != 0 && c.bits[last]>>(c.rows&63) != 0 {
		v.fail(c.section(), c.meta.places.part(last, last+1, 8), "rows after the last one have values")
		return false
	}
	if n != c.count {
		v.fail(c.section(), c.meta.places, "%d rows have values, the footer has %d", n, c.count)
		return false
	}
	return true
}

func (v *verifier) userSparse(c *Column) bool {
	last := len(c.ranks) - 1
	if c.ranks[0] != 0 || int(c.ranks[last]) != c.count {
		v.fail(c.section(), c.meta.index, "the index does not cover the exceptions")
		return false
	}
	for i := range last {
		from, to := c.ranks[i], c.ranks[i+1]
		if from > to || int(to) > c.count {
			v.fail(c.section(), c.meta.index.part(i, i+2, 4), "stripe %d is out of order", i)
			return false
		}
		for j := from; j < to; j++ {
			if j > from && c.low16[j] <= c.low16[j-1] || i*stripe+int(c.low16[j]) >= c.rows {
				v.fail(c.section(), c.meta.places.part(int(j), int(j)+1, 2), "exception %d is out of order", j)
				return false
			}
		}
	}
	return true
}

// eventIDs checks that ids ascend where times are equal, without duplicates.
func (v *verifier) eventIDs() {
	c, t := v.s.eventIDs, v.s.Times()
	if c == nil {
		return
	}
	for u := range v.s.users {
		lo, hi := v.s.FirstRow(u), v.s.FirstRow(u+1)
		for row := lo + 1; row < hi; row++ {
			if t.At(row) != t.At(row-1) {
				continue
			}
			if a, b := c.rawAt(row-1), c.rawAt(row); a > b || a == b && a != 0 {
				v.fail(nameEventID, c.meta.data, "the id of row %d is out of order", row)
				return
			}
		}
	}
}

func (v *verifier) sets() {
	x := v.s.sets
	if x == nil {
		return
	}
	sets := x.Read(nil, 0, v.s.users)
	var codes []uint32
	for u, got := range sets {
		codes = v.s.events.Read32(codes, v.s.FirstRow(u), v.s.FirstRow(u+1))
		want := uint64(0)
		for _, c := range codes {
			want |= 1 << ((c - 1) & 63)
		}
		if got != want {
			v.fail(nameSets, x.at.part(u, u+1, int64(x.width)), "the set of user %d is %x, the events give %x", u, got, want)
			return
		}
	}
}
