package node

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

// An Error is a failure as flows and triggers see it. Nodes may return any
// error; the engine wraps those that are not an Error exactly once, to say which
// node failed. A node returns an Error of its own where it has more to say than
// a message.
type Error struct {
	Err        error         // what happened; never nil
	Status     int           // HTTP status for whoever answers a client; 0 if unset
	Code       string        // a word for programs, chosen by the workflow; may be empty
	Public     bool          // the message may be shown to a client
	RetryAfter time.Duration // when it is worth trying again; 0 if unknown
	Data       value.Value   // what it is about, for programs; null if nothing
	Node       Ref           // where it happened; filled in by the engine
}

// Error returns the message with the node and its place in front and the code
// behind, as logs show it. The bare message is that of [Message].
func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Node.Kind != "" {
		at := e.Node.Pos
		var placed interface{ Place() diag.Pos } // code of the node that failed
		if errors.As(e.Err, &placed) && placed.Place().IsValid() {
			at = placed.Place()
		}
		text = fmt.Sprintf("node %q (%s): %s", e.Node, at, text)
	}
	if e.Code != "" && !strings.HasSuffix(text, "["+e.Code+"]") { // that of the cause
		text += " [" + e.Code + "]"
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrorFields is what expressions and snippets see of the error: message, and
// what else is set of code, status, node, public and data. See [value.ErrorMap].
func (e *Error) ErrorFields() []value.Field {
	fields := []value.Field{{Name: "message", Value: value.String(Message(e))}}
	if e.Code != "" {
		fields = append(fields, value.Field{Name: "code", Value: value.String(e.Code)})
	}
	if e.Status != 0 {
		fields = append(fields, value.Field{Name: "status", Value: value.Int(int64(e.Status))})
	}
	if e.Node.Kind != "" {
		fields = append(fields, value.Field{Name: "node", Value: value.String(e.Node.String())})
	}
	if e.Public {
		fields = append(fields, value.Field{Name: "public", Value: value.Bool(true)})
	}
	if !e.Data.IsNull() {
		fields = append(fields, value.Field{Name: "data", Value: e.Data})
	}
	return fields
}

// Message returns the message of an error without the places that the engine
// put in front; of joined errors, one a line.
func Message(err error) string {
	switch e := err.(type) {
	case *Error:
		return Message(e.Err)
	case interface{ Unwrap() []error }:
		var lines []string
		for _, part := range e.Unwrap() {
			lines = append(lines, Message(part))
		}
		return strings.Join(lines, "\n")
	}
	return err.Error()
}

// Describe returns err as an Error: itself, the one that it wraps, or a new one.
// Of joined errors it takes the message of each, and the first status, code and
// retry-after that are set; it is public only if all of them are.
func Describe(err error) *Error {
	if e, ok := err.(*Error); ok {
		return e
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return describeJoined(err, joined.Unwrap())
	}
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Err: err}
	}
	outer := *e
	outer.Err = err
	return &outer
}

func describeJoined(err error, parts []error) *Error {
	all := &Error{Err: err, Public: len(parts) > 0}
	for _, part := range parts {
		e := Describe(part)
		if all.Status == 0 {
			all.Status = e.Status
		}
		if all.Code == "" {
			all.Code = e.Code
		}
		if all.Node.Kind == "" {
			all.Node = e.Node
		}
		all.RetryAfter = max(all.RetryAfter, e.RetryAfter)
		all.Public = all.Public && e.Public
	}
	return all
}
