package tabular

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// A unit of time, as its number in a second; 0 means that the size decides.
type unit int64

const (
	bySize       unit = 0
	seconds      unit = 1
	milliseconds unit = 1_000
	microseconds unit = 1_000_000
	nanoseconds  unit = 1_000_000_000
)

func unitOf(name string) (unit, error) {
	u, ok := map[string]unit{"": bySize, "s": seconds, "ms": milliseconds, "us": microseconds, "ns": nanoseconds}[name]
	if ok {
		return u, nil
	}
	return 0, fmt.Errorf("time unit %q: want s, ms, us or ns", name)
}

// Sizes that decide the unit: seconds reach the year 5138, milliseconds a thousand
// times that number, and so on. Smaller numbers are of the larger unit; 0 is 1970 in
// any.
const (
	maxSeconds      = 100_000_000_000
	maxMilliseconds = maxSeconds * 1000
	maxMicroseconds = maxMilliseconds * 1000
)

var (
	errTime      = errors.New("not a time: want RFC 3339 or a number")
	errTimeRange = errors.New("the time is outside the years 1 to 9999")
)

// millisOf turns v of a unit into milliseconds, floored.
func millisOf(v int64, u unit) (int64, error) {
	if u == bySize {
		switch abs := max(v, -v); { // MinInt64 stays negative: sorted out here
		case abs < 0 || abs >= maxMicroseconds:
			u = nanoseconds
		case abs >= maxMilliseconds:
			u = microseconds
		case abs >= maxSeconds:
			u = milliseconds
		default:
			u = seconds
		}
	}
	switch u {
	case seconds:
		if v < event.MinTime/1000 || v > event.MaxTime/1000 {
			return 0, errTimeRange
		}
		v *= 1000
	case microseconds:
		v = floorDiv(v, 1000)
	case nanoseconds:
		v = floorDiv(v, 1_000_000)
	}
	if v < event.MinTime || v > event.MaxTime {
		return 0, errTimeRange
	}
	return v, nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// millisOfFloat is millisOf for a number with a fraction.
func millisOfFloat(v float64, u unit) (int64, error) {
	if math.IsNaN(v) || math.Abs(v) >= 1<<63 {
		return 0, errTimeRange
	}
	whole := math.Floor(v)
	if u == seconds || u == bySize && math.Abs(v) < maxSeconds {
		if math.Abs(v) >= maxMilliseconds {
			return 0, errTimeRange
		}
		// To microseconds first, because the number nearest to 1700000000.123 is smaller.
		return millisOf(int64(math.Round(v*1e6)), microseconds)
	}
	return millisOf(int64(whole), u)
}

// ParseDate reads RFC 3339, also with a space instead of the T, without a zone (which
// is UTC then), or a date alone. It returns milliseconds since 1970, floored.
func ParseDate(text string) (millis int64, err error) {
	if len(text) < 10 {
		return 0, errTime
	}
	return parseDate(text)
}

// parseTime reads a time as files have it: as ParseDate does, or as a number.
func parseTime(s string, u unit) (int64, error) {
	if len(s) >= 10 && s[4] == '-' {
		return parseDate(s)
	}
	if v, ok := parseInt(s); ok {
		return millisOf(v, u)
	}
	return parseFraction(s, u)
}

// parseFraction reads a decimal number with a fraction; of the form 12.345
// exactly, which a float64 of seconds would not be.
func parseFraction(s string, u unit) (int64, error) {
	f, err := parseFloat(s)
	if err != nil {
		return 0, errTime
	}
	whole, fraction, found := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	v, ok := parseInt(whole)
	if !found || !ok || strings.ContainsAny(fraction, "eE") {
		return millisOfFloat(f, u)
	}
	if u == seconds || u == bySize && v < maxSeconds {
		if v >= maxSeconds*10 {
			return 0, errTimeRange
		}
		u = milliseconds
		for i := range 3 {
			v *= 10
			if i < len(fraction) {
				v += int64(fraction[i] - '0')
			}
		}
		fraction = fraction[min(3, len(fraction)):]
	}
	if s[0] == '-' {
		v = -v
		if strings.Trim(fraction, "0") != "" {
			v-- // the floor
		}
	}
	return millisOf(v, u)
}

// parseDate reads RFC 3339 and its kin. time.Parse takes ten times as long.
func parseDate(s string) (int64, error) {
	year, ok1 := digits(s, 0, 4)
	month, ok2 := digits(s, 5, 2)
	day, ok3 := digits(s, 8, 2)
	if !ok1 || !ok2 || !ok3 || s[4] != '-' || s[7] != '-' {
		return 0, errTime
	}
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, fmt.Errorf("there is no day %s", strings.Clone(s[:10]))
	}
	millis := daysFrom(year, month, day) * 86_400_000
	s = s[10:]
	if s != "" {
		if s[0] != 'T' && s[0] != 't' && s[0] != ' ' {
			return 0, errTime
		}
		s = s[1:]
		hour, ok1 := digits(s, 0, 2)
		minute, ok2 := digits(s, 3, 2)
		second, ok3 := digits(s, 6, 2)
		if !ok1 || !ok2 || !ok3 || s[2] != ':' || s[5] != ':' {
			return 0, errTime
		}
		if hour > 23 || minute > 59 || second > 59 {
			return 0, fmt.Errorf("there is no time of day %s", strings.Clone(s[:8]))
		}
		millis += (hour*3600 + minute*60 + second) * 1000
		s = s[8:]
		if s != "" && s[0] == '.' {
			n := 1
			for scale := int64(100); n < len(s) && isDigit(s[n]); n++ {
				millis += int64(s[n]-'0') * scale
				scale /= 10
			}
			if n == 1 {
				return 0, errTime
			}
			s = s[n:]
		}
		offset, ok := zone(s)
		if !ok {
			return 0, errTime
		}
		millis -= offset * 60_000
	}
	if millis < event.MinTime || millis > event.MaxTime {
		return 0, errTimeRange
	}
	return millis, nil
}

// zone reads what stands behind a time of day: nothing, Z, " UTC" (as dumps of
// some shops have it), +01:00, +0100 or +01 (as PostgreSQL writes it). It returns
// minutes.
func zone(s string) (offset int64, ok bool) {
	switch s {
	case "", "Z", "z", " UTC", "UTC":
		return 0, true
	}
	if s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	hour, ok := digits(s, 1, 2)
	minute := int64(0)
	switch {
	case !ok:
		return 0, false
	case len(s) == 6 && s[3] == ':':
		minute, ok = digits(s, 4, 2)
	case len(s) == 5:
		minute, ok = digits(s, 3, 2)
	case len(s) != 3:
		return 0, false
	}
	offset = hour*60 + minute
	if s[0] == '-' {
		offset = -offset
	}
	return offset, ok && hour < 24 && minute < 60
}

func digits(s string, at, n int) (v int64, ok bool) {
	if len(s) < at+n {
		return 0, false
	}
	for _, c := range []byte(s[at : at+n]) {
		if !isDigit(c) {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, true
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func daysIn(year, month int64) int64 {
	if month == 2 {
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 30 + (month+month>>3)&1
}

// daysFrom returns the days from 1970-01-01 to a date of the Gregorian calendar.
// Years begin in March here, so that the leap day is the last.
func daysFrom(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	y := year - era*400
	return era*146097 + y*365 + y/4 - y/100 + (153*(month-3)+2)/5 + day - 1 - 719468
}
