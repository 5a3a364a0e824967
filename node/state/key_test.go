package state

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// TestKeyOf checks that values have equal keys exactly if they are equal.
func TestKeyOf(t *testing.T) {
	now := time.Date(2026, 3, 29, 1, 30, 0, 5, time.UTC)
	long := strings.Repeat("x", 3*keyBuffer)
	longer := []byte(long)
	longer[len(longer)-1]++
	values := []value.Value{
		value.Null(), value.Bool(false), value.Bool(true), value.Int(0), value.Int(1), value.Float(1), value.Float(math.Copysign(0, -1)), value.Float(0.5),
		value.Uint(math.MaxUint64), value.Float(math.MaxUint64), value.Int(math.MinInt64), value.Float(math.MinInt64), value.Float(math.NaN()),
		value.Float(math.Float64frombits(math.Float64bits(math.NaN()) + 1)), value.Float(math.Inf(1)), value.Float(math.Inf(-1)), value.Float(1e300),
		value.Duration(0), value.Duration(time.Second), value.Time(now), value.Time(now.In(time.FixedZone("x", 3600))), value.Time(now.Add(1)),
		value.String(""), value.String("a"), value.Binary(nil), value.Binary([]byte("a")), value.String(long), value.Binary([]byte(long)), value.Binary(longer), value.String(string(longer)),
		value.List(), value.List(value.Null()), value.List(value.List()), value.List(value.String("a"), value.String("b")), value.List(value.String("ab")),
		value.Map(), value.Map(value.Field{Name: "a", Value: value.Int(1)}, value.Field{Name: "b", Value: value.Map()}),
		value.Map(value.Field{Name: "b", Value: value.Map()}, value.Field{Name: "a", Value: value.Float(1)}),
		value.Map(value.Field{Name: "a", Value: value.Map(value.Field{Name: "b", Value: value.Int(1)})}),
		value.Map(value.Field{Name: "a", Value: value.String("")}), value.Map(value.Field{Name: "", Value: value.String("a")}),
	}
	for i, v := range values {
		for j, w := range values {
			if equal := KeyOf(v) == KeyOf(w); equal != v.Equal(w) {
				t.Errorf("%d and %d: %.40s %.40s: got equal keys: %v, equal values: %v", i, j, v, w, equal, v.Equal(w))
			}
		}
	}
}
