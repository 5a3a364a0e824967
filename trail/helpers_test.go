package trail

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
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

// memoryState returns the state of an empty store whose files are in memory, for
// components that are tested without a Store.
func memoryState(t testing.TB) (*state, *vfstest.FS) {
	t.Helper()
	fsys := vfstest.New()
	opt, err := Options{fs: fsys}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	st := newState(newFolder("store", opt), opt)
	if err := st.load(&manifest{Version: manifestVersion, Bucket: opt.Bucket.Milliseconds()}, nil); err != nil {
		t.Fatal(err)
	}
	st.update(func() {})
	t.Cleanup(func() { st.current.Swap(nil).unpin() })
	return st, fsys
}

// segmentOf returns a segment in memory of one user's events, of which each is a
// millisecond after the one before.
func segmentOf(t testing.TB, name string, bucket int64, rows int) *segment.Segment {
	t.Helper()
	b := segment.NewBuilder(nil)
	for i := range rows {
		b.Add("u", bucket*defaultBucket.Milliseconds()+epochMonday+int64(i), "view", 0, nil)
	}
	image, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	seg, err := segment.FromBytes(name, image)
	if err != nil {
		t.Fatal(err)
	}
	return seg
}

// runOf returns a run in memory.
func runOf(t testing.TB, bucket int64, commit uint64, rows int) *source {
	t.Helper()
	seg := segmentOf(t, "memory", bucket, rows)
	return &source{entry: entry{Bucket: bucket, Commit: commit}.of(seg), seg: seg, memory: true}
}

// fileOf returns a segment that counts as a file, though it is in memory.
func fileOf(t testing.TB, name string, bucket int64, commit uint64, rows int) *source {
	t.Helper()
	seg := segmentOf(t, name, bucket, rows)
	return &source{entry: entry{File: name, Bucket: bucket, Commit: commit}.of(seg), seg: seg}
}

// rowsIn returns how many rows queries see.
func rowsIn(t testing.TB, st *state) (rows int64) {
	t.Helper()
	sn, err := st.view()
	if err != nil {
		t.Fatal(err)
	}
	defer sn.unpin()
	for _, src := range sn.sources {
		rows += src.Rows
	}
	return rows
}
