package query

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// unitNames are the units as documents write them, by Unit.
var unitNames = [...]string{"none", "minute", "hour", "day", "week", "week_sunday", "month"}

// String returns the unit as documents write it, "none" for NoUnit.
func (u Unit) String() string {
	if int(u) < len(unitNames) {
		return unitNames[u]
	}
	return fmt.Sprintf("Unit(%d)", uint8(u))
}

// meantUnits are other words for units.
var meantUnits = map[string]string{
	"min": "minute", "minutes": "minute", "hours": "hour", "hourly": "hour", "days": "day", "daily": "day",
	"date": "day", "weeks": "week", "weekly": "week", "months": "month", "monthly": "month", "week_monday": "week", "weekly from monday": "week",
	"isoweek": "week", "iso_week": "week", "sunday": "week_sunday", "sundays": "week_sunday", "week sunday": "week_sunday", "week-sunday": "week_sunday",
	"sunday_week": "week_sunday", "weekly from sunday": "week_sunday", "week from sunday": "week_sunday", "weeks from sunday": "week_sunday",
	"week_from_sunday": "week_sunday", "weekly_sunday": "week_sunday", "week(sunday)": "week_sunday", "us_week": "week_sunday",
}

// unitOf returns the unit with a name, from the unit from up to Month.
func unitOf(name string, from Unit) (Unit, bool) {
	i := slices.Index(unitNames[from:], name)
	return from + Unit(i), i >= 0
}

// opNames are the operators as documents write them, by Op; the last two have no
// name of their own.
var opNames = [...]string{
	"exists", "missing", "eq", "ne", "in", "not_in", "contains", "prefix", "suffix", "matches", "not_contains", "not_matches", "gt", "gte", "lt", "lte",
	"between", "cohort", "not cohort",
}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// meantOps are other words for operators.
var meantOps = map[string]string{
	"=": "eq", "==": "eq", "is": "eq", "equals": "eq", "!=": "ne", "<>": "ne", "not": "ne", "neq": "ne", "is_not": "ne",
	">": "gt", ">=": "gte", "ge": "gte", "<": "lt", "<=": "lte", "le": "lte", "nin": "not_in", "notin": "not_in", "not in": "not_in",
	"one_of": "in", "any_of": "in", "like": "contains, prefix, suffix or matches", "regex": "matches", "regexp": "matches", "re": "matches",
	"starts_with": "prefix", "startswith": "prefix", "ends_with": "suffix", "endswith": "suffix", "includes": "contains",
	"has":      "contains",
	"not like": "not_contains or not_matches", "not_like": "not_contains or not_matches", "notlike": "not_contains or not_matches",
	"not contains": "not_contains", "notcontains": "not_contains", "!contains": "not_contains", "doesn't contain": "not_contains",
	"doesnt_contain": "not_contains", "does not contain": "not_contains", "does_not_contain": "not_contains", "excludes": "not_contains",
	"not_includes": "not_contains", "not matches": "not_matches", "notmatches": "not_matches", "not_match": "not_matches", "not_regex": "not_matches",
	"not_regexp": "not_matches", "nregex": "not_matches", "!~": "not_matches", "=~": "matches", "~": "matches", "match": "matches",
	"doesn't match": "not_matches", "does_not_match": "not_matches", "not_exists": "missing", "not_null": "exists", "is_not_null": "exists",
	"not_prefix": "not_matches with ^ before the text", "not_suffix": "not_matches with $ behind the text", "range": "between", "exist": "exists", "null": "missing", "is_null": "missing", "min": "gte", "max": "lte",
}

// maxDuration is the longest duration, about a century, so that 366 periods are
// within the times that events can have many times over.
const maxDuration = 36500 * 24 * time.Hour

var (
	durationText = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d|w))+$`)
	durationPart = regexp.MustCompile(`([0-9.]+)([a-zµ]+)`)
)

var errNoUnit = errors.New("has no unit")

const durationHint = "write a duration such as 30m, 1h30m, 168h, 7d or 2w"

// durationOf reads a duration: as Go writes it, and days (24 hours) and weeks.
func durationOf(s string) (time.Duration, error) {
	if !durationText.MatchString(s) {
		if strings.Trim(s, "0123456789.") == "" && s != "" {
			return 0, fmt.Errorf("%s %w", quote(s), errNoUnit)
		}
		return 0, fmt.Errorf("%s is not a duration", quote(s))
	}
	var sum time.Duration
	for _, part := range durationPart.FindAllStringSubmatch(s, -1) {
		number, unit, times := part[1], part[2], time.Duration(1)
		switch unit {
		case "d":
			unit, times = "h", 24
		case "w":
			unit, times = "h", 7*24
		}
		d, err := time.ParseDuration(number + unit)
		if err != nil || d > maxDuration/times {
			return 0, fmt.Errorf("%s is more than a hundred years", quote(s))
		}
		if sum += d * times; sum > maxDuration {
			return 0, fmt.Errorf("%s is more than a hundred years", quote(s))
		}
	}
	return sum, nil
}

// formatDuration writes a duration so that durationOf reads the same.
func formatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d > 0 && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

const timeHint = "write 2026-01-31, which is midnight UTC, or 2026-01-31T13:00:00Z"

// timeOf reads a time: RFC 3339, or a date, which begins at midnight UTC.
func timeOf(s string) (int64, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		t, err = time.Parse(time.RFC3339, s)
	}
	if err != nil {
		return 0, fmt.Errorf("%s is not a time", quote(s))
	}
	millis := event.Millis(t)
	if millis < event.MinTime || millis > event.MaxTime {
		return 0, fmt.Errorf("%s is not between the years 1 and 9999", quote(s))
	}
	return millis, nil
}

// formatTime writes milliseconds since 1970 so that timeOf reads the same.
func formatTime(millis int64) string { return event.Time(millis).Format(time.RFC3339Nano) }

// zoneOf returns a time zone by its name in the database of time zones.
func zoneOf(name string) (*time.Location, error) {
	if name == "" || name == "Local" || len(name) > 100 {
		return nil, errors.New("it must be the name of a time zone")
	}
	if name == "UTC" {
		return time.UTC, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %s", quote(name))
	}
	return zone, nil
}
