package segment

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// An Input is a segment to be merged.
type Input struct {
	Segment *Segment
	Hashes  HashRange // the others' rows are left out
	Dropped []uint64  // hashes of users whose rows are left out, ascending
	From    int64     // rows before this time are left out; math.MinInt64 for none
}

// A Summary describes the segment that Merge wrote.
type Summary struct {
	Rows, Users      int
	MinTime, MaxTime int64 // 0 without rows
	Bytes            int64
	Dropped          int64 // rows left out: of dropped users, too early, or duplicates
}

// Merge writes one segment with the rows of all inputs. Of rows that are equal in
// user, time and id, the row of the first input stays. A property that is integer in
// one and a number in another becomes a number; other differences give a
// *event.TypeError. Values that occur only in rows left out are gone.
//
// It goes through the inputs once for each column and holds one column at a time,
// in addition to the order: at most 16 bytes for a row, 20 for a user, and 12 for each
// place where the output goes on with another input. A damaged input gives a
// *DamageError.
func Merge(w io.Writer, inputs []Input) (Summary, error) {
	if !littleEndian() {
		return Summary{}, errOrder("merged")
	}
	schema, err := union(inputs)
	if err != nil {
		return Summary{}, err
	}
	p, err := newPlan(inputs)
	if err != nil {
		return Summary{}, err
	}
	// An image of a few rows, as each small append is merged into, would pay more
	// for its buffers than for its rows.
	buffered := bufio.NewWriterSize(w, min(max(p.rows*bufferedRow, 4<<10), 256<<10))
	m := &merging{plan: p, imageWriter: newImageWriter(buffered, p.rows)}
	if err := m.run(schema); err != nil {
		return Summary{}, err
	}
	if err := buffered.Flush(); err != nil {
		return Summary{}, err
	}
	return Summary{
		Rows: m.imageWriter.rows, Users: m.imageWriter.users, MinTime: m.minTime, MaxTime: m.maxTime,
		Bytes: m.o.off, Dropped: p.dropped,
	}, nil
}

// bufferedRow is approximately the bytes of a row in a segment.
const bufferedRow = 16

func union(inputs []Input) (event.Schema, error) {
	var schema event.Schema
	for _, in := range inputs {
		merged, err := schema.Merge(in.Segment.Schema())
		if err != nil {
			return nil, fmt.Errorf("segment %s: %w", in.Segment.Name(), err)
		}
		schema = merged
	}
	return schema, nil
}

// A merging is a Merge under way.
type merging struct {
	*imageWriter
	plan *plan
}

func (m *merging) run(schema event.Schema) error {
	p := m.plan
	hashes := make([]uint64, len(p.userOf))
	for i, u := range p.userOf {
		hashes[i] = p.inputs[u.input].Segment.hashes[u.row]
	}
	m.begin(hashes, p.rowStart)
	if err := m.userIDs(p.userID); err != nil {
		return err
	}
	if err := m.writeTimes(); err != nil {
		return err
	}
	codes := make([]uint32, p.rows)
	if err := m.mergeWords(&meta{role: roleEvents, typ: event.String}, (*Segment).Events, codes); err != nil {
		return err
	}
	if slices.ContainsFunc(p.inputs, func(in Input) bool { return in.Segment.HasIDs() }) {
		columns, err := p.prepared((*Segment).IDs)
		if err != nil {
			return err
		}
		values := make([]uint64, p.rows)
		m.gatherRaw(values, event.Unknown, columns)
		m.ids(values)
	}
	for _, f := range schema {
		var err error
		column := func(s *Segment) *Column { return s.Column(f.Name) }
		if f.Type == event.String {
			err = m.mergeWords(&meta{name: f.Name, typ: f.Type}, column, codes)
		} else {
			err = m.mergeNumbers(&meta{name: f.Name, typ: f.Type}, column, codes)
		}
		if err != nil {
			return err
		}
	}
	return m.finish()
}

// writeTimes merges the times. They are in seconds if the times of all inputs are.
func (m *merging) writeTimes() error {
	p := m.plan
	base, last := int64(0), int64(0)
	unit := int64(1000)
	if p.rows > 0 {
		base, last = p.minTime, p.maxTime
	}
	for _, in := range p.inputs {
		if t := in.Segment.Times(); in.Segment.Rows() > 0 && (t.Unit() != 1000 || (t.Base()-base)%1000 != 0) {
			unit = 1
		}
	}
	if (last-base)/unit > math.MaxUint32 {
		return errSpan(base, last)
	}
	offsets := make([]uint32, p.rows)
	windows := newWindows[uint32](len(p.inputs))
	at := 0
	for _, sp := range p.spans {
		t := p.inputs[sp.input].Segment.Times()
		shift, step := (t.Base()-base)/unit, t.Unit()/unit
		for lo := sp.lo; lo < sp.lo+sp.n; {
			part := windows[sp.input].from(lo, sp.lo+sp.n, t.s.rows, t.Read)
			out := offsets[at:][:len(part)]
			for i, off := range part {
				out[i] = uint32(int64(off)*step + shift)
			}
			at += len(part)
			lo += uint32(len(part))
		}
	}
	return m.times(offsets, base, unit, last, nil)
}

// windowRows is the number of rows of an input that are decoded at a time. Callers ask
// for rows in ascending order.
func windowRows(inputs int) int { return min(max(512<<10/max(inputs, 1), 1<<10), 16<<10) }

// A window is the part of an input's column that is decoded.
type window[T number] struct {
	size int
	lo   uint32
	now  []T
	buf  []T
}

func newWindows[T number](inputs int) []window[T] {
	windows := make([]window[T], inputs)
	for i := range windows {
		windows[i].size = windowRows(inputs)
	}
	return windows
}

// from returns values from lo on: at least one, at most to hi. read decodes rows of
// a column that has rows in all.
func (w *window[T]) from(lo, hi uint32, rows int, read func(dst []T, lo, hi int) []T) []T {
	if lo < w.lo || lo >= w.lo+uint32(len(w.now)) {
		w.buf = sized(w.buf, min(w.size, rows))
		w.lo = lo
		w.now = read(w.buf, int(lo), min(int(lo)+w.size, rows))
	}
	part := w.now[lo-w.lo:]
	return part[:min(len(part), int(hi-lo))]
}

// A recoding maps the codes of an input's column to the codes of the merged one: by
// a table, or by adding to all but 0.
type recoding struct {
	table []uint32
	shift uint32
}

// gatherCodes sets the codes of all rows. An input without the column has code 0.
func (m *merging) gatherCodes(codes []uint32, columns []*Column, to []recoding) error {
	p := m.plan
	windows := newWindows[uint32](len(p.inputs))
	at := 0
	for _, sp := range p.spans {
		c := columns[sp.input]
		if c == nil {
			clear(codes[at:][:sp.n])
			at += int(sp.n)
			continue
		}
		for lo := sp.lo; lo < sp.lo+sp.n; {
			part := windows[sp.input].from(lo, sp.lo+sp.n, c.rows, c.Read32)
			if !to[sp.input].recode(codes[at:][:len(part)], part, c.codes) {
				return c.s.damage(c.section(), c.meta.data, "a code that stands for nothing")
			}
			at += len(part)
			lo += uint32(len(part))
		}
	}
	return nil
}

// recode is not ok for a code that the column does not have.
func (r *recoding) recode(out, in []uint32, codes int) (ok bool) {
	if r.table != nil {
		for i, code := range in {
			if int(code) >= len(r.table) {
				return false
			}
			out[i] = r.table[code]
		}
		return true
	}
	top := uint32(0)
	for i, code := range in {
		top = max(top, code)
		if out[i] = 0; code != 0 {
			out[i] = code + r.shift
		}
	}
	return int64(top) < int64(codes)
}

// mergeWords merges a column of strings: the dictionaries into one, then the codes.
func (m *merging) mergeWords(meta *meta, column func(*Segment) *Column, codes []uint32) error {
	columns, err := m.plan.prepared(column)
	if err != nil {
		return err
	}
	terms, to := uniteTerms(columns)
	if err := m.gatherCodes(codes, columns, to); err != nil {
		return err
	}
	return m.words(meta, terms, codes)
}

// mergeNumbers merges a column of integers, numbers or booleans: as codes if one range
// covers the values of all inputs, which takes half the memory, or else as raw values.
func (m *merging) mergeNumbers(meta *meta, column func(*Segment) *Column, codes []uint32) error {
	columns, err := m.plan.prepared(column)
	if err != nil {
		return err
	}
	if to, ok := uniteRanges(meta, columns); ok {
		if err := m.gatherCodes(codes, columns, to); err != nil {
			return err
		}
		m.coded(meta, codes)
		return nil
	}
	values := make([]uint64, m.plan.rows)
	m.gatherRaw(values, meta.typ, columns)
	return m.numbers(meta, values)
}

// uniteRanges finds the range that covers the ranges of all columns. It is not ok if a
// column has no range or another scale, or if the ranges are too far apart.
func uniteRanges(m *meta, columns []*Column) (to []recoding, ok bool) {
	to = make([]recoding, len(columns))
	low, top := int64(math.MaxInt64), int64(math.MinInt64)
	first, dict, scale := true, dictNone, 0
	for _, c := range columns {
		if c == nil {
			continue
		}
		if c.typ != m.typ || c.dict != dictRange && c.dict != dictBool || !first && c.scale != scale {
			return nil, false
		}
		dict, scale, first = c.dict, c.scale, false
		if c.codes > 1 {
			low, top = min(low, c.min), max(top, c.min+int64(c.codes-2))
		}
	}
	if first || low > top || uint64(top-low) > maxCodes-2 {
		return nil, false
	}
	m.dict, m.codes = dict, 3
	if dict == dictBool {
		return to, true
	}
	m.scale, m.min, m.codes = scale, low, int(top-low)+2
	for i, c := range columns {
		if c != nil && c.codes > 1 {
			to[i].shift = uint32(c.min - low)
		}
	}
	return to, true
}

// uniteTerms merges sorted dictionaries. to gives the new code of each code of each
// input. The strings are in the mapped files of the inputs.
func uniteTerms(columns []*Column) (terms []string, to []recoding) {
	to = make([]recoding, len(columns))
	type head struct {
		term string
		col  int
		code uint32
	}
	var heads heap[head]
	less := func(a, b head) bool { return a.term < b.term }
	for i, c := range columns {
		if c == nil {
			continue
		}
		to[i].table = make([]uint32, c.codes)
		if c.codes > 1 {
			heads.push(head{c.term(1), i, 1}, less)
		}
	}
	for len(heads) > 0 {
		h := heads[0]
		if len(terms) == 0 || terms[len(terms)-1] != h.term {
			terms = append(terms, h.term)
		}
		c := columns[h.col]
		to[h.col].table[h.code] = uint32(len(terms))
		if h.code++; int(h.code) < c.codes {
			h.term = c.term(h.code)
			heads[0] = h
			heads.down(0, less)
		} else {
			heads.pop(less)
		}
	}
	return terms, to
}

// gatherRaw merges a column of numbers, integers or booleans into raw values of a
// type. Inputs whose column is coded are decoded through a table of its values if
// it is short.
func (m *merging) gatherRaw(values []uint64, t event.Type, columns []*Column) {
	p := m.plan
	windows := newWindows[uint64](len(p.inputs))
	reads := make([]func(dst []uint64, lo, hi int) []uint64, len(p.inputs))
	for i, c := range columns {
		if c != nil {
			reads[i] = c.rawReader(t)
		}
	}
	none := RawMissing(t)
	at := 0
	for _, sp := range p.spans {
		if columns[sp.input] == nil {
			fill(values[at:][:sp.n], none)
			at += int(sp.n)
			continue
		}
		for lo := sp.lo; lo < sp.lo+sp.n; {
			part := windows[sp.input].from(lo, sp.lo+sp.n, columns[sp.input].rows, reads[sp.input])
			at += copy(values[at:], part)
			lo += uint32(len(part))
		}
	}
}

// rawReader returns a function that reads rows as raw values of a type, which is
// the column's own or number for an integer one.
func (c *Column) rawReader(t event.Type) func(dst []uint64, lo, hi int) []uint64 {
	floats := c.typ == event.Int && t == event.Float
	if c.codes == 0 {
		return func(dst []uint64, lo, hi int) []uint64 {
			raw := c.ReadRaw(dst, lo, hi)
			if floats {
				dst = sized(dst, len(raw))
				copy(dst, raw)
				toFloats(dst)
				return dst
			}
			return raw
		}
	}
	var codes []uint32
	var table []uint64
	if c.codes <= 1<<16 {
		table = make([]uint64, c.codes)
		for code := range table {
			table[code] = c.rawOf(uint32(code), t)
		}
	}
	return func(dst []uint64, lo, hi int) []uint64 {
		dst = sized(dst, hi-lo)
		codes = c.Read32(codes, lo, hi)
		switch {
		case table != nil:
			for i, code := range codes {
				dst[i] = table[min(int(code), len(table)-1)]
			}
		case c.dict == dictRange && !floats && c.typ == event.Int:
			first, none := uint64(c.min)-1, RawMissing(t)
			for i, code := range codes {
				dst[i] = first + uint64(code)
				if code == 0 {
					dst[i] = none
				}
			}
		default:
			for i, code := range codes {
				dst[i] = c.rawOf(code, t)
			}
		}
		return dst
	}
}

func (c *Column) rawOf(code uint32, t event.Type) uint64 {
	v := c.Value(code)
	switch {
	case v.Missing():
		return RawMissing(t)
	case t == event.Bool:
		return uint64(1 + b2i(v.Bool()))
	case t == event.Float:
		return math.Float64bits(v.Float() + 0)
	}
	return uint64(v.Int())
}

// A heap has the smallest entry first.
type heap[T any] []T

func (h *heap[T]) push(v T, less func(a, b T) bool) {
	*h = append(*h, v)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !less(s[i], s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

// down puts the entry at i, which may have become greater, in its place.
func (h heap[T]) down(i int, less func(a, b T) bool) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if less(h[child], h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

func (h *heap[T]) pop(less func(a, b T) bool) {
	s := *h
	s[0] = s[len(s)-1]
	*h = s[:len(s)-1]
	h.down(0, less)
}

// compareIDs orders the users of two inputs who share a hash. Nearly always they
// are one user, and a common prefix and number settle it without strings.
func compareIDs(a *Segment, ordA int, b *Segment, ordB int) (int, error) {
	if a.ids.kind == idNumbers && b.ids.kind == idNumbers && a.ids.prefix == b.ids.prefix && a.ids.number(a, ordA) == b.ids.number(b, ordB) {
		return 0, nil
	}
	var bufA, bufB [64]byte
	x, err := a.ids.append(bufA[:0], a, ordA)
	if err != nil {
		return 0, err
	}
	y, err := b.ids.append(bufB[:0], b, ordB)
	if err != nil {
		return 0, err
	}
	return bytes.Compare(x, y), nil
}
