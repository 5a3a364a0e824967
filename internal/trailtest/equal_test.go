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
	f(funnel("x", 3, 2), &query.Answer{}, ".Funnel: one, and <nil>")
	f(funnel("x", 3, 2), funnel("x", 4, 2), ".Funnel.Steps[0](A).Users.N: 3, and 4")
	f(funnel("x", 3, 2), funnel("y", 3, 2), `.Funnel.Groups[0](["x"]).Values[0]: string "x", and string "y"`)
	f(funnel("x", 3, 2), funnel("x", 3), `.Funnel.Groups[0](["x"]).Steps: 2 of them, and 1`)

	trend := funnel("x", 3, 2)
	trend.Funnel.Trend = []query.FunnelBucket{}
	f(funnel("x", 3, 2), trend, "one of the funnels has no trend")

	retention := func(start string, ns ...int) *query.Answer {
		c := query.RetentionCohort{Start: start, Size: number(9)}
		for _, n := range ns {
			c.Periods = append(c.Periods, number(n))
		}
		return &query.Answer{Retention: &query.RetentionAnswer{Cohorts: []query.RetentionCohort{c}}}
	}
	f(retention("a", 1, 2), retention("a", 1, 2), "")
	f(retention("a", 1), retention("b", 1), ".Retention.Cohorts[0](a).Start: a, and b")
	f(retention("a", 1, 2), retention("a", 1, 3), ".Retention.Cohorts[0](a).Periods[1].N: 2, and 3")
	f(retention("a", 1), &query.Answer{Retention: &query.RetentionAnswer{}}, ".Retention.Cohorts: 1 of them, and 0")

	row := func(group string, m query.Measured) query.SegmentRow {
		return query.SegmentRow{Group: []event.Value{event.StringOf(group)}, Value: m}
	}
	segment := func(rows ...query.SegmentRow) *query.Answer {
		return &query.Answer{Segment: &query.SegmentAnswer{By: []string{"c"}, Rows: rows}}
	}
	float := func(x float64) query.Measured { return query.Measured{Type: event.Float, Float: x} }
	f(segment(row("x", float(1))), segment(row("x", float(1+1e-12))), "")
	f(segment(row("x", float(1))), segment(row("x", float(1.001))), `.Segment.Rows[0]( ["x"]).Value.Float: 1, and 1.001`)
	f(segment(row("x", float(1))), segment(row("x", query.Measured{Type: event.Int, Int: 1})), `.Segment.Rows[0]( ["x"]).Value.Type: number, and integer`)
	f(segment(row("x", float(1))), segment(row("x", query.Measured{})), `.Segment.Rows[0]( ["x"]).Value.Type: number, and unknown`)
	f(segment(row("x", float(1+1e-12)), row("y", float(1))), segment(row("y", float(1+1e-12)), row("x", float(1))), "")
	f(segment(row("x", float(1)), row("y", float(1))), segment(row("x", float(1))), ".Segment.Rows: 2 of them, and 1")

	cohort := func(n int, found ...query.User) *query.Answer {
		return &query.Answer{Cohort: &query.CohortAnswer{Users: number(n), Found: found}}
	}
	f(cohort(1, query.User{Hash: 1}), cohort(1), "")
	f(cohort(1, query.User{Hash: 1}), cohort(1, query.User{Hash: 1, ID: "u"}), "")
	f(cohort(1, query.User{Hash: 1, ID: "u"}), cohort(1, query.User{Hash: 1, ID: "v"}), ".Cohort.Found[0].ID: u, and v")
	f(cohort(1, query.User{Hash: 1}), cohort(1, query.User{Hash: 2}), ".Cohort.Found[0].Hash: 1, and 2")
	f(cohort(1), cohort(2), ".Cohort.Users.N: 1, and 2")

	paths := func(n int, path ...string) *query.Answer {
		return &query.Answer{Paths: &query.PathsAnswer{Paths: []query.Path{{Path: path, Users: number(n)}}}}
	}
	f(paths(1, "a", "b"), paths(1, "a", "b"), "")
	f(paths(1, "a", "b"), paths(1, "a b"), `.Paths.Paths[0].Path[0]: a, and a b`)

	withStats := funnel("x", 3, 2)
	withStats.Stats.EventsRead = 7
	f(funnel("x", 3, 2), withStats, "")
}
