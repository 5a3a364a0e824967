package lang

import (
	"context"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

// The codes of what can be wrong with a piece of code when it is compiled.
const (
	CodeSyntax  diag.Code = "F4001" // the code cannot be compiled
	CodeUnknown diag.Code = "F4002" // there is no such language
	CodeImport  diag.Code = "F4003" // a module cannot be imported
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
}

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

// Stopped returns the error of an evaluation that ended because ctx is done. It
// wraps the cause. It is nil while ctx is not done.
func Stopped(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return nil
	}
	return fmt.Errorf("evaluation stopped: %w", cause)
}
