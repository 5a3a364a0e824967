package query

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// back reads JSON of an answer, and writes it again.
func back(t *testing.T, a *Answer, text string) {
	t.Helper()
	var got Answer
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	if f := a.Funnel; f != nil && len(f.Groups) == 0 {
		got.Funnel.By = f.By // JSON does not have it
	}
	if again, err := json.Marshal(&got); err != nil || string(again) != text {
		t.Errorf("got  %s, %v\nof   %s", again, err, text)
	}
}

// TestMarshal compares answers of every kind with their JSON, byte for byte, and
// reads them back.
func TestMarshal(t *testing.T) {
	f := func(a Answer, want string) {
		t.Helper()
		if a.Stats.Sample == 0 {
			a.Stats.Sample = 1
			want += `,"stats":{"events_read":0,"bytes_read":0,"segments":0,"sample":1.0,"elapsed_us":0}}`
		}
		got, err := json.Marshal(&a)
		if err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
		back(t, &a, want)
	}
	n := func(i int64) Number { return Number{N: i} }
	ci := func(i, low, high int64) Number { return Number{N: i, Low: low, High: high, Sampled: true} }

	f(Answer{Funnel: &FunnelAnswer{Steps: []FunnelStep{{Event: "view", Users: n(9)}, {Event: "cart|basket", Users: n(4)}}}},
		`{"steps":[{"event":"view","users":9},{"event":"cart|basket","users":4}]`)
	f(Answer{Funnel: &FunnelAnswer{Steps: []FunnelStep{{Event: "a", Users: ci(9, 7, 11)}}}},
		`{"steps":[{"event":"a","users":9,"ci":[7,11]}]`)
	f(Answer{Funnel: &FunnelAnswer{Steps: []FunnelStep{{Event: "a", Users: n(0)}}, By: []string{"country"}}},
		`{"steps":[{"event":"a","users":0}],"groups":[]`)
	f(Answer{Funnel: &FunnelAnswer{Steps: []FunnelStep{{Event: "a", Users: n(9)}}, By: []string{"country"}, Groups: []FunnelGroup{
		{Values: []event.Value{event.StringOf("KR")}, Steps: []FunnelStep{{Event: "a", Users: n(8)}}}, {Values: []event.Value{event.Value{}}, Steps: []FunnelStep{{Event: "a", Users: ci(1, 0, 2)}}},
		{Values: []event.Value{event.IntOf(-5)}, Steps: nil}, {Values: []event.Value{event.FloatOf(2.5)}, Steps: nil}, {Values: []event.Value{event.BoolOf(true)}, Steps: nil}}}},
		`{"steps":[{"event":"a","users":9}],"groups":[{"country":"KR","steps":[{"event":"a","users":8}]},`+
			`{"country":"","steps":[{"event":"a","users":1,"ci":[0,2]}]},{"country":-5,"steps":[]},{"country":2.5,"steps":[]},{"country":true,"steps":[]}]`)

	hour := &StepTime{Median: 90_000, P90: 5_400_000, Histogram: []TimeBucket{{time.Hour, n(3)}, {3 * time.Hour, n(0)}, {7 * 24 * time.Hour, n(1)}, {0, n(1)}}}
	f(Answer{Funnel: &FunnelAnswer{Steps: []FunnelStep{{Event: "a", Users: n(9)}, {Event: "b", Users: n(5), Time: hour}}}},
		`{"steps":[{"event":"a","users":9},{"event":"b","users":5,"time":{"median_ms":90000,"p90_ms":5400000,`+
			`"histogram":[{"below":"1h","users":3},{"below":"3h","users":0},{"below":"7d","users":1},{"users":1}]}}]`)
	f(Answer{Funnel: &FunnelAnswer{Steps: nil, By: []string{"country", "n"}, Groups: []FunnelGroup{
		{Values: []event.Value{event.StringOf("KR"), event.IntOf(5)}, Steps: []FunnelStep{{Event: "b", Users: ci(9, 7, 11), Time: &StepTime{Histogram: []TimeBucket{{0, ci(9, 7, 11)}}}}}},
		{Other: true}}}},
		`{"steps":[],"groups":[{"country":"KR","n":5,"steps":[{"event":"b","users":9,"ci":[7,11],"time":{"median_ms":0,"p90_ms":0,"histogram":[{"users":9,"ci":[7,11]}]}}]},{"other":true,"steps":[]}]`)
	f(Answer{Funnel: &FunnelAnswer{By: []string{"other"}, Groups: []FunnelGroup{{Values: []event.Value{event.BoolOf(true)}}, {Values: []event.Value{{}}}}}},
		`{"steps":[],"groups":[{"other":true,"steps":[]},{"other":"","steps":[]}]`)
	f(Answer{Funnel: &FunnelAnswer{Trend: []FunnelBucket{}}}, `{"steps":[],"trend":[]`)
	f(Answer{Funnel: &FunnelAnswer{Trend: []FunnelBucket{{"2026-01-05", []FunnelStep{{Event: "a", Users: n(2)}, {Event: "b", Users: n(1)}}}, {"2026-01-06", []FunnelStep{{Event: "a", Users: ci(1, 0, 2)}}}}}},
		`{"steps":[],"trend":[{"bucket":"2026-01-05","steps":[{"event":"a","users":2},{"event":"b","users":1}]},{"bucket":"2026-01-06","steps":[{"event":"a","users":1,"ci":[0,2]}]}]`)

	f(Answer{Retention: &RetentionAnswer{}}, `{"cohorts":[]`)
	f(Answer{Retention: &RetentionAnswer{Cohorts: []RetentionCohort{{"2026-01-05", n(9), []Number{n(9), n(4)}}, {"2026-01-12", n(1), []Number{n(0), n(0)}}}}},
		`{"cohorts":[{"start":"2026-01-05","size":9,"periods":[9,4]},{"start":"2026-01-12","size":1,"periods":[0,0]}]`)
	f(Answer{Retention: &RetentionAnswer{Cohorts: []RetentionCohort{{"2026-01-05", ci(9, 8, 10), []Number{ci(9, 8, 10), ci(4, 3, 5)}}}}},
		`{"cohorts":[{"start":"2026-01-05","size":9,"size_ci":[8,10],"periods":[9,4],"periods_ci":[[8,10],[3,5]]}]`)

	f(Answer{Segment: &SegmentAnswer{Rows: []SegmentRow{{Value: Measured{Type: event.Int, Int: 9}}}}}, `{"rows":[{"value":9}]`)
	f(Answer{Segment: &SegmentAnswer{Bucketed: true, By: []string{"country", "say \"<hi>\""}, Rows: []SegmentRow{
		{Bucket: "2026-01-05", Group: []event.Value{event.StringOf("KR"), event.BoolOf(false)}, Value: Measured{Type: event.Float, Float: 0.1}},
		{Bucket: "2026-01-05T10:00:00Z", Group: []event.Value{{}, event.IntOf(math.MinInt64)}},
	}}}, `{"rows":[{"bucket":"2026-01-05","country":"KR","say \"\u003chi\u003e\"":false,"value":0.1},`+
		`{"bucket":"2026-01-05T10:00:00Z","country":"","say \"\u003chi\u003e\"":-9223372036854775808,"value":null}]`)
	f(Answer{Segment: &SegmentAnswer{Rows: []SegmentRow{
		{Value: Measured{Type: event.Int, Int: 90, Low: 80, High: 100, Sampled: true}},
		{Value: Measured{Type: event.Float, Float: 90.5, Low: 80.25, High: 100.75, Sampled: true}},
		{Value: Measured{Type: event.Float, Float: math.Inf(1)}}, {Value: Measured{Type: event.Float, Float: 1e300}}, {Value: Measured{Type: event.Float, Float: -1e-9}},
	}}}, `{"rows":[{"value":90,"ci":[80,100]},{"value":90.5,"ci":[80.25,100.75]},{"value":null},{"value":1e+300},{"value":-1e-09}]`)

	f(Answer{Segment: &SegmentAnswer{Bucketed: true, By: []string{"country"}, Rows: []SegmentRow{
		{Bucket: "2026-01-05", Other: true, Value: Measured{Type: event.Int, Int: 3}},
		{Bucket: "2026-01-06", Group: []event.Value{event.StringOf("KR")}, Value: Measured{Type: event.Int, Int: 9}},
		{Bucket: "2026-01-06", Other: true, Value: Measured{Type: event.Int, Int: 90, Low: 80, High: 100, Sampled: true}},
	}}}, `{"rows":[{"bucket":"2026-01-05","other":true,"value":3},{"bucket":"2026-01-06","country":"KR","value":9},{"bucket":"2026-01-06","other":true,"value":90,"ci":[80,100]}]`)

	f(Answer{Cohort: &CohortAnswer{Name: "buyers", Users: n(9)}}, `{"cohort":"buyers","users":9`)
	f(Answer{Cohort: &CohortAnswer{Users: ci(9, 8, 10), Found: []User{{Hash: 5}}}}, `{"cohort":"","users":9,"ci":[8,10]`)
	f(Answer{Cohort: &CohortAnswer{Users: n(2), Found: []User{{5, "u1"}, {7, "u2"}}}}, `{"cohort":"","users":2,"ids":["u1","u2"]`)

	f(Answer{Paths: &PathsAnswer{Paths: []Path{{[]string{"a", "b"}, n(9)}, {[]string{"a"}, ci(4, 3, 5)}}}},
		`{"paths":[{"path":["a","b"],"users":9},{"path":["a"],"users":4,"ci":[3,5]}]`)
	f(Answer{Paths: &PathsAnswer{}}, `{"paths":[]`)

	f(Answer{Cohort: &CohortAnswer{}, Stats: Stats{EventsRead: 1, BytesRead: 2, Segments: 3, Sample: 0.125, ElapsedUS: 4,
		Through: 1767225600250, HasThrough: true, Warnings: []string{"no event \"x\""}}},
		`{"cohort":"","users":0,"stats":{"events_read":1,"bytes_read":2,"segments":3,"sample":0.125,"elapsed_us":4,`+
			`"through":"2026-01-01T00:00:00.25Z","warnings":["no event \"x\""]}}`)
}

// TestUnmarshal reads answers of every kind as they were written.
func TestUnmarshal(t *testing.T) {
	ci := func(i, low, high int64) Number { return Number{N: i, Low: low, High: high, Sampled: true} }
	stats := Stats{EventsRead: 1, BytesRead: 2, Segments: 3, Sample: 0.125, ElapsedUS: 4, Through: 1767225600250, HasThrough: true, Warnings: []string{"w"}}
	for _, want := range []Answer{
		{Funnel: &FunnelAnswer{Steps: []FunnelStep{{Event: "view", Users: ci(9, 8, 10)}, {Event: "cart", Users: Number{N: 4}}}, By: []string{"steps"}, Groups: []FunnelGroup{
			{Values: []event.Value{event.StringOf("KR")}, Steps: []FunnelStep{{Event: "view", Users: ci(9, 8, 10)}}}, {Values: []event.Value{event.Value{}}, Steps: []FunnelStep{{Event: "view", Users: Number{N: 1}}}},
		}}},
		{Funnel: &FunnelAnswer{Steps: []FunnelStep{{Event: "a"}, {Event: "b", Users: ci(4, 3, 5), Time: &StepTime{Median: 5, P90: 7, Histogram: []TimeBucket{{time.Minute, ci(4, 3, 5)}, {0, Number{N: 1}}}}}},
			By: []string{"country", "steps"}, Groups: []FunnelGroup{{Values: []event.Value{event.StringOf("KR"), event.IntOf(5)}, Steps: []FunnelStep{{Event: "a", Users: Number{N: 1}}}}, {Other: true, Steps: []FunnelStep{{Event: "a", Users: Number{N: 1}}}}}}},
		{Funnel: &FunnelAnswer{Steps: []FunnelStep{{Event: "a"}}, Trend: []FunnelBucket{{"2026-01-05", []FunnelStep{{Event: "a", Users: ci(4, 3, 5)}}}}}},
		{Funnel: &FunnelAnswer{Steps: []FunnelStep{{Event: "a"}}, By: []string{"other"}, Groups: []FunnelGroup{{Values: []event.Value{event.BoolOf(true)}, Steps: []FunnelStep{{Event: "a"}}}}}},
		{Segment: &SegmentAnswer{By: []string{"country", "n"}, Rows: []SegmentRow{
			{Group: []event.Value{event.StringOf("KR"), event.IntOf(5)}, Value: Measured{Type: event.Int, Int: 9}}, {Other: true, Value: Measured{Type: event.Int, Int: 4}},
		}}},
		{Retention: &RetentionAnswer{Cohorts: []RetentionCohort{{"2026-01-05", ci(9, 8, 10), []Number{ci(9, 8, 10), ci(4, 3, 5)}}}}},
		{Segment: &SegmentAnswer{Bucketed: true, By: []string{"value", "ci"}, Rows: []SegmentRow{
			{Bucket: "2026-01-05", Group: []event.Value{event.IntOf(math.MaxInt64), event.BoolOf(true)}, Value: Measured{Type: event.Int, Int: 9, Low: 8.5, High: 10, Sampled: true}},
			{Bucket: "2026-01-06", Group: []event.Value{event.FloatOf(0.5), {}}, Value: Measured{Type: event.Float, Float: 1e300}},
		}}},
		{Segment: &SegmentAnswer{Rows: []SegmentRow{{Value: Measured{}}}}},
		{Cohort: &CohortAnswer{Name: "buyers", Users: ci(9, 8, 10), Found: []User{{event.Hash("u1"), "u1"}}}},
		{Paths: &PathsAnswer{Paths: []Path{{[]string{"a", "b"}, Number{N: 9}}}}},
	} {
		want.Stats = stats
		text, err := json.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		var got Answer
		if err := json.Unmarshal(text, &got); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got another answer: %+v", text, got)
		}
	}
	for _, text := range []string{
		`{}`, `[]`, `{"steps":[]}`, `{"stats":{}}`, `{"steps":[],"paths":[],"stats":{}}`, `{"rows":[{}],"stats":{}}`, `{"rows":[7],"stats":{}}`,
		`{"rows":[{"value":"x"}],"stats":{}}`, `{"rows":[{"a":1,"value":1},{"b":1,"value":1}],"stats":{}}`, `{"rows":[{"a":[],"value":1}],"stats":{}}`,
		`{"steps":[],"groups":[{"steps":[]}],"stats":{}}`, `{"steps":[],"groups":[7],"stats":{}}`, `{"steps":[{"users":1,"ci":[0.5,2]}],"stats":{}}`,
		`{"steps":[],"groups":[{"a":1,"steps":[]},{"b":1,"steps":[]}],"stats":{}}`, `{"steps":[],"groups":[{"a":1,"steps":[]},{"other":false,"steps":[]}],"stats":{}}`,
		`{"steps":[],"groups":[{"a":[],"steps":[]}],"stats":{}}`, `{"steps":[],"groups":[{"a":1,"steps":[{"users":1,"ci":[0.5,2]}]}],"stats":{}}`,
		`{"steps":[],"groups":[{"steps":[],"a":1}],"stats":{}}`, `{"steps":[],"trend":[{"bucket":"","steps":[{"users":1,"ci":[0.5,2]}]}],"stats":{}}`,
		`{"steps":[{"time":{"histogram":[{"below":"soon","users":1}]}}],"stats":{}}`, `{"steps":[{"time":{"histogram":[{"users":1,"ci":[0.5,2]}]}}],"stats":{}}`,
		`{"rows":[{"bucket":"a","value":1},{"value":1}],"stats":{}}`, `{"rows":[{"a":1,"value":1},{"other":1,"value":1}],"stats":{}}`,
		`{"cohorts":[{"periods":[1],"periods_ci":[]}],"stats":{}}`, `{"cohort":7,"stats":{}}`, `{"cohort":"","stats":{"through":"soon"}}`,
	} {
		got := Answer{Stats: Stats{Sample: 7}}
		if err := json.Unmarshal([]byte(text), &got); err == nil || got.Stats.Sample != 7 {
			t.Errorf("%s: got %+v and %v, want an error and nothing read", text, got, err)
		}
	}
}

// TestGreatNumbers has a group's number be the same, and still a number, after it was
// read from the JSON of an answer.
func TestGreatNumbers(t *testing.T) {
	for _, f := range []float64{1 << 53, 1<<53 + 2, -(1 << 60), 1<<60 + 1<<9, 1e18, 1e20, 12345678901234567, 1<<53 - 1, 0.5, 1e-7} {
		a := &Answer{Segment: &SegmentAnswer{By: []string{"n"}, Rows: []SegmentRow{{Group: []event.Value{event.FloatOf(f)}, Value: Measured{Type: event.Int, Int: 1}}}}}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var read Answer
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		got := read.Segment.Rows[0].Group[0]
		if got.Float() != f || (got.Type() == event.Int && math.Abs(f) >= 1<<53) {
			t.Errorf("got %s %s from %s, want the number %v", got.Type(), got, text, f)
		}
		if got := event.FloatOf(f).String(); math.Abs(f) >= 1<<53 && !strings.Contains(got, "e+") {
			t.Errorf("%v is shown as %s, want an exponent", f, got)
		}
	}
}
