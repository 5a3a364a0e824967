package trailtest

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// digest hashes the first rows of a generator.
func digest(all iter.Seq[*Row], rows int) string {
	h := xxhash.New()
	var b []byte
	for r := range all {
		b = append(b[:0], r.User...)
		b = append(b, 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Time))
		b = append(append(b, r.Name...), 0)
		for _, v := range r.Values {
			b = append(append(b, v.String()...), 0)
		}
		if r.Late != 0 {
			b = binary.LittleEndian.AppendUint64(b, uint64(r.Late))
		}
		_, _ = h.Write(b) // a hash takes everything
		if rows--; rows == 0 {
			break
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// TestGolden holds the generators to what they have always made: benchmarks are
// compared over years. The race detector, which makes it twenty times slower, sees
// the first rows alone.
func TestGolden(t *testing.T) {
	f := func(g Generator, rows int, want string) {
		t.Helper()
		if got := digest(g.Rows(), rows); got != want {
			t.Errorf("%T, %d rows: got %s, want %s", g, rows, got, want)
		}
	}
	shuffled := func(g Generator, rows int, want string) {
		t.Helper()
		if got := digest(Shuffled(g, 1), rows); got != want {
			t.Errorf("%T, %d rows shuffled: got %s, want %s", g, rows, got, want)
		}
	}
	f(Ecom{Seed: 1, Events: 2_000_000}, 10_000, "4bf3c8fdb495e066")
	f(GitHub{Seed: 1, Events: 2_000_000}, 10_000, "3403539f1f82ebe4")
	f(Hits{Seed: 1, Events: 2_000_000}, 10_000, "c72a0e3c63ea986f")
	f(Short{Seed: 1, Events: 2_000_000}, 10_000, "b74c3402090200f2")
	f(Skew{Seed: 1, Events: 2_000_000}, 10_000, "48e599600112f553")
	f(Visits{Seed: 1, Events: 2_000_000}, 10_000, "937f07c287f29a2c")
	shuffled(Short{Seed: 1, Events: 10_000}, 10_000, "cd6f19828d80f7ac")
	shuffled(Skew{Seed: 1, Events: 10_000}, 10_000, "9a68deb327e8c82a")
	if invariant.Race {
		return
	}
	f(Short{Seed: 1, Events: 2_000_000}, 1_000_000, "a92419f8a9e072f1")
	f(Skew{Seed: 1, Events: 2_000_000}, 1_000_000, "49423d93badf5d1c")
	f(Visits{Seed: 1, Events: 2_000_000}, 1_000_000, "58493448872256a0")
	f(Ecom{Seed: 1, Events: 2_000_000}, 1_000_000, "107cdf4adb34805e")
	f(GitHub{Seed: 1, Events: 2_000_000}, 1_000_000, "51f0c483e74697c7")
	f(Hits{Seed: 1, Events: 2_000_000}, 1_000_000, "bd981e0a9fd49b5d")
}

// TestRowsAllocate holds generating to one allocation a user, for the id, apart from what
// it sets up.
func TestRowsAllocate(t *testing.T) {
	if invariant.Race {
		return // it allocates of its own
	}
	const rows = 100_000
	users := 0
	got := testing.AllocsPerRun(3, func() {
		users = 0
		last := ""
		for r := range (Ecom{Seed: 1, Events: rows}).Rows() {
			if r.User != last {
				last = r.User
				users++
			}
		}
	})
	if most := float64(users + 200); got > most {
		t.Errorf("got %v allocations for %d rows of %d users, want at most %v", got, rows, users, most)
	}
}

func TestEcomShape(t *testing.T) {
	const n = 2_000_000
	names := map[string]int{}
	var perUser []int
	user, last, ties, rows, campaign, late := "", int64(0), 0, 0, 0, 0
	countries := map[event.Value]int{}
	for r := range (Ecom{Seed: 1, Events: n}).Rows() {
		rows++
		names[r.Name]++
		if r.User != user {
			user = r.User
			perUser = append(perUser, 0)
			countries[r.Values[ecomCountry]]++
		} else {
			if r.Time < last {
				t.Fatalf("%s: got time %d after %d", user, r.Time, last)
			}
			if r.Time == last {
				ties++
			}
		}
		last = r.Time
		perUser[len(perUser)-1]++
		if !r.Values[ecomCampaign].Missing() {
			campaign++
		}
		if r.Time >= (firstSecond+spanSeconds-1)*1000 {
			late++
		}
		if r.Time%1000 != 0 || r.Time < firstSecond*1000 || r.Time >= (firstSecond+spanSeconds)*1000 {
			t.Fatalf("%s: got time %d", user, r.Time)
		}
	}
	slices.Sort(perUser)
	between(t, "rows", rows, n, n)
	between(t, "users", len(perUser), n/20*73/100, n/20*74/100*12/10)
	between(t, "median", perUser[len(perUser)/2], 3, 3)
	between(t, "p99", perUser[len(perUser)*99/100], 350, 450)
	between(t, "view, of 10,000", names["view"]*10000/n, 9400, 9700)
	between(t, "cart, of 10,000", names["cart"]*10000/n, 220, 280)
	between(t, "purchase, of 10,000", names["purchase"]*10000/n, 80, 120)
	between(t, "signup, of 10,000", names["signup"]*10000/n, 30, 100)
	between(t, "open, of 10,000", names["open"]*10000/n, 30, 200)
	between(t, "ties, of 10,000", ties*10000/n, 70, 130)
	between(t, "campaigns, of 100", campaign*100/n, 57, 63)
	between(t, "countries", len(countries), 60, 60)
	between(t, "in the last second", late, 0, n/1000)
}

// TestSkewShape checks who does how much, that events arrive late, that some come twice,
// and that every property has as many values as it says.
func TestSkewShape(t *testing.T) {
	const n = 500_000
	var perUser []int
	last := Row{Values: make([]event.Value, skewFields)}
	rows, twice, hour, day := 0, 0, 0, 0
	present := make([]int, skewFields)
	values := make([]map[event.Value]bool, skewFields)
	for i := range values {
		values[i] = map[event.Value]bool{}
	}
	for r := range (Skew{Seed: 1, Events: n}).Rows() {
		rows++
		if r.User != last.User {
			perUser = append(perUser, 0)
		} else {
			if r.Time < last.Time {
				t.Fatalf("%s: got time %d after %d", r.User, r.Time, last.Time)
			}
			twice += boolInt(r.Time == last.Time && r.Name == last.Name && slices.Equal(r.Values, last.Values))
		}
		perUser[len(perUser)-1]++
		hour += boolInt(r.Late >= 3_600_000)
		day += boolInt(r.Late >= 86_400_000)
		if r.Late < 0 || r.Late > 3*86_400_000+60_000 {
			t.Fatalf("%s: got an event %d ms late", r.User, r.Late)
		}
		for i, v := range r.Values {
			present[i] += boolInt(!v.Missing())
			values[i][v] = true
		}
		last.User, last.Time, last.Name = r.User, r.Time, r.Name
		copy(last.Values, r.Values)
	}
	slices.SortFunc(perUser, func(a, b int) int { return b - a })
	heavy := 0
	for _, events := range perUser[:len(perUser)/100] {
		heavy += events
	}
	between(t, "rows", rows, n, n)
	between(t, "users", len(perUser), n/22, n/18)
	between(t, "events of one user in a hundred, of 100", heavy*100/n, 47, 53)
	between(t, "twice, of 1,000", twice*1000/n, 8, 12)
	between(t, "an hour late, of 1,000", hour*1000/n, 40, 60)
	between(t, "a day late, of 1,000", day*1000/n, 25, 40)
	between(t, "campaign, of 100", present[skewCampaign]*100/n, 37, 43)
	between(t, "age, of 100", present[skewAge]*100/n, 60, 73)
	between(t, "price, of 100", present[skewPrice]*100/n, 7, 9)
	between(t, "item, of 100", present[skewItem]*100/n, 46, 52)
	between(t, "problems, of 10,000", present[skewProblem]*10_000/n, 45, 55)
	between(t, "trial, of 100", present[skewTrial]*100/n, 9, 11)
	between(t, "sessions", len(values[skewSession]), n/15, n/5)
	between(t, "pages", len(values[skewPage]), 40_000, 100_000)
	for i, f := range (Skew{}).Schema() {
		if present[i] == 0 || len(values[i]) < 2 {
			t.Errorf("%s: got %d values in %d events", f.Name, len(values[i]), present[i])
		}
	}
}

// TestShuffledArrives checks that late events come in the order of arrival, and that all come.
func TestShuffledArrives(t *testing.T) {
	g := Skew{Seed: 5, Events: 5000}
	key := func(r *Row) string { return fmt.Sprint(r.User, r.Time, r.Name, r.Late, r.Values) }
	want := map[string]int{}
	for r := range g.Rows() {
		want[key(r)]++
	}
	last := int64(0)
	for r := range Shuffled(g, 1) {
		if now := r.Time + r.Late; now < last {
			t.Fatalf("got arrival %d after %d", now, last)
		} else {
			last = now
		}
		if want[key(r)]--; want[key(r)] < 0 {
			t.Fatalf("got %s too often", key(r))
		}
	}
	for k, n := range want {
		if n != 0 {
			t.Errorf("got %s too few times, %d", k, n)
		}
	}
}

// TestBots checks that few users of GitHub do much.
func TestBots(t *testing.T) {
	const n = 500_000
	bots, users, events := 0, 0, 0
	user, last := "", int64(0)
	kinds := map[string]bool{}
	for r := range (GitHub{Seed: 1, Events: n}).Rows() {
		kinds[r.Name] = true
		bot := r.Values[githubBot].Bool()
		if r.User != user {
			user = r.User
			users++
			bots += boolInt(bot)
		} else if r.Time < last {
			t.Fatalf("%s: got time %d after %d", user, r.Time, last)
		}
		last = r.Time
		events += boolInt(bot)
	}
	if share := bots * 1000 / users; share < 8 || share > 12 {
		t.Errorf("got %d bots of 1000 users, want about 10", share)
	}
	if share := events * 100 / n; share < 40 || share > 60 {
		t.Errorf("got %d %% of the events from bots, want about 50", share)
	}
	if len(kinds) != 15 {
		t.Errorf("got %d kinds of events, want 15", len(kinds))
	}
}

// TestRowsStops checks that a loop over rows can be left.
func TestRowsStops(t *testing.T) {
	for _, g := range []Generator{Ecom{Events: 10}, GitHub{Events: 10}, Hits{Events: 10}, Short{Events: 10}, Skew{Events: 10}, Visits{Events: 10}} {
		n := 0
		for r := range g.Rows() {
			if e := r.Event(g.Schema()); e.User == "" || e.Name == "" || len(e.Properties) > len(g.Schema()) {
				t.Errorf("%T: got event %+v", g, e)
			}
			if n++; n == 3 {
				break
			}
		}
		for range g.Rows() {
			n++
		}
		if n != 13 {
			t.Errorf("%T: got %d rows, want 13", g, n)
		}
	}
}

// BenchmarkRows measures generating alone, of a million rows.
func BenchmarkRows(b *testing.B) {
	f := func(name string, g Generator) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for range g.Rows() {
					n++
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
	f("ecom", Ecom{Seed: 1, Events: 1_000_000})
	f("github", GitHub{Seed: 1, Events: 1_000_000})
	f("hits", Hits{Seed: 1, Events: 1_000_000})
	f("short", Short{Seed: 1, Events: 1_000_000})
	f("skew", Skew{Seed: 1, Events: 1_000_000})
	f("visits", Visits{Seed: 1, Events: 1_000_000})
}

// between checks a figure of the data.
func between(t *testing.T, what string, got, low, high int) {
	t.Helper()
	t.Logf("%s: %d", what, got)
	if got < low || got > high {
		t.Errorf("%s: got %d, want %d to %d", what, got, low, high)
	}
}
