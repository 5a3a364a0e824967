package durable_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// handled sends the error of an effect to another one, through a node that reads it.
const handled = `
- {kind: begin, name: t, ports: {out: [{name: a}]}}
- {kind: act, name: a, ports: {error: [{name: b}]}}
- {kind: act, name: b, ports: {out: [{name: m}]}}
- {kind: make, name: m, ports: {out: [{name: c}]}}
- {kind: act, name: c, ports: {out: [{name: d}]}}
- {kind: act, name: d}
`

// TestErrorGoesOn checks that a run whose effects got an error goes on after a crash.
func TestErrorGoesOn(t *testing.T) {
	for name, failure := range map[string]error{
		"plain": errors.New("refused"), "node": &node.Error{Err: errors.New("refused"), Status: 409, Permanent: true}, "joined": errors.Join(errors.New("refused"), node.ErrWaitTimeout),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.blockAt("d")
			pass := w.effect
			w.effect = func(name string, in value.Value) node.Result {
				if name == "a" {
					return node.Fail(failure)
				}
				return pass(name, in)
			}
			w.pure = func(_ string, in value.Value) value.Value { // what expressions see
				return value.Map(node.Describe(in.AsError()).ErrorFields()...)
			}
			w.start(handled)
			r := w.must(node.Submission{Payload: value.Int(1)})
			<-s.entered
			w.crash(s.open)
			w.called()
			w.effect = nil
			w.start(handled)
			run := w.stored(r.Run, journal.OK)
			if got := w.called(); got != "d" {
				t.Errorf("called %s, the run is %s", got, run.State)
			}
		})
	}
}

// TestStripMoved checks that a run goes on whose nodes move what it began with to another place: a field that is not
// stored cannot come along, or effects would get less after a crash than before.
func TestStripMoved(t *testing.T) {
	w := newWorld(t)
	s := w.blockAt("b")
	w.pure = func(_ string, in value.Value) value.Value {
		if strings.Contains(in.String(), "Secret") {
			t.Errorf("a node got %s", in)
		}
		return value.List(in)
	}
	w.start(two)
	r := w.must(node.Submission{Payload: order(1), Strip: []string{"header.Secret"}})
	<-s.entered
	w.crash(s.open)
	w.effect = nil
	w.start(two)
	w.stored(r.Run, journal.OK)
}

// TestErrorAnswer checks that the answer of a run that has failed is the same for who asks later.
func TestErrorAnswer(t *testing.T) {
	w := newWorld(t)
	w.effect = func(string, value.Value) node.Result {
		return node.Fail(&node.Error{Err: errors.New("refused"), Status: 409, Public: true})
	}
	w.start(one)
	sub := node.Submission{Payload: value.Int(1), Key: []byte("k")}
	first := answer(w.must(sub))
	if later := answer(w.must(sub)); later != first || !strings.Contains(later, "refused") {
		t.Errorf("got %s, was %s", later, first)
	}
}
