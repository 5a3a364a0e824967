package exec

import (
	"fmt"
	"math"
	"math/bits"
	"sort"
	"time"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// floor returns the beginning of the calendar unit that a time is in, in the
// zone of the time. Weeks begin on Monday.
func floor(t time.Time, unit query.Unit) time.Time {
	y, m, d := t.Date()
	switch unit {
	case query.Minute:
		return t.Add(-time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case query.Hour:
		return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case query.Week:
		d -= (int(t.Weekday()) + 6) % 7
	case query.Month:
		d = 1
	}
	return dayStart(y, m, d, t.Location())
}

// dayStart returns the first instant of a day, which is not midnight where clocks
// are put forward then.
func dayStart(y int, m time.Month, d int, zone *time.Location) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	if before := time.Date(y, m, d, 0, 0, 0, 0, time.UTC); t.Day() != before.Day() {
		// time.Date took an hour that does not exist to lie on the day before.
		_, end := t.ZoneBounds()
		return end
	}
	return t
}

// next returns the beginning of the unit after the one that begins at t.
func next(t time.Time, unit query.Unit) time.Time {
	y, m, d := t.Date()
	switch unit {
	case query.Minute:
		return t.Add(time.Minute)
	case query.Hour:
		return t.Add(time.Hour)
	case query.Week:
		return dayStart(y, m, d+7, t.Location())
	case query.Month:
		return dayStart(y, m+1, 1, t.Location())
	}
	return dayStart(y, m, d+1, t.Location())
}

// A calendar is a run of units that follow on each other.
type calendar struct {
	starts []int64 // in milliseconds; one more than there are units
	zone   *time.Location
	unit   query.Unit
}

// maxUnits bounds a calendar: a year of minutes, and a little.
const maxUnits = 600_000

// newCalendar returns the units that hold the times from lo to hi, both included,
// and more units after them.
func newCalendar(lo, hi int64, unit query.Unit, zone *time.Location, more int) (*calendar, error) {
	if zone == nil {
		zone = time.UTC
	}
	c := &calendar{zone: zone, unit: unit}
	t := floor(time.UnixMilli(lo).In(zone), unit)
	for after := 0; after <= more; t = next(t, unit) {
		if len(c.starts) > maxUnits {
			return nil, errorAt(query.Pos{}, "choose larger units, or give from and to", "more than %d %ss between the first event and the last", maxUnits, unitName(unit))
		}
		c.starts = append(c.starts, t.UnixMilli())
		if t.UnixMilli() > hi {
			after++
		}
	}
	return c, nil
}

// units returns how many units there are.
func (c *calendar) units() int { return len(c.starts) - 1 }

// find returns the unit of a time that lies in the calendar.
func (c *calendar) find(t int64) int {
	return sort.Search(len(c.starts), func(i int) bool { return c.starts[i] > t }) - 1
}

// label returns the name of a unit as answers have it.
func (c *calendar) label(i int) string {
	t := time.UnixMilli(c.starts[i]).In(c.zone)
	if c.unit == query.Minute || c.unit == query.Hour {
		return t.Format(time.RFC3339)
	}
	return t.Format(time.DateOnly)
}

func unitName(u query.Unit) string {
	switch u {
	case query.Minute:
		return "minute"
	case query.Hour:
		return "hour"
	case query.Week:
		return "week"
	case query.Month:
		return "month"
	}
	return "day"
}

// A ruler finds the units of a segment's times without a division: a time's offset
// is shifted to a step, which is so short that at most one unit begins in it.
type ruler struct {
	shift  uint
	unit   []uint32 // by step: the unit of its first offset
	begins []uint32 // by step: the first offset that is of the next unit
}

// ruler makes a ruler for offsets up to last.
func (c *calendar) ruler(base, unit int64, last uint32) (*ruler, error) {
	shortest := c.starts[1] - c.starts[0]
	for i := 1; i < len(c.starts); i++ {
		shortest = min(shortest, c.starts[i]-c.starts[i-1])
	}
	steps := shortest / unit // of offsets in the shortest unit
	if steps < 1 {
		return nil, fmt.Errorf("a %s is shorter than the steps of time", unitName(c.unit))
	}
	r := &ruler{shift: uint(min(bits.Len64(uint64(steps))-1, 31))}
	n := int(last>>r.shift) + 1
	r.unit, r.begins = make([]uint32, n), make([]uint32, n)
	for i := range n {
		at := int64(i) << r.shift
		u := min(max(0, c.find(base+unit*at)), c.units()-1) // rows outside do not count
		r.unit[i] = uint32(u)
		r.begins[i] = math.MaxUint32
		if u+1 < c.units() {
			r.begins[i] = uint32(min(max(0, (c.starts[u+1]-base+unit-1)/unit), math.MaxUint32))
		}
	}
	return r, nil
}

// find returns the unit of an offset.
func (r *ruler) find(offset uint32) uint32 {
	i := offset >> r.shift
	after := (uint64(r.begins[i]) - 1 - uint64(offset)) >> 63 // 1 if it is not before begins
	return r.unit[i] + uint32(after)
}
