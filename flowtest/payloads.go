package flowtest

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/value"
)

// A Sample is a payload with a name for messages.
type Sample struct {
	Name    string
	Payload value.Value
}

// Samples returns payloads of every kind: small, empty, large, deep and odd. [Conform]
// sends each to the node. The caller owns the slice.
func Samples() []Sample { return append([]Sample(nil), samples()...) }

var samples = sync.OnceValue(func() []Sample {
	many := 1_000_000
	if invariant.Race {
		many = 20_000 // the detector makes kinds that look at each element 20 times slower
	}
	numbers := make([]value.Value, many)
	for i := range numbers {
		numbers[i] = value.Int(int64(i))
	}
	fields := make([]value.Field, 10_000)
	for i := range fields {
		fields[i] = value.Field{Name: "k" + strconv.Itoa(i), Value: value.Int(int64(i))}
	}
	list, nested := value.Null(), value.Null()
	for range value.MaxDepth - 1 {
		list, nested = value.List(list), value.Map(value.Field{Name: "a", Value: nested})
	}
	return []Sample{
		{"null", value.Null()},
		{"false", value.Bool(false)},
		{"true", value.Bool(true)},
		{"zero", value.Int(0)},
		{"negative", value.Int(-1)},
		{"least integer", value.Int(math.MinInt64)},
		{"greatest integer", value.Uint(math.MaxUint64)},
		{"float", value.Float(1.5)},
		{"negative zero", value.Float(math.Copysign(0, -1))},
		{"NaN", value.Float(math.NaN())},
		{"infinity", value.Float(math.Inf(1))},
		{"empty string", value.String("")},
		{"string", value.String("text")},
		{"not UTF-8", value.String("a\xff\x00\u2028")},
		{"long string", value.String(strings.Repeat("long ", 1<<18))},
		{"empty binary", value.Binary(nil)},
		{"binary", value.Binary([]byte{0, 255, 10})},
		{"time", value.Time(epoch)},
		{"duration", value.Duration(time.Second)},
		{"error", value.Error(errors.New("an error as a payload"))},
		{"empty list", value.List()},
		{"list", value.List(value.Int(1), value.String("two"), value.Null())},
		{"list of lists", value.List(value.List(), value.List(value.List(value.Int(1))))},
		{"empty map", value.Map()},
		{"map", value.Map(value.Field{Name: "a", Value: value.Int(1)}, value.Field{Name: "", Value: value.Null()})},
		{"odd names", value.Map(value.Field{Name: "self", Value: value.Int(1)}, value.Field{Name: "__proto__", Value: value.Map()}, value.Field{Name: "a b\xff", Value: value.Null()})},
		{"a million elements", value.List(numbers...)},
		{"10k fields", value.Map(fields...)},
		{"deep list", list},
		{"deep map", nested},
	}
})

// Parse returns the value of a text of JSON, and ends the test if it is not JSON.
func Parse(tb testing.TB, text string) value.Value {
	tb.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return v
}
