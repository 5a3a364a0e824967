package trailtest

import (
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

func TestEqual(t *testing.T) {
	f := func(a, b *query.Answer, want string) {
		t.Helper()
		got := ""
		if err := Equal(a, b, 1e-9); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	funnel := func(group string, ns ...int) *query.Answer {
		var steps []query.FunnelStep
		for _, n := range ns {
			steps = append(steps, query.FunnelStep{Event: "A", Users: number(n)})
		}
		return &query.Answer{Funnel: &query.FunnelAnswer{Steps: steps[:1], By: []string{"c"}, Groups: []query.FunnelGroup{{Values: []event.Value{event.StringOf(group)}, Steps: steps}}}}
	}
	f(nil, nil, "")
	f(nil, &query.Answer{}, "one of the answers is nil")
	f(funnel("x", 3, 2), funnel("x", 3, 2), "")
	f(funnel("x", 3, 2), &query.Answer{}, "kind of answer: funnel, and none")
	f(funnel("x", 3, 2), funnel("x", 4, 2), "step 1 (A), users: {N:3 Low:0 High:0 Sampled:false}, and {N:4 Low:0 High:0 Sampled:false}")
	f(funnel("x", 3, 2), funnel("y", 3, 2), `group 1 (string "x"): string "x", and string "y"`)
	f(funnel("x", 3, 2), funnel("x", 3), `group 1 (string "x"), number of steps: 2, and 1`)

	retention := func(start string, ns ...int) *query.Answer {
		c := query.RetentionCohort{Start: start, Size: number(9)}
		for _, n := range ns {
			c.Periods = append(c.Periods, number(n))
		}
		return &query.Answer{Retention: &query.RetentionAnswer{Cohorts: []query.RetentionCohort{c}}}
	}
	f(retention("a", 1, 2), retention("a", 1, 2), "")
	f(retention("a", 1), retention("b", 1), "cohort 1 (a), start: a, and b")
	f(retention("a", 1, 2), retention("a", 1, 3), "cohort 1 (a), period 1: {N:2 Low:0 High:0 Sampled:false}, and {N:3 Low:0 High:0 Sampled:false}")
	f(retention("a", 1), &query.Answer{Retention: &query.RetentionAnswer{}}, "number of cohorts: 1, and 0")

	row := func(group string, m query.Measured) query.SegmentRow {
		return query.SegmentRow{Group: []event.Value{event.StringOf(group)}, Value: m}
	}
	segment := func(rows ...query.SegmentRow) *query.Answer {
		return &query.Answer{Segment: &query.SegmentAnswer{By: []string{"c"}, Rows: rows}}
	}
	float := func(x float64) query.Measured { return query.Measured{Type: event.Float, Float: x} }
	f(segment(row("x", float(1))), segment(row("x", float(1+1e-12))), "")
	f(segment(row("x", float(1))), segment(row("x", float(1.001))), `row 1 ( string "x"), value: number 1, and number 1.001`)
	f(segment(row("x", float(1))), segment(row("x", query.Measured{Type: event.Int, Int: 1})), `row 1 ( string "x"), value: number 1, and integer 1`)
	f(segment(row("x", float(1))), segment(row("x", query.Measured{})), `row 1 ( string "x"), value: number 1, and null`)
	f(segment(row("x", float(1+1e-12)), row("y", float(1))), segment(row("y", float(1+1e-12)), row("x", float(1))), "")
	f(segment(row("x", float(1)), row("y", float(1))), segment(row("x", float(1))), "number of rows: 2, and 1")

	cohort := func(n int, found ...query.User) *query.Answer {
		return &query.Answer{Cohort: &query.CohortAnswer{Users: number(n), Found: found}}
	}
	f(cohort(1, query.User{Hash: 1}), cohort(1), "")
	f(cohort(1, query.User{Hash: 1}), cohort(1, query.User{Hash: 1, ID: "u"}), "")
	f(cohort(1, query.User{Hash: 1}), cohort(1, query.User{Hash: 2}), "user 1, hash: 1, and 2")
	f(cohort(1), cohort(2), "users: {N:1 Low:0 High:0 Sampled:false}, and {N:2 Low:0 High:0 Sampled:false}")

	paths := func(n int, path ...string) *query.Answer {
		return &query.Answer{Paths: &query.PathsAnswer{Paths: []query.Path{{Path: path, Users: number(n)}}}}
	}
	f(paths(1, "a", "b"), paths(1, "a", "b"), "")
	f(paths(1, "a", "b"), paths(1, "a b"), `path 1: ["a" "b"], and ["a b"]`)

	withStats := funnel("x", 3, 2)
	withStats.Stats.EventsRead = 7
	f(funnel("x", 3, 2), withStats, "")
}
