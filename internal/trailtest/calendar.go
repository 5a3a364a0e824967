package trailtest

import (
	"time"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// periodOf returns the number of the period of the calendar that a time is in; the
// one after it has the next number. Days, weeks and months go by the date in the
// zone; hours and minutes by elapsed time, from the full hours and minutes of the
// zone, so that a clock change neither skips nor repeats a number.
func periodOf(unit query.Unit, millis int64, zone *time.Location) int64 {
	local := time.UnixMilli(millis).In(zone)
	switch unit {
	case query.Month:
		return int64(local.Year())*12 + int64(local.Month()) - 1
	case query.Week:
		return floorDiv(dayNumber(local)+3, 7) // 1970-01-01 was a Thursday
	case query.WeekSunday:
		return floorDiv(dayNumber(local)+4, 7)
	case query.Day:
		return dayNumber(local)
	}
	length := unitMillis(unit)
	return floorDiv(millis+shift(length, local), length)
}

// periodLabel names a period by its start: a date, or RFC 3339 for hours and
// minutes.
func periodLabel(unit query.Unit, n int64, zone *time.Location) string {
	switch unit {
	case query.Month:
		return time.Date(0, 1+time.Month(n), 1, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	case query.Week:
		return time.Unix((n*7-3)*86400, 0).UTC().Format(time.DateOnly)
	case query.WeekSunday:
		return time.Unix((n*7-4)*86400, 0).UTC().Format(time.DateOnly)
	case query.Day:
		return time.Unix(n*86400, 0).UTC().Format(time.DateOnly)
	}
	length := unitMillis(unit)
	start := time.UnixMilli(n * length).In(zone)
	return time.UnixMilli(n*length - shift(length, start)).In(zone).Format(time.RFC3339)
}

// shift returns how far the clock of a zone is past a full period of UTC. Zones
// whose clock changes by less than a period are not foreseen.
func shift(length int64, local time.Time) int64 {
	_, offset := local.Zone()
	return (int64(offset)*1000%length + length) % length
}

func unitMillis(unit query.Unit) int64 {
	if unit == query.Hour {
		return 3600_000
	}
	return 60_000
}

// dayNumber returns the days from 1970-01-01 to the date of a time.
func dayNumber(t time.Time) int64 {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / 86400
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
