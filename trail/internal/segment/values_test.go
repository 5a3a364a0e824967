package segment

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// column makes a segment with one property and returns it.
func column(t *testing.T, typ event.Type, values ...event.Value) *Column {
	t.Helper()
	schema := event.Schema{{Name: "p", Type: typ}}
	var rows []row
	for i, v := range values {
		rows = append(rows, row{user: "u", time: int64(i), name: "e", values: []event.Value{v}})
	}
	s := open(t, build(t, schema, rows))
	compare(t, s, schema, rows)
	if found := s.Verify(); len(found) > 0 {
		t.Error(found[0].Error())
	}
	return s.Column("p")
}

func ints(values ...int64) []event.Value {
	var list []event.Value
	for _, v := range values {
		list = append(list, event.IntOf(v))
	}
	return list
}

func floats(values ...float64) []event.Value {
	var list []event.Value
	for _, v := range values {
		list = append(list, event.FloatOf(v))
	}
	return list
}

func TestDictionaries(t *testing.T) {
	many := func(list []event.Value) (all []event.Value) {
		for range 40 { // a dictionary of numbers needs eight rows for each
			all = append(all, list...)
		}
		return all
	}
	f := func(typ event.Type, want dictKind, codes int, values []event.Value) {
		t.Helper()
		c := column(t, typ, values...)
		if c.dict != want || c.Codes() != codes {
			t.Errorf("%.40v: got dictionary %d with %d codes, want %d with %d", values, c.dict, c.Codes(), want, codes)
		}
	}
	f(event.Int, dictRange, 2, ints(0))
	f(event.Int, dictRange, 12, ints(-5, 0, 5))
	f(event.Int, dictRange, 2, ints(math.MaxInt64))
	f(event.Int, dictRange, 4, ints(math.MinInt64+1, math.MinInt64+3))
	f(event.Int, dictRange, maxCodes, ints(1, maxCodes-1))
	f(event.Int, dictNone, 0, ints(1, maxCodes))
	f(event.Int, dictNone, 0, ints(math.MinInt64+1, math.MaxInt64))
	f(event.Int, dictValues, 4, many(ints(math.MinInt64+1, 7, math.MaxInt64)))
	f(event.Int, dictValues, 3, many(ints(0, 1<<20)))
	f(event.Float, dictRange, 2, floats(0))
	f(event.Float, dictRange, 52, floats(-2.5, 2.5))
	f(event.Float, dictRange, 100_001, floats(0.1, 0.000001, 0.1))
	f(event.Float, dictNone, 0, floats(0.0000001))
	f(event.Float, dictNone, 0, floats(1e300))
	f(event.Float, dictRange, 2, floats(1<<53))
	f(event.Float, dictNone, 0, floats(math.Pi, 2))
	f(event.Float, dictValues, 4, many(floats(-math.Pi, 2, 1e300)))
	f(event.Bool, dictBool, 3, []event.Value{event.BoolOf(false), {}, event.BoolOf(true)})
	f(event.String, dictPackedText, 3, []event.Value{event.StringOf("b"), {}, event.StringOf("a"), event.StringOf("b")})
}

func TestSearch(t *testing.T) {
	f := func(c *Column, v event.Value, code uint32, exact bool) {
		t.Helper()
		if got, ok := c.Search(v); got != code || ok != exact {
			t.Errorf("Search(%v): got %d, %v, want %d, %v", v, got, ok, code, exact)
		}
	}
	words := column(t, event.String, event.StringOf("b"), event.StringOf("d"), event.StringOf("bb"))
	f(words, event.StringOf("a"), 1, false)
	f(words, event.StringOf("b"), 1, true)
	f(words, event.StringOf("ba"), 2, false)
	f(words, event.StringOf("d"), 3, true)
	f(words, event.StringOf("e"), 4, false)
	whole := column(t, event.Int, ints(10, 20)...)
	f(whole, event.IntOf(9), 1, false)
	f(whole, event.IntOf(10), 1, true)
	f(whole, event.IntOf(15), 6, true) // a code that no row has
	f(whole, event.IntOf(21), 12, false)
	f(whole, event.FloatOf(10.5), 2, false)
	f(whole, event.FloatOf(11), 2, true)
	f(whole, event.FloatOf(1e300), 12, false)
	f(whole, event.FloatOf(-1e300), 1, false)
	huge := column(t, event.Int, ints(math.MaxInt64-2, math.MaxInt64)...)
	f(huge, event.FloatOf(math.MaxInt64), 4, false) // is 2^63
	f(huge, event.IntOf(math.MaxInt64), 3, true)
	f(huge, event.FloatOf(1<<62), 1, false)
	numbers := column(t, event.Float, floats(0.5, 2.5)...)
	f(numbers, event.FloatOf(0.5), 1, true)
	f(numbers, event.FloatOf(0.55), 2, false)
	f(numbers, event.FloatOf(2.6), 22, false)
	truth := column(t, event.Bool, event.BoolOf(true))
	f(truth, event.BoolOf(false), 1, true)
	f(truth, event.BoolOf(true), 2, true)
	raw := column(t, event.Int, ints(math.MinInt64+1, math.MaxInt64)...)
	f(raw, event.IntOf(5), 0, false)
}

// TestExtend lets a property come, and another become a number, in the middle.
func TestExtend(t *testing.T) {
	b := NewBuilder(event.Schema{{Name: "n", Type: event.Int}})
	b.Add("u", 1, "e", 0, ints(3))
	b.Add("u", 2, "e", 0, nil)
	b.Add("u", 3, "e", 0, ints(math.MinInt64)) // stands for missing
	wide := event.Schema{{Name: "n", Type: event.Float}, {Name: "s", Type: event.String}}
	b.Extend(wide)
	b.Add("u", 4, "e", 0, append(floats(2.5), event.StringOf("x")))
	b.Add("u", 5, "e", 0, ints(4))
	if b.Rows() != 5 || b.Bytes() <= 0 {
		t.Errorf("got %d rows, %d bytes", b.Rows(), b.Bytes())
	}
	image, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	if b.Rows() != 0 {
		t.Errorf("after Image: got %d rows, want 0", b.Rows())
	}
	compare(t, open(t, image), wide, []row{
		{"u", 1, "e", 0, floats(3)},
		{"u", 2, "e", 0, nil},
		{"u", 3, "e", 0, nil},
		{"u", 4, "e", 0, append(floats(2.5), event.StringOf("x"))},
		{"u", 5, "e", 0, floats(4)},
	})
}

func TestEmpty(t *testing.T) {
	image, err := NewBuilder(event.Schema{{Name: "p", Type: event.Int}}).Image()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, image)
	if found := s.Verify(); len(found) > 0 {
		t.Error(found[0].Error())
	}
	if err := use(s); err != nil {
		t.Error(err)
	}
	if s.Rows() != 0 || s.Users() != 0 || s.Column("p") != nil || s.HasIDs() || len(s.Schema()) != 0 {
		t.Errorf("got %d rows, %d users, schema %v", s.Rows(), s.Users(), s.Schema())
	}
	// A merge may leave nothing.
	full := open(t, build(t, nil, []row{{user: "u", time: 5, name: "e"}}))
	var out bytes.Buffer
	sum, err := Merge(&out, []Input{{Segment: s}, {Segment: full, From: 6}})
	if err != nil || sum.Rows != 0 || sum.Dropped != 1 || sum.MinTime != 0 || sum.MaxTime != 0 {
		t.Errorf("got %+v, %v, want an empty segment", sum, err)
	}
	if err := use(open(t, out.Bytes())); err != nil {
		t.Error(err)
	}
}

func TestFarApart(t *testing.T) {
	b := NewBuilder(nil)
	const day = 86_400_000
	b.Add("u", 0, "e", 0, nil)
	b.Add("u", 50*day, "e", 0, nil)
	if image, err := b.Image(); err != nil || open(t, image).MaxTime() != 50*day {
		t.Errorf("50 days of seconds: got %v", err)
	}
	b.Add("u", 0, "e", 0, nil)
	b.Add("u", 50*day+1, "e", 0, nil)
	if _, err := b.Image(); err == nil || !strings.Contains(err.Error(), "1970-02-20") {
		t.Errorf("50 days of milliseconds: got %v, want an error", err)
	}
	if b.Rows() != 0 {
		t.Errorf("after an error: got %d rows, want 0", b.Rows())
	}
}

func TestMergeTypes(t *testing.T) {
	of := func(typ event.Type, v ...event.Value) Input {
		return Input{Segment: column(t, typ, v...).s, From: math.MinInt64}
	}
	var out bytes.Buffer
	_, err := Merge(&out, []Input{of(event.Int, ints(1)...), of(event.String, event.StringOf("x"))})
	var mixed *event.TypeError
	if !errors.As(err, &mixed) || mixed.Property != "p" {
		t.Errorf("got %v, want a type error", err)
	}
	out.Reset()
	wide := []Input{of(event.Int, ints(1, 2)...), of(event.Float, floats(0.5)...), of(event.Int, ints(math.MinInt64+1, math.MaxInt64)...)}
	if _, err := Merge(&out, wide); err != nil {
		t.Fatal(err)
	}
	s := open(t, out.Bytes())
	compareTies(t, s, event.Schema{{Name: "p", Type: event.Float}}, []row{
		{"u", 0, "e", 0, floats(1)}, {"u", 0, "e", 0, floats(0.5)}, {"u", 0, "e", 0, floats(math.MinInt64)},
		{"u", 1, "e", 0, floats(2)}, {"u", 1, "e", 0, floats(math.MaxInt64)},
	})
}

// TestMergeForgets checks that nothing is left of a dropped user, in dictionaries
// and ranges least of all.
func TestMergeForgets(t *testing.T) {
	schema := event.Schema{{Name: "mail", Type: event.String}, {Name: "age", Type: event.Int}}
	s := open(t, build(t, schema, []row{
		{"secret-user", 1, "secret-event", 0, []event.Value{event.StringOf("secret-mail"), event.IntOf(99)}},
		{"ana", 2, "view", 0, []event.Value{event.StringOf("public"), event.IntOf(30)}},
	}))
	var out bytes.Buffer
	sum, err := Merge(&out, []Input{{Segment: s, Dropped: []uint64{event.Hash("secret-user")}, From: math.MinInt64}})
	if err != nil || sum.Dropped != 1 || sum.Rows != 1 || sum.Users != 1 {
		t.Fatalf("got %+v, %v", sum, err)
	}
	if bytes.Contains(out.Bytes(), []byte("secret")) {
		t.Error("got a text of the dropped user in the merged segment")
	}
	if got := open(t, out.Bytes()).Column("age").Codes(); got != 2 {
		t.Errorf("got %d codes of age, want 2", got)
	}
}

// TestMergeDamage checks that the damaged input is named.
func TestMergeDamage(t *testing.T) {
	image := smallImage(t)
	image[open(t, image).Column("qty").meta.data.off] ^= 1
	var damage *DamageError
	if _, err := Merge(&bytes.Buffer{}, []Input{{Segment: open(t, image)}}); !errors.As(err, &damage) {
		t.Errorf("got %v, want damage", err)
	}
}

// TestMergeFails checks for the error of the writer.
func TestMergeFails(t *testing.T) {
	full := errors.New("disk full")
	if _, err := Merge(failing{full}, []Input{{Segment: open(t, smallImage(t))}}); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestAddAllocs holds that adding events of known users and values takes no memory
// except for the arrays.
func TestAddAllocs(t *testing.T) {
	if invariant.Race {
		t.Log("budgets mean nothing under the race detector")
		return
	}
	b := NewBuilder(shopSchema)
	values := []event.Value{event.StringOf("KR"), event.StringOf("phone"), {}, event.IntOf(5), event.IntOf(6)}
	add := func() {
		for i := range 1000 {
			b.Add("u1", int64(i), "view", 0, values)
		}
		b.Reset()
		b.Add("u1", 0, "view", 0, values)
	}
	add()
	if got := testing.AllocsPerRun(20, add); got > 10 { // the first user, event and strings are copied
		t.Errorf("got %v allocations for 1000 events, want at most 10", got)
	}
}

// TestMergeMemory holds what a merge takes: one column at a time.
func TestMergeMemory(t *testing.T) {
	if invariant.Race {
		t.Log("budgets mean nothing under the race detector")
		return
	}
	const rows = 200_000
	inputs := []Input{
		{Segment: open(t, shopImage(t, 1, rows/2)), From: math.MinInt64},
		{Segment: open(t, shopImage(t, 2, rows/2)), From: math.MinInt64},
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var out discard
	if _, err := Merge(&out, inputs); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := float64(after.TotalAlloc-before.TotalAlloc) / rows; got > 60 {
		t.Errorf("got %.0f bytes allocated for a row, all columns together, want at most 60", got)
	} else {
		t.Logf("%.0f bytes allocated for a row, all columns together", got)
	}
}
