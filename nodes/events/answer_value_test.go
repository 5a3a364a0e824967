package events

import (
	"math"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
	"github.com/uniflow-labs/uniflow/value"
)

// TestAnswerValue makes the same value of an answer as of its JSON text.
func TestAnswerValue(t *testing.T) {
	n := query.Number{N: 9, Low: 7, High: 12, Sampled: true}
	stats := query.Stats{EventsRead: 3, Sample: 1, Through: 1767571200000, HasThrough: true, Warnings: []string{"a <b>"}}
	measured := func(f float64) query.Measured { return query.Measured{Type: event.Float, Float: f} }
	for _, a := range []*query.Answer{
		{Stats: stats, Funnel: &query.FunnelAnswer{Steps: []query.FunnelStep{{Event: "a|b", Users: n}}, By: []string{"é"}, Groups: []query.FunnelGroup{
			{Values: []event.Value{event.BoolOf(true)}}, {Values: []event.Value{event.FloatOf(0.5)}}, {Values: []event.Value{{}}}, {Values: []event.Value{event.IntOf(-1)}},
		}}},
		{Stats: stats, Retention: &query.RetentionAnswer{Cohorts: []query.RetentionCohort{{Start: "2026-01-05", Size: n, Periods: []query.Number{n}}}}},
		{Stats: query.Stats{Sample: 0.1}, Segment: &query.SegmentAnswer{Bucketed: true, Rows: []query.SegmentRow{
			{Bucket: "2026-01-05", Value: measured(math.NaN())}, {Value: measured(9)}, {Value: measured(0.25)}, {Value: measured(-3e300)}, {Value: query.Measured{}},
		}}},
		{Funnel: &query.FunnelAnswer{By: []string{""}, Groups: []query.FunnelGroup{{Values: []event.Value{event.IntOf(1)}}}}}, // a property may have an empty name
		{Cohort: &query.CohortAnswer{Name: "x", Users: n, Found: []query.User{{ID: "u"}}}},
		{Paths: &query.PathsAnswer{Paths: []query.Path{{Path: []string{"a", ""}, Users: n}}}},
		{Paths: &query.PathsAnswer{}},
	} {
		text, err := a.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		want, err := value.ParseJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		w := &valueWriter{}
		a.Write(w)
		if w.root.String() != want.String() || !w.root.Equal(want) {
			t.Errorf("got %s, want %s", w.root, want)
		}
	}
}
