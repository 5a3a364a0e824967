package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// measured are a shared processor's metrics by name and labels.
func measured(t *testing.T, o *sharedProcessor) map[string]float64 {
	t.Helper()
	all := make(map[string]float64)
	o.measure(func(m node.Metric) {
		name := m.Name
		for _, l := range m.Labels {
			name += fmt.Sprintf("{%s=%q}", l.Name, l.Value)
		}
		if _, twice := all[name]; twice || m.Help == "" {
			t.Errorf("%s: reported twice, or without help", name)
		}
		all[name] = m.Value
	})
	return all
}

// TestMeasure reports what waits while the receiver is away, and goes on counting
// when the processor changes.
func TestMeasure(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	o := newSharedProcessor(slog.New(slog.DiscardHandler), (*node.Memory)(nil).Account(""))
	if got := measured(t, o); len(got) > 0 {
		t.Errorf("without a processor: got %v", got)
	}
	s := settings{
		node: "n", url: server.URL, method: "POST", header: "{}", count: 1, bytes: 1 << 20, linger: time.Millisecond, lanes: 1,
		spool: t.TempDir(), timeout: time.Minute,
	}
	if err := o.use(s); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := o.add(t.Context(), &s, &batchEvent{payload: value.Int(1)}); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.After(20 * time.Second)
	for tick := time.Tick(time.Millisecond); measured(t, o)["batch_paused_lanes"] == 0; {
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("got %v, want a paused lane", measured(t, o))
		}
	}
	got := measured(t, o)
	if got["batch_accepted_events_total"] != 3 || got["batch_queued_events"]+got["batch_in_flight_events"] != 3 ||
		got["batch_oldest_age_seconds"] <= 0 || got["batch_requests_total"] == 0 || got["batch_retrying_batches"] == 0 {
		t.Errorf("got %v", got)
	}
	before := got["batch_requests_total"]
	s.count = 2
	if err := o.use(s); err != nil {
		t.Fatal(err)
	}
	if got := measured(t, o); got["batch_accepted_events_total"] != 3 || got["batch_requests_total"] < before || got["batch_spool_bytes"] == 0 ||
		got["batch_spooled_events"]+got["batch_in_flight_events"] != 3 {
		t.Errorf("after the change: got %v", got)
	}
	o.mu.grace = time.Millisecond
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

// TestCounted has a place for each reason that a processor of a node can have to
// drop events.
func TestCounted(t *testing.T) {
	all := counted(batch.Stats{DroppedFull: 1, DroppedExhausted: 2, Refused: 4, Unreadable: 8})
	sum := 0.0
	for _, m := range all {
		sum += m.Value
	}
	if sum != 15 {
		t.Errorf("got %v dropped, want 15", sum)
	}
}

// TestMemoryOfEvents adds events for a receiver that is away: past the memory of the program they
// are refused, and taken again when it is there and has taken those that wait.
func TestMemoryOfEvents(t *testing.T) {
	var there atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !there.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	const limit = 8 << 20
	held := node.NewMemory(limit).Account("batch")
	o := newSharedProcessor(slog.New(slog.DiscardHandler), held)
	s := settings{node: "n", url: server.URL, method: "POST", header: "{}", count: 10, bytes: 1 << 20, linger: time.Millisecond, lanes: 1, timeout: time.Minute}
	if err := o.use(s); err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	add := func() error {
		return o.add(t.Context(), &s, &batchEvent{payload: value.String(strings.Repeat("x", 100<<10))})
	}
	n := 0
	for ; n < 200; n++ {
		if err := add(); errors.Is(err, batch.ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n < 20 || n > 60 {
		t.Errorf("%d events of 100 KiB were taken, within 4 MiB", n)
	}
	there.Store(true)
	_, p := o.now()
	p.Resume()
	ctx, end := context.WithTimeout(t.Context(), 20*time.Second)
	defer end()
	for add() != nil {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("no event is taken after the others were, and %d bytes are held", held.Held())
		}
	}
}
