package trailtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// Equal tells the first difference between two answers, nil if there is none.
// Numbers may differ by the tolerance, relative to the larger of the two; integers
// and what is counted may not, nor may confidence bounds. Stats are not compared,
// nor are the users of a cohort unless both answers have them, nor their ids unless
// both have those.
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
	switch {
	case a.Funnel != nil:
		return equalFunnel(a.Funnel, b.Funnel)
	case a.Retention != nil:
		return equalRetention(a.Retention, b.Retention)
	case a.Segment != nil:
		return equalSegment(a.Segment, b.Segment, tolerance)
	case a.Cohort != nil:
		return equalCohort(a.Cohort, b.Cohort)
	case a.Paths != nil:
		return equalPaths(a.Paths, b.Paths)
	}
	return nil
}

func kindOf(a *query.Answer) string {
	kinds := ""
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"funnel", a.Funnel != nil},
		{"retention", a.Retention != nil},
		{"segment", a.Segment != nil},
		{"cohort", a.Cohort != nil},
		{"paths", a.Paths != nil},
	} {
		if k.set {
			kinds += k.name
		}
	}
	if kinds == "" {
		return "none"
	}
	return kinds
}

// differ tells about two things that are shown differently, nil if they are not.
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

func equalFunnel(a, b *query.FunnelAnswer) error {
	err := first(
		equalSteps("", a.Steps, b.Steps),
		differ("by", a.By, b.By),
	)
	if err != nil {
		return err
	}
	for i := range min(len(a.Groups), len(b.Groups)) {
		x, y := a.Groups[i], b.Groups[i]
		where := fmt.Sprintf("group %d (%s)", i+1, quoted(x.Value))
		if err := first(equalValue(where, x.Value, y.Value), equalSteps(where+", ", x.Steps, y.Steps)); err != nil {
			return err
		}
	}
	return differ("number of groups", len(a.Groups), len(b.Groups))
}

func equalSteps(where string, a, b []query.FunnelStep) error {
	if err := differ(where+"number of steps", len(a), len(b)); err != nil {
		return err
	}
	for i := range a {
		at := fmt.Sprintf("%sstep %d", where, i+1)
		if err := first(differ(at, a[i].Event, b[i].Event), differ(at+" ("+a[i].Event+"), users", a[i].Users, b[i].Users)); err != nil {
			return err
		}
	}
	return nil
}

func equalRetention(a, b *query.RetentionAnswer) error {
	for i := range min(len(a.Cohorts), len(b.Cohorts)) {
		x, y := a.Cohorts[i], b.Cohorts[i]
		where := fmt.Sprintf("cohort %d (%s)", i+1, x.Start)
		err := first(
			differ(where+", start", x.Start, y.Start),
			differ(where+", size", x.Size, y.Size),
			differ(where+", number of periods", len(x.Periods), len(y.Periods)),
		)
		if err != nil {
			return err
		}
		for k := range x.Periods {
			if err := differ(fmt.Sprintf("%s, period %d", where, k), x.Periods[k], y.Periods[k]); err != nil {
				return err
			}
		}
	}
	return differ("number of cohorts", len(a.Cohorts), len(b.Cohorts))
}

func equalSegment(a, b *query.SegmentAnswer, tolerance float64) error {
	if err := first(differ("bucketed", a.Bucketed, b.Bucketed), differ("by", a.By, b.By)); err != nil {
		return err
	}
	// Sums of floats depend on the order of adding, so rows whose values are nearly
	// equal may have changed places; within a bucket they are put in order of group.
	x, y := settled(a.Rows, tolerance), settled(b.Rows, tolerance)
	for i := range min(len(x), len(y)) {
		where := fmt.Sprintf("row %d (%s%s)", i+1, x[i].Bucket, groupName(x[i].Group))
		if err := differ(where+", bucket", x[i].Bucket, y[i].Bucket); err != nil {
			return err
		}
		if err := differ(where+", properties", len(x[i].Group), len(y[i].Group)); err != nil {
			return err
		}
		for k := range x[i].Group {
			if err := equalValue(where+", group", x[i].Group[k], y[i].Group[k]); err != nil {
				return err
			}
		}
		if err := equalMeasured(where+", value", x[i].Value, y[i].Value, tolerance); err != nil {
			return err
		}
	}
	return differ("number of rows", len(a.Rows), len(b.Rows))
}

// settled returns rows in which runs of nearly equal numbers are in order of
// group.
func settled(rows []query.SegmentRow, tolerance float64) []query.SegmentRow {
	rows = slices.Clone(rows)
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && rows[to].Bucket == rows[from].Bucket &&
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

func equalMeasured(what string, a, b query.Measured, tolerance float64) error {
	same := a.Type == b.Type && a.Sampled == b.Sampled && a.Int == b.Int &&
		near(a.Float, b.Float, tolerance) && near(a.Low, b.Low, tolerance) && near(a.High, b.High, tolerance)
	if same {
		return nil
	}
	return fmt.Errorf("%s: %s, and %s", what, measuredName(a), measuredName(b))
}

func near(a, b, tolerance float64) bool {
	return a == b || math.Abs(a-b) <= tolerance*max(math.Abs(a), math.Abs(b))
}

func measuredName(m query.Measured) string {
	name := "null"
	switch m.Type {
	case event.Int:
		name = fmt.Sprintf("integer %d", m.Int)
	case event.Float:
		name = fmt.Sprintf("number %v", m.Float)
	}
	if m.Sampled {
		name += fmt.Sprintf(" [%v, %v]", m.Low, m.High)
	}
	return name
}

func equalCohort(a, b *query.CohortAnswer) error {
	if err := first(differ("name", a.Name, b.Name), differ("users", a.Users, b.Users)); err != nil {
		return err
	}
	if a.Found == nil || b.Found == nil {
		return nil
	}
	if err := differ("number of users found", len(a.Found), len(b.Found)); err != nil {
		return err
	}
	for i := range a.Found {
		x, y := a.Found[i], b.Found[i]
		where := fmt.Sprintf("user %d", i+1)
		if err := differ(where+", hash", x.Hash, y.Hash); err != nil {
			return err
		}
		if x.ID != "" && y.ID != "" && x.ID != y.ID {
			return differ(where+", id", x.ID, y.ID)
		}
	}
	return nil
}

func equalPaths(a, b *query.PathsAnswer) error {
	for i := range min(len(a.Paths), len(b.Paths)) {
		where := fmt.Sprintf("path %d", i+1)
		x, y := a.Paths[i], b.Paths[i]
		if err := first(differ(where, fmt.Sprintf("%q", x.Path), fmt.Sprintf("%q", y.Path)), differ(fmt.Sprintf("%s %q, users", where, x.Path), x.Users, y.Users)); err != nil {
			return err
		}
	}
	return differ("number of paths", len(a.Paths), len(b.Paths))
}

func equalValue(what string, a, b event.Value) error {
	if a == b {
		return nil
	}
	return fmt.Errorf("%s: %s, and %s", what, quoted(a), quoted(b))
}

func quoted(v event.Value) string { return fmt.Sprintf("%s %q", v.Type(), v.String()) }

func groupName(group []event.Value) string {
	name := ""
	for _, v := range group {
		name += fmt.Sprintf(" %q", v.String())
	}
	return name
}
