package dialect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// value returns the name of the i-th value of By among the columns of entries.
func value(i int) string { return "value_" + strconv.Itoa(i+1) }

// values returns all of them, as rows are ordered by them if ordered.
func values(f *query.Funnel, ordered bool) []string {
	columns := make([]string, len(f.By))
	for i := range columns {
		columns[i] = value(i)
		if ordered {
			columns[i] += " NULLS FIRST"
		}
	}
	return columns
}

// byStep returns the step whose values of By count; 0 for the last.
func byStep(f *query.Funnel) int {
	if f.ByStep == query.LastStep && len(f.Steps) > 1 {
		return 0
	}
	return max(int(f.ByStep), 1)
}

// concluded ends the statement: it counts levels, or finds the winning chains.
func (c *compiler) concluded(s *selection, f *query.Funnel, m query.Modes, stops bool) *selection {
	n := len(f.Steps)
	if len(f.By) == 0 && f.Times == query.NoTimes {
		return c.best(s, f)
	}
	var seen []cond
	if stops {
		seen = append(seen, is("pos < stop"))
	}
	if n > 1 {
		seen = append(seen, is(fmt.Sprintf("pos <= coalesce(reached_%d, %d)", n, farAway)))
	}
	where := []cond{is("level > 0")}
	if f.Bucket != query.NoUnit {
		where = append(where, is(c.derived("total")+" = 1"))
	}
	timed := c.timed(f)
	if c.dialect == ClickHouse && n+timed > 50 {
		s.settings = strings.TrimPrefix(s.settings+", max_subquery_depth = 200", ", ")
	}
	var from string
	if m.StrictOnce && !m.StrictIncrease {
		from, timed = c.walks(s, f, all(seen...), where), n
	} else if from = c.ends(s, f, m, all(seen...), where); timed == 0 {
		c.winners(s, f, from, []cond{is("step = 1"), c.reaches(f, "end_1", "ms")}, []string{"ms"})
		return c.counted(s, f)
	} else {
		for k := 1; k <= timed; k++ {
			s.with = append(s.with, named{fmt.Sprintf("times_%d", k), c.times(f, m, k, from), c.long(k)})
			from = fmt.Sprintf("times_%d", k)
		}
	}
	times, latest := make([]string, timed), make([]string, timed)
	for k := range times {
		times[k] = fmt.Sprintf("t_%d", k+1)
		latest[timed-k-1] = times[k]
	}
	winning := all(is("step = 1"), is("ms = t_1"))
	switch k := byStep(f); {
	case len(f.By) == 0 || k == 1:
	case k == 0:
		winning = all(is("step = level"), is("ms = coalesce("+strings.Join(latest, ", ")+")"))
	default:
		winning = one(all(is(fmt.Sprintf("step = %d", k)), is(fmt.Sprintf("ms = t_%d", k))), all(is(fmt.Sprintf("level < %d", k)), winning))
	}
	c.winners(s, f, from, []cond{winning}, times)
	return c.counted(s, f)
}

// ends adds end_k of the entries that the scan has seen, from the last step to the first.
func (c *compiler) ends(s *selection, f *query.Funnel, m query.Modes, seen cond, where []cond) (last string) {
	n := len(f.Steps)
	// Values may be from an event of the same time that the scan did not come to.
	switch k := byStep(f); {
	case len(f.By) == 0 || k == 1:
		where, seen = append(where, seen), always
	case k == 0:
		where = append(where, one(seen, is("step = level")))
	default:
		where = append(where, one(seen, is(fmt.Sprintf("step = %d", k))))
	}
	end := "CASE WHEN " + all(is("step = level"), seen).String() + " THEN ms"
	previous := fmt.Sprintf("ends_%d", n)
	s.let(previous, &selection{columns: []string{"*", fmt.Sprintf("%s END AS end_%d", end, n)}, from: "levels", where: where})
	frame := after
	if m.StrictIncrease {
		frame = afterInTime
	}
	for k := n - 1; k >= 1; k-- {
		next := fmt.Sprintf("min(CASE WHEN step = %d THEN end_%d END) OVER later", k+1, k+1)
		ends := &selection{
			columns: []string{"*", fmt.Sprintf("%s WHEN step = %d THEN %s END AS end_%d", end, k, next, k)},
			from:    previous,
			window:  []string{fmt.Sprintf("later AS (PARTITION BY %s %s)", c.parts(f)+era(f, k), frame)},
		}
		previous = fmt.Sprintf("ends_%d", k)
		s.with = append(s.with, named{previous, ends, c.long(n - k)})
	}
	return previous
}

// timed returns of how many steps the times are needed to find the winning chain and to
// answer the query; 0 if the first time is enough.
func (c *compiler) timed(f *query.Funnel) int {
	switch k := byStep(f); {
	case f.Times != query.NoTimes, f.Same != "", k == 0:
		return len(f.Steps)
	case k > 1:
		return k
	}
	return 0
}

// reaches returns the condition that a chain that began at a time ends within the window.
func (c *compiler) reaches(f *query.Funnel, end, began string) cond {
	if f.NoLimit {
		return is(end + " IS NOT NULL")
	}
	return is(fmt.Sprintf("%s - %s <= %d", end, began, window(f)))
}

// times adds t_k, and in_era_k if an exclusion may be between it and the next step.
func (c *compiler) times(f *query.Funnel, m query.Modes, k int, from string) *selection {
	began := "ms"
	conditions := []cond{is(fmt.Sprintf("step = %d", k))}
	if k > 1 {
		began = "t_1"
		conditions = append(conditions, is(fmt.Sprintf("ms >%s t_%d", map[bool]string{false: "="}[m.StrictIncrease], k-1)))
		if era(f, k-1) != "" {
			conditions = append(conditions, is(fmt.Sprintf("era_%d = in_era_%d", k-1, k-1)))
		}
	}
	conditions = append(conditions, c.reaches(f, fmt.Sprintf("end_%d", k), began))
	first := func(column, as string) string {
		return fmt.Sprintf("min(CASE WHEN %s THEN %s END) OVER whole AS %s", all(conditions...), column, as)
	}
	s := &selection{columns: []string{"*", first("ms", fmt.Sprintf("t_%d", k))}, from: from}
	if k < len(f.Steps) && era(f, k) != "" {
		s.columns = append(s.columns, first(fmt.Sprintf("era_%d", k), fmt.Sprintf("in_era_%d", k)))
	}
	s.window = []string{"whole AS (PARTITION BY " + c.parts(f) + ")"}
	return s
}

// best counts users by the highest of their levels, or selects them.
func (c *compiler) best(s *selection, f *query.Funnel) *selection {
	runs := c.runColumns(f)
	s.let("users", &selection{columns: append(slices.Clone(runs), "max(level) AS best"), from: "levels", groupBy: runs})
	s.from = "users"
	if c.query.Users != nil {
		s.columns, s.where = []string{"user"}, []cond{c.reachedLevel("best")}
		return s
	}
	s.columns = c.reached("best", len(f.Steps))
	if f.Bucket != query.NoUnit {
		s.columns = append(slices.Clone(runs[1:]), s.columns...)
		s.groupBy = runs[1:]
		s.orderBy = []string{runs[1] + " DESC", runs[2]}
	}
	return s
}

// winners picks one entry of each user among those that pass: the one with the longest chain;
// of several, the first by order, then by the values.
func (c *compiler) winners(s *selection, f *query.Funnel, from string, winning []cond, order []string) {
	order = slices.Concat([]string{"level DESC"}, order, values(f, true))
	columns := []string{"user", "level"}
	for k := 2; k <= len(f.Steps) && f.Times != query.NoTimes; k++ {
		since := 1
		if f.Times == query.FromPrevious {
			since = k - 1
		}
		columns = append(columns, fmt.Sprintf("t_%d - t_%d AS took_%d", k, since, k))
	}
	if k := byStep(f); k > 1 && !f.AnyOrder {
		// The event does not belong to the step if the chain does not reach it.
		inner := &selection{columns: []string{"*"}, from: from, where: winning}
		for i, property := range f.By {
			inner.columns = append(inner.columns, fmt.Sprintf("CASE WHEN level >= %d THEN %s%s END AS of_%s", k, value(i), c.otherwise(property), value(i)))
		}
		s.let("reaching", inner)
		from, winning = "reaching", nil
		for i := range f.By {
			columns = append(columns, "of_"+value(i)+" AS "+value(i))
			order[len(order)-len(f.By)+i] = "of_" + value(i) + " NULLS FIRST"
		}
	} else {
		columns = append(columns, values(f, false)...)
	}
	columns = append(columns, "row_number() OVER (PARTITION BY user ORDER BY "+strings.Join(order, ", ")+") AS place")
	s.let("winners", &selection{columns: columns, from: from, where: winning})
}

// otherwise returns the ELSE that makes a value of a property missing.
func (c *compiler) otherwise(property string) string {
	if _, t, ok := c.column(property); !ok || t == event.String {
		return " ELSE ''"
	}
	return ""
}

// counted ends a statement that has winners: it counts their levels, by group if asked
// for, and sums up their times; or it selects users.
func (c *compiler) counted(s *selection, f *query.Funnel) *selection {
	s.from, s.where = "winners", []cond{is("place = 1")}
	n := len(f.Steps)
	if f.Bucket != query.NoUnit {
		runs := c.runColumns(f)[1:]
		whole := &selection{columns: []string{"1 AS " + runs[0], c.someBucket(f.Bucket) + " AS " + runs[1]}, from: s.from, where: s.where}
		whole.columns = append(whole.columns, c.stepColumns(f, "level")...)
		each := &selection{columns: slices.Clone(runs), from: "users", where: []cond{is(runs[0] + " = 0")}, groupBy: runs}
		for k, column := range c.reached("best", n) {
			each.columns = append(each.columns, column)
			if k > 0 {
				each.columns = append(each.columns, "NULL", "NULL", "[]")
			}
		}
		s.let("users", &selection{columns: append(c.runColumns(f), "max(level) AS best"), from: "levels", groupBy: c.runColumns(f)})
		s.let("answers", &selection{union: []*selection{whole, each}})
		s.columns, s.from, s.where = []string{"*"}, "answers", nil
		s.orderBy = []string{runs[0] + " DESC", runs[1]}
		return s
	}
	if len(f.By) == 0 {
		s.columns = c.stepColumns(f, "level")
		return s
	}
	list := strings.Join(values(f, false), ", ")
	if f.Other || c.query.Users != nil {
		s.let("sizes", &selection{columns: []string{"*", "count(*) OVER (PARTITION BY " + list + ") AS size"}, from: s.from, where: s.where})
		rank := "dense_rank() OVER (ORDER BY size DESC, " + strings.Join(values(f, true), ", ") + ")"
		s.let("ranked", &selection{columns: []string{"*", fmt.Sprintf("least(%s, %d) AS nth", rank, f.Limit+1)}, from: "sizes"})
		s.from, s.where = "ranked", nil
	}
	if u := c.query.Users; u != nil {
		s.columns, s.where = []string{"user"}, []cond{c.reachedLevel("level"), c.chosen(f.By, values(f, false), "nth", f.Limit)}
		return s
	}
	c.note("One row for all users (total = 1), then one for each group.")
	var groups []string
	if f.Other {
		c.note(fmt.Sprintf("The groups beyond the limit are one, nth = %d.", f.Limit+1))
		s.columns = []string{"grouping(nth) AS total", "nth"}
		for i := range f.By {
			groups = append(groups, fmt.Sprintf("min(%s) AS group_%d", value(i), i+1))
		}
		s.groupBy = []string{"GROUPING SETS ((), (nth))"}
		s.orderBy = []string{"total DESC", "nth"}
	} else {
		s.columns = []string{"grouping(value_1) AS total"}
		groups = values(f, false)
		s.groupBy = []string{"GROUPING SETS ((), (" + list + "))"}
		s.orderBy = append([]string{"total DESC", "step_1 DESC"}, values(f, true)...)
		s.limit = f.Limit + 1
	}
	s.columns = slices.Concat(s.columns, groups, c.stepColumns(f, "level"))
	return s
}

// stepColumns returns the columns of steps: how many users reached each, and how long
// they took from the second on: the median, the 90th percentile, and how many took less
// than each of the bounds, then all.
func (c *compiler) stepColumns(f *query.Funnel, level string) []string {
	var columns []string
	for k, reached := range c.reached(level, len(f.Steps)) {
		columns = append(columns, reached)
		if k == 0 || f.Times == query.NoTimes {
			continue
		}
		took := fmt.Sprintf("took_%d", k+1)
		columns = append(columns, fmt.Sprintf("%s AS median_%d", c.percentile(took, 50), k+1), fmt.Sprintf("%s AS p90_%d", c.percentile(took, 90), k+1))
		var below []string
		for _, bound := range query.TimeBounds() {
			below = append(below, fmt.Sprintf(c.pick("countIf(%s < %d)", "count(*) FILTER (%s < %d)"), took, bound.Milliseconds()))
		}
		columns = append(columns, fmt.Sprintf("[\n    %s,\n    count(%s)\n] AS below_%d", strings.Join(below, ",\n    "), took, k+1))
	}
	return columns
}

// percentile returns the nearest rank.
func (c *compiler) percentile(column string, percent int) string {
	if c.dialect == DuckDB {
		return fmt.Sprintf("quantile_disc(%s, 0.%02d)", column, percent)
	}
	// quantileExact takes the one after it if that is whole.
	return fmt.Sprintf("arrayElementOrNull(arraySort(groupArray(%[1]s)), intDiv(%[2]d * count(%[1]s) + 99, 100))", column, percent)
}

// stepTime reads how long users took for a step; nil if there are none.
func (r *reader) stepTime(median, p90, below any) *query.StepTime {
	if median == nil {
		return nil
	}
	list, ok := below.([]any)
	bounds := append(query.TimeBounds(), 0)
	if !ok || len(list) != len(bounds) {
		r.fail(fmt.Errorf("times are %v, want a list of %d", below, len(bounds)))
		return nil
	}
	t := &query.StepTime{Median: r.integer(median), P90: r.integer(p90)}
	less := int64(0)
	from, to := len(list), 0
	for i, v := range list {
		n := r.integer(v)
		if n > less {
			from, to = min(from, i), i+1
		}
		t.Histogram = append(t.Histogram, query.TimeBucket{Below: bounds[i], Users: r.users(n - less)})
		less = n
	}
	t.Histogram = t.Histogram[min(from, to):to]
	return t
}
