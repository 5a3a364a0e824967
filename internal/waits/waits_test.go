package waits

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A result is what done got.
type result struct {
	text string
	err  error
}

// wait waits, and returns where the result comes.
func wait(ctx context.Context, m *Memory, key string, d time.Duration) chan result {
	got := make(chan result, 1)
	m.Wait(ctx, key, time.Now().Add(d), func(v value.Value, err error) {
		text, _ := v.AsString()
		got <- result{text, err}
	})
	return got
}

func TestDeliver(t *testing.T) {
	m := New(node.SystemClock{})
	if m.Deliver("a", value.String("early")) {
		t.Error("a message was delivered though nothing waits")
	}
	first, second := wait(t.Context(), m, "a", time.Hour), wait(t.Context(), m, "a", time.Hour)
	for i, got := range []chan result{first, second} {
		text := strconv.Itoa(i)
		if !m.Deliver("a", value.String(text)) {
			t.Fatal("nothing waits")
		}
		if r := <-got; r != (result{text, nil}) {
			t.Errorf("got %v, want %q", r, text)
		}
	}
	if m.Deliver("a", value.Null()) || m.mu.waiting.Len() != 0 {
		t.Errorf("%d wait although all have got theirs", m.mu.waiting.Len())
	}
}

// TestDeliverLeft passes over one whose process has just ended.
func TestDeliverLeft(t *testing.T) {
	m := New(node.SystemClock{})
	ctx, leave := context.WithCancel(t.Context())
	left, second := wait(ctx, m, "a", time.Hour), wait(t.Context(), m, "a", time.Hour)
	leave()
	if !m.Deliver("a", value.String("x")) {
		t.Error("nothing waits")
	}
	if r := <-left; !errors.Is(r.err, context.Canceled) {
		t.Errorf("got %v of a process that ended", r)
	}
	if r := <-second; r != (result{"x", nil}) {
		t.Errorf("got %v, want x", r)
	}
}

func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(node.SystemClock{})
		late := wait(t.Context(), m, "a", time.Minute)
		ctx, leave := context.WithCancel(t.Context())
		left := wait(ctx, m, "a", time.Hour)
		leave()
		if r := <-left; !errors.Is(r.err, context.Canceled) {
			t.Errorf("got %v of a process that ended", r)
		}
		if r := <-late; !errors.Is(r.err, node.ErrWaitTimeout) {
			t.Errorf("got %v after the time", r)
		}
		if m.Deliver("a", value.Null()) {
			t.Error("a message was delivered to one that has ended")
		}
	})
}

func TestMost(t *testing.T) {
	m := New(node.SystemClock{})
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, Most)
	for i := range Most {
		m.Wait(ctx, strconv.Itoa(i), time.Now().Add(time.Hour), func(_ value.Value, err error) { ended <- err })
	}
	if r := <-wait(ctx, m, "more", time.Hour); !errors.Is(r.err, node.ErrTooManyWaits) {
		t.Errorf("got %v", r)
	}
	leave()
	for range Most {
		<-ended
	}
	if m.mu.waiting.Len() != 0 || m.mu.waiting.Keys() != 0 {
		t.Errorf("%d wait, under %d keys", m.mu.waiting.Len(), m.mu.waiting.Keys())
	}
}

func TestStop(t *testing.T) {
	m := New(node.SystemClock{})
	var stops []func() bool
	for range 3 {
		stops = append(stops, m.Wait(t.Context(), "a", time.Now().Add(time.Hour), func(value.Value, error) { t.Error("done was called") }))
	}
	for _, i := range []int{1, 0, 2} {
		if !stops[i]() || stops[i]() {
			t.Errorf("wait %d: it was not stopped once", i)
		}
	}
	if m.Deliver("a", value.Null()) || m.mu.waiting.Len() != 0 {
		t.Error("one that was stopped waits")
	}
}

func TestEnd(t *testing.T) {
	m := New(node.SystemClock{})
	waiting := []chan result{wait(t.Context(), m, "a", time.Hour), wait(t.Context(), m, "a", time.Hour), wait(t.Context(), m, "b", time.Hour)}
	m.End()
	for _, got := range append(waiting, wait(t.Context(), m, "a", time.Hour)) {
		if r := <-got; !errors.Is(r.err, node.ErrWaitsEnded) {
			t.Errorf("got %v", r)
		}
	}
	if m.mu.waiting.Len() != 0 || m.mu.waiting.Keys() != 0 {
		t.Errorf("%d wait after the end", m.mu.waiting.Len())
	}
}

// TestHammer lets waits end in every way, concurrently. Each ends once.
func TestHammer(t *testing.T) {
	m := New(node.SystemClock{})
	var workers sync.WaitGroup
	var ended, started atomic.Int64
	for i := range 8 {
		workers.Go(func() {
			for j := range 500 {
				ctx, leave := context.WithCancel(t.Context())
				key := strconv.Itoa(j % 7)
				started.Add(1)
				stop := m.Wait(ctx, key, time.Now().Add(time.Duration(j%5)*time.Microsecond+time.Hour*time.Duration(j%2)), func(value.Value, error) { ended.Add(1) })
				switch (i + j) % 3 {
				case 0:
					m.Deliver(key, value.Null())
				case 1:
					if stop() {
						ended.Add(1)
					}
				}
				leave()
			}
		})
	}
	workers.Wait()
	for m.count() > 0 {
		runtime.Gosched()
	}
	for ended.Load() < started.Load() {
		runtime.Gosched()
	}
	if ended.Load() != started.Load() {
		t.Errorf("%d waits have ended %d times", started.Load(), ended.Load())
	}
}

func (m *Memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.waiting.Len()
}

// BenchmarkSweep is one look at the most that can wait.
func BenchmarkSweep(b *testing.B) {
	m := New(node.SystemClock{})
	for i := range Most {
		m.Wait(b.Context(), strconv.Itoa(i), time.Now().Add(time.Hour), func(value.Value, error) {})
	}
	for b.Loop() {
		m.sweep(m.armed())
	}
	m.End()
}

func (m *Memory) armed() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.next
}
