package trailtest

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A predicate reports whether a row is meant.
type predicate func(r row) bool

// never is the predicate of an invalid test, whose error is in t.err.
func never(row) bool { return false }

func (t *table) match(m query.Match) predicate {
	where := t.filter(m.Where)
	return func(r row) bool {
		return (len(m.Events) == 0 || slices.Contains(m.Events, r.name)) && where(r)
	}
}

func (t *table) filter(f *query.Filter) predicate {
	switch {
	case f == nil:
		return func(row) bool { return true }
	case f.Test != nil:
		return t.test(f.Test)
	}
	var parts []predicate
	for _, list := range [][]query.Filter{f.All, f.Any} {
		for i := range list {
			parts = append(parts, t.filter(&list[i]))
		}
	}
	one := f.Any != nil // one is enough; else one that fails is
	return func(r row) bool {
		for _, p := range parts {
			if p(r) == one {
				return one
			}
		}
		return !one
	}
}

// test returns the predicate of one test, or fails if it does not fit the type of the
// property.
func (t *table) test(x *query.Test) predicate {
	if x.Op == query.InCohort || x.Op == query.NotInCohort {
		hashes, ok := t.cohorts[x.Property]
		if !ok {
			t.fail("there is no cohort %q", x.Property)
		}
		return func(r row) bool { return slices.Contains(hashes, r.hash) == (x.Op == query.InCohort) }
	}
	typ := t.schema.Type(x.Property)
	if err := sensible(x, typ); err != nil {
		t.fail("property %q, a %s: %w", x.Property, typ, err)
		return never
	}
	var expression *regexp.Regexp
	if x.Op == query.Matches || x.Op == query.NotMatches {
		var err error
		if expression, err = regexp.Compile(text(x.Literals[0])); err != nil {
			t.fail("%w", err)
			return never
		}
	}
	return func(r row) bool {
		v := r.values[x.Property]
		switch x.Op {
		case query.Exists:
			return !v.Missing()
		case query.Missing:
			return v.Missing()
		case query.Eq, query.In:
			return equalsAny(v, x.Literals)
		case query.Ne, query.NotIn:
			return !equalsAny(v, x.Literals)
		case query.NotContains:
			return v.Missing() || !strings.Contains(v.Text(), text(x.Literals[0]))
		case query.NotMatches:
			return v.Missing() || !expression.MatchString(v.Text())
		}
		if v.Missing() {
			return false
		}
		switch x.Op {
		case query.Contains:
			return strings.Contains(v.Text(), text(x.Literals[0]))
		case query.Prefix:
			return strings.HasPrefix(v.Text(), text(x.Literals[0]))
		case query.Suffix:
			return strings.HasSuffix(v.Text(), text(x.Literals[0]))
		case query.Matches:
			return expression.MatchString(v.Text())
		case query.Gt:
			return compare(v, x.Literals[0]) > 0
		case query.Gte:
			return compare(v, x.Literals[0]) >= 0
		case query.Lt:
			return compare(v, x.Literals[0]) < 0
		case query.Lte:
			return compare(v, x.Literals[0]) <= 0
		}
		return compare(v, x.Literals[0]) >= 0 && compare(v, x.Literals[1]) <= 0 // Between
	}
}

// sensible returns an error if a test does not fit the type of a property.
func sensible(x *query.Test, typ event.Type) error {
	want := 1
	switch x.Op {
	case query.Exists, query.Missing:
		want = 0
	case query.Between:
		want = 2
	case query.In, query.NotIn:
		want = len(x.Literals)
	}
	if len(x.Literals) != want {
		return fmt.Errorf("operator %d needs %d literals, got %d", x.Op, want, len(x.Literals))
	}
	if typ == event.Unknown {
		return nil
	}
	switch x.Op {
	case query.Contains, query.Prefix, query.Suffix, query.Matches, query.NotContains, query.NotMatches:
		if typ != event.String {
			return fmt.Errorf("operator %d is for strings", x.Op)
		}
	case query.Gt, query.Gte, query.Lt, query.Lte, query.Between:
		if typ == event.Bool {
			return fmt.Errorf("operator %d is not for booleans", x.Op)
		}
	}
	for _, l := range x.Literals {
		if empty(l) {
			continue
		}
		switch typ {
		case event.Int, event.Float:
			if _, ok := numeric(l); !ok {
				return fmt.Errorf("%q is not a number", text(l))
			}
		case event.Bool:
			if s := text(l); s != "true" && s != "false" {
				return fmt.Errorf("%q is not a boolean", s)
			}
		}
	}
	return nil
}

// empty reports whether a literal is the missing value.
func empty(l query.Literal) bool { return l.Value.Missing() }

// text returns a literal as a string. Literals made in Go may have no text.
func text(l query.Literal) string {
	return cmp.Or(l.Text, l.Value.String())
}

// numeric returns a literal as a number, an Int or a Float.
func numeric(l query.Literal) (v event.Value, ok bool) {
	switch l.Value.Type() {
	case event.Int, event.Float:
		return l.Value, true
	case event.String:
		if i, err := strconv.ParseInt(l.Value.Text(), 10, 64); err == nil {
			return event.IntOf(i), true
		}
		if f, err := strconv.ParseFloat(l.Value.Text(), 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return event.FloatOf(f), true
		}
	}
	return event.Value{}, false
}

func equalsAny(v event.Value, literals []query.Literal) bool {
	return slices.ContainsFunc(literals, func(l query.Literal) bool {
		if v.Missing() || empty(l) {
			return v.Missing() && empty(l)
		}
		return compare(v, l) == 0
	})
}

// compare orders a value and a literal in the type of the value, which is not
// missing.
func compare(v event.Value, l query.Literal) int {
	switch v.Type() {
	case event.String:
		return strings.Compare(v.Text(), text(l))
	case event.Bool:
		return boolInt(v.Bool()) - boolInt(text(l) == "true")
	}
	n, _ := numeric(l) // sensible has looked
	if v.Type() == event.Int && n.Type() == event.Float {
		// A large integer is not rounded to compare it: 2^53+1 is not equal to 2^53.
		return new(big.Float).SetInt64(v.Int()).Cmp(big.NewFloat(n.Float()))
	}
	if v.Type() == event.Int {
		return cmp.Compare(v.Int(), n.Int())
	}
	return cmp.Compare(v.Float(), n.Float())
}
