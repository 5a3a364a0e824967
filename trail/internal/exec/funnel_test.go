package exec_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// heavy returns one user with many events: tied of them at each time, of a few values.
func heavy(t testing.TB, events, tied int) exec.Input {
	t.Helper()
	return store(t, event.Int, image(t, event.Int, events, func(i int) (string, int64, event.Value) {
		return "u", int64(i / tied), event.IntOf(int64(i % 7))
	}))
}

// TestHeavyUser has no funnel take more than twice as long an event for four times the
// events of one user, also if many of them are at one time.
func TestHeavyUser(t *testing.T) {
	steps := "steps: [{event: view, where: {v: {lt: 6}}}, {event: view, where: {v: {gt: 1}}}, {event: view, where: {v: {in: [3, 4]}}}, {event: view, where: {v: 9}}]"
	scale := 1
	if invariant.Race {
		scale = 10 // one goroutine, whose times mean nothing then
	}
	for _, tied := range []int{1, 200_000} {
		small, large := heavy(t, 50_000/scale, tied), heavy(t, 200_000/scale, tied)
		for _, rest := range []string{
			"mode: strict_once", "mode: strict_once, within: 1s", "mode: [strict_once, strict_deduplication]", "mode: strict_increase", "mode: strict_order",
			"order: any", "mode: strict_once, same: v", "exclude: [{event: view, where: {v: 8}}], mode: strict_once",
			"mode: strict_once, by: v, by_step: last", "mode: strict_once, times: previous, within: 1m", "mode: strict_once, bucket: minute",
		} {
			doc := "funnel: {" + steps + ", " + rest + "}"
			took := func(in exec.Input) time.Duration {
				q := parse(t, doc)
				best := time.Hour
				for range 2 {
					start := busy(t)
					if _, err := exec.Run(t.Context(), in, q, exec.Options{Workers: 1}); err != nil {
						t.Fatalf("%s: %v", doc, err)
					}
					best = min(best, busy(t)-start)
				}
				return best
			}
			// It was a thousand times.
			if few, many := took(small), took(large); many > 8*few+200*time.Millisecond {
				t.Errorf("%d at a time, %s: 50,000 events took %s, 200,000 took %s", tied, rest, few, many)
			}
		}
	}
}

// TestTrend has each row of a trend be the funnel whose step 1 lies in the bucket.
func TestTrend(t *testing.T) {
	in := shop(t, 400)
	for _, rest := range []string{"", ", within: 2d", ", mode: strict_once, within: 3d", ", mode: strict_increase", ", mode: strict_deduplication", ", exclude: [{event: cart, between: [1, 2]}]", ", same: country"} {
		doc := "funnel: {steps: [view, {event: [view, cart]}, purchase], bucket: week_sunday" + rest + "}"
		trend := ask(t, in, doc).Funnel.Trend
		if len(trend) < 4 {
			t.Fatalf("%s: got %d buckets", doc, len(trend))
		}
		for _, b := range trend {
			for k, s := range b.Steps {
				users := ask(t, in, fmt.Sprintf("%s\nusers: {step: %d, bucket: %s}", doc, k+1, b.Bucket)).Cohort
				if users.Users.N != s.Users.N {
					t.Errorf("%s, %s, step %d: the trend has %d users, the funnel of the bucket %d", doc, b.Bucket, k+1, s.Users.N, users.Users.N)
				}
			}
		}
	}
}

// TestUsersBehind lists the users whose number an answer has, and says which numbers
// there are not.
func TestUsersBehind(t *testing.T) {
	in := shop(t, 200)
	for doc, missing := range map[string]string{
		"funnel: {steps: [view, cart], by: country}\nusers: {step: 1, group: XX}":                                                                `the answer has no group "XX"`,
		"funnel: {steps: [view, cart], by: country, limit: 1}\nusers: {step: 1, group: KR}":                                                      `the answer has no group "KR"`,
		"funnel: {steps: [view, cart], by: country, other: true}\nusers: {step: 1, other: true}":                                                 "the answer has no other groups",
		"funnel: {steps: [view, cart], bucket: day}\nusers: {step: 1, bucket: 1999-01-01}":                                                       `the answer has no bucket "1999-01-01"`,
		"funnel: {steps: [view, cart], bucket: week}\nusers: {step: 1, bucket: 2026-01-06}":                                                      `the answer has no bucket "2026-01-06"`,
		"retention: {start: view, return: cart, every: week, periods: 3}\nusers: {cohort: 2001-01-01}":                                           `the answer has no cohort "2001-01-01"`,
		"segment: {by: country, bucket: day}\nusers: {group: XX}":                                                                                `the answer has no group "XX"`,
		"segment: {by: country, bucket: day, fill: true}\nusers: {bucket: 1999-01-01, group: KR}":                                                `the answer has no group "KR" in bucket "1999-01-01"`,
		"segment: {bucket: day, fill: true}\nusers: {bucket: 1999-01-01}":                                                                        `the answer has no bucket "1999-01-01"`,
		"paths: {anchor: view, steps: 2}\nusers: {path: [view, nowhere]}":                                                                        "the answer has no path view, nowhere",
		"funnel: {steps: [view, {event: cart, where: {price: {gt: 99999}}}], by: country, other: true, limit: 2}\nusers: {step: 2, other: true}": "",
	} {
		a := ask(t, in, doc)
		warnings := slices.DeleteFunc(a.Stats.Warnings, func(w string) bool { return !strings.HasPrefix(w, "the answer") })
		if a.Cohort.Users.N != 0 || missing == "" && len(warnings) > 0 || missing != "" && !slices.Equal(warnings, []string{missing}) {
			t.Errorf("%s: got %d users and %q, want none and %q", doc, a.Cohort.Users.N, warnings, missing)
		}
	}
}

// TestUsersOfFilledRows asks for the users of rows without events, which an answer with
// fill has: there are none, and no warning.
func TestUsersOfFilledRows(t *testing.T) {
	in := shop(t, 200)
	const doc = "segment: {by: country, limit: 2, other: true, bucket: hour, fill: true, measure: users}"
	empty := 0
	for _, r := range ask(t, in, doc).Segment.Rows {
		if r.Value.Int > 0 || empty == 30 {
			continue
		}
		empty++
		row := "other: true"
		if !r.Other {
			row = fmt.Sprintf("group: %q", r.Group[0].String())
		}
		a := ask(t, in, fmt.Sprintf("%s\nusers: {bucket: %q, %s}", doc, r.Bucket, row))
		if a.Cohort.Users.N != 0 || len(a.Stats.Warnings) > 0 {
			t.Errorf("%s, %s: got %d users and %q, want none and no warning", r.Bucket, row, a.Cohort.Users.N, a.Stats.Warnings)
		}
	}
	if empty == 0 {
		t.Error("no row was without events")
	}
}

// TestUsersMemory has lists of users and times of steps be held in the memory of the query.
func TestUsersMemory(t *testing.T) {
	in := shop(t, 5000)
	for _, doc := range []string{
		"funnel: {steps: [view, cart]}\nusers: {step: 1}",
		"retention: {start: view, return: {}, every: week, periods: 3, cohort: month}\nusers: {cohort: 2026-01-01}",
		"segment: {by: country}\nusers: {group: KR}",
		"paths: {anchor: view, steps: 1}\nusers: {path: [view, cart]}",
		"funnel: {steps: [view, cart], times: first, by: price}",
	} {
		_, err := exec.Run(t.Context(), in, parse(t, doc), exec.Options{Memory: 20 << 10, IDs: true})
		if err == nil || !strings.Contains(err.Error(), "memory") {
			t.Errorf("%s: got %v, want a MemoryError", doc, err)
		}
		a, err := exec.Run(t.Context(), in, parse(t, doc), exec.Options{IDs: true})
		if err != nil {
			t.Errorf("%s: %v", doc, err)
		} else if a.Cohort != nil && (int64(len(a.Cohort.Found)) != a.Cohort.Users.N || a.Cohort.Found[0].ID == "") {
			t.Errorf("%s: got %d users of %d", doc, len(a.Cohort.Found), a.Cohort.Users.N)
		}
	}
}

// TestSameWidely has same agree over one segment and over several, whose codes differ,
// for users with more values than fit the table that most have.
func TestSameWidely(t *testing.T) {
	schema := event.Schema{{Name: "v", Type: event.Int}}
	b, halves := segment.NewBuilder(schema), [2]*segment.Builder{segment.NewBuilder(schema), segment.NewBuilder(schema)}
	for u := range 300 {
		for i := range u * 3 {
			value, name := (i*7919+u)%(u+1)*1000, []string{"view", "cart", "open"}[i%3]
			values := []event.Value{event.IntOf(int64(value))}
			b.Add(fmt.Sprint("u", u), int64(i), name, 0, values)
			halves[i*2/max(u*3, 1)].Add(fmt.Sprint("u", u), int64(i), name, 0, values)
		}
	}
	in := func(builders ...*segment.Builder) exec.Input {
		var images [][]byte
		for _, b := range builders {
			image, err := b.Image()
			if err != nil {
				t.Fatal(err)
			}
			images = append(images, image)
		}
		return store(t, event.Int, images...)
	}
	one, two := in(b), in(halves[0], halves[1])
	for _, doc := range []string{
		"funnel: {steps: [view, cart], same: v}", "funnel: {steps: [view, cart, view], same: v, by: v, times: previous}", "funnel: {steps: [open, cart, view], same: v, order: any, within: 1s}",
	} {
		if err := trailtest.Equal(ask(t, one, doc), ask(t, two, doc), 0); err != nil {
			t.Errorf("%s: one segment and two differ: %v", doc, err)
		}
	}
}

// TestNoTrend checks that a trend without users is an empty list.
func TestNoTrend(t *testing.T) {
	a := ask(t, shop(t, 3), "funnel: {steps: [nothing, cart], bucket: day}")
	text, err := json.Marshal(a)
	if err != nil || !strings.Contains(string(text), `"trend":[]`) {
		t.Errorf("got %s, %v", text, err)
	}
	if a.Funnel.Trend == nil {
		t.Error("got no trend")
	}
}

// TestSameLater has an event of step 1 be a later step of a chain as well, in a segment
// in which no event of step 2 follows.
func TestSameLater(t *testing.T) {
	const day = 86400_000
	c := &trailtest.Case{Schema: event.Schema{{Name: "v", Type: event.String}}}
	for _, e := range []struct {
		name  string
		day   int64
		value string
	}{{"view", 0, "a"}, {"cart", 1, "a"}, {"view", 40, "b"}, {"cart", 41, "c"}, {"view", 70, "a"}} {
		c.Events = append(c.Events, event.Event{User: "u", Name: e.name, Time: e.day * day, Properties: []event.Property{{Name: "v", Value: event.StringOf(e.value)}}})
	}
	in := exec.Input{Schema: c.Schema, Sources: split(t, c, 1, rand.New(rand.NewPCG(1, 1))), Horizon: math.MinInt64}
	for rest, want := range map[string]int64{"": 1, ", within: 80d": 1, ", within: 69d": 0, ", bucket: day": 1, ", mode: strict_increase": 1} {
		steps := ask(t, in, "funnel: {steps: [view, cart, view], same: v"+rest+"}").Funnel.Steps
		if steps[1].Users.N != 1 || steps[2].Users.N != want {
			t.Errorf("%q: got %d and %d users at steps 2 and 3, want 1 and %d", rest, steps[1].Users.N, steps[2].Users.N, want)
		}
	}
}
