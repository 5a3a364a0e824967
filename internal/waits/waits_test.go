package waits

import (
	"context"
	"errors"
	"strconv"
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
	if m.Deliver("a", value.Null()) || m.mu.n != 0 {
		t.Errorf("%d wait although all have got theirs", m.mu.n)
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
	if m.mu.n != 0 || len(m.mu.waiting) != 0 {
		t.Errorf("%d wait, under %d keys", m.mu.n, len(m.mu.waiting))
	}
}
