package run_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

var errCrash = errors.New("crash")

// A ledger keeps the records of one run in memory. Those above limit are lost in a crash.
type ledger struct {
	id    uuid.UUID
	limit int
	old   []run.Record
	again bool // they are of an earlier attempt
	mu    sync.Mutex
	added []run.Record
	ended *node.Response
	err   error // of Abandon
	lives int   // times that it was unloaded
	waits int   // for what was recorded
	stops bool  // it stops at random
	stop  bool  // it has
}

func (l *ledger) ID() uuid.UUID                                 { return l.id }
func (l *ledger) Records() ([]run.Record, bool)                 { return l.old, l.again }
func (l *ledger) Level() node.Level                             { return node.LevelCheckpoint }
func (l *ledger) From() string                                  { return "" }
func (l *ledger) Whole(payload value.Value) (value.Value, bool) { return payload, false }
func (l *ledger) Hash(v value.Value) uint64 {
	return xxhash.Sum64String(v.String())
}

func (l *ledger) Add(rec run.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rec.Hash = l.Hash(rec.Input)
	rec.Input = value.Value{}
	l.added = append(l.added, rec)
}

func (l *ledger) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.old)+len(l.added) > l.limit
}

func (l *ledger) Barrier(done func(error)) bool {
	l.mu.Lock()
	l.waits++
	l.mu.Unlock()
	if !l.full() {
		return rand.IntN(2) == 0 || func() bool { go done(nil); return false }()
	}
	go done(errCrash)
	return false
}

func (l *ledger) End(resp node.Response, _ error, done func(error)) {
	if l.full() {
		go done(errCrash)
		return
	}
	l.ended = &resp
	go done(nil)
}

func (l *ledger) Stops() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop = l.stop || l.stops && l.lives < 20 && rand.IntN(3) == 0
	return l.stop
}

func (l *ledger) Abandon(err error) {
	if l.err = err; l.full() {
		l.err = errCrash
	}
}

// Hold delivers a signal now, later, or once the run has been unloaded.
func (l *ledger) Hold(_ uint64, wake func(value.Value) bool) {
	switch n := rand.IntN(3); {
	case n == 0:
		wake(value.Int(rand.Int64()))
	case n == 1 || l.lives > 0:
		go wake(value.Int(rand.Int64()))
	}
}

func (l *ledger) Idle(unload func() bool) { go unload() }

// after is the ledger of the same run after a crash.
func (l *ledger) after(limit int) *ledger {
	all := append(slices.Clone(l.old), l.added...)
	return &ledger{id: l.id, limit: limit, old: all[:min(len(all), l.limit)], again: l.again, stops: l.stops, lives: l.lives}
}

// attempt is the ledger of another attempt of the same run.
func (l *ledger) attempt(limit int) *ledger {
	all := append(slices.Clone(l.old), l.added...)
	forgotten := run.Forgotten(all, true, func(uint64) bool { return false })
	kept := all[:0:0]
	for i := range all {
		if !slices.Contains(forgotten, i) {
			kept = append(kept, all[i])
		}
	}
	return &ledger{id: l.id, limit: limit, old: kept, again: true}
}

// A world is what effects change: how often each was done, by key, and with what.
type world struct {
	mu    sync.Mutex
	done  map[string]int
	asked map[string]string
	wrong string
	well  bool // nothing is refused
}

func (w *world) do(key, body string) value.Value {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[key]++
	if had, ok := w.asked[key]; ok && had != body {
		w.wrong = fmt.Sprintf("the key %s came with %s and with %s", key, had, body)
	}
	w.asked[key] = body
	return value.Int(int64(xxhash.Sum64String(key) % 1000))
}

func (w *world) healthy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.well
}

func keyOf(p node.Process) string {
	r, ok := node.RunOf(p)
	if !ok {
		return "none"
	}
	return r.Key()
}

// durableNode adds a node at random, with up to two out-ports.
func (g *graph) durableNode(rng *rand.Rand, w *world) {
	answer := func(key string, pkt node.Packet) node.Result {
		v := w.do(key, pkt.Payload.String())
		if n, _ := v.AsInt(); n%5 == 0 && !w.healthy() {
			return node.Fail(&node.Error{Err: fmt.Errorf("refused %d", n), Status: 409})
		}
		return node.Send(int(xxhash.Sum64String(key)%2), value.List(pkt.Payload, v))
	}
	var n node.Node
	recall := node.Pure
	switch rng.IntN(13) {
	case 0: // an effect in blocking work
		recall = node.Effects
		n = nodeFunc(func(p node.Process, pkt node.Packet) node.Result {
			key := keyOf(p)
			return node.Block(func(context.Context) node.Result { return answer(key, pkt) })
		})
	case 1: // an effect that is awaited
		recall = node.Effects
		n = nodeFunc(func(p node.Process, pkt node.Packet) node.Result {
			key := keyOf(p)
			return node.Await(func(_ context.Context, done func(node.Result)) {
				go func() { done(answer(key, pkt)) }()
			})
		})
	case 2: // two pieces of blocking work
		recall = node.Effects
		n = nodeFunc(func(p node.Process, pkt node.Packet) node.Result {
			key := keyOf(p)
			return node.Block(func(context.Context) node.Result {
				w.do(key+"/1", pkt.Payload.String())
				return node.Block(func(context.Context) node.Result { return answer(key, pkt) })
			})
		})
	case 3:
		recall = node.Reads
		n = nodeFunc(func(_ node.Process, pkt node.Packet) node.Result {
			return node.Block(func(context.Context) node.Result {
				return node.Send(0, value.List(pkt.Payload, value.Int(rand.Int64())))
			})
		})
	case 4:
		n = nodeFunc(func(_ node.Process, pkt node.Packet) node.Result {
			return node.SendAll([]node.Out{{Port: 0, Payload: pkt.Payload}, {Port: 1, Payload: pkt.Payload}, {Port: 0, Payload: value.String("again")}}, func(_ node.Process, resps []node.Response) node.Result {
				return node.Respond(node.Join(resps))
			})
		})
	case 5: // two attempts
		n = nodeFunc(func(_ node.Process, pkt node.Packet) node.Result {
			return node.SendThen(0, pkt.Payload, func(_ node.Process, resp node.Response) node.Result {
				if !resp.IsError() {
					return node.Respond(resp)
				}
				return node.Sleep(time.Microsecond, func(node.Process, node.Response) node.Result {
					return node.Again(node.SendThen(0, pkt.Payload, func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) }))
				})
			})
		})
	case 6: // children, until the first error
		count := 1 + rng.IntN(3)
		n = nodeFunc(func(_ node.Process, pkt node.Packet) node.Result {
			children := make([]node.Result, count)
			for i := range children {
				children[i] = node.Send(i%2, value.List(pkt.Payload, value.Int(int64(i))))
			}
			return node.UntilError(node.Spawn(children, 2, func(_ node.Process, resps []node.Response) node.Result { return node.Respond(node.Join(resps)) }))
		})
	case 7: // pure blocking work, and a note of what is random
		recall = node.Reruns
		n = nodeFunc(func(p node.Process, pkt node.Packet) node.Result {
			noted := value.Int(rand.Int64())
			if r, ok := node.RunOf(p); ok {
				noted = r.Note(func() value.Value { return value.Int(rand.Int64()) })
			}
			return node.Block(func(context.Context) node.Result { return node.Send(0, value.List(pkt.Payload, noted)) })
		})
	case 8: // packets one after the other, until the first error
		n = nodeFunc(func(_ node.Process, pkt node.Packet) node.Result {
			return node.UntilError(node.SendAll([]node.Out{{Port: 0, Payload: pkt.Payload}, {Port: 1, Payload: pkt.Payload}, {Port: 1, Payload: value.Int(2)}}, func(_ node.Process, resps []node.Response) node.Result {
				return node.Respond(node.Join(resps))
			}))
		})
	case 9: // a wait, for a signal or a time
		recall = node.Holds
		timeout := time.Duration(rng.IntN(3)) * time.Millisecond
		n = nodeFunc(func(p node.Process, pkt node.Packet) node.Result {
			r, ok := node.RunOf(p)
			if !ok {
				return node.Send(0, pkt.Payload)
			}
			waiting := r.Wait(node.Wait{Event: "e", Timeout: timeout, Token: true})
			return node.SendThen(1, value.String(waiting.Token()), func(node.Process, node.Response) node.Result {
				return waiting.Await(func(_ node.Process, resp node.Response) node.Result {
					if resp.None || resp.IsError() {
						return node.Respond(resp)
					}
					return node.Send(0, value.List(pkt.Payload, resp.Payload))
				})
			})
		})
	case 10: // two steps, with a packet between them
		recall = node.Reruns
		n = nodeFunc(func(p node.Process, pkt node.Packet) node.Result {
			key := keyOf(p)
			return node.Step(func(context.Context) (value.Value, error) { return w.do(key+"/1", pkt.Payload.String()), nil }, func(_ node.Process, one node.Response) node.Result {
				return node.SendThen(1, one.Payload, func(_ node.Process, resp node.Response) node.Result {
					return node.Step(func(context.Context) (value.Value, error) {
						v := w.do(key+"/2", text(resp))
						if n, _ := v.AsInt(); n%5 == 0 {
							return v, errors.New("refused")
						}
						return v, nil
					}, func(_ node.Process, two node.Response) node.Result {
						if two.IsError() {
							return node.Fail(two.Payload.AsError())
						}
						return node.Send(0, value.List(one.Payload, two.Payload))
					})
				})
			})
		})
	case 11: // children with a step each
		recall = node.Reruns
		n = nodeFunc(func(p node.Process, pkt node.Packet) node.Result {
			key := keyOf(p)
			children := make([]node.Result, 3)
			for i := range children {
				children[i] = node.Within(time.Hour, node.Step(func(context.Context) (value.Value, error) {
					return w.do(fmt.Sprint(key, "/", i), pkt.Payload.String()), nil
				}, func(_ node.Process, resp node.Response) node.Result {
					return node.Send(i%2, resp.Payload)
				}))
			}
			return node.Spawn(children, 2, func(_ node.Process, resps []node.Response) node.Result { return node.Respond(node.Join(resps)) })
		})
	case 12: // a wait, after which something may have been changed by others
		recall = node.Holds
		n = nodeFunc(func(p node.Process, pkt node.Packet) node.Result {
			r, ok := node.RunOf(p)
			if !ok {
				return node.Send(0, pkt.Payload)
			}
			has := value.Null()
			r.Rejoin(func(recorded value.Value) value.Value {
				if recorded.IsNull() && rand.IntN(2) == 0 {
					recorded = value.Int(rand.Int64())
				}
				if !recorded.IsNull() {
					has = recorded
				}
				return recorded
			})
			return r.Wait(node.Wait{Timeout: time.Millisecond}).Await(func(node.Process, node.Response) node.Result {
				return node.Send(0, value.List(pkt.Payload, has))
			})
		})
	}
	at := g.add(n, 2)
	g.vertices[at].Recall = recall
}

// TestCrashes crashes a durable process after each of its records. It gives the same answer as
// one that did not crash, asks for the same effects, and repeats only those whose record was lost.
func TestCrashes(t *testing.T) {
	unloaded := 0
	for range 300 {
		seed, w, begin := randomRun(t, &unloaded)
		want, whole := begin(&ledger{id: uuid.New(), limit: 1 << 20})
		if want.IsError() && strings.Contains(want.Payload.AsError().Error(), "F7") {
			continue // past the budget
		}
		done := fmt.Sprint(w.done)
		if got, again := begin(whole.after(1 << 20)); text(got) != text(want) || fmt.Sprint(w.done) != done || len(again.added) > 0 {
			t.Fatalf("seed %d: the whole run again: %s, want %s; added %v; %v", seed, text(got), text(want), again.added, again.err)
		}
		for limit := range len(whole.old) + len(whole.added) {
			l := &ledger{id: uuid.New(), limit: limit}
			w.done, w.asked = make(map[string]int), make(map[string]string)
			resp, l := begin(l)
			if l.ended == nil && !errors.Is(l.err, errCrash) {
				t.Fatalf("seed %d: %s", seed, text(resp))
			}
			if l.ended != nil {
				continue
			}
			if got, resumed := begin(l.after(1 << 20)); resumed.ended == nil {
				t.Fatalf("seed %d: after a crash at %d: %s, %v", seed, limit, text(got), resumed.err)
			}
			for key, n := range w.done {
				if n > 2 {
					t.Fatalf("seed %d: %s was done %d times", seed, key, n)
				}
			}
		}
		if w.wrong != "" {
			t.Fatalf("seed %d: %s", seed, w.wrong)
		}
	}
	if unloaded == 0 {
		t.Error("no run was unloaded")
	}
}

// TestStops stops a durable process at its effects, at random. What had begun is recorded, so nothing is done twice.
func TestStops(t *testing.T) {
	unloaded := 0
	for range 300 {
		seed, w, begin := randomRun(t, &unloaded)
		want, whole := begin(&ledger{id: uuid.New(), limit: 1 << 20, stops: true})
		if want.IsError() && strings.Contains(want.Payload.AsError().Error(), "F7") {
			continue // past the budget
		}
		if whole.ended == nil {
			t.Fatalf("seed %d: %s, %v", seed, text(want), whole.err)
		}
		for key, n := range w.done {
			if n > 1 {
				t.Fatalf("seed %d: %s was done %d times", seed, key, n)
			}
		}
		again := whole.after(1 << 20)
		again.stops = false
		if got, again := begin(again); text(got) != text(want) || len(again.added) > 0 {
			t.Fatalf("seed %d: the whole run again: %s, want %s; added %v; %v", seed, text(got), text(want), again.added, again.err)
		}
	}
	if unloaded == 0 {
		t.Error("no run was unloaded")
	}
}

// randomRun returns what starts a run of nodes at random, until it has ended or crashed. It counts how often
// the run was unloaded.
func randomRun(t *testing.T, unloaded *int) (seed uint64, w *world, begin func(*ledger) (node.Response, *ledger)) {
	seed = rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	w = &world{done: make(map[string]int), asked: make(map[string]string)}
	g := &graph{}
	g.fn(1, nil)
	for range 3 + rng.IntN(8) {
		g.durableNode(rng, w)
	}
	for at := range g.vertices {
		g.vertices[at].Ref.ID = fmt.Sprint("id", at)
	}
	g.linkSome(rng.IntN)
	gen := g.open(t, run.Options{Budget: run.Budget{Deliveries: 3000}})
	return seed, w, func(l *ledger) (node.Response, *ledger) {
		for {
			done := make(chan node.Response, 1)
			if !gen.StartDurable(0, 0, value.String("in"), l, nil, func(resp node.Response) { done <- resp }) {
				t.Fatal("it did not start")
			}
			select {
			case resp := <-done:
				if !errors.Is(l.err, run.ErrUnloaded) {
					return resp, l
				}
				*unloaded++
				l = l.after(l.limit)
				l.lives++
			case <-time.After(10 * time.Second):
				t.Fatalf("seed %d: the process hangs", seed)
			}
		}
	}
}

// TestAttempts lets a run that has failed go on, with crashes after each record. What has gone well in the first
// attempt is not done in the second, if it is asked for the same; and the second replays as any other run.
func TestAttempts(t *testing.T) {
	unloaded, attempts, repeated := 0, 0, 0
	for attempts < 100 {
		seed, w, begin := randomRun(t, &unloaded)
		resp, first := begin(&ledger{id: uuid.New(), limit: 1 << 20})
		if !resp.IsError() || strings.Contains(resp.Payload.AsError().Error(), "F7") {
			continue
		}
		attempts++
		w.well = true
		well := make(map[string]string) // what was asked for and has gone well, by key
		for key, body := range w.asked {
			if key = strings.TrimSuffix(key, "/1"); xxhash.Sum64String(key)%1000%5 != 0 {
				well[key] = body
			}
		}
		done := maps.Clone(w.done)
		check := func(crashes int) {
			t.Helper()
			for key, n := range w.done {
				body, went := well[strings.TrimSuffix(key, "/1")]
				if same := went && w.asked[key] == body; same && n > done[key] || n > done[key]+1+crashes {
					t.Fatalf("seed %d: %s was done %d times, %d of them in the first attempt", seed, key, n, done[key])
				}
			}
		}
		resp, second := begin(first.attempt(1 << 20))
		if second.ended == nil {
			t.Fatalf("seed %d: the second attempt: %s, %v", seed, text(resp), second.err)
		}
		check(0)
		repeated += len(second.old)
		after := fmt.Sprint(w.done)
		if got, again := begin(second.after(1 << 20)); text(got) != text(resp) || fmt.Sprint(w.done) != after || len(again.added) > 0 {
			t.Fatalf("seed %d: the second attempt again: %s, want %s; added %v; %v", seed, text(got), text(resp), again.added, again.err)
		}
		for limit := len(first.attempt(0).old); limit < len(second.old)+len(second.added); limit++ {
			w.done = maps.Clone(done)
			_, l := begin(first.attempt(limit))
			if l.ended != nil {
				continue
			}
			if got, resumed := begin(l.after(1 << 20)); resumed.ended == nil {
				t.Fatalf("seed %d: after a crash at %d: %s, %v", seed, limit, text(got), resumed.err)
			}
			check(1)
		}
	}
	if repeated == 0 {
		t.Error("no attempt had records")
	}
}

// TestPanicLeavesNoRun checks that a process object whose durable process has panicked is of no run when it is
// used again.
func TestPanicLeavesNoRun(t *testing.T) {
	g := &graph{}
	begin := g.fn(1, nil)
	durable := false
	boom := g.fn(0, func(p node.Process, pkt node.Packet) node.Result {
		if _, durable = node.RunOf(p); durable {
			panic("boom")
		}
		return node.Answer(pkt.Payload)
	})
	g.link(begin, 0, boom)
	gen := g.open(t, run.Options{})
	for range 20 { // until the pool gives the same object
		done := make(chan node.Response, 1)
		if !gen.StartDurable(begin, 0, value.Int(1), &ledger{id: uuid.New(), limit: 100}, nil, func(resp node.Response) { done <- resp }) {
			t.Fatal("it did not start")
		}
		if resp := <-done; !resp.IsError() || !durable {
			t.Fatalf("got %s, durable %v", text(resp), durable)
		}
		if resp := gen.Send(t.Context(), nil, boom, 0, value.Int(2)); text(resp) != "2" || durable {
			t.Fatalf("got %s, durable %v", text(resp), durable)
		}
	}
}

// TestRecordLimits ends runs that would fill a journal, and the same after a crash.
func TestRecordLimits(t *testing.T) {
	for _, test := range []struct {
		budget run.Budget
		code   diag.Code
		before int // records
	}{
		{run.Budget{Records: 20}, diag.CodeRecords, 20},
		{run.Budget{RecordBytes: 1000}, diag.CodeRecordBytes, 10},
	} {
		g := &graph{}
		at := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result { return node.Send(0, pkt.Payload) })
		g.vertices[at].Recall, g.vertices[at].Ref.ID = node.Effects, "id"
		g.link(at, 0, at)
		gen := g.open(t, run.Options{Budget: test.budget})
		l := &ledger{id: uuid.New(), limit: 1 << 20}
		for range 3 {
			done := make(chan node.Response, 1)
			if !gen.StartDurable(at, 0, value.String(strings.Repeat("x", 100)), l, nil, func(resp node.Response) { done <- resp }) {
				t.Fatal("it did not start")
			}
			if resp := <-done; !resp.IsError() || node.Describe(resp.Payload.AsError()).Code != string(test.code) || l.ended == nil {
				t.Errorf("got %s, ended %v", text(resp), l.ended != nil)
			}
			if n := len(l.old) + len(l.added); n > test.before || n < test.before/2 {
				t.Errorf("%d records", n)
			}
			l = l.after(len(l.old) + rand.IntN(len(l.added)+1))
			l.limit = 1 << 20
		}
	}
}

// A readerNode changes nothing with numbers.
type readerNode struct{ nodeFunc }

func (readerNode) Reads(pkt node.Packet) bool { return pkt.Payload.Kind() == value.KindInt }

// TestReader has packets that only read wait for nothing, and yet be recorded.
func TestReader(t *testing.T) {
	for payload, waits := range map[string]int{"7": 0, `"x"`: 2} {
		g := &graph{}
		n := 0
		reads := func() int32 {
			at := g.add(readerNode{func(_ node.Process, pkt node.Packet) node.Result {
				n++
				return node.Send(0, pkt.Payload)
			}}, 1)
			g.vertices[at].Recall, g.vertices[at].Ref.ID = node.Effects, fmt.Sprint("id", at)
			return at
		}
		begin := g.fn(1, nil)
		first, second := reads(), reads()
		g.link(begin, 0, first)
		g.link(first, 0, second)
		gen := g.open(t, run.Options{})
		in, err := value.ParseJSON([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		l := &ledger{id: uuid.New(), limit: 1 << 20}
		for range 2 {
			done := make(chan node.Response, 1)
			if !gen.StartDurable(begin, 0, in, l, nil, func(resp node.Response) { done <- resp }) {
				t.Fatal("it did not start")
			}
			if resp := <-done; resp.Payload.String() != in.String() || n != 2 || l.waits != waits {
				t.Errorf("%s: answer %s, %d calls, waited %d times", payload, text(resp), n, l.waits)
			}
			l, waits = l.after(1<<20), 0
		}
	}
}
