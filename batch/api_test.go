package batch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
)

// TestStatsJSON writes stats and reads them back, with infinite bounds.
func TestStatsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r receiver
		p := start(t, batch.Options[int]{Send: r.send})
		add(t, p, 0, 10)
		s := finishStats(t, p)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte(`{"Bound":"+Inf","Count":0}`)) {
			t.Errorf("got %s", text)
		}
		var back batch.Stats
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(back) != fmt.Sprint(s) || !math.IsInf(back.Latency.Buckets[len(back.Latency.Buckets)-1].Bound, 1) {
			t.Errorf("got %+v, want %+v", back, s)
		}
		for _, wrong := range []string{`{"Bound":"huge"}`, `{"Bound":null}`, `[]`} {
			if err := json.Unmarshal([]byte(wrong), new(batch.Bucket)); err == nil {
				t.Errorf("%s: got no error", wrong)
			}
		}
	})
}

// TestAddAll adds events until one is not accepted.
func TestAddAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		r := shut(open)
		p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Count: 10}, Queue: batch.Queue{Events: 50}, Lanes: batch.Lanes[int]{Max: 1}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all := count(100)
		n, err := p.AddAll(ctx, all)
		if !errors.Is(err, context.DeadlineExceeded) || n < 50 || n > 60 {
			t.Errorf("got %d, %v, want 50 to 60 and the deadline", n, err)
		}
		close(open)
		if m, err := p.AddAll(t.Context(), all[n:]); m != len(all)-n || err != nil {
			t.Errorf("got %d, %v", m, err)
		}
		finish(t, p)
		if got := r.numbers(t, 0); !slices.Equal(got, all) {
			t.Errorf("got %v", got)
		}
	})
}

// TestHooks shows that hooks are called for each attempt and delivery.
func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(call int, _ *batch.Batch, _ []string) batch.Outcome {
			sleep(time.Second)
			if call == 1 {
				return batch.Outcome{Err: errors.New("away")}
			}
			return batch.Outcome{Duplicate: true, Refused: []batch.Refusal{{Index: 0, Reason: "bad"}}}
		}}
		var mu sync.Mutex
		var calls []string
		p := start(t, batch.Options[int]{
			Send: r.send, Producer: "me", Retry: batch.Retry{Initial: time.Nanosecond, Max: time.Nanosecond}, OnDrop: func(batch.Dropped) {},
			Hooks: batch.Hooks{
				OnAttempt: func(a batch.Attempt) {
					mu.Lock()
					defer mu.Unlock()
					calls = append(calls, fmt.Sprint("attempt ", a.Number, " ", a.Events, " ", a.Bytes, " ", a.Took, " ", a.Outcome.Verdict))
				},
				OnDelivered: func(d batch.Delivery) {
					mu.Lock()
					defer mu.Unlock()
					calls = append(calls, fmt.Sprint("delivered ", d.Events, " ", d.Duplicate, " ", d.Age.Round(time.Millisecond)))
				},
			},
		})
		add(t, p, 0, 3)
		finish(t, p)
		if got, want := fmt.Sprint(calls), "[attempt 1 3 6 1s again attempt 2 3 6 1s taken delivered 2 true 2s]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestHeaders renews a token: one attempt has none, and the next one has it.
func TestHeaders(t *testing.T) {
	url, got := server(t, func(int, http.ResponseWriter) {})
	calls := 0
	p := post(t, url, batch.HTTPOptions{
		Header: http.Header{"Authorization": {"none"}, "X-Team": {"shop"}},
		Headers: func(ctx context.Context) (http.Header, error) {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("the context has no end")
			}
			if calls++; calls == 1 {
				return nil, errors.New("the issuer is away")
			}
			return http.Header{"Authorization": {fmt.Sprint("Bearer ", calls)}, "Idempotency-Key": {"mine"}}, nil
		},
	}, batch.Options[int]{})
	add(t, p, 0, 1)
	finish(t, p)
	all := got()
	if len(all) != 1 || all[0].header.Get("Authorization") != "Bearer 2" || all[0].header.Get("X-Team") != "shop" || all[0].key == "mine" {
		t.Errorf("got %+v", all)
	}
	if s := p.Stats(); s.Delivered != 1 || s.Requests != 2 {
		t.Errorf("got %+v", s)
	}
}

// TestVerdictsByStatus replaces the default verdicts on statuses.
func TestVerdictsByStatus(t *testing.T) {
	url, got := server(t, func(call int, w http.ResponseWriter) {
		w.WriteHeader([]int{404, 500, 202}[call-1])
	})
	var d drops
	p := post(t, url, batch.HTTPOptions{Verdicts: map[int]batch.Verdict{404: batch.VerdictSplit, 500: batch.VerdictRefuse, 202: batch.VerdictRetry, 200: batch.VerdictAuto}},
		batch.Options[int]{OnDrop: d.add, Retry: batch.Retry{Attempts: 1}})
	add(t, p, 0, 2)
	finish(t, p)
	if n, text := len(got()), fmt.Sprint(d.by); n != 3 || text != "map[refused:[0] exhausted:[1]]" && text != "map[exhausted:[1] refused:[0]]" {
		t.Errorf("got %d requests, %s", n, text)
	}
	if _, err := batch.NewHTTP(url, batch.HTTPOptions{Verdicts: map[int]batch.Verdict{7: batch.VerdictRetry}}); err == nil {
		t.Error("status 7: got no error")
	}
}

// TestSwitchingProtocols keeps a batch after a 101, which no client asks for.
func TestSwitchingProtocols(t *testing.T) {
	url, got := server(t, func(call int, w http.ResponseWriter) {
		if call > 1 {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		conn.Close()
	})
	p := post(t, url, batch.HTTPOptions{}, batch.Options[int]{})
	add(t, p, 0, 20)
	finish(t, p)
	if s := p.Stats(); s.Delivered != 20 || len(got()) != 2 {
		t.Errorf("got %+v, %d requests", s, len(got()))
	}
}

// TestSeededKeys restarts processors with different key functions on one spool while the
// receiver is away. The events of each key keep their order.
func TestSeededKeys(t *testing.T) {
	const keys = 16
	dir := filepath.Join(t.TempDir(), "spool")
	seeded := func() func(*int) uint64 {
		seed := maphash.MakeSeed()
		return func(n *int) uint64 { return maphash.String(seed, fmt.Sprint(*n%keys)) }
	}
	next := 0
	for range 4 {
		r, _ := away()
		p := start(t, batch.Options[int]{
			Send: r.send, Retry: quick, Trigger: batch.Trigger{Count: 10},
			Lanes: batch.Lanes[int]{Max: 8, Order: batch.OrderPerKey, Key: seeded()},
			Spool: &batch.Spool{Dir: dir, WriteAhead: true},
		})
		add(t, p, next, next+500)
		next += 500
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		report, err := p.Close(ctx)
		cancel()
		if err != nil || int(report.Spooled) != next {
			t.Fatalf("close: %v, %+v", err, report)
		}
	}
	var r receiver
	p := start(t, batch.Options[int]{
		Send: r.send, Trigger: batch.Trigger{Count: 10},
		Lanes: batch.Lanes[int]{Max: 8, Order: batch.OrderPerKey, Key: seeded()},
		Spool: &batch.Spool{Dir: dir, WriteAhead: true},
	})
	add(t, p, next, next+500)
	next += 500
	finish(t, p)
	last := make(map[int]int)
	for _, n := range r.numbers(t, 0) {
		if before, ok := last[n%keys]; ok && n < before {
			t.Fatalf("of key %d, %d came after %d", n%keys, n, before)
		}
		last[n%keys] = n
	}
	if s := p.Stats(); int(s.Delivered) != next {
		t.Errorf("got %d delivered, want %d", s.Delivered, next)
	}
}

// TestReportedOnce closes processors while some events of a batch are settled. Refused events
// are reported once, delivered ones are not sent again, and the next processor continues
// with the rest.
func TestReportedOnce(t *testing.T) {
	for _, ahead := range []bool{true, false} {
		t.Run(fmt.Sprint("write ahead ", ahead), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "spool")
			dropped := make(map[string]int)
			taken := make(map[string]int)
			reached := make(chan struct{}, 1)
			var mu sync.Mutex
			seen := false
			r := receiver{answer: func(_ int, _ *batch.Batch, events []string) (out batch.Outcome) {
				mu.Lock()
				defer mu.Unlock()
				if seen {
					select {
					case reached <- struct{}{}:
					default:
					}
					return batch.Outcome{Err: errors.New("away")}
				}
				seen = true
				for i, e := range events {
					switch {
					case i%5 == 0:
						out.Refused = append(out.Refused, batch.Refusal{Index: i, Reason: "bad"})
					case i%5 == 1:
						out.Refused = append(out.Refused, batch.Refusal{Index: i, Retry: true})
					default:
						taken[e]++
					}
				}
				return out
			}}
			drop := func(d batch.Dropped) {
				mu.Lock()
				defer mu.Unlock()
				for _, e := range d.Events {
					dropped[string(e)]++
				}
			}
			c := batch.Options[int]{
				Send: r.send, OnDrop: drop, Retry: quick, Trigger: batch.Trigger{Count: 100, Linger: -1},
				Lanes: batch.Lanes[int]{Order: batch.OrderTotal}, // one batch of all events
				Spool: &batch.Spool{Dir: dir, WriteAhead: ahead},
			}
			p := start(t, c)
			add(t, p, 0, 100)
			<-reached
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			report, err := p.Close(ctx)
			if err != nil || report.Spooled != 20 || report.Refused != 20 || report.Delivered != 60 {
				t.Errorf("close: %v, %+v", err, report)
			}
			balance(t, p)
			again := receiver{answer: func(_ int, _ *batch.Batch, events []string) (out batch.Outcome) {
				mu.Lock()
				defer mu.Unlock()
				for _, e := range events {
					taken[e]++
				}
				return out
			}}
			keys := slices.Clone(r.mu.keys)
			c.Send = again.send
			p = start(t, c)
			s := finishStats(t, p)
			if s.Recovered != 20 || s.Delivered != 20 || s.Refused != 0 || s.Corrupt+s.LostOnDisk != 0 {
				t.Errorf("got %+v", s)
			}
			if len(again.mu.keys) != 1 || !slices.Contains(keys, again.mu.keys[0]) {
				t.Errorf("got the keys %v, want the key of the part that was tried before, one of %v", again.mu.keys, keys)
			}
			for i := range 100 {
				e := fmt.Sprint(i)
				if dropped[e]+taken[e] != 1 {
					t.Errorf("event %d: dropped %d times, taken %d times", i, dropped[e], taken[e])
				}
			}
		})
	}
}
