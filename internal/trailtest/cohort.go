package trailtest

import (
	"cmp"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/query"
)

func (t *table) cohort(c *query.Cohort) *query.CohortAnswer {
	did, didNot := t.didList(c.Did), t.didList(c.DidNot)
	answer := &query.CohortAnswer{Found: []query.User{}}
	for _, rows := range t.users {
		rows = bounded(rows, c.Bounds)
		in := true
		for _, d := range did {
			in = in && d(rows)
		}
		for _, d := range didNot {
			in = in && !d(rows)
		}
		if in && len(rows) > 0 {
			answer.Found = append(answer.Found, query.User{Hash: rows[0].hash})
		}
	}
	slices.SortFunc(answer.Found, func(a, b query.User) int { return cmp.Compare(a.Hash, b.Hash) })
	answer.Users = number(len(answer.Found))
	return answer
}

func (t *table) cohortUsers(*query.Cohort, *query.Selection) []uint64 {
	t.fail("a cohort is a list of users")
	return nil
}

// didList returns for each entry whether a user has as many events as it asks for.
func (t *table) didList(list []query.Did) []func(rows []row) bool {
	var all []func([]row) bool
	for _, d := range list {
		is := t.match(d.Match)
		all = append(all, func(rows []row) bool {
			n := 0
			for _, r := range rows {
				n += boolInt(is(r))
			}
			return n >= max(d.AtLeast, 1) && (d.AtMost == 0 || n <= d.AtMost)
		})
	}
	return all
}

func (d *caseGenerator) cohort() *query.Cohort {
	c := &query.Cohort{Bounds: d.bounds()}
	did := func() query.Did {
		x := query.Did{Match: d.match(d.chance(0.8)), AtLeast: 1 + d.low(5)}
		if d.chance(0.3) {
			x.AtMost = x.AtLeast + d.IntN(4)
		}
		return x
	}
	for range 1 + d.low(3) {
		c.Did = append(c.Did, did())
	}
	for range d.low(3) {
		c.DidNot = append(c.DidNot, did())
	}
	return c
}
