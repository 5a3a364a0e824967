package dialect

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// segment groups events by bucket and properties. Columns of the answer: bucket,
// if there is one (a date, or the number of hours or minutes since 1970), the
// properties, value.
func (c *compiler) segment(q *query.Segment) *selection {
	c.shape = shape{kind: segmentShape}
	s := &selection{from: c.table, where: []cond{c.match(q.Match), c.bounds(q.Bounds), c.sample()}}
	if q.Bucket != query.NoUnit {
		bucket := c.derived("bucket")
		sql := ""
		if q.Bucket >= query.Day {
			sql = c.date("time", q.Bucket, q.Zone)
			if c.dialect == ClickHouse {
				s.settings = extended
			}
		} else {
			c.note("Buckets are " + unitName(q.Bucket) + "s since 1970.")
			sql = c.ordinal("time", q.Bucket, q.Zone)
		}
		s.columns = append(s.columns, sql+" AS "+bucket)
		s.groupBy = append(s.groupBy, bucket)
		s.orderBy = append(s.orderBy, bucket)
		if q.Fill {
			c.note("Buckets without events are added when the rows are read.")
		}
	}
	var groups []string
	for i, property := range q.By {
		column, t, ok := c.column(property)
		switch {
		case !ok:
			column = c.derived(fmt.Sprintf("group_%d", i+1))
			s.columns = append(s.columns, "'' AS "+column)
		case t == event.String && c.dialect == DuckDB:
			// So a missing string is one group, and an ENUM stays one.
			group := c.derived(fmt.Sprintf("group_%d", i+1))
			s.columns = append(s.columns, "nullif("+column+", '') AS "+group)
			column = group
		default:
			s.columns = append(s.columns, column)
		}
		if ok {
			s.groupBy = append(s.groupBy, column)
		}
		groups = append(groups, column)
	}
	value := c.derived("value")
	s.columns = append(s.columns, c.measure(q.Measure)+" AS "+value)
	if len(s.groupBy) > 0 {
		s.orderBy = append(s.orderBy, value+" DESC NULLS LAST")
		for _, g := range groups {
			s.orderBy = append(s.orderBy, g+" NULLS FIRST")
		}
	} else if len(groups) > 0 {
		// Properties that nobody has make one group, of events if there are any.
		s.having = []cond{is("count(*) > 0")}
		s.orderBy = nil
	}
	return s
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
		c.fail(fmt.Errorf("property %q is of type %s, which cannot be measured", m.Property, t))
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
