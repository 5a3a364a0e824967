package query

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// Overlap returns a remark for people if one event can be two steps: both have its name,
// and their filters do not provably exclude each other. Without strict_once a chain may
// use it for both. It is "" if there are no such steps, and for funnels in which no event
// counts twice: with strict_once or strict_increase, or in any order.
func (f *Funnel) Overlap() string {
	if f.AnyOrder || f.Modes.StrictOnce || f.Modes.StrictIncrease {
		return ""
	}
	for i := range f.Steps {
		for j := range f.Steps[:i] {
			a, b := &f.Steps[j], &f.Steps[i]
			k := slices.IndexFunc(a.Events, func(name string) bool { return slices.Contains(b.Events, name) })
			if k >= 0 && !exclusive(a.Where, b.Where) {
				return fmt.Sprintf("steps %d and %d overlap: one %s event can be both; with mode: [strict_once] each needs its own", j+1, i+1, quote(a.Events[k]))
			}
		}
	}
	return ""
}

// exclusive reports whether surely no event passes both filters.
func exclusive(a, b *Filter) bool {
	if a == nil || b == nil {
		return false
	}
	budget := 10_000 // comparisons of tests, since filters can be long
	return excludes(a, b, &budget)
}

func excludes(a, b *Filter, budget *int) bool {
	if *budget--; *budget < 0 {
		return false
	}
	for range 2 {
		other := func(part Filter) bool { return excludes(&part, b, budget) }
		switch {
		case a.All != nil:
			if slices.ContainsFunc(a.All, other) {
				return true
			}
		case a.Any != nil:
			if !slices.ContainsFunc(a.Any, func(part Filter) bool { return !other(part) }) {
				return true
			}
		}
		a, b = b, a
	}
	return a.Test != nil && b.Test != nil && contrary(a.Test, b.Test)
}

// contrary reports whether surely no event passes both tests. Literals that were written
// as numbers are compared as numbers, since the types of properties are not known here.
func contrary(a, b *Test) bool {
	if a.Property != b.Property {
		return false
	}
	if a.Op != In && b.Op == In {
		a, b = b, a
	}
	if a.Op == In {
		return !slices.ContainsFunc(a.Literals, func(l Literal) bool {
			return !contrary(&Test{Property: a.Property, Op: Eq, Literals: []Literal{l}}, b)
		})
	}
	return against(a, b) || against(b, a) || below(a, b) || below(b, a)
}

// against reports whether b surely refuses what passes a.
func against(a, b *Test) bool {
	same := func(l Literal) bool { return len(a.Literals) == 1 && l.Text == a.Literals[0].Text }
	switch {
	case a.Op == InCohort:
		return b.Op == NotInCohort
	case a.Op == Missing || a.Op == Eq && same(Literal{}):
		none := func(l Literal) bool { return l.Text == "" }
		switch b.Op {
		case Missing, NotContains, NotMatches, InCohort, NotInCohort:
			return false
		case Eq:
			return !slices.ContainsFunc(b.Literals, none)
		case Ne, NotIn:
			return slices.ContainsFunc(b.Literals, none)
		}
		return true
	case a.Op == Eq && (b.Op == Ne || b.Op == NotIn), a.Op == Contains && b.Op == NotContains, a.Op == Matches && b.Op == NotMatches:
		return slices.ContainsFunc(b.Literals, same)
	case a.Op == Eq && b.Op == Eq:
		x, y := a.Literals[0].Value, b.Literals[0].Value
		return x.Type() == event.Bool && y.Type() == event.Bool && x != y
	}
	return false
}

// below reports whether all values that pass a are surely less than all that pass b.
func below(a, b *Test) bool {
	var high, low Literal
	switch a.Op {
	case Lt, Lte, Eq:
		high = a.Literals[0]
	case Between:
		high = a.Literals[1]
	default:
		return false
	}
	switch b.Op {
	case Gt, Gte, Eq, Between:
		low = b.Literals[0]
	default:
		return false
	}
	order, known := compare(high, low)
	return known && (order < 0 || order == 0 && (a.Op == Lt || b.Op == Gt))
}

// compare compares two literals that are not missing, if it is known how: by value if
// both were written as numbers, by bytes if they cannot be numbers.
func compare(a, b Literal) (order int, known bool) {
	if a.Text == "" || b.Text == "" {
		return 0, false
	}
	if number(a) && number(b) {
		return cmp.Compare(a.Value.Float(), b.Value.Float()), true
	}
	_, err1 := strconv.ParseFloat(a.Text, 64)
	_, err2 := strconv.ParseFloat(b.Text, 64)
	return strings.Compare(a.Text, b.Text), err1 != nil && err2 != nil && a.Value.Type() == event.String && b.Value.Type() == event.String
}
