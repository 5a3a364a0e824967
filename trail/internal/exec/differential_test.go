package exec_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

var (
	seeds  = flag.Uint64("seeds", 150, "how many random cases the differential test draws")
	first  = flag.Uint64("first", 1, "the seed of the first one")
	worlds = flag.Uint64("worlds", trailtest.Worlds, "how many worlds the test of layouts draws")
)

// bucket is the width of a segment in milliseconds.
const bucket = 28 * 86400_000

// split divides events into segments as a store might have them: by time bucket,
// and within one into up to runs that overlap.
func split(t testing.TB, c *trailtest.Case, runs int, random *rand.Rand) []exec.Source {
	t.Helper()
	type place struct{ bucket, run int64 }
	builders := make(map[place]*segment.Builder)
	for i := range c.Events {
		e := &c.Events[i]
		p := place{int64(math.Floor(float64(e.Time) / bucket)), random.Int64N(int64(runs))}
		b := builders[p]
		if b == nil {
			b = segment.NewBuilder(c.Schema)
			builders[p] = b
		}
		values := make([]event.Value, len(c.Schema))
		for _, prop := range e.Properties {
			i := c.Schema.Index(prop.Name)
			values[i], _ = prop.Value.As(c.Schema[i].Type)
		}
		b.Add(e.User, e.Time, e.Name, event.HashID(e.ID), values)
	}
	var sources []exec.Source
	for p, b := range builders {
		image, err := b.Image()
		if err != nil {
			t.Fatal(err)
		}
		seg, err := segment.FromBytes(fmt.Sprint(p), image)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, exec.Source{Segment: seg})
	}
	random.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
	return sources
}

// once drops events that came twice, as a store does when it takes them: those
// equal in user, time and id.
func once(c *trailtest.Case) {
	type key struct {
		user, id string
		time     int64
	}
	seen := make(map[key]bool)
	c.Events = slices.DeleteFunc(c.Events, func(e event.Event) bool {
		k := key{e.User, e.ID, e.Time}
		twice := e.ID != "" && seen[k]
		seen[k] = true
		return twice
	})
}

// TestReference draws random schemas, events and queries, and has every answer of
// the executor equal the reference's, over one segment a bucket and over
// many that overlap.
func TestReference(t *testing.T) {
	for seed := *first; seed < *first+*seeds; seed++ {
		c := trailtest.Draw(seed, trailtest.DrawOptions{})
		once(&c)
		random := rand.New(rand.NewPCG(seed, 2))
		var want []*query.Answer // of the queries: the reference knows no runs
		for i, q := range c.Queries {
			if err := q.Check(); err != nil {
				t.Fatalf("seed %d, query %d: %v", seed, i, err)
			}
			a, err := trailtest.Answer(c.Events, c.Schema, q, c.Cohorts)
			if err != nil {
				t.Fatalf("seed %d, query %d: the reference: %v", seed, i, err)
			}
			want = append(want, a)
		}
		for _, runs := range []int{1, 4} {
			in := exec.Input{Sources: split(t, &c, runs, random), Schema: c.Schema, Horizon: math.MinInt64, Cohort: func(name string) ([]uint64, error) {
				users, ok := c.Cohorts[name]
				if !ok {
					return nil, fmt.Errorf("no cohort is called %q", name)
				}
				return users, nil
			}}
			for i, q := range c.Queries {
				got, err := exec.Run(t.Context(), in, q, exec.Options{Workers: 1 + int(seed%3), Users: true, Memory: 1 << 30})
				if err != nil {
					t.Fatalf("seed %d, query %d: %v\n%s", seed, i, err, text(q))
				}
				if err := trailtest.Equal(got, want[i], 1e-9); err != nil {
					t.Errorf("seed %d, query %d, %d runs: got and want differ: %v\n%s", seed, i, runs, err, text(q))
				}
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// TestReferenceOfSamples has the answers to samples equal the reference's over
// the users of the sample, scaled. Counts and sums of segments are left out, as their
// intervals depend on what each user contributes.
func TestReferenceOfSamples(t *testing.T) {
	for seed := *first; seed < *first+*seeds/3; seed++ {
		c := trailtest.Draw(seed, trailtest.DrawOptions{})
		once(&c)
		random := rand.New(rand.NewPCG(seed, 3))
		in := exec.Input{Sources: split(t, &c, 2, random), Schema: c.Schema, Horizon: math.MinInt64, Cohort: func(name string) ([]uint64, error) { return c.Cohorts[name], nil }}
		for i, q := range c.Queries {
			if s := q.Segment; s != nil && q.Users == nil && (s.Measure.Kind == query.Count || s.Measure.Kind == query.Sum) {
				continue
			}
			q.Sample = []float64{0.25, 0.5, 0.9}[random.IntN(3)]
			if err := q.Check(); err != nil {
				t.Fatalf("seed %d, query %d: %v", seed, i, err)
			}
			got, err := exec.Run(t.Context(), in, q, exec.Options{Users: true})
			if err != nil {
				t.Fatalf("seed %d, query %d: %v\n%s", seed, i, err, text(q))
			}
			share := got.Stats.Sample
			among := slices.DeleteFunc(slices.Clone(c.Events), func(e event.Event) bool { return event.Hash(e.User) > uint64(share*(1<<63)*2) })
			q.Sample = 1
			want, err := trailtest.Answer(among, c.Schema, q, c.Cohorts)
			if err != nil {
				t.Fatalf("seed %d, query %d: the reference: %v", seed, i, err)
			}
			scale(q, want, share)
			if err := trailtest.Equal(got, want, 1e-9); err != nil {
				t.Fatalf("seed %d, query %d, sample %v: got and want differ: %v\n%s", seed, i, share, err, text(q))
			}
		}
	}
}

// scale scales all numbers of users of an answer.
func scale(q *query.Query, a *query.Answer, share float64) {
	users := func(n *query.Number) { *n = query.ScaleCount(n.N, float64(n.N), share) }
	steps := func(list []query.FunnelStep) {
		for i := range list {
			users(&list[i].Users)
			if list[i].Time != nil {
				for k := range list[i].Time.Histogram {
					users(&list[i].Time.Histogram[k].Users)
				}
			}
		}
	}
	switch {
	case a.Funnel != nil:
		steps(a.Funnel.Steps)
		for _, g := range a.Funnel.Groups {
			steps(g.Steps)
		}
		for _, b := range a.Funnel.Trend {
			steps(b.Steps)
		}
	case a.Retention != nil:
		for i := range a.Retention.Cohorts {
			c := &a.Retention.Cohorts[i]
			users(&c.Size)
			for k := range c.Periods {
				users(&c.Periods[k])
			}
		}
	case a.Segment != nil:
		for i := range a.Segment.Rows {
			if v := &a.Segment.Rows[i].Value; q.Segment.Measure.Kind == query.Users {
				n := query.ScaleCount(v.Int, float64(v.Int), share)
				v.Int, v.Low, v.High, v.Sampled = n.N, float64(n.Low), float64(n.High), n.Sampled
			}
		}
	case a.Cohort != nil:
		users(&a.Cohort.Users)
	case a.Paths != nil:
		for i := range a.Paths.Paths {
			users(&a.Paths.Paths[i].Users)
		}
	}
}

func text(q *query.Query) string {
	doc, err := json.Marshal(q)
	if err != nil {
		return fmt.Sprintf("%+v (%v)", q, err)
	}
	return string(doc)
}
