package dialect

import (
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// A trend asks for a funnel of each bucket in which a user did step 1. So each event of
// a user takes part once for each such bucket; together they are a run. One run more, of
// all buckets, answers for the funnel as a whole. A run goes from the first event of step
// 1 to the end of the window after the last: what is outside changes no level. Columns
// of runs: user; total, 1 for the whole; bucket; since and until, the times of the first
// and the last step 1. Their names are none of the table's.

// runColumns returns the columns that identify a run, the user first.
func (c *compiler) runColumns(f *query.Funnel) []string {
	if f.Bucket == query.NoUnit {
		return []string{"user"}
	}
	return []string{"user", c.derived("total"), c.derived("bucket")}
}

// runs begins a statement, with runs if there is a trend.
func (c *compiler) runs(f *query.Funnel) *selection {
	s := &selection{}
	if f.Bucket == query.NoUnit {
		return s
	}
	c.note("A run is the events of a user from the first step 1 in a bucket, or from the first of all (total = 1).")
	exists, _ := c.same(f)
	total, bucket, since, until := c.derived("total"), c.derived("bucket"), c.derived("since"), c.derived("until")
	place, ms := c.derived("in_bucket"), c.derived("step_ms")
	firsts := &selection{
		columns: []string{"user", c.bucket(s, f.Bucket, f.Zone) + " AS " + place, c.millis("time") + " AS " + ms},
		from:    table, where: []cond{c.match(f.Steps[0]), c.bounds(f.Bounds), c.sample(), exists},
	}
	s.let("firsts", firsts)
	bounds := []string{"min(" + ms + ") AS " + since, "max(" + ms + ") AS " + until}
	each := &selection{
		columns: append([]string{"user", "0 AS " + total, place + " AS " + bucket}, bounds...),
		from:    "firsts", groupBy: []string{"user", place},
	}
	if u := c.query.Users; u != nil {
		each.where = []cond{c.labelled(place, f.Bucket, f.Zone, u.Bucket)}
		s.let("runs", each)
		return s
	}
	whole := &selection{
		columns: append([]string{"user", "1 AS " + total, c.someBucket(f.Bucket) + " AS " + bucket}, bounds...),
		from:    "firsts", groupBy: []string{"user"},
	}
	s.let("runs", &selection{union: []*selection{each, whole}})
	return s
}

// someBucket returns the bucket of what is in none.
func (c *compiler) someBucket(unit query.Unit) string {
	if unit < query.Day {
		return c.pick("toInt64(0)", "0::BIGINT")
	}
	return c.pick("toDate32('1970-01-01')", "DATE '1970-01-01'")
}

// runTable returns the table of the events of a funnel.
func (c *compiler) runTable(f *query.Funnel) string {
	if f.Bucket == query.NoUnit {
		return table
	}
	return table + " JOIN runs USING (user)"
}

// inRun returns the condition that an event is in a run.
func (c *compiler) inRun(f *query.Funnel) cond {
	if f.Bucket == query.NoUnit {
		return always
	}
	inside := is(c.millis("time") + " >= " + c.derived("since"))
	if f.NoLimit {
		return inside
	}
	return all(inside, is(fmt.Sprintf("%s - %s <= %d", c.millis("time"), c.derived("until"), window(f))))
}

// step returns the condition that an event is a step, counted from 0.
func (c *compiler) step(f *query.Funnel, k int) cond {
	match := c.match(f.Steps[k])
	if k == 0 && f.Bucket != query.NoUnit {
		return all(match, is(c.millis("time")+" <= "+c.derived("until")))
	}
	return match
}

// bucket returns the bucket of an event: a date, or a number.
func (c *compiler) bucket(s *selection, unit query.Unit, zone *time.Location) string {
	if unit < query.Day {
		c.note("Buckets are " + unit.String() + "s since 1970.")
		return c.ordinal("time", unit, zone)
	}
	if c.dialect == ClickHouse {
		s.settings = extended
	}
	return c.date("time", unit, zone)
}

// labelled returns the condition that a bucket is the one that answers call so. A label
// that no bucket has is never true.
func (c *compiler) labelled(column string, unit query.Unit, zone *time.Location, label string) cond {
	if unit >= query.Day {
		day, err := time.Parse(time.DateOnly, label)
		if err != nil {
			return never
		}
		text := day.Format(time.DateOnly)
		return is(column + " = " + c.pick("toDate32('"+text+"')", "DATE '"+text+"'"))
	}
	at, err := time.Parse(time.RFC3339, label)
	if err != nil {
		return never
	}
	n := floorDiv(at.UnixMilli()+c.zoneShift(unit, zone), clockMillis(unit))
	if bucketLabel(unit, zone, n) != label {
		return never
	}
	return is(fmt.Sprintf("%s = %d", column, n))
}

func floorDiv(a, b int64) int64 { return (a - ((a%b)+b)%b) / b }

// bucketAt reads a bucket as a number of which the one after has the next.
func (r *reader) bucketAt(u query.Unit, v any) int64 {
	if u < query.Day {
		return r.integer(v)
	}
	t, err := time.Parse(time.DateOnly, r.date(v))
	if err != nil {
		r.fail(err)
		return 0
	}
	days := t.Unix() / 86400 // exact: t is midnight
	switch u {
	case query.Week:
		return (days + 3) / 7 // exact: t is a Monday
	case query.WeekSunday:
		return (days + 4) / 7
	case query.Month:
		return int64(t.Year())*12 + int64(t.Month()) - 1
	}
	return days
}

// bucketLabel names a bucket by its start.
func bucketLabel(u query.Unit, zone *time.Location, n int64) string {
	switch u {
	case query.Month:
		return time.Date(0, 1+time.Month(n), 1, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	case query.Week:
		return time.Unix((n*7-3)*86400, 0).UTC().Format(time.DateOnly)
	case query.WeekSunday:
		return time.Unix((n*7-4)*86400, 0).UTC().Format(time.DateOnly)
	case query.Day:
		return time.Unix(n*86400, 0).UTC().Format(time.DateOnly)
	}
	if zone == nil {
		zone = time.UTC
	}
	shift := (&compiler{}).zoneShift(u, zone)
	return time.UnixMilli(n*clockMillis(u) - shift).In(zone).Format(time.RFC3339)
}
