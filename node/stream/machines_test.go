package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// TestRetrier lets a task run after its wait, or as soon as something resumes it; one whose
// messages are gone does not run.
func TestRetrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var due []*task
		r := retrier{waiting: make(map[*task]func() bool), env: retryEnv{
			lock: &mu, after: node.SystemClock{}.AfterFunc, due: func(t *task) { due = append(due, t) },
		}}
		first, second, gone := new(task), new(task), &task{messages: []*message{{state: stateGone}}}
		first.messages, second.messages = []*message{{stuck: true}}, []*message{{}}
		mu.Lock()
		for _, t := range []*task{first, second, gone} {
			r.wait(t, time.Second)
		}
		if got := r.abandoned(); len(got) != 1 || got[0] != gone {
			t.Errorf("got %v as abandoned", got)
		}
		r.resume(func(t *task) bool { return t.messages[0].stuck })
		if len(due) != 1 || due[0] != first {
			t.Errorf("got %v, want the task that was resumed", due)
		}
		mu.Unlock()
		<-time.After(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(due) != 2 || due[1] != second || len(r.waiting) != 0 {
			t.Errorf("got %v after the wait", due)
		}
	})
}

// TestBatcher makes a batch due when it is full, and otherwise after the first message has lingered.
func TestBatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		woken := 0
		b := batcher{batching: batching{count: 3, bytes: 100, linger: time.Second}, env: batchEnv{
			lock: &mu, after: node.SystemClock{}.AfterFunc, waits: func() bool { return true }, wake: func() { woken++ },
		}}
		mu.Lock()
		if b.due(2, 99) || !b.due(3, 0) || !b.due(1, 100) {
			t.Error("a batch is due before it is full, or not when it is")
		}
		b.arm()
		b.arm()
		mu.Unlock()
		<-time.After(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if !b.due(1, 1) || woken != 1 {
			t.Errorf("a message has lingered: due %t, woken %d times", b.due(1, 1), woken)
		}
	})
}

// TestQuarantine lets one suspect go on, then two, and one again after a failure.
func TestQuarantine(t *testing.T) {
	var running []*task
	q := quarantine{most: 1, release: func(t *task) { running = append(running, t) }}
	tasks := make([]task, 8)
	for i := range tasks {
		q.add(&tasks[i])
	}
	for i, want := range []struct {
		good bool
		n    int // that go on then
	}{{true, 2}, {true, 3}, {false, 0}, {true, 0}, {true, 2}} {
		if i == 0 && (len(running) != 1 || !running[0].outage.alone) {
			t.Fatalf("got %d suspects at first", len(running))
		}
		before := len(running)
		q.ended(running[i], want.good)
		if got := len(running) - before; got != want.n {
			t.Errorf("step %d: %d go on, want %d", i, got, want.n)
		}
	}
	alone, other := new(task), new(task)
	q.began(alone, true)
	if alone.accompanied.Load() {
		t.Error("a task that runs alone is accompanied")
	}
	q.began(other, false)
	if !alone.accompanied.Load() || !other.accompanied.Load() {
		t.Error("two tasks run, and are not accompanied")
	}
}

// TestOutages counts tasks that wait, and remembers the first failure after the last good message.
func TestOutages(t *testing.T) {
	logged := 0
	o := outages{log: func(string, ...any) { logged++ }}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	for i, f := range []struct{ now, want int64 }{{10, 10}, {12, 10}, {16, 10}, {30, 30}} {
		if got := o.failed(at(f.now), 5*time.Second); !got.Equal(at(f.want)) {
			t.Errorf("failure %d: away since %d, want %d", i, got.Unix(), f.want)
		}
	}
	held := &task{err: errors.New("away"), outage: outage{waits: 1}}
	o.hold(held, 1, at(100))
	held.outage.waits++
	o.hold(held, 1, at(101))
	if err := o.ready(); err == nil || !strings.Contains(err.Error(), "away") || logged != 1 {
		t.Errorf("got %v, logged %d times", err, logged)
	}
	held.verdict = verdictGood
	o.end(held)
	if err := o.ready(); err != nil || !o.since.IsZero() {
		t.Errorf("it is over: got %v, since %v", err, o.since)
	}
}

// TestDeadRun withholds positions during a run of dead letters, and ends the job after too many.
func TestDeadRun(t *testing.T) {
	var calls []string
	d := deadRun{max: 3, env: deadEnv{
		mark:  func() { calls = append(calls, "mark") },
		clear: func() { calls = append(calls, "clear") },
	}}
	d.env.abort = func(err error) {
		d.end()
		calls = append(calls, "abort "+strings.ReplaceAll(err.Error(), "\n", " "))
	}
	dead := func(err string) {
		d.before()
		d.dead(errors.New(err))
	}
	dead("a")
	if !d.withheld(false) || d.withheld(true) {
		t.Error("positions are withheld until the next good message, or the end")
	}
	d.good()
	for _, err := range []string{"b", "c", "d", "e"} {
		dead(err)
	}
	want := "[mark clear mark abort 3 messages in a row were dead letters, and none was good; the first failed with: b c d]"
	if got := fmt.Sprint(calls); got != want || !d.withheld(true) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestConnection waits longer after each failure, and begins again with short waits after a connection that was of use.
func TestConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Uint64
		var at []time.Duration
		began := time.Now()
		c := connection{made: &made, clock: node.SystemClock{}, log: discard, logTexts: connecting, connect: func(context.Context) error {
			at = append(at, time.Since(began))
			if len(at) < 5 {
				return errors.New("refused")
			}
			return nil
		}}
		if err := c.start(t.Context()); err != nil || c.ready(nil) == nil {
			t.Errorf("a first attempt that fails: got %v, ready %v", err, c.ready(nil))
		}
		uses := 0
		end := errors.New("the end")
		if err := c.keep(t.Context(), func() (bool, error) {
			if uses++; uses == 1 {
				return true, ErrLost
			}
			return true, end
		}); err != end {
			t.Errorf("got %v", err)
		}
		if made.Load() != 2 || len(at) != 6 || c.ready(nil) != nil {
			t.Fatalf("%d connections after %d attempts, ready %v", made.Load(), len(at), c.ready(nil))
		}
		if first, last, again := at[1]-at[0], at[4]-at[3], at[5]-at[4]; last < 2*first || again > 150*time.Millisecond {
			t.Errorf("attempts at %v", at)
		}
	})
}

// TestWorkers wakes a worker for a task that has ended, whether it waits or is about to.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		w := workers{n: 1, work: sync.Cond{L: &mu}}
		var got []*task
		var work sync.WaitGroup
		work.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for len(got) < 2 {
				if got = w.ended(got, mostTasks); len(got) < 2 {
					w.wait()
				}
			}
		})
		synctest.Wait()
		w.end(new(task))
		w.end(new(task))
		work.Wait()
		if w.idle.Load() != 0 {
			t.Errorf("%d workers are idle", w.idle.Load())
		}
	})
}

var discard = slog.New(slog.DiscardHandler)
