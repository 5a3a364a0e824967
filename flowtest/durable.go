package flowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/clock"
	"github.com/uniflow-labs/uniflow/internal/suite"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// ConformDurable is the part durable of [Conform] alone, for a config with which a kind takes part in durable
// processes in another way, such as one that writes. No other test may run at the same time.
func ConformDurable(t *testing.T, c Case) {
	t.Helper()
	k := newConformance(t, c)
	k.finally(t, func() { t.Run("durable", func(t *testing.T) { k.checkDurable(t) }) })
}

// The names of the nodes around the node to test, in a durable process:
//
//	start -> before -> call -> the node
//	                        -> after, with what the node has answered
//
// Before and after are effects. So what comes to the node is to be durable before it changes something, and all
// that it does has happened before the last record.
const (
	nameStart  = "conform start"
	nameBefore = "conform before"
	nameCall   = "conform call"
	nameAfter  = "conform after"
)

// later is between a program that is gone and the next one. A node that asks for the time, or waits again, is
// noticed by that.
const later = 36 * time.Hour

// A flight is what became of a durable process in one program.
type flight struct {
	answers  []value.Value  // of the node to test, in a list; an empty one is None
	last     node.Response  // the last of them, as it came
	changes  int            // outside, by the node
	arrived  map[string]int // packets, by probe
	took     time.Duration  // by the clock of the test; 0 with that of the machine
	run      *journal.Run
	records  []journal.Record
	recall   node.Recall // of the packet
	ref      node.Ref    // of the node to test
	gone     bool        // the program has crashed
	lastStep time.Time   // when that was, by the clock
}

// recorded counts the records of a type about the node.
func (f *flight) recorded(t journal.RecordType) (n int) {
	for i := range f.records {
		if r := &f.records[i]; r.Node == f.ref.ID && r.Type == t {
			n++
		}
	}
	return n
}

// checkDurable runs the node in a durable process: whole, and then with a crash after each step of its journal.
func (k *conformance) checkDurable(t testing.TB) {
	document := k.durableDocument()
	probe := k.bare(t)
	probe.Options.Kinds = append(slices.Clone(k.Kinds), startDef(probe, func(node.Ref) {}, nil), callDef(nil))
	refusal := "cannot go on after a crash: " + k.def.Kind + " is"
	list := probe.Check(document)
	refused := list.HasErrors() && strings.Contains(list.Err().Error(), refusal)
	attached := k.recall() == node.Attached
	switch {
	case attached && !refused:
		t.Errorf("it is attached, but check does not refuse it in a durable process: got %v", list)
	case refused && !attached:
		t.Errorf("a node of the document is attached, so no durable process can come to this one: %v", list)
	}
	if attached || refused {
		return
	}

	whole := k.fly(t, document, memory.New(), 0, epoch, false)
	if whole == nil {
		return
	}
	k.checkWhole(t, whole)
	// What differs from one time to the next differs here: the time, the state of the node, chance.
	again := k.fly(t, document, memory.New(), 0, epoch.Add(later), whole.recall == node.Pure)
	if again == nil {
		return
	}
	if whole.recall == node.Pure && !same(whole, again) {
		t.Errorf("it is pure, so the same packet has the same answer, at any time and after others: got %s, and then %s", shownAll(whole), shownAll(again))
		return
	}
	// What is outside may answer otherwise the next time, and so may what has no record yet.
	steady := whole.recall != node.Effects && whole.recall != node.Reads && same(whole, again)
	for step := 1; ; step++ {
		store := memory.New()
		before := k.fly(t, document, store, step, epoch, whole.recall == node.Pure)
		if before == nil {
			return
		}
		if !before.gone { // it has no more steps
			if step <= len(whole.records)+1 {
				t.Errorf("it has %d steps, and had %d before: what it does differs from one time to the next", step, len(whole.records)+2)
			}
			return
		}
		after := k.fly(t, document, store.Reopen(), 0, before.lastStep.Add(whole.took+later), false)
		if after == nil || !k.checkCrash(t, whole, before, after, steady) {
			return
		}
	}
}

// checkWhole checks a process without a crash.
func (k *conformance) checkWhole(t testing.TB, whole *flight) {
	sound(t, "in a durable process", whole.last)
	if whole.run.State != journal.OK {
		t.Errorf("the durable process is %s: %s", whole.run.State, whole.run.Error)
	}
	if whole.recall == node.Holds && whole.took > 0 && whole.recorded(journal.Hold) == 0 {
		t.Errorf("it says holds, but has waited for %s without a record, so after a crash it waits for all of it again: use Wait of node.Run, or node.Sleep", whole.took)
	}
	switch quiet := whole.recall == node.Pure || whole.recall == node.Reads; {
	case quiet && whole.changes > 0:
		t.Errorf("it says %s, but it has changed something outside, %d times: say node.Effects, or node.Reruns if it has steps", whole.recall, whole.changes)
	case !quiet && whole.changes == 0 && k.Changes != nil:
		t.Errorf("Changes of the case has counted none of a durable process, so one that is made again would not be found")
	case whole.recall == node.Effects && whole.changes == 0 && k.Unseen == "":
		t.Errorf("it says effects, and no change was counted: count them in Changes of the case, or say in Unseen why that cannot be done")
	}
}

// checkCrash compares a process that a crash has cut with the whole one.
func (k *conformance) checkCrash(t testing.TB, whole, before, after *flight, steady bool) bool {
	t.Helper()
	good, what := true, before.cut()
	fail := func(format string, args ...any) {
		t.Helper()
		good = false
		t.Errorf("%s: %s", what, fmt.Sprintf(format, args...))
	}
	ended := before.run.State.Ended()
	all := ended || len(before.records) == len(whole.records)
	settled := all || before.recorded(journal.Result) > 0
	if after.run.State != whole.run.State {
		fail("the run is %s, want %s: %s", after.run.State, whole.run.State, after.run.Error)
		return false
	}
	// What comes to the node is not durable.
	if len(before.records) == 0 && before.changes > 0 {
		fail("it has changed something outside, %d times, before what led to it was durable: a node with steps does that in a node.Step", before.changes)
	}
	switch got := before.changes + after.changes; {
	case settled && got != whole.changes:
		fail("it has changed something outside %d times before the crash and %d times after it, although all was recorded: want %d in all", before.changes, after.changes, whole.changes)
	case got < whole.changes || got > 2*whole.changes:
		fail("it has changed something outside %d times before the crash and %d times after it, and %d times without a crash", before.changes, after.changes, whole.changes)
	}
	switch {
	case ended: // nothing runs again
	case len(after.answers) == 0:
		fail("the node has not answered again")
	case settled && len(before.answers) > 0 && !equal(before.answers[0], after.answers[0]):
		fail("with its record, got the answer %s after the crash, want %s as before it", after.answers[0], before.answers[0])
	case steady && !same(whole, after), after.last.IsError() != whole.last.IsError():
		fail("got the answer %s, and %s without a crash", shownAll(after), shownAll(whole))
	}
	if n := before.recorded(journal.Hold); n > 0 && n == whole.recorded(journal.Hold) && after.took > 0 {
		fail("it has waited for %s although its time was over: want the rest of the time, as Wait of node.Run and node.Sleep do", after.took)
	}
	for name, want := range whole.arrived {
		if got := before.arrived[name] + after.arrived[name]; got < want || got > 2*want || all && name != nameAfter && got != want {
			fail("%s got %d packets before the crash and %d after it, and %d without a crash", name, before.arrived[name], after.arrived[name], want)
		}
	}
	for name := range after.arrived {
		if whole.arrived[name] == 0 {
			fail("%s got %d packets after the crash, and none without", name, after.arrived[name])
		}
	}
	return good
}

// cut says after which step the program was gone.
func (f *flight) cut() string {
	if len(f.records) == 0 {
		return "a crash after the start"
	}
	r := f.records[len(f.records)-1]
	by := "another node"
	if r.Node == f.ref.ID {
		by = "the node"
	}
	return fmt.Sprintf("a crash after record %d, a %s of %s", len(f.records), r.Type, by)
}

func same(a, b *flight) bool { return slices.EqualFunc(a.answers, b.answers, equal) }

func equal(a, b value.Value) bool { return a.Equal(b) }

func shownAll(f *flight) string {
	if len(f.answers) == 0 {
		return "no answer"
	}
	return f.answers[0].String()
}

// recall returns what the node declares under its config.
func (k *conformance) recall() node.Recall {
	if k.def.Recall == nil {
		return node.Effects
	}
	cfg, _ := k.def.Config.Decode(k.spec.Config) // what is wrong is found by Load
	return k.def.Recall(cfg)
}

// changes counts what the node has done outside until now.
func (k *conformance) changes() int {
	if k.Changes == nil {
		return 0
	}
	return k.Changes()
}

var errGone = errors.New("the program is gone")

// fly runs the durable process in a program of its own: to its end, or until the program is gone after a number of
// steps, if that is above 0. A process that is in the journal goes on. It returns nil if that cannot be compared, and
// has failed the test then. warm sends a packet to the node before.
func (k *conformance) fly(t testing.TB, document string, store *memory.Store, steps int, now time.Time, warm bool) *flight {
	t.Helper()
	f := k.bare(t)
	within, gone := context.WithCancelCause(t.Context())
	defer gone(nil)
	if f.Options.Clock == nil {
		f.time = clock.New(now)
	}
	got := &flight{arrived: make(map[string]int)}
	f.Options.Journal = store
	var crashing *suite.CrashStore
	if steps > 0 {
		crashing = suite.NewCrashStore(store, steps, f.time, func(error) { gone(errGone) })
		f.Options.Journal = crashing
	}
	var reader node.Reader
	def := *k.def
	def.New = func(init *node.Init) (node.Node, error) {
		n, err := k.def.New(init)
		if init.Node.Name == k.spec.Name && init.Node.Namespace == k.spec.Namespace {
			got.ref = init.Node
			reader, _ = n.(node.Reader)
		}
		return n, err
	}
	var heard struct {
		sync.Mutex
		answers []value.Value
		parts   int
	}
	f.Options.Kinds = slices.Clone(k.Kinds)
	f.Options.Kinds[slices.Index(k.Kinds, k.def)] = &def
	trigger := ""
	f.Options.Kinds = append(f.Options.Kinds, startDef(f, func(ref node.Ref) { trigger = ref.ID }, func() {
		heard.Lock()
		defer heard.Unlock()
		heard.parts++
	}), callDef(func(r node.Response) value.Value {
		heard.Lock()
		defer heard.Unlock()
		answer := value.List()
		if !r.None {
			answer = value.List(value.ErrorMap(r.Payload))
		}
		heard.answers = append(heard.answers, answer)
		got.last = r
		return answer
	}))
	f.Probe(nameBefore).Do(func(node.Process, node.Packet) node.Result { return node.Send(0, k.Payload) })

	changed, kept := k.changes(), others(t, store)
	f.Load(document)
	if warm {
		f.Send(k.spec.Name, k.Payload)
		f.Reset()
		changed = k.changes()
	}
	submitted, isDurable := source{f, nameStart}.starter().(node.DurableStarter)
	if !isDurable {
		t.Fatal("the engine's starters start no durable processes")
	}
	begun := f.Now()
	f.doing = "a durable process: "
	resp := f.call(within, func(ctx context.Context) node.Response {
		r, err := submitted.Submit(ctx, node.Submission{Level: node.LevelCheckpoint, Payload: value.Null(), Key: []byte("conform"), KeyTTL: 365 * 24 * time.Hour})
		if err != nil {
			return node.Response{Payload: value.Error(err)}
		}
		defer r.Leave()
		if err := f.Options.Clock.Wait(ctx, r.Done); err != nil {
			return node.Response{Payload: value.Error(err)}
		}
		return r.Answer()
	}).Response()
	if f.time != nil {
		got.took = f.Now().Sub(begun)
	}
	got.gone = within.Err() != nil
	f.Close() // which ends what is under way; buffers are written
	got.changes = k.changes() - changed
	for _, a := range f.Arrivals() {
		got.arrived[a.Probe]++
	}
	heard.Lock()
	got.answers, got.changes = heard.answers, got.changes+heard.parts
	heard.Unlock()
	if got.recall = k.recall(); got.recall == node.Effects && reader != nil && reader.Reads(node.Packet{Payload: k.Payload}) {
		got.recall = node.Reads
	}
	if crashing != nil {
		got.lastStep = crashing.Last()
	}
	store = store.Reopen()
	defer store.Close()
	if err := got.read(t.Context(), store, trigger); err != nil {
		t.Errorf("the journal: %v; the process was answered with %s", err, Show(resp))
		return nil
	}
	got.changes += others(t, store) - kept
	if got.recall == node.Pure && got.recorded(journal.Result) > 0 { // see [node.Run.Keep]
		got.recall = node.Reads
	}
	return got
}

// read reads the run of a trigger.
func (f *flight) read(ctx context.Context, store *memory.Store, trigger string) error {
	list, err := store.List(ctx, journal.Filter{Trigger: trigger})
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return fmt.Errorf("it has %d runs, want 1", len(list))
	}
	f.run = list[0]
	f.records, err = store.Records(ctx, f.run.ID)
	return err
}

// others counts what nodes have put into a journal: runs in addition to that of the trigger, such as items of queues, and
// signals.
func others(t testing.TB, store *memory.Store) int {
	t.Helper()
	runs, err := store.List(t.Context(), journal.Filter{})
	signals, wrong := store.Untaken(t.Context(), time.Time{})
	if err := errors.Join(err, wrong); err != nil {
		t.Fatal(err)
	}
	return max(0, len(runs)-1) + len(signals)
}

// durableDocument returns the document, with a durable process that comes to the node.
func (k *conformance) durableDocument() string {
	text := func(name, s string) value.Field { return field(name, value.String(s)) }
	link := func(name, port string) value.Value {
		return value.List(value.Map(text("name", name), text("port", port)))
	}
	var document strings.Builder
	document.WriteString(k.Document)
	for _, n := range []struct {
		kind, name string
		ports      []value.Field
	}{
		{kindStart, nameStart, []value.Field{field("out", link(nameBefore, "in"))}},
		{"probe", nameBefore, []value.Field{field("out", link(nameCall, "in"))}},
		{kindCall, nameCall, []value.Field{field("out[0]", link(k.spec.Name, k.def.In[0].Name)), field("out[1]", link(nameAfter, "in"))}},
	} {
		fmt.Fprintf(&document, "\n---\n%s\n", compact(value.Map(
			text("kind", n.kind), text("name", n.name), text("namespace", k.spec.Namespace), field("ports", value.Map(n.ports...)),
		)))
	}
	return document.String()
}

// The kinds of the nodes around the node to test.
const (
	kindStart = "conform_start"
	kindCall  = "conform_call"
)

// startDef is the kind of the trigger. Its processes have a conversation, and someone who takes parts of the answer.
func startDef(f *Flow, made func(node.Ref), part func()) *node.Def {
	return &node.Def{
		Kind:    kindStart,
		Summary: "Starts a durable process.",
		Config:  schema.Fields(schema.String("durability").Doc("Where findings about durable processes are placed.")),
		Out:     []node.Port{{Name: "out", Doc: "Null."}},
		Recall:  node.Always(node.Effects),
		Traits: node.Fixed(node.Traits{
			Is: node.Durable, Gives: []string{node.GivesDurability, node.GivesParts, node.GivesConversation},
		}),
		New: func(init *node.Init) (node.Node, error) {
			made(init.Node)
			return &startNode{sourceNode{flow: f, name: init.Node.Name}, listener(part)}, nil
		},
	}
}

type startNode struct {
	sourceNode
	parts listener
}

// Visit implements [node.Host].
func (n *startNode) Visit(value.Value) *node.Visit {
	return &node.Visit{Context: func(ctx context.Context) context.Context {
		return node.WithParts(node.WithConversation(ctx, "conform"), n.parts)
	}}
}

// A listener is called for each part of an answer.
type listener func()

// Part implements [node.Parts].
func (l listener) Part(context.Context, value.Value) error {
	l()
	return nil
}

// callDef is the kind of the node that sends to the node to test, and then what answered makes of its answer.
func callDef(answered func(node.Response) value.Value) *node.Def {
	return &node.Def{
		Kind:    kindCall,
		Summary: "Sends a packet, and then the answer.",
		Config:  schema.Fields(),
		In:      []node.Port{{Name: "in", Doc: "Anything."}},
		Out:     []node.Port{{Name: "out", Doc: "The packet, and the answer.", Indexes: node.Exactly(2)}},
		Recall:  node.Always(node.Pure),
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.SendThen(0, pkt.Payload, func(_ node.Process, r node.Response) node.Result { return node.Send(1, answered(r)) })
			}), nil
		},
	}
}
