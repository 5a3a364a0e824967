package dialect

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// maxBits is how many periods fit the bits of a number; beyond, they are a list.
const maxBits = 63

// retention joins the first start of each user with the returns, keeps the periods in
// which a user came as bits, and counts users of equal bits once. Columns of the
// answer: cohort (a date), users, period from 0, returned.
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
		columns: []string{"user", sql + " AS " + period}, from: table + " JOIN starts USING (user)",
		where: append([]cond{c.match(q.Return), is("time >= " + t0)}, conditions...),
	}
	s := &selection{}
	if c.dialect == ClickHouse {
		s.settings = extended + ", join_use_nulls = 1"
	}
	s.let("starts", starts)
	unit := cmp.Or(q.Cohort, query.Day)
	if u := c.query.Users; u != nil {
		c.read = usersAnswer
		s.columns, s.from = []string{"user"}, "starts"
		s.where = []cond{c.labelled(c.date(t0, unit, q.Zone), unit, q.Zone, u.Cohort)}
		if u.HasPeriod {
			s.let("returns", returns)
			to := u.Period + 1
			if q.Unbounded {
				to = q.Periods
			}
			s.where = append(s.where, is(fmt.Sprintf("user IN (SELECT user FROM returns WHERE %[1]s >= %[2]d AND %[1]s < %[3]d)", period, u.Period, to)))
		}
		return s
	}
	s.let("returns", returns)
	came, kept, each := c.came(q, period)
	s.let("came", came)
	s.let("periods", &selection{columns: []string{c.pick("number", "range") + " AS k"}, from: c.pick("numbers", "range") + "(" + strconv.Itoa(q.Periods) + ")"})
	s.let("counted", &selection{
		columns: []string{c.date(t0, unit, q.Zone) + " AS cohort", kept, "count(*) AS n"},
		from:    "starts LEFT JOIN came USING (user)", groupBy: []string{"cohort", kept},
	})
	s.columns = []string{"cohort", "sum(n)" + c.pick("", "::BIGINT") + " AS users", "k AS period", fmt.Sprintf(c.pick("sumIf(n, %s) AS returned", "coalesce(sum(n) FILTER (%s), 0)::BIGINT AS returned"), each)}
	s.from = "counted CROSS JOIN periods"
	s.groupBy = []string{"cohort", "k"}
	s.orderBy = []string{"cohort", "k"}
	return s
}

// came returns what is kept of the returns of a user, the column that has it, and the
// condition that such a user came in period k.
func (c *compiler) came(q *query.Retention, period string) (came *selection, kept, each string) {
	s := &selection{columns: []string{"user"}, from: "returns", groupBy: []string{"user"}}
	if q.Every.Unit != query.NoUnit { // else returns has no others
		s.where = []cond{is(fmt.Sprintf("%s < %d", period, q.Periods))}
	}
	switch {
	case q.Unbounded:
		s.columns = append(s.columns, "max("+period+") AS last")
		return s, "last", c.pick("ifNull(last >= k, false)", "last >= k")
	case q.Periods <= maxBits:
		s.columns = append(s.columns, c.pick("groupBitOr(bitShiftLeft(toUInt64(1), "+period+"))", "bit_or(1::BIGINT << "+period+"::INTEGER)")+" AS bits")
		return s, "bits", c.pick("ifNull(bitTest(bits, k), 0)", "(bits >> k::INTEGER) & 1 = 1")
	}
	s.columns = append(s.columns, c.pick("groupUniqArray", "list_distinct(list")+"("+period+")"+c.pick("", ")")+" AS came_in")
	return s, "came_in", c.pick("has(came_in, k)", "list_contains(came_in, k)")
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
