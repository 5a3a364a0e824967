package query

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
)

func named(names ...string) Match { return Match{Events: names} }

func where(op Op, literals ...Literal) *Filter {
	return &Filter{Test: &Test{Property: "p", Op: op, Literals: literals}}
}

// TestCheckDefaults fills in what is left out, once.
func TestCheckDefaults(t *testing.T) {
	f := func(q *Query, want string) {
		t.Helper()
		for range 2 {
			if err := q.Check(); err != nil {
				t.Fatal(err)
			}
		}
		written, err := Parse("", []byte(want))
		if err != nil {
			t.Fatal(err)
		}
		if !same(q, written) {
			t.Errorf("got %+v, want %+v of\n%s", q, written, want)
		}
	}
	lit := Literal{Value: event.IntOf(5)}
	f(&Query{Funnel: &Funnel{Steps: []Match{named("a"), {Events: []string{"b"}, Where: where(Eq, lit)}}, Exclude: []Exclude{{Match: named("x")}}}},
		"funnel:\n  steps:\n    - a\n    - {event: b, where: {p: 5}}\n  exclude:\n    - {event: x, between: [1, 2]}\n")
	f(&Query{Retention: &Retention{Start: named("a"), Every: Every{Elapsed: 14 * 24 * time.Hour}, Periods: 2}},
		"retention:\n  start: a\n  return: {}\n  every: 14d\n  periods: 2\n")
	f(&Query{Segment: &Segment{Match: Match{Where: &Filter{All: []Filter{{All: []Filter{}}, {Any: []Filter{*where(In, lit)}}}}}}, Sample: 0.5},
		"segment:\n  where: {p: {in: [5]}}\nsample: 0.5\n")
	f(&Query{Segment: &Segment{Match: Match{Where: &Filter{All: []Filter{}}}}}, "segment: {}\n")
	f(&Query{Segment: &Segment{Match: Match{Where: &Filter{Any: []Filter{}}}}}, "segment:\n  where: {any: []}\n")
	f(&Query{Cohort: &Cohort{Did: []Did{{Match: named("a")}, {AtMost: 3}}}}, "cohort:\n  did:\n    - a\n    - {times: {at_most: 3}}\n")
	f(&Query{Paths: &Paths{Anchor: named("a")}}, "paths:\n  anchor: a\n")
	f(&Query{Funnel: &Funnel{Steps: []Match{named("a")}, By: []string{"x"}}, Users: &Selection{Step: 1, Group: []Literal{lit}}},
		"funnel: {steps: [a], by: x, by_step: first, limit: 1000}\nusers: {step: 1, group: 5}\n")
	q := &Query{Paths: &Paths{Anchor: named("a")}}
	if err := q.Check(); err != nil || q.Sample != 1 || q.Paths.Steps != 4 || q.Paths.Top != 20 {
		t.Errorf("got %+v, %+v, %v, want the defaults", q, q.Paths, err)
	}
	r := &Query{Retention: &Retention{Every: Every{Unit: Hour}, Periods: 1}}
	if err := r.Check(); err != nil || r.Retention.Cohort != Day || r.Retention.Zone != time.UTC {
		t.Errorf("got %+v, %v, want cohorts by day in UTC", r.Retention, err)
	}
}

// TestCheckRefuses has errors for queries built in Go that no document can have, or that
// have another error in a document.
func TestCheckRefuses(t *testing.T) {
	f := func(q *Query, want string) {
		t.Helper()
		err := q.Check()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	steps := []Match{named("a"), named("b")}
	some := time.FixedZone("", 3600)
	f(&Query{}, "a query must be one of funnel, retention, segment, cohort or paths, got 0")
	f(&Query{Segment: &Segment{}, Paths: &Paths{}}, "got 2")
	f(&Query{Segment: &Segment{}, Sample: math.NaN()}, "sample must be a number above 0")
	f(&Query{Segment: &Segment{}, Name: strings.Repeat("x", 201)}, "is empty or longer than 200 bytes")
	f(&Query{Segment: &Segment{}, Name: "\xff"}, "characters that cannot be shown")
	f(&Query{Funnel: &Funnel{}}, "a funnel must have 1 to 32 steps, got 0")
	f(&Query{Funnel: &Funnel{Steps: []Match{{}}}}, "step 1 needs the name of an event")
	f(&Query{Funnel: &Funnel{Steps: []Match{named("")}}}, "step 1: an event has no name")
	f(&Query{Funnel: &Funnel{Steps: steps, Within: -1}}, "within must be longer than 0, got -1ns")
	f(&Query{Funnel: &Funnel{Steps: steps, Within: time.Hour, NoLimit: true}}, "a window of 1h and no window")
	f(&Query{Funnel: &Funnel{Steps: steps, Within: 200 * 365 * 24 * time.Hour}}, "within is more than a hundred years")
	f(&Query{Funnel: &Funnel{Steps: steps, Limit: 5}}, "limit without by")
	f(&Query{Funnel: &Funnel{Steps: steps, By: []string{"a"}, Limit: -5}}, "limit must be from 1 to 1000000, got -5")
	f(&Query{Funnel: &Funnel{Steps: steps, Exclude: make([]Exclude, 65)}}, "up to 64 exclusions, got 65")
	f(&Query{Funnel: &Funnel{Steps: steps, Bounds: Bounds{From: math.MaxInt64, HasFrom: true}}}, "from is not between the years 1 and 9999")
	f(&Query{Funnel: &Funnel{Steps: steps, By: []string{"a", ""}}}, "by: a property has no name")
	f(&Query{Funnel: &Funnel{Steps: steps, ByStep: LastStep}}, "by_step without by")
	f(&Query{Funnel: &Funnel{Steps: steps, By: []string{"a"}, ByStep: -2}}, "by_step: no such step: -2")
	f(&Query{Funnel: &Funnel{Steps: steps, Times: 9}}, "times: no such step: TimesOf(9)")
	f(&Query{Funnel: &Funnel{Steps: steps, Bucket: 9}}, "bucket: no such unit: Unit(9)")
	f(&Query{Funnel: &Funnel{Steps: steps, Zone: some}}, "timezone: it must be the name of a time zone")
	f(&Query{Funnel: &Funnel{Steps: steps}, Users: &Selection{Step: -1}}, "users: no such step: -1")
	f(&Query{Funnel: &Funnel{Steps: steps}, Users: &Selection{Step: 1, HasPeriod: true, Path: []string{}}}, "users of a funnel are not selected by period\n"+"users of a funnel are not selected by path")
	f(&Query{Cohort: &Cohort{Did: []Did{{}}}, Users: &Selection{Step: 1}}, "users of a cohort are not selected by step\n"+"a cohort answers its users already")
	f(&Query{Cohort: &Cohort{Did: []Did{{}}}, Users: &Selection{}}, "a cohort answers its users already")
	f(&Query{Retention: &Retention{Every: Every{Unit: Day}, Periods: 3}, Users: &Selection{Cohort: "2026-01-05", Period: 2}}, "users: period 2, but HasPeriod is not set")
	f(&Query{Paths: &Paths{}, Users: &Selection{Path: []string{"a", ""}}}, "users: an event has no name")
	f(&Query{Segment: &Segment{By: []string{"a"}, Limit: -1}}, "limit must be from 1 to 1000000, got -1")
	f(&Query{Retention: &Retention{Every: Every{Unit: Day, Elapsed: time.Hour}, Periods: 1}}, "every is a duration and a unit")
	f(&Query{Retention: &Retention{Every: Every{Unit: 9}, Periods: 1}}, "every: no such unit: Unit(9)")
	f(&Query{Retention: &Retention{Every: Every{Unit: Day}, Periods: 1, Cohort: Hour}}, "cohort: no such unit: hour")
	f(&Query{Retention: &Retention{Every: Every{Unit: Day}, Periods: 1, Zone: some}}, "timezone: it must be the name of a time zone")
	f(&Query{Segment: &Segment{Zone: time.Local}}, "timezone: ")
	f(&Query{Segment: &Segment{Bucket: 77}}, "bucket: no such unit: Unit(77)")
	f(&Query{Segment: &Segment{By: []string{""}}}, "by: a property has no name")
	f(&Query{Segment: &Segment{Measure: Measure{Kind: 99}}}, "no such measure: MeasureKind(99)")
	f(&Query{Segment: &Segment{Measure: Measure{Kind: Sum}}}, "the measure needs a property")
	f(&Query{Segment: &Segment{Measure: Measure{Property: "p"}}}, "count takes no property")
	f(&Query{Segment: &Segment{Measure: Measure{Kind: Percentile, Property: "p"}}}, "percentiles are 1 to 99, got 0")
	f(&Query{Segment: &Segment{Measure: Measure{Kind: Sum, Property: "p", Percentile: 3}}}, "sum(p) takes no percentile")
	f(&Query{Cohort: &Cohort{Did: make([]Did, 65)}}, "up to 64 of did and did_not, got 65")
	f(&Query{Cohort: &Cohort{Did: []Did{{AtLeast: -1}}}}, "did: times must be 1 or more")
	f(&Query{Paths: &Paths{Steps: 9, Top: -1, Gap: 1}}, "steps must be from 1 to 7, got 9\n"+"gap must be whole milliseconds, got 1ns\n"+"top must be from 1 to 10000, got -1")
	f(&Query{Paths: &Paths{Where: &Filter{}}}, "paths: a filter must be one of all, any and a test, got 0")
	f(&Query{Paths: &Paths{Where: &Filter{Test: &Test{Op: 99, Property: "p"}}}}, "p: no such operator: Op(99)")
	f(&Query{Paths: &Paths{Where: &Filter{Test: &Test{}}}}, "a test needs the name of a property or of a cohort")
	f(&Query{Paths: &Paths{Where: where(Between)}}, "p: between needs 2 values, got 0")
	f(&Query{Paths: &Paths{Where: where(Matches, Literal{Text: strings.Repeat("x", 1001)})}}, "p: the expression has 1001 bytes, more than 1000")
	f(&Query{Paths: &Paths{Where: where(Matches, Literal{Value: event.StringOf("(")})}}, "p: missing closing ): `(`")
	deep := Filter{Test: &Test{Property: "p"}}
	for range 40 {
		deep = Filter{Any: []Filter{deep}}
	}
	f(&Query{Paths: &Paths{Where: &deep}}, "paths: the filter nests deeper than 32 levels")
}

// TestCheckShared checks a query again that others read, which race detection
// watches.
func TestCheckShared(t *testing.T) {
	q, err := Parse("", []byte("retention: {start: a, return: {where: {any: [{a: 1}, {b: 2}]}}, every: day, periods: 3, timezone: Asia/Seoul}"))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := q.Check(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
