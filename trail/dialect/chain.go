package dialect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// The general form of a funnel works on entries: one for each step that an event
// matches, in the order in which windowFunnel takes them, by time and then by step.
// Each common table expression computes more columns of them:
//
//	entries     one row for each entry: user, part (of same), ms (its time),
//	            step: from 1; 0 an event of no step; below 0 an exclusion
//	ordered     pos: the place among the entries of the user; era_k counts the exclusions
//	            that end chains at level k: a chain goes on within its era only
//	chains_k    began_k: if the entry brings a chain to level k, when that began
//	levels      level of the user, as far as the modes have not stopped the scan
//	ends_k      of an entry of step k: when the earliest chain ends that goes on
//	            from it to the level of the user
//	times_k     t_k: when step k of the winning chain is
//	winners     for each user the entry whose values of By count
//
// The best chain to continue is always the one that reached a level last, since it
// also began last. So a maximum over the entries before is enough.

// parts returns the columns that divide entries: each of their combinations has
// its own chains.
func (c *compiler) parts(f *query.Funnel) string { return strings.Join(c.partColumns(f), ", ") }

func (c *compiler) partColumns(f *query.Funnel) []string {
	columns := c.runColumns(f)
	if f.Same != "" {
		columns = slices.Insert(columns, 1, "part")
	}
	return columns
}

// A step of a chain sees these entries: those before it, or strictly before in
// time; later is the same backwards.
const (
	before             = "ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
	beforeInTime       = "ORDER BY ms RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
	after              = "ORDER BY pos DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
	afterInTime        = "ORDER BY ms DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
	farAway      int64 = 1<<63 - 1 // a position behind all
)

// chainFunnel is the general form, except for strict_once where an event can be two
// steps.
func (c *compiler) chainFunnel(f *query.Funnel, m query.Modes) *selection {
	s := c.entries(f, m)
	s.let("chains_1", &selection{
		columns: []string{"*", "CASE WHEN step = 1 THEN ms END AS began_1"}, from: "ordered",
	})
	for k := 2; k <= len(f.Steps); k++ {
		s.with = append(s.with, named{fmt.Sprintf("chains_%d", k), c.chains(f, m, k), c.long(k)})
	}
	stops := c.scanned(s, f, m, fmt.Sprintf("chains_%d", len(f.Steps)))
	return c.concluded(s, f, m, stops)
}

// long reports whether to materialize the k-th of many expressions that use each
// other. DuckDB takes exponential time to plan them if it inlines all of them.
func (c *compiler) long(k int) bool { return c.dialect == DuckDB && k%8 == 0 }

// chains adds began_k.
func (c *compiler) chains(f *query.Funnel, m query.Modes, k int) *selection {
	began := fmt.Sprintf("max(began_%d) OVER earlier", k-1)
	conditions := []string{fmt.Sprintf("step = %d", k)}
	if f.NoLimit {
		conditions = append(conditions, began+" IS NOT NULL")
	} else {
		conditions = append(conditions, fmt.Sprintf("ms - %s <= %d", began, window(f)))
	}
	frame := before
	switch {
	case m.StrictIncrease && m.StrictOnce:
		frame = beforeInTime // all chains are kept, not the last alone
	case m.StrictIncrease:
		conditions = append(conditions, fmt.Sprintf("max(CASE WHEN began_%d IS NOT NULL THEN ms END) OVER earlier < ms", k-1))
	}
	return &selection{
		columns: []string{"*", fmt.Sprintf("CASE WHEN %s THEN %s END AS began_%d", strings.Join(conditions, " AND "), began, k)},
		from:    fmt.Sprintf("chains_%d", k-1),
		window:  []string{fmt.Sprintf("earlier AS (PARTITION BY %s %s)", c.parts(f)+era(f, k-1), frame)},
	}
}

// era returns the column to partition by, so that no chain of a level goes across an
// exclusion; "" if none can.
func era(f *query.Funnel, level int) string {
	for _, x := range f.Exclude {
		if x.After <= level && level < x.Before {
			return fmt.Sprintf(", era_%d", level)
		}
	}
	return ""
}

// entries begins the statement with entries and ordered.
func (c *compiler) entries(f *query.Funnel, m query.Modes) *selection {
	exists, same := c.same(f)
	var cases []string
	var steps, relevant []cond
	for k := range f.Steps {
		match := c.step(f, k)
		steps = append(steps, match)
		cases = append(cases, fmt.Sprintf("CASE WHEN %s THEN %d END", match, k+1))
	}
	relevant = append(relevant, steps...)
	if !slices.ContainsFunc(f.Steps, func(m query.Match) bool { return m.Where != nil }) {
		relevant = []cond{c.stepEvents(f)}
	}
	for i, x := range f.Exclude {
		match := c.match(x.Match)
		relevant = append(relevant, match)
		cases = append(cases, fmt.Sprintf("CASE WHEN %s THEN %d END", match, -i-1))
	}
	if m.StrictOrder {
		relevant = []cond{always}
		cases = append(cases, fmt.Sprintf("CASE WHEN %s THEN NULL ELSE 0 END", one(steps...)))
	}
	columns := c.runColumns(f)
	at, step, part, id, mask, order := "ms", "step", "part", "id", "mask", "ms, step"
	names := []string{at, step, part, id, mask}
	if same != "" {
		columns = append(columns, same+" AS "+part)
	}
	columns = append(columns, c.millis("time")+" AS "+at)
	for i, property := range f.By {
		names = append(names, value(i))
		columns = append(columns, c.value(property)+" AS "+value(i))
	}
	where := all(one(relevant...), c.bounds(f.Bounds), c.sample(), exists, c.inRun(f))
	c.alias(names...)
	ordered := &selection{columns: []string{"*"}, from: "entries", where: []cond{is("step IS NOT NULL")}}
	if c.disjoint(f) && len(f.Exclude) == 0 {
		steps := make([]string, len(f.Steps))
		for k := range f.Steps {
			steps[k] = fmt.Sprintf("    WHEN %s THEN %d", c.step(f, k), k+1)
		}
		if f.Bucket == query.NoUnit {
			ordered.where = nil
		}
		otherwise := ""
		if m.StrictOrder {
			otherwise = "    ELSE 0\n"
		}
		columns = append(columns, "CASE\n"+strings.Join(steps, "\n")+"\n"+otherwise+"END AS "+step)
	} else {
		if m.StrictOnce && !m.StrictIncrease {
			columns = append(columns, "row_number() OVER () AS "+id)
			if m.StrictDeduplication {
				// The first of the events of one time is the last of its step: the
				// one that matches the fewest and first steps, as in trail.
				bits := make([]string, len(steps))
				for k, match := range steps {
					bits[k] = fmt.Sprintf("    CASE WHEN %s THEN %d ELSE 0 END", match, int64(1)<<k)
				}
				columns = append(columns, "(\n"+strings.Join(bits, " +\n")+"\n) AS "+mask)
				order += ", mask"
			}
		}
		columns = append(columns, c.pick("arrayJoin", "unnest")+"([\n    "+strings.Join(cases, ",\n    ")+"\n]) AS "+step)
	}
	entries := &selection{columns: columns, from: c.runTable(f), where: []cond{where}}
	ordered.columns = append(ordered.columns, fmt.Sprintf("row_number() OVER (PARTITION BY %s ORDER BY %s) AS pos", c.parts(f), order))
	for level := 1; level < len(f.Steps); level++ {
		if era(f, level) == "" {
			continue
		}
		var ends []string
		for i, x := range f.Exclude {
			if x.After <= level && level < x.Before {
				ends = append(ends, strconv.Itoa(-i-1))
			}
		}
		ordered.columns = append(ordered.columns, fmt.Sprintf(
			"sum(CASE WHEN step IN (%s) THEN 1 ELSE 0 END) OVER (PARTITION BY %s ORDER BY ms, step) AS era_%d",
			strings.Join(ends, ", "), c.parts(f), level))
	}
	s := c.runs(f)
	s.let("entries", entries)
	s.let("ordered", ordered)
	return s
}

// alias refuses names of results that are also properties of the query: in
// ClickHouse such a name means the result, not the column.
func (c *compiler) alias(names ...string) {
	for _, n := range names {
		if c.used[n] {
			c.unsupported("a funnel of this form with a property called %s", n)
		}
	}
}

// value returns a property so that all missing values are one, which is the
// smallest: ” of strings, NULL of others, which windows put first.
func (c *compiler) value(property string) string {
	column, t, ok := c.column(property)
	switch {
	case !ok:
		return "''"
	case t == event.String && c.dialect == DuckDB:
		return "coalesce(" + column + ", '')"
	case t == event.String:
		return "toString(" + column + ")"
	}
	return column
}

// scanned adds the levels of all parts, as columns of every entry: level, and, if a
// mode can end the scan, stop: the place of the entry that did.
func (c *compiler) scanned(s *selection, f *query.Funnel, m query.Modes, from string) (stops bool) {
	n := len(f.Steps)
	columns := []string{"*"}
	for k := 1; k <= n; k++ {
		columns = append(columns, fmt.Sprintf("min(CASE WHEN began_%[1]d IS NOT NULL THEN pos END) OVER whole AS reached_%[1]d", k))
	}
	whole := []string{"whole AS (PARTITION BY " + c.parts(f) + ")"}
	s.let("reached", &selection{columns: columns, from: from, window: whole})
	var ends []string
	if m.StrictOrder {
		ends = append(ends, "step = 0 AND pos > reached_1")
	}
	for k := 2; k <= n; k++ {
		if m.StrictDeduplication {
			ends = append(ends, fmt.Sprintf("step = %[1]d AND pos > reached_%[1]d", k))
		}
		if m.StrictOrder && !m.AllowReentry && k > 2 {
			ends = append(ends, fmt.Sprintf("step = %d AND pos > reached_1 AND pos < coalesce(reached_%d, %d)", k, k-1, farAway))
		}
	}
	level, scanned := "CASE\n", "reached"
	for k := n; k >= 1; k-- {
		test := "IS NOT NULL"
		if len(ends) > 0 {
			test = "< stop"
		}
		level += fmt.Sprintf("    WHEN reached_%d %s THEN %d\n", k, test, k)
	}
	if len(ends) > 0 {
		scanned = "scanned"
		stop := fmt.Sprintf("coalesce(min(CASE WHEN\n        %s\n    THEN pos END) OVER whole, %d) AS stop", strings.Join(ends, "\n        OR "), farAway)
		s.let(scanned, &selection{columns: []string{"*", stop}, from: "reached", window: whole})
	}
	s.let("levels", &selection{columns: []string{"*", level + "    ELSE 0\nEND AS level"}, from: scanned})
	return len(ends) > 0
}

// anyOrder counts the distinct steps that lie in one window: from each event to the
// next of every step.
func (c *compiler) anyOrder(f *query.Funnel) *selection {
	s := c.entries(f, query.Modes{})
	n := len(f.Steps)
	terms := make([]string, n)
	for k := 1; k <= n; k++ {
		next := fmt.Sprintf("min(CASE WHEN step = %d THEN ms END) OVER onward", k)
		limit := " IS NOT NULL"
		if !f.NoLimit {
			limit = fmt.Sprintf(" - ms <= %d", window(f))
		}
		terms[k-1] = fmt.Sprintf("    CASE WHEN %s%s THEN 1 ELSE 0 END", next, limit)
	}
	s.let("levels", &selection{
		columns: []string{"*", "(\n" + strings.Join(terms, " +\n") + "\n) AS level"},
		from:    "ordered",
		window:  []string{fmt.Sprintf("onward AS (PARTITION BY %s ORDER BY ms RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", c.parts(f))},
	})
	if len(f.By) == 0 {
		return c.best(s, f)
	}
	c.winners(s, f, "levels", []cond{always}, []string{"ms"})
	return c.counted(s, f)
}
