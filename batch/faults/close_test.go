package faults

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/oracle"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// TestFault10_CloseRace: Close while 64 producers add. Each Add returns ErrClosed, or its
// event is delivered or reported.
func TestFault10_CloseRace(t *testing.T) {
	rnd := random(t)
	for round := range scale(300, 10_000) {
		store := oracle.NewStore(oracle.Rules{})
		c := config{
			Send:    into(store),
			Trigger: batch.Trigger{Count: 1 + rnd.IntN(50), Linger: time.Duration(rnd.IntN(2)) * time.Millisecond},
			Queue:   batch.Queue{Events: 1 + rnd.IntN(500), Full: batch.Policy(rnd.IntN(5))},
			Lanes:   batch.Lanes[event]{Order: orders[rnd.IntN(3)], Max: 1 + rnd.IntN(8)},
		}
		if rnd.IntN(10) == 0 {
			c.Spool = &batch.Spool{Dir: t.TempDir(), WriteAhead: rnd.IntN(2) == 0}
		}
		within := []time.Duration{0, time.Millisecond, patience, patience}[rnd.IntN(4)]
		closeAfter := rnd.Uint64N(600)
		if !t.Run("", func(t *testing.T) { closeRound(t, store, c, within, closeAfter) }) {
			t.Fatalf("round %d: %+v, Close within %v after %d events", round, c, within, closeAfter)
		}
	}
}

func closeRound(t *testing.T, store *oracle.Store, c config, within time.Duration, closeAfter uint64) {
	r := start(t, c)
	var work sync.WaitGroup
	ready := make(chan struct{})
	for k := range 64 {
		work.Go(func() {
			<-ready
			for {
				e := r.ledger.Next(uint64(k), 10)
				err := r.ledger.Added(e, r.Add(e))
				if errors.Is(err, batch.ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, batch.ErrFull) {
					t.Errorf("Add: %v", err)
					return
				}
			}
		})
	}
	close(ready)
	r.until("some events", func(s batch.Stats) bool { return s.Accepted+s.Rejected >= closeAfter })
	work.Go(func() { // a Flush during Close must end too
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.Flush(ctx); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush: still waiting %v after Close", patience)
		}
	})
	began := time.Now()
	report, s := r.end(within)
	if took := time.Since(began); took > within/2 && within == patience {
		t.Errorf("Close took %v, with nothing to wait for", took)
	}
	work.Wait()
	if got, want := s.Accepted, uint64(r.ledger.Count().Accepted); got != want {
		t.Errorf("got %d accepted, the producers count %d", got, want)
	}
	if report.Undelivered > 0 && within == patience {
		t.Errorf("got %d events returned, though there was time", report.Undelivered)
	}
	if err := r.Add(r.ledger.Next(1, 1)); !errors.Is(err, batch.ErrClosed) {
		t.Errorf("Add after Close: got %v, want ErrClosed", err)
	}
	r.verdict(store, oracle.Promise{Once: true, Order: c.Lanes.Order != batch.OrderNone, Kept: int(s.Spooled), Doubt: within < patience})
}

// TestFault11_Down: Close with a context of 100 ms does not wait for a receiver that is
// down, and its report or the spool has all events. A request, a pause, a gate or a
// connection would take half a minute. TestFault11_Exact checks the exact times.
func TestFault11_Down(t *testing.T) {
	hang := func(t *testing.T) string {
		return oracle.NewServer(t, oracle.NewStore(oracle.Rules{}), func(*oracle.Request) oracle.Act {
			return oracle.Act{At: oracle.AtHead, Do: oracle.Hang}
		}).Addr
	}
	deny := func(status int, after string) func(t *testing.T) string {
		return func(t *testing.T) string {
			return oracle.NewServer(t, oracle.NewStore(oracle.Rules{}), func(*oracle.Request) oracle.Act {
				return oracle.Act{At: oracle.BeforeTake, Do: oracle.Deny, Status: status, RetryAfter: after}
			}).Addr
		}
	}
	refuse := func(t *testing.T) string { return freeport.Addr(t) }
	for _, c := range []struct {
		name string
		addr func(*testing.T) string
	}{
		{"connection refused", refuse},
		{"hangs", hang},
		{"503", deny(http.StatusServiceUnavailable, "")},
		{"429, come back in a minute", deny(http.StatusTooManyRequests, "60")},
		{"401", deny(http.StatusUnauthorized, "")},
	} {
		for _, disk := range []string{"memory", "spill", "write ahead"} {
			t.Run(name(c.name, ", ", disk), func(t *testing.T) {
				conf := config{
					Send:    viaHTTP(t, c.addr(t), batch.HTTPOptions{}),
					Trigger: batch.Trigger{Count: 100, Linger: time.Millisecond},
					Lanes:   batch.Lanes[event]{Order: batch.OrderPerKey},
					Retry:   batch.Retry{Initial: time.Minute, Max: time.Minute},
				}
				if disk != "memory" {
					conf.Spool = &batch.Spool{Dir: t.TempDir(), WriteAhead: disk == "write ahead"}
				}
				r := start(t, conf)
				r.load(4, 250, 50)
				r.until("an attempt", func(s batch.Stats) bool { return s.InFlight > 0 })
				began := time.Now()
				report, s := r.end(100 * time.Millisecond)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("Close took %v, want about 100 ms", took)
				}
				store := oracle.NewStore(oracle.Rules{})
				if disk == "memory" {
					if report.Undelivered != 1000 {
						t.Errorf("got %d returned, want 1000; %+v", report.Undelivered, s)
					}
					r.verdict(store, oracle.Promise{})
					return
				}
				if s.Spooled != 1000 {
					t.Errorf("got %d spooled, want 1000; %+v", s.Spooled, s)
				}
				// The next processor sends them.
				conf.Send, conf.Retry = into(store), batch.Retry{}
				again := startOn(t, r.ledger, conf)
				if s := again.allDelivered(store, true); s.Recovered != 1000 {
					t.Errorf("got %d recovered, want 1000", s.Recovered)
				}
			})
		}
	}
}

// TestFault11_Exact: the same with a fake clock. Close returns when its context ends at
// the latest, and soon after that with a Send that ignores its own context.
func TestFault11_Exact(t *testing.T) {
	const most = 100 * time.Millisecond
	for _, c := range []struct {
		name string
		most time.Duration
		send func(release <-chan struct{}) batch.SendFunc
	}{
		{"obeys", most, func(<-chan struct{}) batch.SendFunc {
			return func(ctx context.Context, b *batch.Batch) batch.Outcome {
				<-ctx.Done()
				return batch.Outcome{Err: ctx.Err()}
			}
		}},
		{"fails", most, func(<-chan struct{}) batch.SendFunc {
			return func(context.Context, *batch.Batch) batch.Outcome { return batch.Outcome{Err: errors.New("no")} }
		}},
		{"pauses", most, func(<-chan struct{}) batch.SendFunc {
			return func(context.Context, *batch.Batch) batch.Outcome {
				return batch.Outcome{Verdict: batch.VerdictPause, Err: errors.New("no")}
			}
		}},
		{"gate", most, func(<-chan struct{}) batch.SendFunc {
			return func(context.Context, *batch.Batch) batch.Outcome {
				return batch.Outcome{Err: errors.New("no"), RetryAfter: time.Hour}
			}
		}},
		{"ignores", most + 20*time.Millisecond, func(release <-chan struct{}) batch.SendFunc {
			return func(_ context.Context, b *batch.Batch) batch.Outcome {
				<-release
				return batch.Outcome{} // too late
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				r := start(t, config{
					Send:    c.send(release),
					Trigger: batch.Trigger{Count: 10, Linger: time.Millisecond},
					Queue:   batch.Queue{Events: 300},
					Retry:   batch.Retry{Initial: time.Second, Max: time.Minute, MaxRetryAfter: time.Hour},
				})
				// More than fits: waiting producers get ErrClosed.
				var work sync.WaitGroup
				for k := range 4 {
					work.Go(func() {
						for range 200 {
							if err := r.add(t.Context(), uint64(k), 10); err != nil {
								if !errors.Is(err, batch.ErrClosed) {
									t.Errorf("AddWait: got %v, want ErrClosed", err)
								}
								return
							}
						}
					})
				}
				synctestWait(50 * time.Millisecond)
				began := time.Now()
				report, s := r.end(100 * time.Millisecond)
				if took := time.Since(began); took > c.most {
					t.Errorf("Close took %v, want at most %v", took, c.most)
				}
				work.Wait()
				if uint64(report.Undelivered) != s.Accepted || s.Accepted == 0 {
					t.Errorf("got %d returned of %d", report.Undelivered, s.Accepted)
				}
				close(release)
				synctest.Wait()
				if again := r.balance("after the late answer"); again.Returned != s.Returned || again.Delivered != s.Delivered {
					t.Errorf("the late answer changed the accounts: got %+v, want %+v", again, s)
				}
				r.verdict(oracle.NewStore(oracle.Rules{}), oracle.Promise{})
			})
		})
	}
}

// TestFault11_Twice: several concurrent calls of Close return the same report.
func TestFault11_Twice(t *testing.T) {
	r := start(t, config{
		Send: func(context.Context, *batch.Batch) batch.Outcome { return batch.Outcome{Err: errors.New("no")} },
	})
	r.load(1, 10, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	reports := make(chan batch.Report, 4)
	var work sync.WaitGroup
	for range cap(reports) {
		work.Go(func() {
			report, err := r.Close(ctx)
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close: %v", err)
			}
			reports <- report
		})
	}
	work.Wait()
	for range cap(reports) {
		if got := (<-reports).Undelivered; got != 10 {
			t.Errorf("got %d events returned, want 10", got)
		}
	}
	r.balance("closed")
}

// TestFault10_DropOldest: producers drop the oldest events of the queue while Close waits
// until it is empty. Close must notice.
func TestFault10_DropOldest(t *testing.T) {
	for range scale(100, 2000) {
		store := oracle.NewStore(oracle.Rules{})
		r := start(t, config{
			Send:    into(store),
			Trigger: batch.Trigger{Linger: time.Hour},
			Queue:   batch.Queue{Events: 2, Full: batch.PolicyDropOldest},
			Lanes:   batch.Lanes[event]{Order: batch.OrderTotal},
		})
		var work sync.WaitGroup
		for range 32 {
			work.Go(func() {
				for {
					e := r.ledger.Next(1, 10)
					if r.ledger.Added(e, r.Add(e)) != nil {
						return
					}
				}
			})
		}
		r.until("some events", func(s batch.Stats) bool { return s.DroppedFull > 100 })
		began := time.Now()
		r.end(patience)
		if took := time.Since(began); took > patience/2 {
			t.Fatalf("Close took %v, with nothing to wait for", took)
		}
		work.Wait()
		r.verdict(store, oracle.Promise{Once: true})
	}
}
