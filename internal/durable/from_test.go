package durable_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/internal/durable"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A part is a piece of a random workflow: a node with what it leads to.
type part struct {
	name, kind string // act, make, pipe, twice or loop
	next       []*part
}

// parallel are the kinds of parts, and inTurn those that have one effect under way at a time.
var (
	inTurn   = []string{"act", "act", "pipe", "pipe", "twice", "loop"}
	parallel = append(inTurn, "make")
)

// randomPart makes a part, and names its nodes by their number.
func randomPart(r *rand.Rand, kinds []string, depth int, all *[]*part) *part {
	p := &part{name: fmt.Sprint("n", len(*all)), kind: "act"}
	*all = append(*all, p)
	if depth == 0 {
		return p
	}
	p.kind = kinds[r.IntN(len(kinds))]
	n := 1
	if p.kind == "make" || p.kind == "pipe" {
		n = 2 + r.IntN(2)
	}
	for range n {
		p.next = append(p.next, randomPart(r, kinds, depth-1, all))
	}
	return p
}

// document writes the nodes of a workflow.
func document(first *part, all []*part) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- {kind: begin, name: t, ports: {out: [{name: %s}]}}\n", first.name)
	for _, p := range all {
		var links []string
		for i, to := range p.next {
			port := "out"
			if p.kind == "pipe" {
				port = []string{"a", "b", "c"}[i]
			}
			links = append(links, fmt.Sprintf("%s: [{name: %s}]", port, to.name))
		}
		if p.kind == "make" { // all of them in one port
			var to []string
			for _, one := range p.next {
				to = append(to, "{name: "+one.name+"}")
			}
			links = []string{"out: [" + strings.Join(to, ", ") + "]"}
		}
		fmt.Fprintf(&b, "- {kind: %s, name: %s, ports: {%s}}\n", p.kind, p.name, strings.Join(links, ", "))
	}
	return b.String()
}

// under adds the effects that are done again if a run begins from a node, and reports whether that is met. Elements of
// a twice or a loop begin as the ones before; what comes after an answer of the node is done again.
func (p *part) under(from string, again bool, done *[]string) (met bool) {
	met = p.name == from
	again = again || met
	if p.kind == "act" && again {
		*done = append(*done, p.name)
	}
	elements := 1
	if p.kind == "twice" || p.kind == "loop" {
		elements = 2
	}
	for range elements {
		for _, to := range p.next {
			after := again || p.kind == "pipe" && met
			met = to.under(from, after, done) || met
		}
	}
	return met
}

// begins is a world that does a workflow: each effect answers with its name, or with what it got.
func begins(t *testing.T, tells bool) *world {
	w := newWorld(t)
	in, out := []node.Port{{Name: "in"}}, []node.Port{{Name: "out"}}
	w.more = append(w.more, &node.Def{
		Kind: "twice", Summary: "Starts two children, one after the other.", In: in, Out: out, Recall: node.Always(node.Reruns),
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				children := []node.Result{node.Send(0, value.List(value.Int(0), pkt.Payload)), node.Send(0, value.List(value.Int(1), pkt.Payload))}
				return node.Spawn(children, 1, func(_ node.Process, resps []node.Response) node.Result {
					return node.Answer(value.List(resps[0].Payload, resps[1].Payload))
				})
			}), nil
		},
	})
	w.more = append(w.more, &node.Def{
		Kind: "pipe", Summary: "Sends what comes through its three ports in turn.", In: in, Out: []node.Port{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Recall: node.Always(node.Pure),
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result { return stage(0, pkt.Payload) }), nil
		},
	})
	w.more = append(w.more, &node.Def{
		Kind: "loop", Summary: "Sends what comes twice, one after the other.", In: in, Out: out, Recall: node.Always(node.Pure),
		New: func(*node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.SendThen(0, pkt.Payload, func(node.Process, node.Response) node.Result {
					return node.SendThen(0, pkt.Payload, func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) })
				})
			}), nil
		},
	})
	w.effect = func(name string, in value.Value) node.Result { return node.Send(0, effectOf(tells, name, in)) }
	return w
}

// stage sends a payload through a port, and the answer through the next. A port without a link answers with it.
func stage(port int, payload value.Value) node.Result {
	return node.SendThen(port, payload, func(_ node.Process, resp node.Response) node.Result {
		if port == 2 || resp.IsError() {
			return node.Respond(resp)
		}
		return stage(port+1, resp.Payload)
	})
}

func effectOf(tells bool, name string, in value.Value) value.Value {
	if tells {
		return value.List(value.String(name), in)
	}
	return value.List(value.Int(1), value.Int(2))
}

// TestRestartFrom restarts runs of random workflows from each of their nodes: what is under the node is done once
// more, and nothing else, also over a crash.
func TestRestartFrom(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []*part
		first := randomPart(r, parallel, 3, &all)
		doc := document(first, all)
		for _, tells := range []bool{false, true} {
			w := begins(t, tells)
			w.start(doc)
			whole := w.must(node.Submission{Payload: value.List(value.Int(1), value.Int(2))})
			want := answer(whole)
			w.called()
			for _, from := range all {
				var done []string
				from := from.name
				first.under(from, false, &done)
				id, err := w.engine.RestartRunFrom(t.Context(), idOf(whole.Run), from)
				if strings.Contains(fmt.Sprint(err), "nothing of the run is recorded") {
					continue
				}
				if err != nil {
					t.Fatalf("seed %d, from %s: %v\n%s", seed, from, err, doc)
				}
				again := w.stored(uuid.UUID(id).String(), journal.OK)
				if got := responseOf(t, again.Answer); got != want {
					t.Errorf("seed %d, from %s: got %s, want %s\n%s", seed, from, got, want, doc)
				}
				got := strings.Fields(w.called())
				slices.Sort(got)
				slices.Sort(done)
				if !slices.Equal(got, done) {
					t.Errorf("seed %d, from %s: done again %s, want %s\n%s", seed, from, got, done, doc)
				}
			}
			w.stop()
			if t.Failed() {
				return
			}
		}
	}
}

// TestRestartFromCrash is TestRestartFrom with a crash at a random effect.
func TestRestartFromCrash(t *testing.T) {
	crashed := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		var all []*part
		kinds, most := parallel, 9 // effects that may be under way
		if seed%2 == 0 {
			kinds, most = inTurn, 1
		}
		first := randomPart(r, kinds, 3, &all)
		doc, from := document(first, all), all[r.IntN(len(all))].name
		var done []string
		first.under(from, false, &done)
		if len(done) == 0 {
			continue
		}
		w := begins(t, true)
		w.start(doc)
		whole := w.must(node.Submission{Payload: value.List(value.Int(1), value.Int(2))})
		want := answer(whole)
		w.called()
		entered, release := make(chan struct{}), make(chan struct{})
		var calls atomic.Int32
		at := int32(r.IntN(len(done)) + 1)
		normal := w.effect
		w.effect = func(name string, in value.Value) node.Result {
			switch n := calls.Add(1); {
			case n == at:
				close(entered)
				fallthrough
			case n > at:
				<-release
			}
			return normal(name, in)
		}
		id, err := w.engine.RestartRunFrom(t.Context(), idOf(whole.Run), from)
		if err != nil {
			t.Fatal(err)
		}
		<-entered
		crashed++
		w.crash(func() { close(release) })
		w.effect = normal
		w.start(doc)
		run := w.stored(uuid.UUID(id).String(), journal.OK)
		if got := responseOf(t, run.Answer); got != want {
			t.Errorf("seed %d, from %s: got %s, want %s\n%s", seed, from, got, want, doc)
		}
		counts := make(map[string]int)
		for _, name := range strings.Fields(w.called()) {
			counts[name]++
		}
		twice := 0
		for _, name := range done {
			counts[name]--
		}
		for name, n := range counts {
			if n < 0 || n > 0 && !slices.Contains(done, name) {
				t.Errorf("seed %d, from %s, crash at %d: %s done %d times too many; under it are %s\n%s", seed, from, at, name, n, done, doc)
			}
			twice += n
		}
		if twice > most {
			t.Errorf("seed %d, from %s, crash at %d: %d are done twice\n%s", seed, from, at, twice, doc)
		}
		w.stop()
		if t.Failed() {
			return
		}
	}
	if crashed < 20 {
		t.Errorf("%d crashes", crashed)
	}
}

func responseOf(t *testing.T, data []byte) string {
	t.Helper()
	resp, err := durable.Answer(data)
	if err != nil {
		t.Fatal(err)
	}
	return show(resp)
}

// TestRestartFromRefused checks what a run cannot begin from.
func TestRestartFromRefused(t *testing.T) {
	w := newWorld(t)
	w.start(two)
	from := func(run, node string) error {
		_, err := w.engine.RestartRunFrom(t.Context(), idOf(run), node)
		return err
	}
	accepted := w.must(node.Submission{Level: node.LevelAccept, Payload: value.Int(1)})
	answer(accepted)
	w.refused("without records", from(accepted.Run, "b"), 409, "nothing of the run is recorded")
	whole := w.must(node.Submission{Payload: value.Int(1)})
	answer(whole)
	w.refused("of an unknown node", from(whole.Run, "z"), 400, `there is no node "z"`)
	w.refused("of the trigger", from(whole.Run, "t"), 400, `"t" is the trigger`)
	if err := from(uuid.NewString(), "b"); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	w.apply(strings.ReplaceAll(two, "name: t", "name: other"))
	w.refused("without its trigger", from(whole.Run, "b"), 409, "is gone")
}

// TestRestartFromAgain goes on with a run that has begun from a node: it is restarted from another node and from its
// beginning, and retried.
func TestRestartFromAgain(t *testing.T) {
	w := newWorld(t)
	w.start(two)
	whole := w.must(node.Submission{Payload: order(1), Strip: []string{"header.Secret"}})
	answer(whole)
	w.called()
	begun := func(id journal.ID, err error, state journal.State, want string) journal.ID {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		w.stored(uuid.UUID(id).String(), state)
		if got := w.called(); got != want {
			t.Errorf("called %q, want %q", got, want)
		}
		return id
	}
	id, err := w.engine.RestartRunFrom(t.Context(), idOf(whole.Run), "b")
	id = begun(id, err, journal.OK, "b")
	id, err = w.engine.RestartRunFrom(t.Context(), id, "b")
	id = begun(id, err, journal.OK, "b")
	other, err := w.engine.RestartRun(t.Context(), id, nil)
	other = begun(other, err, journal.OK, "a b")
	if from, err := durable.From(w.stored(uuid.UUID(other).String(), journal.OK).Input); err != nil || from != "" {
		t.Errorf("it begins from %q, %v", from, err)
	}
	w.effect = func(name string, in value.Value) node.Result {
		if name == "b" {
			return node.Fail(errors.New("refused"))
		}
		return node.Send(0, in)
	}
	id, err = w.engine.RestartRunFrom(t.Context(), id, "a")
	id = begun(id, err, journal.Failed, "a b")
	w.effect = nil
	begun(id, w.engine.RetryRun(t.Context(), id, false), journal.OK, "b")
	w.effect = func(name string, in value.Value) node.Result { return node.Fail(errors.New("refused")) }
	id, err = w.engine.RestartRunFrom(t.Context(), id, "b")
	id = begun(id, err, journal.Failed, "b")
	w.effect = nil
	begun(id, w.engine.RetryRun(t.Context(), id, false), journal.OK, "b")
}
