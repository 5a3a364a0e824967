package durable_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// A lineNode is a queue of the tests.
type lineNode struct{ w *world }

func (n lineNode) Receive(node.Process, node.Packet) node.Result { return node.None() }

func (n lineNode) Serve(node.Starter) error { return nil }

func (n lineNode) Queue() node.QueueOptions {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.queue
}

// lineKinds returns the kind of the queues, with the options of the world.
func (w *world) lineKinds() []*node.Def {
	w.queue = node.QueueOptions{Level: node.LevelCheckpoint, Concurrency: 1, Attempts: 3, Backoff: func(int) time.Duration { return time.Millisecond }}
	return []*node.Def{{Kind: "line", Summary: "A queue.", Out: []node.Port{{Name: "out"}, {Name: "dead"}}, Recall: node.Always(node.Effects), New: func(init *node.Init) (node.Node, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queues = init.Queues
		return lineNode{w}, nil
	}}}
}

const line = `
- {kind: line, name: q, ports: {out: [{name: work}], dead: [{name: bury}]}}
- {kind: act, name: work}
- {kind: act, name: bury}
`

// put puts an item into the queue q.
func (w *world) put(it node.Item) *node.Receipt {
	w.t.Helper()
	it.Namespace, it.Queue = "default", "q"
	r, err := w.queues.Enqueue(w.t.Context(), it)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 2000 {
		if ok() {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatal("it does not happen that " + what)
}

func (w *world) runOf(id string) *journal.Run {
	w.t.Helper()
	r, err := w.store.Get(context.WithoutCancel(w.t.Context()), idOf(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// ends waits until a run is in a state.
func (w *world) ends(id string, want journal.State) *journal.Run {
	w.t.Helper()
	eventually(w.t, "the run "+id+" is "+want.String(), func() bool { return w.runOf(id).State == want })
	return w.runOf(id)
}

// A gauge is the work of the tests that counts what is under way, by key, and in what order it began.
type gauge struct {
	sync.Mutex
	open  map[string]int
	most  map[string]int // by key; "" is all
	order []string
	gate  chan struct{} // each ends one work; nil for none
}

func newGauge() *gauge { return &gauge{open: make(map[string]int), most: make(map[string]int)} }

func (g *gauge) work(_ string, in value.Value) node.Result {
	key, _, _ := strings.Cut(in.String(), "-")
	g.Lock()
	g.order = append(g.order, in.String())
	for _, k := range []string{key, ""} {
		g.open[k]++
		g.most[k] = max(g.most[k], g.open[k])
	}
	g.Unlock()
	if g.gate != nil {
		<-g.gate
	}
	g.Lock()
	defer g.Unlock()
	g.open[key]--
	g.open[""]--
	return node.Answer(in)
}

func (g *gauge) began() []string {
	g.Lock()
	defer g.Unlock()
	return slices.Clone(g.order)
}

func byPrefix(_ context.Context, v value.Value) (string, error) {
	key, _, _ := strings.Cut(v.String(), "-")
	return key, nil
}

// TestQueue puts items into a queue, whose limits hold.
func TestQueue(t *testing.T) {
	w := newWorld(t)
	kinds := w.lineKinds()
	w.more = kinds
	w.queue.Concurrency, w.queue.PerKey, w.queue.Key = 4, 2, byPrefix
	g := newGauge()
	w.effect = g.work
	w.start(line)
	var all []*node.Receipt
	for i := range 60 {
		all = append(all, w.put(node.Item{Payload: value.String(fmt.Sprintf("%c-%d", 'a'+i%3, i)), Wait: true}))
	}
	for i, r := range all {
		<-r.Done
		if got, want := show(r.Answer()), fmt.Sprintf("%c-%d", 'a'+i%3, i); got != want {
			t.Errorf("item %d answered %s, want %s", i, got, want)
		}
		r.Leave()
	}
	if len(g.order) != 60 || g.most[""] > 4 || g.most["a"] > 2 || g.most["b"] > 2 || g.most["c"] > 2 {
		t.Errorf("%d items began, at a time %v", len(g.order), g.most)
	}
	w.tidy()
}

// TestQueueTurns lets keys have their turns, and the items of a key go in their order.
func TestQueueTurns(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Key = byPrefix
	g := newGauge()
	g.gate = make(chan struct{})
	w.effect = g.work
	w.start(line)
	w.put(node.Item{Payload: value.String("x")})
	eventually(t, "the first begins", func() bool { return len(g.began()) == 1 })
	for _, item := range []string{"a-1", "a-2", "a-3", "b-1", "c-1", "b-2"} {
		w.put(node.Item{Payload: value.String(item)})
	}
	for range 7 {
		g.gate <- struct{}{}
	}
	eventually(t, "all begin", func() bool { return len(g.began()) == 7 })
	if got, want := strings.Join(g.began(), " "), "x a-1 b-1 c-1 a-2 b-2 a-3"; got != want {
		t.Errorf("got the order %s, want %s", got, want)
	}
}

// TestQueuePriority lets the greatest priority go first, and one that is due later not.
func TestQueuePriority(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Prioritized = true
	g := newGauge()
	g.gate = make(chan struct{})
	w.effect = g.work
	w.start(line)
	w.put(node.Item{Payload: value.String("x")})
	eventually(t, "the first begins", func() bool { return len(g.began()) == 1 })
	w.put(node.Item{Payload: value.String("later"), Priority: 100, At: time.Now().Add(time.Hour)})
	w.put(node.Item{Payload: value.String("low"), Priority: -1})
	w.put(node.Item{Payload: value.String("none")})
	w.put(node.Item{Payload: value.String("high"), Priority: 7})
	w.put(node.Item{Payload: value.String("none2")})
	for range 5 {
		g.gate <- struct{}{}
	}
	eventually(t, "all begin", func() bool { return len(g.began()) == 5 })
	if got, want := strings.Join(g.began(), " "), "x high none none2 low"; got != want {
		t.Errorf("got the order %s, want %s", got, want)
	}
	if f := w.queues.Queue("default", "q"); f.Depth != 1 {
		t.Errorf("the queue has %+v, want the item that is due later", f)
	}
}

// TestQueueRate lets so many items begin in a time, also after a crash.
func TestQueueRate(t *testing.T) {
	const per = 300 * time.Millisecond
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Concurrency, w.queue.Rate, w.queue.Per = 10, 2, per
	var mu sync.Mutex
	var times []time.Time
	w.effect = func(_ string, in value.Value) node.Result {
		mu.Lock()
		times = append(times, time.Now())
		mu.Unlock()
		return node.Answer(in)
	}
	w.start(line)
	for range 7 {
		w.put(node.Item{Payload: value.String("i")})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(times)
	}
	eventually(t, "four have begun", func() bool { return count() >= 4 })
	w.crash(func() {})
	w.start(line)
	eventually(t, "all have begun", func() bool { return count() >= 7 })
	begun, err := w.store.Begun(t.Context(), journal.QueueID{Namespace: "default", Name: "q"}, time.Time{}, 100)
	if err != nil || len(begun) != 7 {
		t.Fatalf("got %v, %v", begun, err)
	}
	for i := range begun[:5] { // the latest first
		if d := begun[i].Sub(begun[i+2]); d < per-time.Millisecond {
			t.Errorf("three items began within %v", d)
		}
	}
}

// TestQueueAttempts lets an item fail once, and another one until it is dead.
func TestQueueAttempts(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Dead = 1
	var mu sync.Mutex
	tries := make(map[string]int)
	var letters []value.Value
	w.effect = func(name string, in value.Value) node.Result {
		mu.Lock()
		defer mu.Unlock()
		if name == "bury" {
			letters = append(letters, in)
			return node.Answer(in)
		}
		item := in.String()
		tries[item]++
		switch {
		case item == "useless":
			return node.Fail(node.Unusable("bad", errors.New("never")))
		case item == "bad" || tries[item] == 1:
			return node.Fail(errors.New("no luck"))
		}
		return node.Answer(in)
	}
	w.start(line)
	good := w.put(node.Item{Payload: value.String("good"), Wait: true})
	bad := w.put(node.Item{Payload: value.String("bad"), Wait: true})
	useless := w.put(node.Item{Payload: value.String("useless")})
	<-good.Done
	if got := show(good.Answer()); got != "good" {
		t.Errorf("an item that has failed once answered %s", got)
	}
	if r := w.runOf(good.Run); r.State != journal.OK || r.Attempts != 1 || r.Error != "" {
		t.Errorf("got %s after %d failures, error %q", r.State, r.Attempts, r.Error)
	}
	<-bad.Done
	if resp := bad.Answer(); !resp.IsError() || !strings.Contains(resp.Payload.AsError().Error(), "no luck") {
		t.Errorf("an item that is dead answered %s", show(resp))
	}
	r := w.ends(bad.Run, journal.Dead)
	w.ends(useless.Run, journal.Dead)
	if tries["bad"] != 3 || r.Attempts != 3 || tries["useless"] != 1 {
		t.Errorf("got %v tries, and %d attempts", tries, r.Attempts)
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(letters)
	}
	eventually(t, "the port dead gets both", func() bool { return count() == 2 })
	run, _ := letters[1].Get("run") // the useless one was not tried again
	input, _ := letters[1].Get("input")
	why, _ := letters[1].Get("error")
	if run.String() != bad.Run || !strings.Contains(input.String(), "bad") || !strings.Contains(why.String(), "no luck") {
		t.Errorf("the port dead got %s", letters[1])
	}

	// A person puts it back.
	mu.Lock()
	tries["bad"] = -10
	mu.Unlock()
	id := idOf(bad.Run)
	if err := w.engine.RetryRun(t.Context(), id, false); err != nil {
		t.Fatal(err)
	}
	w.ends(bad.Run, journal.Dead)
	eventually(t, "the port dead gets it again", func() bool { return count() == 3 })
	if tries["bad"] != -7 {
		t.Errorf("it was tried %d times", tries["bad"]+10)
	}
}

// TestQueueCrash crashes while items are queued, have begun and wait: each ends once, within the limits.
func TestQueueCrash(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Concurrency, w.queue.PerKey, w.queue.Key = 3, 1, byPrefix
	g := newGauge()
	g.gate = make(chan struct{})
	w.effect = g.work
	w.start(line)
	var ids []string
	for i := range 12 {
		ids = append(ids, w.put(node.Item{Payload: value.String(fmt.Sprintf("%c-%d", 'a'+i%4, i))}).Run)
	}
	for range 3 {
		eventually(t, "three have begun", func() bool { return len(g.began()) >= 3 })
		old := g
		w.crash(func() { close(old.gate) })
		g = newGauge()
		g.gate = make(chan struct{})
		w.effect = g.work
		w.start(line)
	}
	close(g.gate)
	for _, id := range ids {
		w.ends(id, journal.OK)
	}
	if g.most[""] > 3 || g.most["a"] > 1 || g.most["b"] > 1 {
		t.Errorf("after the crash there were at a time %v", g.most)
	}
	w.stop()
}

// TestQueueDead crashes right after an item is dead: what the port dead leads to begins once.
func TestQueueDead(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Dead, w.queue.Attempts = 1, 1
	w.effect = func(name string, in value.Value) node.Result {
		if name == "work" {
			return node.Fail(errors.New("no luck"))
		}
		return node.Answer(in)
	}
	gate := make(chan struct{})
	w.pure = func(_ string, in value.Value) value.Value { <-gate; return in }
	document := strings.Replace(line, "dead: [{name: bury}]", "dead: [{name: stop}]", 1) + "- {kind: make, name: stop, ports: {out: [{name: bury}]}}\n"
	w.start(document)
	id := w.put(node.Item{Payload: value.String("i")}).Run
	w.ends(id, journal.Dead)
	w.crash(func() { close(gate) })
	w.start(document)
	eventually(t, "the letter is sent", func() bool {
		runs, err := w.store.List(t.Context(), journal.Filter{States: []journal.State{journal.OK}})
		return err == nil && len(runs) == 1
	})
	if runs, err := w.store.List(t.Context(), journal.Filter{}); err != nil || len(runs) != 2 {
		t.Errorf("got %d runs, %v, want the item and its letter", len(runs), err)
	}
}

// TestQueueIDs puts items with an id.
func TestQueueIDs(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	g := newGauge()
	g.gate = make(chan struct{})
	w.effect = g.work
	w.start(line)
	w.put(node.Item{Payload: value.String("x")})
	eventually(t, "the first begins", func() bool { return len(g.began()) == 1 })
	first := w.put(node.Item{Payload: value.String("first"), ID: "1"})
	second := w.put(node.Item{Payload: value.String("second"), ID: "1", Wait: true})
	if second.Run != first.Run || !second.Attached || first.Attached {
		t.Errorf("got %+v after %+v", second, first)
	}
	close(g.gate)
	<-second.Done
	if got := show(second.Answer()); got != "first" {
		t.Errorf("got the answer %s", got)
	}
	again := w.put(node.Item{Payload: value.String("third"), ID: "1", Wait: true})
	<-again.Done
	if got := show(again.Answer()); got != "first" || again.Run != first.Run {
		t.Errorf("after its end, got the answer %s", got)
	}
	if _, err := w.queues.Enqueue(t.Context(), node.Item{Namespace: "default", Queue: "p"}); err == nil || !strings.Contains(err.Error(), `there is no queue "p"`) {
		t.Errorf("got %v of a queue that is not there", err)
	}
}

// TestQueueDebounce replaces an item that waits, until it begins.
func TestQueueDebounce(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	g := newGauge()
	w.effect = g.work
	w.start(line)
	const debounce = 100 * time.Millisecond
	begun := time.Now()
	var first string
	n := 0
	for time.Since(begun) < 3*debounce {
		r := w.put(node.Item{Payload: value.String(fmt.Sprintf("change-%d", n)), ID: "1", Debounce: debounce})
		if n == 0 {
			first = r.Run
		}
		if r.Run != first {
			t.Fatal("it began between two changes") // they are within a fraction of the time
		}
		n++
		<-time.After(5 * time.Millisecond)
	}
	w.ends(first, journal.OK)
	if got := g.began(); len(got) != 1 || got[0] != fmt.Sprintf("change-%d", n-1) {
		t.Errorf("got %v after %d changes", got, n)
	}
	r := w.put(node.Item{Payload: value.String("another"), ID: "1", Debounce: debounce})
	if r.Run == first {
		t.Error("an item that has begun was changed")
	}
	w.ends(r.Run, journal.OK)
	begun = time.Now() // ten times as long at most
	item := w.put(node.Item{Payload: value.String("bound"), ID: "2", Debounce: 20 * time.Millisecond}).Run
	eventually(t, "it begins while changes come", func() bool {
		return w.put(node.Item{Payload: value.String("bound"), ID: "2", Debounce: 20 * time.Millisecond}).Run != item
	})
	if took := time.Since(begun); took < 20*time.Millisecond {
		t.Errorf("it began after %v", took)
	}
}

// TestQueueTTL lets an item wait for too long.
func TestQueueTTL(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.TTL, w.queue.Dead = 50*time.Millisecond, 1
	g := newGauge()
	g.gate = make(chan struct{})
	w.effect = g.work
	w.start(line)
	w.put(node.Item{Payload: value.String("x")})
	eventually(t, "the first begins", func() bool { return len(g.began()) == 1 })
	late := w.put(node.Item{Payload: value.String("late"), Wait: true})
	<-time.After(100 * time.Millisecond)
	close(g.gate)
	r := w.ends(late.Run, journal.Dead)
	<-late.Done
	if !strings.Contains(r.Error, "has waited in the queue for more than 50ms") || !late.Answer().IsError() {
		t.Errorf("got the error %q, and the answer %s", r.Error, show(late.Answer()))
	}
	eventually(t, "its letter is sent", func() bool { return len(g.began()) == 2 })
}

// TestQueuePause pauses a queue, which a restart does not change, and cancels an item meanwhile.
func TestQueuePause(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	g := newGauge()
	w.effect = g.work
	w.start(line)
	if err := w.engine.PauseQueue(t.Context(), "default", "q", true); err != nil {
		t.Fatal(err)
	}
	one := w.put(node.Item{Payload: value.String("one"), Wait: true})
	two := w.put(node.Item{Payload: value.String("two")})
	w.stop()
	<-one.Done
	if resp := one.Answer(); !errors.Is(resp.Payload.AsError(), node.ErrStopped) {
		t.Errorf("at the shutdown who waits gets %s", show(resp))
	}
	w.store = &crashStore{Store: w.store.Reopen()}
	w.start(line)
	if f := w.queues.Queue("default", "q"); f.Depth != 2 || f.Oldest.IsZero() {
		t.Errorf("after the restart the queue has %+v", f)
	}
	three := w.put(node.Item{Payload: value.String("three"), Wait: true})
	if err := w.engine.CancelRun(t.Context(), idOf(three.Run)); err != nil {
		t.Fatal(err)
	}
	<-three.Done
	if !three.Answer().IsError() {
		t.Errorf("an item that was cancelled answered %s", show(three.Answer()))
	}
	if n := len(g.began()); n > 0 {
		t.Errorf("%d items began in a queue that is paused", n)
	}
	if err := w.engine.PauseQueue(t.Context(), "default", "q", false); err != nil {
		t.Fatal(err)
	}
	w.ends(one.Run, journal.OK)
	w.ends(two.Run, journal.OK)
	w.ends(three.Run, journal.Cancelled)
	if f := w.queues.Queue("default", "q"); f.Depth != 0 {
		t.Errorf("in the end the queue has %+v", f)
	}
}

// TestQueueReload pins an item to the workflow in which it begins.
func TestQueueReload(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	g := newGauge()
	g.gate = make(chan struct{})
	w.effect = g.work
	w.start(line)
	first := w.put(node.Item{Payload: value.String("first"), Wait: true})
	second := w.put(node.Item{Payload: value.String("second"), Wait: true})
	eventually(t, "the first begins", func() bool { return len(g.began()) == 1 })
	w.pure = func(_ string, in value.Value) value.Value {
		return value.String("new " + in.String())
	}
	w.apply(strings.Replace(line, "out: [{name: work}]", "out: [{name: first}]", 1) + "- {kind: make, name: first, ports: {out: [{name: work}]}}\n")
	close(g.gate)
	<-first.Done
	<-second.Done
	if a, b := show(first.Answer()), show(second.Answer()); a != "first" || b != "new second" {
		t.Errorf("got the answers %s and %s", a, b)
	}
	// A queue that is gone keeps its items, and takes no more.
	if err := w.engine.PauseQueue(t.Context(), "default", "q", true); err != nil {
		t.Fatal(err)
	}
	third := w.put(node.Item{Payload: value.String("third"), Wait: true})
	w.apply("- {kind: act, name: work}\n")
	if err := w.engine.PauseQueue(t.Context(), "default", "q", false); err != nil {
		t.Fatal(err)
	}
	if _, err := w.queues.Enqueue(t.Context(), node.Item{Namespace: "default", Queue: "q"}); err == nil {
		t.Error("a queue that is gone takes an item")
	}
	w.apply(line)
	<-third.Done
	if got := show(third.Answer()); got != "third" {
		t.Errorf("got the answer %s", got)
	}
}

// tidy waits until nothing of the items is left in memory.
func (w *world) tidy() {
	w.t.Helper()
	k := w.queues.(*durable.Keeper)
	defer func() {
		if items, keys := k.QueueSizes(); items+keys > 0 {
			w.t.Errorf("%d items and %d keys are left", items, keys)
		}
	}()
	eventually(w.t, "the queue is empty", func() bool {
		items, keys := k.QueueSizes()
		return items == 0 && keys == 0
	})
}

// TestRestartItem puts another item with the input of one, or with another input, whose key is that of this.
func TestRestartItem(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Key = byPrefix
	w.start(line)
	first := w.put(node.Item{Payload: value.String("a-1")}).Run
	w.ends(first, journal.OK)
	same, err := w.engine.RestartRun(t.Context(), idOf(first), nil)
	if err != nil {
		t.Fatal(err)
	}
	input := value.String("b-2")
	other, err := w.engine.RestartRun(t.Context(), idOf(first), &input)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[journal.ID][2]string{same: {"a", "a-1"}, other: {"b", "b-2"}} {
		r := w.until(uuid.UUID(id).String(), journal.OK)
		if r.QueueKey != want[0] || !strings.Contains(string(r.Answer), want[1]) {
			t.Errorf("%s: key %q, answer %q", want[1], r.QueueKey, r.Answer)
		}
	}
	w.tidy()
}

// TestQueueHammer puts items, cancels, pauses and tries again, all at a time: each ends once, and nothing is left.
func TestQueueHammer(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	w.queue.Concurrency, w.queue.PerKey, w.queue.Key, w.queue.Attempts, w.queue.Dead = 5, 2, byPrefix, 2, 1
	g := newGauge()
	var mu sync.Mutex
	worked := make(map[string]int)
	w.effect = func(name string, in value.Value) node.Result {
		if name == "bury" {
			return node.Answer(in)
		}
		r := g.work(name, in)
		mu.Lock()
		defer mu.Unlock()
		item := in.String()
		worked[item]++
		if strings.HasSuffix(item, "7") || strings.HasSuffix(item, "3") && worked[item] == 1 {
			return node.Fail(errors.New("no luck"))
		}
		return r
	}
	w.start(line)
	const puts = 50
	var all sync.WaitGroup
	var ids sync.Map // of runs, to whether it was cancelled
	for p := range 4 {
		all.Go(func() {
			for i := range puts {
				it := node.Item{Namespace: "default", Queue: "q", Payload: value.String(fmt.Sprintf("%c-%d-%d", 'a'+i%9, p, i))}
				switch i % 5 {
				case 1:
					it.At = time.Now().Add(time.Duration(i) * time.Millisecond)
				case 2:
					it.ID, it.Debounce = "same", time.Millisecond
				}
				r, err := w.queues.Enqueue(t.Context(), it)
				if err != nil {
					t.Error(err)
					return
				}
				cancelled := false
				if i%5 == 1 {
					cancelled = w.engine.CancelRun(t.Context(), idOf(r.Run)) == nil
				}
				ids.Store(r.Run, cancelled)
			}
		})
	}
	all.Go(func() {
		for i := range 20 {
			if err := w.engine.PauseQueue(t.Context(), "default", "q", i%2 == 0); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	w.tidy()
	ids.Range(func(id, cancelled any) bool {
		state := w.runOf(id.(string)).State
		if !state.Ended() || cancelled.(bool) != (state == journal.Cancelled) {
			t.Errorf("an item is %s, cancelled: %v", state, cancelled)
		}
		return true
	})
	for item, n := range worked {
		want := 1
		if strings.HasSuffix(item, "7") || strings.HasSuffix(item, "3") {
			want = 2
		}
		if n != want {
			t.Errorf("%s was tried %d times, want %d", item, n, want)
		}
	}
	if g.most[""] > 5 || g.most["a"] > 2 || g.most["b"] > 2 {
		t.Errorf("at a time there were %v", g.most)
	}
}

// TestQueueFull puts items while the disk is full: none is lost, and none of those that were refused is there.
func TestQueueFull(t *testing.T) {
	w := newWorld(t)
	w.more = w.lineKinds()
	g := newGauge()
	w.effect = g.work
	w.start(line)
	w.store.Fill(true)
	var err error
	eventually(t, "the journal refuses an item", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err = w.queues.Enqueue(ctx, node.Item{Namespace: "default", Queue: "q", Payload: value.String("refused"), ID: "1"})
		return err != nil && !errors.Is(err, context.DeadlineExceeded)
	})
	var refused *node.Error
	if !errors.As(err, &refused) || refused.Status != 503 {
		t.Errorf("got %v, want the status 503", err)
	}
	w.store.Fill(false)
	var r *node.Receipt
	eventually(t, "the journal takes items again", func() bool {
		r, err = w.queues.Enqueue(t.Context(), node.Item{Namespace: "default", Queue: "q", Payload: value.String("taken"), ID: "2"})
		return err == nil
	})
	w.ends(r.Run, journal.OK)
	w.tidy()
}

// TestQueueAttemptKeeps does in another attempt only what has failed, also when the program crashes between the two.
func TestQueueAttemptKeeps(t *testing.T) {
	for _, crash := range []bool{false, true} {
		w := newWorld(t)
		w.more = w.lineKinds()
		w.queue.Attempts = 2
		document := strings.Replace(line, "name: work}\n", "name: work, ports: {out: [{name: b}]}}\n- {kind: act, name: b}\n", 1)
		var healthy atomic.Bool
		w.effect = func(name string, in value.Value) node.Result {
			if name == "b" && !healthy.Swap(true) {
				return node.Fail(errors.New("no luck"))
			}
			return node.Send(0, in)
		}
		if crash {
			w.queue.Backoff = func(int) time.Duration { return 100 * time.Millisecond }
		}
		w.start(document)
		it := w.put(node.Item{Payload: value.String("x")})
		if crash {
			eventually(t, "b has failed", healthy.Load)
			eventually(t, "it is put back", func() bool { return w.runOf(it.Run).Attempts == 1 })
			w.crash(func() {})
			w.start(document)
		}
		w.ends(it.Run, journal.OK)
		if got := w.called(); got != "work b b" {
			t.Errorf("called %s", got)
		}
	}
}
