package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const limitDoc = "- {kind: limit, name: n, %s, ports: {out: [{name: b}]}}\n- {kind: backend, name: b}\n"

// TestLimitRate sends some payloads after each time that passes: some of them pass, and
// the answers of the others say when to try again.
func TestLimitRate(t *testing.T) {
	type step struct {
		after      time.Duration
		send, want int
		retry      time.Duration // of the last that was refused
	}
	f := func(fields string, steps ...step) {
		t.Helper()
		bubble(t, func(t *testing.T) {
			e, apply := new(backend).engine(t)
			apply(fmt.Sprintf(limitDoc, fields))
			for i, s := range steps {
				pass(t, s.after)
				got, retry := 0, time.Duration(0)
				for range s.send {
					_, _, err := e.Run(t.Context(), "n", value.Int(7))
					if err == nil {
						got++
						continue
					}
					refusal := node.Describe(err)
					if refusal.Status != 429 || refusal.Code != "rate" {
						t.Errorf("%s, step %d: got %v, want status 429", fields, i, err)
					}
					retry = refusal.RetryAfter
				}
				if got != s.want || retry.Round(time.Millisecond) != s.retry {
					t.Errorf("%s, step %d: got %d, then %v, want %d, then %v", fields, i, got, retry, s.want, s.retry)
				}
			}
		})
	}
	f("rate: 5", step{0, 9, 5, 200 * time.Millisecond}, step{200 * time.Millisecond, 3, 1, 200 * time.Millisecond}, step{time.Hour, 9, 5, 200 * time.Millisecond})
	f("rate: 100/m", step{0, 101, 100, 600 * time.Millisecond}, step{600 * time.Millisecond, 2, 1, 600 * time.Millisecond}, step{time.Minute, 101, 100, 600 * time.Millisecond})
	f("rate: 100/m, burst: 1", step{0, 2, 1, 600 * time.Millisecond}, step{time.Minute, 2, 1, 600 * time.Millisecond})
	f("rate: 5/10s", step{0, 6, 5, 2 * time.Second}, step{5 * time.Second, 3, 2, time.Second}) // half a token was left
	f("rate: 0.5", step{0, 2, 1, 2 * time.Second}, step{2 * time.Second, 2, 1, 2 * time.Second})
	f("rate: 1/d", step{0, 2, 1, 24 * time.Hour}, step{23 * time.Hour, 1, 0, time.Hour}, step{time.Hour, 1, 1, 0}, step{49 * time.Hour, 2, 1, 24 * time.Hour})
	f("rate: 2/h", step{0, 3, 2, 30 * time.Minute})
	f("rate: 1 / 500ms", step{0, 2, 1, 500 * time.Millisecond})
	f("rate: 1e3, burst: 2", step{0, 3, 2, time.Millisecond})
}

// TestLimitConcurrency checks that a packet counts until it is answered, or its process
// ends, however it does.
func TestLimitConcurrency(t *testing.T) {
	f := func(name string, answer func(ctx context.Context) node.Result) {
		t.Helper()
		bubble(t, func(t *testing.T) {
			release := make(chan struct{})
			b := &backend{}
			b.reply = func(ctx context.Context, call int64) node.Result {
				if call > 3 {
					return node.Answer(value.Int(call))
				}
				<-release
				return answer(ctx)
			}
			e, apply := b.engine(t)
			apply(fmt.Sprintf(limitDoc, "key: self.k, concurrency: 2, rate: 3/d"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			payload := func(k string) value.Value { return value.Map(value.Field{Name: "k", Value: value.String(k)}) }
			var running []<-chan reply
			for _, k := range []string{"a", "a", "b"} {
				running = append(running, start(ctx, e, payload(k)))
			}
			synctest.Wait()
			for range 5 { // takes no token
				r := <-start(t.Context(), e, payload("a"))
				if refusal := node.Describe(r.err); refusal.Status != 429 || refusal.Code != "concurrency" || refusal.RetryAfter != time.Second {
					t.Errorf("%s: got %v, want a refusal", name, r.err)
				}
			}
			wantFigures(t, e, map[string]float64{"limit_in_flight": 3, "limit_passed_total": 3, "limit_refused_total/concurrency": 5, "limit_refused_total/rate": 0, "limit_keys": 2})
			apply(fmt.Sprintf(limitDoc, "key: self.k, concurrency: 2, rate: 3/d") + "- {kind: nop, name: more}\n")
			if r := <-start(t.Context(), e, payload("a")); r.err == nil {
				t.Errorf("%s: a reload has let one more pass", name)
			}
			cancel()
			close(release)
			for _, w := range running {
				<-w
			}
			wantFigures(t, e, map[string]float64{"limit_in_flight": 0})
			<-start(t.Context(), e, payload("a"))
			if r := <-start(t.Context(), e, payload("a")); node.Describe(r.err).Code != "rate" {
				t.Errorf("%s: got %v, want one more to pass and no other", name, r.err)
			}
			wantFigures(t, e, map[string]float64{"limit_in_flight": 0, "limit_passed_total": 4, "limit_refused_total/rate": 1})
		})
	}
	f("answer", func(context.Context) node.Result { return node.Answer(value.Int(1)) })
	f("none", func(context.Context) node.Result { return node.None() })
	f("error", func(context.Context) node.Result { return node.Fail(errBackend) })
	f("panic", func(context.Context) node.Result { panic("on purpose") })
	f("cancelled", stall)
}

// TestLimitManyKeys checks that keys that are not used any more take no memory.
func TestLimitManyKeys(t *testing.T) {
	e, apply := new(backend).engine(t)
	apply(fmt.Sprintf(limitDoc, "key: self, rate: 1/d"))
	for i := range 200_000 {
		if _, _, err := e.Run(t.Context(), "n", value.Int(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if got := figures(e)["limit_keys"]; got < 1<<16 || got > 1<<17 {
		t.Errorf("got %v keys, want from 65536 to 131072", got)
	}
	if _, _, err := e.Run(t.Context(), "n", value.Int(199_999)); err == nil {
		t.Error("the last key was forgotten")
	}
	if _, _, err := e.Run(t.Context(), "n", value.Int(0)); err != nil {
		t.Errorf("got %v of the first key, want it to be forgotten", err)
	}
}

// TestLimitForgets checks that buckets that are full again go, with the next packet.
func TestLimitForgets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, apply := new(backend).engine(t)
		apply(fmt.Sprintf(limitDoc, "key: self, rate: 10/10m"))
		run := func(k int64, want float64) {
			t.Helper()
			if _, _, err := e.Run(t.Context(), "n", value.Int(k)); err != nil {
				t.Error(err)
			}
			if got := figures(e)["limit_keys"]; got != want {
				t.Errorf("got %v keys, want %v", got, want)
			}
		}
		for k := range int64(5) {
			run(k, float64(k+1))
		}
		pass(t, 11*time.Minute)
		run(0, 5)
		pass(t, 11*time.Minute)
		run(9, 2) // 0 and 9
		pass(t, time.Hour)
		run(9, 1)
	})
}

func TestLimitStalled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &backend{reply: func(ctx context.Context, _ int64) node.Result { return stall(ctx) }}
		e, apply := b.engine(t)
		apply(fmt.Sprintf(limitDoc, "concurrency: 1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r := <-start(ctx, e, value.Null()); !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("got %v, want an exceeded deadline", r.err)
		}
		wantFigures(t, e, map[string]float64{"limit_in_flight": 0})
	})
}

// BenchmarkLimit measures a whole process through the node to one that answers.
func BenchmarkLimit(b *testing.B) {
	f := func(name, fields string) {
		e := engine(b, "- {kind: limit, name: n, "+fields+", ports: {out: [{name: end}]}}\n"+mark("end"))
		payload := value.String("203.0.113.7")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := e.Run(b.Context(), "n", payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	f("rate", "rate: 1e9")
	f("rate by key", "rate: 1e9, key: self")
	f("concurrency by key", "concurrency: 10, key: self")
}

// BenchmarkLimitKeys measures packets of a million keys, and the memory that these
// take.
func BenchmarkLimitKeys(b *testing.B) {
	e := engine(b, "- {kind: limit, name: n, rate: 1/d, key: self, ports: {out: [{name: end}]}}\n"+mark("end"))
	memory := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := memory()
	n := 0
	for b.Loop() {
		for range 1_000_000 {
			if _, _, err := e.Run(b.Context(), "n", value.String("key "+strconv.Itoa(n))); err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/packet")
	b.ReportMetric(float64(memory()-before), "bytes-kept")
}
