package value_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// corpus is values of all kinds, in the order in which they sort. The values of one
// line are equal.
func corpus() [][]value.Value {
	t := time.Date(2024, 5, 17, 10, 30, 0, 5, time.UTC)
	m := func(fields ...value.Field) value.Value { return value.Map(fields...) }
	f := func(name string, v value.Value) value.Field { return value.Field{Name: name, Value: v} }
	one, two := value.Int(1), value.Int(2)
	return [][]value.Value{
		{value.Null(), {}, value.Error(nil)},
		{value.Bool(false)},
		{value.Bool(true)},
		{value.Float(math.NaN()), value.Float(math.Float64frombits(0x7FF8000000000002))},
		{value.Float(math.Inf(-1))},
		{value.Float(-1 << 63), value.Int(math.MinInt64)},
		{value.Int(math.MinInt64 + 1)},
		{value.Float(-1.5)},
		{value.Int(-1), value.Float(-1)},
		{value.Float(-math.SmallestNonzeroFloat64)},
		{value.Int(0), value.Float(0), value.Float(math.Copysign(0, -1)), value.Uint(0)},
		{value.Float(0.5)},
		{one, value.Float(1), value.Uint(1)},
		{value.Int(1 << 53), value.Float(1 << 53)},
		{value.Int(1<<53 + 1)},
		{value.Int(1<<53 + 2), value.Float(1<<53 + 2)},
		{value.Int(math.MaxInt64 - 1)},
		{value.Int(math.MaxInt64), value.Uint(math.MaxInt64)},
		{value.Uint(1 << 63), value.Float(1 << 63)},
		{value.Uint(1<<63 + 1)},
		{value.Float(1<<63 + 2048), value.Uint(1<<63 + 2048)},
		{value.Uint(math.MaxUint64)},
		{value.Float(1 << 64)},
		{value.Float(1e300)},
		{value.Float(math.Inf(1))},
		{value.Duration(-time.Second)},
		{value.Duration(0)},
		{value.Duration(time.Second)},
		{value.Time(time.Time{})},
		{value.Time(t), value.Time(t.In(time.FixedZone("x", 3600)))},
		{value.Time(t.Add(1))},
		{value.String("")},
		{value.String("1")},
		{value.String("a")},
		{value.String("ab")},
		{value.String("b")},
		{value.Binary(nil), value.Binary([]byte{})},
		{value.Binary([]byte("a"))},
		{value.List()},
		{value.List(value.Null())},
		{value.List(one), value.List(value.Float(1))},
		{value.List(one, one)},
		{value.List(two)},
		{m()},
		{m(f("a", one)), m(f("a", value.Float(1)))},
		{m(f("a", two))},
		{m(f("a", one), f("b", two)), m(f("b", two), f("a", one))},
		{m(f("a", two), f("b", one))},
		{m(f("b", one))},
		{value.Error(errors.New("a")), value.Error(errors.New("a"))},
		{value.Error(errors.New("b"))},
	}
}

func TestCompare(t *testing.T) {
	all := corpus()
	for i, group := range all {
		for j, other := range all {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			for _, v := range group {
				for _, w := range other {
					if got := v.Compare(w); got != want {
						t.Errorf("%v.Compare(%v): got %d, want %d", v, w, got, want)
					}
					if got := v.Equal(w); got != (want == 0) {
						t.Errorf("%v.Equal(%v): got %t", v, w, got)
					}
					if got := v.Hash() == w.Hash(); got != (want == 0) {
						t.Errorf("hash of %v same as of %v: got %t", v, w, got)
					}
					lv, lw := value.List(v), value.List(w)
					if lv.Compare(lw) != want || lv.Equal(lw) != (want == 0) || (lv.Hash() == lw.Hash()) != (want == 0) {
						t.Errorf("%v and %v in lists differ from the bare ones", v, w)
					}
				}
			}
		}
	}
}

// TestCompareLaws checks the laws of a total order on values made of the corpus, for
// which there is no table of expected results.
func TestCompareLaws(t *testing.T) {
	var vs []value.Value
	for i, group := range corpus() {
		v := group[i%len(group)]
		vs = append(vs, v, value.List(v, value.Int(int64(i%3))), value.Map(value.Field{Name: string(rune('a' + i%4)), Value: v}))
	}
	for _, a := range vs {
		for _, b := range vs {
			ab := a.Compare(b)
			if ba := b.Compare(a); ab != -ba {
				t.Fatalf("%v and %v: got %d one way and %d the other", a, b, ab, ba)
			}
			if (ab == 0) != a.Equal(b) {
				t.Fatalf("%v and %v: Compare gives %d, Equal %t", a, b, ab, a.Equal(b))
			}
			if ab == 0 && a.Hash() != b.Hash() {
				t.Fatalf("%v and %v are equal and hash differently", a, b)
			}
			for _, c := range vs {
				if ab <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
					t.Fatalf("%v ≤ %v ≤ %v, but the first is after the last", a, b, c)
				}
			}
		}
	}
}

// TestHashOfHostileLists has lists that a client can make so that all have one hash, if it
// knows the mixing function (splitmix64): a set of n of them would take n² comparisons.
func TestHashOfHostileLists(t *testing.T) {
	const add, first, second = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
	mix := func(k value.Kind, x uint64) uint64 {
		x += (uint64(k) + 1) * add
		x = (x ^ x>>30) * first
		x = (x ^ x>>27) * second
		return x ^ x>>31
	}
	inverse := func(odd uint64) uint64 { // modulo 2 to the power of 64
		x := odd
		for range 5 {
			x *= 2 - odd*x
		}
		return x
	}
	unmix := func(k value.Kind, x uint64) uint64 {
		x = (x ^ x>>31 ^ x>>62) * inverse(second)
		x = (x ^ x>>27 ^ x>>54) * inverse(first)
		x = x ^ x>>30 ^ x>>60
		return x - (uint64(k)+1)*add
	}
	if got := unmix(value.KindInt, mix(value.KindInt, 4711)); got != 4711 {
		t.Fatalf("got %d: the test itself is wrong", got)
	}
	seen := make(map[uint64]bool)
	for a := range int64(100) {
		begun := mix(value.KindList, uint64(value.KindList)^mix(value.KindInt, uint64(a)))
		seen[value.List(value.Int(a), value.Int(int64(unmix(value.KindInt, begun^1)))).Hash()] = true
	}
	if len(seen) != 100 {
		t.Errorf("100 lists have %d hashes", len(seen))
	}
}
