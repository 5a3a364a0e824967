package trail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// recordVersion is the version of records. A record of the write-ahead log is one commit of
// appends:
//
//	1   version: 1
//	8   number of the commit
//	    numbers of commits that were refused after they were written: count, then
//	    8 bytes each
//	    chunks, one for each call of Append: count, then length and bytes of each
//
// A chunk has the source of its mark (length, bytes), the mark (0, or 1 + length,
// then bytes), its properties (count; name and a byte for the type of each), the
// names of its events (count; each), and its events (count), with for each: user,
// time, index of the name, a byte that is 1 if an id follows in 8, and values:
// count, then index of the property and a byte for the type of each, and what it
// is: length and bytes, integer, 8 bytes of a float, or one byte. Counts, lengths
// and indexes are uvarints, times and integers varints, the rest little endian.
const recordVersion = 1

// maxText is the largest length of a user, a name or a value in bytes.
const maxText = 1 << 20

var errRecord = errors.New("malformed record")

// An encoder makes the chunk of one Append, and the schema that its events have.
type encoder struct {
	schema  event.Schema
	props   map[string]int
	names   map[string]int
	listed  []string // names in order
	times   window
	body    []byte
	last    []int            // properties of the event before; the next mostly has the same
	large   []event.Property // integers that a number cannot hold exactly, one for each property
	refused []Rejection
}

// encode returns a chunk, its schema, and one integer that a number cannot hold exactly
// of each property with such integers. The error is a *RejectedError.
func encode(events []event.Event, source string, mark []byte, times window) (chunk []byte, schema event.Schema, large []event.Property, err error) {
	e := &encoder{props: make(map[string]int), names: make(map[string]int), times: times}
	for i := range events {
		if err := e.add(&events[i]); err != nil {
			e.refused = append(e.refused, Rejection{i, err})
		}
	}
	if len(e.refused) > 0 {
		return nil, nil, nil, &RejectedError{Refused: e.refused}
	}
	size := 32 + len(source) + len(mark) + len(e.body)
	for _, f := range e.schema {
		size += len(f.Name) + 4
	}
	for _, n := range e.listed {
		size += len(n) + 4
	}
	b := make([]byte, 0, size)
	b = appendText(b, source)
	if mark == nil {
		b = append(b, 0)
	} else {
		b = binary.AppendUvarint(b, uint64(len(mark))+1)
		b = append(b, mark...)
	}
	b = binary.AppendUvarint(b, uint64(len(e.schema)))
	for _, f := range e.schema {
		b = append(appendText(b, f.Name), byte(f.Type))
	}
	b = binary.AppendUvarint(b, uint64(len(e.listed)))
	for _, n := range e.listed {
		b = appendText(b, n)
	}
	b = binary.AppendUvarint(b, uint64(len(events)))
	return append(b, e.body...), e.schema, e.large, nil
}

// add encodes an event. What it wrote of a refused one stays, which is harmless
// because then the append fails as a whole.
func (e *encoder) add(ev *event.Event) error {
	switch {
	case ev.User == "":
		return errors.New("no user")
	case ev.Name == "":
		return errors.New("no event name")
	case len(ev.User) > maxText || len(ev.Name) > maxText:
		return fmt.Errorf("a user or event name of more than %d bytes", maxText)
	}
	if err := e.times.check(ev.Time); err != nil {
		return err
	}
	name, ok := e.names[ev.Name]
	if !ok {
		name = len(e.listed)
		e.names[ev.Name] = name
		e.listed = append(e.listed, ev.Name)
	}
	b := appendText(e.body, ev.User)
	b = binary.AppendVarint(b, ev.Time)
	b = binary.AppendUvarint(b, uint64(name))
	if ev.ID == "" {
		b = append(b, 0)
	} else {
		b = binary.LittleEndian.AppendUint64(append(b, 1), event.HashID(ev.ID))
	}
	b = binary.AppendUvarint(b, uint64(len(ev.Properties)))
	for i := range ev.Properties {
		p := &ev.Properties[i]
		index, err := e.property(i, p)
		if err != nil {
			return err
		}
		b = binary.AppendUvarint(b, uint64(index))
		b = appendValue(b, p.Value)
	}
	e.body = b
	return nil
}

func (e *encoder) property(i int, p *event.Property) (int, error) {
	index := -1
	if i < len(e.last) && e.schema[e.last[i]].Name == p.Name {
		index = e.last[i]
	} else {
		known, ok := e.props[p.Name]
		if !ok {
			if p.Name == "" || len(p.Name) > math.MaxUint16 {
				return 0, fmt.Errorf("a property name of %d bytes: want 1 to %d", len(p.Name), math.MaxUint16)
			}
			known = len(e.schema)
			e.props[p.Name] = known
			e.schema = append(e.schema, event.Field{Name: p.Name})
		}
		index = known
		if i < len(e.last) {
			e.last[i] = index
		} else if i == len(e.last) {
			e.last = append(e.last, index)
		}
	}
	f := &e.schema[index]
	if t := p.Value.Type(); t != f.Type {
		wide, ok := event.Widen(f.Type, t)
		if !ok {
			return 0, &event.TypeError{Property: p.Name, Have: f.Type, Got: t}
		}
		if wide == event.Float && has(e.large, p.Name) {
			return 0, &event.InexactError{Property: p.Name}
		}
		f.Type = wide
	}
	if !p.Value.Exact(event.Float) {
		if f.Type == event.Float {
			return 0, &event.InexactError{Property: p.Name, Value: p.Value}
		}
		if !has(e.large, p.Name) {
			e.large = append(e.large, *p)
		}
	}
	if p.Value.Type() == event.Int && p.Value.Int() == math.MinInt64 {
		return 0, fmt.Errorf("property %q is %d, which stands for no value", p.Name, p.Value.Int())
	}
	if len(p.Value.Text()) > maxText {
		return 0, fmt.Errorf("property %q has more than %d bytes", p.Name, maxText)
	}
	return index, nil
}

func has(list []event.Property, name string) bool {
	return slices.ContainsFunc(list, func(p event.Property) bool { return p.Name == name })
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendValue(b []byte, v event.Value) []byte {
	t := v.Type()
	b = append(b, byte(t))
	switch t {
	case event.String:
		return appendText(b, v.Text())
	case event.Int:
		return binary.AppendVarint(b, v.Int())
	case event.Float:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Float()))
	case event.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	}
	return b
}

// A record is a commit as the log has it. It refers to the bytes it was read from.
type record struct {
	commit uint64
	voided []uint64
	chunks [][]byte
}

func encodeRecord(b []byte, r record) []byte {
	b = append(b, recordVersion)
	b = binary.LittleEndian.AppendUint64(b, r.commit)
	b = binary.AppendUvarint(b, uint64(len(r.voided)))
	for _, v := range r.voided {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.AppendUvarint(b, uint64(len(r.chunks)))
	for _, c := range r.chunks {
		b = append(binary.AppendUvarint(b, uint64(len(c))), c...)
	}
	return b
}

func decodeRecord(b []byte) (record, error) {
	d := decoder{b: b}
	if v := d.byte(); v != recordVersion {
		return record{}, fmt.Errorf("%w: version %d", errRecord, v)
	}
	r := record{commit: d.fixed()}
	n := d.count(8)
	for range n {
		r.voided = append(r.voided, d.fixed())
	}
	n = d.count(1)
	for range n {
		r.chunks = append(r.chunks, d.bytes())
	}
	if d.bad || len(d.b) > 0 {
		return record{}, errRecord
	}
	return r, nil
}

// A chunkReader reads the events of a chunk. Strings share its bytes.
type chunkReader struct {
	source string
	mark   []byte // nil for none
	schema event.Schema
	names  []string
	left   int // events not read yet
	d      decoder
}

// A row is an event of a chunk. Values are by index of the chunk's schema, the
// rest missing; they are valid until the next row.
type row struct {
	user   string
	time   int64
	name   string
	id     uint64
	values []event.Value
}

func openChunk(b []byte) (*chunkReader, error) {
	c := &chunkReader{d: decoder{b: b}}
	d := &c.d
	c.source = d.text()
	if n := d.uvarint(); n > 0 {
		c.mark = d.take(n - 1)
	}
	for range d.count(2) {
		f := event.Field{Name: d.text(), Type: event.Type(d.byte())}
		if f.Type > event.Bool {
			d.bad = true
		}
		c.schema = append(c.schema, f)
	}
	for range d.count(1) {
		c.names = append(c.names, d.text())
	}
	c.left = d.count(5)
	if d.bad {
		return nil, errRecord
	}
	return c, nil
}

// next reads an event into r, whose values it reuses. It is false at the end, and where
// the chunk is malformed: then err is set.
func (c *chunkReader) next(r *row) bool {
	d := &c.d
	if c.left == 0 || d.bad {
		return false
	}
	c.left--
	r.user = d.text()
	r.time = d.varint()
	name := d.uvarint()
	r.id = 0
	if d.byte() != 0 {
		r.id = d.fixed()
	}
	if cap(r.values) < len(c.schema) {
		r.values = make([]event.Value, len(c.schema))
	}
	r.values = r.values[:len(c.schema)]
	clear(r.values)
	for range d.count(2) {
		i := d.uvarint()
		v := d.value()
		if i >= uint64(len(c.schema)) {
			d.bad = true
			return false
		}
		r.values[i] = v
	}
	if name >= uint64(len(c.names)) || r.user == "" || r.time < event.MinTime || r.time > event.MaxTime {
		d.bad = true
	}
	if d.bad {
		return false
	}
	r.name = c.names[name]
	return true
}

func (c *chunkReader) err() error {
	if c.d.bad || c.left > 0 || len(c.d.b) > 0 {
		return errRecord
	}
	return nil
}

// A decoder takes bytes from the front of b; bad is set when there are too few.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) fixed() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	if len(d.b) > 0 && d.b[0] < 0x80 {
		v := d.b[0]
		d.b = d.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

// count reads how many things follow that have at least so many bytes each.
func (d *decoder) count(each uint64) int {
	n := d.uvarint()
	if n > uint64(len(d.b))/each {
		d.bad, d.b = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte { return d.take(d.uvarint()) }

// text returns a string that shares the bytes, which must not change.
func (d *decoder) text() string {
	b := d.bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (d *decoder) value() event.Value {
	switch t := event.Type(d.byte()); t {
	case event.Unknown:
	case event.String:
		return event.StringOf(d.text())
	case event.Int:
		return event.IntOf(d.varint())
	case event.Float:
		return event.FloatOf(math.Float64frombits(d.fixed()))
	case event.Bool:
		return event.BoolOf(d.byte() != 0)
	default:
		d.bad = true
	}
	return event.Value{}
}
