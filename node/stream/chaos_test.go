package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A judge watches what processes get: of a key one at a time, and never an older one
// after a newer one was answered well.
type judge struct {
	t        *testing.T
	by       func(v value.Value) string // what has an order; nil for nothing
	mu       sync.Mutex
	running  map[string]int64
	done     map[string]int64 // the newest that was answered well
	answered map[string]int   // by id
}

func newJudge(t *testing.T, by func(v value.Value) string) *judge {
	return &judge{t: t, by: by, running: make(map[string]int64), done: make(map[string]int64), answered: make(map[string]int)}
}

func field(v value.Value, name string) string {
	f, _ := v.Get(name)
	return f.String()
}

// number is which message of its sequence v is.
func number(v value.Value) int64 {
	body, _ := v.Get("body")
	f, _ := body.Get("n")
	n, _ := f.AsInt()
	return n
}

// one is the process of a message.
func (j *judge) one(ctx context.Context, v value.Value, fail float64) error {
	return j.all(ctx, []value.Value{v}, fail)
}

// all is the process of a batch.
func (j *judge) all(_ context.Context, batch []value.Value, fail float64) error {
	r := rand.Float64()
	if j.by != nil {
		j.mu.Lock()
		mine := make(map[string]int64)
		for _, v := range batch {
			key := j.by(v)
			n := number(v)
			if other, ok := j.running[key]; ok {
				j.t.Errorf("key %s: %d runs while %d does", key, n, other)
			}
			sequence := key + "/" + field(v, "lane")
			if last := mine[sequence]; n <= last {
				j.t.Errorf("key %s: %d comes after %d in one batch", key, n, last)
			}
			mine[sequence] = n
			if n < j.done[sequence] && j.answered[field(v, "id")] == 0 { // it may come twice
				j.t.Errorf("key %s: %d comes after %d", key, n, j.done[sequence])
			}
			mine[key] = n
		}
		for key, n := range mine {
			j.running[key] = n
		}
		j.mu.Unlock()
		defer func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			for key := range mine {
				delete(j.running, key)
			}
		}()
	}
	if rand.IntN(4) == 0 {
		<-time.After(time.Duration(rand.IntN(300)) * time.Microsecond)
	}
	if r < fail*0.98 {
		return errors.New("by chance")
	}
	if r < fail {
		panic("by chance")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, v := range batch {
		j.answered[field(v, "id")]++
		if j.by != nil {
			n := number(v)
			key := j.by(v) + "/" + field(v, "lane")
			j.done[key] = max(j.done[key], n)
		}
	}
	return nil
}

// TestChaos runs messages of many keys while processes fail, connections are lost and
// workflows are reloaded. Nothing may be lost, and each order must hold.
func TestChaos(t *testing.T) {
	const keys, lanes, count = 16, 4, 1000
	byKey := func(v value.Value) string { b, _ := v.Get("body"); return field(b, "k") }
	byLane := func(v value.Value) string { return field(v, "lane") }
	total := func(value.Value) string { return "" }
	settings := map[string]struct {
		yaml string
		by   func(v value.Value) string
	}{
		"none":        {"order: none", nil},
		"lane":        {"order: key", byLane},
		"key":         {"order: key, key: self.body.k", byKey},
		"total":       {"order: total", total},
		"record":      {"order: record", byKey},
		"batch none":  {"order: none, batch: {count: 50, linger: 1ms}", nil},
		"batch key":   {"order: key, key: self.body.k, batch: {count: 50, linger: 1ms}", byKey},
		"batch lane":  {"order: key, batch: {count: 50, linger: 1ms}", byLane},
		"batch total": {"order: total, batch: {count: 50, linger: 1ms}", total},
	}
	for system, traits := range systems {
		if !traits.Redelivers && !traits.Positions {
			continue // it loses messages with its connections
		}
		traits.Order = stream.OrderRecord
		for name, set := range settings {
			t.Run(system+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := newBroker(traits)
				j := newJudge(t, set.by)
				per := 1
				if traits.Lanes {
					per = lanes
				}
				seq := make(map[string]int)
				for range count {
					which := rand.IntN(keys)
					lane := int32(which % per)
					k := fmt.Sprintf("k%d", which)
					o := k
					if set.by != nil && !strings.HasSuffix(name, "key") && name != "record" {
						o = fmt.Sprint(lane) // in which order the system delivers
					}
					seq[o]++
					s.add(lane, k, fmt.Sprintf(`{"k": %q, "n": %d}`, k, seq[o]))
				}
				document := func(generation int) string {
					extra := ""
					if generation%3 == 2 {
						extra = fmt.Sprintf("topic: t%d, ", generation)
					}
					if traits.Positions {
						extra += "checkpoint: {interval: 5ms}, "
					}
					return fmt.Sprintf("- {kind: mem, name: s, %s%s, max_in_flight: 100, retry: {threshold: 1000000, backoff: {initial: 1ms, max: 4ms}}, ports: {out: [{name: t}]}}\n- {kind: take, name: t}\n", extra, set.yaml)
				}
				r := start(t, s, document(0), func(ctx context.Context, _ string, v value.Value) error {
					if v.Kind() == value.KindList {
						var batch []value.Value
						for _, e := range v.Elems() {
							batch = append(batch, e)
						}
						return j.all(ctx, batch, 0.1)
					}
					return j.one(ctx, v, 0.1)
				})
				for generation := 1; !s.settledAll() && generation < 60; generation++ {
					<-time.After(time.Duration(rand.IntN(20)) * time.Millisecond)
					switch rand.IntN(3) {
					case 0:
						s.lose()
					case 1:
						r.load(document(generation))
					}
				}
				r.until("all to be settled", s.settledAll)
				j.mu.Lock()
				defer j.mu.Unlock()
				if len(j.answered) != count {
					t.Errorf("%d messages of %d were answered", len(j.answered), count)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.mu.most > 1 {
					t.Errorf("%d readers were connected together", s.mu.most)
				}
				if s.mu.mostHeld > 100 && !traits.Positions {
					t.Errorf("%d messages were held", s.mu.mostHeld)
				}
				twice := 0
				for _, n := range j.answered {
					if n > 1 {
						twice++
					}
				}
				t.Logf("%d connections, %d answered more than once", s.mu.connects, twice)
			})
		}
	}
}
