package stream_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// What happens to a message, by its number.
const (
	mixNothing = iota + 3
	mixFails
	mixBlocks
	mixList
	mixStores
	mixPanics
	mixOnce
	mixUndecodable
	mixRefusedOnce
	mixRefused
	mixed = 97
)

// mixes is a kind that does something else about some messages than to send them on.
func mixes() *node.Def {
	return &node.Def{
		Kind: "mixes", Summary: "Mixes.", Page: node.Page{Example: "kind: mixes\n"}, In: []node.Port{{Name: "in", Doc: "A message."}}, Out: []node.Port{{Name: "out", Doc: "It."}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
				body, _ := pkt.Payload.Get("body")
				attempt, _ := pkt.Payload.Get("attempt")
				_, n := queueOf(body.String())
				switch send := node.Send(0, pkt.Payload); n % mixed {
				case mixNothing:
					return node.None()
				case mixFails:
					return node.Fail(errors.New("failed"))
				case mixBlocks:
					return node.Block(func(context.Context) node.Result { return send })
				case mixList:
					return node.Send(0, value.List(pkt.Payload))
				case mixStores:
					if _, ok := p.Load("key"); ok {
						return node.Fail(errors.New("the state of another process"))
					}
					p.Store("key", true)
					return send
				case mixPanics:
					panic("panicked")
				case mixOnce:
					if i, _ := attempt.AsInt(); i == 0 {
						return node.Fail(errors.New("failed once"))
					}
					return send
				default:
					return send
				}
			}), nil
		},
	}
}

// queueOf reads the body of a message: what it has to wait for others of, and its number there.
func queueOf(body string) (queue string, n int) {
	queue, number, _ := strings.Cut(strings.Trim(body, `"`), " ")
	if _, err := fmt.Sscan(number, &n); err != nil {
		panic(err)
	}
	return queue, n
}

// A binding writer gets records when their process has ended well, as hand says.
type binding struct {
	*memory
	hand func(records []stream.Record, done func(error)) error
}

func (w binding) Bind(context.Context) (stream.Bound, error) { return w, nil }

func (binding) Check(*stream.Record) error { return nil }

func (w binding) HandOver(records []stream.Record, done func(error)) error {
	return w.hand(records, done)
}

// TestGroups moves messages of which some fail, wait, or are dropped, with a writer that takes
// single records itself, so that Write has only what was gathered, or came as a list; or with one
// that gets them at the end. Each is confirmed once, or a dead letter once, and those of a lane or
// of a key come in their order.
func TestGroups(t *testing.T) {
	lanes := stream.Traits{Lanes: true, Positions: true, Order: stream.OrderRecord}
	for name, test := range map[string]struct {
		traits  stream.Traits
		fields  string
		ordered bool
		binds   bool
		least   int // records that are gathered, in a hundred
	}{
		"record":        {lanes, "checkpoint: {interval: 1ms}, ", true, false, 16},
		"record, binds": {lanes, "checkpoint: {interval: 1ms}, ", true, true, 16},
		"key":           {lanes, "checkpoint: {interval: 1ms}, order: key, key: self.body, ", false, false, 16},
		"none":          {stream.Traits{Redelivers: true}, "", false, false, 16},
		"none, binds":   {stream.Traits{Redelivers: true}, "", false, true, 16},
		"total":         {lanes, "checkpoint: {interval: 1ms}, order: total, ", true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { moveGroups(t, test.traits, test.fields, test.ordered, test.binds, test.least) })
		})
	}
}

func moveGroups(t *testing.T, traits stream.Traits, fields string, ordered, binds bool, least int) {
	const lanes, each = 3, 3000
	s := newBroker(traits)
	want, dead := make(map[string]int), make(map[string]int)
	for n := 1; n <= each; n++ {
		for lane := range int32(lanes) {
			if !traits.Lanes {
				lane = 0
			}
			queue, key := fmt.Sprint(lane), ""
			if n%5 == 0 { // those of a key come one after the other
				queue, key = queue+"k", "k"
			}
			body := fmt.Sprintf(`"%s %d"`, queue, n)
			switch n % mixed {
			case mixUndecodable:
				body = strings.TrimSuffix(body, `"`)
				dead[body]++
			case mixFails, mixPanics, mixRefused:
				dead[strings.Trim(body, `"`)]++
			case mixNothing:
			default:
				want[body]++
			}
			s.add(lane, key, body)
			if !traits.Lanes {
				break
			}
		}
	}
	var mu sync.Mutex
	confirmed, letters := make(map[string]int), make(map[string]int)
	came, latest := make(map[string]int), make(map[string]int)
	var answers sync.WaitGroup
	refusal := func(record string) error {
		queue, n := queueOf(record)
		came[record]++
		if came[record] == 1 && ordered {
			if n <= latest[queue] {
				t.Errorf("queue %s: %d comes after %d", queue, n, latest[queue])
			}
			latest[queue] = n
		}
		if n%mixed == mixRefused || n%mixed == mixRefusedOnce && came[record] == 1 {
			return errors.New("refused")
		}
		return nil
	}
	answer := func(record string, done func(error)) {
		mu.Lock()
		defer mu.Unlock()
		err := refusal(record)
		if err == nil {
			confirmed[record]++
		}
		answers.Add(1)
		time.AfterFunc(time.Duration(1+rand.IntN(1000))*time.Microsecond, func() {
			defer answers.Done()
			done(err)
		})
	}
	var written atomic.Int64
	m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
		written.Add(int64(len(records)))
		for i := range records {
			answer(string(records[i].Raw), func(err error) { done(i, value.Null(), err) })
		}
	}}
	take := func(text string, i int, done func(int, value.Value, error)) (bool, error) {
		answer(text, func(err error) { done(i, value.Null(), err) })
		return true, nil
	}
	hand := func(records []stream.Record, _ func(error)) error {
		mu.Lock()
		defer mu.Unlock()
		if len(records) > 1 {
			written.Add(int64(len(records)))
		}
		for i := range records {
			if err := refusal(string(records[i].Raw)); err != nil {
				return err
			}
		}
		for i := range records {
			confirmed[string(records[i].Raw)]++
		}
		return nil
	}
	to := takingSink(taking{m, take})
	if binds {
		to.Open = func(*node.Init) (stream.Writer, error) { return binding{m, hand}, nil }
	}
	document := func(generation int) string {
		return fmt.Sprintf(`
- {kind: mem, name: s, %sretry: {threshold: 2, backoff: {initial: 1ms}}, ports: {out: [{name: m}], error: [{name: t, port: dead}]}}
- {kind: mixes, name: m, ports: {out: [{name: n}]}}
- {kind: memory_sink, name: n, topic: '%d'}
- {kind: take, name: t}
`, fields, generation)
	}
	r := startWith(t, s, document(0), func(_ context.Context, _ string, v value.Value) error {
		body, _ := node.Describe(v.AsError()).Data.Get("body")
		mu.Lock()
		defer mu.Unlock()
		letters[body.String()]++
		return nil
	}, to.Def(options), mixes())
	for generation := range 3 {
		r.load(document(generation + 1))
	}
	r.until("all to be settled", s.settledAll)
	answers.Wait()
	mu.Lock()
	defer mu.Unlock()
	if !maps.Equal(confirmed, want) {
		t.Errorf("confirmed %d, want %d", len(confirmed), len(want))
	}
	if !maps.Equal(letters, dead) {
		t.Errorf("got %d dead letters, want %d: %v", len(letters), len(dead), letters)
	}
	if written.Load() < int64(len(want)*least/100) {
		t.Errorf("%d of %d records were gathered", written.Load(), len(want))
	}
}

// A picky writer takes bodies, and cannot pack one of them.
type picky struct{ *memory }

func (p *picky) Pack(bodies value.Value) any {
	for _, b := range bodies.Elems() {
		if text, _ := b.AsString(); text == "bad" {
			panic("it cannot be packed")
		}
	}
	return bodies
}

func (p *picky) WritePacked(context.Context, []any) (bool, error) { return true, nil }

// TestGroupPackPanics has a body that cannot be packed: Write gets what was gathered with it.
func TestGroupPackPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBroker(stream.Traits{Redelivers: true})
		for i := range 640 {
			s.add(0, "", map[bool]string{true: `"bad"`, false: `"good"`}[i == 600])
		}
		w := &picky{&memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
			for i, r := range records {
				if text, _ := r.Body.AsString(); text == "bad" {
					done(i, value.Null(), errors.New("bad"))
				}
			}
			done(stream.Rest, value.Null(), nil)
		}}}
		k := sink(w.memory)
		k.Bodies, k.Raw = true, true
		k.Open = func(*node.Init) (stream.Writer, error) { return w, nil }
		r := startWith(t, s, `
- {kind: mem, name: s, retry: {threshold: 0}, ports: {out: [{name: n}], error: [{name: t, port: dead}]}}
- {kind: memory_sink, name: n}
- {kind: take, name: t}
`, nil, k.Def(options))
		r.until("all to be settled", s.settledAll)
		r.want("dead bad node \"n\" (t.yaml:3:3): bad")
	})
}

// TestGroupsOfKeys has a sink that queues, in front of one that does not: so messages of a lane begin
// alone, and those of keys together. Some fail once.
func TestGroupsOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes, each = 8, 200
		s := newBroker(stream.Traits{Lanes: true, Positions: true, Order: stream.OrderRecord})
		for n := range each {
			for lane := range int32(lanes) {
				key := ""
				if n%3 == 0 && lane%2 == 0 {
					key = "k"
				}
				s.add(lane, key, fmt.Sprintf(`"%d%s %d"`, lane, key, n))
			}
		}
		var mu sync.Mutex
		came, latest := make(map[string]int), make(map[string]int)
		m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
			mu.Lock()
			defer mu.Unlock()
			errs := make([]error, len(records))
			for i := range records {
				record := string(records[i].Raw)
				queue, n := queueOf(record)
				if came[record]++; came[record] == 1 && n < latest[queue] {
					t.Errorf("queue %s: %d comes after %d", queue, n, latest[queue])
				}
				if came[record] == 1 && n%7 == 3 {
					errs[i] = errors.New("once")
				}
				latest[queue] = max(latest[queue], n)
			}
			time.AfterFunc(time.Millisecond, func() {
				for i, err := range errs {
					done(i, value.Null(), err)
				}
			})
		}}
		r := startWith(t, s, `
- {kind: mem, name: s, checkpoint: {interval: 1ms}, retry: {threshold: 5, backoff: {initial: 1ms}}, ports: {out: [{name: n}], error: [{name: t, port: dead}]}}
- {kind: memory_sink, name: n, ports: {out: [{name: r}]}}
- {kind: memory_sink, name: r, answer: receipt}
- {kind: take, name: t}
`, nil, sink(m).Def(options))
		r.until("all to be settled", s.settledAll)
		r.want()
		mu.Lock()
		defer mu.Unlock()
		if len(came) != lanes*each {
			t.Errorf("%d of %d have come", len(came), lanes*each)
		}
	})
}
