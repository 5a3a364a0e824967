package debug_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/debug"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

const flow = `
- {kind: snippet, name: first, language: cel, code: 'self', ports: {out: second}}
- {kind: snippet, name: second, language: cel, code: 'self == "fail" ? self.none : {"got": self}'}
`

// A bench is an engine with a service.
type bench struct {
	*testing.T
	*uniflow.Engine
	*debug.Service
	ids map[string]string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("cel")})
	if err != nil {
		t.Fatal(err)
	}
	s := debug.New(debug.Options{
		Attach: e.Debug,
		Redact: func(v value.Value) value.Value { return v },
		Text: func(text string) (debug.Text, error) {
			return func(_ context.Context, v value.Value) (string, error) {
				if strings.Contains(v.String(), "faulty") {
					return "", errors.New("no such key")
				}
				return text + v.String(), nil
			}, nil
		},
		Compile: func(code string) (debug.Condition, error) {
			if code == "bad" {
				return nil, errors.New("bad code")
			}
			return func(_ context.Context, v value.Value) (bool, error) {
				if strings.Contains(v.String(), "faulty") {
					return false, errors.New("no such key")
				}
				return v.String() == code, nil
			}, nil
		},
	})
	b := &bench{t, e, s, make(map[string]string)}
	t.Cleanup(func() {
		s.Close()
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	b.apply()
	return b
}

func (b *bench) apply() {
	b.Helper()
	list, err := b.Apply(b.Context(), uniflow.Source{Documents: []spec.Document{{File: "flow.yaml", Data: []byte(flow)}}})
	if err != nil || list.HasErrors() {
		b.Fatal(list, err)
	}
	for _, ref := range b.Status().Nodes {
		b.ids[ref.Name] = ref.ID
	}
}

func (b *bench) set(points ...debug.Breakpoint) {
	b.Helper()
	if err := b.Set(points); err != nil {
		b.Fatal(err)
	}
}

// run starts a process, and returns where its answer comes to.
func (b *bench) run(payload value.Value) <-chan string {
	answered := make(chan string, 1)
	go func() {
		answer, ok, err := b.Engine.Run(b.Context(), "first", payload)
		answered <- fmt.Sprint(answer, ok, err)
	}()
	synctest.Wait()
	return answered
}

func (b *bench) in(name string) debug.Breakpoint {
	return debug.Breakpoint{Node: b.ids[name], Point: observe.PointIn, Port: debug.AnyPort}
}

// one returns the only process that is held.
func (b *bench) one() *debug.Held {
	b.Helper()
	held := b.State().Held
	if len(held) != 1 {
		b.Fatalf("%d processes are held, want one", len(held))
	}
	return held[0]
}

// TestSession holds a process at a breakpoint, also after a reload, and lets it go on with another payload.
func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		if got := <-b.run(value.Int(1)); got != `{"got":1} true <nil>` {
			t.Errorf("without breakpoints: got %s", got)
		}
		b.set(b.in("second"))
		b.apply()
		answer := b.run(value.Int(1))
		h := b.one()
		if h.At.Node.Name != "second" || !h.Payload().Equal(value.Int(1)) || h.Of == "" || h.ByStep {
			t.Errorf("held at %+v", h.At)
		}
		two := value.Int(2)
		if err := b.Move(h.ID, observe.Over, &two); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		h = b.one()
		if h.At.Point != observe.PointAnswer || !h.ByStep || h.Payload().String() != `{"got":2}` {
			t.Errorf("after a step over: held at %+v", h.At)
		}
		if err := b.Move(h.ID, observe.Continue, nil); err != nil {
			t.Error(err)
		}
		if got := <-answer; got != `{"got":2} true <nil>` {
			t.Errorf("got %s", got)
		}
		if err := b.Move(h.ID, observe.Continue, nil); !errors.Is(err, debug.ErrGone) {
			t.Errorf("a second move: %v, want %v", err, debug.ErrGone)
		}
		answer = b.run(value.Int(1))
		if err := b.Instead(b.one().ID, node.Fail(errors.New("on purpose"))); err != nil {
			t.Error(err)
		}
		if got := <-answer; !strings.Contains(got, "on purpose") {
			t.Errorf("got %s, want the failure", got)
		}
	})
}

// TestConditions holds those that meet a condition, from a number of times on, or once.
func TestConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		at := b.in("second")
		at.When, at.After = "7", 1
		b.set(at)
		for _, n := range []int64{1, 7, 8} {
			<-b.run(value.Int(n))
		}
		answer := b.run(value.Int(7))
		if got := b.State().Breakpoints[0]; got.Hits != 2 {
			t.Errorf("hit %d times, want 2", got.Hits)
		}
		if err := b.Move(b.one().ID, observe.Continue, nil); err != nil {
			t.Error(err)
		}
		<-answer
		<-b.run(value.String("faulty"))
		if got := b.State().Breakpoints[0]; got.Faulty != "no such key" || got.Hits != 2 {
			t.Errorf("got %+v, want it faulty", got)
		}
		at = b.in("second")
		at.Once = true
		b.set(at)
		answer = b.run(value.Int(1))
		if got := b.State(); len(got.Breakpoints) != 0 || len(got.Held) != 1 {
			t.Errorf("got %+v, want the breakpoint to be gone", got)
		}
		<-b.run(value.Int(1))
		b.set()
		if got := <-answer; got != `{"got":1} true <nil>` {
			t.Errorf("without breakpoints: got %s", got)
		}
		at.When = "bad"
		if err := b.Set([]debug.Breakpoint{at}); err == nil {
			t.Error("bad code is taken")
		}
		if err := b.Set(make([]debug.Breakpoint, debug.MaxBreakpoints+1)); err == nil {
			t.Error("too many breakpoints are taken")
		}
	})
}

// TestMessages tells of packets, and holds nothing. What is more than the limit is counted.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		at := b.in("second")
		at.Log, at.After = "got ", 1
		b.set(at)
		for _, v := range []value.Value{value.Int(1), value.Int(2), value.String("faulty"), value.Map(value.Field{Name: "password", Value: value.String("hunter2")})} {
			if got := <-b.run(v); !strings.HasSuffix(got, "true <nil>") {
				t.Errorf("got %s", got)
			}
		}
		got := b.State()
		if len(got.Messages) != 2 || got.Messages[0].Text != "got 2" || got.Messages[1].Text != `got {"password":"[redacted]"}` || got.Messages[1].Number != 2 || got.Messages[0].Node.Name != "second" {
			t.Errorf("got %+v", got.Messages)
		}
		at.When = "1"
		b.set(at)
		<-b.run(value.String("faulty"))
		if got := b.State().Breakpoints[0]; got.Faulty != "no such key" {
			t.Errorf("got %+v, want it faulty", got)
		}
		b.set(b.tells("second"))
		for range debug.MaxTold + 5 {
			<-b.run(value.Int(7))
		}
		if got := b.State(); got.Untold != 8 || got.Breakpoints[0].Hits != debug.MaxTold+5 {
			t.Errorf("%d were left out, hit %d times", got.Untold, got.Breakpoints[0].Hits)
		}
		<-time.After(time.Second)
		<-b.run(value.Int(8))
		if got := b.State(); got.Messages[len(got.Messages)-1].Text != "got 8" || got.Untold != 8 {
			t.Errorf("a second later: %+v", got.Messages[len(got.Messages)-1])
		}
	})
}

func (b *bench) tells(name string) debug.Breakpoint {
	at := b.in(name)
	at.Log = "got "
	return at
}

// TestEveryNode holds what fails at any node, and the next packet that comes anywhere.
func TestEveryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.set(debug.Breakpoint{Point: observe.PointOut, Port: observe.ErrorPort})
		if got := <-b.run(value.Int(1)); got != `{"got":1} true <nil>` {
			t.Errorf("without a failure: got %s", got)
		}
		answer := b.run(value.String("fail"))
		h := b.one()
		if h.At.Node.Name != "second" || h.At.Point != observe.PointOut || h.At.Port != observe.ErrorPort || !h.Payload().IsError() {
			t.Errorf("held at %+v", h.At)
		}
		if err := b.Instead(h.ID, node.Answer(value.String("mended"))); err != nil {
			t.Error(err)
		}
		if got := <-answer; got != "mended true <nil>" {
			t.Errorf("got %s", got)
		}
		b.set(debug.Breakpoint{Point: observe.PointIn, Port: debug.AnyPort, Once: true})
		answer = b.run(value.Int(1))
		if h = b.one(); h.At.Node.Name != "first" || len(b.State().Breakpoints) != 0 {
			t.Errorf("held at %+v", h.At)
		}
		if err := b.Move(h.ID, observe.Out, nil); err != nil {
			t.Error(err)
		}
		<-answer
	})
}

// TestLetGo lets processes go on when their client leaves, when no one asks any more, after five minutes, and
// when too many are held.
func TestLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.set(b.in("second"))
		answer := b.run(value.Int(1))
		<-time.After(20 * time.Second)
		if got := <-answer; got != `{"got":1} true <nil>` || len(b.State().Breakpoints) != 0 {
			t.Errorf("no client asked: got %s, %+v", got, b.State())
		}

		b.set(b.in("second"))
		answer = b.run(value.Int(1))
		for range 31 {
			<-time.After(10 * time.Second)
			b.State()
		}
		if got := <-answer; got != `{"got":1} true <nil>` || len(b.State().Breakpoints) != 1 {
			t.Errorf("after five minutes: got %s, %+v", got, b.State())
		}

		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, _, err := b.Engine.Run(ctx, "first", value.Int(1))
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the client has left: got %v", err)
		}

		var answers []<-chan string
		for range debug.MaxHeld + 3 {
			answers = append(answers, b.run(value.Int(1)))
		}
		if got := b.State(); len(got.Held) != debug.MaxHeld || got.Skipped != 3 {
			t.Errorf("%d are held and %d were let pass", len(got.Held), got.Skipped)
		}
		b.Close()
		for _, answer := range answers {
			if got := <-answer; got != `{"got":1} true <nil>` {
				t.Errorf("after Close: got %s", got)
			}
		}
	})
}

// TestEditKeeps keeps what an edit does not change: secrets, and what JSON has no form for.
func TestEditKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.set(b.in("second"))
		answer := b.run(value.Map(
			value.Field{Name: "password", Value: value.String("hunter2")},
			value.Field{Name: "data", Value: value.Binary([]byte{1, 2})},
			value.Field{Name: "list", Value: value.List(value.Binary([]byte{3}), value.Int(1))},
		))
		edited, err := value.ParseJSON([]byte(`{"password": "[redacted]", "data": "AQI=", "list": ["Aw==", 2], "more": true}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Move(b.one().ID, observe.Continue, &edited); err != nil {
			t.Fatal(err)
		}
		if got := <-answer; got != `{"got":{"password":"hunter2","data":"AQI=","list":["Aw==",2],"more":true}} true <nil>` {
			t.Errorf("got %s", got)
		}
	})
}
