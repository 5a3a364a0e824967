package exec

import (
	"cmp"
	"math"
	"math/bits"
	"sort"
	"time"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// floor returns the beginning of the calendar unit that a time is in, in the
// zone of the time.
func floor(t time.Time, unit query.Unit) time.Time {
	y, m, d := t.Date()
	switch unit {
	case query.Minute:
		return t.Add(-time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case query.Hour:
		return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case query.Week:
		d -= (int(t.Weekday()) + 6) % 7
	case query.WeekSunday:
		d -= int(t.Weekday())
	case query.Month:
		d = 1
	}
	return dayStart(y, m, d, t.Location())
}

// dayStart returns the first instant of a day: not midnight where clocks are put
// forward then, the first of two midnights where they are put back.
func dayStart(y int, m time.Month, d int, zone *time.Location) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, zone)
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Day()
	if t.Day() != day {
		// time.Date took an hour that does not exist to lie on the day before.
		_, end := t.ZoneBounds()
		return end
	}
	if changed, _ := t.ZoneBounds(); !changed.IsZero() {
		_, now := t.Zone()
		_, before := changed.Add(-1).Zone()
		first := t.Add(time.Duration(now-before) * time.Second)
		if first.Before(changed) && first.Day() == day {
			return first
		}
	}
	return t
}

// next returns the beginning of the unit after the one that begins at t.
func next(t time.Time, unit query.Unit) time.Time {
	y, m, d := t.Date()
	switch unit {
	case query.Minute:
		return nextClock(t, time.Minute, unit)
	case query.Hour:
		return nextClock(t, time.Hour, unit)
	case query.Week, query.WeekSunday:
		return dayStart(y, m, d+7, t.Location())
	case query.Month:
		return dayStart(y, m+1, 1, t.Location())
	}
	return dayStart(y, m, d+1, t.Location())
}

// nextClock is next for minutes and hours. If the clock changes by a part of an hour,
// one hour ends at the change and the next at the full hour.
func nextClock(t time.Time, length time.Duration, unit query.Unit) time.Time {
	n := t.Add(length)
	end := floor(n, unit)
	if !end.After(t) {
		end = n
	}
	if changed, _ := n.ZoneBounds(); !changed.IsZero() && changed.After(t) && end.Before(changed) {
		return changed
	}
	return end
}

// A calendar has the units of some spans of time. Times between two spans count as the
// last unit of the first span; there are no events at such times.
type calendar struct {
	starts   []int64 // in milliseconds; one more than there are units
	shortest int64   // of the units
	zone     *time.Location
	unit     query.Unit
}

// maxUnits bounds a calendar: minutes of nearly four years.
const maxUnits = 2_000_000

// A span is times from the first to the last, both included.
type span struct{ first, last int64 }

// newCalendar returns the units that hold the times of spans, which come by their
// first time, and more units after each.
func newCalendar(spans []span, unit query.Unit, zone *time.Location, more int, held *budget) (*calendar, error) {
	zone = cmp.Or(zone, time.UTC)
	if len(spans) == 0 {
		spans = []span{{}} // so that there is a unit
	}
	c := &calendar{zone: zone, unit: unit, shortest: math.MaxInt64}
	var last time.Time // of starts
	for _, s := range spans {
		t := floor(time.UnixMilli(s.first).In(zone), unit)
		if len(c.starts) > 0 && !t.After(last) {
			t = next(last, unit)
		}
		end := floor(time.UnixMilli(s.last).In(zone), unit)
		for range more + 1 {
			end = next(end, unit)
		}
		for ; !t.After(end); t = next(t, unit) {
			if len(c.starts) > maxUnits {
				return nil, errorAt(query.Pos{}, "choose larger units, or give from and to", "more than %d %ss between the first event and the last", maxUnits, unit)
			}
			if n := len(c.starts); n > 0 {
				c.shortest = min(c.shortest, t.UnixMilli()-c.starts[n-1])
			}
			c.starts = append(c.starts, t.UnixMilli())
			last = t
		}
	}
	return c, held.take(8 * int64(cap(c.starts)))
}

// units returns how many units there are.
func (c *calendar) units() int { return len(c.starts) - 1 }

// find returns the unit of a time, the first or last one if it lies outside.
func (c *calendar) find(t int64) int {
	i := sort.Search(len(c.starts), func(i int) bool { return c.starts[i] > t }) - 1
	return min(max(0, i), c.units()-1)
}

// label returns the name of a unit as answers have it.
func (c *calendar) label(i int) string {
	t := time.UnixMilli(c.starts[i]).In(c.zone)
	if c.unit == query.Minute || c.unit == query.Hour {
		return t.Format(time.RFC3339)
	}
	return t.Format(time.DateOnly)
}

// labelled returns the times of the unit with a label, the end excluded. If there is no
// such unit, both are later than all events.
func labelled(label string, unit query.Unit, zone *time.Location) (from, to int64) {
	zone = cmp.Or(zone, time.UTC)
	layout := time.DateOnly
	if unit == query.Minute || unit == query.Hour {
		layout = time.RFC3339
	}
	t, err := time.Parse(layout, label)
	if layout == time.DateOnly {
		y, m, d := t.Date()
		t = dayStart(y, m, d, zone)
	}
	t = t.In(zone)
	changed, _ := t.ZoneBounds() // where a unit may begin, too
	c := calendar{starts: []int64{t.UnixMilli()}, zone: zone, unit: unit}
	if err != nil || c.label(0) != label || !floor(t, unit).Equal(t) && !changed.Equal(t) {
		return math.MaxInt64, math.MaxInt64
	}
	return t.UnixMilli(), next(t, unit).UnixMilli()
}

// A bucketIndex finds the units of a segment's times without a division: a time's offset
// is shifted to a step, which is so short that at most one unit begins in it.
type bucketIndex struct {
	shift  uint
	unit   []uint32 // by step: the unit of its first offset
	begins []uint64 // by step: the first offset that is of the next unit
}

// index makes an index for offsets up to last of unit milliseconds each from base on.
// It is nil if it would have more steps than there are rows: calendar.find
// is cheaper then.
func (c *calendar) index(base, unit int64, last uint32, rows int, held *budget) (*bucketIndex, error) {
	steps := c.shortest / unit // of offsets in the shortest unit
	if steps < 1 {
		return nil, nil
	}
	r := &bucketIndex{shift: uint(min(bits.Len64(uint64(steps))-1, 31))}
	n := int(last>>r.shift) + 1
	if n > max(rows, 64) {
		return nil, nil
	}
	r.unit, r.begins = make([]uint32, n), make([]uint64, n)
	u := c.find(base)
	for i := range n {
		at := base + unit*(int64(i)<<r.shift)
		for u+1 < c.units() && c.starts[u+1] <= at {
			u++
		}
		r.unit[i], r.begins[i] = uint32(u), math.MaxUint32+1
		if u+1 < c.units() {
			r.begins[i] = uint64(max(0, (c.starts[u+1]-base+unit-1)/unit))
		}
	}
	return r, held.take(12 * int64(n))
}

// find returns the unit of an offset.
func (r *bucketIndex) find(offset uint32) uint32 {
	i := offset >> r.shift
	after := (r.begins[i] - 1 - uint64(offset)) >> 63 // 1 if it is not before begins
	return r.unit[i] + uint32(after)
}
