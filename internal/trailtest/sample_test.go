package trailtest

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// TestSampleTellsAStory checks that the answers of the tutorial, about examples/shop.csv,
// are worth reading: what 200 customers did in eight weeks.
func TestSampleTellsAStory(t *testing.T) {
	events, schema := readSample(t)
	if n := len(events); n < 1800 || n > 2200 {
		t.Errorf("got %d events, want about 2,000", n)
	}
	ask := func(q *query.Query) *query.Answer {
		a, err := Answer(events, schema, q, nil)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	var steps []query.Match
	for _, name := range []string{"visit", "signup", "view", "cart", "purchase"} {
		steps = append(steps, query.Match{Events: []string{name}})
	}
	funnel := ask(&query.Query{Funnel: &query.Funnel{Steps: steps, Within: 7 * 24 * time.Hour}}).Funnel
	before := int64(201)
	for _, s := range funnel.Steps {
		t.Logf("%s: %d", s.Event, s.Users.N)
		if s.Users.N >= before || s.Users.N < 20 {
			t.Errorf("%s: got %d users after %d, want fewer, but not few", s.Event, s.Users.N, before)
		}
		before = s.Users.N
	}
	retention := ask(&query.Query{Retention: &query.Retention{Start: steps[1], Return: query.Match{Events: []string{"open"}}, Every: query.Every{Unit: query.Week}, Periods: 8}}).Retention
	var first, later int64
	for _, c := range retention.Cohorts {
		t.Log(c.Start, c.Size.N, c.Periods)
		first += c.Periods[1].N
		later += c.Periods[4].N
	}
	if len(retention.Cohorts) != 8 || first < 2*later {
		t.Errorf("got %d cohorts, %d returns after a week and %d after four, want 8 cohorts and a fall", len(retention.Cohorts), first, later)
	}
}

func readSample(t *testing.T) ([]event.Event, event.Schema) {
	t.Helper()
	f, err := os.Open("../../examples/shop.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var schema event.Schema
	for _, name := range lines[0][3:] {
		f := event.Field{Name: name, Type: event.String}
		if name == "price" {
			f.Type = event.Float
		}
		schema = append(schema, f)
	}
	var events []event.Event
	for _, line := range lines[1:] {
		at, err := time.Parse(time.RFC3339, line[1])
		if err != nil {
			t.Fatal(err)
		}
		e := event.Event{User: line[0], Time: event.Millis(at), Name: line[2]}
		for i, text := range line[3:] {
			v := event.StringOf(text)
			if schema[i].Type == event.Float && text != "" {
				price, err := strconv.ParseFloat(text, 64)
				if err != nil {
					t.Fatal(err)
				}
				v = event.FloatOf(price)
			}
			e.Properties = append(e.Properties, event.Property{Name: schema[i].Name, Value: v})
		}
		events = append(events, e)
	}
	return events, schema
}
