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

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const cacheDoc = "- {kind: cache, name: n%s, ports: {out: [{name: b}]}}\n- {kind: backend, name: b}\n"

func TestCacheOneCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		answer := make(chan struct{})
		b := &backend{reply: func(_ context.Context, call int64) node.Result {
			<-answer
			return node.Answer(value.Int(call))
		}}
		e, apply := b.engine(t)
		apply(fmt.Sprintf(cacheDoc, ""))
		var waiting []<-chan reply
		for range 50 {
			waiting = append(waiting, start(t.Context(), e, value.Int(7)))
		}
		synctest.Wait()
		close(answer)
		for _, w := range waiting {
			if r := <-w; r.err != nil || !r.v.Equal(value.Int(1)) {
				t.Errorf("got %v, %v, want 1", r.v, r.err)
			}
		}
		wantFigures(t, e, map[string]float64{"cache_misses_total": 1, "cache_hits_total": 49, "cache_entries": 1})
	})
}

// TestCacheOneProcess checks that packets of one process wait for each other, too.
func TestCacheOneProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &backend{reply: func(ctx context.Context, call int64) node.Result {
			if err := (node.SystemClock{}).Sleep(ctx, time.Second); err != nil {
				return node.Fail(err)
			}
			return node.Answer(value.Int(call))
		}}
		e, apply := b.engine(t)
		apply("- {kind: burst, name: n, ports: {out: [{name: c}]}}\n- {kind: cache, name: c, ports: {out: [{name: b}]}}\n- {kind: backend, name: b}\n")
		if got := send(t, e, `["x","y","x","y","x"]`); got != "[1,2,1,2,1]" {
			t.Errorf("got %s, want the answers of two calls", got)
		}
	})
}

// TestCacheTakesOver checks that those who wait do not share an error, nor the end of
// the first process: the next of them is sent.
func TestCacheTakesOver(t *testing.T) {
	f := func(name string, first func(ctx context.Context) node.Result) {
		t.Helper()
		bubble(t, func(t *testing.T) {
			fail := make(chan struct{})
			b := &backend{}
			b.reply = func(ctx context.Context, call int64) node.Result {
				if call > 1 {
					return node.Answer(value.Int(call))
				}
				<-fail
				return first(ctx)
			}
			e, apply := b.engine(t)
			apply(fmt.Sprintf(cacheDoc, ""))
			ctx, cancel := context.WithCancel(t.Context())
			leader := start(ctx, e, value.Int(7))
			synctest.Wait()
			second, third := start(t.Context(), e, value.Int(7)), start(t.Context(), e, value.Int(7))
			synctest.Wait()
			cancel()
			close(fail)
			<-leader
			for _, w := range []<-chan reply{second, third} {
				if r := <-w; r.err != nil || !r.v.Equal(value.Int(2)) {
					t.Errorf("%s: got %v, %v, want 2", name, r.v, r.err)
				}
			}
			if got := b.calls.Load(); got != 2 {
				t.Errorf("%s: got %d calls, want 2", name, got)
			}
		})
	}
	f("error", func(context.Context) node.Result { return node.Fail(errBackend) })
	f("none", func(context.Context) node.Result { return node.None() })
	f("panic", func(context.Context) node.Result { panic("on purpose") })
	f("cancelled", stall)
}

// TestCacheTakesOverInOrder checks that a backend that fails has one call at a time.
func TestCacheTakesOverInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &backend{reply: func(ctx context.Context, _ int64) node.Result {
			if err := (node.SystemClock{}).Sleep(ctx, time.Second); err != nil {
				return node.Fail(err)
			}
			return node.Fail(errBackend)
		}}
		e, apply := b.engine(t)
		apply(fmt.Sprintf(cacheDoc, ""))
		begin := time.Now()
		var waiting []<-chan reply
		for range 5 {
			waiting = append(waiting, start(t.Context(), e, value.Int(7)))
		}
		for _, w := range waiting {
			if r := <-w; !errors.Is(r.err, errBackend) {
				t.Errorf("got %v, want the error of the backend", r.err)
			}
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("got %v for five calls, want 5s", took)
		}
		wantFigures(t, e, map[string]float64{"cache_misses_total": 5, "cache_hits_total": 0, "cache_entries": 0, "cache_bytes": 0})
	})
}

// TestCacheWaits checks what ends a wait: the process's own end, and patience.
func TestCacheWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &backend{reply: func(ctx context.Context, call int64) node.Result {
			if call > 1 {
				return node.Answer(value.Int(call))
			}
			return stall(ctx)
		}}
		e, apply := b.engine(t)
		apply(fmt.Sprintf(cacheDoc, ""))
		ctx, cancel := context.WithCancel(t.Context())
		leader := start(ctx, e, value.Int(7))
		synctest.Wait()
		short, cancelShort := context.WithTimeout(t.Context(), time.Second)
		defer cancelShort()
		begin := time.Now()
		if r := <-start(short, e, value.Int(7)); !errors.Is(r.err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("got %v after %v, want an exceeded deadline after 1s", r.err, time.Since(begin))
		}
		begin = time.Now()
		if r := <-start(t.Context(), e, value.Int(7)); r.err != nil || !r.v.Equal(value.Int(2)) || time.Since(begin) != time.Minute {
			t.Errorf("got %v, %v after %v, want 2 after 1m", r.v, r.err, time.Since(begin))
		}
		cancel()
		if r := <-leader; r.err == nil {
			t.Errorf("got %v of a process that was cancelled", r.v)
		}
	})
}

// TestCacheCycle checks that a packet that comes back to its cache ends with its
// process.
func TestCacheCycle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, apply := new(backend).engine(t)
		apply("- {kind: cache, name: n, ports: {out: [{name: n}]}}\n")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if r := <-start(ctx, e, value.Int(7)); !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v, want an exceeded deadline", r.v, r.err)
		}
		wantFigures(t, e, map[string]float64{"cache_entries": 0})
	})
}

func TestCacheKeeps(t *testing.T) {
	f := func(fields string, want map[string]float64, steps ...string) {
		t.Helper()
		bubble(t, func(t *testing.T) {
			e, apply := new(backend).engine(t)
			apply(fmt.Sprintf(cacheDoc, fields))
			for _, step := range steps {
				if d, err := time.ParseDuration(step); err == nil {
					pass(t, d)
					continue
				}
				in, want, _ := strings.Cut(step, " -> ")
				if got := send(t, e, in); got != want {
					t.Errorf("%s: %s: got %s, want %s", fields, in, got, want)
				}
			}
			wantFigures(t, e, want)
		})
	}
	f("", nil, `"a" -> 1`, `"a" -> 1`, "4m59s", `"a" -> 1`, "1s", `"a" -> 2`, `"a" -> 2`)
	f(", ttl: 0", nil, `"a" -> 1`, "87600h", `"a" -> 1`)
	f(", ttl: 1s", map[string]float64{"cache_evictions_total": 0, "cache_entries": 1}, `"a" -> 1`, "1s", `"a" -> 2`)
	f(", capacity: 2", map[string]float64{"cache_evictions_total": 2, "cache_entries": 2, "cache_hits_total": 2, "cache_misses_total": 4},
		`1 -> 1`, `2 -> 2`, `1 -> 1`, `3 -> 3`, `1 -> 1`, `2 -> 4`)
	f(", bytes: 600B", map[string]float64{"cache_evictions_total": 2, "cache_entries": 2, "cache_bytes": 2 * (256 + 24)},
		`1 -> 1`, `2 -> 2`, `3 -> 3`, `1 -> 4`, `1 -> 4`)
	f(", bytes: 200B", map[string]float64{"cache_evictions_total": 0, "cache_entries": 0, "cache_bytes": 0}, `1 -> 1`, `1 -> 2`)
	// Equal keys, and others.
	f("", nil, `1 -> 1`, `1.0 -> 1`, `"1" -> 2`, `true -> 3`, `null -> 4`, `[1] -> 5`, `[[1]] -> 6`, `{} -> 7`, `[] -> 8`, `"" -> 9`, `false -> 10`, `0 -> 11`, `-0.0 -> 11`, `0.5 -> 12`)
	f("", nil, `{"a":1,"b":{"c":2,"d":3}} -> 1`, `{"b":{"d":3,"c":2.0},"a":1} -> 1`, `{"a":1,"b":{"c":2,"d":4}} -> 2`, `{"ab":1} -> 3`, `{"a":"b"} -> 4`)
	f(", key: id", nil, `{"id":1,"x":1} -> 1`, `{"id":1,"x":2} -> 1`, `{"id":2} -> 2`)
	// Long ones.
	long, longer := strings.Repeat("x", 10_000), strings.Repeat("x", 10_001)
	f("", nil, `"`+long+`" -> 1`, `"`+longer+`" -> 2`, `"`+long+`" -> 1`)
	many := "[" + strings.Repeat("1,", 999_999) + "1]"
	f("", nil, many+" -> 1", many+" -> 1", "["+many+"] -> 2")
	deep := strings.Repeat("[", 500) + strings.Repeat("]", 500)
	f("", nil, deep+" -> 1", deep+" -> 1", "["+deep+"] -> 2")
}

// TestCacheReload checks that answers, and packets that wait, survive a reload.
func TestCacheReload(t *testing.T) {
	bubble(t, func(t *testing.T) {
		answer := make(chan struct{})
		b := &backend{}
		b.reply = func(_ context.Context, call int64) node.Result {
			if call == 2 {
				<-answer
			}
			return node.Answer(value.Int(call))
		}
		e, apply := b.engine(t)
		apply(fmt.Sprintf(cacheDoc, ""))
		if got := send(t, e, "1"); got != "1" {
			t.Errorf("got %s, want 1", got)
		}
		leader := start(t.Context(), e, value.Int(2))
		synctest.Wait()
		waiting := start(t.Context(), e, value.Int(2))
		synctest.Wait()
		apply(fmt.Sprintf(cacheDoc, "") + "- {kind: nop, name: more}\n")
		if got := send(t, e, "1"); got != "1" {
			t.Errorf("after a reload: got %s, want the answer from before", got)
		}
		later := start(t.Context(), e, value.Int(2))
		synctest.Wait()
		close(answer)
		for _, w := range []<-chan reply{leader, waiting, later} {
			if r := <-w; r.err != nil || !r.v.Equal(value.Int(2)) {
				t.Errorf("got %v, %v, want 2", r.v, r.err)
			}
		}
		wantFigures(t, e, map[string]float64{"cache_misses_total": 2, "cache_hits_total": 3})
		apply(fmt.Sprintf(cacheDoc, ", ttl: 1h"))
		if got := send(t, e, "1"); got != "3" {
			t.Errorf("with another ttl: got %s, want a new answer", got)
		}
	})
}

// BenchmarkCache measures a whole process through the node: one that is answered from
// memory, and one that is sent on to a node that answers.
func BenchmarkCache(b *testing.B) {
	e := engine(b, "- {kind: cache, name: n, key: self.id, ports: {out: [{name: end}]}}\n- {kind: cache, name: whole, ports: {out: [{name: end}]}}\n"+
		"- {kind: cache, name: miss, bytes: 1B, ports: {out: [{name: end}]}}\n"+mark("end"))
	payload := value.Map(value.Field{Name: "id", Value: value.String("a-7")}, value.Field{Name: "count", Value: value.Int(3)})
	f := func(name, at string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := e.Run(b.Context(), at, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	f("hit", "n")
	f("hit of a payload", "whole")
	f("miss", "miss")
}

// BenchmarkCacheShared measures packets that come together and wait for the answer to the
// first of them.
func BenchmarkCacheShared(b *testing.B) {
	const together = 100
	e := engine(b, "- {kind: cache, name: n, key: self.id, bytes: 1B, ports: {out: [{name: slow}]}}\n- {kind: sleep, name: slow, interval: 1ms, ports: {out: [{name: end}]}}\n"+mark("end"))
	payload := value.Map(value.Field{Name: "id", Value: value.String("a-7")})
	b.ReportAllocs()
	for b.Loop() {
		var work sync.WaitGroup
		for range together {
			work.Go(func() {
				if _, _, err := e.Run(b.Context(), "n", payload); err != nil {
					b.Error(err)
				}
			})
		}
		work.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/together, "ns/packet")
}
