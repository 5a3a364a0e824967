package run_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

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
	mu    sync.Mutex
	added []run.Record
	ended *node.Response
	err   error // of Abandon
	lives int   // times that it was unloaded
}

func (l *ledger) ID() uuid.UUID { return l.id }

func (l *ledger) Level() node.Level     { return node.LevelCheckpoint }
func (l *ledger) Records() []run.Record { return l.old }
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
	return &ledger{id: l.id, limit: limit, old: all[:min(len(all), l.limit)]}
}

// A world is what effects change: how often each was done, by key, and with what.
type world struct {
	mu    sync.Mutex
	done  map[string]int
	asked map[string]string
	wrong string
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
		if n, _ := v.AsInt(); n%5 == 0 {
			return node.Fail(&node.Error{Err: fmt.Errorf("refused %d", n), Status: 409})
		}
		return node.Send(int(xxhash.Sum64String(key)%2), value.List(pkt.Payload, v))
	}
	var n node.Node
	recall := node.Pure
	switch rng.IntN(10) {
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
	}
	at := g.add(n, 2)
	g.vertices[at].Recall = recall
}

// TestCrashes crashes a durable process after each of its records. It gives the same answer as
// one that did not crash, asks for the same effects, and repeats only those whose record was lost.
func TestCrashes(t *testing.T) {
	unloaded := 0
	for range 300 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 1))
		w := &world{done: make(map[string]int), asked: make(map[string]string)}
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
		begin := func(l *ledger) (node.Response, *ledger) {
			for {
				done := make(chan node.Response, 1)
				if !gen.StartDurable(0, value.String("in"), l, nil, func(resp node.Response) { done <- resp }) {
					t.Fatal("it did not start")
				}
				select {
				case resp := <-done:
					if !errors.Is(l.err, run.ErrUnloaded) {
						return resp, l
					}
					unloaded++
					l = l.after(l.limit)
					l.lives++
				case <-time.After(10 * time.Second):
					t.Fatalf("seed %d: the process hangs", seed)
				}
			}
		}
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
		if !gen.StartDurable(begin, value.Int(1), &ledger{id: uuid.New(), limit: 100}, nil, func(resp node.Response) { done <- resp }) {
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
