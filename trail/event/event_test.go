package event_test

import (
	"cmp"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/trail/event"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestHash pins the hash: another one would make the stores that exist unreadable.
func TestHash(t *testing.T) {
	for user, want := range map[string]uint64{"": 0xef46db3751d8e999, "u1": 0x6e8417d0fe6613f} {
		if got := event.Hash(user); got != want {
			t.Errorf("%q: got %#x, want %#x", user, got, want)
		}
	}
	if got := event.HashID(""); got != 0 {
		t.Errorf("no id: got %d, want 0", got)
	}
	if event.HashID("a") == event.HashID("b") || event.HashID("a") == 0 {
		t.Error("two ids have one hash, or an id has hash 0")
	}
}

// TestValues checks that values are what they were made of, and can be stored.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		v    event.Value
		typ  event.Type
		text string
	}{
		{event.Value{}, event.Unknown, ""},
		{event.StringOf(""), event.Unknown, ""},
		{event.StringOf("a"), event.String, "a"},
		{event.IntOf(0), event.Int, "0"},
		{event.IntOf(math.MinInt64 + 1), event.Int, "-9223372036854775807"},
		{event.FloatOf(1.5), event.Float, "1.5"},
		{event.FloatOf(1e21), event.Float, "1e+21"},
		{event.FloatOf(math.NaN()), event.Unknown, ""},
		{event.FloatOf(math.Inf(-1)), event.Unknown, ""},
		{event.BoolOf(false), event.Bool, "false"},
		{event.BoolOf(true), event.Bool, "true"},
	} {
		if c.v.Type() != c.typ || c.v.String() != c.text || c.v.Missing() != (c.typ == event.Unknown) {
			t.Errorf("got %s %q, missing %t, want %s %q", c.v.Type(), c.v, c.v.Missing(), c.typ, c.text)
		}
	}
	if event.FloatOf(math.Copysign(0, -1)) != event.FloatOf(0) {
		t.Error("-0 and 0 differ")
	}
}

// TestAs widens integers to numbers, and nothing else.
func TestAs(t *testing.T) {
	types := []event.Type{event.String, event.Int, event.Float, event.Bool}
	values := []event.Value{event.StringOf("1"), event.IntOf(1), event.FloatOf(1), event.BoolOf(true)}
	for i, v := range values {
		for k, typ := range types {
			got, ok := v.As(typ)
			if want := i == k || typ == event.Float && v.Type() == event.Int; ok != want {
				t.Errorf("%s as %s: got %t, want %t", v.Type(), typ, ok, want)
			} else if ok && got.Type() != typ {
				t.Errorf("%s as %s: got a %s", v.Type(), typ, got.Type())
			}
		}
		if got, ok := (event.Value{}).As(types[i]); !ok || !got.Missing() {
			t.Errorf("the missing value as %s: got %v, %t", types[i], got, ok)
		}
	}
}

// TestMerge adds new properties, widens integers, and names both types where that
// cannot be done.
func TestMerge(t *testing.T) {
	have := event.Schema{{Name: "a", Type: event.Int}, {Name: "b", Type: event.String}, {Name: "c"}}
	got, err := have.Merge(event.Schema{{Name: "a", Type: event.Float}, {Name: "c", Type: event.Bool}, {Name: "d", Type: event.Int}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]event.Type{"a": event.Float, "b": event.String, "c": event.Bool, "d": event.Int, "e": event.Unknown} {
		if got.Type(name) != want {
			t.Errorf("%s: got %s, want %s", name, got.Type(name), want)
		}
	}
	if have.Type("a") != event.Int || have.Index("d") != -1 {
		t.Error("the schema that was merged into has changed")
	}
	_, err = have.Merge(event.Schema{{Name: "b", Type: event.Int}})
	var wrong *event.TypeError
	if !errors.As(err, &wrong) || err.Error() != `property "b" is a string, and comes as an integer` {
		t.Errorf("got %v", err)
	}
}

// TestTime floors, also before 1970.
func TestTime(t *testing.T) {
	at := time.Date(1969, 12, 31, 23, 59, 59, 999_500_000, time.UTC)
	if got := event.Millis(at); got != -1 {
		t.Errorf("got %d, want -1", got)
	}
	if got := event.Time(-1).Format(time.RFC3339Nano); got != "1969-12-31T23:59:59.999Z" {
		t.Errorf("got %s", got)
	}
	if event.Time(event.MaxTime).Year() != 9999 || event.Time(event.MinTime).Year() != 1 {
		t.Error("the bounds are not in the years 1 and 9999")
	}
}

func TestCompare(t *testing.T) {
	// Each is less than the ones after it of its list.
	for _, list := range [][]event.Value{
		{{}, event.BoolOf(false), event.BoolOf(true)},
		{{}, event.StringOf(" "), event.StringOf("A"), event.StringOf("a"), event.StringOf("aa"), event.StringOf("é")},
		{
			{}, event.FloatOf(-math.MaxFloat64), event.IntOf(math.MinInt64), event.IntOf(-3), event.FloatOf(-2.5), event.IntOf(-2), event.FloatOf(0.5), event.IntOf(1),
			event.FloatOf(1 << 53), event.IntOf(1<<53 + 1), event.FloatOf(1<<53 + 2), event.IntOf(math.MaxInt64), event.FloatOf(1 << 63), event.FloatOf(math.MaxFloat64),
		},
	} {
		for i, v := range list {
			for j, w := range list {
				if got, want := event.Compare(v, w), cmp.Compare(i, j); got != want {
					t.Errorf("Compare(%s %v, %s %v): got %d, want %d", v.Type(), v, w.Type(), w, got, want)
				}
			}
		}
	}
	if event.Compare(event.IntOf(2), event.FloatOf(2)) != 0 || event.Compare(event.FloatOf(math.MinInt64), event.IntOf(math.MinInt64)) != 0 {
		t.Error("an integer and the number of its value differ")
	}
}
