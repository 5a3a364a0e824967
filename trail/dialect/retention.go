package dialect

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// maxBits is how many periods fit the bits of a number; beyond, there is one row
// for each user and period.
const maxBits = 63

// retention joins the first start of each user with the returns. Columns of the
// answer: cohort (a date), size, period from 0, users.
func (c *compiler) retention(q *query.Retention) *selection {
	c.read = retentionAnswer
	// t0 is only ever next to columns of the table under a name of its own.
	t0, period := c.derived("began"), c.derived("period")
	starts := &selection{
		columns: []string{"user", "min(time) AS " + t0}, from: table,
		where: []cond{c.match(q.Start), c.bounds(q.Bounds), c.sample()}, groupBy: []string{"user"},
	}
	sql, conditions := c.period(q, t0)
	returns := &selection{
		columns: []string{"user", t0, sql + " AS " + period}, from: table + " JOIN starts USING (user)",
		where: append([]cond{c.match(q.Return), is("time >= " + t0)}, conditions...),
	}
	cohort := c.date(t0, cmp.Or(q.Cohort, query.Day), q.Zone)
	s := &selection{}
	s.with = []named{
		{name: "starts", is: starts},
		{name: "returns", is: returns},
		{name: "sizes", is: &selection{columns: []string{cohort + " AS cohort", "count(*) AS size"}, from: "starts", groupBy: []string{"cohort"}}},
	}
	came, each := c.came(q, cohort, period)
	s.let("came", came)
	s.let("periods", &selection{columns: []string{c.pick("number", "range") + " AS k"}, from: c.pick("numbers", "range") + "(" + strconv.Itoa(q.Periods) + ")"})
	s.columns = []string{"cohort", "any_value(size) AS users", "k AS period", each + " AS returned"}
	s.from = "sizes CROSS JOIN periods LEFT JOIN came USING (cohort)"
	s.groupBy = []string{"cohort", "k"}
	s.orderBy = []string{"cohort", "k"}
	if c.dialect == ClickHouse {
		s.settings = extended + ", join_use_nulls = 1"
	}
	return s
}

// came returns what is kept of the returns of a user, and the expression that counts
// the users who came in period k.
func (c *compiler) came(q *query.Retention, cohort, period string) (*selection, string) {
	s := &selection{from: "returns", where: []cond{is(fmt.Sprintf("%s < %d", period, q.Periods))}, groupBy: []string{"user", "cohort"}}
	s.columns = []string{"user", cohort + " AS cohort"}
	switch {
	case q.Unbounded:
		s.columns = append(s.columns, "max("+period+") AS last")
		return s, c.pick("countIf(last >= k)", "count(*) FILTER (last >= k)")
	case q.Periods <= maxBits:
		s.columns = append(s.columns, c.pick("groupBitOr(bitShiftLeft(toUInt64(1), "+period+"))", "bit_or(1::BIGINT << "+period+"::INTEGER)")+" AS bits")
		return s, c.pick("countIf(bitTest(bits, k))", "count(*) FILTER ((bits >> k::INTEGER) & 1 = 1)")
	}
	s.columns = append(s.columns, period+" AS in_period")
	s.groupBy = append(s.groupBy, "in_period")
	return s, c.pick("countIf(in_period = k)", "count(*) FILTER (in_period = k)")
}

// period returns the number of the period that a return is in, and conditions that
// make the database read less.
func (c *compiler) period(q *query.Retention, t0 string) (string, []cond) {
	if q.Every.Unit == query.NoUnit {
		every := q.Every.Elapsed.Milliseconds()
		since := c.pick(
			"toUnixTimestamp64Milli(time) - toUnixTimestamp64Milli("+t0+")",
			"epoch_ms(time) - epoch_ms("+t0+")")
		through := is(fmt.Sprintf("%s < %d", since, every*int64(q.Periods)))
		if c.dialect == DuckDB {
			through = is("time < " + t0 + " + " + interval(every*int64(q.Periods)))
		}
		return c.pick(fmt.Sprintf("intDiv(%s, %d)", since, every), fmt.Sprintf("(%s) // %d", since, every)), []cond{through}
	}
	return c.ordinal("time", q.Every.Unit, q.Zone) + " - " + c.ordinal(t0, q.Every.Unit, q.Zone), nil
}

func retentionAnswer(s *Statement, r *reader, rows [][]any, answer *query.Answer) {
	a := &query.RetentionAnswer{}
	for _, row := range rows {
		start := r.date(r.at(row, 0))
		if n := len(a.Cohorts); n == 0 || a.Cohorts[n-1].Start != start {
			a.Cohorts = append(a.Cohorts, query.RetentionCohort{
				Start: start, Size: r.users(r.at(row, 1)), Periods: make([]query.Number, s.query.Retention.Periods),
			})
		}
		c := &a.Cohorts[len(a.Cohorts)-1]
		k := r.integer(r.at(row, 2))
		if k < 0 || k >= int64(len(c.Periods)) {
			r.fail(fmt.Errorf("period %d of %d", k, len(c.Periods)))
			break
		}
		c.Periods[k] = r.users(r.at(row, 3))
	}
	answer.Retention = a
}
