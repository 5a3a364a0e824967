package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// unlimited is the window of a funnel that has none, in milliseconds: more than
// the years 1 to 9999 have, and the sum with any time fits 64 bits.
const unlimited = 1 << 62

// funnel picks the form. All of them end with one row for all users, one for each group
// or bucket, of the users who reached each step; or with users.
func (c *compiler) funnel(f *query.Funnel) *selection {
	c.read = funnelAnswer
	if remark := f.Overlap(); remark != "" {
		c.warnings = append(c.warnings, remark)
	}
	if u := c.query.Users; u != nil {
		c.read = usersAnswer
		part := *f
		part.Times = query.NoTimes
		if u.Group == nil && !u.Other {
			part.By, part.Other = nil, false
		}
		if u.Bucket == "" {
			part.Bucket = query.NoUnit
		}
		f = &part
	}
	m := f.Modes
	if c.disjoint(f) && !m.StrictIncrease {
		m.StrictOnce = false // no event can be two steps
	}
	plain := len(f.By) == 0 && f.Times == query.NoTimes && len(f.Exclude) == 0
	switch {
	case f.AnyOrder:
		return c.anyOrder(f)
	case c.dialect == ClickHouse && plain:
		return c.windowFunnel(f)
	case m.StrictOnce && !m.StrictIncrease:
		return c.onceFunnel(f, m)
	case plain && !m.StrictOnce && !m.StrictOrder && !m.StrictDeduplication:
		return c.joinFunnel(f)
	}
	return c.chainFunnel(f, m)
}

// disjoint reports whether no event can match two steps.
func (c *compiler) disjoint(f *query.Funnel) bool {
	seen := map[string]bool{}
	for _, step := range f.Steps {
		names := slices.Compact(slices.Sorted(slices.Values(step.Events)))
		for _, n := range names {
			if seen[n] {
				return false
			}
			seen[n] = true
		}
	}
	return true
}

// window returns the milliseconds that a chain may take.
func window(f *query.Funnel) int64 {
	if f.NoLimit {
		return unlimited
	}
	return f.Within.Milliseconds()
}

// same returns the condition and the column of the property that steps share;
// always and "" without one.
func (c *compiler) same(f *query.Funnel) (cond, string) {
	if f.Same == "" {
		return always, ""
	}
	column, t, ok := c.column(f.Same)
	switch {
	case !ok:
		return never, "user"
	case t == event.String:
		return is(column + " != ''"), column
	}
	return is(column + " IS NOT NULL"), column
}

// stepEvents returns the condition that an event has the name of any step.
func (c *compiler) stepEvents(f *query.Funnel) cond {
	var names []string
	for _, step := range f.Steps {
		for _, n := range step.Events {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return c.named(names)
}

// reached returns the columns of the answer: how many users have each level.
func (c *compiler) reached(level string, n int) []string {
	columns := make([]string, n)
	for k := range columns {
		columns[k] = fmt.Sprintf(c.pick("countIf(%[1]s >= %[2]d) AS step_%[2]d", "count(*) FILTER (%[1]s >= %[2]d) AS step_%[2]d"), level, k+1)
	}
	return columns
}

// windowFunnel is the native form of ClickHouse.
func (c *compiler) windowFunnel(f *query.Funnel) *selection {
	// It takes unsigned numbers only, so times before 1970 need another origin.
	const origin = "toUInt64(toUnixTimestamp64Milli(time) + 2208988800000)"
	c.note("Times are given to windowFunnel in milliseconds since 1900.")
	if f.Modes.StrictOnce && f.Modes.StrictDeduplication && !c.disjoint(f) {
		c.note("Of events of one time that can be several steps, ClickHouse takes the one first that it reads first.")
	}
	var modes strings.Builder
	for _, mode := range f.Modes.Names() {
		modes.WriteString(", '" + mode + "'")
	}
	args := make([]string, len(f.Steps))
	for k := range f.Steps {
		args[k] = "    " + c.step(f, k).String()
	}
	level := fmt.Sprintf("windowFunnel(%d%s)(\n    %s,\n%s\n) AS ", window(f), modes.String(), origin, strings.Join(args, ",\n"))
	relevant := c.stepEvents(f)
	if f.Modes.StrictOrder {
		relevant = always // it is judged over all events
	}
	exists, column := c.same(f)
	runs := c.runColumns(f)
	levels := &selection{
		columns: append(slices.Clone(runs), level+"level"), from: c.runTable(f),
		where: []cond{relevant, c.bounds(f.Bounds), c.sample(), exists, c.inRun(f)}, groupBy: runs,
	}
	if column != "" {
		levels.groupBy = append(slices.Clone(runs), column)
	}
	s := c.runs(f)
	if column != "" || c.query.Users != nil || f.Bucket != query.NoUnit {
		// A user has the level of the best value of column.
		s.let("levels", levels)
		return c.best(s, f)
	}
	s.columns, s.sub = c.reached("level", len(f.Steps)), levels
	return s
}

// joinFunnel is the fast form of DuckDB, for the default mode and strict_increase.
// Each event of a step is joined with the last event before it that reached the
// step before; began is the time of the first step of the chain. A later event never
// has an earlier began, so no other event would do better.
func (c *compiler) joinFunnel(f *query.Funnel) *selection {
	exists, column := c.same(f)
	s, runs := c.runs(f), c.runColumns(f)
	keys := slices.Clone(runs)
	if column != "" {
		keys = append(keys, column+" AS part")
	}
	parts := c.partColumns(f)
	carried, on := make([]string, len(parts)), make([]string, len(parts))
	for i, part := range parts {
		carried[i], on[i] = "e."+part, "e."+part+" = s."+part
	}
	selected := c.query.Users != nil
	levels := []*selection{{columns: append(slices.Clone(runs), "1 AS level"), from: "runs"}}
	for k := range f.Steps {
		where := []cond{c.step(f, k), c.bounds(f.Bounds), c.sample(), exists, c.inRun(f)}
		if k == 0 {
			if f.Bucket == query.NoUnit && !selected {
				// Counting step 1 from the table reads no times: that saves 20 % of the whole.
				s.let("users_1", &selection{columns: []string{"count(DISTINCT user) AS n"}, from: table, where: where})
			}
			s.columns = []string{"(SELECT n FROM users_1) AS step_1"}
			if len(f.Steps) > 1 || selected {
				s.let("reached_1", &selection{columns: append(slices.Clone(keys), "time", "time AS began"), from: c.runTable(f), where: where})
			}
			continue
		}
		events := &selection{columns: append(slices.Clone(keys), "time"), from: c.runTable(f), where: where}
		chain := &selection{
			columns: append(slices.Clone(carried), "e.time", "s.began"),
			from:    fmt.Sprintf("events_%d AS e", k+1),
			joins:   []string{fmt.Sprintf("ASOF JOIN reached_%d AS s ON %s AND e.time >= s.time", k, strings.Join(on, " AND "))},
		}
		if !f.NoLimit {
			chain.where = append(chain.where, is("e.time <= s.began + "+interval(window(f))))
		}
		if f.Modes.StrictIncrease {
			chain.where = append(chain.where, is("s.time < e.time"))
		}
		reached := fmt.Sprintf("reached_%d", k+1)
		s.let(fmt.Sprintf("events_%d", k+1), events)
		s.let(reached, chain)
		s.columns = append(s.columns, fmt.Sprintf("(SELECT count(DISTINCT user) FROM %s) AS step_%d", reached, k+1))
		levels = append(levels, &selection{columns: append(slices.Clone(runs), fmt.Sprintf("%d AS level", k+1)), from: reached})
	}
	if f.Bucket != query.NoUnit {
		s.let("levels", &selection{union: levels})
		return c.best(s, f)
	}
	if u := c.query.Users; selected {
		s.distinct, s.columns, s.from = true, []string{"user"}, fmt.Sprintf("reached_%d", u.Step)
		if u.Dropped && u.Step < len(f.Steps) {
			s.where = []cond{is(fmt.Sprintf("user NOT IN (SELECT user FROM reached_%d)", u.Step+1))}
		}
	}
	return s
}

func funnelAnswer(s *Statement, r *reader, rows [][]any, answer *query.Answer) {
	f := s.query.Funnel
	steps := func(row []any, from int, timed bool) []query.FunnelStep {
		list := make([]query.FunnelStep, len(f.Steps))
		for k := range list {
			list[k].Event = strings.Join(f.Steps[k].Events, "|")
			if row == nil {
				continue
			}
			list[k].Users = r.users(r.at(row, from))
			from++
			if k > 0 && f.Times != query.NoTimes {
				if timed {
					list[k].Time = r.stepTime(r.at(row, from), r.at(row, from+1), r.at(row, from+2))
				}
				from += 3
			}
		}
		return list
	}
	a := &query.FunnelAnswer{Steps: steps(nil, 0, false), By: f.By}
	if f.Bucket != query.NoUnit {
		a.Trend = []query.FunnelBucket{}
	}
	from := 1 + len(f.By)
	if f.Other {
		from++
	}
	for _, row := range rows {
		switch {
		case len(f.By) == 0 && f.Bucket == query.NoUnit:
			a.Steps = steps(row, 0, true)
		case f.Bucket != query.NoUnit:
			if r.integer(r.at(row, 0)) == 1 {
				a.Steps = steps(row, 2, true)
				continue
			}
			label := bucketLabel(f.Bucket, f.Zone, r.bucketAt(f.Bucket, r.at(row, 1)))
			a.Trend = append(a.Trend, query.FunnelBucket{Bucket: label, Steps: steps(row, 2, false)})
		case r.integer(r.at(row, 0)) == 1:
			a.Steps = steps(row, from, true)
		default:
			g := query.FunnelGroup{Steps: steps(row, from, true)}
			if g.Other = f.Other && r.integer(r.at(row, 1)) > int64(f.Limit); !g.Other {
				for i, property := range f.By {
					g.Values = append(g.Values, r.value(r.at(row, from-len(f.By)+i), s.schema.Type(property)))
				}
			}
			a.Groups = append(a.Groups, g)
		}
	}
	slices.SortStableFunc(a.Groups, func(x, y query.FunnelGroup) int {
		return cmp.Or(
			compareBools(x.Other, y.Other),
			cmp.Compare(y.Steps[0].Users.N, x.Steps[0].Users.N),
			slices.CompareFunc(x.Values, y.Values, event.Compare),
		)
	})
	answer.Funnel = a
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
