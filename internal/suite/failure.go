package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Failure is one error of a test.
type Failure struct {
	Finding *diag.Diagnostic // what failed, and where
	Assert  *Assertion       // nil unless an assert failed
}

// An Assertion is an expression of an assert, and what it judged.
type Assertion struct {
	Expect     string // the expression
	Payload    value.Value
	Nothing    bool   // there was no payload to judge
	Comparison string // the part that was false, if it is a comparison; else empty
	Operator   string // of the comparison
	Got, Want  value.Value
}

// Failures returns the errors of a test, each with its place. A test without an error
// has none.
func (r *Result) Failures() []Failure {
	var all []Failure
	for _, err := range parts(r.Err) {
		all = append(all, failureOf(err, r.Test.Node))
	}
	return all
}

// parts returns the errors that one joins.
func parts(err error) []error {
	if err == nil {
		return nil
	}
	if e, ok := err.(*node.Error); ok && joined(e.Err) {
		err = e.Err
	}
	if !joined(err) {
		return []error{err}
	}
	var all []error
	for _, part := range err.(interface{ Unwrap() []error }).Unwrap() {
		all = append(all, parts(part)...)
	}
	return all
}

func joined(err error) bool {
	_, ok := err.(interface{ Unwrap() []error })
	return ok
}

func failureOf(err error, test node.Ref) Failure {
	var d *diag.Diagnostic
	if errors.As(err, &d) {
		return Failure{Finding: d}
	}
	e := node.Describe(err)
	at := e.Node
	if at.Kind == "" {
		at = test
	}
	d = &diag.Diagnostic{Msg: strings.TrimSuffix(node.Message(err), " ["+e.Code+"]"), Pos: at.Pos, Node: at.String()}
	var placed interface{ Place() diag.Pos }
	if errors.As(err, &placed) && placed.Place().IsValid() {
		d.Pos = placed.Place()
	}
	if _, known := diag.Lookup(diag.Code(e.Code)); known {
		d.Code = diag.Code(e.Code)
	}
	f := Failure{Finding: d}
	if d.Code != diag.CodeAssert {
		return f
	}
	text := func(name string) string {
		v, _ := e.Data.Get(name)
		s, _ := v.AsString()
		return s
	}
	f.Assert = &Assertion{Expect: text("expect"), Comparison: text("comparison"), Operator: text("operator")}
	var found bool
	f.Assert.Payload, found = e.Data.Get("payload")
	f.Assert.Nothing = !found
	f.Assert.Got, _ = e.Data.Get("left")
	f.Assert.Want, _ = e.Data.Get("right")
	return f
}

// Diff returns how what an assert got differs from what it expects, as hunks of lines:
// "-" is what it expects, "+" what it got. It is empty unless the assertion compares them.
func (a *Assertion) Diff() string {
	if a.Operator != "==" {
		return ""
	}
	want, got := canonical(a.Want), canonical(a.Got)
	if want == got { // 1 and "1" differ in their kinds only
		want, got = a.Want.Kind().String()+" "+want, a.Got.Kind().String()+" "+got
	}
	text := string(diff.Diff("want", []byte(want+"\n"), "got", []byte(got+"\n")))
	_, hunks, _ := strings.Cut(text, "+++ got\n")
	return hunks
}

// canonical returns a value as indented JSON with sorted names, or as text.
func canonical(v value.Value) string {
	data, err := sorted(v).AppendJSON(nil)
	var b bytes.Buffer
	if err != nil || json.Indent(&b, data, "", "  ") != nil {
		return v.String()
	}
	return b.String()
}

func sorted(v value.Value) value.Value {
	switch v.Kind() {
	case value.KindMap:
		var fields []value.Field
		for name, field := range v.Fields() {
			fields = append(fields, value.Field{Name: name, Value: sorted(field)})
		}
		slices.SortFunc(fields, func(a, b value.Field) int { return strings.Compare(a.Name, b.Name) })
		return value.UniqueMap(fields)
	case value.KindList:
		elems := make([]value.Value, 0, v.Len())
		for _, e := range v.Elems() {
			elems = append(elems, sorted(e))
		}
		return value.List(elems...)
	}
	return v
}
