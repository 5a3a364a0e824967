package streamtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// patience limits waits that have no limit of their own. It is reached only if something
// hangs. The tests of the kit, where something does, change it.
var patience = 30 * time.Second

// calm is how long what must not happen is looked for.
const calm = 200 * time.Millisecond

// resume is how soon work goes on after a fault has healed. Short rows share the machine
// with others, so there it says only that it does.
func resume() time.Duration {
	if full() {
		return min(patience, 5*time.Second)
	}
	return patience
}

// graceful limits how long a shutdown with a grace of 100 ms may take, likewise.
func graceful() time.Duration {
	if full() {
		return 200 * time.Millisecond
	}
	return patience / 2
}

// A rig is what a row runs on.
type rig struct {
	*testing.T
	subject *Subject
	system  *System
	proxy   *faultproxy.Proxy // nil without an address
	addr    string            // of the proxy
	ledger  *ledger
	rnd     *rand.Rand
	log     syncbuffer.Buffer
	journal journal.Store // nil without one

	flow   *flowtest.Flow
	engine *uniflow.Engine // of the flow while it runs; nil otherwise
	mu     struct {
		sync.Mutex
		made int            // messages, which are numbered from 1
		seqs map[string]int // the last number of each key
	}
}

func (s *Subject) rig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, subject: s, ledger: newLedger(s.bodyOf)}
	r.mu.seqs = make(map[string]int)
	seed := rand.Uint64()
	r.rnd = rand.New(rand.NewPCG(seed, 0))
	r.system = s.System(t)
	if r.system.Addr != "" {
		r.proxy = faultproxy.New(t, r.system.Addr, nil)
		r.addr = r.proxy.Addr
		if r.system.Advertise != nil {
			r.system.Advertise(r.addr)
		}
	}
	t.Cleanup(func() {
		if r.proxy != nil {
			r.proxy.Heal()
		}
		r.stop()
		if r.proxy != nil && !t.Failed() {
			r.until("all connections are closed after a shutdown", resume(), func() bool { return r.proxy.Open() == 0 })
		}
		r.ledger.mu.Lock()
		defer r.ledger.mu.Unlock()
		for _, problem := range r.ledger.mu.problems {
			t.Error(problem)
		}
		if t.Failed() {
			t.Logf("seed %d; the end of the log:\n%s", seed, r.log.Tail(4096))
		}
	})
	return r
}

func (s *Subject) bodyOf(payload value.Value) value.Value {
	if s.Body != nil {
		return s.Body(payload)
	}
	body, _ := payload.Get("body")
	return body
}

// flow returns what runs workflows of the subject's kinds and of the kit's, by the time of
// the machine.
func (s *Subject) flow(t testing.TB, l *ledger, log io.Writer) *flowtest.Flow {
	f := flowtest.New(t, append(s.Kinds[:len(s.Kinds):len(s.Kinds)], l.defs()...)...)
	f.Options.Clock = node.SystemClock{}
	f.Options.Log = slog.New(slog.NewTextHandler(log, nil))
	return f
}

// start makes an engine that serves nothing.
func (r *rig) start(grace time.Duration) {
	r.Helper()
	r.flow = r.subject.flow(r, r.ledger, &r.log)
	r.flow.Options.Grace, r.flow.Options.Metrics = grace, true
	if r.journal != nil {
		r.flow.Options.Journal = r.journal
	}
	r.engine = r.flow.Engine()
}

// stop shuts the engine down.
func (r *rig) stop() {
	r.Helper()
	if r.engine == nil {
		return
	}
	engine := r.engine
	r.engine = nil
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	err := engine.Shutdown(ctx)
	if errors.Is(err, uniflow.ErrAbandoned) || err != nil && r.flow.Options.Grace == patience {
		r.Errorf("shutdown: %v", err)
	}
	r.flow.Close()
}

// load serves specs, or ends the row.
func (r *rig) load(document string) {
	r.Helper()
	if r.engine == nil {
		r.start(patience)
	}
	list, err := r.flow.Apply(document)
	if err == nil && list.HasErrors() {
		err = list
	}
	if err != nil {
		r.Fatalf("%v\nof the document\n%s", err, document)
	}
}

// fields are some of a spec.
type fields = map[string]any

// source returns a document: the source, with common fields that its kind has, and the
// kinds of the kit.
func (r *rig) source(common fields) string {
	r.Helper()
	node := r.system.Source(r.addr)
	node["name"] = "source"
	if r.has(node["kind"].(string), "checkpoint", "interval") {
		r.merge(node, fields{"checkpoint": fields{"interval": "50ms"}})
	}
	r.merge(node, fields{
		"retry": fields{"threshold": 1000, "backoff": fields{"initial": "1ms", "max": "20ms"}},
	})
	r.merge(node, common)
	work := []fields{{"name": "work", "port": "in"}}
	node["ports"] = fields{"out": work, "error": []fields{{"name": "dead", "port": "in"}}}
	nodes := []fields{node, {"kind": "streamtest_work", "name": "work"}, {"kind": "streamtest_dead", "name": "dead"}}
	if r.subject.Via != nil {
		via := maps.Clone(r.subject.Via)
		via["name"] = "via"
		if via["ports"] == nil {
			via["ports"] = fields{"out": work}
		}
		node["ports"].(fields)["out"] = []fields{{"name": "via", "port": "in"}}
		nodes = append(nodes, via)
	}
	return document(nodes...)
}

// sink returns a document likewise.
func (r *rig) sink(common fields) string {
	r.Helper()
	node := r.system.Sink(r.addr)
	node["name"] = "sink"
	r.merge(node, common)
	return document(node)
}

// merge adds common fields that the kind of a node has, maps to maps.
func (r *rig) merge(node, common fields) {
	for name, v := range common {
		if !r.has(node["kind"].(string), name) {
			continue
		}
		if into, ok := node[name].(fields); ok {
			if more, ok := v.(fields); ok {
				maps.Copy(into, more)
				continue
			}
		}
		node[name] = v
	}
}

// has reports whether a kind has a field, or one within it.
func (r *rig) has(kind string, path ...string) bool {
	for _, def := range r.subject.Kinds {
		if def.Kind != kind {
			continue
		}
		within := def.Config
		for i, name := range path {
			if !within.Has(name) {
				return false
			}
			if i+1 < len(path) {
				all := within.All()
				within = all[slices.IndexFunc(all, func(f schema.FieldInfo) bool { return f.Name == name })].Fields
			}
		}
		return true
	}
	return false
}

func document(nodes ...fields) string {
	var b strings.Builder
	for _, n := range nodes {
		text, err := json.Marshal(n) // JSON is YAML
		if err != nil {
			panic(fmt.Sprintf("streamtest: a spec of the Subject: %v", err))
		}
		b.WriteString("- " + string(text) + "\n")
	}
	return b.String()
}

// A body is what the kit produces.
type body struct {
	ID  int    `json:"id"`
	Key string `json:"key"`
	Seq int    `json:"seq"`
	Pad string `json:"pad"`
}

// next makes the next message, of a key, with a pad of some bytes.
func (r *rig) next(key string, pad int) body {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.made++
	r.mu.seqs[key]++
	return body{ID: r.mu.made, Key: key, Seq: r.mu.seqs[key], Pad: strings.Repeat("x", pad)}
}

// made returns how many messages there are.
func (r *rig) made() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.made
}

// produce makes n messages of some keys, and gives them to the system.
func (r *rig) produce(n, keys, pad int) {
	r.Helper()
	messages := make([]Message, n)
	for i := range messages {
		b := r.next(fmt.Sprintf("k%d", i%keys), pad)
		messages[i] = Message{Key: b.Key, Body: encode(b)}
	}
	r.system.Produce(r, messages)
}

// until waits for a condition, and ends the row if it does not come.
func (r *rig) until(what string, within time.Duration, ok func() bool) {
	r.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			r.Fatalf("waited %v in vain until %s; %s", within, what, r.state())
		}
	}
}

// never watches for a while that a condition does not come.
func (r *rig) never(what string, wrong func() bool) {
	r.Helper()
	deadline := time.NewTimer(calm)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if wrong() {
			r.Fatalf("%s; %s", what, r.state())
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return
		}
	}
}

func (r *rig) state() string {
	text := fmt.Sprintf("%d made, %+v", r.made(), r.ledger.tally())
	if r.system.Unsettled != nil {
		text += fmt.Sprintf(", %d unsettled", r.system.Unsettled(r))
	}
	if r.proxy != nil {
		text += fmt.Sprintf(", %d connections of %d", r.proxy.Open(), r.proxy.Seen())
	}
	return text
}

// allDone waits until each message was answered well.
func (r *rig) allDone() {
	r.Helper()
	r.until("each message is answered", patience, func() bool { return r.ledger.tally().done == r.made() })
	r.settled()
}

// settled waits until the system knows it.
func (r *rig) settled() {
	r.Helper()
	if r.system.Unsettled != nil {
		r.until("each message is settled", patience, func() bool { return r.system.Unsettled(r) == 0 })
	}
}

// once checks that each message was answered well once.
func (r *rig) once() {
	r.Helper()
	if t := r.ledger.tally(); t.twice > 0 {
		r.Errorf("%d messages more than were made: %s", t.twice, r.state())
	}
}

func encode(b body) []byte {
	raw, err := json.Marshal(b)
	if err != nil {
		panic(err) // it has only texts and numbers
	}
	return raw
}
