package exec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// wide returns events with columns of many values, which the executor numbers before it
// reads rows: a string, an integer, and a number that older segments have as an
// integer.
func wide(t testing.TB, events int) (exec.Input, []event.Event, event.Schema) {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 5))
	schema := event.Schema{{Name: "item", Type: event.String}, {Name: "sku", Type: event.Int}, {Name: "cost", Type: event.Float}, {Name: "shop", Type: event.String}}
	old := event.Schema{schema[0], schema[1], {Name: "cost", Type: event.Int}, schema[3]}
	in := exec.Input{Schema: schema, Horizon: math.MinInt64}
	var all []event.Event
	for i := range 3 {
		types := schema
		if i == 0 {
			types = old
		}
		b := segment.NewBuilder(types)
		for range events / 3 {
			e := event.Event{User: fmt.Sprint("u", random.IntN(events/20)), Name: "view", Time: int64(i)*bucket + random.Int64N(bucket)}
			values := make([]event.Value, len(schema))
			if random.IntN(10) > 0 {
				values[0] = event.StringOf(fmt.Sprint("item ", random.IntN(300)+i*50))
			}
			if random.IntN(20) > 0 {
				values[1] = event.IntOf(random.Int64N(320) * 7)
			}
			values[2] = event.FloatOf(float64(random.IntN(900)) / 2)
			if i == 0 {
				values[2] = event.IntOf(1<<53 + random.Int64N(700)) // two of them are one number
			}
			values[3] = event.StringOf(fmt.Sprint("shop ", random.IntN(4)))
			b.Add(e.User, e.Time, e.Name, 0, values)
			for k, v := range values {
				if v, _ = v.As(schema[k].Type); !v.Missing() {
					e.Properties = append(e.Properties, event.Property{Name: schema[k].Name, Value: v})
				}
			}
			all = append(all, e)
		}
		image, err := b.Image()
		if err != nil {
			t.Fatal(err)
		}
		seg, err := segment.FromBytes(fmt.Sprint("segment ", i), image)
		if err != nil {
			t.Fatal(err)
		}
		in.Sources = append(in.Sources, exec.Source{Segment: seg})
	}
	return in, all, schema
}

// TestWide has groups of many values be answered as the reference answers them.
func TestWide(t *testing.T) {
	many := 6_000
	if invariant.Race {
		many = 1_500 // the reference takes most of the time, and has one goroutine
	}
	in, events, schema := wide(t, many)
	for _, by := range []string{"item", "sku", "cost", "[item, shop]", "[shop, sku]"} {
		for _, measure := range []string{"count", "users", "sum(sku)", "max(cost)", "p50(sku)"} {
			for _, more := range []string{"", ", limit: 7", ", limit: 7, other: true", ", bucket: week", ", bucket: week, limit: 3, other: true, fill: true", ", where: {sku: {lt: 40}}, limit: 9999, other: true"} {
				doc := fmt.Sprintf("segment: {by: %s, measure: %s%s}", by, measure, more)
				q := parse(t, doc)
				want, err := trailtest.Answer(events, schema, q, nil)
				if err != nil {
					t.Fatal(err)
				}
				got, err := exec.Run(t.Context(), in, q, exec.Options{Workers: 3})
				if err != nil {
					t.Fatalf("%s: %v", doc, err)
				}
				if err := trailtest.Equal(got, want, 1e-9); err != nil {
					t.Errorf("%s: got and want differ: %v", doc, err)
				}
			}
		}
	}
}

// TestSparse has a budget that is too small for a number for each cell change only what
// the query takes: the second shard makes the cells too many.
func TestSparse(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 11))
	b := segment.NewBuilder(event.Schema{{Name: "v", Type: event.Int}})
	for i := range 140_000 {
		user, name := random.Int64N(600), "view"
		if i%10 == 0 {
			name = "buy"
		}
		b.Add(fmt.Sprint("u", user), random.Int64N(28*86400)*1000, name, 0, []event.Value{event.IntOf(user)})
	}
	data, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	in := store(t, event.Int, data)
	for measure, memory := range map[string]int64{"count": 10 << 20, "users": 12 << 20, "sum(v)": 40 << 20, "p50(v)": 60 << 20} {
		q := parse(t, "segment: {event: buy, by: v, bucket: hour, measure: "+measure+"}")
		run := func(memory int64, workers int) *query.Answer {
			a, err := exec.Run(t.Context(), in, q, exec.Options{Workers: workers, Memory: memory})
			if err != nil {
				t.Fatalf("%s: %v", measure, err)
			}
			return a
		}
		want := run(1<<30, 1)
		for workers := 1; workers <= 2; workers++ {
			if err := trailtest.Equal(run(memory, workers), want, 0); err != nil {
				t.Errorf("%s: got and want differ: %v", measure, err)
			}
		}
	}
}
