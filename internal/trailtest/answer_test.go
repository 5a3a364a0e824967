package trailtest

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

func TestFunnelByHand(t *testing.T) {
	runPencils(t, []pencil{
		{"in order", "u1 A@1 B@2 C@3\nu2 A@1 C@2 B@3\nu3 B@1 A@2", "funnel: {steps: [A, B, C]}", "3 2 1"},
		{"at the end of the window", "u1 A@0 B@10\nu2 A@0 B@10.001", "funnel: {steps: [A, B], within: 10s}", "2 1"},
		{"the window is from the first step", "u1 A@0 B@6 C@11", "funnel: {steps: [A, B, C], within: 10s}", "1 1 0"},
		{"a later start saves it", "u1 A@0 A@5 B@6 C@11", "funnel: {steps: [A, B, C], within: 10s}", "1 1 1"},
		{"ties go by step", "u1 B@1 A@1", "funnel: {steps: [A, B]}", "1 1"},
		{"one event can be two steps", "u1 A@1", "funnel: {steps: [A, A]}", "1 1"},
		{"strict_once: it cannot", "u1 A@1\nu2 A@1 A@1", "funnel: {steps: [A, A], mode: [strict_once]}", "2 1"},
		{"strict_increase: no ties", "u1 A@1 B@1\nu2 A@1 B@2", "funnel: {steps: [A, B], mode: [strict_increase]}", "2 1"},
		{"strict_increase: the last start counts", "u1 A@1 A@5 B@5", "funnel: {steps: [A, B], mode: [strict_increase]}", "1 0"},
		{"strict_increase and strict_once: any start counts", "u1 A@1 A@5 B@5", "funnel: {steps: [A, B], mode: [strict_increase, strict_once]}", "1 1"},
		{"strict_deduplication: a second B ends it", "u1 A@1 B@2 B@3 C@4", "funnel: {steps: [A, B, C], mode: [strict_deduplication]}", "1 1 0"},
		{"strict_deduplication: a second A does not", "u1 A@1 A@2 B@3 C@4", "funnel: {steps: [A, B, C], mode: [strict_deduplication]}", "1 1 1"},
		// AB is the first step and, as no chain has an event twice, not the second. ClickHouse
		// says 3 if AB comes before B, for then B is the first second step; else AB is a
		// second one, which ends it: 2. The one with the smaller mask, B, comes first here.
		{"strict_deduplication and strict_once", "u1 AB@1 B@1 C@2\nu2 B@1 AB@1 C@2", "funnel: {steps: [[A, AB], [B, AB], C], mode: [strict_deduplication, strict_once]}", "2 2 0"},
		{"strict_deduplication and strict_once: the order of arrival is of no account", "u1 BC@1 B@1 A@0 C@1\nu2 B@1 C@1 BC@1 A@0", "funnel: {steps: [A, [B, BC], [C, BC]], mode: [strict_deduplication, strict_once]}", "2 2 0"},
		{"strict_order: another event ends it", "u1 A@1 X@2 B@3\nu2 X@1 A@2 B@3", "funnel: {steps: [A, B], mode: [strict_order]}", "2 1"},
		{"strict_order: another event at the time of the start comes before", "u1 A@1 X@1 B@3", "funnel: {steps: [A, B], mode: [strict_order]}", "1 1"},
		{"strict_order: a step too early ends it", "u1 A@1 C@2 B@3 C@4", "funnel: {steps: [A, B, C], mode: [strict_order]}", "1 0 0"},
		{"allow_reentry: it does not", "u1 A@1 C@2 B@3 C@4", "funnel: {steps: [A, B, C], mode: [strict_order, allow_reentry]}", "1 1 1"},
		{"bounds", "u1 A@1 B@2\nu2 A@0 B@2\nu3 A@1 B@3", "funnel: {steps: [A, B], from: 2026-01-05T00:00:01Z, to: 2026-01-05T00:00:03Z}", "2 1"},
		{"a step of two events", "u1 A@1 C@2\nu2 A@1 B@2", "funnel: {steps: [A, [B, C]]}", "2 2"},
		{"where of a step", "u1 A@1 B@2{c=x}\nu2 A@1 B@2{c=y}", "funnel: {steps: [A, {event: B, where: {c: x}}]}", "2 1"},
		{"where of all", "u1 A@1{c=x} B@2{c=x}\nu2 A@1 B@2{c=x}", "funnel: {steps: [A, B], where: {c: x}}", "1 1"},
		{"exclude ends a chain between", "u1 A@1 X@2 B@3\nu2 A@1 B@2 X@3 C@4", "funnel: {steps: [A, B, C], exclude: [{event: X, between: [1, 2]}]}", "2 1 1"},
		{"exclude: another start", "u1 A@1 X@2 A@3 B@4", "funnel: {steps: [A, B], exclude: [{event: X, between: [1, 2]}]}", "1 1"},
		{"exclude: the chain goes another way", "u1 A@1 B@2 X@3 B@4 C@5", "funnel: {steps: [A, B, C], exclude: [{event: X, between: [2, 3]}]}", "1 1 1"},
		{"exclude comes first at a time", "u1 A@1 B@2 X@2\nu2 A@1 X@1 B@2", "funnel: {steps: [A, B], exclude: [{event: X, between: [1, 2]}]}", "2 1"},
		{"same", "u1 A@1{i=1} B@2{i=2}\nu2 A@1{i=1} A@2{i=2} B@3{i=1}\nu3 A@1 B@2", "funnel: {steps: [A, B], same: i}", "2 1"},
		{"same: strict_order looks at one value", "u1 A@1{i=1} X@2{i=2} B@3{i=1}\nu2 A@1{i=1} X@2{i=1} B@3{i=1}", "funnel: {steps: [A, B], same: i, mode: [strict_order]}", "2 1"},
		{"same: so does exclude", "u1 A@1{i=1} X@2{i=2} B@3{i=1}\nu2 A@1{i=1} X@2{i=1} B@3{i=1}", "funnel: {steps: [A, B], same: i, exclude: [{event: X, between: [1, 2]}]}", "2 1"},
		{"any order", "u1 C@1 B@2 A@3\nu2 B@1 X@2\nu3 A@1 C@20", "funnel: {steps: [A, B, C], order: any, within: 10s}", "3 1 1"},
		{"any order: at the end of the window", "u1 B@0 A@10\nu2 B@0 A@10.001", "funnel: {steps: [A, B], order: any, within: 10s}", "2 1"},
		{"by: the earliest of the longest", "u1 A@1{c=KR} A@2{c=FR} B@3", "funnel: {steps: [A, B], by: c}", `1 1; "KR" 1 1`},
		{"by: one that does not reach does not win", "u1 A@0{c=KR} A@5{c=FR} B@11", "funnel: {steps: [A, B], by: c, within: 10s}", `1 1; "FR" 1 1`},
		{"by: nor is one that was ended", "u1 A@1{c=KR} X@2 A@3{c=FR} B@4", "funnel: {steps: [A, B], by: c, exclude: [{event: X, between: [1, 2]}]}", `1 1; "FR" 1 1`},
		{"by: the smallest of a tie", "u1 A@1{c=KR} A@1{c=FR} B@3\nu2 A@1{c=KR} A@1 B@2", "funnel: {steps: [A, B], by: c}", `2 2; "" 1 1; "FR" 1 1`},
		{"by: order of groups, and limit", "u1 A@1{c=b}\nu2 A@1{c=b}\nu3 A@1{c=c}\nu4 A@1{c=a}", "funnel: {steps: [A], by: c, limit: 2}", `4; "b" 2; "a" 1`},
		{"by: with same, the best value", "u1 A@1{i=1,c=x} A@2{i=2,c=y} B@3{i=2}", "funnel: {steps: [A, B], same: i, by: c}", `1 1; "y" 1 1`},
		{"by: with order any, the earliest event", "u1 B@1{c=x} A@2{c=y}", "funnel: {steps: [A, B], order: any, by: c}", `1 1; "x" 1 1`},
		{"no user did it", "u1 A@1", "funnel: {steps: [Z, A]}", "0 0"},
		{"one id is one event", "u1 A@1#7 A@1#7\nu2 A@1#7 A@1#8", "funnel: {steps: [A, A], mode: [strict_once]}", "2 1"},
	})
}

func TestRetentionByHand(t *testing.T) {
	runPencils(t, []pencil{
		{"elapsed weeks", "u1 S@1d O@1d O@7.9d O@8d\nu2 S@2d O@30d", "retention: {start: S, return: O, every: 168h, periods: 3}", "2026-01-05 2: 1 1 0"},
		{"calendar weeks", "u1 S@6d O@7d", "retention: {start: S, return: O, every: week, periods: 2}", "2026-01-05 1: 0 1"},
		{"unbounded", "u1 S@1d O@15d\nu2 S@1d O@8d\nu3 S@1d O@30d", "retention: {start: S, return: O, every: 168h, periods: 3, unbounded: true}", "2026-01-05 3: 2 2 1"},
		{"cohorts by day", "u1 S@1h\nu2 S@25h O@26h\nu3 S@26h", "retention: {start: S, return: O, every: 24h, periods: 2}", "2026-01-05 1: 0 0; 2026-01-06 2: 1 0"},
		{"cohorts by month, empty ones left out", "u1 S@1d\nu2 S@60d", "retention: {start: S, return: O, every: month, periods: 1}", "2026-01-01 1: 0; 2026-03-01 1: 0"},
		{"in a zone: Seoul is 9 hours ahead", "u1 S@14h O@16h", "retention: {start: S, return: O, every: day, periods: 2, timezone: Asia/Seoul}", "2026-01-05 1: 0 1"},
		{"in UTC that is one day", "u1 S@14h O@16h", "retention: {start: S, return: O, every: day, periods: 2}", "2026-01-05 1: 1 0"},
		// The clocks of Berlin go forward on Sunday 2026-03-29, day 83: that day has 23 hours, and begins at 23:00 UTC.
		{"a clock change", "u1 S@83d O@83.92d", "retention: {start: S, return: O, every: day, periods: 2, timezone: Europe/Berlin}", "2026-03-29 1: 0 1"},
		{"the first start in the bounds, returns after them", "u1 S@1d S@3d O@4d", "retention: {start: S, return: O, every: 24h, periods: 2, from: 2026-01-07, to: 2026-01-09}", "2026-01-08 1: 0 1"},
		{"the start is a return too", "u1 O@1", "retention: {start: O, return: O, every: 24h, periods: 1}", "2026-01-05 1: 1"},
		{"a return before is none, one at the time is", "u1 O@1 S@2\nu2 O@2 S@2", "retention: {start: S, return: O, every: 24h, periods: 1}", "2026-01-05 2: 1"},
	})
}

func TestSegmentByHand(t *testing.T) {
	const many = "u1 P@1{c=KR,i=1,f=0.5} P@2{c=KR,i=5}\nu2 P@1d{c=FR,i=3} Q@1d{i=100}\nu3 P@3d"
	runPencils(t, []pencil{
		{"count", many, "segment: {event: P}", "4"},
		{"of all events", many, "segment: {}", "5"},
		{"of two", many, "segment: {event: [P, Q]}", "5"},
		{"users", many, "segment: {event: P, measure: users}", "3"},
		{"by day", many, "segment: {event: P, bucket: day}", "2026-01-05 2; 2026-01-06 1; 2026-01-08 1"},
		{"filled", many, "segment: {event: P, bucket: day, fill: true}", "2026-01-05 2; 2026-01-06 1; 2026-01-07 0; 2026-01-08 1"},
		{"filled with null", many, "segment: {event: P, bucket: day, fill: true, measure: max(i)}", "2026-01-05 5; 2026-01-06 3; 2026-01-07 null; 2026-01-08 null"},
		{"by property: value descending, then group", many, "segment: {event: P, by: [c]}", `"KR" 2; "" 1; "FR" 1`},
		{"by hour in a zone", "u1 P@1h P@119m P@2h", "segment: {bucket: hour, timezone: Asia/Kolkata}", "2026-01-05T06:00:00+05:30 1; 2026-01-05T07:00:00+05:30 2"},
		{"sum", many, "segment: {event: P, measure: sum(i)}", "9"},
		{"sum of numbers", many, "segment: {event: P, measure: sum(f)}", "0.5"},
		{"avg", many, "segment: {event: P, measure: avg(i)}", "3"},
		{"min", many, "segment: {event: P, measure: min(i)}", "1"},
		{"null last", many, "segment: {event: P, measure: sum(i), by: c}", `"KR" 6; "FR" 3; "" null`},
		{"nothing", many, "segment: {event: Z}", "0"},
		{"nothing to measure", many, "segment: {event: Z, measure: sum(i)}", "null"},
		{"nothing by day", many, "segment: {event: Z, bucket: day}", ""},
		{"nearest rank: the 2nd of 4, the 4th of 4", "u1 P@1{i=4} P@1{i=2} P@1{i=3} P@1{i=1} P@1", "segment: {measure: p50(i)}", "2"},
		{"nearest rank, above", "u1 P@1{i=4} P@1{i=2} P@1{i=3} P@1{i=1}", "segment: {measure: p75(i)}", "3"},
		{"nearest rank, just above", "u1 P@1{i=4} P@1{i=2} P@1{i=3} P@1{i=1}", "segment: {measure: p76(i)}", "4"},
		{"a sum that fits no integer", "u1 P@1{i=9223372036854775807} P@1{i=1}", "segment: {measure: sum(i)}", "9.223e+18"},
		{"a sum that does in the end", "u1 P@1{i=9223372036854775807} P@1{i=1} P@1{i=-2}", "segment: {measure: sum(i)}", "9223372036854775806"},
		{"minutes", "u1 P@59.999 P@60", "segment: {bucket: minute}", "2026-01-05T00:00:00Z 1; 2026-01-05T00:01:00Z 1"},
		{"weeks and months", "u1 P@6.9d P@7d", "segment: {bucket: week}", "2026-01-05 1; 2026-01-12 1"},
		{"months", "u1 P@26d P@27d", "segment: {bucket: month}", "2026-01-01 1; 2026-02-01 1"},
	})
}

func TestFilterByHand(t *testing.T) {
	const events = "u1 P@1{c=KR,i=2,f=2.5,b=true} P@2{c=2,i=0,f=0,b=false} P@3{c=FR,i=-7} P@4"
	f := func(where, want string) {
		t.Helper()
		runPencils(t, []pencil{{where, events, "segment: {where: {" + where + "}}", want}})
	}
	f("c: exists", "3")
	f("c: missing", "1")
	f("b: exists", "2")
	f("c: KR", "1")
	f("c: {ne: KR}", "3")
	f("c: {in: [KR, FR]}", "2")
	f("c: {not_in: [KR, FR]}", "2")
	f(`c: ""`, "1")
	f(`c: {ne: ""}`, "3")
	f(`c: {in: ["", KR]}`, "2")
	f(`c: {not_in: ["", KR]}`, "2")
	f("c: {eq: exists}", "0")
	f("c: 2", "1")
	f("c: {contains: R}", "2")
	f("c: {prefix: K}", "1")
	f("c: {suffix: R}", "2")
	f("c: {contains: r}", "0")
	f("c: {matches: '^[KF]R$'}", "2")
	f("c: {gt: FR}", "1")
	f("c: {gte: FR}", "2")
	f("c: {between: [2, FR]}", "2")
	f("i: 2", "1")
	f(`i: "2"`, "1")
	f("i: 0", "1")
	f("i: {ne: 0}", "3")
	f("i: 2.5", "0")
	f("i: 2.0", "1")
	f("i: {lt: 2.5}", "3")
	f("i: {gt: 1.5}", "1")
	f("i: {gte: 0}", "2")
	f("i: {between: [-7, 0]}", "2")
	f("f: {lte: 2.5}", "2")
	f("f: {gt: 0}", "1")
	f("b: true", "1")
	f("b: {ne: true}", "3")
	f("nowhere: missing", "4")
	f("nowhere: {gt: 1}", "0")
	f("c: KR, i: 0", "0")
	f("any: [{c: KR}, {i: 0}]", "2")
	f("all: [{c: KR}, {i: 2}]", "1")
	f("any: [{c: KR, i: 0}, {f: missing}]", "2")
	f("cohort: first", "4")
}

func TestCohortByHand(t *testing.T) {
	const events = "u1 P@1 P@2 P@3\nu2 P@1 P@2 Q@3\nu3 Q@1\nu4 P@1"
	runPencils(t, []pencil{
		{"did", events, "cohort: {did: P}", "u1; u2; u4"},
		{"at least", events, "cohort: {did: {event: P, times: {at_least: 2}}}", "u1; u2"},
		{"at most", events, "cohort: {did: {event: P, times: {at_most: 2}}}", "u2; u4"},
		{"both", events, "cohort: {did: [P, Q]}", "u2"},
		{"did not", events, "cohort: {did: P, did_not: Q}", "u1; u4"},
		{"did not so often", events, "cohort: {did: P, did_not: {event: P, times: {at_least: 3}}}", "u2; u4"},
		{"in bounds", events, "cohort: {did: P, from: 2026-01-05T00:00:03Z}", "u1"},
		{"no user", events, "cohort: {did: Z}", ""},
	})
}

func TestPathsByHand(t *testing.T) {
	const events = "u1 A@1 B@2 B@3 C@4\nu2 X@1 A@2 B@3 C@100\nu3 A@1\nu4 B@1"
	runPencils(t, []pencil{
		{"next", events, "paths: {anchor: A, steps: 2}", "A>B>C 2; A 1"},
		{"steps", events, "paths: {anchor: A, steps: 1}", "A>B 2; A 1"},
		{"gap", events, "paths: {anchor: A, gap: 10s}", "A 1; A>B 1; A>B>C 1"},
		{"a pause of the gap is none", "u1 A@1 B@11", "paths: {anchor: A, gap: 10s}", "A>B 1"},
		{"previous", events, "paths: {anchor: C, direction: previous}", "A>B>C 1; X>A>B>C 1"},
		{"previous, from the last", "u1 A@1 C@2 B@3 C@4", "paths: {anchor: C, direction: previous, steps: 1}", "B>C 1"},
		{"next, from the first", "u1 A@1 B@2 A@3 C@4", "paths: {anchor: A, steps: 1}", "A>B 1"},
		{"ties go by name", "u1 C@2 A@1 B@2", "paths: {anchor: A}", "A>B>C 1"},
		{"top", events, "paths: {anchor: A, steps: 2, top: 1}", "A>B>C 2"},
		{"where", events, "paths: {anchor: A, steps: 2, where: {c: exists}}", ""},
		{"the anchor repeats", "u1 A@1 A@2 B@3", "paths: {anchor: A, steps: 1}", "A>B 1"},
	})
}

// TestRefused checks what the reference does not answer.
func TestRefused(t *testing.T) {
	events := []event.Event{{User: "u", Time: 1, Name: "A", Properties: []event.Property{{Name: "c", Value: event.StringOf("x")}}}}
	test := func(property string, op query.Op, text string) *query.Query {
		return &query.Query{Segment: &query.Segment{Match: query.Match{Where: &query.Filter{Test: &query.Test{Property: property, Op: op, Literals: []query.Literal{{Value: event.StringOf(text), Text: text}}}}}}}
	}
	f := func(schema event.Schema, q *query.Query, want string) {
		t.Helper()
		if _, err := Answer(events, schema, q, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	f(pencilSchema(), &query.Query{}, "asks nothing")
	f(pencilSchema(), &query.Query{Sample: 0.5, Segment: &query.Segment{}}, "no samples")
	f(nil, &query.Query{Segment: &query.Segment{}}, `property "c"`)
	f(pencilSchema(), test("i", query.Eq, "x"), "not a number")
	f(pencilSchema(), test("b", query.Eq, "yes"), "not a boolean")
	f(pencilSchema(), test("b", query.Gt, "true"), "not for booleans")
	f(pencilSchema(), test("i", query.Contains, "1"), "for strings")
	f(pencilSchema(), test("c", query.Matches, "("), "missing closing")
	f(pencilSchema(), test("c", query.Between, "1"), "2 literals")
	f(pencilSchema(), test("unknown", query.InCohort, ""), "no cohort")
	f(pencilSchema(), &query.Query{Segment: &query.Segment{Measure: query.Measure{Kind: query.Sum, Property: "c"}}}, "cannot be measured")
	f(pencilSchema(), &query.Query{Funnel: &query.Funnel{Steps: []query.Match{{}}, Modes: query.Modes{AllowReentry: true}}}, "strict_order")
	f(pencilSchema(), &query.Query{Funnel: &query.Funnel{Steps: []query.Match{{}}, AnyOrder: true, Modes: query.Modes{StrictOnce: true}}}, "without modes")
}
