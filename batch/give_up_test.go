package batch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
)

// bad makes a receiver fail batches with an event for which is is true.
func bad(out batch.Outcome, is func(n int) bool) *receiver {
	return &receiver{answer: func(_ int, _ *batch.Batch, events []string) batch.Outcome {
		for _, e := range events {
			if n, err := strconv.Atoi(e); err != nil || is(n) {
				return out
			}
		}
		return batch.Outcome{}
	}}
}

var failing = batch.Outcome{Status: 500, Err: errors.New("500 Internal Server Error")}

// TestPoisonDelaysNone has events for which the receiver always fails, more than batches
// may be on the way. Without an order, all other events are delivered.
func TestPoisonDelaysNone(t *testing.T) {
	again := func(_ int, b *batch.Batch, events []string) (out batch.Outcome) {
		for i, e := range events {
			if len(e) < 2 { // 0 to 9
				out.Refused = append(out.Refused, batch.Refusal{Index: i, Retry: true})
			}
		}
		return out
	}
	for name, r := range map[string]*receiver{
		"500":           bad(failing, func(n int) bool { return n < 10 }),
		"retry":         {answer: again},
		"pause":         bad(batch.Outcome{Verdict: batch.VerdictPause, Status: 409, Err: errors.New("409 Conflict")}, func(n int) bool { return n < 10 }),
		"not an answer": bad(batch.Outcome{Err: errors.New("connection reset")}, func(n int) bool { return n < 10 }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				p := start(t, batch.Options[int]{
					Send: r.send, Trigger: batch.Trigger{Count: 1}, Lanes: batch.Lanes[int]{Max: 4},
					Log: slog.New(slog.NewTextHandler(&log, nil)),
				})
				add(t, p, 0, 10)
				sleep(time.Minute) // all have been tried
				add(t, p, 10, 200)
				sleep(time.Second)
				s := balance(t, p)
				if s.Delivered != 190 || s.InFlight != 10 || s.Retrying != 10 {
					t.Errorf("got %d delivered, %d on the way, %d to be tried again, want 190, 10, 10", s.Delivered, s.InFlight, s.Retrying)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if report, err := p.Close(ctx); err == nil || report.Undelivered != 10 {
					t.Errorf("close: %v, %+v", err, report)
				}
				balance(t, p)
				if text := log.String(); !strings.Contains(text, "retry_in=") || !strings.Contains(text, "waiting_events=") {
					t.Errorf("the log does not say when, or what waits: %s", text)
				}
			})
		})
	}
}

// TestAsideIsBounded has a receiver that is away: the events that wait for their next
// attempt take at most a quarter of the queue in addition to Lanes.Max batches.
func TestAsideIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bad(failing, func(int) bool { return true })
		p := start(t, batch.Options[int]{
			Send: r.send, Trigger: batch.Trigger{Count: 10}, Queue: batch.Queue{Events: 400, Full: batch.PolicyReject}, Lanes: batch.Lanes[int]{Max: 2},
		})
		for i := range 2000 {
			if err := p.Add(&i); err != nil && !errors.Is(err, batch.ErrFull) {
				t.Fatal(err)
			}
			if i%50 == 0 {
				sleep(time.Second)
			}
		}
		if s := balance(t, p); s.InFlight < 100 || s.InFlight > 120 || s.Queued > 400 {
			t.Errorf("got %d on the way, %d queued, want 100 to 120, at most 400", s.InFlight, s.Queued)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.Close(ctx); err == nil {
			t.Error("close: got no error, with everything left")
		}
		balance(t, p)
	})
}

// TestAttempts has one event in a thousand that makes the receiver fail: only this one is
// given up, after the attempts of its batch and one for each half.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bad(failing, func(n int) bool { return n == 700 })
		var d drops
		p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add, Retry: batch.Retry{Attempts: 3}})
		add(t, p, 0, 1000)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		s := finishStats(t, p)
		if s.Delivered != 999 || s.DroppedExhausted != 1 || fmt.Sprint(d.by) != "map[exhausted:[700]]" {
			t.Errorf("got %d delivered, %d exhausted, dropped %v", s.Delivered, s.DroppedExhausted, d.by)
		}
		if most := 3 + 2*math.Ceil(math.Log2(1000)); float64(s.Requests) > most {
			t.Errorf("got %d requests, want at most %.0f", s.Requests, most)
		}
	})
}

// TestAttemptsOfAll has a receiver that always fails: batches are given up after their
// attempts, and events are not tried one by one.
func TestAttemptsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bad(failing, func(int) bool { return true })
		var d drops
		p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add, Trigger: batch.Trigger{Count: 100}, Retry: batch.Retry{Attempts: 2}})
		add(t, p, 0, 2000)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		s := finishStats(t, p)
		if s.DroppedExhausted != 2000 {
			t.Errorf("got %+v", s)
		}
		// Two attempts for each batch, and while the events may be at fault, pieces
		// of the batches that are tried at the same time.
		if s.Requests > 2*20+100 {
			t.Errorf("got %d requests for 20 batches", s.Requests)
		}
	})
}

// TestAttemptsOfVerdicts gives up an event that the receiver asks for again and again.
func TestAttemptsOfVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(_ int, b *batch.Batch, _ []string) batch.Outcome {
			return batch.Outcome{Refused: []batch.Refusal{{Index: b.Len() - 1, Retry: true}}}
		}}
		var d drops
		p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}, Retry: batch.Retry{Attempts: 5}})
		add(t, p, 0, 3)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if s := finishStats(t, p); s.Delivered != 2 || s.DroppedExhausted != 1 || s.Requests != 5 || fmt.Sprint(d.by) != "map[exhausted:[2]]" {
			t.Errorf("got %+v, %v", s, d.by)
		}
	})
}

// TestDeadLetter passes refused events to a DeadLetter that fails at first. Nothing is
// settled before it has taken them.
func TestDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(call int, b *batch.Batch, events []string) batch.Outcome {
			if slices.Contains(events, "5") {
				return batch.Outcome{Verdict: batch.VerdictBisect, Status: 400, Err: errors.New("bad event")}
			}
			if i := slices.Index(events, "7"); i >= 0 {
				return batch.Outcome{Refused: []batch.Refusal{{Index: i, Reason: "no id"}}}
			}
			return batch.Outcome{}
		}}
		var mu sync.Mutex
		var took []string
		tries := 0
		dead := func(_ context.Context, x batch.Dropped) error {
			mu.Lock()
			defer mu.Unlock()
			if tries++; tries <= 3 {
				return errors.New("disk full")
			}
			for _, e := range x.Events {
				took = append(took, fmt.Sprint(string(e), " ", x.Reason, " ", x.Err))
			}
			return nil
		}
		var reported []bool
		p := start(t, batch.Options[int]{Send: r.send, DeadLetter: dead, Retry: batch.Retry{Initial: time.Second, Max: time.Second}, OnDrop: func(x batch.Dropped) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, x.DeadLettered)
		}})
		add(t, p, 0, 10)
		p2, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		_ = p.Flush(p2) // begins
		synctest.Wait()
		if s := balance(t, p); s.DeadLettered != 0 || s.InFlight == 0 {
			t.Errorf("before anything was taken: got %+v", s)
		}
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if s := finishStats(t, p); s.Delivered != 8 || s.DeadLettered != 2 || s.Refused != 0 {
			t.Errorf("got %d delivered, %d dead letters, %d refused", s.Delivered, s.DeadLettered, s.Refused)
		}
		slices.Sort(took)
		if got := fmt.Sprint(took, reported); got != "[5 refused bad event 7 refused no id] [true true]" {
			t.Errorf("got %s", got)
		}
	})
}

// TestDeadLetterOnDisk closes a processor while DeadLetter fails: the events stay in the
// spool, and the next processor passes them to DeadLetter.
func TestDeadLetterOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	r := bad(batch.Outcome{Verdict: batch.VerdictBisect, Err: errors.New("bad event")}, func(n int) bool { return n == 3 })
	tried := make(chan struct{}, 100)
	p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Count: 10}, Retry: quick, Spool: &batch.Spool{Dir: dir, WriteAhead: true},
		DeadLetter: func(context.Context, batch.Dropped) error {
			select {
			case tried <- struct{}{}:
			default:
			}
			return errors.New("not now")
		},
	})
	add(t, p, 0, 10)
	<-tried
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	report, err := p.Close(ctx)
	if err != nil || report.Spooled == 0 || report.DeadLettered != 0 {
		t.Errorf("close: %v, %+v", err, report)
	}
	balance(t, p)
	var took []string
	again := bad(batch.Outcome{Verdict: batch.VerdictBisect, Err: errors.New("bad event")}, func(n int) bool { return n == 3 })
	p = start(t, batch.Options[int]{Send: again.send, Spool: &batch.Spool{Dir: dir, WriteAhead: true},
		DeadLetter: func(_ context.Context, d batch.Dropped) error {
			for _, e := range d.Events {
				took = append(took, string(e))
			}
			return nil
		},
	})
	if s := finishStats(t, p); s.DeadLettered != 1 || fmt.Sprint(took) != "[3]" {
		t.Errorf("got %+v, %v", s, took)
	}
}

// TestRefusesEverything has a receiver that refuses each event, like a wrong address:
// nothing is given up, there are few requests, and everything is delivered in order when
// the receiver changes.
func TestRefusesEverything(t *testing.T) {
	for _, c := range []struct {
		count int // events of a batch
		order batch.Order
		lost  int // events that are given up before the processor notices
	}{
		{1000, batch.OrderTotal, 0}, {1000, batch.OrderNone, 0}, {100, batch.OrderNone, 0}, {100, batch.OrderPerKey, 0},
		{1, batch.OrderTotal, 7}, {1, batch.OrderNone, 7},
	} {
		t.Run(fmt.Sprint(c.order, " ", c.count), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				wrong := true
				r := receiver{answer: func(int, *batch.Batch, []string) batch.Outcome {
					mu.Lock()
					defer mu.Unlock()
					if wrong {
						return batch.Outcome{Verdict: batch.VerdictBisect, Status: 400, Err: errors.New("400 Bad Request")}
					}
					return batch.Outcome{}
				}}
				var d drops
				p := start(t, batch.Options[int]{
					Send: r.send, OnDrop: d.add, Trigger: batch.Trigger{Count: c.count},
					Lanes: batch.Lanes[int]{Order: c.order, Key: func(n *int) uint64 { return uint64(*n % 4) }},
				})
				all := min(2000, 500*c.count) // more would not fit into the queue
				add(t, p, 0, all)
				sleep(5*time.Minute + 10*time.Second)
				if s := balance(t, p); s.Delivered != 0 || int(s.Refused) > c.lost || s.LanesPaused == 0 {
					t.Errorf("got %d delivered, %d refused, %d lanes paused; want none, at most %d, and some", s.Delivered, s.Refused, s.LanesPaused, c.lost)
				}
				// For each batch: some requests at first, and then in each of ten
				// half minutes the first event again, and eight others.
				tried := 4 + max(4, (64<<10)/4/c.count)
				if n := len(r.calls()); n > min(tried, all/c.count)*(20+10*20) {
					t.Errorf("got %d requests in five minutes", n)
				}
				sleep(20 * time.Second) // until the next attempts
				mu.Lock()
				wrong = false
				first := len(r.calls())
				mu.Unlock()
				if err := p.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				s := finishStats(t, p)
				if int(s.Delivered) != all-int(s.Refused) || int(s.Refused) > c.lost {
					t.Errorf("in the end: got %d delivered, %d refused", s.Delivered, s.Refused)
				}
				last := map[int]int{}
				for _, events := range r.calls()[first:] {
					for _, e := range events {
						n, err := strconv.Atoi(e)
						if err != nil {
							t.Fatal(err)
						}
						key := n % 4
						if c.order == batch.OrderTotal {
							key = 0
						}
						if before, ok := last[key]; c.order != batch.OrderNone && ok && n <= before {
							t.Fatalf("%d came after %d", n, before)
						}
						last[key] = n
					}
				}
			})
		})
	}
}

// TestManyBadInARow has runs of bad events between good ones, longer than maxSuspects:
// these are given up in the end, and no others.
func TestManyBadInARow(t *testing.T) {
	for _, order := range []batch.Order{batch.OrderNone, batch.OrderPerKey, batch.OrderTotal} {
		t.Run(order.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := bad(batch.Outcome{Verdict: batch.VerdictBisect, Status: 400, Err: errors.New("bad event")}, func(n int) bool { return n%500 < 30 })
				var d drops
				p := start(t, batch.Options[int]{
					Send: r.send, OnDrop: d.add, Trigger: batch.Trigger{Count: 250},
					Lanes: batch.Lanes[int]{Order: order, Key: func(n *int) uint64 { return uint64(*n % 2) }},
				})
				add(t, p, 0, 1000)
				begin, more := time.Now(), 0
				done := make(chan error)
				var work sync.WaitGroup
				work.Go(func() { done <- p.Flush(t.Context()) })
				for waiting := true; waiting; {
					select {
					case err := <-done:
						waiting = false
						if err != nil {
							t.Error(err)
						}
					case <-time.After(time.Minute):
						if order != batch.OrderNone {
							p.Resume()
							continue
						}
						add(t, p, 999, 1000) // the processor finds out if the receiver takes others
						more++
					}
				}
				work.Wait()
				if took := time.Since(begin); took > 20*time.Minute {
					t.Errorf("took %v", took)
				}
				s := finishStats(t, p)
				if s.Refused != 60 || int(s.Delivered) != 940+more || len(d.by[batch.ReasonRefused]) != 60 {
					t.Errorf("got %d refused, %d of %d delivered", s.Refused, s.Delivered, 940+more)
				}
			})
		})
	}
}

// TestRefusedIsNotSentAfterLaterOnes refuses an event of an ordered lane and accepts the
// next one: the refused one is given up, because it would come out of order. If no later
// one was accepted, it is sent again.
func TestRefusedIsNotSentAfterLaterOnes(t *testing.T) {
	refuse := batch.Outcome{Verdict: batch.VerdictBisect, Status: 400, Err: errors.New("bad event")}
	for _, order := range []batch.Order{batch.OrderTotal, batch.OrderPerKey} {
		for fails, want := range map[string]string{"2": "[0 1 2 3 4 5] []", "3": "[0 2 3 4 5] [1]", "5": "[0 2 3 4 5] [1]"} {
			t.Run(fmt.Sprint(order, " ", fails), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var took []string
					refused, failed := false, false
					r := receiver{answer: func(_ int, _ *batch.Batch, events []string) batch.Outcome {
						switch {
						case !refused && slices.Contains(events, "1"):
							refused = len(events) == 1
							return refuse
						case len(events) > 1 && slices.Contains(events, fails) && !failed:
							return refuse // so that it comes alone
						case !failed && events[0] == fails:
							failed = true
							return batch.Outcome{Status: 503, Err: errors.New("503 Service Unavailable")}
						}
						took = append(took, events...)
						return batch.Outcome{}
					}}
					var d drops
					p := start(t, batch.Options[int]{
						Send: r.send, OnDrop: d.add, Trigger: batch.Trigger{Count: 6}, Retry: quick,
						Lanes: batch.Lanes[int]{Max: 1, Order: order, Key: func(*int) uint64 { return 0 }},
					})
					add(t, p, 0, 6)
					if err := p.Flush(t.Context()); err != nil {
						t.Error(err)
					}
					finish(t, p)
					if got := fmt.Sprint(took, d.by[batch.ReasonRefused]); got != want {
						t.Errorf("took and refused %s, want %s; calls %v", got, want, r.calls())
					}
				})
			})
		}
	}
}

// TestOrderUnderTrouble has a receiver that refuses and fails at random: the accepted
// events of an ordered lane are in order, and each event is accepted or reported.
func TestOrderUnderTrouble(t *testing.T) {
	const events, calls = 60, 1000
	for seed := range uint64(500) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			refused, failed := rnd.IntN(70), rnd.IntN(30) // in a hundred
			var took []int
			r := receiver{answer: func(call int, _ *batch.Batch, events []string) batch.Outcome {
				switch x := rnd.IntN(100); {
				case call > calls: // it recovers
				case x < refused:
					return batch.Outcome{Verdict: batch.VerdictBisect, Status: 400, Err: errors.New("400 Bad Request")}
				case x < refused+failed:
					return batch.Outcome{Status: 503, Err: errors.New("503 Service Unavailable")}
				}
				for _, e := range events {
					n, err := strconv.Atoi(e)
					if err != nil {
						t.Error(err)
					}
					took = append(took, n)
				}
				return batch.Outcome{}
			}}
			var d drops
			order := []batch.Order{batch.OrderTotal, batch.OrderPerKey}[seed%2]
			p := start(t, batch.Options[int]{
				Send: r.send, OnDrop: d.add, Trigger: batch.Trigger{Count: 1 + rnd.IntN(30)}, Retry: quick,
				Lanes: batch.Lanes[int]{Max: 1, Order: order, Key: func(*int) uint64 { return 0 }},
			})
			add(t, p, 0, events)
			finish(t, p)
			if !slices.IsSorted(took) || len(took)+len(d.by[batch.ReasonRefused]) != events {
				t.Fatalf("seed %d, %v: took %v, refused %v", seed, order, took, d.by[batch.ReasonRefused])
			}
		})
	}
}

// TestNoOnDrop has a processor without OnDrop and Log: the default logger and Close report
// the events that were given up.
func TestNoOnDrop(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	r := bad(batch.Outcome{Verdict: batch.VerdictRefuse, Err: errors.New("never")}, func(int) bool { return true })
	p, err := batch.New(batch.Options[int]{Encode: encode, Send: r.send})
	if err != nil {
		t.Fatal(err)
	}
	add(t, p, 0, 3)
	_, err = p.Close(t.Context())
	if !errors.Is(err, batch.ErrDropped) || !strings.Contains(err.Error(), "3 refused") {
		t.Errorf("close: got %v, want ErrDropped with the number", err)
	}
	if !strings.Contains(log.String(), "events are dropped") || !strings.Contains(log.String(), "events=3") {
		t.Errorf("got the log %q", log.String())
	}
}
