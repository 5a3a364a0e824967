package channels

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/batch/model"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// offerAll offers n events to a subject, closes it, and returns what the receiver
// got, and how many were not accepted.
func offerAll(t *testing.T, d arm.Design, n int, latency time.Duration) (counts model.Counts, dropped int64) {
	t.Helper()
	s := httptest.NewServer(model.NewReceiver())
	defer s.Close()
	c := model.NewClient(s.URL, "test")
	if err := c.Begin(t.Context(), model.Run{Latency: latency, Expect: n}); err != nil {
		t.Fatal(err)
	}
	subject, err := d.Make(arm.Options{URL: c.URL(), Endpoint: c.Endpoint(), Size: model.JSONSize, Interval: 10 * time.Millisecond, Limit: 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if subject.Offer(&model.Event{Seq: uint64(i), Time: time.Now().UnixNano()}) != "" {
			dropped++
		}
	}
	if err := subject.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if late := subject.(arm.Dropper).Dropped(); len(late) != 0 {
		t.Errorf("got %v dropped, want nothing", late)
	}
	counts, err = c.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return counts, dropped
}

// TestDesigns checks that each accepted event arrives once.
func TestDesigns(t *testing.T) {
	for _, d := range Designs() {
		t.Run(d.Name, func(t *testing.T) {
			const n = 500
			got, dropped := offerAll(t, d, n, time.Millisecond)
			if got.Distinct != n || dropped != 0 || got.Duplicates+got.Foreign+got.Malformed != 0 {
				t.Errorf("got %+v and %d dropped of %d, want all of them, once", got, dropped, n)
			}
		})
	}
}

// TestFailed checks that events of refused batches are counted.
func TestFailed(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	subject, err := Designs()[0].Make(arm.Options{URL: s.URL, Size: model.JSONSize, Interval: time.Millisecond, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		subject.Offer(&model.Event{Seq: uint64(i)})
	}
	if err := subject.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := subject.(arm.Dropper).Dropped(); got["failed"] != 100 {
		t.Errorf("got %v, want 100 failed", got)
	}
}

// TestIngest checks that every event is encoded, except those in memory when a
// design is closed.
func TestIngest(t *testing.T) {
	f := func(name string, add func(Encode) (func(*model.Event), func()), most int64) {
		t.Helper()
		var encoded atomic.Int64
		do, end := add(func(dst []byte, e *model.Event) []byte {
			encoded.Add(1)
			return model.AppendFlat(dst, e)
		})
		const producers, each = 4, 10_000
		var all sync.WaitGroup
		for range producers {
			all.Go(func() {
				e := model.Event{}
				for range each {
					do(&e)
				}
			})
		}
		all.Wait()
		end()
		if left := producers*each - encoded.Load(); left < 0 || left > most {
			t.Errorf("%s: got %d events that were not encoded, want 0 to %d", name, left, most)
		}
	}
	for _, queue := range []int{0, Queue} {
		f("channel", func(e Encode) (func(*model.Event), func()) { c := NewChannel(e, queue); return c.Add, c.Close }, int64(queue+batchEvents))
	}
	f("swap", func(e Encode) (func(*model.Event), func()) { s := NewSwap(e); return s.Add, s.Close }, 0)
}
