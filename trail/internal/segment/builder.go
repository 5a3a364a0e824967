package segment

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A Builder collects events in any order and makes a segment of them. It must not be
// used concurrently.
type Builder struct {
	schema  event.Schema
	users   termTable // users.at has the user of each row
	times   []int64
	names   termTable
	ids     []uint64 // nil if no event has one
	columns []columnBuffer
	strings int64 // bytes of strings that were copied
}

// A columnBuffer has the values of rows as they were added. Rows beyond its end have
// missing values.
type columnBuffer struct {
	words termTable // of String
	raw   []uint64  // of the other types; Bool as 1 and 2, 0 for missing
}

// A termTable has the strings of a column, each once.
type termTable struct {
	codes map[string]uint32
	terms []string // by code
	at    []uint32 // code of each row
	last  uint32   // code of the row before
}

// put adds the string of the next row and returns how many bytes it copied.
func (w *termTable) put(s string) int64 {
	if len(w.at) > 0 && int(w.last) < len(w.terms) && w.terms[w.last] == s {
		w.at = append(w.at, w.last)
		return 0
	}
	code, ok := w.codes[s]
	var grown int64
	if !ok {
		if w.codes == nil {
			w.codes = make(map[string]uint32)
		}
		code = uint32(len(w.terms))
		s = strings.Clone(s)
		grown = int64(len(s))
		w.terms = append(w.terms, s)
		w.codes[s] = code
	}
	w.last = code
	w.at = append(w.at, code)
	return grown
}

func (w *termTable) reset() {
	if len(w.codes) > 1<<12 {
		w.codes = nil // clearing takes time by the largest size of the map
	}
	clear(w.codes)
	clear(w.terms)
	w.terms, w.at, w.last = w.terms[:0], w.at[:0], 0
}

// bytes returns the memory of the arrays. A map takes about 48 bytes for a string.
func (w *termTable) bytes() int64 { return int64(cap(w.at))*4 + int64(len(w.terms))*(16+48) }

// NewBuilder returns a builder of events with these properties.
func NewBuilder(schema event.Schema) *Builder {
	b := &Builder{}
	b.Extend(schema)
	return b
}

// Extend changes the properties: it may add some and turn integers into numbers.
// Earlier properties keep their places.
func (b *Builder) Extend(schema event.Schema) {
	invariant.Check(len(schema) >= len(b.schema), "segment.Builder: the schema shrank from %d to %d", len(b.schema), len(schema))
	for i := range b.columns {
		if b.schema[i].Type == event.Int && schema[i].Type == event.Float {
			toFloats(b.columns[i].raw)
		}
	}
	for len(b.columns) < len(schema) {
		b.columns = append(b.columns, columnBuffer{})
	}
	b.schema = slices.Clone(schema)
}

func toFloats(raw []uint64) {
	for i, v := range raw {
		if v == RawMissing(event.Int) {
			raw[i] = RawMissing(event.Float)
		} else {
			raw[i] = math.Float64bits(float64(int64(v)) + 0)
		}
	}
}

// Add adds an event. values[i] is of the property schema[i]; values beyond the end of
// values are missing. Strings are copied. The id 0 means none. The smallest integer
// stands for a missing one.
func (b *Builder) Add(user string, millis int64, name string, id uint64, values []event.Value) {
	row := len(b.times)
	b.strings += b.users.put(user)
	b.strings += b.names.put(name)
	b.times = append(b.times, millis)
	if id != 0 && b.ids == nil {
		b.ids = make([]uint64, row, max(row+1, 64))
	}
	if b.ids != nil {
		b.ids = append(b.ids, id)
	}
	for i, v := range values {
		b.value(&b.columns[i], b.schema[i].Type, row, v)
	}
}

func (b *Builder) value(c *columnBuffer, t event.Type, row int, v event.Value) {
	if v.Missing() {
		return // the next value fills up to its row
	}
	v, ok := v.As(t)
	invariant.Check(ok, "segment.Builder: a value of type %s for a property of type %s", v.Type(), t)
	if !ok {
		return
	}
	if t == event.String {
		for len(c.words.at) < row {
			c.words.put("")
		}
		b.strings += c.words.put(v.Text())
		return
	}
	c.pad(row, t)
	switch t {
	case event.Int:
		c.raw = append(c.raw, uint64(v.Int()))
	case event.Float:
		c.raw = append(c.raw, math.Float64bits(v.Float()))
	case event.Bool:
		c.raw = append(c.raw, uint64(1+b2i(v.Bool())))
	}
}

func (c *columnBuffer) pad(row int, t event.Type) {
	for len(c.raw) < row {
		c.raw = append(c.raw, RawMissing(t))
	}
}

// Rows returns how many events were added since the last Image or Reset.
func (b *Builder) Rows() int { return len(b.times) }

// Bytes returns approximately the memory of the builder.
func (b *Builder) Bytes() int64 {
	n := b.strings + b.users.bytes() + b.names.bytes() + int64(cap(b.times)+cap(b.ids))*8
	for i := range b.columns {
		n += b.columns[i].words.bytes() + int64(cap(b.columns[i].raw))*8
	}
	return n
}

// Reset removes all events, and keeps the schema and the memory.
func (b *Builder) Reset() {
	b.users.reset()
	b.names.reset()
	b.times, b.ids = b.times[:0], nil
	b.strings = 0
	for i := range b.columns {
		b.columns[i].words.reset()
		b.columns[i].raw = b.columns[i].raw[:0]
	}
}

// Image returns a segment of the events and resets the builder. Of events equal in
// user, time and id it keeps the first that was added. It is an error if times are too
// far apart (49 days if one is not in whole seconds), or if there is too much text.
func (b *Builder) Image() ([]byte, error) {
	defer b.Reset()
	if len(b.times) > MaxRows {
		return nil, fmt.Errorf("segment: %d rows, at most %d fit", len(b.times), MaxRows)
	}
	if !littleEndian() {
		return nil, errOrder("in memory")
	}
	buf := bytes.NewBuffer(make([]byte, 0, 1024+len(b.times)*(8+2*len(b.columns))))
	w := newImageWriter(buf, len(b.times))
	ord := b.order()
	w.begin(ord.hashes, ord.rowStart)
	if err := w.userIDs(func(dst []byte, i int) ([]byte, error) { return append(dst, b.users.terms[ord.users[i]]...), nil }); err != nil {
		return nil, err
	}
	if err := w.times(b.gatherTimes(ord.perm)); err != nil {
		return nil, err
	}
	if err := b.writeColumns(w, ord); err != nil {
		return nil, err
	}
	if err := w.finish(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func (b *Builder) gatherTimes(perm []uint32) (offsets []uint32, base, unit, last int64, err error) {
	if len(perm) == 0 {
		return nil, 0, 1, 0, nil
	}
	base, last = math.MaxInt64, math.MinInt64
	for _, row := range perm {
		base, last = min(base, b.times[row]), max(last, b.times[row])
	}
	unit = 1000
	for _, row := range perm {
		if (b.times[row]-base)%1000 != 0 {
			unit = 1
			break
		}
	}
	if (last-base)/unit > math.MaxUint32 {
		return nil, 0, 0, 0, errSpan(base, last)
	}
	offsets = make([]uint32, len(perm))
	if unit == 1 {
		for i, row := range perm {
			offsets[i] = uint32(b.times[row] - base)
		}
	} else {
		for i, row := range perm {
			offsets[i] = uint32(uint64(b.times[row]-base) / 1000)
		}
	}
	return offsets, base, unit, last, nil
}

func errSpan(base, last int64) error {
	return fmt.Errorf("segment: events from %s to %s do not fit into one", event.Time(base), event.Time(last))
}

func (b *Builder) writeColumns(w *imageWriter, ord order) error {
	codes := make([]uint32, len(ord.perm))
	m := &meta{role: roleEvents, typ: event.String}
	if err := w.words(m, gatherWords(&b.names, ord.perm, codes), codes); err != nil {
		return err
	}
	if b.ids != nil {
		w.ids(gatherRaw(b.ids, ord.perm, 0))
	}
	for i := range b.columns {
		f := b.schema[i]
		m := &meta{name: f.Name, typ: f.Type}
		var err error
		if f.Type == event.String {
			err = w.words(m, gatherWords(&b.columns[i].words, ord.perm, codes), codes)
		} else if len(b.columns[i].raw) > 0 {
			err = w.numbers(m, gatherRaw(b.columns[i].raw, ord.perm, RawMissing(f.Type)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gatherWords sets the codes of the rows in order and returns the sorted strings
// that they stand for, from code 1 on.
func gatherWords(w *termTable, perm, codes []uint32) []string {
	sorted, to := sortTerms(w.terms)
	if len(sorted) > 0 && sorted[0] == "" { // is the missing value, code 0
		sorted = sorted[1:]
		for i := range to {
			to[i]--
		}
	}
	for i, row := range perm {
		codes[i] = 0
		if int(row) < len(w.at) {
			codes[i] = to[w.at[row]]
		}
	}
	return sorted
}

func gatherRaw(raw []uint64, perm []uint32, none uint64) []uint64 {
	values := make([]uint64, len(perm))
	for i, row := range perm {
		if int(row) < len(raw) {
			values[i] = raw[row]
		} else {
			values[i] = none
		}
	}
	return values
}

// An order is the order of a builder's rows in a segment.
type order struct {
	users    []uint32 // code of each user
	hashes   []uint64
	rowStart []uint32
	perm     []uint32 // row of the builder by row of the segment
}

// order sorts the rows: users by hash and id, which are few, the rows into the
// users' places in one pass, then the rows of each user by time and id, which mostly
// came that way. Duplicates are left out.
func (b *Builder) order() order {
	n := len(b.users.terms)
	type user struct {
		hash uint64
		code uint32
	}
	users := make([]user, n)
	for i, id := range b.users.terms {
		users[i] = user{event.Hash(id), uint32(i)}
	}
	slices.SortFunc(users, func(x, y user) int {
		if x.hash != y.hash {
			return cmp.Compare(x.hash, y.hash)
		}
		return strings.Compare(b.users.terms[x.code], b.users.terms[y.code])
	})
	o := order{make([]uint32, n), make([]uint64, n), make([]uint32, n+1), make([]uint32, len(b.times))}
	rank := make([]uint32, n)
	for i, u := range users {
		o.users[i], o.hashes[i] = u.code, u.hash
		rank[u.code] = uint32(i)
	}
	for _, code := range b.users.at {
		o.rowStart[rank[code]+1]++
	}
	for i := range n {
		o.rowStart[i+1] += o.rowStart[i]
	}
	next := slices.Clone(o.rowStart[:n])
	for row, code := range b.users.at {
		at := &next[rank[code]]
		o.perm[*at] = uint32(row)
		*at++
	}
	b.orderUsers(&o)
	return o
}

// orderUsers sorts the rows of each user and drops duplicates.
func (b *Builder) orderUsers(o *order) {
	var keys []rowKey
	kept := uint32(0)
	for u := range o.hashes {
		rows := o.perm[o.rowStart[u]:o.rowStart[u+1]]
		if !b.sorted(rows) {
			keys = b.sortRows(rows, keys)
		}
		o.rowStart[u] = kept
		for i, row := range rows {
			if b.ids != nil && i > 0 && b.ids[row] != 0 && b.ids[row] == b.ids[rows[i-1]] && b.times[row] == b.times[rows[i-1]] {
				continue
			}
			o.perm[kept] = row
			kept++
		}
	}
	o.rowStart[len(o.hashes)] = kept
	o.perm = o.perm[:kept]
}

func (b *Builder) sorted(rows []uint32) bool {
	for i := 1; i < len(rows); i++ {
		x, y := rows[i-1], rows[i]
		if b.times[x] > b.times[y] || b.ids != nil && b.times[x] == b.times[y] && b.ids[x] > b.ids[y] {
			return false
		}
	}
	return true
}

// A rowKey is the sort key of the rows of a user. Equal rows keep their order.
type rowKey struct {
	time int64
	id   uint64
	row  uint32
}

func (b *Builder) sortRows(rows []uint32, keys []rowKey) []rowKey {
	keys = keys[:0]
	for _, row := range rows {
		k := rowKey{time: b.times[row], row: row}
		if b.ids != nil {
			k.id = b.ids[row]
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y rowKey) int {
		switch {
		case x.time != y.time:
			return cmp.Compare(x.time, y.time)
		case x.id != y.id:
			return cmp.Compare(x.id, y.id)
		}
		return cmp.Compare(x.row, y.row)
	})
	for i, k := range keys {
		rows[i] = k.row
	}
	return keys
}
