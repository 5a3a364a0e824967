package trailtest

import (
	"cmp"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/query"
)

func (t *table) cohort(name string, c *query.Cohort) (*query.CohortAnswer, error) {
	did, err := t.didList(c.Did)
	if err != nil {
		return nil, err
	}
	didNot, err := t.didList(c.DidNot)
	if err != nil {
		return nil, err
	}
	answer := &query.CohortAnswer{Name: name, Found: []query.User{}}
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
	return answer, nil
}

// didList returns for each entry whether the events of a user are as many as it
// wants.
func (t *table) didList(list []query.Did) ([]func(rows []row) bool, error) {
	var all []func([]row) bool
	for _, d := range list {
		is, err := t.match(d.Match)
		if err != nil {
			return nil, err
		}
		all = append(all, func(rows []row) bool {
			n := 0
			for _, r := range rows {
				n += boolInt(is(r))
			}
			return n >= max(d.AtLeast, 1) && (d.AtMost == 0 || n <= d.AtMost)
		})
	}
	return all, nil
}
