package batch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
)

// A receiver is a SendFunc that records batches.
type receiver struct {
	mu struct {
		sync.Mutex
		batches [][]string
		keys    []string
		times   []time.Time
		bodies  []string
	}
	// answer decides by the number of the call, from 1. Nil accepts all.
	answer func(call int, b *batch.Batch, events []string) batch.Outcome
}

func (r *receiver) send(_ context.Context, b *batch.Batch) batch.Outcome {
	var events []string
	for e := range b.Events() {
		events = append(events, string(e))
	}
	body := b.Body()
	all, err := io.ReadAll(body)
	if err != nil || int64(len(all)) != b.Size() || len(events) != b.Len() {
		panic(fmt.Sprint("body: ", err, len(all), b.Size(), len(events), b.Len()))
	}
	body.Close()
	call := r.record(events, b.Key(), string(all))
	if r.answer == nil {
		return batch.Outcome{}
	}
	return r.answer(call, b, events)
}

func (r *receiver) record(events []string, key, body string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.batches = append(r.mu.batches, events)
	r.mu.keys = append(r.mu.keys, key)
	r.mu.times = append(r.mu.times, time.Now())
	r.mu.bodies = append(r.mu.bodies, body)
	return len(r.mu.batches)
}

func (r *receiver) calls() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.mu.batches)
}

func encode(dst []byte, n *int) ([]byte, error) { return strconv.AppendInt(dst, int64(*n), 10), nil }

func start(t *testing.T, c batch.Options[int]) *batch.Processor[int] {
	t.Helper()
	c.Encode = encode
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	p, err := batch.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func add(t *testing.T, p *batch.Processor[int], from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := p.Add(&i); err != nil {
			t.Fatalf("add %d: %v", i, err)
		}
	}
}

func balance(t *testing.T, p *batch.Processor[int]) batch.Stats {
	t.Helper()
	s := p.Stats()
	if err := s.Balance(); err != nil {
		t.Error(err)
	}
	return s
}

func finish(t *testing.T, p *batch.Processor[int]) batch.Report {
	t.Helper()
	r, err := p.Close(t.Context())
	if err != nil {
		t.Errorf("close: %v", err)
	}
	balance(t, p)
	return r
}

func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r receiver
		p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Count: 3}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}})
		add(t, p, 0, 7)
		synctest.Wait()
		balance(t, p)
		if got := fmt.Sprint(r.calls()); got != "[[0 1 2] [3 4 5]]" {
			t.Errorf("got %s", got)
		}
		finish(t, p)
		if got := fmt.Sprint(r.calls()); got != "[[0 1 2] [3 4 5] [6]]" {
			t.Errorf("got %s", got)
		}
	})
}

func TestLingerCountsFromTheFirstEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r receiver
		p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Linger: 500 * time.Millisecond}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}})
		begin := time.Now()
		sleep(700 * time.Millisecond)
		add(t, p, 0, 1)
		sleep(300 * time.Millisecond)
		add(t, p, 1, 2)
		sleep(time.Second)
		add(t, p, 2, 3)
		sleep(time.Second)
		if got := fmt.Sprint(r.calls()); got != "[[0 1] [2]]" {
			t.Errorf("got %s", got)
		}
		for i, want := range []time.Duration{1200 * time.Millisecond, 2500 * time.Millisecond} {
			if got := r.mu.times[i].Sub(begin); got != want {
				t.Errorf("batch %d: got %v, want %v", i, got, want)
			}
		}
		finish(t, p)
	})
}

// sleep advances the clock of the bubble.
func sleep(d time.Duration) { <-time.After(d) }

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(call int, _ *batch.Batch, _ []string) batch.Outcome {
			if call < 4 {
				return batch.Outcome{Err: errors.New("away")}
			}
			return batch.Outcome{}
		}}
		p := start(t, batch.Options[int]{Send: r.send})
		add(t, p, 0, 5)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if s := balance(t, p); s.Delivered != 5 || s.Retried != 15 {
			t.Errorf("got %d delivered, %d retried", s.Delivered, s.Retried)
		}
		if keys := slices.Compact(slices.Clone(r.mu.keys)); len(keys) != 1 {
			t.Errorf("keys differ: %v", r.mu.keys)
		}
		finish(t, p)
	})
}

func TestCloseReturnsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(int, *batch.Batch, []string) batch.Outcome {
			return batch.Outcome{Err: errors.New("away")}
		}}
		p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Count: 2}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}})
		add(t, p, 0, 11)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		report, err := p.Close(ctx)
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) && err == nil || report.Undelivered != 11 {
			t.Errorf("got %v, %+v", err, report)
		}
		var left []string
		for e := range report.Events() {
			left = append(left, string(e))
		}
		if got := fmt.Sprint(left); got != "[0 1 2 3 4 5 6 7 8 9 10]" {
			t.Errorf("got %s", got)
		}
		if s := balance(t, p); s.Returned != 11 {
			t.Errorf("got %+v", s)
		}
		n := 1
		if err := p.Add(&n); !errors.Is(err, batch.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}
