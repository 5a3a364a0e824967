package query

import (
	"strings"
	"testing"
)

// TestOverlap remarks on steps that one event can be, unless their filters exclude each
// other.
func TestOverlap(t *testing.T) {
	f := func(body, want string) {
		t.Helper()
		q, err := Parse("", []byte("funnel: {"+body+"}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Funnel.Overlap(); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	steps := func(a, b string) string {
		return "steps: [x, {event: view, where: " + a + "}, {event: [look, view], where: " + b + "}]"
	}
	remark := `steps 2 and 3 overlap: one "view" event can be both; with mode: [strict_once] each needs its own`
	overlap := func(a, b string) { t.Helper(); f(steps(a, b), remark); f(steps(b, a), remark) }
	apart := func(a, b string) { t.Helper(); f(steps(a, b), ""); f(steps(b, a), "") }

	f("steps: [a, b, c]", "")
	f("steps: [a, b, a]", `steps 1 and 3 overlap: one "a" event can be both; with mode: [strict_once] each needs its own`)
	f("steps: [a, b, a], mode: strict_once", "")
	f("steps: [a, b, a], mode: strict_increase", "")
	f("steps: [a, b, a], order: any", "")
	f("steps: [a, b, a], mode: strict_deduplication", `steps 1 and 3 overlap: one "a" event can be both; with mode: [strict_once] each needs its own`)
	overlap("{}", "{p: 1}")
	overlap("{p: 1}", "{q: 2}")
	overlap("{p: 1}", `{p: "1"}`)
	overlap("{p: 1}", `{p: "1.0"}`)
	overlap("{p: 1}", "{p: 1.0}")
	overlap("{p: {in: [1, 2]}}", "{p: {in: [2, 3]}}")
	overlap("{p: {in: [1, 2]}}", "{p: {gt: 1}}")
	overlap("{p: {lte: 5}}", "{p: {gte: 5}}")
	overlap("{p: {ne: a}}", "{p: {ne: b}}")
	overlap("{p: {ne: a}}", "{p: missing}")
	overlap("{p: {not_contains: a}}", "{p: missing}")
	overlap("{p: {contains: a}}", "{p: {not_contains: b}}")
	overlap("{any: [{p: 1}, {q: 1}]}", "{p: 2}")
	overlap("{p: {in: []}}", "{q: 1}")
	overlap("{cohort: a}", "{cohort: {ne: b}}")
	overlap("{cohort: a}", "[{property: a, eq: 1}]")
	overlap("[{property: a, missing: true}]", "{cohort: a}")
	apart("{p: 1}", "{p: 2}")
	apart("{p: a}", "{p: b}")
	apart("{p: true}", "{p: false}")
	apart("{p: a}", "{p: missing}")
	apart(`{p: ""}`, "{p: exists}")
	apart(`{p: ""}`, `{p: {ne: ""}}`)
	apart("{p: missing}", "{p: {lt: 5}}")
	apart("{p: missing}", "{p: {prefix: a}}")
	apart("{p: {in: [a, b]}}", "{p: {in: [c, d]}}")
	apart("{p: {in: [a, b]}}", "{p: {not_in: [c, b, a]}}")
	apart("{p: {lt: 5}}", "{p: {gte: 5}}")
	apart("{p: {between: [1, 4]}}", "{p: {between: [5, 9]}}")
	apart("{p: {lt: 5}}", "{p: 10}")
	apart("{p: {contains: a}}", "{p: {not_contains: a}}")
	apart("{p: {matches: a}}", "{p: {not_matches: a}}")
	apart("{cohort: a}", "{cohort: {ne: a}}")
	apart("{q: 1, any: [{p: 1}, {p: 3}]}", "{p: 2, r: 1}")
	apart("{p: a, q: {contains: x}}", "{any: [{p: b}, {all: [{r: 1}, {p: c}]}]}")

	long := "{any: [" + strings.Repeat("{p: {contains: a}},", 3000) + "]}"
	overlap(long, long) // soon
}
