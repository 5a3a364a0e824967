package faults

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/oracle"
)

// synctestWait advances the clock of a bubble.
func synctestWait(d time.Duration) { <-time.After(d) }

// A diary is a SendFunc that records the times of its calls.
type diary struct {
	began time.Time
	send  batch.SendFunc
	mu    struct {
		sync.Mutex
		calls []call
	}
}

type call struct {
	at  time.Duration // since the diary began
	key string
	len int
}

func (d *diary) write(ctx context.Context, b *batch.Batch) batch.Outcome {
	d.mu.Lock()
	d.mu.calls = append(d.mu.calls, call{time.Since(d.began), b.Key(), b.Len()})
	d.mu.Unlock()
	return d.send(ctx, b)
}

func (d *diary) calls() []call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.calls)
}

func (d *diary) times() []time.Duration {
	var at []time.Duration
	for _, c := range d.calls() {
		at = append(at, c.at)
	}
	return at
}

// timed runs f with a rig in a bubble. The clock starts with the processor.
func timed(t *testing.T, c config, send func(*oracle.Store) batch.SendFunc, f func(t *testing.T, r *rig, d *diary)) {
	synctest.Test(t, func(t *testing.T) {
		store := oracle.NewStore(oracle.Rules{})
		d := &diary{began: time.Now(), send: into(store)}
		if send != nil {
			d.send = send(store)
		}
		c.Send = d.write
		r := start(t, c)
		r.unwatch() // its ticks would last for hours
		f(t, r, d)
		r.balance("at the end")
		r.allDelivered(store, c.Lanes.Order != batch.OrderNone)
	})
}

func wantTimes(t *testing.T, d *diary, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	if got := d.times(); !slices.Equal(got, want) {
		t.Errorf("sent at %v, want %v", got, want)
	}
}

// TestFault13_Linger: a batch is sent Linger after its first event, to the
// nanosecond, however many follow.
func TestFault13_Linger(t *testing.T) {
	for _, order := range orders {
		t.Run(order.String(), func(t *testing.T) {
			timed(t, config{
				Trigger: batch.Trigger{Linger: 100 * time.Millisecond},
				Lanes:   batch.Lanes[event]{Order: order},
			}, nil, func(t *testing.T, r *rig, d *diary) {
				synctestWait(37 * time.Millisecond)
				for range 8 { // at 37, 57, ... 177: the batch of 37 goes at 137
					r.load(1, 1, 10)
					synctestWait(20 * time.Millisecond)
				}
				wantTimes(t, d, 137*time.Millisecond)
				// The first event after that came at 137 or 157. At 137 both orders
				// are right.
				synctestWait(time.Hour)
				calls := d.calls()
				if len(calls) != 2 || calls[0].len+calls[1].len != 8 {
					t.Fatalf("got %v, want two batches of 8 events", calls)
				}
				if calls[0].len == 5 && calls[1].at != 237*time.Millisecond+20*time.Millisecond*0 && calls[1].at != 257*time.Millisecond {
					t.Errorf("the second batch was sent at %v", calls[1].at)
				}
				// A long time without events changes nothing.
				synctestWait(24 * time.Hour)
				before := len(d.calls())
				began := time.Since(d.began)
				r.load(1, 1, 10)
				synctestWait(100*time.Millisecond - 1)
				synctest.Wait()
				if got := len(d.calls()); got != before {
					t.Errorf("sent a nanosecond early")
				}
				synctestWait(1)
				synctest.Wait()
				if got := d.times(); len(got) != before+1 || got[before] != began+100*time.Millisecond {
					t.Errorf("after a day: sent at %v, want at %v", got[before:], began+100*time.Millisecond)
				}
			})
		})
	}
}

// TestFault13_Count: a batch of Count events or Bytes bytes is sent immediately.
func TestFault13_Count(t *testing.T) {
	size := len((&event{ID: 1, Key: 1, Seq: 1, Pad: 100}).Append(nil)) + 1
	for _, c := range []struct {
		name    string
		trigger batch.Trigger
	}{
		{"count", batch.Trigger{Count: 9, Linger: -1}},
		{"bytes", batch.Trigger{Bytes: 9 * size, Linger: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			timed(t, config{Trigger: c.trigger, Lanes: batch.Lanes[event]{Order: batch.OrderTotal}}, nil, func(t *testing.T, r *rig, d *diary) {
				synctestWait(time.Second)
				r.load(1, 8, 100)
				synctestWait(time.Hour) // a negative Linger is disabled
				wantTimes(t, d)
				r.load(1, 1, 100)
				wantTimes(t, d, time.Hour+time.Second)
				if got := d.calls()[0].len; got != 9 {
					t.Errorf("got a batch of %d events, want 9", got)
				}
			})
		})
	}
}

// TestFault13_Idle: a batch is sent when no event was added for Idle, or up to a quarter
// longer.
func TestFault13_Idle(t *testing.T) {
	timed(t, config{Trigger: batch.Trigger{Linger: time.Hour, Idle: 100 * time.Millisecond}}, nil, func(t *testing.T, r *rig, d *diary) {
		for range 10 {
			r.load(1, 1, 10)
			synctestWait(90 * time.Millisecond)
		}
		wantTimes(t, d) // never idle so far
		last := 9 * 90 * time.Millisecond
		synctestWait(time.Second)
		synctest.Wait()
		got := d.calls()
		if len(got) != 1 || got[0].len != 10 || got[0].at < last+100*time.Millisecond || got[0].at > last+125*time.Millisecond {
			t.Errorf("got %v, want one batch of 10 between %v and %v", got, last+100*time.Millisecond, last+125*time.Millisecond)
		}
	})
}

// TestFault13_Quiet: a processor without events does nothing.
func TestFault13_Quiet(t *testing.T) {
	timed(t, config{Trigger: batch.Trigger{Idle: time.Millisecond}}, nil, func(t *testing.T, r *rig, d *diary) {
		synctestWait(1000 * time.Hour)
		wantTimes(t, d)
		if s := r.balance("quiet"); s.Requests+s.Batches > 0 || s.OldestAge != 0 {
			t.Errorf("got %+v, want nothing", s)
		}
	})
}

// TestFault13_BackOff: each wait is above zero and at most its bound, which doubles up to
// Retry.Max; and it is random over the whole range.
func TestFault13_BackOff(t *testing.T) {
	const base, most = 100 * time.Millisecond, 3 * time.Second
	var low, high int
	for range 20 {
		timed(t, config{
			Trigger: batch.Trigger{Count: 1},
			Retry:   batch.Retry{Initial: base, Max: most},
		}, func(store *oracle.Store) batch.SendFunc {
			return func(_ context.Context, b *batch.Batch) batch.Outcome {
				if b.Attempt() < 12 {
					return batch.Outcome{Err: errors.New("no")}
				}
				return give(store, b)
			}
		}, func(t *testing.T, r *rig, d *diary) {
			r.load(1, 1, 10)
			synctestWait(12 * most)
			synctest.Wait()
			at := d.times()
			if len(at) != 12 {
				t.Fatalf("got %d attempts, want 12", len(at))
			}
			bound := base
			for i := range at[1:] {
				wait := at[i+1] - at[i]
				if wait <= 0 || wait > bound {
					t.Errorf("wait %d: got %v, want above 0 and at most %v", i+1, wait, bound)
				}
				if wait < bound/2 {
					low++
				} else {
					high++
				}
				bound = min(2*bound, most)
			}
		})
	}
	// 220 waits: by chance this happens once in 10^16 runs.
	if low < 50 || high < 50 {
		t.Errorf("got %d waits in the lower half of their range, %d in the upper: not full jitter", low, high)
	}
}

// TestFault13_Gate: Retry-After stops all lanes, exactly for its time or for
// MaxRetryAfter.
func TestFault13_Gate(t *testing.T) {
	for _, c := range []struct {
		name        string
		after, want time.Duration
	}{
		{"short", 7 * time.Second, 7 * time.Second},
		{"clamped", 10 * time.Hour, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			var once sync.Once
			timed(t, config{
				Trigger: batch.Trigger{Count: 1, Linger: -1},
				Retry:   batch.Retry{Initial: time.Millisecond, Max: time.Millisecond, MaxRetryAfter: time.Minute},
				Lanes:   batch.Lanes[event]{Order: batch.OrderPerKey, Max: 4},
			}, func(store *oracle.Store) batch.SendFunc {
				return func(_ context.Context, b *batch.Batch) (out batch.Outcome) {
					once.Do(func() { out = batch.Outcome{Err: errors.New("later"), RetryAfter: c.after} })
					if out.Err != nil {
						return out
					}
					return give(store, b)
				}
			}, func(t *testing.T, r *rig, d *diary) {
				r.load(1, 1, 10)
				synctestWait(time.Second) // the gate is shut since 0
				r.load(8, 5, 10)
				synctestWait(c.want - time.Second - 1)
				wantTimes(t, d, 0)
				synctestWait(1)
				synctest.Wait()
				at := d.times()
				if len(at) != 42 {
					t.Fatalf("got %d attempts, want 42 when the gate opens", len(at))
				}
				for _, x := range at[1:] {
					if x != c.want {
						t.Errorf("sent at %v, want %v", x, c.want)
						break
					}
				}
			})
		})
	}
}

// TestFault13_Pause: a paused lane tries again every Retry.Max, and on Resume.
func TestFault13_Pause(t *testing.T) {
	var mu sync.Mutex
	allowed := false
	timed(t, config{
		Trigger: batch.Trigger{Count: 1},
		Retry:   batch.Retry{Initial: time.Millisecond, Max: time.Minute},
	}, func(store *oracle.Store) batch.SendFunc {
		return func(_ context.Context, b *batch.Batch) batch.Outcome {
			mu.Lock()
			defer mu.Unlock()
			if !allowed {
				return batch.Outcome{Verdict: batch.VerdictPause, Err: errors.New("who are you")}
			}
			return give(store, b)
		}
	}, func(t *testing.T, r *rig, d *diary) {
		r.load(1, 1, 10)
		synctestWait(2*time.Minute + 30*time.Second)
		wantTimes(t, d, 0, time.Minute, 2*time.Minute)
		if s := r.balance("paused"); s.LanesPaused != 1 || s.OldestAge != 150*time.Second {
			t.Errorf("got %d lanes paused, the oldest event %v old, want 1, 2m30s", s.LanesPaused, s.OldestAge)
		}
		mu.Lock()
		allowed = true
		mu.Unlock()
		r.Resume()
		wantTimes(t, d, 0, time.Minute, 2*time.Minute, 150*time.Second)
	})
}

// TestFault13_Total: a batch expires at the first failed attempt after Retry.MaxElapsed,
// not before.
func TestFault13_Total(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{began: time.Now(), send: func(context.Context, *batch.Batch) batch.Outcome {
			return batch.Outcome{Err: errors.New("no")}
		}}
		r := start(t, config{
			Send:    d.write,
			Trigger: batch.Trigger{Count: 5},
			Retry:   batch.Retry{Initial: time.Second, Max: time.Second, MaxElapsed: 10 * time.Second},
			Lanes:   batch.Lanes[event]{Order: batch.OrderTotal},
		})
		r.unwatch()
		r.load(1, 5, 10)
		synctestWait(10*time.Second - 1)
		synctest.Wait()
		if s := r.balance("before"); s.DroppedExpired != 0 || s.InFlight != 5 {
			t.Errorf("before Retry.MaxElapsed: got %d expired, %d in flight, want 0, 5", s.DroppedExpired, s.InFlight)
		}
		synctestWait(time.Second + 1)
		synctest.Wait()
		if s := r.balance("after"); s.DroppedExpired != 5 || s.InFlight != 0 {
			t.Errorf("after Retry.MaxElapsed: got %d expired, %d in flight, want 5, 0", s.DroppedExpired, s.InFlight)
		}
		r.end(time.Second)
		r.verdict(oracle.NewStore(oracle.Rules{}), oracle.Promise{})
	})
}

// TestFault13_Flush: Flush sends all events immediately, and waits for retries.
func TestFault13_Flush(t *testing.T) {
	timed(t, config{
		Trigger: batch.Trigger{Linger: time.Hour},
		Retry:   batch.Retry{Initial: time.Second, Max: time.Second},
	}, func(store *oracle.Store) batch.SendFunc {
		return func(_ context.Context, b *batch.Batch) batch.Outcome {
			if b.Attempt() < 4 {
				return batch.Outcome{Err: errors.New("no")}
			}
			return give(store, b)
		}
	}, func(t *testing.T, r *rig, d *diary) {
		synctestWait(5 * time.Second)
		r.load(2, 10, 10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		defer cancel()
		if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush: got %v, want the deadline", err)
		}
		if at := d.times(); len(at) == 0 || at[0] != 5*time.Second {
			t.Errorf("sent at %v, want first at 5 s", at)
		}
		if s := r.flush(); s.Delivered != 20 {
			t.Errorf("Flush returned with %d of 20 delivered", s.Delivered)
		}
		if at := d.times(); len(at) < 4 {
			t.Errorf("got %d attempts when Flush returned, want 4", len(at))
		}
	})
}
