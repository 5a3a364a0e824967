package trailtest

import (
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// TestUsersAreAsManyAsTheNumber asks for the users behind the numbers of random answers,
// and counts them.
func TestUsersAreAsManyAsTheNumber(t *testing.T) {
	for seed := range uint64(25) {
		c := Draw(seed, DrawOptions{})
		for i, q := range c.Queries {
			q.Users = nil
			a, err := Answer(c.Events, c.Schema, q, c.Cohorts)
			if err != nil {
				t.Fatal(err)
			}
			for s, want := range numbers(q, a) {
				q.Users = s
				if err := q.Check(); err != nil {
					t.Errorf("seed %d, query %d, %+v: %v", seed, i, *s, err)
					continue
				}
				got, err := Answer(c.Events, c.Schema, q, c.Cohorts)
				if err != nil {
					t.Errorf("seed %d, query %d, %+v: %v", seed, i, *s, err)
				} else if got.Cohort.Users.N != want {
					t.Errorf("seed %d, query %d, %+v: got %d users, want %d", seed, i, *s, got.Cohort.Users.N, want)
				}
			}
		}
	}
}

// numbers returns numbers of users that an answer has, by what selects them.
func numbers(q *query.Query, a *query.Answer) map[*query.Selection]int64 {
	all := map[*query.Selection]int64{}
	steps := func(list []query.FunnelStep, s query.Selection) {
		for k, step := range list {
			after := int64(0)
			if k+1 < len(list) {
				after = list[k+1].Users.N
			}
			reached, dropped := s, s
			reached.Step = k + 1
			dropped.Step, dropped.Dropped = k+1, true
			all[&reached], all[&dropped] = step.Users.N, step.Users.N-after
		}
	}
	group := func(values []event.Value) []query.Literal {
		var list []query.Literal
		for _, v := range values {
			list = append(list, query.Literal{Value: v, Text: v.String()})
		}
		return list
	}
	switch {
	case a.Funnel != nil:
		steps(a.Funnel.Steps, query.Selection{})
		for _, g := range a.Funnel.Groups[:min(5, len(a.Funnel.Groups))] {
			steps(g.Steps, query.Selection{Group: group(g.Values), Other: g.Other})
		}
		for _, b := range a.Funnel.Trend[:min(5, len(a.Funnel.Trend))] {
			steps(b.Steps, query.Selection{Bucket: b.Bucket})
		}
	case a.Retention != nil:
		for _, c := range a.Retention.Cohorts[:min(5, len(a.Retention.Cohorts))] {
			all[&query.Selection{Cohort: c.Start}] = c.Size.N
			for k, n := range c.Periods[:min(5, len(c.Periods))] {
				all[&query.Selection{Cohort: c.Start, Period: k, HasPeriod: true}] = n.N
			}
		}
	case a.Segment != nil && q.Segment.Measure.Kind == query.Users:
		for _, r := range a.Segment.Rows[:min(20, len(a.Segment.Rows))] {
			all[&query.Selection{Bucket: r.Bucket, Group: group(r.Group), Other: r.Other}] = r.Value.Int
		}
	case a.Paths != nil:
		for _, p := range a.Paths.Paths[:min(5, len(a.Paths.Paths))] {
			all[&query.Selection{Path: p.Path}] = p.Users.N
		}
	}
	return all
}
