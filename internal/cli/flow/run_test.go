package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// countDef is a source of numbers.
var countDef = &node.Def{
	Kind: "count", Summary: "Counts.",
	Config: schema.Fields(schema.Int("to"), schema.Bool("endless"), schema.Bool("waits"), schema.String("fails"), schema.Bool("refused"), schema.Bool("away")),
	Out:    []node.Port{{Name: "out"}},
	New: func(init *node.Init) (node.Node, error) {
		c := init.Config
		return &counter{
			to: int(c.Int("to")), endless: c.Bool("endless"), waits: c.Bool("waits"), fails: c.String("fails"), refused: c.Bool("refused"), away: c.Bool("away"),
			finished: make(chan struct{}), stopping: make(chan struct{}),
		}, nil
	},
}

// A counter sends numbers, one after the other. An error is a dead letter.
type counter struct {
	to             int
	endless, waits bool // waits: after the first number, for Stop
	fails          string
	refused, away  bool
	finished       chan struct{}
	stopping       chan struct{}
	worker         sync.WaitGroup
	done, dead     atomic.Int64
	failed         atomic.Bool
}

func (c *counter) Receive(node.Process, node.Packet) node.Result { return node.None() }

func (c *counter) Open(context.Context) error {
	if c.refused {
		return errors.New("wrong password")
	}
	return nil
}

func (c *counter) Close() error { return nil }

func (c *counter) Ready() error {
	if c.away {
		return errors.New("no broker")
	}
	return nil
}

func (c *counter) Serve(src node.Starter) error {
	c.worker.Go(func() {
		for i := 1; i <= c.to || c.endless; i++ {
			if resp := src.Run(context.Background(), node.Send(0, value.Int(int64(i)))); resp.IsError() {
				c.dead.Add(1)
			}
			c.done.Add(1)
			if c.waits || c.endless {
				<-c.stopping
				return
			}
		}
		if c.fails != "" {
			c.failed.Store(true)
			return
		}
		close(c.finished)
	})
	return nil
}

func (c *counter) Stop(context.Context) error {
	close(c.stopping)
	c.worker.Wait()
	return nil
}

func (c *counter) Ends() bool                { return !c.endless }
func (c *counter) Exhausted() bool           { return false }
func (c *counter) Finished() <-chan struct{} { return c.finished }

func (c *counter) Progress() node.Progress {
	p := node.Progress{Messages: uint64(c.done.Load()), DeadLetters: uint64(c.dead.Load()), Failed: uint64(c.dead.Load()), Done: c.done.Load(), Total: int64(c.to)}
	if c.failed.Load() {
		p.Err = errors.New(c.fails)
	}
	return p
}

// partsDef is a node that answers in parts.
var partsDef = &node.Def{
	Kind: "parts", Summary: "Answers in parts.", In: []node.Port{{Name: "in"}},
	New: func(*node.Init) (node.Node, error) {
		return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
			return node.Block(func(ctx context.Context) node.Result {
				to, ok := node.PartsOf(ctx)
				if !ok {
					return node.Fail(errors.New("nothing takes parts"))
				}
				for i := range int64(2) {
					if err := to.Part(ctx, value.Map(value.Field{Name: "part", Value: value.Int(i)})); err != nil {
						return node.Fail(err)
					}
				}
				return node.Answer(pkt.Payload)
			})
		}), nil
	},
}

var runKinds = []*node.Def{countDef, partsDef}

// TestRun runs jobs and single processes, and checks exit codes and messages.
func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	f := func(doc string, wantCode int, wantOut, wantErr string, args ...string) {
		t.Helper()
		apptest.Write(t, "f.yaml", doc)
		var out, errs bytes.Buffer
		m := apptest.Machine(&out, &errs, nil)
		m.Kinds = own(runKinds)
		code := app.Main(t.Context(), append([]string{"run", "f.yaml"}, args...), m, root)
		if code != wantCode || out.String() != wantOut || !strings.Contains(errs.String(), wantErr) || wantErr == "" && errs.Len() > 0 {
			t.Errorf("%v of %s\ngot  %d %q %q\nwant %d %q %q", args, doc, code, out.String(), errs.String(), wantCode, wantOut, wantErr)
		}
	}
	const counts = "- {kind: count, name: c, to: 1000, ports: {out: [{name: s}]}}\n"
	const even = counts + "- {kind: if, name: s, when: self % 2 == 0, ports: {\"out[0]\": [], \"out[1]\": [{name: t}]}}\n- {kind: throw, name: t}\n"
	f(counts+"- {kind: nop, name: s}\n", 0, "", "1,000 messages in ")
	f(counts+"- {kind: nop, name: s}\n", 0, "", "; 0 failed attempts, 0 dead letters\n")
	f(counts+"- {kind: nop, name: s}\n", 0, "", "", "--progress", "none")
	f(even, 1, "", "500 messages ended at the port error of their source\nhint: --allow-dead 500 accepts them\n")
	f(even, 0, "", "", "--allow-dead", "500", "--progress", "none")
	f("- {kind: count, name: c, to: 3, fails: the disk is full}\n", 1, "", "uniflow: source node \"c\" (f.yaml:1:3): the disk is full\n")
	f("- {kind: count, name: c, refused: true}\n", 3, "", "wrong password")
	f("- {kind: count, name: c, away: true, endless: true}\n", 3, "", "uniflow: the job was never ready: waiting for node \"c\" (f.yaml:1:3): no broker\n", "--for", "20ms")
	f("- {kind: count, name: c, too: 1}\n", 1, "", "too: unknown field")
	f("- {kind: count, name: c, endless: true}\n", 2, "", "f.yaml:1:3: node \"c\": a count does not end by itself\nhint: say for how long with --for")
	f("- {kind: count, name: c, endless: true}\n- {kind: count, to: 5}\n", 0, "", "6 messages", "--for", "50ms")
	f("- {kind: listener, name: w, host: 127.0.0.1, port: 0, ports: {out: [{name: n}]}}\n- {kind: nop, name: n}\n", 2, "", "a listener does not end by itself")
	f("- {kind: schedule, name: w, interval: 1h, ports: {out: [{name: n}]}}\n- {kind: nop, name: n}\n", 2, "", "a schedule does not end by itself")
	f("- {kind: nop, name: n}\n", 2, "", "nothing to run")
	f(counts+"- {kind: nop, name: s}\n", 2, "", "--input is for a node", "--input", "1")
	f(counts+"- {kind: nop, name: s}\n", 2, "", "--progress must be auto, none or json", "--progress", "bar")
	f(counts+"- {kind: nop, name: s}\n", 2, "", "--allow-dead must not be negative", "--allow-dead", "-1")
	f(counts+"- {kind: nop, name: s}\n", 2, "", "--for must not be negative", "--for", "-1s")

	const double = "- {kind: snippet, name: main, language: cel, code: '{\"double\": self * 2}'}\n- {kind: parts, name: p}\n- {kind: count, name: c, ports: {out: [{name: main}], error: [{name: p}]}}\n"
	f(double, 0, "{\"double\":4}\n", "", "--input", "2")
	f(double, 0, "{\"double\":4}\n", "", "main", "--input", "2")
	f(double, 0, "{\"part\":0}\n{\"part\":1}\n7\n", "", "p", "--input", "7")
	f(double, 0, "{\"double\":6}\n", "", "c", "--input", "3")
	f(double, 1, "", "uniflow: node \"main\" (f.yaml:1:", "--input", `"x"`)
	f(double, 2, "", "there is no node \"mian\"\nhint: did you mean main?", "mian")
	f(double, 2, "", "--for is for sources", "--for", "1s")
	if code, _, errs := apptest.Execute(t, root, nil, "run"); code != 2 || !strings.Contains(errs, "run takes files") {
		t.Errorf("got %d %s", code, errs)
	}
}

// TestRunSignals drains a job at the first signal, and ends it immediately at the second.
func TestRunSignals(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", "- {kind: count, name: c, to: 10, waits: true, ports: {out: [{name: n}]}}\n- {kind: nop, name: n}\n")
	s := launch(t, runKinds, "run", "f.yaml", "--progress", "json")
	s.await(`"messages":1,`)
	s.signals <- syscall.SIGINT
	s.ended(130)
	if text := s.text(); !strings.Contains(text, `"end":true`) || !strings.Contains(text, "ended early (interrupt)") {
		t.Errorf("got %s", text)
	}

	apptest.Write(t, "f.yaml", "- {kind: count, name: c, to: 10, waits: true, ports: {out: [{name: n}]}}\n- {kind: sleep, name: n, interval: 3s}\n")
	s = launch(t, runKinds, "run", "f.yaml", "--grace", "1h", "--progress", "json")
	s.await(`"messages":0,`)
	s.signals <- syscall.SIGTERM
	s.signals <- syscall.SIGINT
	s.ended(130)
	s.await("ended immediately")
}

// TestProgressForms shows a job on a terminal, and as JSON.
func TestProgressForms(t *testing.T) {
	now := time.Unix(0, 0)
	at := node.Progress{Total: 1000}
	source := uniflow.Trigger{Node: node.Ref{Name: "rows"}, Ends: true, Finished: make(chan struct{}), Progress: func() node.Progress { return at }}
	var out bytes.Buffer
	m := apptest.Machine(io.Discard, &out, nil)
	m.Terminal = func(io.Writer) bool { return true }
	a := commands{app.New(nil, m)}
	steps := func(form string) *jobProgress {
		out.Reset()
		p := a.newJobProgress(form)
		p.w, p.now, at = &out, func() time.Time { return now }, node.Progress{Total: 1000}
		p.begin([]uniflow.Trigger{source, {Node: node.Ref{Name: "silent"}}})
		p.tick()
		now = now.Add(2 * time.Second)
		at = node.Progress{Messages: 500_000, Failed: 7, DeadLetters: 2, Done: 250, Total: 1000}
		return p
	}
	p := steps(progressAuto)
	if got, want := p.text(), "25 % [███         ]  500,000 messages  250,000/s  7 failed  2 dead  6s left"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	at.Total = 0 // the source is closed
	if got, want := p.text(), "25 % [███"; !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p.summary()
	if got, want := out.String(), "500,000 messages in 2.00 s, 250,000/s; 7 failed attempts, 2 dead letters\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	p = steps(progressJSON)
	at.Err = errors.New("the disk is full")
	p.tick()
	p.summary()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, line := range lines {
		var body map[string]any
		if err := json.Unmarshal([]byte(line), &body); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintln(body["seconds"], body["messages"], body["per_second"], body["share"], body["seconds_left"], body["error"], body["end"])
		want := "2 500000 250000 0.25 6 the disk is full <nil>\n"
		if i == 1 {
			want = "2 500000 250000 0.25 6 the disk is full true\n"
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if len(lines) != 2 {
		t.Errorf("got %d lines", len(lines))
	}
	if p = steps(progressNone); out.Len() > 0 {
		t.Errorf("got %s", out.String())
	}
	p.summary()
}

// TestFilesAndNode separates the name of a node from files.
func TestFilesAndNode(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "flows", "")
	f := func(want string, args ...string) {
		t.Helper()
		files, name := filesAndNode(args)
		if got := fmt.Sprint(files, name); got != want {
			t.Errorf("%v: got %s, want %s", args, got, want)
		}
	}
	f("[a] []", "a")
	f("[a.yaml] [b]", "a.yaml", "b")
	f("[a.yaml b.yaml] []", "a.yaml", "b.yaml")
	f("[a.yaml flows] []", "a.yaml", "flows")
	f("[a.yaml x/b] []", "a.yaml", "x/b")
	f("[a.yaml -] []", "a.yaml", "-")
	f("[a.yaml b.json] [main]", "a.yaml", "b.json", "main")
}
