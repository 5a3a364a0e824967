package uniflow_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// serve returns an engine that serves a document, with the kind panic in addition
// to the standard ones.
func serve(t *testing.T, opts uniflow.Options, doc string) *uniflow.Engine {
	t.Helper()
	opts.Kinds = append(std.Defs(""), &node.Def{
		Kind: "panic", Summary: "Panics on true.", In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		New: func(*node.Init) (node.Node, error) {
			return node.Func(func(_ node.Process, v value.Value) (value.Value, error) {
				if v.Truth() {
					panic("boom")
				}
				return v, nil
			}), nil
		},
	})
	engine, err := uniflow.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	list, err := engine.Apply(t.Context(), source(doc))
	if err = errors.Join(list.Err(), err); err != nil {
		t.Fatal(err)
	}
	return engine
}

// wantCode checks that err was found under a code of the catalogue.
func wantCode(t *testing.T, err error, want diag.Code) {
	t.Helper()
	if err == nil || node.Describe(err).Code != string(want) {
		t.Errorf("got error %v, want code %s", err, want)
	}
}

// TestPanicEndsOneProcess is rule 7: other processes than the one that panics go on.
func TestPanicEndsOneProcess(t *testing.T) {
	engine := serve(t, uniflow.Options{}, "- {kind: panic, name: a}")
	var runs sync.WaitGroup
	for i := range 200 {
		runs.Go(func() {
			in := value.Bool(i%2 == 0)
			got, _, err := engine.Run(t.Context(), "a", in)
			if in.Truth() {
				wantCode(t, err, diag.CodePanic)
			} else if err != nil || !got.Equal(in) {
				t.Errorf("got %s, error %v, want %s", got, err, in)
			}
		})
	}
	runs.Wait()
	if got := engine.Status().InFlight; got != 0 {
		t.Errorf("got %d processes in flight, want 0", got)
	}
}

// TestHugePayloads pass as they are up to the budget of a process, whose end is an
// error.
func TestHugePayloads(t *testing.T) {
	doc := `
- {kind: pipe, name: a, ports: {"out[0]": [{name: same}], "out[1]": [{name: size}]}}
- {kind: snippet, name: same, language: cel, code: self}
- {kind: snippet, name: size, language: javascript, code: "export default (s) => s.length"}
- kind: snippet
  name: double
  language: cel
  code: self + self
  ports: {out: [{name: double}]}
- kind: pipe
  name: fan
  ports: {"out[0]": [{name: same}, {name: same}, {name: same}, {name: same}]}
`
	engine := serve(t, uniflow.Options{Budget: uniflow.Budget{Bytes: 8 << 20}}, doc)
	run := func(name string, size int) (value.Value, error) {
		v, _, err := engine.Run(t.Context(), name, value.String(strings.Repeat("x", size)))
		return v, err
	}
	if got, err := run("a", 4<<20); err != nil || !got.Equal(value.Int(4<<20)) {
		t.Errorf("got %s, error %v, want %d", got, err, 4<<20)
	}
	if _, err := run("double", 1<<10); err == nil {
		t.Error("a string that doubles for ever: got no error")
	}
	_, err := run("fan", 4<<20)
	wantCode(t, err, diag.CodePendingBytes)
}

// TestRunaway ends code that would never end by itself, and the engine goes on.
func TestRunaway(t *testing.T) {
	f := func(code string) {
		t.Helper()
		engine := serve(t, uniflow.Options{}, "- {kind: snippet, name: a, language: javascript, timeout: 100ms, code: '"+code+"'}\n"+
			"- {kind: snippet, name: b, language: text, code: fine}")
		for range 2 { // the second meets what the first has left behind
			if got, _, err := engine.Run(t.Context(), "a", value.Null()); err == nil {
				t.Errorf("%s: got %s, want an error", code, got)
			}
		}
		if got, _, err := engine.Run(t.Context(), "b", value.Null()); err != nil || got.String() != "fine" {
			t.Errorf("%s: then got %s, error %v, want fine", code, got, err)
		}
	}
	f("export default function f() { return f() + 1 }")
	f("export default () => { for (;;); }")
	f("export default () => new Promise(() => {})")
	f("export default async () => { for (;;) await null }")
	f("export default () => { const a = []; a.push(a); return a }")
}
