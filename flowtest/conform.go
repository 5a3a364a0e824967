package flowtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A Case is what [Conform] has to know about a kind.
type Case struct {
	Kind  string      // the kind to test
	Kinds []*node.Def // all kinds that the documents use, that kind among them

	// Document has the node to test: the first of its kind, which has a name. Links to
	// names without a spec lead to probes. It must load, also twice at the same time,
	// so a port to listen on is 0. Empty is the Def's example.
	Document string

	// Payload is one that the node sends on, if it sends on any.
	Payload value.Value

	// Example are payloads for the node in the Def's example, which must answer
	// without an error. Without any, the example is checked and not loaded.
	Example []value.Value

	// Allocs is the most that one packet may allocate, everything included except for
	// what is downstream; below 0 sets no limit.
	Allocs float64

	// Changes, which may be nil, counts what packets have changed outside until now: requests that
	// do more than read, rows, lines of a file. It is called while no packet is under way. Parts of the answer,
	// signals and items of queues are counted without it.
	Changes func() int

	// Unseen is why no changes are counted although the kind says [node.Effects], such as that it
	// has no server to talk to.
	Unseen string

	// Close, which may be nil, ends what the case has started, such as a server, before
	// the goroutines left are counted.
	Close func()

	// Prepare, which may be nil, changes a flow before its first Load.
	Prepare func(*Flow)
}

// Conform checks what every kind has to fulfil, as subtests:
//
//   - def: the Def is complete, and its example loads and runs;
//   - config: a value of a wrong type is a finding at each field, and no value panics;
//   - payloads: each of [Samples] has an answer;
//   - downstream: so has a packet whose downstream answers, fails, answers None, or
//     panics;
//   - cancel: a process that is cancelled ends, before it begins, while its downstream
//     does not answer, and while many of its packets wait;
//   - order: many packets of a process have an answer each; if the kind is [node.Pure]
//     it is the one that a packet alone has;
//   - concurrent: so have the packets of many processes;
//   - reload: a packet that is under way while the document is loaded again has the
//     answer that it would have had;
//   - start: a packet from a workflow at the port init, which comes before Open, has the answer
//     [node.ErrNotOpen] if the kind is a [node.Opener]; packets from the port active, which
//     come before Serve, and those of processes have answers as ever;
//   - allocs: a packet stays within its budget of allocations;
//   - durable: a durable process goes on after a crash at each step of its journal. With what is
//     recorded it has the same answer, and nothing is changed outside for the second time, except for
//     what was under way. What the node does is what its Recall says. It needs the Changes of the case;
//   - and none of this leaves a goroutine behind.
//
// No other test may run at the same time.
func Conform(t *testing.T, c Case) {
	t.Helper()
	conform(t, c, func(name string, check func(testing.TB)) {
		t.Run(name, func(t *testing.T) { check(t) })
	})
}

func conform(t testing.TB, c Case, run func(name string, check func(testing.TB))) {
	t.Helper()
	k := newConformance(t, c)
	k.finally(t, func() {
		run("def", k.checkDef)
		run("config", k.checkConfig)
		if k.def.Starts() {
			run("reload", k.checkReloadTrigger)
		} else {
			run("payloads", k.checkPayloads)
			run("downstream", k.checkDownstream)
			run("cancel", k.checkCancel)
			run("order", k.checkOrder)
			run("concurrent", k.checkConcurrent)
			run("reload", k.checkReload)
			run("start", k.checkStart)
			run("allocs", k.checkAllocs)
			run("durable", k.checkDurable)
		}
	})
}

func newConformance(t testing.TB, c Case) *conformance {
	t.Helper()
	at := slices.IndexFunc(c.Kinds, func(d *node.Def) bool { return d.Kind == c.Kind })
	if at < 0 {
		t.Fatalf("kind %q is not among the kinds of the case", c.Kind)
	}
	k := &conformance{Case: c, def: c.Kinds[at]}
	if k.Document == "" {
		k.Document = k.def.Example
	}
	k.nodes = parse(k.Document)
	i := slices.IndexFunc(k.nodes, func(n *spec.Node) bool { return n.Kind == c.Kind })
	if i < 0 || k.nodes[i].Name == "" {
		t.Fatalf("the document has no node of kind %q with a name:\n%s", c.Kind, k.Document)
	}
	k.spec = k.nodes[i]
	return k
}

// finally does checks, and fails if they leave goroutines behind.
func (k *conformance) finally(t testing.TB, checks func()) {
	t.Helper()
	left := leak.Since()
	checks()
	if k.Close != nil {
		k.Close()
	}
	if stacks := left(); len(stacks) > 0 {
		t.Errorf("%d goroutines left behind:\n\n%s", len(stacks), strings.Join(stacks, "\n\n"))
	}
}

func parse(document string) []*spec.Node {
	nodes, _ := spec.Parse(spec.Document{File: "test.yaml", Data: []byte(document)}, spec.ParseOptions{Namespace: "default"})
	return nodes
}

type conformance struct {
	Case
	def   *node.Def
	nodes []*spec.Node
	spec  *spec.Node // the node to test
}

// flow serves the document.
func (k *conformance) flow(t testing.TB) *Flow {
	t.Helper()
	f := k.bare(t)
	f.Load(k.Document)
	return f
}

func (k *conformance) bare(t testing.TB) *Flow {
	f := New(t, k.Kinds...)
	if k.Prepare != nil {
		k.Prepare(f)
	}
	return f
}

// probes are the names that the document links to.
func (k *conformance) probes() []string {
	var names []string
	for _, n := range k.nodes {
		for _, p := range n.Ports {
			for _, l := range p.Links {
				if l.Name != "" && !slices.ContainsFunc(k.nodes, func(n *spec.Node) bool { return n.Name == l.Name }) {
					names = append(names, l.Name)
				}
			}
		}
	}
	return names
}

// everywhere makes all probes do the same.
func (k *conformance) everywhere(f *Flow, do func(node.Process, node.Packet) node.Result) {
	for _, name := range k.probes() {
		f.Probe(name).Do(do)
	}
}

// sound fails if a response shows a mistake in the kind.
func sound(t testing.TB, what string, r node.Response) {
	t.Helper()
	if !r.IsError() {
		return
	}
	switch code := diag.Code(node.Describe(r.Payload.AsError()).Code); code {
	case diag.CodePanic, diag.CodeMisuse, diag.CodeBug:
		t.Errorf("%s: got %v", what, r.Payload.AsError())
	}
}

func (k *conformance) checkDef(t testing.TB) {
	d := k.def
	switch {
	case d.Summary == "" || !strings.HasSuffix(d.Summary, "."):
		t.Errorf("got Summary %q, want a sentence", d.Summary)
	case d.Example == "":
		t.Error("it has no Example")
	case d.Recall == nil && d.Subgraph == node.NoSubgraph:
		t.Error("it has no Recall: say node.Always(node.Effects) if it changes something outside")
	}
	for _, p := range append(append([]node.Port(nil), d.In...), d.Out...) {
		if p.Doc == "" {
			t.Errorf("port %s has no Doc", p.Name)
		}
	}
	documented(t, "", d.Config)
	f := k.bare(t)
	if list := f.Check(d.Example); list.HasErrors() {
		t.Fatalf("example: %v", list)
	}
	if len(k.Example) == 0 {
		return
	}
	f.Load(d.Example)
	nodes := parse(d.Example)
	i := slices.IndexFunc(nodes, func(n *spec.Node) bool { return n.Kind == d.Kind })
	for _, payload := range k.Example {
		if r := f.Send(nodes[i].Name, payload); r.IsError() {
			t.Errorf("example, %s: got %v", payload, r.Payload.AsError())
		}
	}
}

func documented(t testing.TB, prefix string, o schema.Object) {
	t.Helper()
	for _, field := range o.All() {
		if field.Doc == "" {
			t.Errorf("field %s%s has no Doc", prefix, field.Name)
		}
		documented(t, prefix+field.Name+".", field.Fields)
	}
}

func (k *conformance) checkPayloads(t testing.TB) {
	f := k.flow(t)
	f.quiet = true
	for _, s := range append(Samples(), Sample{"the case's", k.Payload}) {
		f.doing = s.Name + ": "
		sound(t, s.Name, f.Send(k.spec.Name, s.Payload))
	}
	if strings.Contains(f.Log(), string(diag.CodePanic)) {
		t.Errorf("a node panicked:\n%s", f.Log())
	}
}

var errDownstream = errors.New("downstream failed")

func (k *conformance) checkDownstream(t testing.TB) {
	f := k.flow(t)
	for _, d := range []struct {
		name   string
		do     func(node.Process, node.Packet) node.Result
		panics bool
	}{
		{"answers", Echo, false},
		{"answers null", Answer(value.Null()), false},
		{"answers None", None, false},
		{"answers an error", Answer(value.Error(errDownstream)), false},
		{"fails", Fail(errDownstream), false},
		{"answers later", func(p node.Process, pkt node.Packet) node.Result {
			return node.Sleep(1, func(p node.Process, r node.Response) node.Result { return Echo(p, pkt) })
		}, false},
		{"panics", Panic, true},
		{"answers after that", Echo, false},
	} {
		k.everywhere(f, d.do)
		f.doing = "a downstream that " + d.name + ": "
		r := f.Send(k.spec.Name, k.Payload)
		if !d.panics {
			sound(t, "a downstream that "+d.name, r)
		}
	}
}

// startUntil starts a process, and returns when a packet of it has come to a probe, or it
// has ended because it goes another way. place hands hold to the probes.
func (k *conformance) startUntil(f *Flow, place func(node.ReceiverFunc), hold node.ReceiverFunc) *Call {
	either := make(chan struct{})
	reached := sync.OnceFunc(func() { close(either) })
	place(func(p node.Process, pkt node.Packet) node.Result {
		reached()
		return hold(p, pkt)
	})
	call := f.call(f.tb.Context(), func(ctx context.Context) node.Response {
		defer reached()
		return f.send(ctx, k.spec.Name, k.Payload)
	})
	f.Wait(either)
	return call
}

// many is how many packets are sent at a time.
const many = 100

// sendMany sends many packets to the node in one process.
func (k *conformance) sendMany(t testing.TB, f *Flow, ctx context.Context) (resps []node.Response, all node.Response) {
	t.Helper()
	f.Load(k.Document + k.before("source", "conform", "out[0]"))
	packets := make([]node.Out, many)
	for i := range packets {
		packets[i] = node.Out{Payload: k.Payload}
	}
	all = f.Source("conform").Run(ctx, node.SendAll(packets, func(_ node.Process, got []node.Response) node.Result {
		resps = got
		return node.None()
	}))
	return resps, all
}

// before returns the spec of a node whose out-port leads to the node, for the end of the document.
func (k *conformance) before(kind, name, out string) string {
	port := k.def.In[0].Name
	return "\n---\n" + compact(value.Map(
		field("kind", value.String(kind)), field("name", value.String(name)), field("namespace", value.String(k.spec.Namespace)),
		field("ports", value.Map(field(out, value.List(value.Map(field("name", value.String(k.spec.Name)), field("port", value.String(port))))))),
	)) + "\n"
}

func field(name string, v value.Value) value.Field { return value.Field{Name: name, Value: v} }

func (k *conformance) checkCancel(t testing.TB) {
	f := k.flow(t)
	release := make(chan struct{})
	defer close(release) // forks go on when their process is cancelled
	hold := f.Until(release, Echo)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	sound(t, "cancelled before it begins", f.call(done, func(ctx context.Context) node.Response { return f.send(ctx, k.spec.Name, k.Payload) }).Response())

	for _, name := range k.probes() {
		k.everywhere(f, Echo)
		call := k.startUntil(f, func(hold node.ReceiverFunc) { f.Probe(name).Do(hold) }, hold)
		call.Cancel()
		sound(t, name+" never answers", call.Response())
	}

	k.everywhere(f, hold)
	ctx, cancel := context.WithCancel(t.Context())
	stop := f.Options.Clock.AfterFunc(0, func(context.Context) { cancel() })
	_, all := k.sendMany(t, f, ctx)
	stop()
	cancel()
	sound(t, "many packets wait", all)
}

func (k *conformance) checkOrder(t testing.TB) {
	f := k.flow(t)
	alone := f.Send(k.spec.Name, k.Payload)
	resps, all := k.sendMany(t, f, t.Context())
	sound(t, "many packets", all)
	if all.IsError() {
		t.Fatalf("many packets: got %v", all.Payload.AsError())
	}
	if len(resps) != many {
		t.Fatalf("got %d responses for %d packets", len(resps), many)
	}
	if !k.pure() {
		return
	}
	for i, r := range resps {
		if Show(r) != Show(alone) {
			t.Fatalf("packet %d of a pure kind: got %s, want %s as for a packet alone", i, Show(r), Show(alone))
		}
	}
}

// pure reports whether the node is pure under its config.
func (k *conformance) pure() bool {
	return k.recall() == node.Pure
}

func (k *conformance) checkConcurrent(t testing.TB) {
	f := k.flow(t)
	f.quiet = true
	calls := make([]*Call, many)
	for i := range calls {
		calls[i] = f.Start(k.spec.Name, k.Payload)
	}
	for _, c := range calls {
		sound(t, "many processes", c.Response())
	}
}

func (k *conformance) checkReloadTrigger(t testing.TB) {
	f := k.flow(t)
	f.Load(k.Document)
	f.Load(k.Document)
}

func (k *conformance) checkReload(t testing.TB) {
	f := k.flow(t)
	want := Show(f.Send(k.spec.Name, k.Payload))
	release := make(chan struct{})
	call := k.startUntil(f, func(hold node.ReceiverFunc) { k.everywhere(f, hold) }, f.Until(release, Echo))
	f.Load(k.Document)
	close(release)
	got := Show(call.Response())
	after := f.Send(k.spec.Name, k.Payload)
	sound(t, "after a reload", after)
	if k.pure() && (got != want || Show(after) != want) {
		t.Errorf("got %s over a reload, and %s after it, want %s", got, Show(after), want)
	}
}

// checkStart sends from the ports init and active of the node to the node.
func (k *conformance) checkStart(t testing.TB) {
	f := k.bare(t)
	opens := false
	def := *k.def
	def.New = func(init *node.Init) (node.Node, error) {
		n, err := k.def.New(init)
		_, opens = n.(node.Opener)
		return n, err
	}
	f.Options.Kinds = slices.Clone(k.Kinds)
	f.Options.Kinds[slices.Index(k.Kinds, k.def)] = &def

	early := *k.spec
	answers := make(map[string]node.Response)
	more := ""
	for _, port := range []string{"init", "active"} {
		name := "conform_" + port
		early.Ports = append(slices.Clip(early.Ports), spec.Port{Name: port, Links: []spec.Link{{Name: name, Port: "in"}}})
		more += k.before("probe", name, "out")
		f.Probe(name).Do(func(node.Process, node.Packet) node.Result {
			return node.SendThen(0, k.Payload, func(_ node.Process, r node.Response) node.Result {
				answers[port] = r
				return node.None()
			})
		})
	}
	nodes := slices.Clone(k.nodes)
	nodes[slices.Index(nodes, k.spec)] = &early
	started := conformance{Case: k.Case, def: k.def, nodes: nodes, spec: &early}
	src := f.source(started.document(early.Config.ToValue()) + more)
	f.ready()
	if r := f.call(t.Context(), func(ctx context.Context) node.Response { // which may hang
		list, err := f.engine.Apply(ctx, src)
		return node.Response{Payload: value.Error(errors.Join(err, list.Err()))}
	}).Response(); r.IsError() {
		t.Fatal(r.Payload.AsError())
	}
	if len(answers) != 2 {
		t.Fatalf("got answers at %v, want one at init and one at active", slices.Collect(maps.Keys(answers)))
	}
	if r := answers["init"]; opens && !errors.Is(r.Payload.AsError(), node.ErrNotOpen) {
		t.Errorf("before Open: got %s, want %v", Show(r), node.ErrNotOpen)
	}
	sound(t, "before Open", answers["init"])
	sound(t, "before Serve", answers["active"])
	if errors.Is(answers["active"].Payload.AsError(), node.ErrNotOpen) {
		t.Errorf("after Open: got %s", Show(answers["active"]))
	}
	sound(t, "after the start", f.Send(k.spec.Name, k.Payload))
}

func (k *conformance) checkAllocs(t testing.TB) {
	if invariant.Race || invariant.Enabled || k.Allocs < 0 {
		return // the detector and the checks allocate, too
	}
	f := k.bare(t)
	f.quiet = true
	if f.Options.Clock == nil {
		f.Options.Clock = node.SystemClock{} // which does not allocate for a process
	}
	f.Load(k.Document)
	f.Send(k.spec.Name, k.Payload) // which ends if the process does not
	ctx := context.Background()
	got := math.Inf(1)
	for range 3 { // garbage collections empty pools, which a packet then fills again: the fewest count
		if got > k.Allocs {
			got = min(got, testing.AllocsPerRun(200, func() { f.send(ctx, k.spec.Name, k.Payload) }))
		}
	}
	if got > k.Allocs {
		t.Errorf("got %v allocations for a packet, want at most %v", got, k.Allocs)
	}
}

// checkConfig changes one field after the other.
func (k *conformance) checkConfig(t testing.TB) {
	f := k.bare(t)
	f.ready()
	base := k.spec.Config.ToValue()
	probes := missing(k.document(base)) // no field of a config is a link
	check := func(config value.Value) diag.List { return f.engine.Check(f.sourceWith(k.document(config), probes)) }
	k.wrong(t, check, k.def.Config, base, func(changed value.Value) value.Value { return changed }, "")
}

// wrong puts each wrong value in the place of each field of an object. whole makes a
// config of the changed object, and check checks a document with it.
func (k *conformance) wrong(t testing.TB, check func(value.Value) diag.List, o schema.Object, base value.Value, whole func(value.Value) value.Value, prefix string) {
	t.Helper()
	for _, info := range o.All() {
		name := prefix + info.Name
		for _, bad := range wrongValues() {
			list := check(whole(base.With(info.Name, bad)))
			what := fmt.Sprintf("%s: %s", name, shown(bad))
			for _, d := range list {
				if d.Code == diag.CodeBug || d.Code == diag.CodePanic || strings.Contains(d.Msg, "panic") {
					t.Errorf("%s: %v", what, d)
				}
			}
			if !accepts(info.Type, bad) && !list.HasErrors() {
				t.Errorf("%s: got no error, want one: the field is a %s", what, info.Type)
			}
		}
		below, _ := base.Get(info.Name)
		switch {
		case info.Type == schema.TypeGroup:
			if below.Kind() != value.KindMap {
				below = value.Map()
			}
			k.wrong(t, check, info.Fields, below, func(v value.Value) value.Value { return whole(base.With(info.Name, v)) }, name+".")
		case info.Type == schema.TypeList:
			first := value.Map()
			for _, e := range below.Elems() {
				first = e
				break
			}
			k.wrong(t, check, info.Fields, first, func(v value.Value) value.Value { return whole(base.With(info.Name, value.List(v))) }, name+"[0].")
		}
	}
	if list := check(whole(base.With("no_such_field", value.Int(1)))); !list.HasErrors() {
		t.Errorf("%sno_such_field: got no error", prefix)
	}
}

func shown(v value.Value) string {
	text := v.String()
	if len(text) > 60 {
		text = text[:60] + "..."
	}
	return v.Kind().String() + " " + text
}

// document returns the document with another config for the node.
func (k *conformance) document(config value.Value) string {
	specs := make([]value.Value, len(k.nodes))
	for i, n := range k.nodes {
		own := n.Config.ToValue()
		if n == k.spec {
			own = config
		}
		specs[i] = own.With("kind", value.String(n.Kind)).With("namespace", value.String(n.Namespace))
		if n.Name != "" {
			specs[i] = specs[i].With("name", value.String(n.Name))
		}
		ports := value.Map()
		for _, p := range n.Ports {
			var links []value.Value
			for _, l := range p.Links {
				to := field("name", value.String(l.Name))
				if l.ID != "" {
					to = field("id", value.String(l.ID))
				}
				links = append(links, value.Map(to, field("port", value.String(l.Port))))
			}
			ports = ports.With(p.Name, value.List(links...))
		}
		if ports.Len() > 0 {
			specs[i] = specs[i].With("ports", ports)
		}
	}
	return compact(value.List(specs...))
}

// wrongValues are for fields: each type has some among them that do not fit.
var wrongValues = sync.OnceValue(func() []value.Value {
	all := []value.Value{
		value.Bool(true), value.Int(-1), value.String(""), value.String("no such word"), value.List(value.Int(1), value.Null()), value.Map(field("unexpected", value.List(value.Map()))),
	}
	if invariant.Race {
		return all // one of a kind, and the empty string: checking a document has one goroutine, in which the detector finds nothing
	}
	return append(all,
		value.Null(), value.Int(7), value.Float(1.5), value.Float(1e300), value.String("\x00é\u2028"), value.String(strings.Repeat("x", 1<<16)),
		value.List(), value.List(value.List(value.List())), value.Map(),
	)
})

// accepts reports whether a field of a type may have a value. It is true in cases of
// doubt, where a kind decides.
func accepts(typ schema.Type, v value.Value) bool {
	switch kind := v.Kind(); typ {
	case schema.TypeAny:
		return true
	case schema.TypeString, schema.TypeEnum:
		return kind == value.KindString || kind == value.KindNull
	case schema.TypeText, schema.TypeExpr:
		return kind != value.KindList && kind != value.KindMap
	case schema.TypeBool:
		return kind == value.KindBool || kind == value.KindNull
	case schema.TypeInt, schema.TypeFloat, schema.TypeDuration, schema.TypeBytes:
		return kind == value.KindInt || kind == value.KindFloat || kind == value.KindNull
	case schema.TypeOutPort:
		return kind == value.KindNull
	case schema.TypeStrings:
		return kind == value.KindString || kind == value.KindNull || kind == value.KindList && v.Len() == 0
	case schema.TypeGroup:
		return kind == value.KindNull || kind == value.KindMap
	case schema.TypeList:
		return kind == value.KindNull || kind == value.KindMap || kind == value.KindList && v.Len() == 0
	}
	return true
}
