package segment

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A Builder collects events in any order and makes a segment of them. It must not be
// used concurrently.
type Builder struct {
	schema  event.Schema
	terms   *Terms
	shared  bool // terms belongs to the caller
	users   []userRun
	text    []byte   // the ids of users
	at      []uint32 // by row: of users
	times   []int64
	names   []uint32 // codes
	ids     []uint64 // nil if no event has one
	columns []columnBuffer
	loaded  *loaded // nil unless the rows are in a file; then the columns above have the rows of a range

	// Scratch of order.
	keys, other []userKey
	rank, next  []uint32
	perm        []uint32
	starts      []uint32
	heads       []uint32
	rowKeys     []rowKey
	sorted      order
	duplicates  []uint32
	values      []uint64
	codes       []uint32
}

// A userRun is the user of rows that were added one after another. A user may have
// many.
type userRun struct {
	hash   uint64
	off, n uint32 // of the id in text
}

// A columnBuffer has the values of rows as they were added. Rows beyond its end have
// missing values.
type columnBuffer struct {
	codes []uint32 // of String
	raw   []uint64 // of the other types; Bool as 1 and 2, 0 for missing
}

// NewBuilder returns a builder of events with these properties.
func NewBuilder(schema event.Schema) *Builder {
	b := &Builder{terms: NewTerms()}
	b.Extend(schema)
	return b
}

// Share makes an empty builder take its strings from terms, and put new ones there.
func (b *Builder) Share(terms *Terms) {
	b.terms, b.shared = terms, true
	b.terms.extend(len(b.schema))
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
	b.terms.extend(len(schema))
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
	b.AddCoded(user, millis, name, id, values, nil)
}

// AddCoded is Add, but where codes has an entry other than 0, that is the string's code
// in the builder's terms, and the entry of values is ignored.
func (b *Builder) AddCoded(user string, millis int64, name string, id uint64, values []event.Value, codes []uint32) {
	row := len(b.times)
	last := len(b.users) - 1
	if last < 0 || string(b.id(&b.users[last])) != user {
		b.users = append(b.users, userRun{event.Hash(user), uint32(len(b.text)), uint32(len(user))})
		b.text = append(b.text, user...)
		last++
	}
	b.at = append(b.at, uint32(last))
	b.names = append(b.names, b.terms.names.code(name))
	b.times = append(b.times, millis)
	if id != 0 && b.ids == nil {
		b.ids = make([]uint64, row, max(row+1, 64))
	}
	if b.ids != nil {
		b.ids = append(b.ids, id)
	}
	for i := range values {
		if i < len(codes) && codes[i] != 0 {
			b.columns[i].code(row, codes[i])
		} else if v := &values[i]; !v.Missing() { // the next value fills up to its row
			b.value(i, row, *v)
		}
	}
}

// id lends the id of a user.
func (b *Builder) id(u *userRun) []byte { return b.text[u.off:][:u.n] }

func (b *Builder) value(i, row int, v event.Value) {
	c, t := &b.columns[i], b.schema[i].Type
	v, ok := v.As(t)
	invariant.Check(ok, "segment.Builder: a value of type %s for a property of type %s", v.Type(), t)
	if !ok {
		return
	}
	switch t {
	case event.String:
		c.code(row, b.terms.columns[i].code(v.Text()))
	case event.Int:
		c.pad(row, t)
		c.raw = append(c.raw, uint64(v.Int()))
	case event.Float:
		c.pad(row, t)
		c.raw = append(c.raw, math.Float64bits(v.Float()))
	case event.Bool:
		c.pad(row, t)
		c.raw = append(c.raw, uint64(1+b2i(v.Bool())))
	}
}

func (c *columnBuffer) code(row int, code uint32) {
	for len(c.codes) < row {
		c.codes = append(c.codes, 0)
	}
	c.codes = append(c.codes, code)
}

func (c *columnBuffer) pad(row int, t event.Type) {
	for len(c.raw) < row {
		c.raw = append(c.raw, RawMissing(t))
	}
}

// Rows returns how many events were added since the last Image or Reset.
func (b *Builder) Rows() int {
	if b.loaded != nil {
		return b.loaded.rows
	}
	return len(b.times)
}

// Filled returns how many bytes the events take that were added, without their terms and
// without the memory that is kept for more.
func (b *Builder) Filled() int64 {
	n := int64(len(b.users))*16 + int64(len(b.text)) + int64(len(b.at)+len(b.names))*4 + int64(len(b.times)+len(b.ids))*8
	for i := range b.columns {
		n += int64(len(b.columns[i].codes))*4 + int64(len(b.columns[i].raw))*8
	}
	return n
}

// Bytes returns approximately the memory of the builder, without shared terms.
func (b *Builder) Bytes() int64 {
	n := int64(cap(b.users))*16 + int64(cap(b.text)) + int64(cap(b.at)+cap(b.names))*4 + int64(cap(b.times)+cap(b.ids))*8
	for i := range b.columns {
		n += int64(cap(b.columns[i].codes))*4 + int64(cap(b.columns[i].raw))*8
	}
	if !b.shared {
		n += b.terms.Bytes()
	}
	return n
}

// Reset removes all events, and keeps the schema and the memory.
func (b *Builder) Reset() {
	b.users, b.text, b.at = b.users[:0], b.text[:0], b.at[:0]
	b.names, b.times, b.ids, b.loaded = b.names[:0], b.times[:0], nil, nil
	if !b.shared {
		b.terms.reset()
	}
	for i := range b.columns {
		c := &b.columns[i]
		c.codes, c.raw = c.codes[:0], c.raw[:0]
	}
}

// Image returns a segment of the events and resets the builder. Of events equal in
// user, time and id it keeps the first that was added. It is an error if times are too
// far apart (49 days if one is not in whole seconds), or if there is too much text.
func (b *Builder) Image() ([]byte, error) {
	defer b.Reset()
	buf := bytes.NewBuffer(make([]byte, 0, 1024+len(b.times)*(8+2*len(b.columns))))
	if err := b.Write(buf); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// Duplicates returns which events the last image leaves out, by the number of events
// that were added before each. It is valid until the next image, and lists none of the
// rows of a file.
func (b *Builder) Duplicates() []uint32 { return b.duplicates }

// Write writes what Image returns, and keeps the events.
func (b *Builder) Write(to io.Writer) error {
	if b.Rows() > MaxRows {
		return fmt.Errorf("segment: %d rows, at most %d fit", b.Rows(), MaxRows)
	}
	if !littleEndian() {
		return errOrder("in memory")
	}
	w := newImageWriter(to, b.Rows())
	o, err := b.order()
	if err != nil {
		return err
	}
	w.begin(o.hashes, o.rowStart)
	if err := w.userIDs(o.id); err != nil {
		return err
	}
	if err := w.times(offsetsOf(o.times)); err != nil {
		return err
	}
	if err := b.writeColumns(w, o); err != nil {
		return err
	}
	return w.finish()
}

// offsetsOf returns times as offsets from the first of them.
func offsetsOf(times []int64) (offsets []uint32, base, unit, last int64, err error) {
	if len(times) == 0 {
		return nil, 0, 1, 0, nil
	}
	base, last = slices.Min(times), slices.Max(times)
	unit = 1000
	for _, t := range times {
		if (t-base)%1000 != 0 {
			unit = 1
			break
		}
	}
	if (last-base)/unit > math.MaxUint32 {
		return nil, 0, 0, 0, errSpan(base, last)
	}
	offsets = make([]uint32, len(times))
	if unit == 1 {
		for i, t := range times {
			offsets[i] = uint32(t - base)
		}
	} else {
		for i, t := range times {
			offsets[i] = uint32(uint64(t-base) / 1000)
		}
	}
	return offsets, base, unit, last, nil
}

func errSpan(base, last int64) error {
	return fmt.Errorf("segment: events from %s to %s do not fit into one", event.Time(base), event.Time(last))
}

func (b *Builder) writeColumns(w *imageWriter, o *order) error {
	b.codes = sized(b.codes, w.rows)
	names, _, err := b.words(-1, o)
	if err != nil {
		return err
	}
	if err := w.words(&meta{role: roleEvents, typ: event.String}, names, b.codes); err != nil {
		return err
	}
	if o.eventIDs != nil {
		w.ids(o.eventIDs)
	}
	for i, f := range b.schema {
		m := &meta{name: f.Name, typ: f.Type}
		if f.Type == event.String {
			terms, ok, err := b.words(i, o)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if err := w.words(m, terms, b.codes); err != nil {
				return err
			}
			continue
		}
		ok, err := b.numbers(i, o)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := w.numbers(m, b.values); err != nil {
			return err
		}
	}
	return nil
}

// words sets codes to the codes of a property, or of the names for -1, by row of the
// segment, and returns the sorted strings that they stand for, from code 1 on. The
// caller may change the strings. It is not ok if no row has any.
func (b *Builder) words(property int, o *order) (terms []string, ok bool, err error) {
	table := &b.terms.names
	if property >= 0 {
		table = b.terms.columns[property]
	}
	sorted, to := table.sort()
	clear(b.codes)
	place := func(from []uint32, row int) {
		for i, code := range from {
			if at := o.places[row+i]; at != dropped {
				b.codes[at] = to[code]
			}
		}
	}
	switch {
	case b.loaded != nil:
		ok, err = eachPart(b.loaded, property, &b.loaded.codes, func(_ *Part, from []uint32, row int) { place(from, row) })
	case property < 0:
		ok = true
		place(b.names, 0)
	default:
		ok = len(b.columns[property].codes) > 0
		place(b.columns[property].codes, 0)
	}
	return slices.Clone(sorted), ok, err
}

// numbers sets values to the values of a property other than a string, by row of the segment.
func (b *Builder) numbers(property int, o *order) (ok bool, err error) {
	t := b.schema[property].Type
	b.values = sized(b.values, len(b.codes))
	fill(b.values, RawMissing(t))
	place := func(from []uint64, row int) {
		for i, v := range from {
			if at := o.places[row+i]; at != dropped {
				b.values[at] = v
			}
		}
	}
	if b.loaded == nil {
		place(b.columns[property].raw, 0)
		return len(b.columns[property].raw) > 0, nil
	}
	return eachPart(b.loaded, property, &b.loaded.words, func(p *Part, from []uint64, row int) {
		if t == event.Float && p.schema[property].Type == event.Int {
			toFloats(from)
		}
		place(from, row)
	})
}

// An order is the rows of a builder as they stand in a segment.
type order struct {
	hashes   []uint64
	ids      []byte   // of users
	idEnds   []uint32 // of each user, in ids
	rowStart []uint32
	places   []uint32 // row of the segment by row of the builder, or dropped
	times    []int64
	eventIDs []uint64 // nil if no event has one
}

// dropped is the place of a row that is left out.
const dropped = math.MaxUint32

// id adds the id of a user to dst.
func (o *order) id(dst []byte, user int) ([]byte, error) {
	from := uint32(0)
	if user > 0 {
		from = o.idEnds[user-1]
	}
	return append(dst, o.ids[from:o.idEnds[user]]...), nil
}

// sortedRows is about how many rows of a file are sorted at a time: fewer would need more
// reads.
const sortedRows = 256 << 10

// order sorts the rows. Rows in a file are sorted some ranges at a time, which takes
// memory for these alone.
func (b *Builder) order() (*order, error) {
	n := b.Rows()
	b.duplicates = b.duplicates[:0]
	o := &b.sorted
	*o = order{hashes: o.hashes[:0], ids: o.ids[:0], idEnds: o.idEnds[:0], rowStart: append(o.rowStart[:0], 0), places: sized(o.places, n), times: slices.Grow(o.times[:0], n)}
	if b.loaded == nil {
		return o, b.sortRange(o, nil)
	}
	l := b.loaded
	step := max(1, min(sortedRows*(l.hi-l.lo)/max(n, 1), l.hi-l.lo))
	for r := l.lo; r < l.hi; r += step {
		rows, err := b.loadUsers(r, min(r+step, l.hi))
		if err == nil {
			err = b.sortRange(o, rows)
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// sortRange adds the users and rows of the builder to an order: users by hash and id,
// the rows into the users' places in one pass, then the rows of each user by time and
// id. Duplicates are left out. rows are the numbers of the rows; nil means from 0 on.
func (b *Builder) sortRange(o *order, rows []uint32) error {
	b.sortUsers()
	b.rank = sized(b.rank, len(b.users))
	b.heads = b.heads[:0]
	for i, k := range b.keys {
		if i == 0 || k.hash != b.keys[i-1].hash || !b.sameUser(k.run, b.keys[i-1].run) {
			b.heads = append(b.heads, k.run)
		}
		b.rank[k.run] = uint32(len(b.heads) - 1)
	}
	n := len(b.heads)
	b.starts = sized(b.starts, n+1)
	clear(b.starts)
	for _, run := range b.at {
		b.starts[b.rank[run]+1]++
	}
	for i := range n {
		b.starts[i+1] += b.starts[i]
	}
	b.next = append(b.next[:0], b.starts[:n]...)
	b.perm = sized(b.perm, len(b.at))
	for row, run := range b.at {
		at := &b.next[b.rank[run]]
		b.perm[*at] = uint32(row)
		*at++
	}
	if b.ids != nil && o.eventIDs == nil {
		o.eventIDs = make([]uint64, len(o.times), cap(o.times))
	}
	for i, head := range b.heads {
		u := &b.users[head]
		if int64(len(o.ids))+int64(u.n) > math.MaxUint32 {
			return errText
		}
		o.hashes = append(o.hashes, u.hash)
		o.ids = append(o.ids, b.id(u)...)
		o.idEnds = append(o.idEnds, uint32(len(o.ids)))
		b.sortUserRows(o, b.perm[b.starts[i]:b.starts[i+1]], rows)
		o.rowStart = append(o.rowStart, uint32(len(o.times)))
	}
	return nil
}

// sortUserRows adds the rows of a user to an order.
func (b *Builder) sortUserRows(o *order, mine, rows []uint32) {
	if !b.inOrder(mine) {
		b.sortRows(mine)
	}
	for i, row := range mine {
		if b.ids != nil && i > 0 && b.ids[row] != 0 && b.ids[row] == b.ids[mine[i-1]] && b.times[row] == b.times[mine[i-1]] {
			o.places[numberOf(rows, row)] = dropped
			if rows == nil {
				b.duplicates = append(b.duplicates, row)
			}
			continue
		}
		o.places[numberOf(rows, row)] = uint32(len(o.times))
		o.times = append(o.times, b.times[row])
		if b.ids != nil {
			o.eventIDs = append(o.eventIDs, b.ids[row])
		} else if o.eventIDs != nil {
			o.eventIDs = append(o.eventIDs, 0)
		}
	}
}

func numberOf(rows []uint32, row uint32) uint32 {
	if rows == nil {
		return row
	}
	return rows[row]
}

func (b *Builder) sameUser(x, y uint32) bool {
	return bytes.Equal(b.id(&b.users[x]), b.id(&b.users[y]))
}

// A userKey is the sort key of a run of rows of a user.
type userKey struct {
	hash uint64
	run  uint32
}

// sortUsers sets keys to the runs by hash and id. Hashes are evenly distributed, so two
// passes over their upper bits leave groups of a few.
func (b *Builder) sortUsers() {
	n := len(b.users)
	b.keys = slices.Grow(b.keys[:0], n)[:n]
	low, top := uint64(math.MaxUint64), uint64(0)
	for i := range b.users {
		h := b.users[i].hash
		b.keys[i] = userKey{h, uint32(i)}
		low, top = min(low, h), max(top, h)
	}
	half := min(bits.Len(uint(n))/2+1, 11)
	shift := max(bits.Len64(low^top)-2*half, 0)
	if n > 32 && top != low {
		b.other = slices.Grow(b.other[:0], n)[:n]
		radixPass(b.other, b.keys, shift, half)
		radixPass(b.keys, b.other, shift+half, half)
	} else {
		shift = 64
	}
	for rest := b.keys; len(rest) > 0; {
		g := 1
		for g < len(rest) && rest[g].hash>>shift == rest[0].hash>>shift {
			g++
		}
		if g > 1 {
			b.sortGroup(rest[:g])
		}
		rest = rest[g:]
	}
}

// radixPass sorts keys by some bits of their hashes. It keeps the order of equal ones.
func radixPass(to, from []userKey, shift, width int) {
	var next [1 << 11]uint32
	mask := uint64(1)<<width - 1
	for i := range from {
		next[from[i].hash>>shift&mask]++
	}
	at := uint32(0)
	for i := range next[:mask+1] {
		at, next[i] = at+next[i], at
	}
	for _, k := range from {
		place := &next[k.hash>>shift&mask]
		to[*place] = k
		*place++
	}
}

// sortGroup sorts runs by hash, and runs of one hash by id. Nearly always they are of
// one user.
func (b *Builder) sortGroup(keys []userKey) {
	if slices.ContainsFunc(keys, func(k userKey) bool { return k.hash != keys[0].hash }) {
		slices.SortFunc(keys, func(x, y userKey) int { return cmp.Or(cmp.Compare(x.hash, y.hash), cmp.Compare(x.run, y.run)) })
	}
	for len(keys) > 0 {
		n, same := 1, true
		for n < len(keys) && keys[n].hash == keys[0].hash {
			same = same && b.sameUser(keys[0].run, keys[n].run)
			n++
		}
		if !same {
			slices.SortFunc(keys[:n], func(x, y userKey) int {
				return cmp.Or(bytes.Compare(b.id(&b.users[x.run]), b.id(&b.users[y.run])), cmp.Compare(x.run, y.run))
			})
		}
		keys = keys[n:]
	}
}

func (b *Builder) inOrder(rows []uint32) bool {
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

func (b *Builder) sortRows(rows []uint32) {
	keys := b.rowKeys[:0]
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
	b.rowKeys = keys
}
