package batch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
)

// away returns a receiver that is down until back is called.
func away() (r *receiver, back func()) {
	var there atomic.Bool
	r = &receiver{}
	r.answer = func(int, *batch.Batch, []string) batch.Outcome {
		if there.Load() {
			return batch.Outcome{}
		}
		return batch.Outcome{Err: errors.New("away")}
	}
	return r, func() { there.Store(true) }
}

// quick has short back-offs, for tests with the real clock.
var quick = batch.Retry{Initial: time.Millisecond, Max: 5 * time.Millisecond}

// numbers returns the events of all calls from the given one, in the order of arrival,
// each once.
func (r *receiver) numbers(t *testing.T, from int) []int {
	t.Helper()
	var all []int
	seen := make(map[int]bool)
	for _, events := range r.calls()[from:] {
		for _, e := range events {
			n, err := strconv.Atoi(e)
			if err != nil {
				t.Fatal(err)
			}
			if !seen[n] {
				all = append(all, n)
			}
			seen[n] = true
		}
	}
	return all
}

func count(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// TestCrash copies the spool of a running processor, like a crash, and continues with the
// copy: durable events are there, and batches that were being sent come again unchanged.
func TestCrash(t *testing.T) {
	for name, lanes := range map[string]batch.Lanes[int]{
		"unordered": {},
		"key":       {Max: 3, Order: batch.OrderPerKey, Key: func(n *int) uint64 { return uint64(*n) }},
		"total":     {Order: batch.OrderTotal},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := away()
			dir := filepath.Join(t.TempDir(), "spool")
			p := start(t, batch.Options[int]{
				Send: r.send, Trigger: batch.Trigger{Count: 10}, Lanes: lanes, Retry: quick,
				Spool: &batch.Spool{Dir: dir, WriteAhead: true},
			})
			for i := range 100 {
				ticket, err := p.AddAck(t.Context(), &i)
				if err != nil {
					t.Fatal(err)
				}
				if err := ticket.Wait(t.Context(), batch.StateDurable); err != nil {
					t.Fatal(err)
				}
			}
			for len(r.calls()) < 20 {
				if err := t.Context().Err(); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Millisecond)
			}
			copied := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			report, err := p.Close(ctx)
			if err != nil || report.Spooled != 100 {
				t.Errorf("close: %v, %+v", err, report)
			}
			balance(t, p)

			for _, dir := range []string{copied, dir} {
				var again receiver
				q := start(t, batch.Options[int]{Send: again.send, Lanes: lanes, Spool: &batch.Spool{Dir: dir, WriteAhead: true}})
				add(t, q, 100, 110)
				s := finishStats(t, q)
				if s.Recovered != 100 || s.Delivered != 110 || s.Corrupt+s.LostOnDisk != 0 {
					t.Errorf("got %+v", s)
				}
				got := again.numbers(t, 0)
				if name == "total" && !slices.Equal(got, count(110)) {
					t.Errorf("out of order: %v", got)
				}
				slices.Sort(got)
				if !slices.Equal(got, count(110)) {
					t.Errorf("got %v", got)
				}
				// Batches with an old key have the same events.
				before := make(map[string]string)
				for i, key := range r.mu.keys {
					before[key] = fmt.Sprint(r.mu.batches[i])
				}
				same := 0
				for i, key := range again.mu.keys {
					if was, ok := before[key]; ok {
						same++
						if got := fmt.Sprint(again.mu.batches[i]); got != was {
							t.Errorf("batch %s was %s and is %s", key, was, got)
						}
					}
				}
				if same == 0 {
					t.Errorf("no batch came again under its key: %v, before %v", again.mu.keys, r.mu.keys)
				}
				left, err := filepath.Glob(filepath.Join(dir, "*.seg"))
				if err != nil || len(left) > 1 {
					t.Errorf("%v is left: %v", left, err)
				}
			}
		})
	}
}

// TestSpill adds a hundred times more events than memory may hold while the receiver is
// away.
func TestSpill(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		r, back := away()
		p := start(t, batch.Options[int]{
			Send: r.send, Trigger: batch.Trigger{Count: 50, Linger: 10 * time.Millisecond}, Retry: quick,
			Queue: batch.Queue{Events: 300}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal},
			Spool: &batch.Spool{Dir: t.TempDir(), WriteAhead: ahead},
		})
		const n = 20_000
		for i := range n {
			add(t, p, i, i+1)
			if i%1000 == 0 {
				if s := balance(t, p); s.Queued > 300 {
					t.Errorf("%d events wait in memory", s.Queued)
				}
			}
		}
		if s := balance(t, p); s.Spooled < n/2 {
			t.Errorf("%d events on disk only", s.Spooled)
		}
		back()
		if s := finishStats(t, p); s.Delivered != n || s.Spooled != 0 {
			t.Errorf("got %+v", s)
		}
		if got := r.numbers(t, 0); !slices.Equal(got, count(n)) {
			t.Errorf("ahead %v: out of order or incomplete: %d events", ahead, len(got))
		}
	}
}

// TestOtherSettings recovers events with another format and number of lanes.
func TestOtherSettings(t *testing.T) {
	dir := t.TempDir()
	key := func(n *int) uint64 { return uint64(*n % 7) }
	r, _ := away()
	p := start(t, batch.Options[int]{
		Send: r.send, Trigger: batch.Trigger{Count: 5}, Retry: quick, Format: batch.FormatRaw,
		Lanes: batch.Lanes[int]{Max: 5, Order: batch.OrderPerKey, Key: key}, Spool: &batch.Spool{Dir: dir, WriteAhead: true},
	})
	add(t, p, 0, 1000)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if report, err := p.Close(ctx); err != nil || report.Spooled != 1000 {
		t.Errorf("close: %v, %+v", err, report)
	}
	var again receiver
	q := start(t, batch.Options[int]{
		Send: again.send, Trigger: batch.Trigger{Count: 5}, Format: batch.FormatArray,
		Lanes: batch.Lanes[int]{Max: 3, Order: batch.OrderPerKey, Key: key}, Spool: &batch.Spool{Dir: dir},
	})
	add(t, q, 1000, 2000)
	if s := finishStats(t, q); s.Recovered != 1000 || s.Delivered != 2000 {
		t.Errorf("got %+v", s)
	}
	last := make(map[int]int)
	for _, n := range again.numbers(t, 0) {
		if before, ok := last[n%7]; ok && n < before {
			t.Fatalf("key %d: %d after %d", n%7, n, before)
		}
		last[n%7] = n
	}
	for i, body := range again.mu.bodies {
		if want := "[" + strings.Join(again.mu.batches[i], ",") + "]"; body != want {
			t.Fatalf("got body %s, want %s", body, want)
		}
	}
}

// TestKeepLate writes a batch to disk after Spool.AfterAttempts, without WriteAhead.
func TestKeepLate(t *testing.T) {
	r, back := away()
	dir := t.TempDir()
	p := start(t, batch.Options[int]{Send: r.send, Retry: quick, Trigger: batch.Trigger{Count: 5}, Spool: &batch.Spool{Dir: dir}})
	ticket := batch.Ticket{}
	for i := range 5 {
		var err error
		if ticket, err = p.AddAck(t.Context(), &i); err != nil {
			t.Fatal(err)
		}
	}
	if err := ticket.Wait(t.Context(), batch.StateDurable); err != nil {
		t.Error(err)
	}
	if n := len(r.calls()); n < 3 {
		t.Errorf("on disk after %d attempts, want 3", n)
	}
	back()
	if s := finishStats(t, p); s.Delivered != 5 || s.SpoolBytes != 0 {
		t.Errorf("got %+v", s)
	}
}

// TestUnreadable damages records on disk while the processor runs: their events are
// reported, and the others are sent.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	r, back := away()
	var d drops
	p := start(t, batch.Options[int]{
		Send: r.send, Trigger: batch.Trigger{Count: 10}, Retry: quick, OnDrop: d.add,
		Queue: batch.Queue{Events: 100}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal},
		Spool: &batch.Spool{Dir: dir},
	})
	add(t, p, 0, 1000)
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v: %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(data), "\n905\n")
	if at < 0 {
		at = strings.Index(string(data), "\n505\n")
	}
	f, err := os.OpenFile(files[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), int64(at+1)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	back()
	s := finishStats(t, p)
	if s.Unreadable == 0 || s.Unreadable > 10 || s.Delivered != 1000-s.Unreadable || len(d.by[batch.ReasonUnreadable]) != int(s.Unreadable) {
		t.Errorf("got %+v, %v", s, d.by)
	}
}

// TestSpoolInUse opens a folder twice.
func TestSpoolInUse(t *testing.T) {
	dir := t.TempDir()
	var r receiver
	c := batch.Options[int]{Encode: encode, Send: r.send, Spool: &batch.Spool{Dir: dir}}
	p := start(t, c)
	if _, err := batch.New(c); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want an error that names %s", err, dir)
	}
	finish(t, p)
}

// TestCloseWithinOnDrop closes a processor while OnDrop runs for the last event of a batch:
// all its events are counted, so none comes back.
func TestCloseWithinOnDrop(t *testing.T) {
	dir := t.TempDir()
	r := receiver{answer: func(int, *batch.Batch, []string) batch.Outcome {
		return batch.Outcome{Refused: []batch.Refusal{{Index: 2, Reason: "no id"}}}
	}}
	dropping, closed, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p := start(t, batch.Options[int]{
		Send: r.send, Trigger: batch.Trigger{Count: 5}, Spool: &batch.Spool{Dir: dir, WriteAhead: true},
		OnDrop: func(batch.Dropped) {
			defer close(done)
			close(dropping)
			<-closed
		},
	})
	add(t, p, 0, 5)
	<-dropping
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := p.Close(ctx)
	close(closed)
	<-done
	if err != nil || report.Delivered != 4 || report.Refused != 1 || report.Spooled != 0 {
		t.Errorf("close: %v, %+v", err, report)
	}
	balance(t, p)
	q := start(t, batch.Options[int]{Send: new(receiver).send, Spool: &batch.Spool{Dir: dir}})
	if s := finishStats(t, q); s.Recovered != 0 {
		t.Errorf("%d events come back", s.Recovered)
	}
}
