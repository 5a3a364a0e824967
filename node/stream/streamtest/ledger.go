package streamtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A took is a message that a process of a source has brought.
type took struct {
	id, seq int
	key     string
	size    int
	attempt int
}

// A verdict is how the kind work answers a run.
type verdict struct {
	until  <-chan struct{} // waits for it first, if not nil
	after  time.Duration   // or for this long
	err    error           // fails with it
	panics bool
}

// A fate is what has become of a message.
type fate struct {
	begun, done, failed int
	attempts            []int // what the payloads said
	dead, deadFailed    int
}

// A ledger keeps what workflows have done with messages. Its functions that decide may be
// set until the workflow is loaded; they are called from any goroutine.
type ledger struct {
	feed    *feed
	body    func(value.Value) value.Value
	ordered bool // of each key: one at a time, never backwards

	// decide says how a run ends; nil answers it.
	decide func(run []took) verdict
	// bury says how a dead letter ends; nil takes it.
	bury func(m took, before int) error
	// tell, if set, is called before a run is answered well.
	tell func(run []took)

	mu struct {
		sync.Mutex
		of       map[int]*fate
		last     map[string]int // the highest number of each key that is settled
		running  map[string]int
		tally    tally
		bytes    int
		runs     []int // their sizes
		problems []string
	}
}

func newLedger(body func(value.Value) value.Value) *ledger {
	l := &ledger{body: body, feed: newFeed()}
	l.mu.of = make(map[int]*fate)
	l.mu.last = make(map[string]int)
	l.mu.running = make(map[string]int)
	return l
}

// defs are the kinds of the kit.
func (l *ledger) defs() []*node.Def {
	in := []node.Port{{Name: "in"}}
	return []*node.Def{
		l.feed.def(),
		{
			Kind: "streamtest_work", Summary: "Answers as the row says.", In: in,
			New: func(*node.Init) (node.Node, error) {
				return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result { return l.work(pkt.Payload) }), nil
			},
		},
		{
			Kind: "streamtest_dead", Summary: "Takes dead letters.", In: in,
			New: func(*node.Init) (node.Node, error) {
				return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result { return l.dead(pkt.Payload) }), nil
			},
		},
	}
}

// read returns the message of a payload.
func (l *ledger) read(payload value.Value) (m took, ok bool) {
	body := l.body(payload)
	id, ok := integer(body, "id")
	if !ok {
		return took{}, false
	}
	m.id = id
	m.seq, _ = integer(body, "seq")
	m.attempt, _ = integer(payload, "attempt")
	if key, found := body.Get("key"); found {
		m.key, _ = key.AsString()
	}
	if pad, found := body.Get("pad"); found {
		m.size = pad.Len()
	}
	return m, true
}

func integer(v value.Value, name string) (int, bool) {
	f, _ := v.Get(name)
	if i, ok := f.AsInt(); ok {
		return int(i), true
	}
	if x, ok := f.AsFloat(); ok {
		return int(x), true
	}
	return 0, false
}

func (l *ledger) work(payload value.Value) node.Result {
	var run []took
	payloads := []value.Value{payload}
	if items, ok := payload.Get("items"); ok {
		payload = items
	}
	if payload.Kind() == value.KindList {
		payloads = payloads[:0]
		for _, p := range payload.Elems() {
			payloads = append(payloads, p)
		}
	}
	for _, p := range payloads {
		m, ok := l.read(p)
		if !ok {
			l.mu.Lock()
			l.mu.tally.strange++
			l.mu.Unlock()
			return node.None()
		}
		run = append(run, m)
	}
	l.begin(run)
	var v verdict
	if l.decide != nil {
		v = l.decide(run)
	}
	if v.until == nil && v.after == 0 {
		return l.end(run, v)
	}
	return node.Block(func(ctx context.Context) node.Result {
		var timer <-chan time.Time
		if v.until == nil {
			t := time.NewTimer(v.after)
			defer t.Stop()
			timer = t.C
		}
		select {
		case <-v.until:
		case <-timer:
		case <-ctx.Done():
			v.err = context.Cause(ctx)
		}
		return l.end(run, v)
	})
}

func (l *ledger) begin(run []took) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.runs = append(l.mu.runs, len(run))
	if l.ordered { // a batch may have several messages of a key
		for _, m := range run {
			if l.mu.running[m.key] > 0 {
				l.problemLocked("message %d of key %s began while another of it was under way", m.id, m.key)
			}
		}
	}
	for _, m := range run {
		f := l.fateLocked(m.id)
		if f.begun++; f.begun == 1 {
			l.mu.tally.begun++
		}
		f.attempts = append(f.attempts, m.attempt)
		l.mu.tally.inFlight++
		l.mu.bytes += m.size
		if !l.ordered {
			continue
		}
		l.mu.running[m.key]++
		if last := l.mu.last[m.key]; m.seq < last {
			l.problemLocked("message %d, number %d of key %s, came after number %d was settled", m.id, m.seq, m.key, last)
		}
	}
	t := &l.mu.tally
	t.runs = len(l.mu.runs)
	t.most, t.mostBytes = max(t.most, t.inFlight), max(t.mostBytes, l.mu.bytes)
}

func (l *ledger) end(run []took, v verdict) node.Result {
	ok := v.err == nil && !v.panics
	if ok && l.tell != nil {
		l.tell(run)
	}
	l.mu.Lock()
	for _, m := range run {
		f := l.fateLocked(m.id)
		l.mu.tally.inFlight--
		l.mu.bytes -= m.size
		if l.ordered {
			l.mu.running[m.key]--
		}
		if ok {
			l.mu.last[m.key] = max(l.mu.last[m.key], m.seq)
		}
		switch {
		case !ok:
			f.failed++
		case f.done > 0:
			f.done++
			l.mu.tally.twice++
		default:
			f.done++
			l.mu.tally.done++
		}
	}
	l.mu.Unlock()
	switch {
	case v.panics:
		panic("streamtest: this run panics")
	case v.err != nil:
		return node.Fail(v.err)
	}
	return node.None()
}

// errNoMessage says that what came to the port error does not have the message as data.
var errNoMessage = errors.New("streamtest: a dead letter without its message")

func (l *ledger) dead(payload value.Value) node.Result {
	if !payload.IsError() {
		l.problem("the port error got %s, not an error", payload.Kind())
		return node.None()
	}
	e := node.Describe(payload.AsError())
	if e.Data.Kind() == value.KindList {
		l.problem("the port error got %d messages, not one", e.Data.Len())
		return node.None()
	}
	m, ok := l.read(e.Data)
	if !ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, has := e.Data.Get("body"); !has {
			l.problemLocked("%v: %v", errNoMessage, e)
		}
		l.mu.tally.strange++
		return node.None()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fateLocked(m.id)
	if l.bury != nil {
		if err := l.bury(m, f.deadFailed); err != nil {
			f.deadFailed++
			return node.Fail(err)
		}
	}
	l.mu.last[m.key] = max(l.mu.last[m.key], m.seq)
	if f.dead++; f.dead == 1 {
		l.mu.tally.dead++
	}
	return node.None()
}

func (l *ledger) fateLocked(id int) *fate {
	f := l.mu.of[id]
	if f == nil {
		f = new(fate)
		l.mu.of[id] = f
	}
	return f
}

// fate returns a copy of what has become of a message.
func (l *ledger) fate(id int) fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.mu.of[id]; f != nil {
		return *f
	}
	return fate{}
}

func (l *ledger) problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problemLocked(format, args...)
}

func (l *ledger) problemLocked(format string, args ...any) {
	if len(l.mu.problems) < 10 {
		l.mu.problems = append(l.mu.problems, fmt.Sprintf(format, args...))
	}
}

// A tally counts messages by what has become of them.
type tally struct {
	begun, done, dead int // at least once
	twice             int // answered well more than once, in all
	runs, strange     int
	inFlight, most    int
	mostBytes         int
}

func (l *ledger) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.tally
}
