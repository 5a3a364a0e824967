package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// A keeper is a kind with claims, as small as one can be: it keeps what was answered.
type keeper struct {
	keys  state.Keys
	rules state.Rules
	known map[state.Key]value.Value
}

func newKeeper(undo bool) *keeper {
	k := &keeper{known: make(map[state.Key]value.Value)}
	var forget func([]state.Key, bool)
	if undo {
		forget = func(keys []state.Key, _ bool) {
			for _, key := range keys {
				delete(k.known, key)
			}
		}
	}
	k.keys = state.Keys{Claims: state.NewClaims(node.SystemClock{}, forget), Most: 1000}
	k.rules = state.Rules{
		Known: func(key state.Key, _ value.Value, _ time.Time) (r node.Result, ok bool) {
			v, ok := k.known[key]
			return node.Answer(v), ok
		},
		Settles: func(resp node.Response) bool { return !resp.IsError() },
		Settle:  func(key state.Key, resp node.Response, _ time.Time) { k.known[key] = resp.Payload },
		Share:   func(_ value.Value, resp node.Response) node.Result { return node.Answer(resp.Payload) },
	}
	return k
}

func (k *keeper) Concurrency() int { return 1000 }

func (k *keeper) Receive(p node.Process, pkt node.Packet) node.Result {
	return k.keys.Enter(p, state.KeyOf(pkt.Payload), pkt.Payload, &k.rules)
}

func (k *keeper) def() *node.Def {
	return &node.Def{
		Kind: "keeper", Summary: "Keeps answers.", In: []node.Port{{Name: "in", Doc: "A key."}}, Out: []node.Port{{Name: "out", Doc: "A key that is not known."}},
		New: func(*node.Init) (node.Node, error) { return k, nil },
	}
}

const keys = 10

// chaos runs processes with several keys each, in any order and partly side by side. Packets
// fail, processes fail after their packets were answered well, and clients leave. Each is tried
// again until it ends well. next is called for each packet that is sent.
func chaos(t *testing.T, seed uint64, k *keeper, next func(p node.Process, key int64, rnd *rand.Rand) node.Result) {
	synctest.Test(t, func(t *testing.T) {
		const each = 4
		f := flowtest.New(t, k.def())
		f.Options.Clock = node.SystemClock{}
		f.Load("- {kind: source, name: from, ports: {'out[0]': [{name: k, port: in}]}}\n- {kind: keeper, name: k, ports: {out: [{name: next}]}}\n")
		var mu sync.Mutex
		shared := rand.New(rand.NewPCG(seed, 0))
		f.Probe("next").Do(func(p node.Process, pkt node.Packet) node.Result {
			mu.Lock()
			defer mu.Unlock()
			key, _ := pkt.Payload.AsInt()
			return next(p, key, shared)
		})
		var work sync.WaitGroup
		for i := range 16 {
			rnd := rand.New(rand.NewPCG(seed, uint64(i+1)))
			work.Go(func() {
				for attempt := 0; ; attempt++ {
					if attempt == 10_000 {
						t.Errorf("process %d does not end well", i)
						return
					}
					children, packets := make([]node.Result, each), make([]node.Out, each)
					for j := range children {
						packets[j].Payload = value.Int(rnd.Int64N(keys))
						children[j] = node.Send(0, packets[j].Payload)
					}
					bad := rnd.IntN(5) == 0
					ctx, cancel := context.WithCancel(context.Background())
					if rnd.IntN(5) == 0 {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(1+rnd.IntN(10))*time.Millisecond)
					}
					all := func(_ node.Process, resps []node.Response) node.Result {
						if joined := node.Join(resps); joined.IsError() || !bad {
							return node.Respond(joined)
						}
						return node.Answer(value.Error(errors.New("in the end")))
					}
					r := node.Spawn(children, 1+rnd.IntN(3), all)
					if rnd.IntN(2) == 0 {
						r = node.SendAll(packets, all)
					}
					resp := f.Source("from").Run(ctx, r)
					cancel()
					if !resp.IsError() {
						return
					}
					<-time.After(time.Duration(rnd.IntN(3)) * time.Millisecond)
				}
			})
		}
		work.Wait()
		synctest.Wait()
		if n := k.keys.Left(); n != 0 {
			t.Errorf("seed %d: %d things are left in the end", seed, n)
		}
	})
}

// sometimes answers a packet, now or later, or lets it fail or panic.
func sometimes(rnd *rand.Rand, v value.Value) node.Result {
	good := node.Answer(v)
	switch rnd.IntN(20) {
	case 0:
		good = node.Fail(errors.New("down"))
	case 1:
		panic("boom")
	}
	if d := time.Duration(rnd.IntN(4)) * time.Millisecond; d > 0 {
		return node.Sleep(d, func(node.Process, node.Response) node.Result { return good })
	}
	return good
}

// TestClaimsInTheEnd settles keys at the end of processes: each has its effect once, and is not
// sent any more.
func TestClaimsInTheEnd(t *testing.T) {
	for range 4 {
		seed := rand.Uint64()
		k := newKeeper(false)
		var mu sync.Mutex
		effects := make(map[int64]int)
		chaos(t, seed, k, func(p node.Process, key int64, rnd *rand.Rand) node.Result {
			p.Root().Enlist(node.PhaseDatabase, func(_ context.Context, failure error) (kept bool, err error) {
				mu.Lock()
				defer mu.Unlock()
				if failure == nil {
					effects[key]++
				}
				return failure == nil, nil
			})
			return sometimes(rnd, value.Int(key))
		})
		for key := range int64(keys) {
			if _, known := k.known[state.KeyOf(value.Int(key))]; effects[key] > 1 || known != (effects[key] == 1) {
				t.Errorf("seed %d: key %d has had %d effects, known: %t", seed, key, effects[key], known)
			}
		}
	}
}

// TestClaimsByAnswer settles keys when they are answered: one packet of a key is on its way at a
// time, and what a process has settled that fails is not known any more.
func TestClaimsByAnswer(t *testing.T) {
	for range 4 {
		seed := rand.Uint64()
		k := newKeeper(true)
		var mu sync.Mutex
		out := make(map[int64]int)
		failed := make(map[string]bool)
		n := 0
		chaos(t, seed, k, func(p node.Process, key int64, rnd *rand.Rand) node.Result {
			mu.Lock()
			defer mu.Unlock()
			n++
			packet, answer := n, fmt.Sprint("answer ", n, " of ", key)
			if out[key] > 0 {
				t.Errorf("seed %d: packets %d and %d of key %d are on their way", seed, out[key], packet, key)
			}
			out[key] = packet
			over := func() {
				mu.Lock()
				defer mu.Unlock()
				if out[key] == packet {
					out[key] = 0
				}
			}
			p.Defer(over) // called before the claim comes back
			p.Root().Enlist(node.PhaseDatabase, func(_ context.Context, failure error) (kept bool, err error) {
				mu.Lock()
				defer mu.Unlock()
				failed[answer] = failure != nil
				return failure == nil, nil
			})
			return node.After(sometimes(rnd, value.String(answer)), func(_ node.Process, resp node.Response) node.Result {
				over()
				return node.Respond(resp)
			})
		})
		for _, v := range k.known {
			if s, _ := v.AsString(); failed[s] {
				t.Errorf("seed %d: %q is known, and its process has failed", seed, s)
			}
		}
	}
}
