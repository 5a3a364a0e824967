package dialect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// segment groups events by bucket and properties. Columns of the answer: bucket,
// if there is one (a date, or the number of hours or minutes since 1970), the
// properties, value.
func (c *compiler) segment(q *query.Segment) *selection {
	c.shape = shape{kind: segmentShape}
	s := &selection{from: table, where: []cond{c.match(q.Match), c.bounds(q.Bounds), c.sample()}}
	var names []string // of the columns before the value
	if q.Bucket != query.NoUnit {
		names = append(names, c.derived("bucket"))
		s.columns = append(s.columns, c.bucket(s, q)+" AS "+names[0])
		s.groupBy = append(s.groupBy, names[0])
	}
	for i, property := range q.By {
		column, sql := c.group(property, i+1)
		names = append(names, column)
		s.columns = append(s.columns, sql)
		if !strings.HasPrefix(sql, "''") {
			s.groupBy = append(s.groupBy, column)
		}
	}
	value := c.derived("value")
	grouped := len(s.groupBy) > 0
	if !grouped && len(names) > 0 {
		// Properties that no event has make one group, of events if there are any.
		s.having = []cond{is("count(*) > 0")}
	}
	if c.share() < 1 && (q.Measure.Kind == query.Count || q.Measure.Kind == query.Sum) {
		s = c.byUser(s, q.Measure, names, value)
	} else {
		s.columns = append(s.columns, c.measure(q.Measure)+" AS "+value)
	}
	if grouped {
		order := value + " DESC NULLS LAST"
		if q.Bucket != query.NoUnit {
			s.orderBy = append(s.orderBy, names[0])
			names = names[1:]
		}
		s.orderBy = append(s.orderBy, order)
		for _, n := range names {
			s.orderBy = append(s.orderBy, n+" NULLS FIRST")
		}
	}
	return s
}

// bucket returns the bucket of an event: a date, or a number.
func (c *compiler) bucket(s *selection, q *query.Segment) string {
	if q.Fill {
		c.note("Buckets without events are added when the rows are read.")
	}
	if q.Bucket < query.Day {
		c.note("Buckets are " + unitName(q.Bucket) + "s since 1970.")
		return c.ordinal("time", q.Bucket, q.Zone)
	}
	if c.dialect == ClickHouse {
		s.settings = extended
	}
	return c.date("time", q.Bucket, q.Zone)
}

// group returns a property to group by, and how to select it; one that no event has
// is an empty literal.
func (c *compiler) group(property string, i int) (column, sql string) {
	column, t, ok := c.column(property)
	alias := c.derived(fmt.Sprintf("group_%d", i))
	switch {
	case !ok:
		return alias, "'' AS " + alias
	case t == event.String && c.dialect == DuckDB:
		// So a missing string is one group, and an ENUM stays one.
		return alias, "nullif(" + column + ", '') AS " + alias
	}
	return column, column
}

// byUser measures a sample: as users are drawn, not events, the error depends on
// how much each of them has. The answer has one column more, the sum of squares.
func (c *compiler) byUser(s *selection, m query.Measure, names []string, value string) *selection {
	part := c.derived("part")
	outer := &selection{groupBy: s.groupBy, having: s.having, settings: s.settings, sub: s}
	sum := "sum(" + part + ")"
	if m.Kind == query.Count {
		sum = "coalesce(" + sum + ", 0)"
	}
	square := fmt.Sprintf(c.pick("toFloat64(%[1]s) * toFloat64(%[1]s)", "%[1]s::DOUBLE * %[1]s::DOUBLE"), part)
	outer.columns = append(slices.Clone(names), sum+" AS "+value, "sum("+square+") AS squares")
	s.columns = append(s.columns, "user", c.measure(m)+" AS "+part)
	s.groupBy = append(slices.Clone(s.groupBy), "user")
	s.having, s.settings = nil, ""
	return outer
}

// measure returns the SQL of a measure.
func (c *compiler) measure(m query.Measure) string {
	switch m.Kind {
	case query.Count:
		return "count(*)"
	case query.Users:
		return c.pick("uniqExact(user)", "count(DISTINCT user)")
	}
	column, t, ok := c.column(m.Property)
	switch {
	case !ok:
		return "NULL"
	case t != event.Int && t != event.Float:
		c.fail(&query.Error{Msg: fmt.Sprintf("property %q is of type %s, which cannot be measured", m.Property, t), Hint: "measure an integer or a number, or use count or users"})
	case m.Kind == query.Sum && t == event.Int && c.dialect == ClickHouse:
		return "sum(toInt128(" + column + "))" // a sum of Int64 wraps
	case m.Kind == query.Avg && t == event.Int && c.dialect == ClickHouse:
		return "toFloat64(sum(toInt128(" + column + "))) / count(" + column + ")"
	case m.Kind == query.Percentile && c.dialect == DuckDB:
		return fmt.Sprintf("quantile_disc(%s, 0.%02d)", column, m.Percentile)
	case m.Kind == query.Percentile:
		// The nearest rank; quantileExact takes the one after it if that is whole.
		return fmt.Sprintf("arrayElementOrNull(arraySort(groupArray(%[1]s)), intDiv(%[2]d * count(%[1]s) + 99, 100))", column, m.Percentile)
	}
	return map[query.MeasureKind]string{query.Sum: "sum", query.Avg: "avg", query.Min: "min", query.Max: "max"}[m.Kind] + "(" + column + ")"
}
