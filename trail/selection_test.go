package trail

import (
	"fmt"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// TestUsersOfNumbersAreCohorts keeps the users behind a number of each kind of
// question. A segment restricted to the cohort counts as many users.
func TestUsersOfNumbersAreCohorts(t *testing.T) {
	const hour = 3600_000
	s := open(t, t.TempDir(), quiet())
	for i := range int64(12) {
		user, country := fmt.Sprint("u", i), prop("country", event.StringOf([]string{"KR", "FR", "DE", ""}[i%4]))
		add(t, s, ev(user, base+i*hour, "view", country))
		if i%2 == 0 {
			add(t, s, ev(user, base+(i+1)*hour, "cart", country))
		}
		if i == 6 {
			if err := s.Flush(t.Context()); err != nil { // half in a file, half in memory
				t.Fatal(err)
			}
		}
		if i%3 == 0 {
			add(t, s, ev(user, base+(i+30)*hour, "purchase", country))
		}
	}
	f := func(question, users string, want int64) {
		t.Helper()
		parse := func(doc string) *query.Query {
			t.Helper()
			q, err := query.Parse("q", []byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		a, err := s.Query(t.Context(), parse(fmt.Sprintf("{name: kept, %s, users: %s}", question, users)), QueryOptions{Save: true, IDs: true})
		if err != nil {
			t.Fatalf("%s, users %s: %v", question, users, err)
		}
		if c := a.Cohort; c.Users.N != want || int64(len(c.Found)) != want {
			t.Errorf("%s, users %s: got %d users and %d ids, want %d", question, users, c.Users.N, len(c.Found), want)
		}
		for doc, want := range map[string]int64{
			"segment: {measure: users, where: {cohort: kept}}":         want,
			"segment: {measure: users, where: {cohort: {ne: kept}}}":   12 - want,
			"segment: {measure: users, where: {cohort: {in: [kept]}}}": want,
			"cohort: {did: {where: {cohort: kept}}}":                   want,
		} {
			a := ask(t, s, parse(doc))
			got := int64(0)
			switch {
			case a.Cohort != nil:
				got = a.Cohort.Users.N
			case len(a.Segment.Rows) > 0:
				got = a.Segment.Rows[0].Value.Int
			}
			if got != want {
				t.Errorf("%s of %s, users %s: got %d users, want %d", doc, question, users, got, want)
			}
		}
	}
	const funnel = "funnel: {steps: [view, cart, purchase], within: 3d"
	f(funnel+"}", "{step: 1}", 12)
	f(funnel+"}", "{step: 1, dropped: true}", 6)
	f(funnel+"}", "{step: 3}", 2)
	f(funnel+", by: country, by_step: 2}", "{step: 2, group: KR}", 3)
	f(funnel+", by: country, by_step: 2}", `{step: 1, group: ""}`, 6)
	f(funnel+", by: country, limit: 1, other: true}", "{step: 2, other: true}", 6)
	f(funnel+", bucket: hour}", "{step: 2, bucket: 2026-01-05T02:00:00Z}", 1)
	f(funnel+", bucket: week_sunday}", "{step: 2, dropped: true, bucket: 2026-01-04}", 4)
	const retention = "retention: {start: view, return: purchase, every: day, periods: 3}"
	f(retention, "{cohort: 2026-01-05}", 12)
	f(retention, "{cohort: 2026-01-05, period: 1}", 4)
	f(retention, "{cohort: 2026-01-05, period: 2}", 0)
	const segment = "segment: {event: [view, cart], by: country"
	f(segment+"}", "{}", 12)
	f(segment+"}", "{group: DE}", 3)
	f(segment+", limit: 1, other: true, bucket: day}", "{other: true, bucket: 2026-01-05}", 9)
	f("paths: {anchor: view, steps: 2}", "{path: [view, cart]}", 4)
	f("paths: {anchor: purchase, direction: previous, steps: 2}", "{path: [view, cart, purchase]}", 2)
}
