package trailtest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

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
			return errors.New("one of the answers is nil")
		}
		return nil
	}
	x, y := *a, *b
	x.Stats, y.Stats = query.Stats{}, query.Stats{}
	if f, g := x.Funnel, y.Funnel; f != nil && g != nil && (f.Trend == nil) != (g.Trend == nil) {
		return errors.New("one of the funnels has no trend")
	}
	if x.Segment != nil && y.Segment != nil {
		// Sums of floats depend on the order of adding, so rows whose values are nearly
		// equal may have changed places; within a bucket they are put in order of group.
		p, q := *x.Segment, *y.Segment
		p.Rows, q.Rows = settled(p.Rows, tolerance), settled(q.Rows, tolerance)
		x.Segment, y.Segment = &p, &q
	}
	if x.Cohort != nil && y.Cohort != nil {
		p, q := *x.Cohort, *y.Cohort
		p.Found, q.Found = common(p.Found, q.Found), common(q.Found, p.Found)
		x.Cohort, y.Cohort = &p, &q
	}
	return differ(reflect.ValueOf(x), reflect.ValueOf(y), tolerance)
}

// settled returns rows in which runs of nearly equal numbers are in order of
// group.
func settled(rows []query.SegmentRow, tolerance float64) []query.SegmentRow {
	rows = slices.Clone(rows)
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && rows[to].Bucket == rows[from].Bucket && rows[to].Other == rows[from].Other &&
			rows[to].Value.Type == event.Float && rows[from].Value.Type == event.Float &&
			near(rows[to-1].Value.Float, rows[to].Value.Float, tolerance) {
			to++
		}
		slices.SortStableFunc(rows[from:to], func(a, b query.SegmentRow) int {
			return slices.CompareFunc(a.Group, b.Group, compareValues)
		})
		from = to
	}
	return rows
}

// common returns users, as far as they can be compared with others.
func common(users, others []query.User) []query.User {
	if others == nil {
		return nil
	}
	users = slices.Clone(users)
	for i := range min(len(users), len(others)) {
		if others[i].ID == "" {
			users[i].ID = ""
		}
	}
	return users
}

// differ returns where two parts of answers differ, and how.
func differ(a, b reflect.Value, tolerance float64) error {
	equal := false
	switch {
	case a.Type() == reflect.TypeFor[event.Value]():
		equal = a.Interface() == b.Interface()
	case a.Kind() == reflect.Struct:
		for i := range a.NumField() {
			if err := differ(a.Field(i), b.Field(i), tolerance); err != nil {
				return fmt.Errorf(".%s%w", a.Type().Field(i).Name, err)
			}
		}
		return nil
	case a.Kind() == reflect.Slice:
		for i := range min(a.Len(), b.Len()) {
			if err := differ(a.Index(i), b.Index(i), tolerance); err != nil {
				return fmt.Errorf("[%d]%s%w", i, labelOf(a.Index(i)), err)
			}
		}
		if a.Len() != b.Len() {
			return fmt.Errorf(": %d of them, and %d", a.Len(), b.Len())
		}
		return nil
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil():
		return differ(a.Elem(), b.Elem(), tolerance)
	case a.Kind() == reflect.Float64:
		equal = near(a.Float(), b.Float(), tolerance)
	default:
		equal = a.Interface() == b.Interface()
	}
	if equal {
		return nil
	}
	return fmt.Errorf(": %s, and %s", shown(a), shown(b))
}

func near(a, b, tolerance float64) bool {
	return a == b || math.Abs(a-b) <= tolerance*max(math.Abs(a), math.Abs(b))
}

func shown(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case event.Value:
		return fmt.Sprintf("%s %q", x.Type(), x)
	case event.Type:
		return x.String()
	}
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		return "one"
	}
	return fmt.Sprint(v)
}

// labelOf names an element of a list, as its place alone says little.
func labelOf(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case query.FunnelStep:
		return fmt.Sprintf("(%s)", x.Event)
	case query.FunnelGroup:
		return fmt.Sprintf("(%q)", x.Values)
	case query.FunnelBucket:
		return fmt.Sprintf("(%s)", x.Bucket)
	case query.RetentionCohort:
		return fmt.Sprintf("(%s)", x.Start)
	case query.SegmentRow:
		return fmt.Sprintf("(%s %q)", x.Bucket, x.Group)
	}
	return ""
}
