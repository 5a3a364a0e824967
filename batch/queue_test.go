package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
)

// A shut receiver accepts nothing until it opens.
func shut(open <-chan struct{}) (r *receiver) {
	return &receiver{answer: func(int, *batch.Batch, []string) batch.Outcome {
		<-open
		return batch.Outcome{}
	}}
}

func TestReject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		r := shut(open)
		p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Count: 10}, Queue: batch.Queue{Events: 50, Full: batch.PolicyReject}, Lanes: batch.Lanes[int]{Max: 2}})
		accepted := 0
		for i := range 1000 {
			switch err := p.Add(&i); {
			case err == nil:
				accepted++
			case !errors.Is(err, batch.ErrFull):
				t.Fatal(err)
			}
			synctest.Wait()
		}
		s := balance(t, p)
		if s.Queued > 50 || s.Queued < 40 || s.InFlight != 20 || s.Rejected != uint64(1000-accepted) {
			t.Errorf("accepted %d, %+v", accepted, s)
		}
		close(open)
		finish(t, p)
	})
}

func TestDropNewest(t *testing.T) {
	dropping(t, batch.PolicyDropNewest, 20, "map[full:[15 16 17 18 19]]", "[[0 1 2 3 4] [5 6 7 8 9] [10 11 12 13 14]]")
}

func TestDropOldest(t *testing.T) {
	dropping(t, batch.PolicyDropOldest, 23, "map[full:[5 6 7 8 9 10 11 12 13 14]]", "[[0 1 2 3 4] [15 16 17 18 19] [20 21 22]]")
}

// dropping adds n events to a queue of ten while a batch of five is on the way.
func dropping(t *testing.T, full batch.Policy, n int, dropped, delivered string) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		r := shut(open)
		var d drops
		p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add, Trigger: batch.Trigger{Count: 5}, Queue: batch.Queue{Events: 10, Full: full}, Lanes: batch.Lanes[int]{Max: 1}})
		for i := range n {
			add(t, p, i, i+1)
			synctest.Wait()
		}
		if got := fmt.Sprint(d.by); got != dropped {
			t.Errorf("got %s dropped, want %s", got, dropped)
		}
		if s := balance(t, p); s.Accepted != uint64(n) || s.DroppedFull != uint64(strings.Count(dropped, " ")+1) {
			t.Errorf("got %+v", s)
		}
		close(open)
		finish(t, p)
		if got := fmt.Sprint(r.calls()); got != delivered {
			t.Errorf("got %s delivered, want %s", got, delivered)
		}
	})
}

// TestBlock has producers that wait for room, with and without a time limit; Close
// releases them.
func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		r := shut(open)
		p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Count: 1}, Queue: batch.Queue{Events: 2}, Lanes: batch.Lanes[int]{Max: 1}})
		for i := range 3 {
			add(t, p, i, i+1)
			synctest.Wait()
		}
		n := 3
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if err := p.AddWait(ctx, &n); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		var got [2]error
		done := make(chan struct{})
		go func() {
			defer close(done)
			got[0] = p.Add(&n)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("Add did not wait")
		default:
		}
		close(open)
		<-done
		if got[0] != nil {
			t.Errorf("got %v", got[0])
		}
		finish(t, p)
	})
}

func TestCloseReleasesProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		r := shut(open)
		p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Count: 1}, Queue: batch.Queue{Events: 2}, Lanes: batch.Lanes[int]{Max: 1}})
		for i := range 3 {
			add(t, p, i, i+1)
			synctest.Wait()
		}
		errs := make(chan error)
		go func() {
			n := 3
			errs <- p.Add(&n)
		}()
		synctest.Wait()
		go func() {
			_, err := p.Close(context.Background())
			errs <- err
		}()
		if err := <-errs; !errors.Is(err, batch.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
		close(open)
		if err := <-errs; err != nil {
			t.Error(err)
		}
		balance(t, p)
	})
}

// TestSmallQueue has a Trigger.Count above the size of the queue and no Linger: events are
// sent when a producer needs room.
func TestSmallQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r receiver
		p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Count: 1000, Linger: -1}, Queue: batch.Queue{Events: 7}})
		add(t, p, 0, 100)
		if s := finishStats(t, p); s.Delivered != 100 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r receiver
		p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Linger: -1, Idle: time.Second}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}})
		begin := time.Now()
		for i := range 8 {
			add(t, p, i, i+1)
			sleep(500 * time.Millisecond)
		}
		sleep(time.Minute)
		if got := fmt.Sprint(r.calls()); got != "[[0 1 2 3 4 5 6 7]]" {
			t.Fatalf("got %s", got)
		}
		if got := r.mu.times[0].Sub(begin.Add(3500 * time.Millisecond)); got < time.Second || got > 1250*time.Millisecond {
			t.Errorf("sent %v after the last event", got)
		}
		finish(t, p)
	})
}

// TestPerKey has lanes that retry at random: the events of each key arrive in order.
func TestPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(call int, _ *batch.Batch, _ []string) batch.Outcome {
			if call%3 == 0 {
				return batch.Outcome{Err: errors.New("away")}
			}
			return batch.Outcome{}
		}}
		p := start(t, batch.Options[int]{
			Send: r.send, Trigger: batch.Trigger{Count: 7},
			Lanes: batch.Lanes[int]{Max: 5, Order: batch.OrderPerKey, Key: func(n *int) uint64 { return uint64(*n % 13) }},
		})
		add(t, p, 0, 2000)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		last := make(map[int]int)
		seen := make(map[string]bool)
		lanes := make(map[string]bool)
		for i, events := range r.calls() {
			if (i+1)%3 == 0 {
				continue
			}
			lanes[strings.Split(r.mu.keys[i], "/")[2]] = true
			for _, e := range events {
				n, _ := strconv.Atoi(e)
				if before, ok := last[n%13]; ok && before >= n {
					t.Fatalf("key %d: %d after %d", n%13, n, before)
				}
				last[n%13] = n
				seen[e] = true
			}
		}
		if len(seen) != 2000 || len(lanes) < 3 {
			t.Errorf("%d events, %d lanes", len(seen), len(lanes))
		}
		finish(t, p)
	})
}

func TestTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(_ int, _ *batch.Batch, events []string) batch.Outcome {
			if i := slices.Index(events, "2"); i >= 0 {
				return batch.Outcome{Refused: []batch.Refusal{{Index: i, Reason: "not two"}}}
			}
			return batch.Outcome{}
		}}
		var d drops
		p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add})
		var tickets []batch.Ticket
		for i := range 4 {
			ticket, err := p.AddAck(t.Context(), &i)
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, ticket)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := tickets[0].Wait(ctx, batch.StateDelivered); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		for i, ticket := range tickets {
			for _, until := range []batch.State{batch.StateDurable, batch.StateDelivered} {
				err := ticket.Wait(t.Context(), until)
				var e *batch.EventError
				if i != 2 && err != nil || i == 2 && (!errors.As(err, &e) || e.Reason != batch.ReasonRefused || err.Error() != "batch: event not delivered: refused: not two") {
					t.Errorf("ticket %d: got %v", i, err)
				}
			}
		}
		finish(t, p)
	})
}

// TestNotify calls a function for each event, also when the processor is closed before
// the event is delivered.
func TestNotify(t *testing.T) {
	f := func(outcome batch.Outcome, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r := receiver{answer: func(int, *batch.Batch, []string) batch.Outcome { return outcome }}
			var d drops
			p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add, Trigger: batch.Trigger{Linger: time.Second}})
			var mu sync.Mutex
			got := make(map[string]int)
			var last batch.Ticket
			for i := range 100 {
				ticket, err := p.AddAck(t.Context(), &i)
				if err != nil {
					t.Fatal(err)
				}
				last = ticket
				ticket.Notify(batch.StateDelivered, func(err error) {
					_ = p.Stats() // it may call the processor
					mu.Lock()
					defer mu.Unlock()
					got[fmt.Sprint(err)]++
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, _ = p.Close(ctx)
			mu.Lock()
			if text := fmt.Sprint(got); text != want {
				t.Errorf("got %s, want %s", text, want)
			}
			mu.Unlock()
			called := false
			last.Notify(batch.StateDelivered, func(error) { called = true })
			if !called {
				t.Error("the result is known, and the function was not called")
			}
		})
	}
	f(batch.Outcome{}, "map[<nil>:100]")
	f(batch.Outcome{Verdict: batch.VerdictRetry}, "map[batch: event not delivered: returned: batch: processor is closed:100]")
}

// TestEncode covers mistakes of Encode. Such events are not sent, and others do not change.
func TestEncode(t *testing.T) {
	oops := errors.New("oops")
	encode := func(dst []byte, s *string) ([]byte, error) {
		switch *s {
		case "error":
			return append(dst, "half"...), oops
		case "nothing":
			return dst, nil
		case "shrink":
			return dst[:0], nil
		case "other":
			return []byte(strings.Repeat("x", 100_000)), nil
		case "panic":
			panic(oops)
		}
		return append(dst, *s...), nil
	}
	synctest.Test(t, func(t *testing.T) {
		var r receiver
		p, err := batch.New(batch.Options[string]{Encode: encode, Send: r.send, Trigger: batch.Trigger{Bytes: 200_000}, Lanes: batch.Lanes[string]{Order: batch.OrderTotal}})
		if err != nil {
			t.Fatal(err)
		}
		add := func(s string) (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = v.(error)
				}
			}()
			return p.Add(&s)
		}
		long := strings.Repeat("y", 199_999)
		for _, c := range []struct {
			event string
			want  error
		}{
			{"one", nil}, {"error", oops}, {"nothing", batch.ErrEncode}, {"shrink", batch.ErrEncode},
			{"other", batch.ErrEncode}, {"panic", oops}, {"two\nlines", batch.ErrEncode}, {"two", nil},
			{long, nil}, {long + "y", batch.ErrTooLarge}, {"three", nil},
		} {
			if err := add(c.event); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%.20s: got %v, want %v", c.event, err, c.want)
			}
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		var all []string
		for _, events := range r.calls() {
			all = append(all, events...)
		}
		slices.Sort(all)
		if want := []string{"one", "three", "two", long}; !slices.Equal(all, want) {
			t.Errorf("got %.100q", all)
		}
		if _, err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.Stats().Balance(); err != nil {
			t.Error(err)
		}
	})
}

// TestFormats checks bodies of several chunks.
func TestFormats(t *testing.T) {
	for format, want := range map[batch.Format]string{
		batch.FormatLines: "0\n1\n2\n3\n4\n", batch.FormatArray: "[0,1,2,3,4]", batch.FormatRaw: "01234",
	} {
		synctest.Test(t, func(t *testing.T) {
			var r receiver
			p := start(t, batch.Options[int]{Send: r.send, Format: format, Trigger: batch.Trigger{Count: 5}, Queue: batch.Queue{Events: 4}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}})
			add(t, p, 0, 5)
			if err := p.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			r.mu.Lock()
			got := strings.Join(r.mu.bodies, "")
			r.mu.Unlock()
			if format == batch.FormatArray { // the queue is smaller than a batch
				got = strings.ReplaceAll(got, "][", ",")
			}
			if got != want {
				t.Errorf("%v: got %q, want %q", format, got, want)
			}
			finish(t, p)
		})
	}
}

// TestConfig shows that New reports all problems together.
func TestConfig(t *testing.T) {
	_, err := batch.New(batch.Options[int]{
		Trigger: batch.Trigger{Count: -1, Idle: -1}, Queue: batch.Queue{Full: batch.PolicySpill},
		Lanes: batch.Lanes[int]{Order: batch.OrderPerKey, Max: 5000}, Producer: "a/b", Retry: batch.Retry{Initial: time.Hour},
		Spool: nil,
	})
	for _, want := range []string{
		"Encode is missing", "Send is missing", "Trigger.Count is -1", "Trigger.Idle is negative", "PolicySpill, but there is no Spool",
		"Lanes.Max is 5000", "Lanes.Key is missing", "Retry.Initial 1h0m0s", `Producer "a/b"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
