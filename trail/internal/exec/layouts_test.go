package exec_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// merge merges the segments of each bucket, separately for each part of the hashes.
func merge(t *testing.T, sources []exec.Source, parts int) (merged []exec.Source) {
	t.Helper()
	of := map[int64][]segment.Input{}
	for _, s := range sources {
		at := int64(math.Floor(float64(s.Segment.MinTime()) / bucket))
		of[at] = append(of[at], segment.Input{Segment: s.Segment, From: math.MinInt64})
	}
	for _, at := range slices.Sorted(maps.Keys(of)) {
		for part := range uint64(1) << parts {
			for i := range of[at] {
				of[at][i].Hashes = segment.HashRange{}.Part(parts, part)
			}
			var out bytes.Buffer
			if _, err := segment.Merge(&out, of[at]); err != nil {
				t.Fatal(err)
			}
			seg, err := segment.FromBytes(fmt.Sprintf("bucket %d, part %d of %d", at, part, 1<<parts), out.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			merged = append(merged, exec.Source{Segment: seg})
		}
	}
	return merged
}

// deleted adds events to a case that do not count: of users who are deleted, and of the
// time before the horizon. It returns their users, and the horizon.
func deleted(c *trailtest.Case, random *rand.Rand) (with trailtest.Case, users []uint64, horizon int64) {
	with, horizon = *c, math.MaxInt64
	with.Events = slices.Clone(c.Events)
	for _, e := range c.Events {
		horizon = min(horizon, e.Time)
	}
	for _, e := range c.Events {
		switch random.IntN(6) {
		case 0:
			e.User = "gone " + e.User
			with.Events = append(with.Events, e)
			users = append(users, event.Hash(e.User))
		case 1:
			e.Time = horizon - 1 - random.Int64N(2*bucket)
			with.Events = append(with.Events, e)
		}
	}
	slices.Sort(users)
	return with, slices.Compact(users), horizon
}

// mostOfOne returns how many events the user with the most has.
func mostOfOne(c *trailtest.Case) int {
	users := map[string]int{}
	for i := range c.Events {
		users[c.Events[i].User]++
	}
	return slices.Max(slices.Collect(maps.Values(users)))
}

// count counts columns near the limits of what a segment does. The query must read all
// properties.
func count(in exec.Input, reached exec.Reached) {
	for _, s := range in.Sources {
		for _, f := range s.Segment.Schema() {
			switch c := s.Segment.Column(f.Name); {
			case c == nil:
			case c.Encoding() == "user-sparse" && s.Segment.Rows() > 1<<16:
				reached["stripes"]++ // behind the first one
				fallthrough
			default:
				switch n := c.Codes(); n {
				case 2, 3, 5, 17, 40, 63, 64, 65, 256, 3000, 70_000:
					reached[fmt.Sprint("codes ", n)]++
				}
			}
		}
	}
}

// TestLayouts queries worlds, whose events lie in segments in several ways:
// many small ones without summaries, which overlap, and others that must answer alike.
// The reference answers some of the questions, too. The test counts how often the questions
// came to each way to save work; none may be left out.
func TestLayouts(t *testing.T) {
	reached := exec.Reached{}
	asked, most := 0, 0
	seeds := *worlds
	if invariant.Race {
		seeds = min(seeds, 1)
	}
	for seed := *first; seed < *first+seeds; seed++ {
		c := trailtest.DrawWorld(seed, trailtest.WorldOptions{})
		once(&c)
		most = max(most, mostOfOne(&c))
		random := rand.New(rand.NewPCG(seed, 4))
		small := split(t, &c, len(c.Events)/3000, random)
		layouts := map[string]exec.Input{
			"small":   {Sources: small},
			"one":     {Sources: split(t, &c, 1, random)},
			"merged":  {Sources: merge(t, small, 0)},
			"divided": {Sources: merge(t, small, 1)},
		}
		with, users, horizon := deleted(&c, random)
		rest := exec.Input{Sources: split(t, &with, 1, random), Horizon: horizon}
		for i := range rest.Sources {
			rest.Sources[i].Dropped = users
		}
		layouts["with deleted ones"] = rest
		for _, in := range layouts {
			count(in, reached)
		}
		for i, q := range c.Queries {
			if err := q.Check(); err != nil {
				t.Fatalf("seed %d, query %d: %v", seed, i, err)
			}
			var want *query.Answer
			if i%9 == 0 && trailtest.Quick(&c, q) {
				var err error
				if want, err = trailtest.Answer(c.Events, c.Schema, q, c.Cohorts); err != nil {
					t.Fatalf("seed %d, query %d: the reference: %v", seed, i, err)
				}
			}
			for _, name := range append([]string{"small"}, slices.Sorted(maps.Keys(layouts))...) {
				in := layouts[name]
				if in.Horizon == 0 {
					in.Horizon = math.MinInt64
				}
				in.Schema, in.Cohort = c.Schema, func(name string) ([]uint64, error) { return c.Cohorts[name], nil }
				got, err := exec.Run(t.Context(), in, q, exec.Options{Workers: 1 + int(seed%2), Users: true, Memory: 1 << 30, Reached: reached})
				if err != nil {
					t.Fatalf("seed %d, query %d, layout %s: %v\n%s", seed, i, name, err, text(q))
				}
				asked++
				if want == nil {
					want = got
				}
				if err := trailtest.Equal(got, want, 1e-9); err != nil {
					t.Errorf("seed %d, query %d, layout %s: got and want differ: %v\n%s", seed, i, name, err, text(q))
					break
				}
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		lines = append(lines, fmt.Sprintf("%s %d", name, reached[name]))
	}
	t.Logf("%d questions, up to %d events of a user, reached: %s", asked, most, strings.Join(lines, ", "))
	if invariant.Race || *first%trailtest.Worlds != 1 || *worlds < trailtest.Worlds {
		return
	}
	if most < 100_000 {
		t.Errorf("got %d events of a user, want 100,000 or more", most)
	}
	for _, name := range []string{
		"blocks left out", "views left out", "event sets", "presence", "rare events", "empty masks", "index of buckets", "table of numbers", "times gaps", "times packed",
		"column constant", "column digits", "column packed", "column plain", "column present", "column raw", "column raw-sparse", "column runs", "column sparse",
		"column user", "column user-sparse", "stripes", "codes 2", "codes 3", "codes 5", "codes 17", "codes 40", "codes 63", "codes 64", "codes 65", "codes 256",
		"codes 3000", "codes 70000",
	} {
		if reached[name] == 0 {
			t.Errorf("no question came to: %s", name)
		}
	}
}
