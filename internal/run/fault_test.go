package run_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

func wantCode(t *testing.T, resp node.Response, want diag.Code, name string) {
	t.Helper()
	e := node.Describe(resp.Payload.AsError())
	if e.Code != string(want) || e.Node.Name != name {
		t.Errorf("got %v, code %q at node %q, want code %s at %s", e, e.Code, e.Node.Name, want, name)
	}
}

// TestNilBlock answers a node that blocks on a nil function with an error.
// Otherwise the process would never end.
func TestNilBlock(t *testing.T) {
	g := &graph{}
	g.fn(0, func(node.Process, node.Packet) node.Result { return node.Block(nil) })
	wantCode(t, g.open(t, run.Options{}).Send(t.Context(), nil, 0, 0, value.Null()), diag.CodeMisuse, "a")
}

func TestNilFail(t *testing.T) {
	g := &graph{}
	g.fn(1, func(node.Process, node.Packet) node.Result { return node.Fail(nil) })
	wantCode(t, g.open(t, run.Options{}).Send(t.Context(), nil, 0, 0, value.Null()), diag.CodeMisuse, "a")
}

// TestCodes checks that an error that ends a process early has a code and a node.
func TestCodes(t *testing.T) {
	t.Run("deliveries", func(t *testing.T) {
		g := &graph{}
		a, b := g.fn(1, pass), g.fn(1, pass)
		g.link(a, 0, b)
		g.link(b, 0, b)
		gen := g.open(t, run.Options{Budget: run.Budget{Deliveries: 1000}})
		wantCode(t, gen.Send(t.Context(), nil, a, 0, value.Null()), diag.CodeDeliveries, "b")
	})
	t.Run("cancelled", func(t *testing.T) {
		g := &graph{}
		ctx, cancel := context.WithCancel(t.Context())
		a := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			cancel()
			return node.Send(0, pkt.Payload)
		})
		g.link(a, 0, a)
		gen := g.open(t, run.Options{})
		resp := gen.Send(ctx, nil, a, 0, value.Null())
		wantCode(t, resp, diag.CodeCancelled, "a")
		if !errors.Is(resp.Payload.AsError(), context.Canceled) {
			t.Errorf("got %v, want its cause wrapped", resp.Payload.AsError())
		}
	})
	t.Run("deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := &graph{}
			a := g.fn(0, func(node.Process, node.Packet) node.Result {
				return node.Block(func(ctx context.Context) node.Result {
					<-ctx.Done()
					return node.Fail(ctx.Err())
				})
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			wantCode(t, g.open(t, run.Options{}).Send(ctx, nil, a, 0, value.Null()), diag.CodeTimeout, "a")
		})
	})
}

// TestHandled logs a failure that goes to a linked error port: where it is from,
// with its code, bounded in size and in number.
func TestHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		message := strings.Repeat("x", 1000)
		status := 0
		g := &graph{}
		a := g.fn(1, func(node.Process, node.Packet) node.Result {
			return node.Fail(&node.Error{Err: errors.New(message), Code: "E1", Status: status})
		})
		try := g.fn(1, func(_ node.Process, pkt node.Packet) node.Result {
			return node.SendThen(0, pkt.Payload, func(_ node.Process, resp node.Response) node.Result {
				return node.Fail(resp.Payload.AsError())
			})
		})
		handler := g.fn(0, answer(value.String("sorry")))
		g.link(try, 0, a)
		g.linkErr(try, handler)
		g.vertices[a].Ref.ID, g.vertices[a].Ref.Pos = "1", diag.Pos{File: "f.yaml", Line: 3, Col: 5}
		gen := g.open(t, run.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		send := func(want string) { // one line that has it, or none if that is empty
			t.Helper()
			log.Reset()
			wantText(t, gen.Send(t.Context(), nil, try, 0, value.Null()), "sorry")
			if want == "" && log.Len() > 0 || want != "" && (!strings.Contains(log.String(), want) || strings.Count(log.String(), "\n") != 1) {
				t.Errorf("got %q, want a line with %q", log.String(), want)
			}
		}
		send(`level=WARN msg="error goes to an error port" node=a at=f.yaml:3:5 port_of=b process=`)
		if log.Len() > 500 {
			t.Errorf("got %d bytes for a message of %d", log.Len(), len(message))
		}
		for range 9 {
			send("code=E1")
		}
		for range 5 {
			send("")
		}
		after(time.Second)
		send("skipped=5")

		after(time.Minute)
		status = 422 // an answer that the workflow has chosen is not a failure
		send("")
	})
}

// A letterbox is a source whose messages fail.
type letterbox struct{ node.Finite }

func (letterbox) Receive(node.Process, node.Packet) node.Result {
	return node.Fail(&node.Error{Err: errors.New("undecodable"), Status: 422})
}

// TestDeadLetters logs ten dead letters of a source, then one each ten seconds.
func TestDeadLetters(t *testing.T) {
	f := func(instruments run.Instruments) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) { deadLetters(t, instruments) })
	}
	f(run.Instruments{})
	f(run.Instruments{Observers: []*observe.Observer{{}}})
}

func deadLetters(t *testing.T, instruments run.Instruments) {
	var log bytes.Buffer
	g := &graph{}
	rows, bad := g.add(letterbox{}, 0), g.fn(0, answer(value.Null()))
	g.linkErr(rows, bad)
	gen := g.open(t, run.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	gen.Instrument(instruments)
	for range 30 {
		for range 1000 {
			gen.Send(t.Context(), nil, rows, 0, value.Null())
		}
		<-time.After(time.Second)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 12 || !strings.Contains(lines[9], "error=undecodable") || strings.Contains(lines[9], "skipped") || !strings.Contains(lines[11], "skipped=9999") {
		t.Errorf("got the log\n%s", &log)
	}
}

// TestAbandoned ends the stop of a generation in which a node does not obey its
// context, and closes nodes nevertheless.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo, closed := make(chan struct{}), false
		g := &graph{}
		g.fn(0, func(node.Process, node.Packet) node.Result { <-letGo; return node.None() })
		g.add(closer{func() error { closed = true; return nil }}, 0)
		gen := run.New(g.program(), run.Options{})
		if err := gen.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		answered := make(chan node.Response, 1)
		go func() { answered <- gen.Send(context.Background(), nil, 0, 0, value.Null()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := gen.Stop(ctx); !errors.Is(err, run.ErrAbandoned) {
			t.Errorf("got %v, want ErrAbandoned", err)
		}
		if took := time.Since(start); took != time.Second+run.Abandon {
			t.Errorf("it took %s", took)
		}
		if err := gen.Close(t.Context()); err != nil || !closed {
			t.Errorf("got %v, closed %v", err, closed)
		}
		close(letGo)
		if resp := <-answered; resp.IsError() {
			t.Errorf("got %v", resp.Payload)
		}
	})
}

// A closer is a node that is closed.
type closer struct{ close func() error }

func (closer) Receive(node.Process, node.Packet) node.Result { return node.None() }
func (c closer) Close() error                                { return c.close() }

// An opener fails to open, or panics.
type opener struct {
	closer
	open func() error
}

func (o opener) Open(context.Context) error { return o.open() }

// TestCloseOnlyOpened closes what was opened, and nothing else. Panics are errors.
func TestCloseOnlyOpened(t *testing.T) {
	f := func(open func() error, want string) {
		t.Helper()
		g := &graph{}
		closed := ""
		shut := func(name string) closer {
			return closer{func() error { closed += name; panic("close of " + name) }}
		}
		g.add(shut("never"), 0)
		g.add(opener{shut("failed"), open}, 0)
		g.add(shut("opened"), 0)
		gen := run.New(g.program(), run.Options{})
		if err := gen.Open(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		err := gen.Close(t.Context())
		if closed != "opened" || err == nil || !strings.Contains(err.Error(), "panic in Close: close of opened") {
			t.Errorf("closed %q, got %v", closed, err)
		}
	}
	f(func() error { return errors.New("no luck") }, "no luck")
	f(func() error { panic(fmt.Sprint("bo", "om")) }, "panic in Open: boom [F7001]")
}
