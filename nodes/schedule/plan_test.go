package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestCalendar lists the ticks after a time, across changes of the clocks.
func TestCalendar(t *testing.T) {
	f := func(zone, expr, after string, want ...string) {
		t.Helper()
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		c, err := parseCron(expr, loc)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			at = c.next(at)
			if got := at.Format(time.RFC3339); got != w {
				t.Errorf("%s, %q after %s: got %s, want %s", zone, expr, after, got, w)
			}
		}
	}
	f("UTC", "30 2 * * *", "2026-03-28T02:30:00Z", "2026-03-29T02:30:00Z", "2026-03-30T02:30:00Z")
	f("UTC", "15 30 2 * * *", "2026-03-28T02:30:00Z", "2026-03-28T02:30:15Z")
	f("UTC", "0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z")
	f("UTC", "0 0 13 * fri", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z", "2026-03-20T00:00:00Z")
	f("UTC", " @hourly ", "2026-03-01T00:00:00.000000001Z", "2026-03-01T01:00:00Z")
	f("UTC", "@weekly", "2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z")
	f("UTC", "@yearly", "2026-03-01T00:00:00Z", "2027-01-01T00:00:00Z")
	f("UTC", "*/20 8-9 1,15 jan-feb ?", "2026-02-15T09:20:00Z", "2026-02-15T09:40:00Z", "2027-01-01T08:00:00Z")

	// The clocks go from 02:00 to 03:00: a time in between is made up for.
	f("Europe/Berlin", "30 2 * * *", "2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00")
	f("Europe/Berlin", "0,30 2 * * *", "2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00")
	f("Europe/Berlin", "30 2,3 * * *", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00")
	f("Europe/Berlin", "0 3 * * *", "2026-03-28T12:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T03:00:00+02:00")
	f("America/New_York", "30 2 * * *", "2026-03-07T12:00:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00")
	f("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30", "2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00")
	f("Australia/Lord_Howe", "45 2 * * *", "2026-10-03T12:00:00+10:30", "2026-10-04T02:45:00+11:00")
	f("Africa/Cairo", "0 0 * * *", "2026-04-23T12:00:00+02:00", "2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00") // midnight is skipped
	// Not if the expression follows the clock.
	f("Europe/Berlin", "30 * * * *", "2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00")
	f("Europe/Berlin", "*/30 2 * * *", "2026-03-28T12:00:00+01:00", "2026-03-30T02:00:00+02:00")
	f("Australia/Lord_Howe", "*/15 * * * *", "2026-10-04T01:45:00+10:30", "2026-10-04T02:30:00+11:00", "2026-10-04T02:45:00+11:00")

	// The clocks go from 03:00 back to 02:00: the first of two counts.
	f("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00")
	f("Europe/Berlin", "0 3 * * *", "2026-10-24T12:00:00+02:00", "2026-10-25T03:00:00+01:00", "2026-10-26T03:00:00+01:00")
	f("Europe/Berlin", "30 2 * * *", "2026-10-25T02:10:00+01:00", "2026-10-26T02:30:00+01:00") // it starts between the two
	f("Europe/Berlin", "30 2,4 * * *", "2026-10-25T02:10:00+01:00", "2026-10-25T04:30:00+01:00")
	f("America/New_York", "30 1 * * *", "2026-10-31T12:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00")
	f("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:00:00+11:00", "2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30")
	// Both do if the expression follows the clock.
	f("Europe/Berlin", "30 * * * *", "2026-10-25T01:30:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00")
	f("America/New_York", "*/30 1 * * *", "2026-11-01T00:00:00-04:00", "2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T01:30:00-05:00", "2026-11-02T01:00:00-05:00")
	f("Australia/Lord_Howe", "*/15 * * * *", "2026-04-05T01:30:00+11:00", "2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:45:00+10:30", "2026-04-05T02:00:00+10:30")
}

// TestCalendarOnce goes through years of changes: an expression for once a day has a
// tick every day, and one that follows the clock has one every hour.
func TestCalendarOnce(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Sao_Paulo", "Asia/Kolkata", "Africa/Cairo"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, expr := range []string{"0 0 * * *", "30 0 * * *", "30 1 * * *", "0 2 * * *", "15 2 * * *", "59 2 * * *", "0 3 * * *", "30 23 * * *"} {
			c, err := parseCron(expr, loc)
			if err != nil {
				t.Fatal(err)
			}
			at := time.Date(2014, 12, 31, 23, 59, 59, 0, loc)
			for day := range 365 * 6 {
				if day == 365*3 {
					at = time.Date(2038, 12, 31, 23, 59, 59, 0, loc) // beyond the table of the zone
				}
				next := c.next(at)
				if days := int(noon(next).Sub(noon(at)).Hours()) / 24; days != 1 {
					t.Fatalf("%s, %q: got %s after %s, want a tick every day", zone, expr, next, at)
				}
				at = next
			}
		}
		c, err := parseCron("*/30 * * * *", loc)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2015, 1, 1, 0, 0, 0, 0, loc)
		for range 48 * 366 { // a year
			next := c.next(at)
			if next.Sub(at) != 30*time.Minute {
				t.Fatalf("%s: got %s after %s, want it 30 minutes later", zone, next, at)
			}
			at = next
		}
	}
}

// noon returns a time of UTC on the day that a clock shows.
func noon(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 12, 0, 0, 0, time.UTC)
}

func TestLate(t *testing.T) {
	at := func(text string) time.Time {
		t.Helper()
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	c, err := parseCron("*/10 * * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	f := func(p plan, now, want string, wantMissed int) {
		t.Helper()
		if last, missed := p.late(at("2026-01-01T00:00:00Z"), at(now)); !last.Equal(at(want)) || missed != wantMissed {
			t.Errorf("%s: got %s and %d, want %s and %d", now, last, missed, want, wantMissed)
		}
	}
	for _, p := range []plan{c, interval(10 * time.Minute)} {
		f(p, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 0)
		f(p, "2026-01-01T00:09:59Z", "2026-01-01T00:00:00Z", 0)
		f(p, "2026-01-01T00:10:00Z", "2026-01-01T00:10:00Z", 1)
		f(p, "2026-01-01T07:05:00Z", "2026-01-01T07:00:00Z", 42)
	}
	f(c, "2036-01-01T00:00:01Z", "2036-01-01T00:00:01Z", mostLate)
	f(interval(time.Millisecond), "2026-12-31T00:00:00Z", "2026-12-31T00:00:00Z", 364*24*3600*1000)
}

func TestParseCronErrors(t *testing.T) {
	f := func(expr string, offset int, msg, hint string) {
		t.Helper()
		_, err := parseCron(expr, time.UTC)
		var bad *partError
		if !errors.As(err, &bad) || bad.offset != offset || !strings.Contains(bad.msg, msg) || !strings.Contains(bad.hint, hint) {
			t.Errorf("%q: got %+v, want offset %d, %q and %q", expr, err, offset, msg, hint)
		}
	}
	f("", 0, "want five or six parts, got 0", "minute, hour")
	f("* * * *", 0, "want five or six parts, got 4", "minute, hour")
	f("* * * * * * *", 0, "got 7", "")
	f("60 * * * *", 0, `want a minute, got "60"`, "0 to 59")
	f("0 24 * * *", 2, `want an hour, got "24"`, "0 to 23")
	f("0  0  0 * *", 6, `want a day of the month, got "0"`, "1 to 31")
	f("0 0 1 13 *", 6, `want a month`, "jan to dec")
	f("0 0 1 mai *", 6, `want a month`, "jan to dec")
	f("0 0 * * 7", 8, `want a day of the week, got "7"`, "0 to 6, or sun to sat")
	f("60 0 0 * * *", 0, `want a second`, "0 to 59")
	f("*/0 * * * *", 0, "want a minute", "")
	f("*-5 * * * *", 0, "want a minute", "")
	f("1,,2 * * * *", 0, "want a minute", "")
	f(", * * * *", 0, "want a minute", "")
	f("5-1 * * * *", 0, "want a minute", "")
	f("1/2/3 * * * *", 0, "want a minute", "")
	f("-1 * * * *", 0, "want a minute", "")
	f("99999999999999999999 * * * *", 0, "want a minute", "")
	f("0 0 L * *", 4, "want a day of the month", "")
	f("0 0 30 2 *", 0, "this day never comes", "")
	f("0 0 31 4,6,9,11 *", 0, "this day never comes", "")
	f("@never", 0, "unknown descriptor", "@hourly")
	f(" @every 5m", 1, "unknown descriptor", "interval")
	f("@reboot", 0, "unknown descriptor", "")
	f("TZ=UTC", 0, "the time zone does not belong here", "timezone")
	f("CRON_TZ=Asia/Tokyo 0 0 * * *", 0, "the time zone", "timezone")
	f(strings.Repeat("1,", 600)+"1 * * * *", 0, "has 1209 bytes, more than 1000", "shorter")
}

func FuzzParseCron(f *testing.F) {
	for _, seed := range []string{"30 2 * * *", "*/5 8-18 1,15 jan-dec mon-fri", "0 30 2 ? * sun", "@daily", "TZ=UTC * * * * *", "0 0 31 2 *", "*-5 * * * *"} {
		f.Add(seed)
	}
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, expr string) {
		c, err := parseCron(expr, loc)
		if err != nil {
			return
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 20 {
			next := c.next(at)
			if next.IsZero() && at.Year() > 2090 {
				return // 2100 has no 29th of February: the next one is too far away
			}
			if !next.After(at) {
				t.Fatalf("%q: got %s after %s", expr, next, at)
			}
			at = next
		}
	})
}

func BenchmarkNext(b *testing.B) {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	c, err := parseCron("30 2 * * 1-5", loc)
	if err != nil {
		b.Fatal(err)
	}
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, loc)
	b.ReportAllocs()
	for b.Loop() {
		at = c.next(at)
	}
}
