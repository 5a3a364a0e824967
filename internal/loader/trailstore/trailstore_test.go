package trailstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/loader"
	"github.com/uniflow-labs/uniflow/trail"
)

// TestStore takes what a store takes, keeps the mark, and reports the batch
// of events whose types do not go together.
func TestStore(t *testing.T) {
	store, err := trail.Open(t.TempDir(), trail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	parser, err := trail.NewEventParser(trail.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(store, "loader", parser, trail.Times{})
	of := func(prices ...string) loader.Batch {
		t.Helper()
		b := s.NewBatch()
		for i, price := range prices {
			if err := b.Add(fmt.Appendf(nil, `{"user":"ann","time":%d,"event":"buy","price":%s}`, 1767607200+i, price)); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}
	if got := s.Mark(); len(got) > 0 {
		t.Errorf("got mark %q", got)
	}
	// Nothing is known of the price yet.
	one, two, three := of("1", `"x"`), of("2"), of("3.5", `true`, "4")
	err = s.Append([]loader.Batch{one, two, three}, []byte("m1"))
	var refused *loader.RefusedError
	if !errors.As(err, &refused) || len(refused.Refused) != 2 || len(s.Mark()) > 0 {
		t.Fatalf("got %v, mark %q", err, s.Mark())
	}
	for i, want := range [][2]int{{0, 1}, {2, 1}} {
		if r := refused.Refused[i]; r.Batch != want[0] || r.Event != want[1] || !strings.Contains(r.Err.Error(), "price") {
			t.Errorf("got %+v, want event %v", r, want)
		}
	}
	one.Remove(1)
	three.Remove(1)
	if err := s.Append([]loader.Batch{one, two, three}, []byte("m2")); err != nil || string(s.Mark()) != "m2" {
		t.Fatalf("got %v, mark %q", err, s.Mark())
	}
	if n := store.Info().Rows; n != 4 {
		t.Errorf("got %d events, want 4", n)
	}
	// Now it is.
	for _, bad := range []string{
		`{"user":"ann","time":1767607200,"event":"buy","price":"x"}`, `{"user":"ann","time":1767607200}`, `{"user":"ann","event":"buy"}`, `{"time":1767607200,"event":"buy"}`,
		`[]`, `7`, `{"user":"ann","time":"soon","event":"buy"}`, `{"user":"ann","time":1767607200,"event":"buy","tags":[1]}`,
		`{"user":"ann","time":1767607200,"event":"buy","price":9007199254740993}`, `{"user":"ann","time":1767607200,"event":"buy","new":18446744073709551615}`,
		`{"user":"ann","time":"0001-02-03","event":"buy"}`, `{"user":"ann","time":"9999-02-03","event":"buy"}`,
	} {
		if err := two.Add([]byte(bad)); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
	two.Reset()
	if err := s.Append([]loader.Batch{two}, []byte("m3")); err != nil || string(s.Mark()) != "m3" || store.Info().Rows != 4 {
		t.Errorf("got %v, mark %q", err, s.Mark())
	}
	if names := store.Schema().Names(); !slices.Equal(names, []string{"price"}) {
		t.Errorf("got properties %q", names)
	}
}

// BenchmarkLoader sends batches of 1,000 events concurrently, into files and into a
// store, with fsync.
func BenchmarkLoader(b *testing.B) {
	for _, name := range []string{"out", "trail"} {
		b.Run(name, func(b *testing.B) {
			opts := loader.Options{Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)}
			if name == "trail" {
				opts.Dir = ""
				store, err := Use(&opts, Options{Dir: b.TempDir()})
				if err != nil {
					b.Fatal(err)
				}
				defer func() {
					if err := store.Close(); err != nil {
						b.Error(err)
					}
				}()
			}
			l, err := loader.Open(opts)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := l.Close(); err != nil {
					b.Error(err)
				}
			}()
			var body []byte
			for i := range 1000 {
				body = fmt.Appendf(body, `{"user":"user-%d","time":%d,"event":"view","country":"KR","price":%d,"page":"/items/%d"}`+"\n", i%300, 1767607200+i, i%50, i%100)
			}
			h := l.Handler()
			b.SetBytes(int64(len(body)))
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r := httptest.NewRequest(http.MethodPost, "/batch", bytes.NewReader(body))
					r.Header.Set("Content-Type", "application/x-ndjson")
					w := httptest.NewRecorder()
					if h.ServeHTTP(w, r); w.Code != http.StatusOK {
						b.Errorf("got %d %s", w.Code, w.Body)
					}
				}
			})
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
		})
	}
}
