package dialect

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// cohort counts, for each user, the events of every condition. The answer is one
// row of one column, users.
func (c *compiler) cohort(q *query.Cohort) *selection {
	c.read = cohortAnswer
	var relevant, having []cond
	count := func(m query.Match) string {
		match := c.match(m)
		relevant = append(relevant, match)
		return fmt.Sprintf(c.pick("countIf(%s)", "count(*) FILTER (%s)"), match)
	}
	for _, d := range q.Did {
		count := count(d.Match)
		having = append(having, is(fmt.Sprintf("%s >= %d", count, max(d.AtLeast, 1))))
		if d.AtMost > 0 {
			having = append(having, is(fmt.Sprintf("%s <= %d", count, d.AtMost)))
		}
	}
	for _, d := range q.DidNot {
		count := count(d.Match)
		fewer := is(fmt.Sprintf("%s < %d", count, max(d.AtLeast, 1)))
		if d.AtMost > 0 {
			fewer = one(fewer, is(fmt.Sprintf("%s > %d", count, d.AtMost)))
		}
		having = append(having, fewer)
	}
	return &selection{
		columns: []string{"count(*) AS users"},
		sub: &selection{
			columns: []string{"user"}, from: table,
			where:   []cond{one(relevant...), c.bounds(q.Bounds), c.sample()},
			groupBy: []string{"user"}, having: having,
		},
	}
}

func cohortAnswer(s *Statement, r *reader, rows [][]any, answer *query.Answer) {
	answer.Cohort = &query.CohortAnswer{Name: s.query.Name}
	for _, row := range rows {
		answer.Cohort.Users = r.users(r.at(row, 0))
	}
}
