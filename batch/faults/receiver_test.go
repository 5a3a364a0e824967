package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/oracle"
)

// TestFault01_ServerErrors: the receiver fails with any probability, before or after it took
// the batch.
func TestFault01_ServerErrors(t *testing.T) {
	statuses := []int{500, 502, 503, 504, 408, 425, 429}
	for _, order := range orders {
		for _, percent := range []int{10, 50, 90} {
			t.Run(name(order, " ", percent), func(t *testing.T) {
				t.Parallel()
				rnd := random(t)
				store := oracle.NewStore(oracle.Rules{})
				server := oracle.NewServer(t, store, func(*oracle.Request) oracle.Act {
					if !chance(rnd, percent) {
						return oracle.Act{}
					}
					return oracle.Act{
						At: []oracle.Stage{oracle.BeforeTake, oracle.AfterTake}[rnd.IntN(2)],
						Do: oracle.Deny, Status: statuses[rnd.IntN(len(statuses))],
					}
				})
				r := start(t, config{
					Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{}),
					Trigger: batch.Trigger{Count: 100, Linger: 5 * time.Millisecond},
					Lanes:   batch.Lanes[event]{Order: order},
				})
				r.load(8, scale(200, 2000), 80)
				s := r.allDelivered(store, order != batch.OrderNone)
				visits := server.Visits()
				if s.Attempts.Sum != float64(len(visits)) || s.Requests != uint64(len(visits)) {
					t.Errorf("got %v attempts, %d requests, the server counts %d", s.Attempts.Sum, s.Requests, len(visits))
				}
				var again uint64
				for _, v := range visits {
					if v.Status != http.StatusOK {
						again += uint64(v.Events) // 0 when the store was not asked
					}
				}
				if s.Retried < again || len(visits) > int(s.Batches) && s.Retried == 0 {
					t.Errorf("got %d events retried, want at least %d", s.Retried, again)
				}
			})
		}
	}
}

// TestFault01_Bursts: everything fails for a while, several times.
func TestFault01_Bursts(t *testing.T) {
	for _, order := range orders {
		t.Run(order.String(), func(t *testing.T) {
			t.Parallel()
			store := oracle.NewStore(oracle.Rules{})
			server := oracle.NewServer(t, store, nil)
			r := start(t, config{
				Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{}),
				Trigger: batch.Trigger{Count: 50, Linger: 5 * time.Millisecond},
				Queue:   batch.Queue{Events: 10_000},
				Lanes:   batch.Lanes[event]{Order: order},
			})
			for range scale(2, 3) {
				server.Set(func(*oracle.Request) oracle.Act {
					return oracle.Act{At: oracle.BeforeTake, Do: oracle.Deny, Status: http.StatusInternalServerError}
				})
				before := r.balance("before the burst")
				r.load(4, 500, 80)
				burst := time.NewTimer(time.Duration(scale(200, 30_000)) * time.Millisecond)
				<-burst.C
				s := r.until("in the burst", func(s batch.Stats) bool { return s.Requests > before.Requests+4 })
				if s.Delivered > before.Accepted {
					t.Errorf("in the burst: got %d events delivered, want at most %d", s.Delivered, before.Accepted)
				}
				server.Set(nil)
				r.load(4, 100, 80)
				r.flush()
			}
			r.allDelivered(store, order != batch.OrderNone)
		})
	}
}

// TestFault02_RetryAfter: no lane sends anything before the time that the receiver asked
// for. A header that cannot be read is ignored. TestFault13_Gate checks the exact times.
func TestFault02_RetryAfter(t *testing.T) {
	for _, c := range []struct {
		name   string
		header func() string
		least  time.Duration // until the next request
		most   time.Duration // MaxRetryAfter; with an hour, a wrong wait never ends
	}{
		{"seconds", func() string { return "1" }, time.Second, time.Hour},
		{"date", func() string {
			// Rounded up: the gate opens at a whole second, one to two from now.
			return time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat)
		}, 950 * time.Millisecond, time.Hour},
		{"past date", func() string { return "Mon, 02 Jan 2006 15:04:05 GMT" }, 0, time.Hour},
		{"garbage", func() string { return "soon" }, 0, time.Hour},
		{"negative", func() string { return "-5" }, 0, time.Hour},
		{"exponent", func() string { return "1e9" }, 0, time.Hour},
		{"clamped", func() string { return "1000000000" }, 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"overflow", func() string { return strings.Repeat("9", 30) }, 1500 * time.Millisecond, 1500 * time.Millisecond},
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			t.Run(name(c.name, " ", status), func(t *testing.T) {
				t.Parallel()
				store := oracle.NewStore(oracle.Rules{})
				server := oracle.NewServer(t, store, func(q *oracle.Request) oracle.Act {
					if q.N == 1 {
						return oracle.Act{At: oracle.BeforeTake, Do: oracle.Deny, Status: status, RetryAfter: c.header()}
					}
					return oracle.Act{}
				})
				r := start(t, config{
					Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{}),
					Trigger: batch.Trigger{Count: 1},
					Retry:   batch.Retry{Initial: time.Millisecond, Max: 2 * time.Millisecond, MaxRetryAfter: c.most},
				})
				if err := r.add(t.Context(), 1, 10); err != nil {
					t.Fatal(err)
				}
				r.until("first attempt", func(s batch.Stats) bool { return s.Requests >= 1 })
				r.load(4, 5, 10) // fills all lanes
				r.allDelivered(store, false)
				visits := server.Visits()
				// The next request of all lanes comes when the gate opens.
				if got := visits[1].Since; got < c.least {
					t.Errorf("the next request came after %v, want %v at least", got, c.least)
				}
			})
		}
	}
}

// TestFault12_Poison: one event in a batch of a thousand cannot be taken.
func TestFault12_Poison(t *testing.T) {
	for _, bad := range []uint64{1, 2, 500, 501, 999, 1000} {
		t.Run(fmt.Sprint(bad), func(t *testing.T) {
			t.Parallel()
			store := oracle.NewStore(oracle.Rules{Poison: func(e event) bool { return e.ID == bad }})
			server := oracle.NewServer(t, store, nil)
			r := start(t, config{
				Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{}),
				Trigger: batch.Trigger{Count: 1000, Linger: -1},
				Lanes:   batch.Lanes[event]{Order: batch.OrderTotal},
			})
			var ticket, other batch.Ticket
			for i := range 1000 {
				e := r.ledger.Next(1, 20)
				tk, err := r.AddAck(t.Context(), e)
				if r.ledger.Added(e, err) != nil {
					t.Fatal(err)
				}
				if e.ID == bad {
					ticket = tk
				} else if i == 0 || other == (batch.Ticket{}) {
					other = tk
				}
			}
			r.flush()
			var why *batch.EventError
			if err := ticket.Wait(t.Context(), batch.StateDelivered); !errors.As(err, &why) || why.Reason != batch.ReasonRefused {
				t.Errorf("the poison event's ticket: got %v, want Refused", err)
			}
			if err := other.Wait(t.Context(), batch.StateDelivered); err != nil {
				t.Errorf("another event's ticket: got %v", err)
			}
			_, s := r.end(patience)
			if s.Delivered != 999 || s.Refused != 1 {
				t.Errorf("got %d delivered, %d refused, want 999, 1", s.Delivered, s.Refused)
			}
			if got := len(server.Visits()); got > 1+20 { // 2 log2(1000)
				t.Errorf("got %d requests, want at most 21", got)
			}
			r.verdict(store, oracle.Promise{Once: true, Order: true})
		})
	}
}

// TestFault12_ManyPoison: several poison events in a row of batches, in order.
func TestFault12_ManyPoison(t *testing.T) {
	for _, order := range orders {
		t.Run(order.String(), func(t *testing.T) {
			t.Parallel()
			store := oracle.NewStore(oracle.Rules{Poison: func(e event) bool { return e.ID%97 < 2 }})
			server := oracle.NewServer(t, store, nil)
			r := start(t, config{
				Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{Compression: batch.CompressionGzip}),
				Format:  batch.FormatArray,
				Trigger: batch.Trigger{Count: 100, Linger: 5 * time.Millisecond},
				Lanes:   batch.Lanes[event]{Order: order},
			})
			r.load(4, 250, 30)
			r.flush()
			want := uint64(0)
			for id := 1; id <= 1000; id++ {
				if id%97 < 2 {
					want++
				}
			}
			if _, s := r.end(patience); s.Refused != want {
				t.Errorf("got %d refused, want %d", s.Refused, want)
			}
			r.verdict(store, oracle.Promise{Once: true, Order: order != batch.OrderNone})
		})
	}
}

// TestFault12_TooLarge: the receiver takes at most 64 KiB, then one event at a time, then
// none.
func TestFault12_TooLarge(t *testing.T) {
	for _, c := range []struct {
		name    string
		rules   oracle.Rules
		refused uint64
	}{
		{"64 KiB", oracle.Rules{MaxBytes: 64 << 10}, 0},
		{"one event", oracle.Rules{MaxEvents: 1}, 0},
		{"large event", oracle.Rules{MaxBytes: 64 << 10}, 2},
		{"nothing", oracle.Rules{MaxBytes: 10}, 600},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := oracle.NewStore(c.rules)
			server := oracle.NewServer(t, store, nil)
			r := start(t, config{
				Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{}),
				Trigger: batch.Trigger{Count: 1000, Linger: 5 * time.Millisecond},
				Lanes:   batch.Lanes[event]{Order: batch.OrderPerKey},
			})
			r.load(2, 150, 1000)
			if c.name == "large event" {
				r.load(2, 1, 70_000)
			}
			r.load(2, 150, 100)
			r.flush()
			_, s := r.end(patience)
			if s.Refused != c.refused || s.Delivered+s.Refused != s.Accepted {
				t.Errorf("got %d refused and %d delivered of %d, want %d refused", s.Refused, s.Delivered, s.Accepted, c.refused)
			}
			r.verdict(store, oracle.Promise{Once: true, Order: true})
		})
	}
}

// TestFault12_Verdicts: the receiver takes a batch except some events, which it refuses
// or asks for again.
func TestFault12_Verdicts(t *testing.T) {
	for _, order := range orders {
		t.Run(order.String(), func(t *testing.T) {
			t.Parallel()
			tries := make(map[uint64]int) // guarded by the store's lock
			store := oracle.NewStore(oracle.Rules{Verdict: func(e event) (string, bool) {
				switch {
				case e.ID%50 == 0:
					return "never", false
				case e.ID%20 == 3:
					if tries[e.ID]++; tries[e.ID] < 3 {
						return "later", true
					}
				}
				return "", false
			}})
			rnd := random(t)
			server := oracle.NewServer(t, store, func(*oracle.Request) oracle.Act {
				if chance(rnd, 30) { // the verdicts are lost and asked for again
					return oracle.Act{At: oracle.AfterTake, Do: oracle.Deny, Status: 502}
				}
				return oracle.Act{}
			})
			r := start(t, config{
				Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{Compression: batch.CompressionZstd}),
				Trigger: batch.Trigger{Count: 100, Linger: 5 * time.Millisecond},
				Lanes:   batch.Lanes[event]{Order: order},
			})
			r.load(4, 250, 30)
			r.flush()
			if _, s := r.end(patience); s.Refused != 20 || s.Delivered != 980 {
				t.Errorf("got %d refused, %d delivered, want 20, 980", s.Refused, s.Delivered)
			}
			// A receiver that takes later events of a batch and asks for earlier ones
			// again breaks the order itself.
			r.verdict(store, oracle.Promise{Once: true})
		})
	}
}

// TestFault12_Stuck: the receiver always fails for some events, more than batches may be on
// the way. Without an order, all others are delivered. With a limit of attempts, they are
// delivered in any order, and no other event is given up.
func TestFault12_Stuck(t *testing.T) {
	for _, order := range orders {
		for _, attempts := range []int{0, 3} {
			if attempts == 0 && order != batch.OrderNone {
				continue
			}
			t.Run(name(order, " ", attempts), func(t *testing.T) {
				t.Parallel()
				bad := func(id uint64) bool { return id%100 == 1 }
				store := oracle.NewStore(oracle.Rules{})
				r := start(t, config{
					Send: func(_ context.Context, b *batch.Batch) batch.Outcome {
						for raw := range b.Events() {
							if e, err := oracle.Parse(raw); err != nil || bad(e.ID) {
								return batch.Outcome{Status: 500, Err: errors.New("500 Internal Server Error")}
							}
						}
						return give(store, b)
					},
					Trigger: batch.Trigger{Count: max(1, 10*attempts), Linger: time.Millisecond},
					Lanes:   batch.Lanes[event]{Order: order},
					Retry:   batch.Retry{Initial: time.Millisecond, Max: 20 * time.Millisecond, Attempts: attempts},
				})
				r.load(4, 250, 30)
				r.until("all that are good", func(s batch.Stats) bool { return s.Delivered == 990 })
				if attempts == 0 {
					report, s := r.end(100 * time.Millisecond)
					if report.Undelivered != 10 {
						t.Errorf("got %d returned, want 10; %+v", report.Undelivered, s)
					}
				} else {
					r.flush()
					if _, s := r.end(patience); s.DroppedExhausted != 10 {
						t.Errorf("got %d exhausted, want 10; %+v", s.DroppedExhausted, s)
					}
				}
				r.verdict(store, oracle.Promise{Once: true, Order: order != batch.OrderNone})
			})
		}
	}
}

// TestFault12_WrongAddress: another server responds in place of the receiver. Nothing is
// given up, and everything is delivered in order when the receiver is back.
func TestFault12_WrongAddress(t *testing.T) {
	for _, order := range orders {
		for _, status := range []int{400, 422, 404, 405, 409, 415, 302} {
			t.Run(name(order, " ", status), func(t *testing.T) {
				t.Parallel()
				store := oracle.NewStore(oracle.Rules{})
				server := oracle.NewServer(t, store, func(*oracle.Request) oracle.Act {
					return oracle.Act{At: oracle.BeforeTake, Do: oracle.Deny, Status: status}
				})
				r := start(t, config{
					Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{}),
					Trigger: batch.Trigger{Count: 50, Linger: 20 * time.Millisecond},
					Lanes:   batch.Lanes[event]{Order: order},
				})
				r.load(4, 100, 30)
				r.until("paused", func(s batch.Stats) bool { return s.LanesPaused > 0 })
				r.until("more attempts", func(s batch.Stats) bool { return s.Requests > 60 })
				server.Set(nil)
				r.allDelivered(store, order != batch.OrderNone)
			})
		}
	}
}

// TestFault12_Pause: after a 401 all events are kept until the receiver allows the sender.
func TestFault12_Pause(t *testing.T) {
	store := oracle.NewStore(oracle.Rules{})
	server := oracle.NewServer(t, store, func(*oracle.Request) oracle.Act {
		return oracle.Act{At: oracle.BeforeTake, Do: oracle.Deny, Status: http.StatusUnauthorized}
	})
	r := start(t, config{
		Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{}),
		Trigger: batch.Trigger{Count: 10, Linger: time.Millisecond},
		Lanes:   batch.Lanes[event]{Order: batch.OrderPerKey},
		Retry:   batch.Retry{Initial: time.Millisecond, Max: time.Hour},
	})
	r.load(8, 50, 30)
	s := r.until("paused", func(s batch.Stats) bool { return s.LanesPaused > 0 })
	if s.Delivered+s.Refused > 0 {
		t.Errorf("got %d delivered, %d refused, want none", s.Delivered, s.Refused)
	}
	server.Set(nil)
	// A lane may pause just after Resume: it is called until all continue.
	r.until("resumed", func(s batch.Stats) bool {
		r.Resume()
		return s.Delivered == s.Accepted || s.LanesPaused == 0 && s.InFlight == 0
	})
	r.allDelivered(store, true)
}

// TestFault12_Gapless: a refused event stops its lane, and only Resume starts it.
func TestFault12_Gapless(t *testing.T) {
	const bad = 25
	store := oracle.NewStore(oracle.Rules{Poison: func(e event) bool { return e.ID == bad }})
	r := start(t, config{
		Send:    into(store),
		Trigger: batch.Trigger{Count: 10, Linger: time.Millisecond},
		Lanes:   batch.Lanes[event]{Order: batch.OrderTotal, Gapless: true},
	})
	r.load(1, 100, 30)
	s := r.until("stopped", func(s batch.Stats) bool { return s.LanesPaused == 1 })
	if s.Delivered != bad-1 || s.Refused != 1 {
		t.Errorf("stopped: got %d delivered, %d refused, want %d, 1", s.Delivered, s.Refused, bad-1)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Flush of a stopped lane: got %v, want the deadline", err)
	}
	r.Resume()
	r.flush()
	if _, s := r.end(patience); s.Delivered != 99 || s.Refused != 1 {
		t.Errorf("got %d delivered, %d refused, want 99, 1", s.Delivered, s.Refused)
	}
	r.verdict(store, oracle.Promise{Once: true, Order: true})
}
