package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

// An Error is a failure as workflows and triggers see it. Nodes may return any
// error; the engine wraps one that is not an Error, and adds the node that failed.
// A node returns an Error if it has more to report than a message.
type Error struct {
	Err        error         // the cause; never nil
	Status     int           // HTTP status for the answer to a client; 0 if unset
	Code       string        // an identifier for programs, chosen by the workflow; may be empty
	Public     bool          // the message may be shown to a client
	RetryAfter time.Duration // how long to wait before a retry; 0 if unknown
	Outage     bool          // the other side is away, whatever it is asked for
	Permanent  bool          // another attempt with the same payload fails as well
	Challenges []string      // how a client may prove who it is, as WWW-Authenticate says it: of a status 401
	Data       value.Value   // details for programs; null if there are none
	Letter     value.Value   // what is known of a dead letter of a source, whose message is Data; null otherwise
	Node       Ref           // the node that failed; set by the engine
}

// Unusable returns the error of a node that cannot use a value: a payload of a form that it does not take, or what
// an expression, a template or a statement in its config has made of one. Its status is 500, so the log has it
// at level ERROR, and it is permanent.
//
// That is the rule for whose mistake an error is. A node cannot know who has made a value, so what it is for decides:
//
//   - A status of 4xx says that the client is to blame. Errors have one if the node reads what a client has sent as
//     it was sent (listener, router, chat), if it is there to check it (validate, decode, auth, limit), if it keeps data
//     that refuse the change (a constraint of a table, a revision of a key), or if the workflow chooses it (throw).
//   - Whatever else a node cannot use is the mistake of the author, who can check it before: it is Unusable.
//
// It is not permanent if err says that the moment is to blame: the process was stopped, an expression took longer
// than its timeout, or another system is away.
func Unusable(code string, err error) *Error {
	return &Error{Err: err, Code: code, Status: http.StatusInternalServerError, Permanent: !ofMoment(err)}
}

func ofMoment(err error) bool {
	var e *Error
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTimeLimit) || errors.Is(err, ErrStopped) ||
		errors.As(err, &e) && !e.IsPermanent() && (e.Outage || e.Status >= http.StatusInternalServerError)
}

// IsPermanent reports whether the error, or one that it wraps, says that another attempt with the same payload
// fails as well.
func (e *Error) IsPermanent() bool {
	var inner interface{ IsPermanent() bool }
	return e.Permanent || errors.As(e.Err, &inner) && inner.IsPermanent()
}

// Error returns the node and its place, the message and the code, as logs show
// them. [Message] returns the message alone.
func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Node.Kind != "" {
		text = fmt.Sprintf("node %q (%s): %s", e.Node, e.At(), text)
	}
	if e.Code != "" && codeOf(e.Err) != e.Code {
		text += " [" + e.Code + "]"
	}
	return text
}

// At returns where the failure is: in the code of the node, if that is known, and else
// where the spec of the node starts.
func (e *Error) At() diag.Pos {
	var placed interface{ Place() diag.Pos }
	if errors.As(e.Err, &placed) && placed.Place().IsValid() {
		return placed.Place()
	}
	return e.Node.Pos
}

// codeOf returns the code that the text of an error ends with, if any.
func codeOf(err error) string {
	var e *Error
	var d *diag.Diagnostic
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &d):
		return string(d.Code)
	}
	return ""
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether another attempt may succeed. It does not if the error is permanent. A status of
// 4xx says that what was asked for is wrong, except for 408, 425 and 429, which are about the moment.
func (e *Error) Retryable() bool {
	if e.IsPermanent() {
		return false
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status == 0 || e.Status > 499
}

// ErrorFields returns the fields that expressions and snippets see: message, and code,
// status, node, public, permanent, challenges, data and letter, each if it is set. See
// [value.ErrorMap].
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
	if e.IsPermanent() {
		fields = append(fields, value.Field{Name: "permanent", Value: value.Bool(true)})
	}
	if len(e.Challenges) > 0 {
		challenges := make([]value.Value, len(e.Challenges))
		for i, c := range e.Challenges {
			challenges[i] = value.String(c)
		}
		fields = append(fields, value.Field{Name: "challenges", Value: value.List(challenges...)})
	}
	if !e.Data.IsNull() {
		fields = append(fields, value.Field{Name: "data", Value: e.Data})
	}
	if !e.Letter.IsNull() {
		fields = append(fields, value.Field{Name: "letter", Value: e.Letter})
	}
	return fields
}

// Message returns the message of an error without the nodes and places that the
// engine added. Joined errors have one line each.
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
// For joined errors it has the message of each, the first status and the first code
// that are set, and the longest retry-after; it is public only if all of them are. It is permanent if one
// of them is, and so it is an outage: what was asked for may work once the other side is back, and
// then only the other errors are left.
func Describe(err error) *Error {
	if e, ok := err.(*Error); ok {
		return e
	}
	for inner := err; inner != nil; {
		switch in := inner.(type) {
		case *Error:
			outer := *in
			outer.Err = err
			return &outer
		case interface{ Unwrap() []error }:
			return describeJoined(err, in.Unwrap())
		case interface{ Unwrap() error }:
			inner = in.Unwrap()
		default:
			inner = nil
		}
	}
	return &Error{Err: err}
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
		all.Outage = all.Outage || e.Outage
		all.Permanent = all.Permanent || e.IsPermanent()
		all.Challenges = append(all.Challenges, e.Challenges...)
		all.RetryAfter = max(all.RetryAfter, e.RetryAfter)
		all.Public = all.Public && e.Public
	}
	return all
}
