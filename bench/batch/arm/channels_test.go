package arm

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// offerAll offers n events to a subject, closes it, and returns what the receiver
// got, and how many were not accepted.
func offerAll(t *testing.T, d Design, n int, latency time.Duration) (counts Counts, dropped int64) {
	t.Helper()
	s := httptest.NewServer(NewReceiver())
	defer s.Close()
	c := NewClient(s.URL, "test")
	if err := c.Begin(t.Context(), Run{Latency: latency, Expect: n}); err != nil {
		t.Fatal(err)
	}
	subject, err := d.Make(Options{URL: c.URL(), Endpoint: c.Endpoint(), Size: JSONSize, Interval: 10 * time.Millisecond, Limit: 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if subject.Offer(&Event{Seq: uint64(i), Time: time.Now().UnixNano()}) != "" {
			dropped++
		}
	}
	if err := subject.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if late := subject.(Dropper).Dropped(); len(late) != 0 {
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
	subject, err := Designs()[0].Make(Options{URL: s.URL, Size: JSONSize, Interval: time.Millisecond, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		subject.Offer(&Event{Seq: uint64(i)})
	}
	if err := subject.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := subject.(Dropper).Dropped(); got["failed"] != 100 {
		t.Errorf("got %v, want 100 failed", got)
	}
}

// TestIngest checks that every event is encoded, except those in memory when a
// design is closed.
func TestIngest(t *testing.T) {
	f := func(name string, add func(Encode) (func(*Event), func()), most int64) {
		t.Helper()
		var encoded atomic.Int64
		do, end := add(func(dst []byte, e *Event) []byte {
			encoded.Add(1)
			return AppendFlat(dst, e)
		})
		const producers, each = 4, 10_000
		var all sync.WaitGroup
		for range producers {
			all.Go(func() {
				e := Event{}
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
		f("channel", func(e Encode) (func(*Event), func()) { c := NewChannel(e, queue); return c.Add, c.Close }, int64(queue+batchEvents))
	}
	f("swap", func(e Encode) (func(*Event), func()) { s := NewSwap(e); return s.Add, s.Close }, 0)
}
