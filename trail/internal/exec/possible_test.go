package exec

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// TestDecision has ranges and sets of codes answer what each of their codes does, in
// every form of a decision.
func TestDecision(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	some := 0
	for range 20_000 {
		codes := 2 + random.Uint32N(70)
		d := decision{missing: random.IntN(2) == 0, not: random.IntN(2) == 0}
		d.lo = 1 + random.Uint32N(codes)
		d.hi = d.lo + random.Uint32N(codes-d.lo+1)
		if random.IntN(2) == 0 {
			for c := range codes {
				if c > 0 && random.IntN(3) == 0 {
					d.set = append(d.set, c)
				}
			}
		}
		table := d
		table.tabulate(codes)
		lo := random.Uint32N(codes)
		hi := lo + random.Uint32N(codes-lo)
		within, among, set := false, false, random.Uint64()&random.Uint64()&random.Uint64()
		for c := range codes {
			if d.passes(c) != table.passes(c) {
				t.Fatalf("%+v: code %d passes: %v, and of its table %v", d, c, d.passes(c), table.passes(c))
			}
			within = within || lo <= c && c <= hi && d.passes(c)
			among = among || c < 64 && set>>c&1 != 0 && d.passes(c)
		}
		for _, form := range []decision{d, table} {
			if got := form.passesWithin(lo, hi); got != within {
				t.Fatalf("%+v: within [%d,%d]: got %v, want %v", form, lo, hi, got, within)
			}
			if got := form.passesSome(set, codes); got != among {
				t.Fatalf("%+v: among %b: got %v, want %v", form, set, got, among)
			}
		}
		if !within {
			some++
		}
	}
	if some == 0 {
		t.Error("no range was without a code that passes")
	}
}

// word returns the i-th of strings that begin and end with one another, and differ in
// case.
func word(i int) string {
	var b []byte
	for i++; i > 0; i = (i - 1) / 3 {
		b = append(b, "aAb"[(i-1)%3])
	}
	return string(b)
}

// nth returns the i-th value of a type.
func nth(typ event.Type, i int) event.Value {
	switch typ {
	case event.String:
		return event.StringOf(word(i))
	case event.Int:
		return event.IntOf(int64(i)*3 - 50)
	case event.Float:
		return event.FloatOf(float64(i)*0.37 - 5)
	}
	return event.BoolOf(i%2 == 1)
}

// placed are ways to place some values in rows, which come in the order of their users.
var placed = map[string]func(row, rows, values int, random *rand.Rand) int{
	"near":   func(row, rows, values int, _ *rand.Rand) int { return row * values / rows },
	"random": func(_, _, values int, random *rand.Rand) int { return random.IntN(values) },
	"rare": func(_, _, values int, random *rand.Rand) int { // one in 2,000 is another than the last
		if random.IntN(2000) == 0 {
			return random.IntN(values)
		}
		return values - 1
	},
	"zipf": func(_, _, values int, random *rand.Rand) int {
		return min(int(math.Exp(random.Float64()*math.Log(float64(values)+1)))-1, values-1)
	},
	"some": func(row, rows, values int, random *rand.Rand) int { // blocks that all, some and no rows miss
		if kind := row / segment.BlockRows % 3; kind == 0 || kind == 1 && random.IntN(3) == 0 {
			return -1
		}
		return row * values / rows
	},
	"half": func(_, _, values int, random *rand.Rand) int { // as many rows have none
		return random.IntN(2*values) - values
	},
	"many": func(row, rows, values int, random *rand.Rand) int { // of a block, any of a part
		part := values/4 + 1
		return min(row/segment.BlockRows*values/(rows/segment.BlockRows+1)+random.IntN(part), values-1)
	},
}

// testsOf returns a test of each operator that a type has, and of several literals.
func testsOf(property string, typ event.Type, values int, random *rand.Rand) (list []query.Filter) {
	literal := func() query.Literal {
		v := nth(typ, random.IntN(values))
		switch random.IntN(6) {
		case 0: // one that no row has
			v = nth(typ, values+random.IntN(values))
		case 1:
			if typ == event.Int {
				v = event.FloatOf(float64(v.Int()) + 0.5)
			}
		}
		return query.Literal{Value: v, Text: v.String()}
	}
	ordered := func() []query.Literal {
		a, b := literal(), literal()
		if v, w := a.Value, b.Value; event.Compare(v, w) > 0 {
			a, b = b, a
		}
		return []query.Literal{a, b}
	}
	add := func(op query.Op, literals ...query.Literal) {
		list = append(list, query.Filter{Test: &query.Test{Property: property, Op: op, Literals: literals}})
	}
	add(query.Exists)
	add(query.Missing)
	for _, op := range []query.Op{query.Eq, query.Ne} {
		add(op, literal())
		add(op, literal())
		add(op, query.Literal{})
	}
	for _, op := range []query.Op{query.In, query.NotIn} {
		add(op, literal(), literal())
		add(op, literal(), literal(), literal(), literal(), literal())
		add(op, literal(), query.Literal{})
	}
	if typ != event.Bool {
		for _, op := range []query.Op{query.Gt, query.Gte, query.Lt, query.Lte} {
			add(op, literal())
			add(op, literal())
		}
		add(query.Between, ordered()...)
		add(query.Between, ordered()...)
	}
	if typ == event.String {
		for _, op := range []query.Op{query.Contains, query.Prefix, query.Suffix, query.NotContains} {
			add(op, literal())
			text := word(random.IntN(20))
			add(op, query.Literal{Value: event.StringOf(text), Text: text})
		}
		for _, op := range []query.Op{query.Matches, query.NotMatches} {
			text := []string{"^a", "b$", "Ab?A", "(?i)aab", "^(a|b)*$"}[random.IntN(5)]
			add(op, query.Literal{Value: event.StringOf(text), Text: text})
		}
	}
	return list
}

// TestPossible has no row pass in a block that is left out: for each operator, type of
// value, number of values and way they are placed, alone and in trees, and for events.
// For a block with a set, a row must pass if the plan says that one can. The masks of rows
// that are read must equal the masks when all rows are read. A filter may also be on a property
// that the segment lacks, one that is an integer there and a number elsewhere, and one
// with too many values for codes.
func TestPossible(t *testing.T) {
	cohort := []uint64{}
	for u := 0; u < 4000; u += 3 {
		cohort = append(cohort, event.Hash(fmt.Sprint(u)))
	}
	slices.Sort(cohort)
	left, by := map[query.Op]int{}, map[string]int{} // blocks that were left out, by operator and kind of summary
	counts := []int{1, 2, 4, 16, 39, 62, 63, 64, 65, 255, 256, 3000, 70_000}
	if invariant.Race {
		counts = []int{2, 16, 63, 64, 300}
	}
	for _, values := range counts {
		random := rand.New(rand.NewPCG(uint64(values), 1))
		var schema event.Schema
		var ways []string
		for _, way := range slices.Sorted(maps.Keys(placed)) {
			for _, typ := range []event.Type{event.String, event.Int, event.Float, event.Bool} {
				if typ != event.Bool || values <= 2 {
					schema = append(schema, event.Field{Name: way + " " + typ.String(), Type: typ})
					ways = append(ways, way)
				}
			}
		}
		schema = append(schema, event.Field{Name: "any integer", Type: event.Int})
		ways = append(ways, "any")
		seg := placedIn(t, schema, ways, values, random)
		if got := seg.Column("any integer").Codes(); got != 0 {
			t.Fatalf("got %d codes of a column of different integers far apart, want none", got)
		}
		known := append(slices.Clone(schema), event.Field{Name: "not here", Type: event.String})
		for i := range known {
			if ways[min(i, len(ways)-1)] == "near" && known[i].Type == event.Int {
				known[i].Type = event.Float
			}
		}
		in := Input{Sources: []Source{{Segment: seg}}, Schema: known, Horizon: math.MinInt64, Cohort: func(string) ([]uint64, error) { return cohort, nil }}
		var tests []query.Filter
		for _, p := range append(slices.Clone(schema), known[len(schema):]...) { // with the types of the segment
			tests = append(tests, testsOf(p.Name, p.Type, values, random)...)
		}
		for range len(tests) / 4 {
			pick := func() query.Filter { return tests[random.IntN(len(tests))] }
			list := []query.Filter{pick(), pick()}
			switch random.IntN(4) {
			case 0:
				tests = append(tests, query.Filter{All: list})
			case 1:
				tests = append(tests, query.Filter{Any: append(list, pick())})
			case 2:
				tests = append(tests, query.Filter{All: append(list, query.Filter{Test: &query.Test{Property: "some", Op: query.InCohort}})})
			default:
				tests = append(tests, query.Filter{Any: append(list, query.Filter{Test: &query.Test{Property: "some", Op: query.NotInCohort}})})
			}
		}
		for i := range tests {
			checkPossible(t, in, &tests[i], &tests[random.IntN(len(tests))], left, by)
		}
		if t.Failed() {
			return
		}
	}
	for op := query.Exists; op <= query.Between; op++ {
		if left[op] == 0 {
			t.Errorf("no block was left out for operator %d", op)
		}
	}
	for _, kind := range []string{"sets", "sets of 64 codes", "spans", "spans of 65 codes", "events"} {
		if by[kind] == 0 {
			t.Errorf("no block was left out by %s", kind)
		}
	}
}

// placedIn makes a segment of rows with values of each property, placed as its way says.
func placedIn(t *testing.T, schema event.Schema, ways []string, values int, random *rand.Rand) *segment.Segment {
	t.Helper()
	rows := max(5*segment.BlockRows+77, values+values/2)
	users := make([]string, min(rows/4, 4000))
	for u := range users {
		users[u] = fmt.Sprint(u)
	}
	slices.SortFunc(users, func(a, b string) int { return cmp.Compare(event.Hash(a), event.Hash(b)) })
	b := segment.NewBuilder(schema)
	row := make([]event.Value, len(schema))
	for r := range rows {
		for i, p := range schema {
			row[i] = event.Value{}
			if ways[i] == "any" {
				row[i] = event.IntOf(int64(r)<<32 + random.Int64N(1<<32))
			} else if n := placed[ways[i]](r, rows, values, random); n >= 0 {
				row[i] = nth(p.Type, n)
			}
		}
		name := "view"
		if at := r / segment.BlockRows; at%2 == 1 && random.IntN(9) == 0 {
			name = fmt.Sprint("in ", at)
		}
		b.Add(users[r*len(users)/rows], int64(r), name, 0, row)
	}
	image, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	seg, err := segment.FromBytes("placed", image)
	if err != nil {
		t.Fatal(err)
	}
	return seg
}

// checkPossible compares what the plan of a filter finds possible in blocks with their rows. With a
// tree, a matcher with another filter is in the plan.
func checkPossible(t *testing.T, in Input, f, other *query.Filter, left map[query.Op]int, by map[string]int) {
	t.Helper()
	b := newBuilder(in, Options{}, 0)
	for _, events := range [][]string{nil, {"view"}, {"in 1", "in 3"}} {
		b.match(query.Match{Events: events, Where: f}, math.MinInt64, math.MaxInt64)
	}
	if f.Test == nil {
		b.match(query.Match{Where: other}, math.MinInt64, math.MaxInt64)
	}
	if b.err != nil {
		t.Fatal(b.err)
	}
	s, err := b.source(in.Sources[0], map[string]bool{})
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		return // no value of the dictionary passes
	}
	r, _, err := s.seg.Range(0, math.MaxUint64)
	if err != nil {
		t.Fatal(err)
	}
	v := &view{source: s, Range: r}
	w := &worker{plan: b.plan, arena: (*Scratch)(nil).get(b.held)}
	if err := w.possible(v); err != nil {
		t.Fatal(err)
	}
	masks, ok := v.unskipped()
	if !ok {
		t.Fatal("the segment cannot be read")
	}
	widths := []int{8, 64}
	if invariant.Race {
		widths = widths[:1]
	}
	for _, b.plan.width = range widths {
		w := &worker{plan: b.plan, arena: (*Scratch)(nil).get(b.held)}
		var v view
		if some, err := w.view(&v, s, 0, math.MaxUint64, need{}); err != nil {
			t.Fatal(err)
		} else if !some {
			v.mask64 = make([]uint64, len(masks))
		}
		for row, want := range masks {
			if got := v.mask(row); got != want {
				t.Fatalf("%s: row %d has the matchers %b, and %b if nothing is left out", described(f), row, got, want)
			}
		}
	}
	for block := 0; block*segment.BlockRows < len(masks); block++ {
		have := uint64(0)
		for _, m := range masks[block*segment.BlockRows : min((block+1)*segment.BlockRows, len(masks))] {
			have |= m
		}
		possible := s.possible(block)
		if have&^possible != 0 {
			t.Fatalf("%s: rows of block %d have the matchers %b, and it can have %b", described(f), block, have, possible)
		}
		if f.Test == nil || possible&1 != 0 && possible&2 != 0 && possible&4 != 0 {
			continue
		}
		if possible&1 != 0 {
			by["events"]++
			continue
		}
		left[f.Test.Op]++
		col := s.seg.Column(f.Test.Property)
		if _, ok := col.Occurs(block); ok {
			by["sets"]++
			if col.Codes() == 64 {
				by["sets of 64 codes"]++
			}
		} else {
			by["spans"]++
			if col.Codes() == 65 {
				by["spans of 65 codes"]++
			}
		}
	}
	// The rule must not be kept by leaving nothing out.
	if f.Test != nil && s.live != 0 && len(s.wheres) == 1 {
		for block := 0; block*segment.BlockRows < len(masks); block++ {
			l := s.wheres[0].leaf
			if l.column == nil {
				break
			}
			if _, ok := l.column.Occurs(block); !ok || !l.possible(block) {
				continue
			}
			if !slices.ContainsFunc(masks[block*segment.BlockRows:min((block+1)*segment.BlockRows, len(masks))], func(m uint64) bool { return m&1 != 0 }) {
				t.Fatalf("%s: no row of block %d passes, and it has a set of codes that does not say so", described(f), block)
			}
		}
	}
}

func described(f *query.Filter) string {
	if f.Test == nil {
		return fmt.Sprintf("all %v any %v", f.All, f.Any)
	}
	var texts []string
	for _, l := range f.Test.Literals {
		texts = append(texts, l.Text)
	}
	return fmt.Sprintf("%s, operator %d of %s", f.Test.Property, f.Test.Op, strings.Join(texts, ", "))
}
