package trail

import (
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

func counted(n int64) query.Number { return query.Number{N: n} }

func sampled(n, low, high int64) query.Number {
	return query.Number{N: n, Low: low, High: high, Sampled: true}
}

func whole(n int64) query.Measured { return query.Measured{Type: event.Int, Int: n} }

func millis(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMilli()
}

// TestAnswerText has answers of every kind as people see them.
func TestAnswerText(t *testing.T) {
	f := func(name string, q *query.Query, a *query.Answer, want string) {
		t.Helper()
		got := answerText(q, a)
		if want = strings.TrimPrefix(want, "\n"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	funnel := &query.Query{Funnel: &query.Funnel{}}
	steps := []query.FunnelStep{{Event: "view", Users: counted(2000)}, {Event: "cart|wish", Users: counted(800)}, {Event: "purchase", Users: counted(5)}}
	f("funnel", funnel, &query.Answer{Funnel: &query.FunnelAnswer{Steps: steps}}, `
STEP         USERS  OF FIRST  OF PREVIOUS
1 view       2,000   100.0 %               ████████████████████████
2 cart|wish    800    40.0 %       40.0 %  █████████▋
3 purchase       5     0.2 %        0.6 %  ▏
`)
	f("funnel without users", funnel, &query.Answer{Funnel: &query.FunnelAnswer{Steps: []query.FunnelStep{{Event: "view"}, {Event: "cart"}}}}, `
STEP    USERS  OF FIRST  OF PREVIOUS
1 view      0
2 cart      0
`)
	f("funnel by country", funnel, &query.Answer{Funnel: &query.FunnelAnswer{
		Steps: steps[:2], By: []string{"country"},
		Groups: []query.FunnelGroup{
			{Values: []event.Value{event.StringOf("KR")}, Steps: []query.FunnelStep{{Event: "view", Users: sampled(1500, 1400, 1620)}, {Event: "cart|wish", Users: sampled(300, 250, 350)}}},
			{Values: []event.Value{{}}, Steps: []query.FunnelStep{{Event: "view", Users: counted(0)}, {Event: "cart|wish", Users: counted(0)}}},
		},
	}}, `
STEP         USERS  OF FIRST  OF PREVIOUS
1 view       2,000   100.0 %               ████████████████████████
2 cart|wish    800    40.0 %       40.0 %  █████████▋

COUNTRY        1 view  2 cart|wish  OF FIRST
KR         1,500 ±120      300 ±50    20.0 %
(missing)           0            0
`)

	timed := []query.FunnelStep{{Event: "view", Users: counted(2000)}, {Event: "cart", Users: counted(800), Time: &query.StepTime{Median: 59_999, P90: 5_400_000, Histogram: []query.TimeBucket{
		{Below: time.Minute, Users: counted(500)}, {Below: 5 * time.Minute}, {Below: 15 * time.Minute}, {Below: 30 * time.Minute, Users: counted(300)}, {Below: time.Hour}, {Below: 3 * time.Hour, Users: counted(1)},
	}}}, {Event: "purchase", Users: counted(4), Time: &query.StepTime{Median: 90 * 86_400_000, P90: 100*86_400_000 + 3_600_000, Histogram: []query.TimeBucket{
		{Below: 90 * 24 * time.Hour, Users: counted(1)}, {Users: sampled(3, 1, 5)},
	}}}}
	f("times of groups", &query.Query{Funnel: &query.Funnel{Times: query.FromPrevious}}, &query.Answer{Funnel: &query.FunnelAnswer{
		Steps: timed, By: []string{"country", "device"}, Groups: []query.FunnelGroup{
			{Values: []event.Value{event.StringOf("KR"), {}}, Steps: []query.FunnelStep{{Event: "view", Users: counted(1500)}, timed[1], {Event: "purchase"}}},
			{Other: true, Steps: []query.FunnelStep{{Event: "view", Users: counted(500)}, {Event: "cart"}, {Event: "purchase"}}},
		},
	}}, `
STEP        USERS  OF FIRST  OF PREVIOUS  MEDIAN         P90
1 view      2,000   100.0 %                                   ████████████████████████
2 cart        800    40.0 %       40.0 %    59 s  1 h 30 min  █████████▋
3 purchase      4     0.2 %        0.5 %    90 d   100 d 1 h  ▏

1 view → 2 cart   USERS
less than 1 min     500  ████████████████████████
1 min to 15 min       0
15 min to 30 min    300  ██████████████▍
30 min to 1 h         0
1 h to 3 h            1  ▏

2 cart → 3 purchase  USERS
30 d to 90 d             1  ████████
90 d or more          3 ±2  ████████████████████████

COUNTRY  DEVICE     1 view  2 cart  OF FIRST  MEDIAN         P90  3 purchase  OF FIRST  MEDIAN  P90
KR       (missing)   1,500     800    53.3 %    59 s  1 h 30 min           0     0.0 %
(other)                500       0     0.0 %                               0     0.0 %
`)
	f("times from step 1", &query.Query{Funnel: &query.Funnel{Times: query.FromFirst}}, &query.Answer{Funnel: &query.FunnelAnswer{
		Steps: []query.FunnelStep{{Event: "view", Users: counted(4)}, {Event: "cart"}, {Event: "purchase", Users: counted(4), Time: timed[2].Time}},
	}}, `
STEP        USERS  OF FIRST  OF PREVIOUS  MEDIAN        P90
1 view          4   100.0 %                                  ████████████████████████
2 cart          0     0.0 %        0.0 %
3 purchase      4   100.0 %                 90 d  100 d 1 h  ████████████████████████

1 view → 3 purchase  USERS
30 d to 90 d             1  ████████
90 d or more          3 ±2  ████████████████████████
`)
	f("trend", funnel, &query.Answer{Funnel: &query.FunnelAnswer{Steps: steps, Trend: []query.FunnelBucket{
		{Bucket: "2026-01-05", Steps: []query.FunnelStep{{Event: "view", Users: counted(1000)}, {Event: "cart|wish", Users: counted(400)}, {Event: "purchase", Users: counted(20)}}},
		{Bucket: "2026-01-12", Steps: []query.FunnelStep{{Event: "view", Users: counted(1100)}, {Event: "cart|wish", Users: counted(400)}, {Event: "purchase", Users: counted(0)}}},
		{Bucket: "2026-01-19", Steps: []query.FunnelStep{{Event: "view", Users: sampled(500, 400, 600)}, {Event: "cart|wish", Users: counted(250)}, {Event: "purchase", Users: counted(5)}}},
	}}}, `
STEP         USERS  OF FIRST  OF PREVIOUS
1 view       2,000   100.0 %               ████████████████████████
2 cart|wish    800    40.0 %       40.0 %  █████████▋
3 purchase       5     0.2 %        0.6 %  ▏

TIME          1 view  2 cart|wish  OF FIRST  3 purchase  OF FIRST
2026-01-05     1,000          400    40.0 %          20     2.0 %  ████████████████████████
2026-01-12     1,100          400    36.4 %           0     0.0 %
2026-01-19  500 ±100          250    50.0 %           5     1.0 %  ████████████
`)
	f("trend without buckets", funnel, &query.Answer{Funnel: &query.FunnelAnswer{Steps: []query.FunnelStep{{Event: "view"}}, Trend: []query.FunnelBucket{}}}, `
STEP    USERS  OF FIRST  OF PREVIOUS
1 view      0

TIME  1 view
`)

	retention := &query.Query{Retention: &query.Retention{Every: query.Every{Elapsed: 168 * time.Hour}, Periods: 3, Cohort: query.Week, Zone: time.UTC}}
	answer := &query.Answer{
		Retention: &query.RetentionAnswer{Cohorts: []query.RetentionCohort{
			{Start: "2026-01-05", Size: counted(40), Periods: []query.Number{counted(40), counted(20), counted(10)}},
			{Start: "2026-01-12", Size: counted(300), Periods: []query.Number{counted(300), counted(1), counted(0)}},
			{Start: "2026-01-19", Size: counted(10), Periods: []query.Number{counted(8), counted(0), counted(0)}},
		}},
		Stats: query.Stats{Through: millis(t, "2026-01-25T23:10:00Z"), HasThrough: true},
	}
	f("retention", retention, answer, `
COHORT      USERS  WEEK 0  WEEK 1  WEEK 2
2026-01-05     40  100 %    50 %    25 %*
2026-01-12    300  100 %    <1 %*
2026-01-19     10   80 %*
* not over when the events end, 2026-01-25 23:10 UTC
`)
	answer.Stats.Through = millis(t, "2026-03-25T23:10:00Z")
	f("retention that is over", retention, answer, `
COHORT      USERS  WEEK 0  WEEK 1  WEEK 2
2026-01-05     40   100 %    50 %    25 %
2026-01-12    300   100 %    <1 %     0 %
2026-01-19     10    80 %     0 %     0 %
`)

	segment := func(s *query.Segment, a *query.SegmentAnswer, name, want string) {
		t.Helper()
		f(name, &query.Query{Segment: s}, &query.Answer{Segment: a}, want)
	}
	segment(&query.Segment{Measure: query.Measure{Kind: query.Sum, Property: "price"}},
		&query.SegmentAnswer{Rows: []query.SegmentRow{{Value: query.Measured{Type: event.Float, Float: 12345.6}}}}, "one value", `
SUM OF PRICE
   12,345.60
`)
	segment(&query.Segment{Measure: query.Measure{Kind: query.Percentile, Percentile: 50, Property: "price"}},
		&query.SegmentAnswer{By: []string{"country", "plan"}, Rows: []query.SegmentRow{
			{Group: []event.Value{event.StringOf("KR"), event.IntOf(2)}, Value: whole(40)},
			{Group: []event.Value{event.StringOf("a\x1b[31mb"), event.BoolOf(true)}, Value: whole(10)},
			{Group: []event.Value{{}, {}}},
		}}, "by two", `
COUNTRY     PLAN       P50 OF PRICE
KR          2                    40  ████████████████████████
a\x1b[31mb  true                 10  ██████
(missing)   (missing)             -
`)
	pivot := &query.SegmentAnswer{Bucketed: true, By: []string{"country"}, Rows: []query.SegmentRow{
		{Bucket: "2026-01-05", Group: []event.Value{event.StringOf("KR")}, Value: whole(4)},
		{Bucket: "2026-01-05", Group: []event.Value{event.StringOf("FR")}, Value: whole(3)},
		{Bucket: "2026-01-12", Group: []event.Value{event.StringOf("FR")}, Value: query.Measured{Type: event.Int, Int: 1200, Low: 1100, High: 1300, Sampled: true}},
	}}
	segment(&query.Segment{Bucket: query.Week}, pivot, "pivot", `
TIME                FR  KR
2026-01-05           3   4
2026-01-12  1,200 ±100   -
`)
	pivot.Rows = append(pivot.Rows, query.SegmentRow{Bucket: "2026-01-12", Other: true, Value: whole(5000)})
	segment(&query.Segment{Bucket: query.Week}, pivot, "pivot with others", `
TIME                FR  KR  (other)
2026-01-05           3   4        -
2026-01-12  1,200 ±100   -    5,000
`)
	segment(&query.Segment{}, &query.SegmentAnswer{By: []string{"country", "plan"}, Rows: []query.SegmentRow{
		{Group: []event.Value{event.StringOf("KR"), event.IntOf(2)}, Value: whole(40)}, {Other: true, Value: whole(80)},
	}}, "others", `
COUNTRY  PLAN  COUNT
KR       2        40  ████████████
(other)           80  ████████████████████████
`)
	segment(&query.Segment{Bucket: query.Week}, &query.SegmentAnswer{Bucketed: true, Rows: []query.SegmentRow{
		{Bucket: "2026-01-05", Value: whole(7)}, {Bucket: "2026-01-12", Value: whole(14)},
	}}, "by week", `
TIME        COUNT
2026-01-05      7  ████████████
2026-01-12     14  ████████████████████████
`)
	f("cohort", &query.Query{Cohort: &query.Cohort{}}, &query.Answer{Cohort: &query.CohortAnswer{Name: "buyers", Users: counted(1234)}}, `
COHORT  USERS
buyers  1,234
`)
	who := func(doc, want string) {
		t.Helper()
		q, err := query.Parse("", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if got := selectedWho(q); got != want {
			t.Errorf("%s: got %s, want %s", doc, got, want)
		}
	}
	funnel, err := query.Parse("", []byte("{funnel: {steps: [view, [cart, wish]], by: [country, n]}, users: {step: 1, dropped: true, group: [KR, \"\"]}, name: x}"))
	if err != nil {
		t.Fatal(err)
	}
	f("users", funnel, &query.Answer{Cohort: &query.CohortAnswer{Name: "x", Users: counted(1234)}}, `
WHO                                                                 USERS
reached step 1 view, not step 2 cart|wish; country KR; n (missing)  1,234
`)
	who("{funnel: {steps: [a, b], bucket: day}, users: {step: 2, dropped: true, bucket: 2026-01-05}}", "reached step 2 b; 2026-01-05")
	who("{funnel: {steps: [a, b], by: [c, d], other: true}, users: {step: 2, other: true}}", "reached step 2 b; other c, d")
	who("{retention: {start: a, return: b, every: week, periods: 4}, users: {cohort: 2026-01-05}}", "cohort 2026-01-05")
	who("{retention: {start: a, return: b, every: week, periods: 4}, users: {cohort: 2026-01-05, period: 0}}", "cohort 2026-01-05, back in week 0")
	who("{segment: {bucket: day, by: c}, users: {bucket: 2026-01-05, group: 5}}", "any event; c 5; 2026-01-05")
	who("{segment: {event: [a, b]}, users: {}}", "a|b")
	who("{paths: {anchor: a}, users: {path: [a, b]}}", "a → b")
	f("paths", nil, &query.Answer{Paths: &query.PathsAnswer{Paths: []query.Path{
		{Path: []string{"signup", "view", "cart"}, Users: counted(41)}, {Path: []string{"signup"}, Users: counted(3)},
	}}}, `
USERS  PATH
   41  signup → view → cart
    3  signup
`)
	f("nothing", nil, &query.Answer{Paths: &query.PathsAnswer{}}, `
USERS  PATH
`)
}

// TestPeriods has periods of the calendar across a change of the clocks.
func TestPeriods(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	f := func(r *query.Retention, start string, k int, through string, want int) {
		t.Helper()
		if got := periodState(r, start, k, millis(t, through)); got != want {
			t.Errorf("%s, period %d, events end at %s: got state %d, want %d", start, k, through, got, want)
		}
	}
	days := &query.Retention{Every: query.Every{Unit: query.Day}, Cohort: query.Day, Zone: zone}
	f(days, "2026-03-28", 0, "2026-03-28T12:00:00Z", periodRunning)
	f(days, "2026-03-28", 0, "2026-03-28T23:00:00Z", periodOver) // midnight in winter
	f(days, "2026-03-28", 1, "2026-03-29T21:00:00Z", periodRunning)
	f(days, "2026-03-28", 1, "2026-03-29T22:00:00Z", periodOver) // midnight in summer
	f(days, "2026-03-28", 2, "2026-03-29T21:59:59Z", periodAhead)
	months := &query.Retention{Every: query.Every{Unit: query.Month}, Cohort: query.Week, Zone: time.UTC}
	f(months, "2026-01-26", 1, "2026-01-31T00:00:00Z", periodAhead)
	f(months, "2026-01-26", 1, "2026-02-28T13:00:00Z", periodRunning)
	f(months, "2026-01-26", 1, "2026-03-31T03:00:00Z", periodRunning) // some may have started on 1 February
	f(months, "2026-01-26", 1, "2026-04-01T00:00:00Z", periodOver)
	sundays := &query.Retention{Every: query.Every{Unit: query.WeekSunday}, Cohort: query.WeekSunday, Zone: zone}
	f(sundays, "2026-03-22", 0, "2026-03-28T20:00:00Z", periodRunning)
	f(sundays, "2026-03-22", 0, "2026-03-28T23:00:00Z", periodOver) // midnight before Sunday
	f(sundays, "2026-03-22", 1, "2026-04-04T20:00:00Z", periodRunning)
	f(sundays, "2026-03-22", 1, "2026-04-04T22:00:00Z", periodOver)
	minutes := &query.Retention{Every: query.Every{Unit: query.Minute}, Cohort: query.Day, Zone: time.UTC}
	f(minutes, "2026-01-05", 1, "2026-01-05T00:00:30Z", periodAhead)
	f(minutes, "2026-01-05", 1, "2026-01-06T00:00:29Z", periodRunning)
	f(minutes, "2026-01-05", 1, "2026-01-06T00:01:00Z", periodOver)
	bounded := &query.Retention{Every: query.Every{Elapsed: 24 * time.Hour}, Cohort: query.Week, Zone: time.UTC}
	bounded.HasTo, bounded.To = true, millis(t, "2026-01-06T00:00:00Z")
	f(bounded, "2026-01-05", 0, "2026-01-07T00:00:00Z", periodOver)
	f(bounded, "2026-01-05", 0, "2026-01-06T12:00:00Z", periodRunning)
	f(bounded, "no date", 0, "2026-01-06T12:00:00Z", periodOver)
}
