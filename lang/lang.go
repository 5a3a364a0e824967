// Package lang compiles the code that authors write inside documents, and
// evaluates it on payloads.
//
// Code is compiled once, with the workflow; many goroutines evaluate the resulting
// [Program] concurrently. Read [Language] and [Program] first, then [Set]. Each
// language has a folder of its own; package builtin lists them.
//
// The package must not know nodes, processes or how documents are parsed.
package lang

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A Mode says what a piece of code is.
type Mode uint8

// The modes.
const (
	// ModeFunction is the code of a snippet: a CEL expression, a JavaScript
	// module that exports a function, a constant in text, JSON or YAML.
	ModeFunction Mode = iota

	// ModeExpression is the code of a field such as when: one expression over self
	// and, if the payload is a map, its keys.
	ModeExpression
)

// Options are how to compile. The zero Options are a function without a timeout.
type Options struct {
	Mode    Mode
	Timeout time.Duration // of one evaluation; 0 is none

	// Condition says that results are judged: each is to be true or false. Code whose
	// results are known to be neither gets a warning.
	Condition bool

	// Shape is what is known of the payload, for warnings about names that it does not have.
	Shape *schema.Shape

	// Warn takes what is probably not meant in code that compiles, at its place in the
	// document. It is called by Compile, and may be nil.
	Warn func(*diag.Diagnostic)

	// Log gets what the code writes, such as with console.log in JavaScript. It
	// may be nil.
	Log *slog.Logger
}

// A Language compiles code. Compile reports what is wrong with it as a
// *diag.Diagnostic, or several in a diag.List, at their place in the document.
type Language interface {
	Compile(code diag.Text, opts Options) (Program, error)
}

// A Program is compiled code. It is safe for concurrent use.
type Program interface {
	// Eval runs the code on a payload. It returns soon after ctx is done or the
	// timeout has passed, with an error that says which.
	Eval(ctx context.Context, in value.Value) (value.Value, error)
}

// An Isolator is a [Language] whose code can run in processes of its own. That bounds
// what cannot be bounded inside this one. Isolate compiles a function; its errors are
// as for Compile, and one without a place is about isolation itself.
type Isolator interface {
	Isolate(code diag.Text, opts Options) (Isolated, error)
}

// An Isolated is a [Program] that runs in processes of its own. The first
// evaluation starts them. Close ends them, stops evaluations in progress and waits
// for these; Eval then returns an error.
type Isolated interface {
	Program
	io.Closer
}

// A Constant is a Program whose result does not depend on its input, so the caller
// need not evaluate it.
type Constant interface {
	Program
	Constant() value.Value
}

// A Typed is a [Program] that may know of what kind its results are. It is not ok if it does not.
type Typed interface {
	Program
	ResultKind() (kind value.Kind, ok bool)
}

// A Shaped is a [Program] that may know something of its results on payloads of the shape that
// it was compiled for. ResultShape returns nil if it knows nothing.
type Shaped interface {
	Program
	ResultShape() *schema.Shape
}

// A Leading is a Program whose results may be lists that all begin with the same text. Leads
// returns the text; it is not ok if they are not.
type Leading interface {
	Program
	Leads() (text string, ok bool)
}

// A Branched is a [Program] that knows something of its results before it runs: each is one of the
// outcomes.
type Branched interface {
	Program
	Outcomes() []Outcome
}

// An Outcome is what is known of a result. The zero Outcome is that of any value.
type Outcome struct {
	Map    bool          // it is a map with the fields, and no others
	Fields []value.Field // texts and whole numbers that are written out; null are all other values
	Other  bool          // it is a value of another kind
}

// An Explainer is a [Program] that can say why its result is false.
type Explainer interface {
	Program

	// Explain evaluates the comparison that makes the result false on a payload. It is
	// not ok if there is none: the result is true, an error, or made otherwise.
	Explain(ctx context.Context, in value.Value) (c Comparison, ok bool)
}

// A Comparison is one of two values, in an expression.
type Comparison struct {
	Code        string // as far as the comparison goes
	Operator    string // such as "=="
	Left, Right value.Value
}
