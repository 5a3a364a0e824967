package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
)

// drops records the calls of OnDrop.
type drops struct {
	mu sync.Mutex
	by map[batch.Reason][]string
}

func (d *drops) add(x batch.Dropped) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = make(map[batch.Reason][]string)
	}
	for _, e := range x.Events {
		d.by[x.Reason] = append(d.by[x.Reason], string(e))
	}
}

// TestBisect has one event in a thousand that the receiver cannot take, at any position:
// only this one is refused, with few requests.
func TestBisect(t *testing.T) {
	most := 0
	for poison := range 1000 {
		synctest.Test(t, func(t *testing.T) {
			bad := fmt.Sprint(poison)
			r := receiver{answer: func(_ int, _ *batch.Batch, events []string) batch.Outcome {
				if slices.Contains(events, bad) {
					return batch.Outcome{Verdict: batch.VerdictBisect, Err: errors.New("bad event")}
				}
				return batch.Outcome{}
			}}
			var d drops
			p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add})
			add(t, p, 0, 1000)
			if err := p.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			s := balance(t, p)
			if s.Delivered != 999 || s.Refused != 1 || fmt.Sprint(d.by) != "map[refused:["+bad+"]]" {
				t.Errorf("poison %d: delivered %d, refused %d, dropped %v", poison, s.Delivered, s.Refused, d.by)
			}
			most = max(most, len(r.calls())-1)
			finish(t, p)
		})
	}
	if limit := 2 * math.Log2(1000); float64(most) > limit {
		t.Errorf("%d more requests, want at most %.1f", most, limit)
	}
}

func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(_ int, b *batch.Batch, _ []string) batch.Outcome {
			if b.Size() > 10 {
				return batch.Outcome{Verdict: batch.VerdictSplit, Err: errors.New("too large")}
			}
			return batch.Outcome{}
		}}
		var d drops
		p := start(t, batch.Options[int]{Send: r.send, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}, OnDrop: d.add})
		add(t, p, 0, 10)
		add(t, p, 10_000_000_000, 10_000_000_001)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		var taken []string
		for i, events := range r.calls() {
			if len(r.mu.bodies[i]) <= 10 {
				taken = append(taken, events...)
			}
		}
		if got := fmt.Sprint(taken, d.by); got != "[0 1 2 3 4 5 6 7 8 9] map[refused:[10000000000]]" {
			t.Errorf("got %s", got)
		}
		finish(t, p)
	})
}

// TestVerdicts has a receiver that refuses some events of a batch and asks for others
// again.
func TestVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(call int, _ *batch.Batch, _ []string) batch.Outcome {
			switch call {
			case 1:
				return batch.Outcome{Refused: []batch.Refusal{
					{Index: 7, Reason: "no id"}, {Index: 2, Retry: true}, {Index: 3, Retry: true},
					{Index: 5, Retry: true}, {Index: 5, Reason: "twice"}, {Index: 99}, {Index: -1},
				}}
			case 2:
				return batch.Outcome{Refused: []batch.Refusal{{Index: 0, Reason: "too late"}, {Index: 2, Retry: true}}}
			}
			return batch.Outcome{Duplicate: true}
		}}
		var d drops
		p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}})
		add(t, p, 0, 10)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(r.calls()[1:], d.by); got != "[[2 3 5] [5]] map[refused:[7 2]]" {
			t.Errorf("got %s", got)
		}
		stem := r.mu.keys[0]
		if got, want := fmt.Sprint(r.mu.keys), fmt.Sprintf("[%s %s.r1 %s.r2]", stem, stem, stem); got != want {
			t.Errorf("got keys %s, want %s", got, want)
		}
		if s := balance(t, p); s.Delivered != 8 || s.Refused != 2 || s.Duplicates != 1 {
			t.Errorf("got %d delivered, %d refused, %d duplicates", s.Delivered, s.Refused, s.Duplicates)
		}
		finish(t, p)
	})
}

func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(int, *batch.Batch, []string) batch.Outcome {
			return batch.Outcome{Err: errors.New("away")}
		}}
		var d drops
		p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add, Retry: batch.Retry{MaxElapsed: time.Minute}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}})
		add(t, p, 0, 2)
		begin := time.Now()
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took < time.Minute || took > 91*time.Second {
			t.Errorf("took %v", took)
		}
		if got := fmt.Sprint(d.by); got != "map[expired:[0 1]]" {
			t.Errorf("got %s", got)
		}
		finish(t, p)
	})
}

// TestBackOff checks the times between attempts: they are random, below a bound that
// doubles up to Retry.Max.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(call int, _ *batch.Batch, _ []string) batch.Outcome {
			if call < 200 {
				return batch.Outcome{Err: errors.New("away")}
			}
			return batch.Outcome{}
		}}
		p := start(t, batch.Options[int]{Send: r.send, Retry: batch.Retry{Initial: 100 * time.Millisecond, Max: time.Second}})
		add(t, p, 0, 1)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		bound, sum := 100*time.Millisecond, time.Duration(0)
		for i := 1; i < len(r.mu.times); i++ {
			got := r.mu.times[i].Sub(r.mu.times[i-1])
			if got <= 0 || got > bound {
				t.Errorf("attempt %d came after %v, want at most %v", i+1, got, bound)
			}
			bound = min(2*bound, time.Second)
			sum += got
		}
		if mean := sum / 200; mean < 350*time.Millisecond || mean > 650*time.Millisecond {
			t.Errorf("the mean is %v, want about half a second", mean)
		}
		finish(t, p)
	})
}

// TestGate lets the receiver ask one lane to wait: no lane sends before.
func TestGate(t *testing.T) {
	for _, asked := range []time.Duration{20 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := receiver{answer: func(call int, _ *batch.Batch, _ []string) batch.Outcome {
				if call == 1 {
					return batch.Outcome{Err: errors.New("busy"), RetryAfter: asked, Overload: true}
				}
				return batch.Outcome{}
			}}
			p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Count: 1}, Retry: batch.Retry{MaxRetryAfter: time.Minute}})
			add(t, p, 0, 1)
			synctest.Wait()
			if s := p.Stats(); s.Limit != 2 {
				t.Errorf("limit is %d, want 2", s.Limit)
			}
			add(t, p, 1, 4)
			if err := p.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			for i, at := range r.mu.times[1:] {
				if got := at.Sub(r.mu.times[0]); got < min(asked, time.Minute) || got > time.Minute+time.Second {
					t.Errorf("asked for %v: request %d came after %v", asked, i+2, got)
				}
			}
			finish(t, p)
		})
	}
}

// TestPause has a receiver that does not know the sender: events are kept, and Resume
// makes another attempt immediately.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(call int, _ *batch.Batch, _ []string) batch.Outcome {
			if call <= 2 {
				return batch.Outcome{Verdict: batch.VerdictPause, Err: errors.New("who are you"), Status: 401}
			}
			return batch.Outcome{}
		}}
		p := start(t, batch.Options[int]{Send: r.send})
		add(t, p, 0, 3)
		sleep(2 * time.Second)
		if s := balance(t, p); s.LanesPaused != 1 || s.InFlight != 3 {
			t.Errorf("got %+v", s)
		}
		sleep(30 * time.Second) // Retry.Max
		if got := len(r.calls()); got != 2 {
			t.Errorf("%d requests, want 2", got)
		}
		p.Resume()
		synctest.Wait()
		if s := balance(t, p); s.LanesPaused != 0 || s.Delivered != 3 {
			t.Errorf("got %+v", s)
		}
		finish(t, p)
	})
}

// TestGapless stops a lane at a refused event until Resume; Close keeps the later events.
func TestGapless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(_ int, _ *batch.Batch, events []string) batch.Outcome {
			if i := slices.IndexFunc(events, func(e string) bool { return strings.HasSuffix(e, "3") }); i >= 0 {
				return batch.Outcome{Refused: []batch.Refusal{{Index: i, Reason: "bad"}}}
			}
			return batch.Outcome{}
		}}
		p := start(t, batch.Options[int]{Send: r.send, Trigger: batch.Trigger{Count: 5}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal, Gapless: true}})
		add(t, p, 0, 20)
		synctest.Wait()
		if got := fmt.Sprint(r.calls()); got != "[[0 1 2 3 4]]" {
			t.Errorf("got %s", got)
		}
		p.Resume()
		synctest.Wait()
		if got := fmt.Sprint(r.calls()[1:]); got != "[[5 6 7 8 9] [10 11 12 13 14]]" {
			t.Errorf("got %s", got)
		}
		report, err := p.Close(t.Context())
		if err == nil || report.Undelivered != 5 || report.Refused != 2 || report.Delivered != 13 {
			t.Errorf("got %v, %+v", err, report)
		}
		balance(t, p)
	})
}

// TestResumeInOnDrop calls Resume within OnDrop.
func TestResumeInOnDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(call int, _ *batch.Batch, _ []string) batch.Outcome {
			switch call {
			case 1:
				return batch.Outcome{Verdict: batch.VerdictRefuse, Err: errors.New("no")}
			case 2:
				return batch.Outcome{Refused: []batch.Refusal{{Index: 0}}}
			}
			return batch.Outcome{}
		}}
		var p *batch.Processor[int]
		p = start(t, batch.Options[int]{
			Send: r.send, Trigger: batch.Trigger{Count: 1}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal, Gapless: true},
			OnDrop: func(batch.Dropped) { p.Resume() },
		})
		add(t, p, 0, 4)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if s := finishStats(t, p); s.Delivered != 2 || s.Refused != 2 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestExpiredVerdict expires an event that the receiver asks for again and again.
func TestExpiredVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(_ int, b *batch.Batch, _ []string) batch.Outcome {
			return batch.Outcome{Refused: []batch.Refusal{{Index: b.Len() - 1, Retry: true}}}
		}}
		var d drops
		p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add, Retry: batch.Retry{MaxElapsed: time.Minute}, Lanes: batch.Lanes[int]{Order: batch.OrderTotal}})
		add(t, p, 0, 2)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if s := finishStats(t, p); s.Delivered != 1 || s.DroppedExpired != 1 || fmt.Sprint(d.by) != "map[expired:[1]]" {
			t.Errorf("got %+v, %v", s, d.by)
		}
	})
}

// TestClassify changes an outcome with Retry.Classify.
func TestClassify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receiver{answer: func(int, *batch.Batch, []string) batch.Outcome {
			return batch.Outcome{Err: errors.New("never"), Status: 500}
		}}
		var d drops
		p := start(t, batch.Options[int]{Send: r.send, OnDrop: d.add, Retry: batch.Retry{Classify: func(o batch.Outcome) batch.Outcome {
			if o.Status == 500 {
				o.Verdict = batch.VerdictRefuse
			}
			return o
		}}})
		add(t, p, 0, 3)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if s := finishStats(t, p); s.Refused != 3 || s.Requests != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

func finishStats(t *testing.T, p *batch.Processor[int]) batch.Stats {
	t.Helper()
	finish(t, p)
	return p.Stats()
}

// TestAdaptive lowers the number of concurrent requests when the receiver is overloaded,
// and raises it again.
func TestAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most, tired := 0, 0, true
		send := func(ctx context.Context, _ *batch.Batch) batch.Outcome {
			mu.Lock()
			now++
			most = max(most, now)
			overload := tired && now > 2
			mu.Unlock()
			sleep(100 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			if overload {
				return batch.Outcome{Err: errors.New("busy"), Overload: true}
			}
			return batch.Outcome{}
		}
		p := start(t, batch.Options[int]{Send: send, Trigger: batch.Trigger{Count: 1}, Lanes: batch.Lanes[int]{Max: 16}})
		add(t, p, 0, 1000)
		sleep(5 * time.Second)
		low := p.Stats().Limit
		mu.Lock()
		tired = false
		mu.Unlock()
		sleep(5 * time.Second)
		if high := p.Stats().Limit; low > 8 || high < 12 {
			t.Errorf("limit was %d under load and is %d after, of 16", low, high)
		}
		finish(t, p)
	})
}
