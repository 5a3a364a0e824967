package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/clock"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A rig is an engine with a clock that jumps, a log that can be read, and a kind
// "probe" that calls a function.
type rig struct {
	*uniflow.Engine
	clock *clock.Fake
	log   *lines
	probe func(ctx context.Context, in value.Value) (value.Value, error)
}

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newRig(tb testing.TB, doc string) *rig {
	tb.Helper()
	r := &rig{clock: clock.New(began), log: &lines{}}
	r.probe = func(_ context.Context, in value.Value) (value.Value, error) { return in, nil }
	probe := &node.Def{
		Kind: "probe", Summary: "Calls a function of the test.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		Recall: node.Always(node.Pure),
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
				out, err := r.probe(p.Context(), pkt.Payload)
				if err != nil {
					return node.Fail(err)
				}
				return node.Send(0, out)
			}), nil
		},
	}
	e, err := uniflow.New(uniflow.Options{
		Kinds: append(core.Defs(core.Options{Languages: builtin.Languages(), Language: "cel"}), probe),
		Clock: r.clock, Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Grace: time.Minute,
	})
	if err != nil {
		tb.Fatal(err)
	}
	r.Engine = e
	tb.Cleanup(func() { r.stop(tb) })
	r.apply(tb, doc)
	return r
}

// stop waits for everything that goes on.
func (r *rig) stop(tb testing.TB) {
	tb.Helper()
	if err := r.Shutdown(context.Background()); err != nil {
		tb.Error(err)
	}
}

func (r *rig) apply(tb testing.TB, doc string) {
	tb.Helper()
	list, err := r.Apply(tb.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(doc)}}})
	if err != nil || list.HasErrors() {
		tb.Fatal(err, list)
	}
}

func (r *rig) elapsed() time.Duration { return r.clock.Now().Sub(began) }

// lines is a log.
type lines struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.mu.String(), text)
}

// TestForMillion is far beyond what a process may have pending.
func TestForMillion(t *testing.T) {
	n := int64(1_000_000)
	if invariant.Race {
		n = 150_000 // the detector needs ten times as long, and gigabytes
	}
	e := engine(t, "- {kind: for, name: n, ports: {out: [{name: body}], 'out[1]': [{name: sum}]}}\n"+
		"- {kind: if, name: body, when: 'true', ports: {'out[0]': [{name: end}]}}\n- {kind: if, name: end, when: 'true'}\n"+
		"- {kind: reduce, name: sum, init: 0, step: acc + item, timeout: 0}")
	got, _, err := e.Run(t.Context(), "n", integers(int(n)))
	if want := value.Int(n * (n - 1) / 2); err != nil || !got.Equal(want) {
		t.Errorf("got %v, error %v, want %v", got, err, want)
	}
}

// TestForManyAsleep has more elements than may sleep at a time.
func TestForManyAsleep(t *testing.T) {
	const n = 12_000
	for _, concurrency := range []string{"", ", concurrency: 500"} {
		r := newRig(t, "- {kind: for, name: n, ports: {out: [{name: pause}]}"+concurrency+"}\n- {kind: sleep, name: pause, interval: 1s}")
		got, _, err := r.Run(t.Context(), "n", integers(n))
		if err != nil || !got.Equal(integers(n)) {
			t.Errorf("for%s: got %d answers, or another order, error %v", concurrency, got.Len(), err)
		}
		if concurrency == "" && r.elapsed() > 10*time.Second {
			t.Errorf("it took %v, so elements have waited for each other", r.elapsed())
		}
	}
}

// TestForConcurrency runs exactly as many elements at a time as it says.
func TestForConcurrency(t *testing.T) {
	r := newRig(t, "- {kind: for, name: n, concurrency: 4, ports: {out: [{name: pause}]}}\n- {kind: sleep, name: pause, interval: 1s}")
	if _, _, err := r.Run(t.Context(), "n", integers(40)); err != nil || r.elapsed() != 10*time.Second {
		t.Errorf("40 elements of 1s, 4 at a time: took %v, error %v", r.elapsed(), err)
	}
}

// TestForFails sends nothing after an element that has failed.
func TestForFails(t *testing.T) {
	for _, fields := range []string{"", ", concurrency: 1"} {
		r := newRig(t, "- {kind: for, name: n, ports: {out: [{name: body}]}"+fields+"}\n- {kind: probe, name: body}")
		var seen atomic.Int64
		r.probe = func(_ context.Context, in value.Value) (value.Value, error) {
			if seen.Add(1) == 5 {
				return in, errors.New("five")
			}
			return in, nil
		}
		_, _, err := r.Run(t.Context(), "n", integers(1000))
		if err == nil || node.Message(err) != "five" || seen.Load() != 5 {
			t.Errorf("for%s: got error %v after %d elements", fields, err, seen.Load())
		}
	}
}

// TestForManyFail does not join the errors of all elements.
func TestForManyFail(t *testing.T) {
	e := newRig(t, "- {kind: for, name: n, ports: {out: [{name: pause}]}}\n- {kind: sleep, name: pause, interval: 1s, ports: {out: [{name: no}]}}\n- {kind: throw, name: no, status: 409}")
	_, _, err := e.Run(t.Context(), "n", integers(500))
	if err == nil || !strings.HasSuffix(node.Message(err), "9\nand 490 elements more have failed") || node.Describe(err).Status != 409 {
		t.Errorf("got %v", err)
	}
}

// TestCancelled ends what waits in each kind when its client leaves, and leaves nothing
// running.
func TestCancelled(t *testing.T) {
	f := func(doc, payload string) {
		t.Helper()
		r := newRig(t, doc+"\n- {kind: sleep, name: long, interval: 1ms, ports: {out: [{name: leave}]}}\n"+
			"- {kind: probe, name: leave, ports: {out: [{name: longest}]}}\n- {kind: sleep, name: longest, interval: 1ms, ports: {out: [{name: longest}]}}")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r.probe = func(_ context.Context, in value.Value) (value.Value, error) { cancel(); return in, nil }
		in, err := value.ParseJSON([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = r.Run(ctx, "n", in); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the error of the context", doc, err)
		}
	}
	f("- {kind: sleep, name: n, interval: 1s, ports: {out: [{name: long}]}}", "1")
	f("- {kind: for, name: n, ports: {out: [{name: long}]}}", "[1,2,3,4,5,6,7,8]")
	f("- {kind: for, name: n, concurrency: 2, ports: {out: [{name: long}]}}", "[1,2,3,4,5,6,7,8]")
	f("- {kind: split, name: n, ports: {'out[0]': [{name: long}], 'out[1]': [{name: long}]}}", "[1,2]")
	f("- {kind: retry, name: n, backoff: {initial: 1h, max: 1h}, ports: {out: [{name: long}]}}", "1")
	f("- {kind: snippet, name: n, language: text, code: x, ports: {out: [{name: m, port: 'in[0]'}, {name: x}]}}\n"+
		"- {kind: snippet, name: x, language: text, code: x, ports: {out: [{name: long}, {name: m, port: 'in[1]'}]}}\n"+
		"- {kind: merge, name: m, timeout: 1h, ports: {out: [{name: long}]}}", "1")
}

// TestCancelledBackoff ends a wait before it is over.
func TestCancelledBackoff(t *testing.T) {
	e := engine(t, "- {kind: retry, name: n, backoff: {initial: 1h, max: 1h}, ports: {out: [{name: no}]}}\n- {kind: throw, name: 'no'}")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, _, err := e.Run(ctx, "n", value.String("x")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the error of the context", err)
	}
}

// TestSleepOrder keeps the order of packets whose timers are due together.
func TestSleepOrder(t *testing.T) {
	e := engine(t, "- {kind: for, name: n, ports: {out: [{name: pause}]}}\n- {kind: sleep, name: pause, interval: 100us, ports: {out: [{name: m, port: 'in[0]'}, {name: m, port: 'in[1]'}]}}\n"+
		"- {kind: sleep, name: other, interval: 100us}\n- {kind: merge, name: m}")
	got, _, err := e.Run(t.Context(), "n", integers(2000))
	if err != nil || got.Len() != 2000 {
		t.Fatalf("got %d answers, error %v", got.Len(), err)
	}
	for i, pair := range got.Elems() {
		if want := value.List(value.Int(int64(i)), value.Int(int64(i))); !pair.Equal(want) {
			t.Fatalf("got %v, want %v", pair, want)
		}
	}
}

// TestReload lets waits of the former generation end.
func TestReload(t *testing.T) {
	docs := []string{
		"- {kind: sleep, name: n, interval: 30ms, ports: {out: [{name: end}]}}\n" + mark("end"),
		"- {kind: retry, name: n, threshold: 1, backoff: {initial: 30ms}, ports: {out: [{name: no}], error: [{name: end}]}}\n- {kind: throw, name: 'no'}\n" + mark("end"),
		"- {kind: for, name: n, ports: {out: [{name: pause}], 'out[1]': [{name: end}]}}\n- {kind: sleep, name: pause, interval: 30ms}\n" + mark("end"),
		toMerge + "- {kind: merge, name: m, timeout: 1h, ports: {out: [{name: pause}]}}\n- {kind: sleep, name: pause, interval: 30ms, ports: {out: [{name: end}]}}\n" + mark("end"),
	}
	for _, doc := range docs {
		e := engine(t, doc)
		answer := make(chan string, 1)
		var wg sync.WaitGroup
		wg.Go(func() { answer <- send(t, e, "[1,2]") })
		for e.Status().InFlight == 0 && len(answer) == 0 {
			runtime.Gosched()
		}
		list, err := e.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "w.yaml", Data: []byte(strings.ReplaceAll(doc, "code: end", "code: new"))}}})
		if err != nil || list.HasErrors() {
			t.Fatal(err, list)
		}
		if got := <-answer; got != `"end"` && got != `"new"` {
			t.Errorf("%s: got %s", doc, got)
		}
		wg.Wait()
	}
}

// TestRetryBackoff waits as long as the fields and the error say.
func TestRetryBackoff(t *testing.T) {
	f := func(backoff string, asked time.Duration, wantSent int, least, most time.Duration) {
		t.Helper()
		r := newRig(t, "- {kind: retry, name: n, threshold: 4"+backoff+", ports: {out: [{name: body}]}}\n- {kind: probe, name: body}")
		sent := 0
		r.probe = func(_ context.Context, in value.Value) (value.Value, error) {
			sent++
			return in, &node.Error{Err: errors.New("busy"), Status: 503, RetryAfter: asked}
		}
		_, _, err := r.Run(t.Context(), "n", value.Int(1))
		if took := r.elapsed(); err == nil || node.Message(err) != "busy" || sent != wantSent || took < least || took > most {
			t.Errorf("retry%s, asked to wait %v: got error %v after sending %d times in %v, want %d in %v to %v",
				backoff, asked, err, sent, took, wantSent, least, most)
		}
	}
	f("", 0, 5, 0, 0)
	f("", time.Hour, 5, 0, 0)
	f(", backoff: {}", 0, 5, 1500*time.Millisecond, 1500*time.Millisecond)
	f(", backoff: {initial: 1s, factor: 3, max: 5s}", 0, 5, 14*time.Second, 14*time.Second) // 1 + 3 + 5 + 5
	f(", backoff: {initial: 1m, factor: 1}", 0, 5, 4*time.Minute, 4*time.Minute)
	f(", backoff: {initial: 10s, factor: 1, jitter: 0.5}", 0, 5, 20*time.Second, 40*time.Second)
	f(", backoff: {initial: 1s, factor: 1, jitter: 1}", 2*time.Second, 5, 8*time.Second, 8*time.Second)
	f(", backoff: {initial: 1s, max: 10s}", 11*time.Second, 1, 0, 0)
	f(", backoff: {initial: 0s}", 0, 5, 0, 0)
}

// TestRetryNoWait sends more often than a factor can be multiplied, without a wait.
func TestRetryNoWait(t *testing.T) {
	r := newRig(t, "- {kind: retry, name: n, threshold: 200, backoff: {initial: 0s, factor: 1000}, ports: {out: [{name: body}]}}\n- {kind: probe, name: body}")
	sent := 0
	r.probe = func(context.Context, value.Value) (value.Value, error) {
		sent++
		return value.Value{}, errors.New("busy")
	}
	if _, _, err := r.Run(t.Context(), "n", value.Int(1)); err == nil || sent != 201 || r.elapsed() != 0 {
		t.Errorf("got error %v after sending %d times in %v", err, sent, r.elapsed())
	}
}

// TestRetrySucceeds stops at the first answer.
func TestRetrySucceeds(t *testing.T) {
	r := newRig(t, "- {kind: retry, name: n, ports: {out: [{name: body}]}}\n- {kind: probe, name: body}")
	sent := int64(0)
	r.probe = func(context.Context, value.Value) (value.Value, error) {
		if sent++; sent < 3 {
			return value.Value{}, errors.New("not yet")
		}
		return value.Int(sent), nil
	}
	if got, _, err := r.Run(t.Context(), "n", value.Int(1)); err != nil || !got.Equal(value.Int(3)) {
		t.Errorf("got %v, error %v, want 3", got, err)
	}
}

// TestReduceLimits stops a list that takes too long, in one step or in many.
func TestReduceLimits(t *testing.T) {
	f := func(fields string, timeout time.Duration, want string) {
		t.Helper()
		e := engine(t, "- {kind: reduce, name: n, init: 0, "+fields+"}")
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, _, err := e.Run(ctx, "n", integers(1_000_000))
		if err == nil || !strings.Contains(node.Message(err), want) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want %s", fields, err, want)
		}
	}
	f("step: acc + item, timeout: 1ms", time.Hour, "timed out after 1ms")
	f("step: acc + item", 5*time.Millisecond, "evaluation stopped")
	f("step: '(() => { for (;;); })()', language: javascript, timeout: 5ms", time.Hour, "timed out after 5ms")
	deep := strings.Repeat("[", 300) + strings.Repeat("]", 300)
	if got := send(t, engine(t, "- {kind: reduce, name: n, step: '[acc]'}"), "["+strings.Repeat("1,", 20_000)+"1]"); !strings.Contains(got, "deep") {
		t.Errorf("got %.100s, want an error about depth", got)
	}
	if got := send(t, engine(t, "- {kind: reduce, name: n, step: item}"), "["+deep+"]"); got != deep {
		t.Errorf("got %.100s", got)
	}
}

// TestMergeTimeout drops a row that is late. Its error goes to the error port in a child
// process, or into the log, and what comes later counts for the next row.
func TestMergeTimeout(t *testing.T) {
	const flow = "- {kind: snippet, name: n, language: cel, code: self, ports: {out: [{name: m, port: 'in[0]'}, {name: slow}]}}\n" +
		"- {kind: sleep, name: slow, interval: 3s, ports: {out: [{name: m, port: 'in[1]'}, {name: m, port: 'in[0]'}]}}\n"
	var errs []string
	r := newRig(t, flow+"- {kind: merge, name: m, timeout: 2s, ports: {error: [{name: late}]}}\n- {kind: probe, name: late}")
	r.probe = func(_ context.Context, in value.Value) (value.Value, error) {
		errs = append(errs, fmt.Sprint(r.elapsed(), " ", node.Message(in.AsError())))
		return in, nil
	}
	if got := send(t, r.Engine, "7"); got != "[7,7]" {
		t.Errorf("got %s, want the second row", got)
	}
	r.stop(t)
	if want := "[2s the row had 1 of 2 packets after 2s: context deadline exceeded]"; fmt.Sprint(errs) != want {
		t.Errorf("got %v, want %s", errs, want)
	}

	r = newRig(t, flow+"- {kind: merge, name: m, timeout: 2s}")
	if got := send(t, r.Engine, "7"); got != "[7,7]" {
		t.Errorf("got %s, want the second row", got)
	}
	r.stop(t)
	if r.log.count("1 of 2 packets after 2s") != 1 {
		t.Errorf("got the log %s", r.log.mu.String())
	}
}

// TestMergeIncomplete drops what is left at the end of a process.
func TestMergeIncomplete(t *testing.T) {
	const flow = "- {kind: snippet, name: n, language: cel, code: self, ports: {out: [{name: m, port: 'in[0]'}]}}\n" +
		"- {kind: snippet, name: other, language: cel, code: self, ports: {out: [{name: m, port: 'in[1]'}]}}\n"
	r := newRig(t, flow+"- {kind: merge, name: m}")
	for range 3 {
		if got := send(t, r.Engine, "1"); got != "none" {
			t.Errorf("got %s, want none", got)
		}
	}
	if got := r.log.count("process ended with incomplete rows"); got != 3 {
		t.Errorf("got %d lines in the log, want 3", got)
	}
	var messages []string
	r = newRig(t, flow+"- {kind: merge, name: m, timeout: 1h, ports: {error: [{name: late}]}}\n- {kind: probe, name: late}")
	r.probe = func(_ context.Context, in value.Value) (value.Value, error) {
		messages = append(messages, node.Message(in.AsError()))
		return in, nil
	}
	if got := send(t, r.Engine, "1"); got != "none" {
		t.Errorf("got %s, want none", got)
	}
	r.stop(t)
	if want := "[the row had 1 of 2 packets when its process ended]"; fmt.Sprint(messages) != want || r.elapsed() != 0 {
		t.Errorf("got %v after %v, want %s immediately", messages, r.elapsed(), want)
	}
}

// TestMergeNoTimer leaves no timer of a row that became complete.
func TestMergeNoTimer(t *testing.T) {
	r := newRig(t, toMerge+"- {kind: merge, name: m, timeout: 1h}")
	for range 100 {
		if got := send(t, r.Engine, "1"); got != "[1,1]" {
			t.Fatalf("got %s", got)
		}
	}
	r.stop(t)
	if r.elapsed() != 0 || r.log.count("level=ERROR") > 0 {
		t.Errorf("%v have passed, log %s", r.elapsed(), r.log.mu.String())
	}
}

// TestMergeChild keeps the rows of a forked child apart from the rows of its parent.
func TestMergeChild(t *testing.T) {
	r := newRig(t, "- {kind: snippet, name: n, language: cel, code: self, ports: {out: [{name: m, port: 'in[0]'}, {name: f}]}}\n"+
		"- {kind: fork, name: f, ports: {out: [{name: m, port: 'in[1]'}]}}\n- {kind: merge, name: m, ports: {out: [{name: row}]}}\n- {kind: probe, name: row}")
	r.probe = func(_ context.Context, in value.Value) (value.Value, error) {
		t.Errorf("got the row %v of two processes", in)
		return in, nil
	}
	for range 50 {
		if got := send(t, r.Engine, "1"); got != "none" {
			t.Errorf("got %s, want none", got)
		}
	}
	r.stop(t)
	if got := r.log.count("process ended with incomplete rows"); got != 100 {
		t.Errorf("got %d lines in the log, want one for each process", got)
	}
}

// TestMergeBounds refuses more packets than rows may hold, and takes rows in any number.
func TestMergeBounds(t *testing.T) {
	e := engine(t, "- {kind: for, name: n, ports: {out: [{name: one}]}}\n- {kind: snippet, name: one, language: cel, code: self, ports: {out: [{name: m, port: 'in[0]'}]}}\n"+
		"- {kind: snippet, name: other, language: cel, code: self, ports: {out: [{name: m, port: 'in[1]'}]}}\n- {kind: merge, name: m}")
	_, _, err := e.Run(t.Context(), "n", integers(100_001))
	if err == nil || !strings.Contains(err.Error(), "more than 100000 packets") {
		t.Errorf("got %v", err)
	}
	e = engine(t, "- {kind: for, name: n, ports: {out: [{name: one}]}}\n- {kind: snippet, name: one, language: javascript, code: \"export default () => 'x'.repeat(9000000)\", ports: {out: [{name: m, port: 'in[0]'}]}}\n"+
		"- {kind: snippet, name: other, language: cel, code: self, ports: {out: [{name: m, port: 'in[1]'}]}}\n- {kind: merge, name: m}")
	if _, _, err := e.Run(t.Context(), "n", integers(10)); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("got %v", err)
	}
	e = engine(t, "- {kind: for, name: n, ports: {out: [{name: m, port: 'in[0]'}, {name: m, port: 'in[1]'}]}}\n- {kind: merge, name: m}")
	if got, _, err := e.Run(t.Context(), "n", integers(20_000)); err != nil || got.Len() != 20_000 {
		t.Errorf("got %d rows, error %v", got.Len(), err)
	}
}

// TestMergeTimeoutMany has more rows with a timeout than there may be forks: those that
// become complete, and those that are dropped together.
func TestMergeTimeoutMany(t *testing.T) {
	const n = 20_000
	const flow = "- {kind: snippet, name: n, language: cel, code: self, ports: {out: [{name: a}, %s]}}\n" +
		"- {kind: for, name: a, ports: {out: [{name: m, port: 'in[0]'}]}}\n- {kind: for, name: b, ports: {out: [{name: m, port: 'in[1]'}]}}\n" +
		"- {kind: sleep, name: slow, interval: 3s}\n- {kind: merge, name: m, timeout: 2s, ports: {error: [{name: late}]}}\n- {kind: probe, name: late}"
	var dropped atomic.Int64
	probe := func(context.Context, value.Value) (value.Value, error) {
		dropped.Add(1)
		return value.Null(), nil
	}
	r := newRig(t, fmt.Sprintf(flow, "{name: b}"))
	r.probe = probe
	got, _, err := r.Run(t.Context(), "n", integers(n))
	r.stop(t)
	if rows := max(got.At(0).Len(), got.At(1).Len()); err != nil || rows != n || dropped.Load() != 0 {
		t.Errorf("got %d rows, error %v, %d dropped", rows, err, dropped.Load())
	}
	r = newRig(t, fmt.Sprintf(flow, "{name: slow}"))
	r.probe = probe
	if _, _, err = r.Run(t.Context(), "n", integers(n)); err != nil {
		t.Error(err)
	}
	r.stop(t)
	if dropped.Load() != n || r.log.count("level=ERROR") > 0 {
		t.Errorf("got %d rows dropped, want %d; log %.500s", dropped.Load(), n, r.log.mu.String())
	}
}

// TestForkOutlives goes on after the client has left, until the grace of a shutdown is
// over.
func TestForkOutlives(t *testing.T) {
	r := newRig(t, "- {kind: fork, name: n, ports: {out: [{name: pause}]}}\n- {kind: sleep, name: pause, interval: 1h, ports: {out: [{name: seen}]}}\n- {kind: probe, name: seen}")
	var seen atomic.Bool
	r.probe = func(ctx context.Context, in value.Value) (value.Value, error) {
		seen.Store(ctx.Err() == nil)
		return in, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, ok, err := r.Run(ctx, "n", value.Int(1)); err != nil || ok {
		t.Errorf("got an answer, or error %v, want None", err)
	}
	cancel()
	r.stop(t)
	if !seen.Load() {
		t.Error("the child has not gone on")
	}

	e := engine(t, "- {kind: fork, name: n, ports: {out: [{name: pause}]}}\n- {kind: sleep, name: pause, interval: 1h}")
	if got := send(t, e, "1"); got != "none" {
		t.Errorf("got %s, want none", got)
	}
	over, end := context.WithCancel(context.Background())
	end()
	if err := e.Shutdown(over); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestForkError passes an error of the child to the error port, within the child.
func TestForkError(t *testing.T) {
	r := newRig(t, "- {kind: fork, name: n, ports: {out: [{name: no}], error: [{name: seen}]}}\n- {kind: throw, name: 'no'}\n- {kind: probe, name: seen}")
	got := make(chan string, 1)
	r.probe = func(_ context.Context, in value.Value) (value.Value, error) {
		got <- node.Message(in.AsError())
		return in, nil
	}
	if _, ok, err := r.Run(t.Context(), "n", value.String("boom")); ok || err != nil {
		t.Errorf("got an answer, or error %v, want None", err)
	}
	if message := <-got; message != "boom" {
		t.Errorf("got %s, want boom", message)
	}
}

// TestRecall is what a process needs to be resumed.
func TestRecall(t *testing.T) {
	f := func(kind string, config map[string]value.Value, want node.Recall) {
		t.Helper()
		for _, def := range core.Defs(core.Options{Languages: builtin.Languages(), Language: "cel"}) {
			if def.Kind != kind {
				continue
			}
			var fields []value.Field
			for name, v := range config {
				fields = append(fields, value.Field{Name: name, Value: v})
			}
			cfg, list := def.Config.Decode(schema.RawOf(value.Map(fields...)))
			if got := def.Recall(cfg); got != want || list.HasErrors() {
				t.Errorf("%s %v: got %s, findings %v, want %s", kind, config, got, list, want)
			}
		}
	}
	f("for", nil, node.Pure)
	for language, want := range map[string]node.Recall{"cel": node.Pure, "text": node.Pure, "javascript": node.Reads, "typescript": node.Reads} {
		f("snippet", map[string]value.Value{"language": value.String(language), "code": value.String("1")}, want)
	}
	f("merge", nil, node.Reruns)
	f("sleep", map[string]value.Value{"interval": value.String("999ms")}, node.Pure)
	f("sleep", map[string]value.Value{"interval": value.String("1s")}, node.Holds)
}
