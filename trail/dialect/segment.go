package dialect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// segment groups events by bucket and properties. Columns of the answer: bucket,
// if there is one (a date, or the number of hours or minutes since 1970), the
// properties, value.
func (c *compiler) segment(q *query.Segment) *selection {
	c.read = segmentAnswer
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
		c.note("Buckets are " + q.Bucket.String() + "s since 1970.")
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

// A segmentLine is a row with the number of its bucket, by which rows are ordered
// and filled.
type segmentLine struct {
	bucket int64
	row    query.SegmentRow
}

func segmentAnswer(s *Statement, r *reader, rows [][]any, answer *query.Answer) {
	q := s.query.Segment
	a := &query.SegmentAnswer{Bucketed: q.Bucket != query.NoUnit, By: q.By}
	var lines []segmentLine
	for _, row := range rows {
		var l segmentLine
		column := 0
		if a.Bucketed {
			if q.Bucket >= query.Day {
				l.bucket = bucketOf(q.Bucket, r.date(r.at(row, 0)), r)
			} else {
				l.bucket = r.integer(r.at(row, 0))
			}
			column++
		}
		for _, property := range q.By {
			l.row.Group = append(l.row.Group, r.value(r.at(row, column), s.schema.Type(property)))
			column++
		}
		l.row.Value = r.measured(row[min(column, len(row)):], q.Measure.Kind, s.schema.Type(q.Measure.Property))
		lines = append(lines, l)
	}
	if q.Fill && a.Bucketed {
		lines = filled(lines, q.Measure.Kind)
	}
	slices.SortStableFunc(lines, func(x, y segmentLine) int {
		return cmp.Or(
			cmp.Compare(x.bucket, y.bucket),
			compareMeasured(y.row.Value, x.row.Value),
			slices.CompareFunc(x.row.Group, y.row.Group, compareValues),
		)
	})
	for _, l := range lines {
		if a.Bucketed {
			l.row.Bucket = s.label(q, l.bucket)
		}
		a.Rows = append(a.Rows, l.row)
	}
	answer.Segment = a
}

// bucketOf returns the number of the day, week or month that a date begins.
func bucketOf(u query.Unit, date string, r *reader) int64 {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		r.fail(err)
		return 0
	}
	days := t.Unix() / 86400 // exact: t is midnight
	switch u {
	case query.Week:
		return (days + 3) / 7 // exact: t is a Monday
	case query.Month:
		return int64(t.Year())*12 + int64(t.Month()) - 1
	}
	return days
}

// label names a bucket by its start.
func (s *Statement) label(q *query.Segment, n int64) string {
	switch q.Bucket {
	case query.Month:
		return time.Date(0, 1+time.Month(n), 1, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	case query.Week:
		return time.Unix((n*7-3)*86400, 0).UTC().Format(time.DateOnly)
	case query.Day:
		return time.Unix(n*86400, 0).UTC().Format(time.DateOnly)
	}
	zone := cmp.Or(q.Zone, time.UTC)
	shift := (&compiler{}).shift(q.Bucket, zone)
	return time.UnixMilli(n*clockMillis(q.Bucket) - shift).In(zone).Format(time.RFC3339)
}

// filled adds to each bucket from the first to the last the groups that it lacks.
func filled(lines []segmentLine, kind query.MeasureKind) []segmentLine {
	if len(lines) == 0 {
		return nil
	}
	groups, have := map[string][]event.Value{}, map[string]bool{}
	key := func(bucket int64, group []event.Value) string { return fmt.Sprintf("%d %q", bucket, group) }
	low, high := lines[0].bucket, lines[0].bucket
	for _, l := range lines {
		low, high = min(low, l.bucket), max(high, l.bucket)
		groups[key(0, l.row.Group)] = l.row.Group
		have[key(l.bucket, l.row.Group)] = true
	}
	var empty query.Measured
	if kind <= query.Users {
		empty.Type = event.Int
	}
	for bucket := low; bucket <= high; bucket++ {
		for _, group := range groups {
			if !have[key(bucket, group)] {
				lines = append(lines, segmentLine{bucket, query.SegmentRow{Group: group, Value: empty}})
			}
		}
	}
	return lines
}
