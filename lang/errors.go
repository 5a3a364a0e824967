package lang

import (
	"context"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

// A Thrown is a failure of the code itself: an exception that JavaScript did not
// catch, an error of a CEL expression. Status, Code and Public are what the code
// set on the error that it threw.
type Thrown struct {
	Message string
	Status  int      // HTTP status; 0 if unset
	Code    string   // a word for programs; may be empty
	Public  bool     // the message may be shown to a client
	Pos     diag.Pos // where in the document; the zero Pos if unknown

	// Permanent says that another evaluation over the same payload fails as well.
	Permanent bool
}

// IsPermanent returns Permanent, for [github.com/uniflow-labs/uniflow/node.Error].
func (e *Thrown) IsPermanent() bool { return e.Permanent }

// Place returns where in the document the code failed. The error of the node shows it in
// the place of where the node begins.
func (e *Thrown) Place() diag.Pos { return e.Pos }

// Error returns the message alone, without the place.
func (e *Thrown) Error() string { return e.Message }

// ErrorFields is what code sees of the error when it is a payload.
func (e *Thrown) ErrorFields() []value.Field {
	fields := []value.Field{{Name: "message", Value: value.String(e.Message)}}
	if e.Code != "" {
		fields = append(fields, value.Field{Name: "code", Value: value.String(e.Code)})
	}
	if e.Status != 0 {
		fields = append(fields, value.Field{Name: "status", Value: value.Int(int64(e.Status))})
	}
	if e.Public {
		fields = append(fields, value.Field{Name: "public", Value: value.Bool(true)})
	}
	return fields
}

// A Timeout is the error of an evaluation that took longer than
// [Options].Timeout. It wraps [context.DeadlineExceeded].
type Timeout struct {
	After time.Duration
}

// Error says how long the code was let run.
func (e *Timeout) Error() string { return fmt.Sprintf("timed out after %s", e.After) }

// Unwrap returns context.DeadlineExceeded.
func (e *Timeout) Unwrap() error { return context.DeadlineExceeded }

// Syntax returns the diagnostic of code that cannot be compiled, at a line and
// column of the code, both from 1. Where a template made the code it may hold a
// secret, so the message, which may quote it, is left out.
func Syntax(code diag.Text, line, col int, format string, args ...any) *diag.Diagnostic {
	d := diag.Errorf(diag.CodeSyntax, format, args...)
	if code.Hidden {
		d = diag.Errorf(diag.CodeSyntax, "the code cannot be compiled").
			WithHint("the reason is not shown because a template made the code, which may hold a secret")
	}
	d.Pos = code.Pos(line, col)
	return d
}

// Stopped returns the error of an evaluation that ended because ctx is done. It
// wraps the cause. It is nil while ctx is not done.
func Stopped(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return nil
	}
	return fmt.Errorf("evaluation stopped: %w", cause)
}
