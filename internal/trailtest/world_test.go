package trailtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// TestWorlds has worlds be the same each time, and some that follow each other have each
// kind of property with each number of values, as a string and as another type, and a
// question with each operator about each property.
func TestWorlds(t *testing.T) {
	const first = 40
	shapes := map[string]int{}
	for seed := uint64(first); seed < first+Worlds; seed++ {
		opt := WorldOptions{Events: 1500, Queries: 2}
		c, again := DrawWorld(seed, opt), DrawWorld(seed, opt)
		if !reflect.DeepEqual(c.Events, again.Events) || !reflect.DeepEqual(c.Schema, again.Schema) || len(c.Queries) != len(again.Queries) {
			t.Fatalf("seed %d: got two worlds, want one", seed)
		}
		asked := map[string]bool{}
		for i, q := range c.Queries {
			if err := q.Check(); err != nil {
				t.Fatalf("seed %d, query %d: %v", seed, i, err)
			}
			if where := whereOf(q); where != nil && where.Test != nil {
				asked[fmt.Sprint(where.Test.Property, " ", where.Test.Op)] = true
			}
		}
		for _, f := range c.Schema {
			kind, rest, _ := strings.Cut(f.Name, " ")
			values, _, _ := strings.Cut(rest, " ")
			shapes[fmt.Sprintf("%s %s %v", kind, values, f.Type == event.String)]++
			for _, op := range opsOf(f.Type) {
				if !asked[fmt.Sprint(f.Name, " ", op)] {
					t.Errorf("seed %d: no question asks for %s with operator %d", seed, f.Name, op)
				}
			}
		}
		farApart, fine := false, false
		last := map[string]int64{}
		for _, e := range slices.SortedFunc(slices.Values(c.Events), func(a, b event.Event) int { return int(a.Time - b.Time) }) {
			if at, ok := last[e.User]; ok && e.Time-at > day {
				farApart = true
			}
			last[e.User] = e.Time
			fine = fine || e.Time%1000 != 0
		}
		shapes[fmt.Sprint("days apart ", farApart)]++
		shapes[fmt.Sprint("milliseconds ", fine)]++
	}
	for _, kind := range worldKinds {
		for _, values := range worldValues {
			for _, text := range []bool{true, false} {
				if shape := fmt.Sprintf("%s %d %v", kind, values, text); shapes[shape] == 0 {
					t.Errorf("no property is %s", shape)
				}
			}
		}
	}
	for _, shape := range []string{"milliseconds true", "milliseconds false", "days apart true"} {
		if shapes[shape] == 0 {
			t.Errorf("no world has %s", shape)
		}
	}
}

// TestVariants has strings be prefixes, suffixes and case variants of one another.
func TestVariants(t *testing.T) {
	var texts []string
	for i := range 39 {
		texts = append(texts, variant(i))
	}
	prefixes, suffixes, cases := 0, 0, 0
	for i, a := range texts {
		for k, b := range texts {
			switch {
			case i == k:
			case a == b:
				t.Errorf("%q comes twice", a)
			case strings.EqualFold(a, b):
				cases++
			default:
				if strings.HasPrefix(b, a) {
					prefixes++
				}
				if strings.HasSuffix(b, a) {
					suffixes++
				}
			}
		}
	}
	if prefixes < 39 || suffixes < 39 || cases < 39 {
		t.Errorf("got %d prefixes, %d suffixes and %d case variants, want many", prefixes, suffixes, cases)
	}
}

// whereOf returns the filter of what a query of one operator asks for.
func whereOf(q *query.Query) *query.Filter {
	switch {
	case q.Segment != nil:
		return q.Segment.Match.Where
	case q.Funnel != nil:
		return q.Funnel.Steps[0].Where
	}
	return nil
}
