package trailtest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/query"
)

func (t *table) retention(q *query.Retention) *query.RetentionAnswer {
	cohorts := map[string]*query.RetentionCohort{}
	for _, u := range t.returns(q) {
		c := cohorts[u.cohort]
		if c == nil {
			c = &query.RetentionCohort{Start: u.cohort, Periods: make([]query.Number, q.Periods)}
			cohorts[u.cohort] = c
		}
		c.Size.N++
		for k, counts := range u.periods {
			c.Periods[k].N += int64(boolInt(counts))
		}
	}
	answer := &query.RetentionAnswer{}
	for _, c := range cohorts {
		answer.Cohorts = append(answer.Cohorts, *c)
	}
	slices.SortFunc(answer.Cohorts, func(a, b query.RetentionCohort) int { return strings.Compare(a.Start, b.Start) })
	return answer
}

// retentionUsers returns the users of a cohort, or only the ones who count in a period.
func (t *table) retentionUsers(q *query.Retention, s *query.Selection) []uint64 {
	t.require(s.Cohort != "", "users of a retention need a cohort")
	t.require(!s.HasPeriod || s.Period >= 0 && s.Period < q.Periods, "there is no period %d", s.Period)
	if t.err != nil {
		return nil
	}
	var users []uint64
	for _, u := range t.returns(q) {
		if u.cohort == s.Cohort && (!s.HasPeriod || u.periods[s.Period]) {
			users = append(users, u.hash)
		}
	}
	return users
}

// A returning is a user who has a start event.
type returning struct {
	hash    uint64
	cohort  string // its label
	periods []bool // the periods that the user counts in
}

func (t *table) returns(q *query.Retention) []returning {
	starts, returns := t.match(q.Start), t.match(q.Return)
	zone := cmp.Or(q.Zone, time.UTC)
	unit := cohortUnit(q)
	var users []returning
	for _, rows := range t.users {
		first := slices.IndexFunc(rows, func(r row) bool { return within(q.Bounds, r.time) && starts(r) })
		if first < 0 {
			continue
		}
		t0 := rows[first].time
		came := make([]bool, q.Periods)
		for _, r := range rows {
			if r.time < t0 || !returns(r) {
				continue
			}
			var k int64
			if q.Every.Unit != query.NoUnit {
				k = periodOf(q.Every.Unit, r.time, zone) - periodOf(q.Every.Unit, t0, zone)
			} else {
				k = (r.time - t0) / q.Every.Elapsed.Milliseconds()
			}
			if k < int64(q.Periods) {
				came[k] = true
			}
		}
		u := returning{hash: rows[0].hash, cohort: periodLabel(unit, periodOf(unit, t0, zone), zone)}
		for k := range came {
			u.periods = append(u.periods, came[k] || q.Unbounded && slices.Contains(came[k:], true))
		}
		users = append(users, u)
	}
	return users
}

// cohortUnit returns the unit of the cohorts: the one that was asked for, else the
// one of the periods.
func cohortUnit(q *query.Retention) query.Unit {
	const week = 7 * 24 * time.Hour
	switch {
	case q.Cohort != query.NoUnit:
		return q.Cohort
	case q.Every.Unit > query.Day:
		return q.Every.Unit
	case q.Every.Elapsed > 0 && q.Every.Elapsed%week == 0:
		return query.Week
	}
	return query.Day
}

func (d *caseGenerator) retention() *query.Retention {
	r := &query.Retention{
		Start: d.match(d.chance(0.8)), Return: d.match(d.chance(0.8)),
		Periods: 1 + d.low(14), Unbounded: d.chance(0.3),
		Cohort: d.unit(query.NoUnit, query.Day, query.Week, query.Month),
		Zone:   d.zone(), Bounds: d.bounds(),
	}
	if d.chance(0.03) {
		r.Periods = 366
	}
	if d.chance(0.5) {
		r.Every.Unit = d.unit(query.Hour, query.Day, query.Day, query.Week, query.Week, query.Month)
	} else {
		r.Every.Elapsed = cmp.Or(pick(d, []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 36 * time.Hour, d.window()}), time.Minute)
	}
	return r
}
