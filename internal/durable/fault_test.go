package durable_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// slow makes commits wait until release is called.
func (s *crashStore) slow(t *testing.T) (release func()) {
	gate := make(chan struct{})
	s.gate.Store(&gate)
	release = sync.OnceFunc(func() {
		s.gate.Store(nil)
		close(gate)
	})
	t.Cleanup(release)
	return release
}

// impatient is the context of a client that soon leaves.
func impatient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// left checks what an action returns whose client has left.
func left(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

// TestSignalForStuck sends signals for a run that waits and was put aside. They are kept, one for its token as well,
// and the run is not read again and again. It gets them when it is retried.
func TestSignalForStuck(t *testing.T) {
	w := newWorld(t)
	w.tokens = make(chan string, 4)
	w.start(waits)
	r := w.must(submission(wait("e", "k", 0), wait("e", "", 0)))
	<-w.tokens
	w.until(r.Run, journal.Waiting)
	w.stop()
	w.store = &crashStore{Store: w.store.Reopen()}
	w.start(one, "hold")
	w.signalled("e", "k", "1")
	w.until(r.Run, journal.Stuck)
	k := w.signals.(*durable.Keeper)
	eventually(t, "the signal is kept", func() bool {
		signals, runs := k.Sizes()
		return signals == 0 && runs == 0
	})
	gets := w.store.gets.Load()
	w.signalled("e", "k", "2")
	if got := w.store.gets.Load() - gets; got > 0 {
		t.Errorf("the run was read %d times", got)
	}
	if got := strings.Join(w.untaken(), " "); got != "1 2" {
		t.Errorf("kept are %s", got)
	}
	w.restart(waits)
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
		t.Fatal(err)
	}
	token := <-w.tokens
	w.until(r.Run, journal.Waiting)
	w.stop()
	w.store = &crashStore{Store: w.store.Reopen()}
	w.start(one, "hold")
	yes := node.Signal{Token: token, Payload: value.String("yes"), Keep: time.Hour}
	if err := w.send(yes); err != nil {
		t.Fatal(err)
	}
	w.until(r.Run, journal.Stuck)
	if err := w.send(yes); err != nil {
		t.Errorf("once more: %v", err)
	}
	w.restart(waits)
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
		t.Fatal(err)
	}
	resp, err := durable.Answer(w.until(r.Run, journal.OK).Answer)
	if got := show(resp); err != nil || got != `["1","yes"]` {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestTokenForStuck sends the token of a run that is put aside already.
func TestTokenForStuck(t *testing.T) {
	w := newWorld(t)
	w.tokens = make(chan string, 1)
	w.start(waits)
	r := w.must(submission(wait("e", "", 0)))
	token := <-w.tokens
	w.until(r.Run, journal.Waiting)
	aside := journal.End{Run: idOf(r.Run), State: journal.Stuck}
	if err := w.store.Commit(t.Context(), &journal.Batch{Ends: []journal.End{aside}}); err != nil {
		t.Fatal(err)
	}
	if err := w.send(node.Signal{Token: token, Payload: value.String("yes"), Keep: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
		t.Fatal(err)
	}
	if resp, err := durable.Answer(w.until(r.Run, journal.OK).Answer); err != nil || show(resp) != `["yes"]` {
		t.Errorf("got %s, %v", show(resp), err)
	}
	if err := w.send(node.Signal{Token: token}); statusOf(err) != 404 {
		t.Errorf("again: %v", err)
	}
}

// TestCancelLeavesNothing cancels runs that wait: nothing of them is left in memory.
func TestCancelLeavesNothing(t *testing.T) {
	durable.SetRestTime(t, time.Microsecond)
	w := newWorld(t)
	w.open(asks)
	for n := range int64(3) {
		if err := w.engine.CancelRun(t.Context(), idOf(w.waiting("", n+1).Run)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "nothing is left", func() bool {
		signals, runs := w.signals.(*durable.Keeper).Sizes()
		return signals == 0 && runs == 0
	})
}

// TestHopelessLetter has an item that crashes the program until it is dead: the port dead gets its payload.
func TestHopelessLetter(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Dead = 1
	for n := range 6 {
		s := w.blockAt("work")
		w.start(line)
		if n == 0 {
			w.put(node.Item{Payload: value.String("precious")})
		}
		<-s.entered
		w.crash(s.open)
	}
	letters := make(chan string, 1)
	w.effect = func(name string, in value.Value) node.Result {
		letters <- name + " " + in.String()
		return node.Answer(in)
	}
	w.start(line)
	if got := <-letters; !strings.Contains(got, "bury") || !strings.Contains(got, `"input":"precious"`) {
		t.Errorf("got %s", got)
	}
}

// TestRevisionOfRefused has a run refused, as the disk is full, which is the first of a workflow: the next has its
// revision, so it goes on when the workflow is another one.
func TestRevisionOfRefused(t *testing.T) {
	w := newWorld(t)
	w.start(one)
	w.store.Fill(true)
	w.must(node.Submission{Payload: value.Int(1)})
	w.apply(two)
	eventually(t, "the disk is full", func() bool {
		_, err := w.submit(node.Submission{Payload: value.Int(1)})
		return errors.Is(err, journal.ErrFull)
	})
	w.store.Fill(false)
	var r *node.Receipt
	eventually(t, "there is room", func() (ok bool) {
		var err error
		r, err = w.submit(node.Submission{Payload: value.Int(1)})
		return err == nil
	})
	<-r.Done
	if _, err := w.store.Revision(t.Context(), w.runOf(r.Run).Revision); err != nil {
		t.Error(err)
	}
}

// TestRetryItemLeft retries an item for a client that leaves before that is durable: it has its turn.
func TestRetryItemLeft(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Attempts = 1
	w.effect = func(string, value.Value) node.Result { return node.Fail(errors.New("no luck")) }
	w.start(line)
	id := w.put(node.Item{Payload: value.String("i")}).Run
	w.ends(id, journal.Dead)
	w.effect = nil
	release := w.store.slow(t)
	left(t, w.engine.RetryRun(impatient(t), idOf(id), false))
	release()
	w.ends(id, journal.OK)
	w.tidy()
}

// TestPauseLeft pauses a queue for a client that leaves before that is durable: what the journal has holds.
func TestPauseLeft(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.start(line)
	w.ends(w.put(node.Item{Payload: value.String("i")}).Run, journal.OK)
	release := w.store.slow(t)
	k := w.queues.(*durable.Keeper)
	left(t, k.PauseQueue(impatient(t), "default", "q", true))
	release()
	id := w.put(node.Item{Payload: value.String("held")}).Run
	w.stop()
	w.store = &crashStore{Store: w.store.Reopen()}
	if r := w.runOf(id); r.State != journal.Queued {
		t.Errorf("it is %s", r.State)
	}
}

// TestCancelItemLeft cancels an item for a client that leaves before that is durable, and the item is due meanwhile: it
// does not begin.
func TestCancelItemLeft(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.start(line)
	due := time.Now().Add(100 * time.Millisecond)
	first, second := w.put(node.Item{Payload: value.String("1"), At: due}).Run, w.put(node.Item{Payload: value.String("2")}).Run
	w.ends(second, journal.OK)
	w.called()
	release := w.store.slow(t)
	go w.engine.RestartRun(t.Context(), idOf(second), nil) // so the end is in another commit than the one under way
	left(t, w.engine.CancelRun(impatient(t), idOf(first)))
	select { // it may look for what is due
	case <-time.After(time.Until(due.Add(100 * time.Millisecond))):
	case <-t.Context().Done():
	}
	release()
	w.ends(first, journal.Cancelled)
	w.stop()
	w.store = &crashStore{Store: w.store.Reopen()}
	if r := w.runOf(first); r.State != journal.Cancelled || strings.Contains(w.called(), "work work") {
		t.Errorf("it is %s, and was done", r.State)
	}
}

// TestRetryRemoved retries a run that is removed at the same time, as it is not kept any more: nothing is done.
func TestRetryRemoved(t *testing.T) {
	w := newWorld(t)
	heal := w.failing()
	w.start(two)
	r := w.must(node.Submission{Payload: value.Int(1)})
	<-r.Done
	w.stored(r.Run, journal.Failed)
	heal()
	w.called()
	release := w.store.slow(t)
	left(t, w.engine.RetryRun(impatient(t), idOf(r.Run), false))
	if n, _, err := w.store.Trim(t.Context(), journal.Policy{Now: time.Now().Add(time.Hour), Most: 10}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	release()
	eventually(t, "it is not in memory", func() bool {
		_, runs := w.signals.(*durable.Keeper).Sizes()
		return runs == 0
	})
	w.stop()
	w.store = &crashStore{Store: w.store.Reopen()}
	if got := w.called(); got != "" {
		t.Errorf("called %s", got)
	}
	if _, err := w.store.Get(context.WithoutCancel(t.Context()), journal.ID(uuid.MustParse(r.Run))); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// A hostNode is a trigger that takes the answers of its runs.
type hostNode struct {
	starterNode
	answer func(resp node.Response) error
}

func (n hostNode) Visit(value.Value) *node.Visit {
	return &node.Visit{Answer: func(resp node.Response, done func(error)) { done(n.answer(resp)) }}
}

// TestAnswerNotTaken has a trigger refuse the answer of a run, as it is gone: the run is stuck, and gives its answer when
// it is retried. Its effects are not done again.
func TestAnswerNotTaken(t *testing.T) {
	w := newWorld(t)
	var gone atomic.Bool
	answers := make(chan string, 9)
	w.more = []*node.Def{{Kind: "host", Summary: "Takes answers.", Out: []node.Port{{Name: "out"}}, Recall: node.Always(node.Effects), New: func(init *node.Init) (node.Node, error) {
		return hostNode{starterNode{w, init.Node.Name}, func(resp node.Response) error {
			if gone.Load() {
				return node.ErrStopped
			}
			answers <- show(resp)
			return nil
		}}, nil
	}}}
	w.start("- {kind: host, name: t, ports: {out: [{name: a}]}}\n- {kind: act, name: a}\n")
	gone.Store(true)
	r := w.must(node.Submission{Payload: value.Int(7), Key: []byte("k")})
	w.until(r.Run, journal.Stuck)
	gone.Store(false)
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
		t.Fatal(err)
	}
	w.until(r.Run, journal.OK)
	if got := <-answers; got != "7" || len(answers) > 0 || w.called() != "a" {
		t.Errorf("the answer is %s, %d more, called %s", got, len(answers), w.called())
	}
}

// A slowLine is a queue whose processes take a while to leave memory.
type slowLine struct {
	lineNode
	end func()
}

func (n slowLine) Visit(value.Value) *node.Visit { return &node.Visit{End: n.end} }

// TestAttemptBeforeLeft has an item that is due again before its attempt has left memory: it does not begin before.
func TestAttemptBeforeLeft(t *testing.T) {
	w := newWorld(t)
	kind := w.lineKinds()[0]
	w.queue.Backoff = func(int) time.Duration { return 0 }
	w.queue.Concurrency = 3
	leaves, leave := make(chan struct{}, 9), make(chan struct{})
	kind.New = func(init *node.Init) (node.Node, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queues = init.Queues
		return slowLine{lineNode{w}, func() {
			leaves <- struct{}{}
			<-leave
		}}, nil
	}
	w.more = []*node.Def{kind}
	var failed atomic.Bool
	w.effect = func(_ string, in value.Value) node.Result {
		if !failed.Swap(true) {
			return node.Fail(errors.New("no luck"))
		}
		return node.Answer(in)
	}
	w.start(line)
	r := w.put(node.Item{Payload: value.String("1"), Wait: true})
	<-leaves
	w.ends(r.Run, journal.Queued)
	other := w.put(node.Item{Payload: value.String("2")}) // so the queue looks
	w.ends(other.Run, journal.OK)
	if got := w.called(); got != "work work" {
		t.Errorf("called %s", got)
	}
	close(leave)
	if got := answer(r); got != "1" {
		t.Errorf("got %s", got)
	}
	w.tidy()
}

// TestSignalForQueued sends a signal for an item that waited, was put aside and is queued again: who waits for its answer
// goes on to do so, and it gets the signal.
func TestSignalForQueued(t *testing.T) {
	durable.SetRestTime(t, time.Microsecond)
	w := newWorld(t)
	w.more = w.lineKinds()
	document := strings.Replace(line, "kind: act, name: work", "kind: hold, name: work", 1)
	w.start(document)
	it := node.Item{Payload: value.List(wait("e", "k", 0)), ID: "1"}
	r := w.put(it)
	w.until(r.Run, journal.Waiting)
	aside := journal.End{Run: idOf(r.Run), State: journal.Stuck}
	if err := w.store.Commit(t.Context(), &journal.Batch{Ends: []journal.End{aside}}); err != nil {
		t.Fatal(err)
	}
	w.restart(document)
	k := w.queues.(*durable.Keeper)
	if err := k.PauseQueue(t.Context(), "default", "q", true); err != nil {
		t.Fatal(err)
	}
	if err := w.engine.RetryRun(t.Context(), idOf(r.Run), false); err != nil {
		t.Fatal(err)
	}
	it.Wait = true
	again := w.put(it)
	gets := w.store.gets.Load()
	if err := w.engine.Signal(t.Context(), node.Signal{Event: "e", Key: "k", Payload: value.String("came")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the run is looked at", func() bool { return w.store.gets.Load() > gets })
	if err := k.PauseQueue(t.Context(), "default", "q", false); err != nil {
		t.Fatal(err)
	}
	if got := answer(again); got != `["came"]` {
		t.Errorf("got %s", got)
	}
}

// TestRateClockBack starts with items that have begun in the future, as the clock was set back: the next begins when the
// time of the rate is over.
func TestRateClockBack(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Rate, w.queue.Per = 1, 50*time.Millisecond
	w.start(line)
	first := w.put(node.Item{Payload: value.String("1")}).Run
	w.ends(first, journal.OK)
	w.stop()
	w.store = &crashStore{Store: w.store.Reopen()}
	future := journal.Batch{Requeues: []journal.Requeue{{Run: idOf(first)}}}
	if err := w.store.Commit(t.Context(), &future); err != nil {
		t.Fatal(err)
	}
	future = journal.Batch{Claims: []journal.Claim{{Run: idOf(first), At: time.Now().Add(time.Hour)}}, Ends: []journal.End{{Run: idOf(first), State: journal.OK}}}
	if err := w.store.Commit(t.Context(), &future); err != nil {
		t.Fatal(err)
	}
	w.start(line)
	w.ends(w.put(node.Item{Payload: value.String("2")}).Run, journal.OK)
}

// TestHaltWhileSlow ends the program while what was decided about a queue is not durable, and its client has left.
func TestHaltWhileSlow(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.start(line)
	w.ends(w.put(node.Item{Payload: value.String("i")}).Run, journal.OK)
	release := w.store.slow(t)
	k := w.queues.(*durable.Keeper)
	left(t, k.PauseQueue(impatient(t), "default", "q", true))
	left(t, k.PauseQueue(impatient(t), "default", "q", false)) // it waits for the first
	k.Halt()
	release()
	w.stop()
}

// TestActionsHammer retries runs that wait, twice at a time and in the workflow of today, cancels some, and sends what they
// wait for: each ends once, what it has done before is not done again, and nothing is left in memory.
func TestActionsHammer(t *testing.T) {
	durable.SetRestTime(t, 100*time.Microsecond)
	w := newWorld(t)
	w.open(asks)
	var runs []*node.Receipt
	for i := range int64(30) {
		runs = append(runs, w.waiting(fmt.Sprint("key ", i), 100+i))
	}
	var all sync.WaitGroup
	for i, r := range runs {
		for range 2 {
			all.Go(func() {
				for range 5 {
					if err := w.engine.RetryRun(t.Context(), idOf(r.Run), true); err != nil && statusOf(err) != 409 {
						t.Error(err)
					}
				}
			})
		}
		all.Go(func() {
			if err := w.engine.Signal(t.Context(), node.Signal{Event: "go", Key: fmt.Sprint(100 + i), Payload: value.String("came")}); err != nil {
				t.Error(err)
			}
		})
		if i%3 == 0 {
			all.Go(func() {
				if err := w.engine.CancelRun(t.Context(), idOf(r.Run)); err != nil && statusOf(err) != 409 {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	for i, r := range runs {
		state := journal.OK
		switch got := answer(r); got {
		case "came":
		case "error 503 the run was cancelled":
			state = journal.Cancelled
			if next := w.must(node.Submission{Payload: value.Int(int64(100 + i))}); answer(next) != "came" {
				t.Errorf("the next got %s", answer(next))
			}
			w.mu.Lock()
			w.calls = w.calls[:len(w.calls)-1]
			w.mu.Unlock()
		default:
			t.Errorf("got %s", got)
		}
		if run := w.runOf(r.Run); run.State != state {
			t.Errorf("the answer is of %s, and it is %s", state, run.State)
		}
	}
	if got := len(strings.Fields(w.called())); got != len(runs) {
		t.Errorf("a was called %d times by %d runs", got, len(runs))
	}
	eventually(t, "nothing is left", func() bool {
		signals, runs := w.signals.(*durable.Keeper).Sizes()
		return signals == 0 && runs == 0
	})
}

// TestImpatientHammer has clients that leave at any time while commits are slow: what is in memory is what the journal has.
func TestImpatientHammer(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Concurrency, w.queue.PerKey, w.queue.Key, w.queue.Attempts, w.queue.Dead = 4, 2, byPrefix, 2, 1
	g := newGauge()
	var mu sync.Mutex
	tries := make(map[string]int)
	w.effect = func(name string, in value.Value) node.Result {
		if name == "bury" {
			return node.Answer(in)
		}
		g.work(name, in)
		mu.Lock()
		defer mu.Unlock()
		tries[in.String()]++
		if tries[in.String()] <= 2 && strings.HasSuffix(in.String(), "3") {
			return node.Fail(errors.New("no luck"))
		}
		return node.Answer(in)
	}
	w.start(line)
	w.store.lag.Store(int64(2 * time.Millisecond))
	k := w.queues.(*durable.Keeper)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for i := range 60 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(12000))*time.Microsecond)
				switch r.IntN(6) { // what fails, as its client has left, is of no interest
				case 0, 1:
					_, _ = k.Enqueue(ctx, node.Item{Namespace: "default", Queue: "q", Payload: value.String(fmt.Sprintf("%c-%d-%d", 'a'+n%3, n, i)), Wait: r.IntN(4) == 0})
				case 2:
					_, _ = k.Enqueue(ctx, node.Item{Namespace: "default", Queue: "q", Payload: value.String(fmt.Sprintf("d-%d-%d", n, i)), ID: fmt.Sprint("d", r.IntN(3)), Debounce: time.Duration(r.IntN(8000)) * time.Microsecond})
				case 3:
					runs, err := w.store.List(t.Context(), journal.Filter{States: []journal.State{journal.Queued}, Limit: 5})
					if err == nil && len(runs) > 0 {
						_ = k.Cancel(ctx, runs[r.IntN(len(runs))].ID)
					}
				case 4:
					runs, err := w.store.List(t.Context(), journal.Filter{States: []journal.State{journal.Dead}, Limit: 5})
					if err == nil && len(runs) > 0 {
						_ = k.Retry(ctx, runs[r.IntN(len(runs))].ID, r.IntN(2) == 0)
					}
				case 5:
					_ = k.PauseQueue(ctx, "default", "q", r.IntN(3) == 0)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if err := k.PauseQueue(t.Context(), "default", "q", false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all have ended", func() bool {
		runs, err := w.store.List(t.Context(), journal.Filter{States: []journal.State{journal.Queued, journal.Running, journal.Waiting}})
		return err == nil && len(runs) == 0
	})
	w.tidy()
	eventually(t, "nothing is left", func() bool {
		signals, runs := k.Sizes()
		return signals == 0 && runs == 0
	})
	runs, err := w.store.List(t.Context(), journal.Filter{States: []journal.State{journal.Cancelled}, Limit: 10000})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		in, err := durable.Input(w.runOf(uuid.UUID(r.ID).String()).Input)
		if item := in.String(); err != nil || tries[item] > 0 && !strings.HasSuffix(item, "3") {
			t.Errorf("%s was cancelled, and done, %v", item, err)
		}
	}
	for item, n := range tries {
		if n > 1 && !strings.HasSuffix(item, "3") {
			t.Errorf("%s was done %d times", item, n)
		}
	}
}
