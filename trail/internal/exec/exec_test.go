package exec_test

import (
	"context"
	"errors"
	"fmt"
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

// parse reads a query document.
func parse(t testing.TB, doc string) *query.Query {
	t.Helper()
	q, err := query.Parse("test", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// shop returns events of many users, in segments of a bucket.
func shop(t testing.TB, users int) exec.Input {
	t.Helper()
	c := &trailtest.Case{Schema: event.Schema{{Name: "country", Type: event.String}, {Name: "price", Type: event.Int}, {Name: "rate", Type: event.Float}}}
	random := rand.New(rand.NewPCG(1, 1))
	for u := range users {
		country := []string{"KR", "FR", "US", ""}[u%4]
		at := int64(1_767_571_200_000) + random.Int64N(28*86400_000)
		for range 1 + random.IntN(30) {
			at += random.Int64N(86400_000)
			name := []string{"view", "view", "view", "cart", "purchase"}[random.IntN(5)]
			c.Events = append(c.Events, event.Event{User: fmt.Sprintf("u%d", u), Time: at, Name: name, Properties: []event.Property{
				{Name: "country", Value: event.StringOf(country)},
				{Name: "price", Value: event.IntOf(random.Int64N(1000))},
				{Name: "rate", Value: event.FloatOf(random.NormFloat64())},
			}})
		}
	}
	return exec.Input{Sources: split(t, c, 2, random), Schema: c.Schema, Horizon: math.MinInt64}
}

func ask(t testing.TB, in exec.Input, doc string) *query.Answer {
	t.Helper()
	a, err := exec.Run(t.Context(), in, parse(t, doc), exec.Options{})
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return a
}

// TestSample reads less for samples, whose intervals hold the truth about as
// often as they say.
func TestSample(t *testing.T) {
	in := shop(t, 20_000)
	docs := []string{
		"funnel: {steps: [view, cart, purchase], within: 7d}",
		"segment: {by: country}",
		"segment: {by: country, measure: users}",
		"segment: {event: purchase, by: country, measure: sum(price)}",
		"retention: {start: view, return: purchase, every: 7d, periods: 5}",
	}
	held, all := 0, 0
	check := func(truth float64, low, high float64) {
		all++
		if low <= truth && truth <= high {
			held++
		}
	}
	for _, doc := range docs {
		full := ask(t, in, doc)
		if whole := ask(t, in, "sample: 1\n"+doc); trailtest.Equal(whole, full, 0) != nil {
			t.Errorf("%s: a sample of 1 differs from no sample: %v", doc, trailtest.Equal(whole, full, 0))
		}
		for _, share := range []string{"0.1", "0.2", "0.35"} {
			part := ask(t, in, "sample: "+share+"\n"+doc)
			if want := full.Stats.BytesRead / 2; part.Stats.BytesRead > want {
				t.Errorf("%s, sample %s: read %d bytes, want at most %d", doc, share, part.Stats.BytesRead, want)
			}
			if got := fmt.Sprint(part.Stats.Sample); got != share {
				t.Errorf("%s: got sample %s, want %s", doc, got, share)
			}
			switch {
			case full.Funnel != nil:
				for i, s := range full.Funnel.Steps {
					n := part.Funnel.Steps[i].Users
					check(float64(s.Users.N), float64(n.Low), float64(n.High))
				}
			case full.Segment != nil:
				for _, r := range full.Segment.Rows {
					i := slices.IndexFunc(part.Segment.Rows, func(p query.SegmentRow) bool { return p.Group[0] == r.Group[0] })
					m := part.Segment.Rows[i].Value
					check(float64(r.Value.Int), m.Low, m.High)
				}
			default:
				for i, c := range full.Retention.Cohorts {
					for k, n := range c.Periods {
						p := part.Retention.Cohorts[i].Periods[k]
						check(float64(n.N), float64(p.Low), float64(p.High))
					}
				}
			}
		}
	}
	if share := float64(held) / float64(all); share < 0.85 {
		t.Errorf("the intervals of 95 %% held the truth in %.0f %% of %d counts", 100*share, all)
	}
}

// TestNested holds that the users of a sample are among the users of a larger one.
func TestNested(t *testing.T) {
	in := shop(t, 2000)
	found := func(share string) []query.User {
		a, err := exec.Run(t.Context(), in, parse(t, "sample: "+share+"\ncohort: {did: view}"), exec.Options{Users: true})
		if err != nil {
			t.Fatal(err)
		}
		return a.Cohort.Found
	}
	small, large := found("0.05"), found("0.3")
	if len(small) == 0 || len(small) >= len(large) {
		t.Fatalf("got %d and %d users", len(small), len(large))
	}
	if !slices.Equal(small, large[:len(small)]) {
		t.Error("the smaller sample has users that are not the first of the larger one")
	}
}

// TestWorkers has the answer not depend on how many workers there are.
func TestWorkers(t *testing.T) {
	in := shop(t, 3000)
	for _, doc := range []string{
		"funnel: {steps: [view, cart, purchase], within: 2d, by: country}",
		"segment: {bucket: day, by: [country], measure: avg(rate)}",
		"segment: {by: [country], measure: p95(rate)}",
		"paths: {anchor: cart, steps: 3, top: 50}",
	} {
		one, err := exec.Run(t.Context(), in, parse(t, doc), exec.Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		many, err := exec.Run(t.Context(), in, parse(t, doc), exec.Options{Workers: 7})
		if err != nil {
			t.Fatal(err)
		}
		if err := trailtest.Equal(many, one, 1e-12); err != nil {
			t.Errorf("%s: 7 workers and 1 differ: %v", doc, err)
		}
	}
}

// TestCancel ends a query whose context has ended, with its cause.
func TestCancel(t *testing.T) {
	in := shop(t, 100)
	why := errors.New("the client went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := exec.Run(ctx, in, parse(t, "segment: {}"), exec.Options{}); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

// TestMemory ends a query that would hold more than it may.
func TestMemory(t *testing.T) {
	in := shop(t, 5000)
	for _, doc := range []string{
		"segment: {by: [price, rate]}",
		"segment: {by: [country], measure: p50(price)}",
		"funnel: {steps: [view, cart], by: rate}",
		"cohort: {did: view}",
	} {
		_, err := exec.Run(t.Context(), in, parse(t, doc), exec.Options{Memory: 64 << 10, IDs: true})
		var limit *exec.MemoryError
		if !errors.As(err, &limit) {
			t.Errorf("%s: got %v, want a MemoryError", doc, err)
		}
		if _, err := exec.Run(t.Context(), in, parse(t, doc), exec.Options{}); err != nil {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

// TestErrors has errors for queries that only the store can find wrong.
func TestErrors(t *testing.T) {
	in := shop(t, 10)
	for _, c := range []struct{ doc, want string }{
		{"segment: {where: {price: cheap}}", `price is an integer, "cheap" is not`},
		{"segment: {where: {price: {contains: 1}}}", "price is an integer, not a string"},
		{"segment: {measure: sum(country)}", "country is a string, which cannot be measured"},
		{"segment: {where: {cohort: unknown}}", "no cohorts are kept here"},
	} {
		_, err := exec.Run(t.Context(), in, parse(t, c.doc), exec.Options{})
		var wrong *query.Error
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Msg, c.want) {
			t.Errorf("%s: got %v, want %s", c.doc, err, c.want)
		}
	}
}

// TestWarnings has a warning for each unknown name, with the nearest known one.
func TestWarnings(t *testing.T) {
	in := shop(t, 10)
	for _, c := range []struct{ doc, want string }{
		{"funnel: {steps: [veiw, cart]}", `no event is called "veiw", did you mean "view"`},
		{"segment: {where: {contry: KR}}", `no event has the property "contry", did you mean "country"`},
		{"segment: {event: zzzzzz}", `no event is called "zzzzzz"; there are cart, purchase, view`},
	} {
		a := ask(t, in, c.doc)
		if !slices.Contains(a.Stats.Warnings, c.want) {
			t.Errorf("%s: got %q, want %q", c.doc, a.Stats.Warnings, c.want)
		}
	}
}

// TestOverlap warns where one event can be two steps, and nowhere else.
func TestOverlap(t *testing.T) {
	in := shop(t, 10)
	warned := func(doc string) bool {
		t.Helper()
		return slices.ContainsFunc(ask(t, in, doc).Stats.Warnings, func(w string) bool {
			return strings.HasPrefix(w, "steps 2 and ") && strings.Contains(w, " overlap: one ")
		})
	}
	for _, doc := range []string{
		"funnel: {steps: [cart, view, view]}",
		"funnel: {steps: [cart, view, purchase, view]}",
		"funnel: {steps: [cart, {event: view, where: {country: KR}}, view]}",
		"funnel: {steps: [cart, {event: [view, purchase]}, {event: [view, purchase]}], mode: [strict_order]}",
		"funnel: {steps: [cart, {event: view, where: {country: KR, all: [{country: exists}]}}, {event: view, where: {country: KR, all: [{country: exists}]}}]}",
	} {
		if !warned(doc) {
			t.Errorf("%s: got no warning", doc)
		}
	}
	for _, doc := range []string{
		"funnel: {steps: [cart, view, view], mode: [strict_once]}",
		"funnel: {steps: [cart, view, view], mode: [strict_increase]}",
		"funnel: {steps: [cart, view, view], order: any}",
		"funnel: {steps: [cart, {event: view, where: {country: exists}}, {event: view, where: {country: missing}}]}",
	} {
		if warned(doc) {
			t.Errorf("%s: got a warning", doc)
		}
	}
}

// TestKnownElsewhere does not warn of an event that is there at other times.
func TestKnownElsewhere(t *testing.T) {
	a := ask(t, shop(t, 10), "segment: {event: view, to: 1971-01-01}")
	if len(a.Stats.Warnings) > 0 || a.Stats.Segments > 0 {
		t.Errorf("got warnings %q and %d segments, want none", a.Stats.Warnings, a.Stats.Segments)
	}
}

// TestQuantiles has percentiles of more values than are kept be right within half
// a percent of rank.
func TestQuantiles(t *testing.T) {
	n := 1_300_000
	if invariant.Race {
		n = 150_000
	}
	b := segment.NewBuilder(event.Schema{{Name: "v", Type: event.Float}})
	random := rand.New(rand.NewPCG(4, 4))
	values := make([]float64, n)
	for i := range values {
		values[i] = math.Exp(random.NormFloat64())
		b.Add(fmt.Sprint(i%50_000), int64(i), "e", 0, []event.Value{event.FloatOf(values[i])})
	}
	image, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	seg, err := segment.FromBytes("v", image)
	if err != nil {
		t.Fatal(err)
	}
	in := exec.Input{Sources: []exec.Source{{Segment: seg}}, Schema: seg.Schema(), Horizon: math.MinInt64}
	slices.Sort(values)
	for _, p := range []int{1, 25, 50, 90, 99} {
		got := ask(t, in, fmt.Sprintf("segment: {measure: p%d(v)}", p)).Segment.Rows[0].Value.Float
		rank, _ := slices.BinarySearch(values, got)
		if off := math.Abs(float64(rank)/float64(n) - float64(p)/100); off > 0.005 {
			t.Errorf("p%d: got %v, which is %.2f %% of rank away", p, got, 100*off)
		}
	}
}

// TestDropped has deleted users not count.
func TestDropped(t *testing.T) {
	in := shop(t, 500)
	all := ask(t, in, "cohort: {did: {}}").Cohort.Users.N
	var gone []uint64
	for u := range 100 {
		gone = append(gone, event.Hash(fmt.Sprintf("u%d", u)))
	}
	slices.Sort(gone)
	for i := range in.Sources {
		in.Sources[i].Dropped = gone
	}
	if got := ask(t, in, "cohort: {did: {}}").Cohort.Users.N; got != all-100 {
		t.Errorf("got %d users, want %d", got, all-100)
	}
}

// TestHorizon has events before the horizon not exist, for any kind of query.
func TestHorizon(t *testing.T) {
	in := shop(t, 500)
	from := int64(1_767_571_200_000 + 10*86400_000)
	bounded := "from: " + event.Time(from).Format("2006-01-02T15:04:05Z")
	want := ask(t, in, "segment: {by: country, "+bounded+"}")
	in.Horizon = from
	if err := trailtest.Equal(ask(t, in, "segment: {by: country}"), want, 0); err != nil {
		t.Error(err)
	}
}

// TestExplain says what became of filters.
func TestExplain(t *testing.T) {
	in := shop(t, 500)
	got, err := exec.Explain(in, parse(t, "funnel: {steps: [view, {event: cart, where: {country: exists, price: {gt: 10}}}, {event: purchase, where: {country: {contains: R}}}], from: 2026-01-10}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"country exists [code is not 0]", "price gt [", "country contains [2 of 4 codes]", "match 1   view from 2026-01-10T00:00:00Z",
		"columns   time, event, country, price", "all users", "scan of masks",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

// TestExplainAsked explains what a query asks for besides its kind.
func TestExplainAsked(t *testing.T) {
	in := shop(t, 500)
	f := func(doc string, want ...string) {
		t.Helper()
		got, err := exec.Explain(in, parse(t, doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		for _, line := range want {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("%s: got\n%s\nwant %q in it", doc, got, line)
			}
		}
	}
	f("{funnel: {steps: [view, cart], by: [country, price], by_step: last, limit: 2, other: true, times: first}}",
		"groups    by country, price at the last step reached; up to 2, and the others as one", "times     since step 1: median, p90, histogram")
	f("{funnel: {steps: [view, cart], by: country, by_step: 2, times: previous}}",
		"groups    by country at step 2; up to 1000", "times     since the step before: median, p90, histogram")
	f("{funnel: {steps: [view, cart], by: country, order: any}}", "groups    by country at the first event; up to 1000")
	f("{funnel: {steps: [view, cart], bucket: week_sunday, timezone: Asia/Seoul}, users: {step: 1, dropped: true, bucket: 2026-01-04}}",
		"trend     by the week_sunday of step 1, Asia/Seoul", "number    the users behind step 1 who reached no later step; bucket 2026-01-04")
	f(`{funnel: {steps: [view, cart], by: country}, users: {step: 2, group: ""}}`, "number    the users behind step 2; group (missing)")
	f("{segment: {by: country, limit: 1, other: true, bucket: day}, users: {other: true}}",
		"groups    by country; up to 1, and the others as one", "buckets   by day, UTC", "number    the users behind the matching events; the other groups")
	f("{retention: {start: view, return: cart, every: week, periods: 3}, users: {cohort: 2026-01-05, period: 1}}",
		"number    the users behind cohort 2026-01-05; period 1")
	f("{paths: {anchor: view}, users: {path: [view, cart]}}", "number    the users behind the path view, cart")
}

// TestAllocations keeps a query from allocating by row: what it allocates is that
// of its workers and shards.
func TestAllocations(t *testing.T) {
	in := shop(t, 4000)
	for _, c := range []struct {
		doc  string
		most float64
	}{
		{"funnel: {steps: [view, cart, purchase], within: 7d}", 120},
		{"retention: {start: view, return: purchase, every: 7d, periods: 5}", 160},
		{"segment: {by: country, bucket: day, where: {country: exists}}", 900}, // by row of the answer
	} {
		q := parse(t, c.doc)
		got := testing.AllocsPerRun(10, func() {
			if _, err := exec.Run(t.Context(), in, q, exec.Options{Workers: 1}); err != nil {
				t.Fatal(err)
			}
		})
		if got > c.most && !invariant.Enabled { // its checks allocate, and so does the race detector
			t.Errorf("%s: got %.0f allocations, want at most %.0f", c.doc, got, c.most)
		}
	}
}
