package segment

import (
	"cmp"
	"math"
	"sort"
	"sync/atomic"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// RawMissing returns the bits that stand for the missing value in a raw column.
func RawMissing(t event.Type) uint64 {
	switch t {
	case event.Int:
		return 1 << 63 // math.MinInt64
	case event.Float:
		return rawNaN
	}
	return 0
}

// rawNaN is the one NaN that stands for the missing number.
const rawNaN = 0x7ff8000000000000

// maxScale is how many decimals a dictionary of a range can have.
const maxScale = 6

// power returns 10 to the power of scale.
func power(scale int) float64 {
	return [maxScale + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6}[scale]
}

// A Column has one value for each row: as codes whose order is the order of the
// values, or raw.
type Column struct {
	s    *Segment
	rows int
	meta
	who     string // name of the section in errors
	dictWho string // name of the dictionary's

	data8  []uint8
	data16 []uint16
	data32 []uint32
	data64 []uint64
	packed []byte
	places []uint32 // rows of exceptions
	runs   []uint8  // lengths of runs
	blocks []uint64 // index of runs
	bits   []uint64 // which rows have a value
	ranks  []uint32 // how many exceptions or values lie before a row
	low16  []uint16 // rows of exceptions of user-sparse, relative to their stripe

	summary summary // of blocks

	digits atomic.Pointer[digitTable] // by byte: its codes
	values []uint64
	offs   []uint32 // ends of strings, of dictText
	packs  []byte   // the same, of dictPackedText
	bytes  []byte
}

// lend makes the slices over the map. The spans were checked.
func (c *Column) lend() {
	s := c.s
	c.who, c.dictWho = c.section(), c.dictSection()
	switch c.enc {
	case encPacked, encPresent:
		c.packed = viewOf[uint8](s, c.meta.data)
	case encDigits:
		c.data8 = viewOf[uint8](s, c.meta.data)
	case encRaw, encRawSparse:
		c.data64 = viewOf[uint64](s, c.meta.data)
	default:
		switch c.width {
		case 1:
			c.data8 = viewOf[uint8](s, c.meta.data)
		case 2:
			c.data16 = viewOf[uint16](s, c.meta.data)
		case 4:
			c.data32 = viewOf[uint32](s, c.meta.data)
		}
	}
	switch c.enc {
	case encSparse, encRawSparse:
		c.places = viewOf[uint32](s, c.meta.places)
	case encRuns:
		c.runs = viewOf[uint8](s, c.meta.places)
		c.blocks = viewOf[uint64](s, c.meta.index)
	case encPresent:
		c.bits = viewOf[uint64](s, c.meta.places)
		c.ranks = viewOf[uint32](s, c.meta.index)
	case encUserSparse:
		c.low16 = viewOf[uint16](s, c.meta.places)
		c.ranks = viewOf[uint32](s, c.meta.index)
	}
	switch c.dict {
	case dictValues:
		c.values = viewOf[uint64](s, c.terms)
	case dictText:
		c.offs = viewOf[uint32](s, c.terms)
		c.bytes = viewOf[uint8](s, c.text)
	case dictPackedText:
		c.packs = viewOf[uint8](s, c.terms)
		c.bytes = viewOf[uint8](s, c.text)
	}
}

// Type returns the type of the values.
func (c *Column) Type() event.Type { return c.typ }

// Name returns the name of the property.
func (c *Column) Name() string { return c.name }

// Rows returns how many rows there are.
func (c *Column) Rows() int { return c.rows }

// MissingCount returns how many of the rows have no value.
func (c *Column) MissingCount() int { return c.missing }

// Encoding returns how the codes are laid out, by the names in docs/trail-format.md.
func (c *Column) Encoding() string { return c.enc.String() }

// Codes returns the number of codes: 0 stands for the missing value, 1 to Codes()-1
// for values in their order. Some may occur in no row. A raw column has 0 codes.
func (c *Column) Codes() int { return c.codes }

// DictionaryBytes returns the length of the dictionary, which Prepare checks with
// the rows but does not count.
func (c *Column) DictionaryBytes() int64 { return c.terms.len + c.text.len }

// Prepare checks the pages of rows [lo,hi) and of the dictionary. It returns the
// bytes of the rows, without the dictionary.
func (c *Column) Prepare(lo, hi int) (bytes int64, err error) {
	if err := c.s.check(c.terms, c.dictWho); err != nil {
		return 0, err
	}
	if err := c.s.check(c.text, c.dictWho); err != nil {
		return 0, err
	}
	if lo >= hi {
		return 0, nil
	}
	who := c.who
	switch c.enc {
	case encPlain:
		return c.checkData(lo, hi, int64(c.width))
	case encRaw:
		return c.checkData(lo, hi, 8)
	case encPacked:
		p := packedSpan(c.meta.data, lo, hi, int64(c.width))
		return p.len, c.s.check(p, who)
	case encUser:
		userLo, userHi, err := c.s.checkUsersOf(lo, hi, who)
		if err != nil {
			return 0, err
		}
		return c.checkData(userLo, userHi, int64(c.width))
	case encSparse, encRawSparse:
		return c.checkPlaces(lo, hi)
	case encRuns:
		return c.checkRuns(lo, hi)
	case encDigits:
		k := digitsIn(c.width)
		return c.checkData(lo/k, (hi+k-1)/k, 1)
	case encPresent:
		return c.checkPresent(lo, hi)
	case encUserSparse:
		return c.checkUserSparse(lo, hi)
	}
	return 0, nil
}

func (c *Column) checkData(lo, hi int, size int64) (int64, error) {
	p := c.meta.data.part(lo, hi, size)
	return p.len, c.s.check(p, c.who)
}

// checkPlaces checks the exceptions of rows [lo,hi), and the places that the search
// for them reads.
func (c *Column) checkPlaces(lo, hi int) (int64, error) {
	who := c.who
	find := func(row int) (int, error) {
		return search(c.count, func(i int) error { return c.s.check(c.meta.places.part(i, i+1, 4), who) }, func(i int) bool { return int(c.places[i]) < row })
	}
	from, err := find(lo)
	if err != nil {
		return 0, err
	}
	to, err := find(hi)
	if err != nil || from >= to {
		return 0, err
	}
	if err := c.s.check(c.meta.places.part(from, to, 4), who); err != nil {
		return 0, err
	}
	size := int64(8)
	if c.enc == encSparse {
		size = int64(c.width)
	}
	n, err := c.checkData(from, to, size)
	return n + int64(to-from)*4, err
}

// checkRuns checks the runs of the blocks that rows [lo,hi) lie in.
func (c *Column) checkRuns(lo, hi int) (int64, error) {
	who := c.who
	first, last := lo/runBlock, (hi-1)/runBlock+1
	index := c.meta.index.part(first, min(last+1, len(c.blocks)), 8)
	if err := c.s.check(index, who); err != nil {
		return 0, err
	}
	from := int(c.blocks[first] >> 8)
	to := c.count
	if last < len(c.blocks) {
		to = int(c.blocks[last]>>8) + 1
	}
	if from > to || to > c.count {
		return 0, c.s.damage(who, index, "runs are out of order")
	}
	if err := c.s.check(c.meta.places.part(from, to, 1), who); err != nil {
		return 0, err
	}
	n, err := c.checkData(from, to, int64(c.width))
	return n + int64(to-from), err
}

// Value returns the value of a code: the missing value for 0 and for codes out of
// range. Strings are in the mapped file.
func (c *Column) Value(code uint32) event.Value {
	if code == 0 || int64(code) >= int64(c.codes) {
		return event.Value{}
	}
	switch c.dict {
	case dictBool:
		return event.BoolOf(code == 2)
	case dictRange:
		if c.typ == event.Int {
			return event.IntOf(c.min + int64(code) - 1)
		}
		return event.FloatOf(float64(c.min+int64(code)-1) / power(c.scale))
	case dictValues:
		if c.typ == event.Int {
			return event.IntOf(int64(c.values[code-1]))
		}
		return event.FloatOf(math.Float64frombits(c.values[code-1]))
	case dictText, dictPackedText:
		return event.StringOf(c.term(code))
	}
	return event.Value{}
}

// end returns where the string of a code ends in the text; code 0 has the empty string.
func (c *Column) end(code uint32) uint32 {
	if c.offs != nil {
		return c.offs[code]
	}
	return unpackOne(c.packs, int(code), int64(c.ends))
}

// term returns the string of a code, which is in the mapped file; empty if the ends are
// out of order.
func (c *Column) term(code uint32) string {
	from, to := c.end(code-1), c.end(code)
	if from >= to || int(to) > len(c.bytes) {
		return ""
	}
	return unsafe.String(&c.bytes[from], to-from)
}

// Raw returns the value of bits that ReadRaw gave.
func (c *Column) Raw(bits uint64) event.Value {
	switch {
	case c.role == roleIDs, bits == RawMissing(c.typ):
		return event.Value{}
	case c.typ == event.Int:
		return event.IntOf(int64(bits))
	}
	return event.FloatOf(math.Float64frombits(bits))
}

// Search returns the smallest code from 1 on whose value is not below v, and
// whether it is v. It is Codes() if there is none. v is of the column's type; an
// in an integer column it may be a number, too. Of a raw column it returns 0.
func (c *Column) Search(v event.Value) (code uint32, exact bool) {
	if c.codes == 0 {
		return 0, false
	}
	i := sort.Search(c.codes-1, func(i int) bool { return c.compare(uint32(i)+1, v) >= 0 })
	code = uint32(i) + 1
	return code, i < c.codes-1 && c.compare(code, v) == 0
}

// compare orders the value of a code and v.
func (c *Column) compare(code uint32, v event.Value) int {
	if c.typ == event.String {
		return cmp.Compare(c.term(code), v.Text())
	}
	return event.Compare(c.Value(code), v)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Inexact returns an integer of a column, or of a dictionary with more than the rows
// have, that a number cannot hold exactly; the missing value if there is none.
func (c *Column) Inexact() (event.Value, error) {
	if c.codes == 0 {
		const block = 64 << 10
		var raw []uint64
		for lo := 0; lo < c.rows; lo += block {
			hi := min(lo+block, c.rows)
			if _, err := c.Prepare(lo, hi); err != nil {
				return event.Value{}, err
			}
			raw = c.ReadRaw(raw, lo, hi)
			for _, bits := range raw {
				if v := c.Raw(bits); !v.Exact(event.Float) {
					return v, nil
				}
			}
		}
		return event.Value{}, nil
	}
	if _, err := c.Prepare(0, 0); err != nil {
		return event.Value{}, err
	}
	if c.dict == dictRange && c.min >= -1<<53 && c.min+int64(c.codes) <= 1<<53 {
		return event.Value{}, nil // without checking each
	}
	for code := range uint32(c.codes) {
		if v := c.Value(code); !v.Exact(event.Float) {
			return v, nil
		}
	}
	return event.Value{}, nil
}
