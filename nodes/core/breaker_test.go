package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A patient answers as long as it is well, and after it has thought about it.
type patient struct {
	backend
	mu       sync.Mutex
	err      error
	thinks   time.Duration
	now, top int // calls that are under way, and the most
}

func newPatient(err error) *patient {
	p := &patient{err: err}
	p.reply = func(ctx context.Context, call int64) node.Result {
		p.mu.Lock()
		err, thinks := p.err, p.thinks
		p.now++
		p.top = max(p.top, p.now)
		p.mu.Unlock()
		if thinks > 0 {
			_ = node.SystemClock{}.Sleep(ctx, thinks) // a client that leaves is answered, too
		}
		p.mu.Lock()
		p.now--
		p.mu.Unlock()
		if err != nil {
			return node.Fail(err)
		}
		return node.Answer(value.Int(call))
	}
	return p
}

func (p *patient) turn(err error, thinks time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.thinks, p.top = err, thinks, 0
}

const breakerDoc = "- {kind: breaker, name: n, %s, ports: {out: [{name: b}]}}\n- {kind: backend, name: b}\n"

var errDown = &node.Error{Err: errors.New("down"), Status: 502}

// figure returns a metric of the node.
func figure(e *uniflow.Engine, name string) (v float64) {
	for _, f := range e.Metrics().Figures {
		if f.Metric.Name == name {
			v += f.Metric.Value
		}
	}
	return v
}

// calls sends payloads one after the other: . is good, x fails behind, o is refused.
func calls(t *testing.T, e *uniflow.Engine, n int) (got string) {
	t.Helper()
	for range n {
		_, _, err := e.Run(t.Context(), "n", value.Int(7))
		switch {
		case err == nil:
			got += "."
		case node.Describe(err).Code != "open":
			got += "x"
		default:
			if d := node.Describe(err); d.Status != 503 || !d.Outage || d.RetryAfter <= 0 || !strings.Contains(err.Error(), "down") {
				t.Errorf("got %+v", d)
			}
			got += "o"
		}
	}
	return got
}

// TestBreaker goes through its states.
func TestBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPatient(errDown)
		e, apply := p.engine(t)
		doc := fmt.Sprintf(breakerDoc, "threshold: 3, window: 10s, probes: 2, backoff: {initial: 1s, max: 3s, jitter: 0}")
		apply(doc)
		step := func(what string, n int, want string, state float64) {
			t.Helper()
			if got := calls(t, e, n); got != want || figure(e, "breaker_state") != state {
				t.Errorf("%s: got %s, state %v, want %s, %v", what, got, figure(e, "breaker_state"), want, state)
			}
		}
		step("it opens", 5, "xxxoo", 2)
		apply(doc + "- {kind: nop, name: more}\n")
		step("a reload keeps it", 1, "o", 2)
		pass(t, time.Second)
		step("a probe fails", 2, "xo", 2)
		pass(t, time.Second)
		step("it waits for longer", 1, "o", 2)
		pass(t, time.Second)
		step("again", 2, "xo", 2)
		pass(t, 2999*time.Millisecond)
		step("not yet", 1, "o", 2)
		pass(t, time.Millisecond)
		p.turn(nil, 0)
		step("a probe is good", 1, ".", 1)
		step("two are", 2, "..", 0)
		p.turn(errDown, 0)
		step("it counts from the beginning", 2, "xx", 0)
		pass(t, 11*time.Second)
		step("failures are forgotten", 2, "xx", 0)
		p.turn(&node.Error{Err: errors.New("yours"), Status: 404}, 0)
		step("mistakes of the caller are good answers", 9, "xxxxxxxxx", 0)
	})
}

// TestBreakerRate opens by the share of failures.
func TestBreakerRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPatient(nil)
		e, apply := p.engine(t)
		apply(fmt.Sprintf(breakerDoc, `rate: 0.5, minimum: 6, when: 'self.status == 404'`))
		got := calls(t, e, 3)
		p.turn(errDown, 0)
		got += calls(t, e, 2)
		p.turn(&node.Error{Err: errors.New("down"), Status: 404}, 0)
		got += calls(t, e, 9)
		if want := "...xx" + "xxxxx" + "oooo"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestBreakerParks keeps packets while it is open, sends them in order and step by step, and loses none.
func TestBreakerParks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPatient(errDown)
		e, apply := p.engine(t)
		doc := fmt.Sprintf(breakerDoc, "threshold: 1, probes: 4, mode: park, max: 20, backoff: {initial: 10s, jitter: 0}")
		apply(doc)
		got := calls(t, e, 1)
		p.turn(nil, time.Second)
		var group sync.WaitGroup
		outcomes := make([]string, 22)
		gone, leave := context.WithCancel(t.Context())
		for i := range outcomes {
			ctx := t.Context()
			if i == 3 {
				ctx = gone
			}
			group.Go(func() {
				v, _, err := e.Run(ctx, "n", value.Int(int64(i)))
				switch {
				case err == nil:
					outcomes[i] = v.String()
				case node.Describe(err).Code == "open":
					outcomes[i] = "open"
				default:
					outcomes[i] = "left"
				}
			})
			synctest.Wait()
		}
		if parked := figure(e, "breaker_parked"); parked != 20 {
			t.Errorf("got %v parked", parked)
		}
		leave()
		began := time.Now()
		group.Wait()
		// The first is call 2; the calls of a step begin together.
		want := "2 3 4 left 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 open open"
		got += " " + strings.Join(outcomes, " ")
		if took := time.Since(began); got != "x "+want || took != 14*time.Second {
			t.Errorf("got %s after %s, want %s", got, took, want)
		}
		if state := figure(e, "breaker_state"); state != 0 {
			t.Errorf("got state %v", state)
		}

		p.turn(errDown, 0)
		calls(t, e, 1)
		var err error
		group.Go(func() { _, _, err = e.Run(t.Context(), "n", value.Int(1)) })
		synctest.Wait()
		apply(doc + "- {kind: nop, name: more}\n")
		group.Wait()
		if node.Describe(err).Code != "open" || figure(e, "breaker_state") != 2 || figure(e, "uniflow_breaker_parked") != 0 {
			t.Errorf("after a reload: got %v", err)
		}
	})
}

// TestBreakerHammer opens and closes while packets come, leave, and the workflow is replaced. Each is answered.
func TestBreakerHammer(t *testing.T) {
	p := newPatient(nil)
	e, apply := p.engine(t)
	doc := fmt.Sprintf(breakerDoc, "threshold: 2, probes: 4, mode: park, max: 5, backoff: {initial: 200us, max: 400us}")
	apply(doc)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var seen [4]int
	var mu sync.Mutex
	for i := range 16 {
		group.Go(func() {
			for ctx.Err() == nil {
				own, leave := context.WithTimeout(context.Background(), time.Duration(100+100*i)*time.Microsecond)
				_, _, err := e.Run(own, "n", value.Int(1))
				leave()
				mu.Lock()
				switch {
				case err == nil:
					seen[0]++
				case node.Describe(err).Code == "open":
					seen[1]++
				case errors.Is(err, context.DeadlineExceeded):
					seen[2]++
				default:
					seen[3]++
				}
				mu.Unlock()
			}
		})
	}
	enough := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return min(seen[0], seen[1], seen[2], seen[3]) > 50
	}
	for i := 0; i < 40 || !enough(); i++ {
		p.turn([]error{nil, errDown}[i%2], 0)
		apply(doc)
	}
	stop()
	group.Wait()
}
