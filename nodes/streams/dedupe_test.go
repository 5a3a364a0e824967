package streams_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

const branches = "- {kind: source, name: from, ports: {'out[0]': [{name: n, port: in}], 'out[1]': [{name: other}]}}\n" +
	"- {kind: dedupe, name: n, key: self, %sports: {out: [{name: next}], duplicate: [{name: again}]}}\n"

// A branched is a workflow whose processes have a branch with dedupe, and another one.
type branched struct {
	*flowtest.Flow
	calls []chan node.Response
}

func inBranches(t *testing.T, config string, test func(t *testing.T, f *branched)) {
	t.Helper()
	bubble(t, fmt.Sprintf(branches, config), func(t *testing.T, f *flowtest.Flow) {
		f.Probe("again").Do(flowtest.Answer(value.String("duplicate")))
		test(t, &branched{Flow: f})
	})
}

// begin starts a process, and waits until it has nothing to do.
func (b *branched) begin(r node.Result) {
	done := make(chan node.Response, 1)
	b.calls = append(b.calls, done)
	b.Source("from").Start(context.Background(), nil, r, func(resp node.Response) { done <- resp })
	synctest.Wait()
}

// ends returns the responses of all processes.
func (b *branched) ends() string {
	var all []string
	for _, done := range b.calls {
		all = append(all, flowtest.Show(<-done))
	}
	return strings.Join(all, ", ")
}

func key(k int64) node.Result { return node.Send(0, value.Int(k)) }

// then continues after r, unless that is an error.
func then(r node.Result, next func() node.Result) node.Result {
	return node.After(r, func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Respond(resp)
		}
		return next()
	})
}

// later does r after a second.
func later(r node.Result) node.Result {
	return node.Sleep(time.Second, func(node.Process, node.Response) node.Result { return r })
}

// deferring begins a process that registers f, and sends a key then.
func deferring(k int64, f func() error) node.Result {
	return node.After(node.None(), func(p node.Process, _ node.Response) node.Result {
		p.Enlist(node.PhaseDatabase, func(context.Context, error) (kept bool, err error) { err = f(); return err == nil, err })
		return key(k)
	})
}

// TestDedupeProcess marks a key when its process has ended well, and not before.
func TestDedupeProcess(t *testing.T) {
	down := errors.New("down")
	f := func(what string, first node.Result, want string) {
		t.Helper()
		inBranches(t, "", func(t *testing.T, f *branched) {
			f.begin(first)
			f.begin(key(1))
			expect(t, what, f.ends(), want)
		})
	}
	f("good", key(1), `1, "duplicate"`)
	f("another branch fails", then(key(1), func() node.Result { return node.Fail(down) }), "error: down, 1")
	f("another branch fails later", then(key(1), func() node.Result { return later(node.Fail(down)) }), "error: down, 1")
	f("another branch ends well later", then(key(1), func() node.Result { return later(node.Answer(value.Int(7))) }), `7, "duplicate"`)
	f("a commit", deferring(1, func() error { return nil }), `1, "duplicate"`)
	f("a commit fails", deferring(1, func() error { return down }), "error: down, 1")
	f("children", node.Spawn([]node.Result{key(1), later(node.Fail(down))}, 0, func(_ node.Process, resps []node.Response) node.Result {
		return node.Respond(node.Join(resps))
	}), "error: down, 1")
	f("an error of a child that is no error of the process", node.Spawn([]node.Result{key(1), node.Fail(down)}, 0, func(node.Process, []node.Response) node.Result {
		return node.None()
	}), `none, "duplicate"`)
}

// TestDedupeOneProcess has a key twice in one process.
func TestDedupeOneProcess(t *testing.T) {
	all := func(_ node.Process, resps []node.Response) node.Result { return node.Respond(node.Join(resps)) }
	children := node.Spawn([]node.Result{key(1), key(1), key(2)}, 1, all)
	packets := node.SendAll([]node.Out{{Payload: value.Int(1)}, {Payload: value.Int(1)}, {Payload: value.Int(2)}}, all)
	f := func(what string, r node.Result, fails int, want string) {
		t.Helper()
		inBranches(t, "", func(t *testing.T, f *branched) {
			f.Probe("next").Do(func(_ node.Process, pkt node.Packet) node.Result {
				if fails--; fails >= 0 {
					return later(node.Fail(errors.New("down")))
				}
				return later(node.Answer(pkt.Payload))
			})
			f.begin(r)
			expect(t, what, f.ends(), want)
		})
	}
	f("children", children, 0, `[1,"duplicate",2]`)
	f("packets", packets, 0, `[1,"duplicate",2]`)
	f("children, the first fails", children, 1, "error: down")
	f("packets, the first fails", packets, 1, "error: down")
	f("children, two fail", children, 2, "error: down\ndown")
}

// TestDedupeDeadlock has processes that wait for each other's keys.
func TestDedupeDeadlock(t *testing.T) {
	const deadlock = "error: processes wait for each other's keys, so this one has to be tried again"
	inOrder := func(first int64, d time.Duration, second int64) node.Result {
		return then(key(first), func() node.Result {
			return node.Sleep(d, func(node.Process, node.Response) node.Result { return key(second) })
		})
	}
	inBranches(t, "", func(t *testing.T, f *branched) {
		f.begin(inOrder(1, time.Second, 2))
		f.begin(inOrder(2, 2*time.Second, 3))
		f.begin(inOrder(3, 3*time.Second, 1))
		expect(t, "three", f.ends(), `"duplicate", 3, `+deadlock)
	})
	// The first one fails, and the next in turn for its key waits for one that waits for it.
	inBranches(t, "", func(t *testing.T, f *branched) {
		f.Probe("next").Do(func(_ node.Process, pkt node.Packet) node.Result {
			if f.Probe("next").Len() == 1 {
				return node.Sleep(10*time.Second, func(node.Process, node.Response) node.Result { return node.Fail(errors.New("down")) })
			}
			return node.Answer(pkt.Payload)
		})
		f.begin(key(1))
		f.begin(inOrder(2, time.Second, 1))
		f.begin(node.Spawn([]node.Result{key(1), key(2)}, 0, func(_ node.Process, resps []node.Response) node.Result { return node.Respond(node.Join(resps)) }))
		expect(t, "the next in turn", f.ends(), "error: down, "+deadlock+", [1,2]")
	})
}

// TestDedupeEndless bounds what a process holds that does not end.
func TestDedupeEndless(t *testing.T) {
	inBranches(t, "capacity: 2, ttl: 1m, ", func(t *testing.T, f *branched) {
		over := make(chan struct{})
		endless := then(key(1), func() node.Result {
			return then(key(2), func() node.Result {
				return then(key(3), func() node.Result {
					return node.Block(func(context.Context) node.Result { <-over; return node.Fail(errors.New("down")) })
				})
			})
		})
		f.begin(endless)
		f.begin(key(3))
		expect(t, "beyond the capacity", flowtest.Show(<-f.calls[1]), `"duplicate"`)
		f.begin(key(1))
		<-time.After(time.Minute)
		f.begin(key(2))
		expect(t, "past the ttl", flowtest.Show(<-f.calls[3]), "2")
		close(over)
		expect(t, "in the end", flowtest.Show(<-f.calls[0])+", "+flowtest.Show(<-f.calls[2]), "error: down, 1")
	})
}

// TestDedupeManyKeys has batches of keys, each in two batches, that fail and are tried again.
// Each key has its effect in one process that ends well.
func TestDedupeManyKeys(t *testing.T) {
	const keys, each = 60, 5
	f := flowtest.New(t, std.Defs("")...)
	f.Options.Clock = node.SystemClock{}
	f.Load(fmt.Sprintf(branches, ""))
	f.Probe("again").Do(flowtest.None)
	var mu sync.Mutex
	effects := make(map[int64]int)
	seed := rand.Uint64()
	f.Probe("next").Do(func(p node.Process, pkt node.Packet) node.Result {
		k, _ := pkt.Payload.AsInt()
		chance := rand.IntN(100)
		if chance < 2 {
			return node.Fail(errors.New("down"))
		}
		p.Root().Enlist(node.PhaseDatabase, func(_ context.Context, failure error) (kept bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			if failure == nil {
				effects[k]++
			}
			return failure == nil, nil
		})
		if chance < 50 {
			return node.Sleep(time.Millisecond, func(node.Process, node.Response) node.Result { return node.None() })
		}
		return node.None()
	})
	var work sync.WaitGroup
	for i := range 2 * keys / each {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		var all []int64
		for j := range each {
			all = append(all, int64((i*each+j)*7%keys)) // each twice
		}
		work.Go(func() {
			for {
				rnd.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
				children := make([]node.Result, each)
				for i, k := range all {
					children[i] = key(k)
				}
				ctx, cancel := context.WithCancel(context.Background())
				if rnd.IntN(5) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
				}
				resp := f.Source("from").Run(ctx, node.Spawn(children, 1+rnd.IntN(3), func(_ node.Process, resps []node.Response) node.Result {
					return node.Respond(node.Join(resps))
				}))
				cancel()
				if !resp.IsError() {
					return
				}
			}
		})
	}
	work.Wait()
	for k := range int64(keys) {
		if effects[k] != 1 {
			t.Errorf("key %d had %d effects, want 1; seed %d", k, effects[k], seed)
		}
	}
}

// BenchmarkDedupe measures a whole process through the node: one that is let through to a node
// that answers, and a duplicate.
func BenchmarkDedupe(b *testing.B) {
	f := flowtest.New(b, std.Defs("")...)
	f.Options.Clock = node.SystemClock{}
	f.Load("- {kind: dedupe, name: first, key: self, capacity: 1000, ports: {out: [{name: next, port: in}]}}\n" +
		"- {kind: dedupe, name: again, key: self, ttl: 24h, ports: {out: [{name: next, port: in}]}}\n- {kind: nop, name: next}\n")
	run := func(name string, payload func(n int) value.Value) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				if _, _, err := f.Engine().Run(b.Context(), name, payload(n)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("first", func(n int) value.Value { return value.Int(int64(n)) })
	again := value.String("order-1234567890")
	run("again", func(int) value.Value { return again })
}
