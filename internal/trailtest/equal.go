package trailtest

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// Equal returns the first difference between two answers, nil if there is none. Floats
// may differ by the tolerance, relative to the larger of the two. Integers, counts and
// confidence intervals must be equal. Stats are not compared. The users of a cohort are
// compared if both answers have them, and so are their ids.
func Equal(a, b *query.Answer, tolerance float64) error {
	if a == nil || b == nil {
		if a != b {
			return fmt.Errorf("one of the answers is nil")
		}
		return nil
	}
	if x, y := kindOf(a), kindOf(b); x != y {
		return fmt.Errorf("kind of answer: %s, and %s", x, y)
	}
	for _, k := range kinds {
		if k.answers(a) {
			return k.equal(a, b, tolerance)
		}
	}
	return nil
}

func kindOf(a *query.Answer) string {
	found := ""
	for _, k := range kinds {
		if k.answers(a) {
			found += k.name
		}
	}
	return cmp.Or(found, "none")
}

// differ returns an error if two things are shown differently.
func differ(what string, a, b any) error {
	x, y := fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b)
	if x == y {
		return nil
	}
	return fmt.Errorf("%s: %s, and %s", what, x, y)
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func near(a, b, tolerance float64) bool {
	return a == b || math.Abs(a-b) <= tolerance*max(math.Abs(a), math.Abs(b))
}

func equalValue(what string, a, b event.Value) error {
	if a == b {
		return nil
	}
	return fmt.Errorf("%s: %s, and %s", what, quoted(a), quoted(b))
}

func quoted(v event.Value) string { return fmt.Sprintf("%s %q", v.Type(), v.String()) }

// equalGroup compares the values of two groups, each of which may be the group of the rest.
func equalGroup(what string, a, b []event.Value, otherA, otherB bool) error {
	if err := first(differ(what+", other", otherA, otherB), differ(what+", properties", len(a), len(b))); err != nil {
		return err
	}
	for i := range a {
		if err := equalValue(what, a[i], b[i]); err != nil {
			return err
		}
	}
	return nil
}

// groupName names a group in errors.
func groupName(values []event.Value, other bool) string {
	if other {
		return "other"
	}
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = quoted(v)
	}
	return strings.Join(names, ", ")
}
