package exec

import (
	"math"
	"math/big"
	"math/bits"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A cell has the figures of one bucket of one group.
type cell struct {
	rows    int64   // or users, for Users
	n       int64   // events that have a value of the property that is measured
	i       int64   // Min and Max of integers, the low half of Sum
	high    int64   // the high half of Sum
	f       float64 // Sum, Min and Max of numbers
	lost    float64 // what adding to f has rounded away
	user    uint32  // the last user, if cells are kept by user
	part    float64 // of the last user
	squares float64 // of what the users before contributed
}

// sum adds a value. Integers are added in 128 bits, numbers with the error of each
// addition kept (Neumaier 1974). So the sum does not depend on the order of the rows,
// which differs with the segments.
func (c *cell) sum(i int64, f float64) {
	c.addWhole(i, i>>63)
	c.addFloat(f)
}

func (c *cell) addWhole(low, high int64) {
	sum, carry := bits.Add64(uint64(c.i), uint64(low), 0)
	c.i, c.high = int64(sum), c.high+high+int64(carry)
}

func (c *cell) addFloat(f float64) {
	sum := c.f + f
	if math.Abs(c.f) >= math.Abs(f) {
		c.lost += c.f - sum + f
	} else {
		c.lost += f - sum + c.f
	}
	c.f = sum
}

// whole returns the sum of integers.
func (c *cell) whole() *big.Int {
	n := big.NewInt(c.high)
	return n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(uint64(c.i)))
}

// total returns the sum of numbers.
func (c *cell) total() float64 { return c.f + c.lost }

func (s *segmentationFold) less(i int64, f float64, c *cell) bool {
	if s.typ == event.Int {
		return i < c.i
	}
	return f < c.f
}

func (s *segmentationFold) more(i int64, f float64, c *cell) bool {
	if s.typ == event.Int {
		return i > c.i
	}
	return f > c.f
}

// key returns a number as a key that keeps its order.
func (s *segmentation) key(i int64, f float64) uint64 {
	if s.typ == event.Int {
		return uint64(i) ^ 1<<63
	}
	order := math.Float64bits(f)
	if order>>63 != 0 {
		return ^order
	}
	return order | 1<<63
}

// unkey is the inverse of key.
func (s *segmentation) unkey(key uint64) query.Measured {
	if s.typ == event.Int {
		return query.Measured{Type: event.Int, Int: int64(key ^ 1<<63)}
	}
	if key>>63 != 0 {
		key &^= 1 << 63
	} else {
		key = ^key
	}
	return query.Measured{Type: event.Float, Float: math.Float64frombits(key)}
}

// add adds a cell of one worker to the cell of all.
func (s *segmentationFold) add(to, c *cell) {
	to.rows += c.rows
	to.squares += c.squares
	if c.n == 0 {
		return
	}
	switch kind := s.q.Measure.Kind; {
	case kind == query.Min && (to.n == 0 || s.less(c.i, c.f, to)), kind == query.Max && (to.n == 0 || s.more(c.i, c.f, to)):
		to.i, to.f = c.i, c.f
	case kind == query.Sum || kind == query.Avg:
		to.addWhole(c.i, c.high)
		to.addFloat(c.f)
		to.lost += c.lost
	}
	to.n += c.n
}

// A numberTable turns the codes of a column into numbers.
type numberTable struct {
	ranged bool  // codes are distances from base
	base   int64 // the integer of code 0, if there were one

	numbers []event.Value // by code; nil to ask the column
}

// newNumberTable makes the table of a column that is not raw, nil for others. Codes
// of integers are mostly distances from the lowest one; other codes are looked up,
// if there are not more of them than rows.
func newNumberTable(col *segment.Column, held *budget) (*numberTable, error) {
	if col == nil || col.Codes() < 2 {
		return nil, nil
	}
	t := &numberTable{}
	low, high := col.Value(1), col.Value(uint32(col.Codes()-1))
	if col.Type() == event.Int && uint64(high.Int())-uint64(low.Int()) == uint64(col.Codes()-2) {
		t.ranged, t.base = true, low.Int()-1
		return t, nil
	}
	if col.Codes() > min(maxTable, max(256, col.Rows())) {
		return t, nil
	}
	t.numbers = make([]event.Value, col.Codes())
	for code := 1; code < len(t.numbers); code++ {
		t.numbers[code] = col.Value(uint32(code))
	}
	return t, held.take(int64(unsafe.Sizeof(event.Value{})) * int64(len(t.numbers)))
}

// at returns the number in a row, as an integer if the property is one; it is not
// ok if there is none.
func (t *numberTable) at(c *codes, row int) (i int64, f float64, ok bool) {
	if c.raw != nil {
		v, ok := rawValue(c.col.Type(), c.raw[row])
		return v.Int(), v.Float(), ok
	}
	code := c.at(row)
	if t == nil || code == 0 {
		return 0, 0, false
	}
	if t.ranged {
		i = t.base + int64(code)
		return i, float64(i), true
	}
	v := event.Value{}
	if t.numbers != nil {
		v = t.numbers[code]
	} else {
		v = c.col.Value(code)
	}
	return v.Int(), v.Float(), true
}
