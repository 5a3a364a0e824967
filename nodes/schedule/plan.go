package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

// A plan says when ticks are due.
type plan interface {
	// next returns the first tick after a time; the zero time if there is none.
	next(after time.Time) time.Time

	// late returns the last tick that is due by now, and how many are due before that.
	// The tick due is.
	late(due, now time.Time) (last time.Time, missed int)
}

// An interval is the plan of ticks at equal distances.
type interval time.Duration

func (d interval) next(after time.Time) time.Time { return after.Add(time.Duration(d)) }

func (d interval) late(due, now time.Time) (time.Time, int) {
	missed := max(0, now.Sub(due)/time.Duration(d))
	return due.Add(missed * time.Duration(d)), int(missed)
}

// A calendar is the plan of a cron expression. Its times are read from a clock on
// the wall, which skips some and shows others twice when the offset of the zone changes.
type calendar struct {
	spec *cron.SpecSchedule // computes in UTC, where nothing is skipped or repeated
	zone *time.Location

	// daily is for expressions that name the hour and the minute. A time that is
	// skipped is made up when the clocks change, and one that comes twice counts once.
	daily bool
}

func (c *calendar) next(after time.Time) time.Time {
	t := after.In(c.zone)
	begin, _ := t.ZoneBounds()
	end := zoneEnd(t)
	_, offset := t.Zone()
	wall := shown(t, offset)
	if c.daily && !begin.IsZero() {
		_, before := begin.Add(-1).Zone()
		if repeated := shown(begin, before); wall.Before(repeated) {
			wall = repeated.Add(-1)
		}
	}
	for {
		next := c.spec.Next(wall)
		if next.IsZero() {
			return next
		}
		if at := next.Add(-seconds(offset)).In(c.zone); end.IsZero() || at.Before(end) {
			return at
		}
		_, changed := end.Zone()
		from, to := shown(end, offset), shown(end, changed)
		switch {
		case c.daily && next.Before(to):
			return end
		case c.daily && to.Before(from):
			to = from
		}
		wall, offset = to.Add(-1), changed
		end = zoneEnd(end)
	}
}

// zoneEnd returns a time up to which the offset of the zone stays; zero is forever.
func zoneEnd(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		return t.AddDate(0, 0, 1) // ZoneBounds on the last day of leap years from 2040 on (Go 1.26)
	}
	return end
}

// shown returns what a clock shows at a time, as a time of UTC.
func shown(t time.Time, offset int) time.Time { return t.UTC().Add(seconds(offset)) }

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// mostLate bounds how many ticks are counted after a pause.
const mostLate = 10_000

func (c *calendar) late(due, now time.Time) (time.Time, int) {
	for missed := range mostLate {
		following := c.next(due)
		if following.IsZero() || following.After(now) {
			return due, missed
		}
		due = following
	}
	return now, mostLate
}

// A partError is a mistake in an expression, at a byte of it.
type partError struct {
	offset int
	msg    string
	hint   string
}

func (e *partError) Error() string { return e.msg }

// The parts of an expression.
var parts = []struct{ what, hint string }{
	{"a second", "0 to 59"},
	{"a minute", "0 to 59"},
	{"an hour", "0 to 23"},
	{"a day of the month", "1 to 31"},
	{"a month", "1 to 12, or jan to dec"},
	{"a day of the week", "0 to 6, or sun to sat"},
}

var descriptors = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// cronPattern is for editors: a descriptor, or five or six parts.
const cronPattern = `^\s*(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|([0-9A-Za-z*?,/-]+\s+){4,5}[0-9A-Za-z*?,/-]+)\s*$`

// maxCron is the length of the longest expression. One that lists everything has
// some 400 bytes.
const maxCron = 1000

// word finds the parts of an expression, element checks one: it finds what the parser
// would ignore.
var (
	word    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\S+`) })
	element = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([*?]|[0-9A-Za-z]+(-[0-9A-Za-z]+)?)(/[0-9]+)?$`) })
)

// parseCron reads an expression of five or six parts, or a descriptor. It returns a
// *partError.
func parseCron(text string, zone *time.Location) (*calendar, error) {
	if len(text) > maxCron {
		return nil, &partError{0, fmt.Sprintf("the expression has %d bytes, more than %d", len(text), maxCron), "write it shorter, such as with ranges: 8-18"}
	}
	fields := word().FindAllStringIndex(text, -1)
	if len(fields) > 0 && text[fields[0][0]] == '@' {
		expanded, ok := descriptors[strings.TrimSpace(text)]
		if !ok {
			hint := "use one of @yearly, @monthly, @weekly, @daily and @hourly"
			if strings.HasPrefix(strings.TrimSpace(text), "@every") {
				hint = "use the field interval in place of cron"
			}
			return nil, &partError{fields[0][0], "unknown descriptor", hint}
		}
		text, fields = expanded, word().FindAllStringIndex(expanded, -1)
	}
	if len(fields) > 0 && strings.Contains(text[:fields[0][1]], "TZ=") {
		return nil, &partError{fields[0][0], "the time zone does not belong here", "write it into the field timezone"}
	}
	if n := len(fields); n != 5 && n != 6 {
		return nil, &partError{0, fmt.Sprintf("want five or six parts, got %d", n), `write minute, hour, day of the month, month and day of the week, such as "30 2 * * *"; a second may stand before them`}
	}
	given := make([]string, 0, 6)
	if len(fields) == 5 {
		given = append(given, "0")
	}
	for _, at := range fields {
		i := len(given)
		part := text[at[0]:at[1]]
		if !validPart(i, part) {
			return nil, &partError{at[0], fmt.Sprintf("want %s, got %q", parts[i].what, part), "write " + parts[i].hint + ", a list such as 1,2, a range such as 1-5, a step such as */2, or *"}
		}
		given = append(given, part)
	}
	spec, err := parseParts(given)
	if err != nil {
		return nil, &partError{0, err.Error(), ""}
	}
	if spec.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, &partError{0, "this day never comes", "no month that is named has so many days"}
	}
	return &calendar{spec: spec, zone: zone, daily: !strings.ContainsAny(given[1][:1]+given[2][:1], "*?")}, nil
}

// validPart checks one part by parsing it alone.
func validPart(i int, part string) bool {
	for e := range strings.SplitSeq(part, ",") {
		if !element().MatchString(e) {
			return false
		}
	}
	alone := []string{"*", "*", "*", "*", "*", "*"}
	alone[i] = part
	_, err := parseParts(alone)
	return err == nil
}

var errPlan = errors.New("the expression is not a list of times")

func parseParts(six []string) (*cron.SpecSchedule, error) {
	const all = cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow
	made, err := cron.NewParser(all).Parse(strings.Join(six, " "))
	if err != nil {
		return nil, err
	}
	spec, ok := made.(*cron.SpecSchedule)
	if !ok {
		return nil, errPlan
	}
	spec.Location = time.UTC
	return spec, nil
}
