package trail

import (
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// TestSaveRefused keeps the users of cohorts and of queries with Users alone.
func TestSaveRefused(t *testing.T) {
	f := func(doc string, opt QueryOptions, want string) {
		t.Helper()
		q, err := query.Parse("q", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		opt.Save = true
		_, err = prepare(q, opt)
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", doc, err, want)
		}
	}
	f("{name: x, cohort: {did: a}}", QueryOptions{}, "")
	f("{name: x, funnel: {steps: [a]}, users: {step: 1}}", QueryOptions{}, "")
	f("{name: x, segment: {}, users: {}}", QueryOptions{IDs: true}, "")
	f("{name: x, funnel: {steps: [a]}}", QueryOptions{}, "only a cohort, or the users of another query, can be kept")
	f("{funnel: {steps: [a]}, users: {step: 1}}", QueryOptions{}, "under the name of their query, which has none")
	f("{name: x, segment: {}, users: {}}", QueryOptions{Sample: 0.5}, "users of a sample cannot be kept")
}
