package exec_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// sealedBy returns events of many users as segments, the users dealt out to them. Zones
// are of users with near hashes, items of some events, rare events of very few users.
func sealedBy(t *testing.T, segments int) exec.Input {
	t.Helper()
	schema := event.Schema{{Name: "item", Type: event.Int}, {Name: "zone", Type: event.Int}}
	builders := make([]*segment.Builder, segments)
	for i := range builders {
		builders[i] = segment.NewBuilder(schema)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for u := range 8000 {
		user := fmt.Sprint("u", u)
		at := int64(1_767_571_200_000) + random.Int64N(28*86400_000)
		for range 1 + random.IntN(16) {
			at += random.Int64N(86400_000)
			name := []string{"view", "view", "open", "cart"}[random.IntN(4)]
			values := []event.Value{{}, event.IntOf(int64(event.Hash(user) >> 54))}
			if u%2500 == 7 {
				name = "rare"
			} else if event.Hash(user)>>60 == 3 {
				name = []string{"near", "view"}[random.IntN(2)]
			}
			if name != "cart" && random.IntN(3) > 0 {
				values[0] = event.IntOf(random.Int64N(5000))
			}
			builders[u%segments].Add(user, at, name, 0, values)
		}
	}
	in := exec.Input{Schema: schema, Horizon: math.MinInt64}
	var near []uint64
	for u := range 8000 {
		if h := event.Hash(fmt.Sprint("u", u)); u%90 == 0 || h>>56 == 0x35 {
			near = append(near, h)
		}
	}
	slices.Sort(near)
	in.Cohort = func(string) ([]uint64, error) { return near, nil }
	for i, b := range builders {
		image, err := b.Image()
		if err != nil {
			t.Fatal(err)
		}
		seg, err := segment.FromBytes(fmt.Sprint(i), image)
		if err != nil {
			t.Fatal(err)
		}
		in.Sources = append(in.Sources, exec.Source{Segment: seg, Dropped: near[:len(near)/3]})
	}
	return in
}

// TestStretches runs queries of few rows of a segment with summaries of blocks. The
// answers equal the answers of small segments without, and few rows were read.
func TestStretches(t *testing.T) {
	large, small := sealedBy(t, 1), sealedBy(t, 12)
	rows := int64(large.Sources[0].Segment.Rows())
	for doc, most := range map[string]int64{ // events read
		"segment: {event: near, bucket: day}":                                                                 rows,
		"segment: {event: near}":                                                                              rows / 4,
		"segment: {event: near, measure: users, where: {item: exists}}":                                       rows / 4,
		"segment: {event: [near, rare], by: zone, where: {item: missing}}":                                    rows,
		"segment: {event: near, where: {item: 77}}":                                                           rows / 4,
		"segment: {event: view, where: {zone: 500}, by: item}":                                                rows,
		"segment: {where: {zone: 500}}":                                                                       rows / 4,
		"segment: {where: {zone: {between: [500, 510]}, item: exists}}":                                       rows / 4,
		"segment: {where: {any: [{zone: 500}, {zone: {in: [3, 900]}}]}}":                                      rows / 2,
		"segment: {where: {zone: {ne: 500}, item: {gt: 4000}}}":                                               rows,
		"segment: {event: cart, where: {item: {gt: 4000}}, bucket: day}":                                      rows,
		"segment: {event: near, where: {cohort: some}}":                                                       rows / 4,
		"segment: {where: {cohort: some, item: {lt: 100}}}":                                                   rows,
		"segment: {event: view, from: 2026-01-20, to: 2026-01-21, by: item}":                                  rows,
		"funnel: {steps: [near, view], within: 7d}":                                                           rows,
		"funnel: {steps: [rare, rare], within: 7d}":                                                           rows,
		"funnel: {steps: [{event: near, where: {item: {gt: 4900}}}, view], within: 7d, by: zone}":             rows,
		"funnel: {steps: [near, view, near, view, near, view, near, view, near, view], within: 7d}":           rows,
		"funnel: {steps: [rare, rare, rare, rare, rare, rare, rare, rare, rare, rare], within: 7d}":           rows,
		"retention: {start: {event: near, where: {zone: {gte: 3}}}, return: view, every: week, periods: 3}":   rows,
		"paths: {anchor: near, steps: 3}":                                                                     rows,
		"funnel: {steps: [{event: view, where: {zone: 500}}, {event: view, where: {zone: 500}}], within: 7d}": rows,
	} {
		got, want := ask(t, large, doc), ask(t, small, doc)
		if got.Stats.EventsRead > most {
			t.Errorf("%s: read %d events of %d, want at most %d", doc, got.Stats.EventsRead, rows, most)
		}
		got.Stats = want.Stats
		g, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if w, err := json.Marshal(want); err != nil || string(g) != string(w) {
			t.Errorf("%s: got\n%s\nwant\n%s, %v", doc, g, w, err)
		}
	}
}
