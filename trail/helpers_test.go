package trail

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// base is the time of the first event of tests: 2026-01-05, a Monday.
const base = int64(1767571200000)

func open(t testing.TB, dir string, opt Options) *Store {
	t.Helper()
	s, err := Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// quiet are options under which nothing is flushed unless asked.
func quiet() Options { return Options{FlushEvery: -1, NoSync: true} }

func ev(user string, millis int64, name string, props ...event.Property) event.Event {
	return event.Event{User: user, Time: millis, Name: name, Properties: props}
}

func prop(name string, v event.Value) event.Property { return event.Property{Name: name, Value: v} }

func add(t testing.TB, s *Store, events ...event.Event) {
	t.Helper()
	if err := s.Append(t.Context(), events); err != nil {
		t.Fatal(err)
	}
}

// draw returns random events over some buckets, each with an id of its own.
func draw(lot *rand.Rand, n int, prefix string) []event.Event {
	events := make([]event.Event, n)
	names := []string{"view", "cart", "purchase", "signup"}
	for i := range events {
		events[i] = event.Event{
			User: fmt.Sprintf("u%d", lot.IntN(50)), Time: base + lot.Int64N(100*24*3600*1000), Name: names[lot.IntN(len(names))],
			ID: fmt.Sprintf("%s-%d", prefix, i),
			Properties: []event.Property{
				prop("country", event.StringOf([]string{"KR", "FR", "DE", ""}[lot.IntN(4)])),
				prop("price", event.IntOf(lot.Int64N(1000))),
				prop("vip", event.BoolOf(lot.IntN(2) == 0)),
			},
		}
	}
	return events
}

func countQuery(names ...string) *query.Query {
	return &query.Query{Segment: &query.Segment{Match: query.Match{Events: names}}}
}

func ask(t testing.TB, s *Store, q *query.Query) *query.Answer {
	t.Helper()
	a, err := s.Query(t.Context(), q, QueryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// count returns how many events of a name there are, of all without one.
func count(t testing.TB, s *Store, names ...string) int64 {
	t.Helper()
	return ask(t, s, countQuery(names...)).Segment.Rows[0].Value.Int
}

func wantCount(t testing.TB, s *Store, want int64, names ...string) {
	t.Helper()
	if got := count(t, s, names...); got != want {
		t.Errorf("got %d events %v, want %d", got, names, want)
	}
}

func wantSound(t testing.TB, dir string) {
	t.Helper()
	r, err := Verify(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Damages {
		t.Errorf("damaged: %v", d)
	}
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*RejectedError](err)
	return ok
}

func day(n int64) int64 { return base + n*24*time.Hour.Milliseconds() }
