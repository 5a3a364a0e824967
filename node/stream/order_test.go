package stream_test

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

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A watch checks the order of the records of each queue at a sink: of a lane, or of a key of it.
type watch struct {
	t  *testing.T
	mu struct {
		sync.Mutex
		queues  map[string]*watchedQueue
		most    int // records of one queue without a key that were not answered
		retries int
	}
}

type watchedQueue struct {
	newest   int          // of those that have come
	failed   map[int]bool // answered with an error, and not yet well
	repeated int          // the latest that has come again, while some have failed
	open     int          // not answered
}

// came notes a record of a queue: "3" is a lane, "k3/3" a key of it.
func (l *watch) came(queue string, n int) *watchedQueue {
	w := l.mu.queues[queue]
	if w == nil {
		w = &watchedQueue{failed: make(map[int]bool)}
		l.mu.queues[queue] = w
	}
	if w.open++; strings.HasPrefix(queue, "k") && w.open > 1 {
		l.t.Errorf("queue %s: %d comes while another one of its key is on its way", queue, n)
	}
	if !strings.HasPrefix(queue, "k") {
		l.mu.most = max(l.mu.most, w.open)
	}
	switch {
	case n > w.newest && w.repeated > 0:
		l.t.Errorf("queue %s: %d comes before all that had failed are over: %v", queue, n, w.failed)
	case n > w.newest:
		w.newest = n
	case !w.failed[n]:
		l.t.Errorf("queue %s: %d comes again, or after %d", queue, n, w.newest)
	case n < w.repeated:
		l.t.Errorf("queue %s: %d comes again after %d", queue, n, w.repeated)
	default:
		w.repeated = n
		l.mu.retries++
	}
	return w
}

// over notes that a record has its end.
func (w *watchedQueue) over(n int) {
	delete(w.failed, n)
	if len(w.failed) == 0 {
		w.repeated = 0
	}
}

const recordDocument = `
- {kind: mem, name: s, checkpoint: {interval: 1ms}, retry: {threshold: 2, backoff: {initial: 1ms}}, ports: {out: [{name: %s}], error: [{name: t, port: dead}]}}
- {kind: waits, name: w, ports: {out: [{name: n}]}}
- {kind: memory_sink, name: n}
- {kind: take, name: t}
`

// waits is a kind that sends on from another goroutine.
func waits() *node.Def {
	return &node.Def{
		Kind: "waits", Summary: "Waits.", Page: node.Page{Example: "kind: waits\n"}, In: []node.Port{{Name: "in", Doc: "A message."}}, Out: []node.Port{{Name: "out", Doc: "It."}},
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Block(func(context.Context) node.Result { return node.Send(0, pkt.Payload) })
			}), nil
		},
	}
}

// TestRecordOrder holds the order record to what it says, while a sink fails: records of a
// key come one at a time, and records of a lane without a key in their order, many of them on
// their way. What fails comes again before the rest, in its order.
func TestRecordOrder(t *testing.T) {
	t.Run("queued", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { recordOrder(t, "n", 20) })
	})
	t.Run("after a wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { recordOrder(t, "w", 1) })
	})
}

func recordOrder(t *testing.T, first string, most int) {
	const lanes, each = 3, 1500
	s := newBroker(stream.Traits{Lanes: true, Positions: true, Order: stream.OrderRecord})
	l := &watch{t: t}
	l.mu.queues = make(map[string]*watchedQueue)
	bad := func(queue string, n int) bool { return (n+len(queue))%211 == 0 } // for ever
	numbers := make(map[string]int)
	for range each {
		for lane := range int32(lanes) {
			key, queue := "", fmt.Sprint(lane)
			if rand.IntN(4) == 0 {
				key = fmt.Sprint("k", rand.IntN(5))
				queue = fmt.Sprint(key, "/", lane)
			}
			numbers[queue]++
			s.add(lane, key, fmt.Sprintf(`"%s %d"`, queue, numbers[queue]))
		}
	}
	var answers sync.WaitGroup
	answer := func(record string, done func(error)) {
		var queue string
		var n int
		if _, err := fmt.Sscanf(strings.Trim(record, `"`), "%s %d", &queue, &n); err != nil {
			t.Errorf("%q: %v", record, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		w := l.came(queue, n)
		answers.Add(1)
		time.AfterFunc(time.Duration(1+rand.IntN(2000))*time.Microsecond, func() {
			defer answers.Done()
			l.mu.Lock()
			w.open--
			var err error
			switch {
			case bad(queue, n):
				err = errors.New("refused")
				w.failed[n] = true
			case rand.IntN(50) == 0:
				err = errors.New("by chance")
				w.failed[n] = true
			default:
				w.over(n)
			}
			l.mu.Unlock()
			done(err)
		})
	}
	m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
		for i := range records {
			answer(string(records[i].Raw), func(err error) { done(i, value.Null(), err) })
		}
	}}
	dead := 0
	r := startWith(t, s, fmt.Sprintf(recordDocument, first), func(_ context.Context, port string, v value.Value) error {
		body, _ := node.Describe(v.AsError()).Data.Get("body")
		queue, number, _ := strings.Cut(body.String(), " ")
		var n int
		if _, err := fmt.Sscan(number, &n); err != nil {
			t.Error(err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.queues[queue].over(n)
		dead++
		return nil
	}, sink(m).Def(options), waits())
	r.until("all to be settled", s.settledAll)
	answers.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for queue, n := range numbers {
		if w := l.mu.queues[queue]; w.newest != n || len(w.failed) > 0 {
			t.Errorf("queue %s: %d of %d have come, %v are left", queue, w.newest, n, w.failed)
		}
	}
	if l.mu.most < most || l.mu.retries < 50 || dead < 10 {
		t.Errorf("got %d on their way, %d retries, %d dead letters", l.mu.most, l.mu.retries, dead)
	}
}

// TestRecordOrderWaits has more before or behind a sink than its queue: then a record waits
// until the one before is settled.
func TestRecordOrderWaits(t *testing.T) {
	for name, test := range map[string]struct {
		document string
		queued   bool
	}{
		"sink":      {"- {kind: mem, name: s, ports: {out: [{name: n}]}}\n- {kind: memory_sink, name: n}\n", true},
		"snippet":   {"- {kind: mem, name: s, ports: {out: [{name: x}]}}\n- {kind: snippet, name: x, language: cel, code: self.body, ports: {out: [{name: n}]}}\n- {kind: memory_sink, name: n}\n", true},
		"order key": {"- {kind: mem, name: s, order: key, ports: {out: [{name: n}]}}\n- {kind: memory_sink, name: n}\n", false},
		"batch":     {"- {kind: mem, name: s, batch: {count: 1}, ports: {out: [{name: n}]}}\n- {kind: memory_sink, name: n}\n", false},
		"receipt":   {"- {kind: mem, name: s, ports: {out: [{name: n}]}}\n- {kind: memory_sink, name: n, answer: receipt}\n", false},
		"pipe":      {"- {kind: mem, name: s, ports: {out: [{name: x}]}}\n- {kind: pipe, name: x, ports: {\"out[0]\": [{name: n}], \"out[1]\": [{name: n}]}}\n- {kind: memory_sink, name: n}\n", false},
		"two links": {"- {kind: mem, name: s, ports: {out: [{name: n}, {name: m}]}}\n- {kind: memory_sink, name: n}\n- {kind: memory_sink, name: m, topic: other}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBroker(stream.Traits{Lanes: true, Positions: true, Order: stream.OrderRecord})
			const count = 20
			for i := range count {
				s.add(0, "", fmt.Sprintf(`"%d"`, i))
			}
			var mu sync.Mutex
			var held []func() // answers
			bodies := make(map[string]bool)
			most := 0
			m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
				mu.Lock()
				defer mu.Unlock()
				for i := range records {
					held = append(held, func() { done(i, value.Int(1), nil) })
					bodies[string(records[i].Raw)] = true
				}
			}}
			r := startWith(t, s, test.document, nil, sink(m).Def(options))
			r.until("all to be settled", func() bool {
				mu.Lock()
				full := len(bodies) == count
				if test.queued && !full && !s.settledAll() && most == 0 { // nothing is answered before all are there
					mu.Unlock()
					return false
				}
				most = max(most, len(bodies))
				clear(bodies)
				answers := held
				held = nil
				mu.Unlock()
				for _, answer := range answers {
					answer()
				}
				return s.settledAll()
			})
			if want := map[bool]int{true: count, false: 1}[test.queued]; most != want {
				t.Errorf("got %d messages at the sink, want %d", most, want)
			}
		})
	}
}
