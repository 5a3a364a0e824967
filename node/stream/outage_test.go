package stream_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

const batches = "- {kind: mem, name: s, batch: {count: 4, linger: 1ms}, retry: {threshold: 2, backoff: {initial: 1ms, max: 2ms}}, ports: {out: [{name: t}], error: [{name: t, port: dead}]}}\n- {kind: take, name: t}\n"

// away is the error of a system that is not there.
func away() error { return &node.Error{Err: errors.New("away"), Status: 503, Outage: true} }

// TestOutageUsesNoAttempt has more failures than attempts because of an outage, alone and in
// batches: all messages are taken in the end, none by the port error, and the source is not
// ready meanwhile.
func TestOutageUsesNoAttempt(t *testing.T) {
	for name, document := range map[string]string{"messages": strings.Replace(letters, "initial: 1ms", "initial: 1ms, max: 2ms", 1), "batches": batches} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, s *broker) {
				s.add(0, "k", "1", "2", "3", "4")
				var calls, over atomic.Int64
				r := start(t, s, document, func(_ context.Context, port string, v value.Value) error {
					if port == "dead" {
						t.Errorf("%s is a dead letter", v)
					}
					if v.Kind() == value.KindList && v.Len() != 4 {
						t.Errorf("got a batch of %d", v.Len())
					}
					if calls.Add(1); over.Load() == 0 {
						return errors.Join(errors.New("joined"), away())
					}
					return nil
				})
				r.until("a source that is not ready", func() bool { return calls.Load() > 12 && strings.Contains(fmt.Sprint(r.engine.Ready()), "outage") })
				over.Store(1)
				r.until("all to be settled", s.settledAll)
				r.until("a source that is ready", func() bool { return len(r.engine.Ready()) == 0 })
				if got := r.log.String(); strings.Count(got, "messages are held until an outage is over") != 1 {
					t.Errorf("got log %s", got)
				}
			})
		})
	}
}

// TestPoisonEndsOutages has a message that breaks each connection: the first time is an
// outage, and the others use up its attempts. A message that was under way only once is not
// blamed.
func TestPoisonEndsOutages(t *testing.T) {
	s := newBroker(stream.Traits{Redelivers: true, Order: stream.OrderTotal})
	s.add(0, "k", `"poison"`, `"victim"`)
	var poisoned, met atomic.Int64
	r := start(t, s, letters, func(_ context.Context, port string, v value.Value) error {
		body, _ := v.Get("body")
		switch {
		case port == "dead":
			return nil
		case body.String() == "poison":
			poisoned.Add(1)
		case met.Add(1) == 2:
			return away()
		case met.Load() > 3:
			return nil
		}
		return &node.Error{Err: fmt.Errorf("%w: reset", stream.ErrLost), Status: 503, Outage: true}
	})
	r.until("both to be settled", s.settledAll)
	if n := poisoned.Load(); n != 4 { // an outage, and three attempts
		t.Errorf("the poison was tried %d times", n)
	}
	if got := strings.Join(r.got(), "; "); !strings.Contains(got, "dead poison") || strings.Contains(got, "dead victim") {
		t.Errorf("got %s", got)
	}
}

// TestGiveUp treats an outage that has lasted for too long as a failure, and each that follows at
// once: the time does not begin again with each attempt, nor with each half of a batch.
func TestGiveUp(t *testing.T) {
	for name, document := range map[string]string{"messages": letters, "batches": batches} {
		for system, traits := range systems {
			t.Run(name+"/"+system, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newBroker(traits)
					s.add(0, "k", "1", "2", "3", "4")
					began := time.Now()
					r := start(t, s, strings.NewReplacer("threshold: 2", "threshold: 2, give_up: 5s", "initial: 1ms}", "initial: 1ms, max: 100ms}").Replace(document), func(_ context.Context, port string, v value.Value) error {
						if port == "dead" {
							return nil
						}
						if v.Kind() == value.KindList && v.Len() != 4 && time.Since(began) < 5*time.Second {
							t.Errorf("got a batch of %d before it was given up", v.Len())
						}
						return away()
					})
					r.until("dead letters", s.settledAll)
					if took := time.Since(began); took < 5*time.Second || took > 7*time.Second {
						t.Errorf("given up after %s", took)
					}
					if got := strings.Join(r.got(), "; "); strings.Count(got, "dead") != 4 {
						t.Errorf("got %s", got)
					}
				})
			})
		}
	}
}

// TestGiveUpForgets has an outage a long time after one that was given up, without a good message
// between them: it is another one, and gets its own time.
func TestGiveUpForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBroker(stream.Traits{Redelivers: true})
		s.add(0, "k", "1")
		var later atomic.Bool
		calls := 0
		r := start(t, s, strings.Replace(letters, "threshold: 2", "threshold: 0, give_up: 5s", 1), func(_ context.Context, port string, _ value.Value) error {
			if port == "dead" {
				return nil
			}
			if later.Load() {
				if calls++; calls > 1 {
					return nil
				}
			}
			return away()
		})
		r.until("a dead letter", s.settledAll)
		<-time.After(time.Minute)
		later.Store(true)
		s.add(0, "k", "2")
		r.until("the second to be good", s.settledAll)
		if got := strings.Join(r.got(), "; "); strings.Contains(got, "dead 2") {
			t.Errorf("got %s", got)
		}
	})
}

// TestOutageSince checks since when messages are held, not since when the last of them is.
func TestOutageSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBroker(stream.Traits{Redelivers: true})
		s.add(0, "k", "1")
		began, late := time.Now(), time.Now().Add(5*time.Second)
		var calls atomic.Int64
		r := start(t, s, strings.Replace(letters, "initial: 1ms", "initial: 1s, factor: 1, jitter: 0", 1), func(_ context.Context, _ string, v value.Value) error {
			calls.Add(1)
			return away()
		})
		for range 40 {
			<-time.After(time.Until(late))
			late = late.Add(2 * time.Second)
			s.add(0, "k", "2")
		}
		since := regexp.MustCompile(`messages are held.* since=(\S+)`).FindAllStringSubmatch(r.log.String(), -1)
		if len(since) < 2 {
			t.Fatalf("got log %s", r.log.String())
		}
		for _, m := range since {
			if at, err := time.Parse(time.RFC3339Nano, m[1]); err != nil || at.Sub(began) > time.Second {
				t.Errorf("since %s, want %s", m[1], began)
			}
		}
	})
}

// toSink links a source to a sink in memory. What fails finally goes to the port dead of t.
const toSink = "- {kind: mem, name: s, retry: {threshold: 2, backoff: {initial: 1ms, max: 2ms}}, ports: {out: [{name: out}], error: [{name: t, port: dead}]}}\n" +
	"- {kind: memory_sink, name: out, timeout: 20ms}\n- {kind: take, name: t}\n"

// TestPoisonAmongOthers has one message that breaks each connection, and many that are under
// way with it whenever it does, as all wait for the connection: only that one is blamed.
func TestPoisonAmongOthers(t *testing.T) {
	s := newBroker(stream.Traits{Redelivers: true})
	for i := range 64 {
		s.add(0, "k", fmt.Sprint(i))
	}
	s.add(0, "k", `"poison"`)
	m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
		for i := range records {
			if string(records[i].Raw) == `"poison"` {
				done(stream.Rest, value.Null(), fmt.Errorf("%w: reset", stream.ErrLost))
				return
			}
		}
		done(stream.Rest, value.Null(), nil)
	}}
	out := sink(m)
	out.Batches = true
	r := startWith(t, s, strings.Replace(toSink, "20ms", "30s", 1), nil, out.Def(options))
	r.until("all to be settled", s.settledAll)
	if got := strings.Join(r.got(), "; "); strings.Count(got, "dead") != 1 || !strings.Contains(got, "dead poison") {
		t.Errorf("got %s", got)
	}
}

// TestSilentSink has a sink that confirms nothing, of which the runtime only sees that time
// passes: an outage, however often. If it confirms others meanwhile, the message is to blame.
func TestSilentSink(t *testing.T) {
	for name, others := range map[string]bool{"all": false, "one": true} {
		t.Run(name, func(t *testing.T) {
			s := newBroker(stream.Traits{Redelivers: true})
			s.add(0, "k", "1")
			var over atomic.Bool
			seen := 0
			m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
				for i := range records {
					if over.Load() || string(records[i].Raw) != "1" {
						done(i, value.Null(), nil)
					}
				}
			}}
			r := startWith(t, s, toSink, nil, sink(m).Def(options))
			r.until("more failures than attempts", func() bool {
				calls, _ := m.count()
				if others && calls > seen {
					s.add(0, "k", "2")
					seen = calls
				}
				return calls > 8 && (!others || strings.Contains(strings.Join(r.got(), "; "), "dead 1"))
			})
			if got := strings.Join(r.got(), "; "); !others && got != "" {
				t.Errorf("got %s", got)
			}
			over.Store(true)
			r.until("all to be settled", s.settledAll)
		})
	}
}
