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
	for _, d := range q.Did {
		match := c.match(d.Match)
		relevant = append(relevant, match)
		count := c.countIf(match)
		having = append(having, is(fmt.Sprintf("%s >= %d", count, max(d.AtLeast, 1))))
		if d.AtMost > 0 {
			having = append(having, is(fmt.Sprintf("%s <= %d", count, d.AtMost)))
		}
	}
	for _, d := range q.DidNot {
		match := c.match(d.Match)
		relevant = append(relevant, match)
		count := c.countIf(match)
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

// countIf counts the events that pass.
func (c *compiler) countIf(match cond) string {
	return fmt.Sprintf(c.pick("countIf(%s)", "count(*) FILTER (%s)"), match)
}

func cohortAnswer(s *Statement, r *reader, rows [][]any, answer *query.Answer) {
	answer.Cohort = &query.CohortAnswer{Name: s.query.Name}
	for _, row := range rows {
		answer.Cohort.Users = r.users(r.at(row, 0))
	}
}
