package streamtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

var errOnPurpose = errors.New("streamtest: fails on purpose")

// sourceAcknowledges: while a process has not answered, its message is not settled; once
// it has, it is. What was not answered comes again.
func sourceAcknowledges(r *rig) {
	const n = 100
	var gates [2]chan struct{}
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	r.ledger.decide = func(run []took) verdict { return verdict{until: gates[run[0].id%2]} }
	r.produce(n, n, 10)
	r.start(50 * time.Millisecond)
	r.load(r.source(fields{"order": "none", "max_in_flight": n}))
	r.until("all processes wait", patience, func() bool { return r.ledger.tally().inFlight == n })
	unsettled := func(least int) func() bool {
		return func() bool { return r.system.Unsettled != nil && r.system.Unsettled(r) < least }
	}
	r.never("messages were acknowledged although no process has answered", unsettled(n))
	close(gates[0])
	r.until("half of the processes have answered", patience, func() bool { return r.ledger.tally().done == n/2 })
	r.never("messages were acknowledged although their processes have not answered", unsettled(n/2))

	// Those that wait are cancelled, and come again.
	r.stop()
	close(gates[1])
	r.load(r.source(fields{"order": "none"}))
	r.allDone()
	for id := 1; id <= n; id++ {
		if f := r.ledger.fate(id); id%2 == 1 && f.begun < 2 {
			r.Errorf("message %d was not answered, and came %d times, want one more", id, f.begun)
		}
	}
}

// chance returns a number from 0 to 1 that depends on its arguments alone.
func chance(seed uint64, id, attempt int) float64 {
	return rand.New(rand.NewPCG(seed, uint64(id)<<32|uint64(attempt))).Float64()
}

// sourceErrors: processes fail with some probability, in several ways. Each message is
// answered well, or its attempts are used up and it is at the port error, once.
func sourceErrors(r *rig) {
	const more = 3 // attempts after the first
	seed := r.rnd.Uint64()
	share := make(map[int]float64)
	fails := func(id, attempt int) bool { return chance(seed, id, attempt) < share[id] }
	r.ledger.decide = func(run []took) verdict {
		id := run[0].id
		if !fails(id, r.ledger.fate(id).begun-1) {
			return verdict{}
		}
		switch how := chance(seed+1, id, r.ledger.fate(id).begun); {
		case how < 0.4:
			return verdict{err: errOnPurpose}
		case how < 0.7:
			return verdict{panics: true}
		default:
			return verdict{err: context.DeadlineExceeded, after: time.Millisecond}
		}
	}
	r.ledger.bury = func(m took, before int) error {
		if before < 2 {
			return errOnPurpose // a dead letter that fails is tried again, without limit
		}
		return nil
	}
	var messages []Message
	for _, p := range []float64{0.1, 0.5, 1} {
		for i := range scale(100, 3000) {
			b := r.next(fmt.Sprint("k", i), 10)
			share[b.ID] = p
			messages = append(messages, Message{Key: b.Key, Body: encode(b)})
		}
	}
	r.system.Produce(r, messages)
	r.load(r.source(fields{"order": "none", "retry": fields{"threshold": more, "backoff": fields{"initial": "1ms", "max": "5ms"}}}))
	r.until("each message is answered or dead", patience*time.Duration(scale(1, 4)), func() bool {
		t := r.ledger.tally()
		return t.done+t.dead == r.made()
	})
	r.settled()
	for id := 1; id <= r.made(); id++ {
		want := 0 // the attempt that ends it
		for want < more && fails(id, want) {
			want++
		}
		dead := fails(id, want)
		f := r.ledger.fate(id)
		var attempts []int
		for i := range want + 1 {
			attempts = append(attempts, i)
		}
		switch {
		case f.dead > 1 || f.dead == 1 != dead:
			r.Errorf("message %d: %d times a dead letter, want it %t: %+v", id, f.dead, dead, f)
		case f.done > 1 || f.done == 1 == dead:
			r.Errorf("message %d: %d times answered well, want it %t: %+v", id, f.done, !dead, f)
		case !slices.Equal(f.attempts, attempts):
			r.Errorf("message %d: its attempts were %v, want %v", id, f.attempts, attempts)
		default:
			continue
		}
		break // one is enough
	}
}

// sourceOrder: of each key one message at a time, in order, while processes fail and the
// workflow is loaded again.
func sourceOrder(r *rig) {
	seed := r.rnd.Uint64()
	r.ledger.decide = func(run []took) verdict {
		id := run[0].id
		switch x := chance(seed, id, r.ledger.fate(id).begun); {
		case x < 0.1:
			return verdict{err: errOnPurpose}
		case x < 0.2:
			return verdict{err: errOnPurpose, after: time.Millisecond}
		case x < 0.3:
			return verdict{after: time.Millisecond}
		}
		return verdict{}
	}
	r.ordered(nil)
}

// sourceOrderOfBatches: the same with batches that are tried again, and halved.
func sourceOrderOfBatches(r *rig) {
	seed := r.rnd.Uint64()
	r.ledger.decide = func(run []took) verdict {
		v := verdict{}
		for _, m := range run {
			if x := chance(seed, m.id, r.ledger.fate(m.id).begun); x < 0.02 || m.id%100 == 7 {
				v.err = errOnPurpose
			} else if x < 0.04 {
				v.after = time.Millisecond
			}
		}
		return v
	}
	r.ordered(fields{
		"batch": fields{"count": 20, "linger": "1ms"},
		"retry": fields{"threshold": 1, "backoff": fields{"initial": "1ms", "max": "5ms"}},
	})
}

// ordered loads a workflow with order by key again and again, while messages come.
func (r *rig) ordered(common fields) {
	r.Helper()
	const keys = 64
	key := r.subject.Key
	if key == "" {
		key = "self.body.key"
	}
	all := fields{"order": "key", "key": key, "max_in_flight": 200}
	maps.Copy(all, common)
	doc := r.source(all)
	r.ledger.ordered = true
	r.load(doc)
	for range scale(30, 100) {
		r.produce(scale(3, 10)*keys, keys, 10)
		r.load(doc)
	}
	r.until("each message is answered or dead", 2*patience, func() bool {
		t := r.ledger.tally()
		return t.done+t.dead == r.made()
	})
	r.settled()
	r.once()
	if t := r.ledger.tally(); t.dead > r.made()/20 {
		r.Errorf("got %d dead letters, want about one in 100; %s", t.dead, r.state())
	}
}

// sourceBacklog: with a backlog, and processes that do not answer, the source stops
// reading: by messages, and by bytes.
func sourceBacklog(r *rig) {
	const size = 64 << 10
	gate := make(chan struct{})
	r.ledger.decide = func([]took) verdict { return verdict{until: gate} }
	for range scale(16, 256) {
		r.produce(64, 64, size)
	}
	for _, c := range []struct {
		name            string
		messages, bytes int
	}{{"messages", 50, 64 << 20}, {"bytes", 1000, 2 << 20}} {
		before := heap()
		r.start(50 * time.Millisecond) // processes that wait are cancelled
		r.load(r.source(fields{"order": "none", "max_in_flight": c.messages, "bytes": c.bytes, "decode": "json"}))
		most := min(c.messages, c.bytes/size)
		r.until(fmt.Sprintf("%d processes wait", most-1), patience, func() bool { return r.ledger.tally().inFlight >= most-1 })
		r.never("more are in flight than there may be", func() bool {
			return r.ledger.tally().inFlight > most+1 || r.figure("source_in_flight") > float64(c.messages) ||
				r.system.Ahead != nil && r.system.Ahead(r) > 2*c.messages
		})
		if grown, most := heap()-before, int64(8*most*size+(48<<20)); grown > most {
			r.Errorf("bounded by %s, memory has grown by %d MiB, want at most %d", c.name, grown>>20, most>>20)
		}
		r.stop()
		r.until("nothing is in flight", patience, func() bool { return r.ledger.tally().inFlight == 0 })
	}
	close(gate)
	r.load(r.source(fields{"order": "none"}))
	r.allDone()
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// figure returns a metric of the nodes, summed up.
func (r *rig) figure(name string) float64 {
	sum := 0.0
	for _, f := range r.engine.Metrics().Figures {
		if f.Metric.Name == name {
			sum += f.Metric.Value
		}
	}
	return sum
}

// sourceReloads: with equal settings a reload costs nothing: each message comes once, on
// the connections that there were.
func sourceReloads(r *rig) {
	r.ledger.decide = func([]took) verdict { return verdict{after: time.Millisecond} }
	doc := r.source(fields{"order": "none"})
	r.produce(50, 50, 10)
	r.load(doc)
	r.allDone()
	before := r.connections()
	r.reload(scale(100, 1000), func(int) string { return doc })
	r.once()
	if after := r.connections(); after != before {
		r.Errorf("reloads with equal settings have made %d connections", after-before)
	}
}

func (r *rig) connections() int {
	if r.proxy == nil {
		return 0
	}
	return r.proxy.Seen()
}

// reload loads documents, while messages come, until all are done.
func (r *rig) reload(times int, doc func(i int) string) {
	r.Helper()
	for i := range times {
		r.produce(20, 20, 10)
		r.load(doc(i))
	}
	r.allDone()
}

// sourceChanges: with other settings a reload loses nothing, also while processes fail and
// connections break.
func sourceChanges(r *rig) {
	seed := r.rnd.Uint64()
	r.ledger.decide = func(run []took) verdict {
		v := verdict{after: time.Millisecond}
		if chance(seed, run[0].id, r.ledger.fate(run[0].id).begun) < 0.1 {
			v.err = errOnPurpose
		}
		return v
	}
	r.load(r.source(nil))
	r.reload(scale(20, 200), func(i int) string {
		if i%3 == 1 && r.proxy != nil {
			r.proxy.Break()
		}
		return r.source(fields{"max_in_flight": 64 + i%2})
	})
}

// sourceDrain: a shutdown waits for what has begun; what has not is given back.
func sourceDrain(r *rig) {
	const n = 200
	gate := make(chan struct{})
	r.ledger.decide = func([]took) verdict { return verdict{until: gate} }
	r.produce(n, n, 10)
	r.load(r.source(fields{"order": "none", "max_in_flight": n / 2}))
	r.until("processes wait", patience, func() bool { return r.ledger.tally().inFlight == n/2 })
	var down sync.WaitGroup
	ended := make(chan struct{})
	down.Go(func() {
		defer close(ended)
		r.stop()
	})
	hold := time.NewTimer(time.Duration(scale(300, 10_000)) * time.Millisecond)
	defer hold.Stop()
	select {
	case <-ended:
		r.Errorf("the shutdown has not waited; %s", r.state())
	case <-hold.C:
	}
	close(gate)
	r.until("the shutdown has ended", patience, func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
	down.Wait()
	if t := r.ledger.tally(); t.done != n/2 {
		r.Errorf("%d have ended well, want the %d that had begun; %s", t.done, n/2, r.state())
	}
	r.load(r.source(fields{"order": "none"}))
	r.allDone()
	r.once()
}

// sourceGrace: a shutdown whose grace is over ends, and what has not ended is given back.
func sourceGrace(r *rig) {
	const n = 100
	never := make(chan struct{})
	r.ledger.decide = func([]took) verdict { return verdict{until: never} }
	r.produce(2*n, 2*n, 10)
	r.start(100 * time.Millisecond)
	r.load(r.source(fields{"order": "none", "max_in_flight": n}))
	r.until("processes wait", patience, func() bool { return r.ledger.tally().inFlight == n })
	begin := time.Now()
	r.stop()
	if took := time.Since(begin); took > graceful() {
		r.Errorf("with a grace of 100ms, the shutdown took %v", took)
	}
	r.ledger.decide = nil
	r.load(r.source(fields{"order": "none"}))
	r.allDone()
	r.once()
}

// sourcePoison: of a batch of 1,000 messages with one that always fails, 999 come
// through, and only that one is a dead letter.
func sourcePoison(r *rig) {
	const n, poison = 1000, 617
	r.ledger.decide = func(run []took) verdict {
		if slices.ContainsFunc(run, func(m took) bool { return m.id == poison }) {
			return verdict{err: errOnPurpose}
		}
		return verdict{}
	}
	r.produce(n, 1, 10)
	r.load(r.source(fields{
		"order": "total", "max_in_flight": 2 * n, "batch": fields{"count": n, "bytes": 16 << 20, "linger": "1s"},
		"retry": fields{"threshold": 1, "backoff": fields{"initial": "1ms", "max": "5ms"}},
	}))
	r.until("999 are answered and one is dead", patience, func() bool {
		t := r.ledger.tally()
		return t.done == n-1 && t.dead == 1
	})
	r.settled()
	r.once()
	if r.ledger.fate(poison).dead != 1 {
		r.Errorf("another message than the bad one is the dead letter")
	}
	// Each of the runs that the message took part in, and those with its other halves.
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	runs := r.ledger.mu.runs
	largest := slices.Max(runs)
	more := 0
	for _, size := range runs {
		if size < largest {
			more++
		}
	}
	if most := 2 * bits.Len(n); largest == n && more > most {
		r.Errorf("the message took %d runs of a part of its batch, want at most %d: %v", more, most, runs)
	}
	if largest < n/2 {
		r.Errorf("the largest batch had %d messages, want about %d: %v", largest, n, runs)
	}
}

// sourceBodies: any body has an answer, and does not hinder those that follow.
func sourceBodies(r *rig) {
	largest := r.subject.Largest
	if largest == 0 {
		largest = 8 << 20
	}
	odd := [][]byte{
		nil,
		[]byte(`"` + strings.Repeat("x", largest-1000) + `"`),
		[]byte("\xff\xfe not UTF-8 \x80"),
		[]byte(`{"text": "` + "\xff\xfe" + `"}`),
		[]byte(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)),
		[]byte(`{"a": `),
		[]byte("\x00\x01\x02"),
		[]byte(`{"id": 1e999}`),
	}
	r.load(r.source(nil))
	for _, raw := range odd {
		r.system.Produce(r, []Message{{Key: "odd", Body: raw}})
	}
	r.until("each odd body is answered", patience, func() bool { return r.ledger.tally().strange == len(odd) })
	r.produce(10, 10, 10)
	r.allDone()
	r.never("an odd body comes again", func() bool { return r.ledger.tally().strange > len(odd) })
}

// sourcePassword: a start with wrong credentials fails.
func sourcePassword(r *rig) { r.refused("source", r.source(nil)) }

// refused serves a document whose first node has wrong credentials.
func (r *rig) refused(_, doc string) {
	r.Helper()
	first, rest, _ := strings.Cut(doc, "\n")
	var node fields
	if err := json.Unmarshal([]byte(strings.TrimPrefix(first, "- ")), &node); err != nil {
		r.Fatal(err)
	}
	field, secret := r.system.Refuse(node)
	r.start(patience)
	begin := time.Now()
	list, err := r.flow.Apply(document(node) + rest)
	if took := time.Since(begin); took > patience/2 {
		r.Errorf("the start failed after %v", took)
	}
	text := list.Error()
	switch {
	case err != nil:
		text += " " + err.Error()
	case !list.HasErrors():
		r.Fatalf("the workflow has started with wrong credentials")
	}
	if !strings.Contains(text, "test.yaml:1:") || !strings.Contains(text, field) {
		r.Errorf("the error does not say where it is, and that it is about %s: %s", field, text)
	}
	if all := text + r.log.String(); strings.Contains(all, secret) {
		r.Errorf("a secret was printed: %s", all)
	}
}
