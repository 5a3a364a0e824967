package trailtest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// TestDraw checks that cases are the same each time, make sense, can be answered,
// and that the order of arrival changes no answer.
func TestDraw(t *testing.T) {
	kinds := map[string]int{}
	empty := 0
	seeds := uint64(150)
	if invariant.Race {
		seeds = 40
	}
	for seed := range seeds {
		c := Draw(seed, DrawOptions{})
		// Zones have caches inside, so queries are compared by what they show.
		if again := Draw(seed, DrawOptions{}); fmt.Sprintf("%+v", c.Events) != fmt.Sprintf("%+v", again.Events) || !reflect.DeepEqual(c.Schema, again.Schema) {
			t.Fatalf("seed %d: got two cases, want one", seed)
		}
		reversed := c.Events[:0:0]
		for i := range c.Events {
			reversed = append(reversed, c.Events[len(c.Events)-1-i])
		}
		for i, q := range c.Queries {
			if err := q.Check(); err != nil {
				t.Errorf("seed %d, query %d: %v", seed, i, err)
			}
			a, err := Answer(c.Events, c.Schema, q, c.Cohorts)
			if err != nil {
				t.Errorf("seed %d, query %d: %v", seed, i, err)
				continue
			}
			b, err := Answer(reversed, c.Schema, q, c.Cohorts)
			if err != nil {
				t.Errorf("seed %d, query %d: %v", seed, i, err)
				continue
			}
			if err := Equal(a, b, 1e-9); err != nil {
				t.Errorf("seed %d, query %d: reversed: %v", seed, i, err)
			}
			sameText(t, a)
			for kind, is := range map[string]bool{
				"funnel": a.Funnel != nil, "retention": a.Retention != nil, "segment": a.Segment != nil, "cohort": a.Cohort != nil, "paths": a.Paths != nil,
			} {
				kinds[kind] += boolInt(is)
			}
			if err := Equal(a, &query.Answer{}, 0); err == nil {
				t.Errorf("seed %d, query %d: got equal to an empty answer", seed, i)
			}
			if a.Funnel != nil && a.Funnel.Steps[0].Users.N == 0 {
				empty++
			}
		}
	}
	for _, k := range []string{"funnel", "retention", "segment", "cohort", "paths"} {
		if kinds[k] < int(seeds/4) {
			t.Errorf("got %d queries of kind %s, want at least %d", kinds[k], k, seeds/4)
		}
	}
	if empty > kinds["funnel"]*2/5 {
		t.Errorf("got %d empty funnels of %d", empty, kinds["funnel"])
	}
}

// sameText checks that an answer is the same text again after it was read from JSON.
func sameText(t *testing.T, a *query.Answer) {
	t.Helper()
	if a.Funnel != nil && len(a.Funnel.By) > 0 && len(a.Funnel.Groups) == 0 {
		return // without a group, JSON does not have their properties
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Error(err)
		return
	}
	var read query.Answer
	if err := json.Unmarshal(text, &read); err != nil {
		t.Errorf("%v of %s", err, text)
		return
	}
	if again, err := json.Marshal(&read); err != nil || string(again) != string(text) {
		t.Errorf("got  %s, %v\nwant %s", again, err, text)
	}
}
