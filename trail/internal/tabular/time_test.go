package tabular

import (
	"math"
	"testing"
	"time"
)

func timeIn(text, unit string) (int64, error) {
	u, err := unitOf(unit)
	if err != nil {
		return 0, err
	}
	return parseTime(text, u)
}

func TestParseTime(t *testing.T) {
	for _, tt := range []struct {
		text, unit string
		want       int64
		err        string
	}{
		{"2026-01-05T10:00:00Z", "", 1767607200000, ""},
		{"2026-01-05t10:00:00z", "", 1767607200000, ""},
		{"2026-01-05 10:00:00Z", "", 1767607200000, ""},
		{"2026-01-05T10:00:00", "", 1767607200000, ""},
		{"2026-01-05 10:00:00 UTC", "", 1767607200000, ""},
		{"2026-01-05T12:00:00.1239+02:00", "", 1767607200123, ""},
		{"2026-01-05T08:30:00-0130", "", 1767607200000, ""},
		{"2026-01-05 11:00:00+01", "", 1767607200000, ""},
		{"2026-01-05", "", 1767571200000, ""},
		{"2024-02-29", "", 1709164800000, ""},
		{"1969-12-31T23:59:59.9999Z", "", -1, ""},
		{"0001-01-01", "", -62135596800000, ""},
		{"9999-12-31T23:59:59.999Z", "", 253402300799999, ""},
		{"2026-01-05T10:00:00Z", "us", 1767607200000, ""},
		{"1767607200", "", 1767607200000, ""},
		{"1767607200123", "", 1767607200123, ""},
		{"1767607200123999", "", 1767607200123, ""},
		{"1767607200123999999", "", 1767607200123, ""},
		{"1767607200.1239", "", 1767607200123, ""},
		{"-0.0001", "", -1, ""},
		{"-1.5", "s", -1500, ""},
		{"1.7676072e9", "", 1767607200000, ""},
		{"1500.9", "ms", 1500, ""},
		{"0", "", 0, ""},
		{"-1", "", -1000, ""},
		{"-1", "us", -1, ""},
		{"-1001", "us", -2, ""},
		{"-1", "ns", -1, ""},
		{"-1000000", "ns", -1, ""},
		{"99999999999", "", 99999999999000, ""},
		{"100000000000", "", 100000000000, ""},
		{"100", "ms", 100, ""},
		{"", "", 0, "not a time: want RFC 3339 or a number"},
		{"soon", "", 0, "not a time: want RFC 3339 or a number"},
		{"2026-13-01", "", 0, "there is no day 2026-13-01"},
		{"2026-02-29", "", 0, "there is no day 2026-02-29"},
		{"1900-02-29", "", 0, "there is no day 1900-02-29"},
		{"2026-04-31", "", 0, "there is no day 2026-04-31"},
		{"2026-01-05T24:00:00Z", "", 0, "there is no time of day 24:00:00"},
		{"2026-01-05T10:00Z", "", 0, "not a time: want RFC 3339 or a number"},
		{"2026-01-05T10:00:00.Z", "", 0, "not a time: want RFC 3339 or a number"},
		{"2026-01-05T10:00:00+1", "", 0, "not a time: want RFC 3339 or a number"},
		{"2026-01-05T10:00:00+01:00:00", "", 0, "not a time: want RFC 3339 or a number"},
		{"2026-01-05x", "", 0, "not a time: want RFC 3339 or a number"},
		{"0000-01-01", "", 0, "the time is outside the years 1 to 9999"},
		{"0001-01-01T00:00:00+01:00", "", 0, "the time is outside the years 1 to 9999"},
		{"9223372036854775807", "s", 0, "the time is outside the years 1 to 9999"},
		{"9223372036854775807", "ms", 0, "the time is outside the years 1 to 9999"},
		{"9e300", "", 0, "the time is outside the years 1 to 9999"},
		{"9e16", "s", 0, "the time is outside the years 1 to 9999"},
		{"1", "minutes", 0, `time unit "minutes": want s, ms, us or ns`},
	} {
		got, err := timeIn(tt.text, tt.unit)
		if got != tt.want || errText(err) != tt.err {
			t.Errorf("%q %s: got %d, %v, want %d, %s", tt.text, tt.unit, got, err, tt.want, tt.err)
		}
	}
}

// TestDates compares every day of some centuries with package time.
func TestDates(t *testing.T) {
	for d := time.Date(1599, 12, 31, 0, 0, 0, 0, time.UTC); d.Year() < 2401; d = d.AddDate(0, 0, 1) {
		got, err := parseDate(d.Format(time.RFC3339))
		if err != nil || got != d.UnixMilli() {
			t.Fatalf("%s: got %d, %v, want %d", d, got, err, d.UnixMilli())
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-01-05T10:00:00.123+02:00", "2026-01-05", "1767607200.5", "-1", "1e9", "2026-01-05 11:00:00+01", "-9223372036854775808", "92233720368547758.08"} {
		f.Add(s, "")
		f.Add(s, "ns")
		f.Add(s, "s")
	}
	f.Fuzz(func(t *testing.T, s, unit string) {
		got, err := timeIn(s, unit)
		if err == nil && (got < -62135596800000 || got > 253402300799999) {
			t.Errorf("%q: got %d, out of range", s, got)
		}
		if want, e := time.Parse(time.RFC3339, s); e == nil && want.Year() > 1 && want.Year() < 9999 && unit == "" {
			if got != want.UnixMilli() {
				t.Errorf("%q: got %d, %v, want %d", s, got, err, want.UnixMilli())
			}
		}
	})
}

func TestScalars(t *testing.T) {
	for _, tt := range []struct {
		text    string
		integer bool
		number  bool
	}{
		{"0", true, true}, {"-0", true, true}, {"7", true, true}, {"-12", true, true}, {"9223372036854775807", true, true},
		{"-9223372036854775808", true, true}, {"9223372036854775808", false, true}, {"-9223372036854775809", false, true},
		{"99999999999999999999999", false, true}, {"007", false, false}, {"+7", false, false}, {" 7", false, false}, {"7 ", false, false},
		{"", false, false}, {"-", false, false}, {"1.5", false, true}, {".5", false, true}, {"5.", false, true}, {"1e5", false, true}, {"-1E-5", false, true},
		{"00.5", false, false}, {"0.5", false, true}, {"1_000", false, false}, {"0x10", false, false}, {"NaN", false, false}, {"Inf", false, false}, {"1e999", false, false},
		{"--1", false, false}, {"1-1", false, false}, {".", false, false}, {"e5", false, false},
	} {
		_, integer := parseInt(tt.text)
		f, err := parseFloat(tt.text)
		if integer != tt.integer || (err == nil) != tt.number || math.IsInf(f, 0) {
			t.Errorf("%q: got integer %t, number %t, want %t, %t", tt.text, integer, err == nil, tt.integer, tt.number)
		}
	}
}
