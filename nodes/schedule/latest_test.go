package schedule

import (
	"slices"
	"testing"
	"time"
)

// TestLatestOverChange makes up for ticks over changes of the clock: they are those that were due, each once.
func TestLatestOverChange(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, expr := range []string{"30 2 * * *", "*/7 * * * *", "0,30 1-3 * * *", "30 2,3 * * *", "@hourly", "0 0 * * *"} {
			c, err := parseCron(expr, loc)
			if err != nil {
				t.Fatal(err)
			}
			for _, day := range []string{"2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01"} {
				start, err := time.ParseInLocation("2006-01-02", day, loc)
				if err != nil {
					t.Fatal(err)
				}
				first := c.next(start.Add(-5 * time.Hour))
				var all []time.Time
				at := first
				for now := start; now.Before(start.Add(30 * time.Hour)); now = now.Add(47 * time.Minute) {
					for ; !at.After(now); at = c.next(at) {
						all = append(all, at)
					}
					for _, most := range []int{1, 5, 100} {
						if len(all) == 0 {
							continue
						}
						got, want := latest(c, first, now, most), all[max(0, len(all)-most):]
						if !slices.EqualFunc(got, want, time.Time.Equal) {
							t.Fatalf("%s, %q at %v, %d: got %v, want %v", zone, expr, now, most, got, want)
						}
					}
				}
			}
		}
	}
}
