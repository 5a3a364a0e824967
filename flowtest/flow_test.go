package flowtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A printer is a test whose failures are printed, for examples.
type printer struct {
	testing.TB
	cleanups []func()
}

func newT() *printer { return &printer{} }

func (*printer) Helper() {}

func (p *printer) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

func (*printer) Context() context.Context { return context.Background() }

func (*printer) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (*printer) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (*printer) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (p *printer) end() {
	for i := len(p.cleanups) - 1; i >= 0; i-- {
		p.cleanups[i]()
	}
}

const linked = "- {kind: upper, name: n, ports: {out: [{name: next}], error: [{name: failed}]}}"

func TestProbe(t *testing.T) {
	f := flowtest.New(t, upperDef)
	f.Load(linked)
	for _, c := range []struct {
		name string
		do   func(node.Process, node.Packet) node.Result
		want string
	}{
		{"echo", flowtest.Echo, `"X"`},
		{"answer", flowtest.Answer(value.Int(1)), "1"},
		{"none", flowtest.None, "none"},
		{"fail", flowtest.Fail(errors.New("no")), "error: no"},
		{"panic", flowtest.Panic, "error: panic: flowtest: this probe panics"},
		{"later", func(p node.Process, pkt node.Packet) node.Result {
			return node.Sleep(time.Hour, func(node.Process, node.Response) node.Result { return flowtest.Echo(p, pkt) })
		}, `"X"`},
	} {
		f.Probe("next").Do(c.do)
		if got := f.SendJSON("n", `"x"`); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	if got := f.Probe("next").Len(); got != 6 {
		t.Errorf("got %d arrivals", got)
	}
	f.Reset()
	if len(f.Arrivals()) != 0 || f.Probe("next").Len() != 0 || f.Probe("next").String() != "[]" {
		t.Errorf("after Reset: got %v", f.Arrivals())
	}
	if !strings.Contains(f.Log(), "this probe panics") {
		t.Errorf("got log %q", f.Log())
	}
}

// TestOptions passes on what an engine has: a budget, a clock, variables, environment.
func TestOptions(t *testing.T) {
	f := flowtest.New(t, laterDef)
	f.Options.Budget = uniflow.Budget{Packets: 3}
	f.Options.Clock = node.SystemClock{}
	f.Environment = map[string]string{"UNIT": "ms"}
	f.Variables = "- {name: TIME, data: {number: 2}}"
	f.Load(`
- {kind: source, name: s, ports: {out: [{name: n}]}}
- {kind: later, name: n, for: '{{ .TIME.number }}{{ .UNIT }}', env: {TIME: {name: TIME}, UNIT: {data: '{{ .UNIT }}'}}}
`)
	packets := make([]node.Out, 5)
	r := f.Source("s").Run(t.Context(), node.SendAll(packets, func(node.Process, []node.Response) node.Result { return node.None() }))
	if !r.IsError() || node.Describe(r.Payload.AsError()).Code != "F7002" {
		t.Errorf("got %s, want F7002", flowtest.Show(r))
	}
	begun := time.Now()
	f.Send("n", value.Null())
	if d := time.Since(begun); d < 2*time.Millisecond {
		t.Errorf("2ms of the machine's clock took %s", d)
	}
}

func TestFindings(t *testing.T) {
	f := flowtest.New(t, upperDef)
	if list := f.Check("- {kind: upper, name: n, size: 3}"); !list.HasErrors() || !strings.Contains(list.Error(), "test.yaml:1:") {
		t.Errorf("got %v", list)
	}
	list, err := f.Apply("- {kind: uper, name: n}")
	if err != nil || !list.HasErrors() {
		t.Errorf("got %v, %v", list, err)
	}
	if got := f.SendJSON("n", "1"); !strings.HasPrefix(got, "error: ") {
		t.Errorf("before anything was loaded: got %s", got)
	}
}

// TestSource cancels several packets of one process, and names the process.
func TestSource(t *testing.T) {
	f := flowtest.New(t, upperDef)
	f.Load("- {kind: source, name: s, ports: {'out[0]': [{name: a}], 'out[1]': [{name: b}]}}")
	f.Probe("b").Do(f.Drop)
	ctx, cancel := context.WithCancel(t.Context())
	f.Probe("a").Do(func(node.Process, node.Packet) node.Result {
		cancel()
		return node.None()
	})
	both := node.SendAll([]node.Out{{Port: 1}, {Port: 0}}, func(_ node.Process, resps []node.Response) node.Result { return node.Respond(node.Join(resps)) })
	if r := f.Source("s").Run(ctx, both); !r.IsError() {
		t.Errorf("got %s, want an error", flowtest.Show(r))
	}
	if got := fmt.Sprint(f.Arrivals()); got != "[{b null} {a null}]" {
		t.Errorf("got %s", got)
	}
	r, id := f.Source("s").RunID(t.Context(), nil, node.Answer(value.Error(errors.New("no"))))
	if !r.IsError() || id == "" {
		t.Errorf("got %s of process %q", flowtest.Show(r), id)
	}
	refuse := func(node.Response) error { return errors.New("the answer does not fit") }
	if r, id = f.Source("s").RunID(t.Context(), refuse, node.Answer(value.Int(1))); r.IsError() || id == "" {
		t.Errorf("an answer that is refused: got %s of process %q", flowtest.Show(r), id)
	}
}

// TestConcurrent starts many processes at the same time, which sleep for different times.
func TestConcurrent(t *testing.T) {
	f := flowtest.New(t, laterDef)
	var doc strings.Builder
	for h := range 50 {
		fmt.Fprintf(&doc, "- {kind: later, name: n%d, for: %dh, ports: {out: [{name: next}]}}\n", h, h)
	}
	f.Load(doc.String())
	var calls []*flowtest.Call
	for h := range 50 {
		calls = append(calls, f.Start(fmt.Sprint("n", 49-h), value.Int(int64(49-h))))
	}
	f.Probe("next").Wait(50)
	for i, p := range f.Probe("next").Payloads() {
		if n, _ := p.AsInt(); int(n) != i {
			t.Fatalf("got %s, want the order of the times", f.Probe("next"))
		}
	}
	for i, c := range calls {
		if got := flowtest.Show(c.Response()); got != fmt.Sprint(49-i) {
			t.Errorf("got %s", got)
		}
	}
}
