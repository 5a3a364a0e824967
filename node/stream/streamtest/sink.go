package streamtest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
	"github.com/uniflow-labs/uniflow/value"
)

// payload returns what a sink gets of a body.
func payload(b body) value.Value {
	parsed, err := value.ParseJSON(encode(b))
	if err != nil {
		panic(err) // it was made by encode
	}
	return value.Map(
		value.Field{Name: "body", Value: parsed},
		value.Field{Name: "key", Value: value.String(b.Key)},
		value.Field{Name: "id", Value: value.String(fmt.Sprint("m", b.ID))},
	)
}

// send sends a payload to the sink, and returns its failure.
func (r *rig) send(engine *uniflow.Engine, v value.Value) error {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	_, _, err := engine.Run(ctx, "sink", v)
	return err
}

// arrived returns how often each message has come to the system.
func (r *rig) arrived() map[int]int {
	r.Helper()
	copies := make(map[int]int)
	for _, raw := range r.system.Consume(r) {
		var b body
		if err := json.Unmarshal(raw, &b); err != nil || b.ID == 0 {
			continue // of another row's sort
		}
		copies[b.ID]++
	}
	return copies
}

// A load sends messages until it ends.
type load struct {
	rig      *rig
	again    bool   // what has failed
	halt     func() // stops it, and waits
	confirms atomic.Int64
	mu       struct {
		sync.Mutex
		ids    map[int]bool
		failed []error
	}
}

// senders is how many messages a load has under way.
const senders = 8

func (r *rig) startLoad(again bool) *load {
	l := &load{rig: r, again: again}
	l.mu.ids = make(map[int]bool)
	stop := make(chan struct{})
	var work sync.WaitGroup
	for i := range senders {
		work.Go(func() { l.send(stop, r.engine, fmt.Sprint("k", i)) })
	}
	l.halt = sync.OnceFunc(func() {
		close(stop)
		if r.proxy != nil {
			r.proxy.Heal()
		}
		work.Wait()
	})
	r.Cleanup(l.halt) // if the row ends early
	return l
}

func (l *load) send(stop <-chan struct{}, engine *uniflow.Engine, key string) {
	every(2*time.Millisecond, stop, func() {
		b := l.rig.next(key, 100)
		err := l.rig.send(engine, payload(b))
		for err != nil && l.again && l.rig.Context().Err() == nil && !l.rig.Failed() {
			err = l.rig.send(engine, payload(b))
		}
		l.mu.Lock()
		if err != nil {
			l.mu.failed = append(l.mu.failed, err)
		} else {
			l.mu.ids[b.ID] = true
		}
		l.mu.Unlock()
		l.confirms.Add(1)
	})
}

// every calls f again and again, until stop is closed.
func every(d time.Duration, stop <-chan struct{}, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			f()
		}
	}
}

func (l *load) progress(what string, within time.Duration) {
	l.rig.Helper()
	before := l.confirms.Load()
	l.rig.until(what, within, func() bool { return l.confirms.Load() > before+senders })
}

// end stops the load and checks that what was confirmed has arrived.
func (l *load) end() (copies map[int]int) {
	l.rig.Helper()
	l.halt()
	for _, err := range l.mu.failed[:min(3, len(l.mu.failed))] {
		l.rig.Errorf("a message was not confirmed: %v", err)
	}
	return l.rig.holds(l.mu.ids)
}

// holds checks that messages have arrived.
func (r *rig) holds(ids map[int]bool) (copies map[int]int) {
	r.Helper()
	copies = r.arrived()
	lost := 0
	for id := range ids {
		if copies[id] == 0 {
			lost++
		}
	}
	if lost > 0 {
		r.Errorf("%d of %d messages were confirmed, and have not arrived", lost, len(ids))
	}
	return copies
}

// sinkConfirms: the answer comes when the system has confirmed, and not before.
func sinkConfirms(r *rig) {
	r.load(r.sink(nil))
	l := r.startLoad(false)
	l.progress("messages are confirmed", patience)
	if r.proxy != nil {
		hole(r)
		sent := make(chan error, 1)
		var work sync.WaitGroup
		defer work.Wait()
		v := payload(body{ID: 1 << 30, Key: "k", Seq: 1})
		work.Go(func() { sent <- r.send(r.engine, v) })
		r.never("a message was confirmed although nothing passes", func() bool { return len(sent) > 0 })
		r.proxy.Heal()
		r.until("the message is confirmed after that", resume(), func() bool { return len(sent) > 0 })
		if err := <-sent; err != nil {
			r.Errorf("after that, the answer is %v", err)
		}
		if r.arrived()[1<<30] == 0 {
			r.Errorf("the message was confirmed, and has not arrived")
		}
	}
	l.end()
}

func sinkResets(r *rig) {
	r.load(r.sink(nil))
	l := r.startLoad(true)
	var mu sync.Mutex // the plan is asked for by another goroutine
	for range scale(5, 50) {
		l.progress("messages are confirmed", patience)
		r.proxy.Set(func(n int) faultproxy.Plan {
			mu.Lock()
			defer mu.Unlock()
			leg := faultproxy.Leg{Do: faultproxy.Sever, After: r.rnd.Int64N(20_000) + 1}
			if n%2 == 0 {
				leg.After /= 10
				return faultproxy.Plan{Down: leg}
			}
			return faultproxy.Plan{Up: leg}
		})
		seen := r.proxy.Seen()
		r.proxy.Break()
		r.until("three connections were made and reset", patience, func() bool { return r.proxy.Seen() > seen+3 })
		r.proxy.Set(nil)
		l.progress("messages are confirmed after the resets", resume())
	}
	l.end()
}

func sinkTrouble(begin func(*rig)) func(*rig) {
	return func(r *rig) {
		r.load(r.sink(nil))
		l := r.startLoad(true)
		for range scale(2, 5) {
			l.progress("messages are confirmed", patience)
			begin(r)
			r.pause(last())
			r.proxy.Heal()
			l.progress("messages are confirmed after it has healed", resume())
		}
		l.end()
	}
}

func sinkRestarts(r *rig) {
	r.load(r.sink(nil))
	l := r.startLoad(true)
	for range scale(3, 20) {
		l.progress("messages are confirmed", patience)
		r.system.Restart(r)
		if r.proxy != nil {
			r.proxy.Retarget(r.system.Addr)
		}
		l.progress("messages are confirmed after the restart", resume())
	}
	l.end()
}

// sinkReloads: with equal settings, each message is written once, on the connections that
// there were, and no packet sees the reload.
func sinkReloads(r *rig) {
	doc := r.sink(nil)
	r.load(doc)
	l := r.startLoad(false)
	l.progress("messages are confirmed", patience)
	before := r.connections()
	for i := range scale(200, 1000) {
		r.load(doc)
		if i%10 == 0 {
			l.progress("messages are confirmed between reloads", patience)
		}
	}
	if after := r.connections(); after != before {
		r.Errorf("reloads with equal settings have made %d connections", after-before)
	}
	for id, n := range l.end() {
		if n > 1 {
			r.Errorf("message %d was written %d times", id, n)
			break
		}
	}
}

func sinkChanges(r *rig) {
	r.load(r.sink(nil))
	l := r.startLoad(false)
	for i := range scale(20, 200) {
		r.load(r.sink(fields{"max_in_flight": 64 + i%2}))
		l.progress("messages are confirmed after a reload", patience)
	}
	l.end()
}

// stall begins messages that are not confirmed, if there is a network, and returns when
// they are under way.
func (r *rig) stall(n int) (answers chan error, work *sync.WaitGroup) {
	r.Helper()
	if err := r.send(r.engine, payload(r.next("k", 10))); err != nil {
		r.Fatal(err)
	}
	if r.proxy != nil {
		hole(r)
	}
	answers, work = make(chan error, n), new(sync.WaitGroup)
	engine := r.engine
	for range n {
		v := payload(r.next("k", 10))
		work.Go(func() {
			_, _, err := engine.Run(r.Context(), "sink", v)
			answers <- err
		})
	}
	r.until("processes are under way", patience, func() bool { return engine.Status().InFlight+len(answers) >= n })
	return answers, work
}

// sinkDrain: a shutdown waits for what is under way.
func sinkDrain(r *rig) {
	const n = 50
	r.load(r.sink(nil))
	answers, work := r.stall(n)
	ended := make(chan struct{})
	work.Go(func() {
		defer close(ended)
		r.stop()
	})
	if r.proxy != nil {
		r.pause(calm)
		select {
		case <-ended:
			r.Errorf("the shutdown has not waited for what was not confirmed")
		default:
		}
		r.proxy.Heal()
	}
	work.Wait()
	for range n {
		if err := <-answers; err != nil {
			r.Errorf("a message was not confirmed: %v", err)
		}
	}
	if got := len(r.arrived()); got != r.made() {
		r.Errorf("%d messages have arrived, want %d", got, r.made())
	}
}

// sinkGrace: a shutdown whose grace is over ends, and what was not confirmed has failed.
func sinkGrace(r *rig) {
	const n = 50
	r.start(100 * time.Millisecond)
	r.load(r.sink(nil))
	answers, work := r.stall(n)
	begin := time.Now()
	r.stop()
	if took := time.Since(begin); took > graceful() {
		r.Errorf("with a grace of 100ms, the shutdown took %v", took)
	}
	work.Wait()
	for range n {
		if err := <-answers; err == nil && r.proxy != nil {
			r.Errorf("a message was confirmed although nothing passes")
			break
		}
	}
}

// sinkBodies: any payload has an answer, and does not hinder those that follow.
func sinkBodies(r *rig) {
	largest := r.subject.Largest
	if largest == 0 {
		largest = 8 << 20
	}
	deep := value.Null()
	for range 5000 {
		deep = value.List(deep)
	}
	r.load(r.sink(nil))
	for _, v := range []value.Value{
		value.Null(),
		value.String(""),
		value.Binary(nil),
		value.String(strings.Repeat("x", largest-1000)),
		value.String("\xff\xfe not UTF-8 \x80"),
		deep,
		value.Map(value.Field{Name: "body", Value: value.Null()}),
		value.Map(),
		value.List(),
		value.Int(1),
		value.Error(errOnPurpose),
	} {
		_ = r.send(r.engine, v) // payload or error: it has an answer in time, see below
	}
	if ctx := r.Context(); ctx.Err() != nil {
		r.Fatal(context.Cause(ctx))
	}
	l := r.startLoad(false)
	l.progress("messages are confirmed after that", resume())
	l.end()
}

// sinkParts: those that the system refuses fail, and others that are written with them do
// not.
func sinkParts(r *rig) {
	const n = 200
	r.load(r.sink(nil))
	type answer struct {
		id  int // 0 for one to refuse
		err error
	}
	answers := make(chan answer, n)
	var work sync.WaitGroup
	for i := range n {
		v, id := r.system.Reject(), 0
		if i%10 != 3 {
			b := r.next(fmt.Sprint("k", i%7), 10)
			v, id = payload(b), b.ID
		}
		work.Go(func() { answers <- answer{id, r.send(r.engine, v)} })
	}
	work.Wait()
	close(answers)
	confirmed := make(map[int]bool)
	for a := range answers {
		switch {
		case a.id == 0 && a.err == nil:
			r.Errorf("what the system refuses was answered well")
		case a.id != 0 && a.err != nil:
			r.Errorf("message %d failed with another: %v", a.id, a.err)
		case a.id != 0:
			confirmed[a.id] = true
		}
	}
	r.holds(confirmed)
}

func sinkPassword(r *rig) { r.refused("sink", r.sink(nil)) }
