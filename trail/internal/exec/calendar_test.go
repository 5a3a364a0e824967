package exec

import (
	"math"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// zones have clocks that do what is easily forgotten: change at midnight
// forward and back, by half an hour, by a day, or have no whole hour.
var zones = []string{
	"UTC", "America/New_York", "Europe/Berlin", "Asia/Amman", "Asia/Beirut", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu",
	"Pacific/Apia", "Asia/Singapore", "Africa/Cairo", "America/Havana",
}

// TestCalendar has each time be in the unit that the wall clock of the zone says.
func TestCalendar(t *testing.T) {
	from, to := time.Date(2010, 12, 1, 0, 0, 0, 0, time.UTC), time.Date(2012, 2, 1, 0, 0, 0, 0, time.UTC)
	step := 7 * time.Minute
	if invariant.Race {
		step = 97 * time.Minute // one goroutine, in which the race detector sees nothing
	}
	for _, name := range zones {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range []query.Unit{query.Hour, query.Day, query.Week, query.Month} {
			c, err := newCalendar([]span{{from.UnixMilli(), to.UnixMilli()}}, unit, zone, 0, newBudget(0))
			if err != nil {
				t.Fatal(err)
			}
			base := from.UnixMilli()
			r, err := c.index(base, 1000, uint32(to.Sub(from)/time.Second), math.MaxInt, newBudget(0))
			if err != nil {
				t.Fatal(err)
			}
			for at := from; at.Before(to); at = at.Add(step) {
				got := c.find(at.UnixMilli())
				if ruled := r.find(uint32((at.UnixMilli() - base) / 1000)); int(ruled) != got {
					t.Fatalf("%s, %s, %s: the index says %d, the calendar %d", name, unit, at, ruled, got)
				}
				local, start := at.In(zone), time.UnixMilli(c.starts[got]).In(zone)
				if start.After(local) {
					t.Fatalf("%s, %s: %s is in a unit that begins at %s", name, unit, local, start)
				}
				want := local.Format(time.DateOnly)
				switch unit {
				case query.Hour:
					want = local.Format("2006-01-02T15")
					if got := start.Format("2006-01-02T15"); got != want {
						t.Fatalf("%s, hour: %s is in the unit that begins at %s", name, local, start)
					}
					continue
				case query.Week:
					want = local.AddDate(0, 0, -(int(local.Weekday())+6)%7).Format(time.DateOnly)
				case query.Month:
					want = local.Format("2006-01") + "-01"
				}
				if got := c.label(got); got != want && name != "Pacific/Apia" {
					t.Fatalf("%s, %s: %s is in the unit of %s, want %s", name, unit, local, got, want)
				}
			}
		}
	}
}

// TestRulerEnd has the last offset that a segment can have be in the last unit.
func TestRulerEnd(t *testing.T) {
	c, err := newCalendar([]span{{0, math.MaxUint32}}, query.Day, nil, 0, newBudget(0))
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.index(0, 1, math.MaxUint32, math.MaxInt, newBudget(0))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := int(r.find(math.MaxUint32)), c.units()-1; got != want {
		t.Errorf("got unit %d, want %d", got, want)
	}
}

// TestGaps has events that are far away from the others not cost the time between.
func TestGaps(t *testing.T) {
	const day = 86400_000
	far := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMilli()
	spans := []span{{-62135596800000, -62135596800000}, {0, 10 * day}, {5 * day, 12 * day}, {far, far}}
	c, err := newCalendar(spans, query.Day, nil, 0, newBudget(0))
	if err != nil {
		t.Fatal(err)
	}
	if got, most := c.units(), 20; got > most {
		t.Errorf("got %d units, want at most %d", got, most)
	}
	for at, want := range map[int64]string{spans[0].first: "0001-01-01", 0: "1970-01-01", 12 * day: "1970-01-13", 10*day + 1: "1970-01-11", far: "9999-12-31"} {
		if got := c.label(c.find(at)); got != want {
			t.Errorf("%d: got %s, want %s", at, got, want)
		}
	}
}
