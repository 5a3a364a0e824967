package trailtest

import (
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/query"
)

func (t *table) retention(q *query.Retention) (*query.RetentionAnswer, error) {
	starts, err := t.match(q.Start)
	if err != nil {
		return nil, err
	}
	returns, err := t.match(q.Return)
	if err != nil {
		return nil, err
	}
	zone := zoneOr(q.Zone)
	unit := cohortUnit(q)
	cohorts := map[string]*query.RetentionCohort{}
	for _, rows := range t.users {
		first := slices.IndexFunc(rows, func(r row) bool { return within(q.Bounds, r.time) && starts(r) })
		if first < 0 {
			continue
		}
		t0 := rows[first].time
		label := periodLabel(unit, periodOf(unit, t0, zone), zone)
		c := cohorts[label]
		if c == nil {
			c = &query.RetentionCohort{Start: label, Periods: make([]query.Number, q.Periods)}
			cohorts[label] = c
		}
		c.Size.N++
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
		for k := range came {
			if came[k] || q.Unbounded && slices.Contains(came[k:], true) {
				c.Periods[k].N++
			}
		}
	}
	answer := &query.RetentionAnswer{}
	for _, c := range cohorts {
		answer.Cohorts = append(answer.Cohorts, *c)
	}
	slices.SortFunc(answer.Cohorts, func(a, b query.RetentionCohort) int { return strings.Compare(a.Start, b.Start) })
	return answer, nil
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
