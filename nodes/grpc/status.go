package grpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format/protobuf"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/value"
)

// statusCancelled is the status of a call that the client has cancelled; HTTP has none.
const statusCancelled = 499

// codeRow is a row of the table of codes.
type codeRow struct {
	code   connect.Code
	name   string
	status int // of HTTP
}

// codes is the table of codes. Of several with the same status, the first one is the code for
// that status.
func codes() [16]codeRow {
	return [...]codeRow{
		{connect.CodeInvalidArgument, "INVALID_ARGUMENT", http.StatusBadRequest},
		{connect.CodeUnauthenticated, "UNAUTHENTICATED", http.StatusUnauthorized},
		{connect.CodePermissionDenied, "PERMISSION_DENIED", http.StatusForbidden},
		{connect.CodeNotFound, "NOT_FOUND", http.StatusNotFound},
		{connect.CodeAborted, "ABORTED", http.StatusConflict},
		{connect.CodeResourceExhausted, "RESOURCE_EXHAUSTED", http.StatusTooManyRequests},
		{connect.CodeCanceled, "CANCELLED", statusCancelled},
		{connect.CodeInternal, "INTERNAL", http.StatusInternalServerError},
		{connect.CodeUnimplemented, "UNIMPLEMENTED", http.StatusNotImplemented},
		{connect.CodeUnavailable, "UNAVAILABLE", http.StatusServiceUnavailable},
		{connect.CodeDeadlineExceeded, "DEADLINE_EXCEEDED", http.StatusGatewayTimeout},
		{connect.CodeAlreadyExists, "ALREADY_EXISTS", http.StatusConflict},
		{connect.CodeFailedPrecondition, "FAILED_PRECONDITION", http.StatusBadRequest},
		{connect.CodeOutOfRange, "OUT_OF_RANGE", http.StatusBadRequest},
		{connect.CodeUnknown, "UNKNOWN", http.StatusInternalServerError},
		{connect.CodeDataLoss, "DATA_LOSS", http.StatusInternalServerError},
	}
}

func rowOf(code connect.Code) codeRow {
	for _, row := range codes() {
		if row.code == code {
			return row
		}
	}
	return codeRow{code, fmt.Sprintf("CODE_%d", uint32(code)), http.StatusInternalServerError}
}

// codeOf returns the code for an error: the one that it is named after, or that of its status.
func codeOf(e *node.Error) connect.Code {
	for _, row := range codes() {
		if row.name == e.Code {
			return row.code
		}
	}
	if e.Code == string(diag.CodeCancelled) || errors.Is(e, node.ErrStopped) {
		return connect.CodeUnavailable
	}
	status := envelope.FailureStatus(e)
	for _, row := range codes() {
		if row.status == status {
			return row.code
		}
	}
	switch {
	case status == http.StatusPreconditionFailed:
		return connect.CodeFailedPrecondition
	case status == http.StatusRequestTimeout:
		return connect.CodeDeadlineExceeded
	case status == http.StatusRequestEntityTooLarge:
		return connect.CodeResourceExhausted
	case status == http.StatusBadGateway:
		return connect.CodeUnavailable
	case status < http.StatusInternalServerError:
		return connect.CodeInvalidArgument
	}
	return connect.CodeInternal
}

// Keys of the data of an error.
const (
	keyDetails = "details"
	keyCode    = "code"
	keyMessage = "message"
)

// failure returns the error of a call as the workflow sees it. limited is the context of the call,
// which may have run out of time, and ctx that of the process.
func (n *callNode) failure(ctx, limited context.Context, s *protobuf.Schema, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var known *node.Error
	if errors.As(err, &known) {
		return known
	}
	var ce *connect.Error
	var away *httpclient.Failure
	var unfit *protobuf.Error
	e := &node.Error{Status: http.StatusBadGateway}
	text := err.Error()
	switch {
	case errors.As(err, &unfit):
		e.Code, e.Permanent, text = "answer", true, "answer: "+unfit.Error()
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		e.Code, e.Status, text = "DEADLINE_EXCEEDED", http.StatusGatewayTimeout, fmt.Sprintf("no complete answer within %v", n.timeout)
	case errors.As(err, &away):
		e.Code, e.Status, e.Outage, text = away.Code, away.Status(), away.Away, away.Error()
	case errors.As(err, &ce):
		row := rowOf(ce.Code())
		e.Code, e.Status, text = row.name, row.status, ce.Message()
		e.Outage = row.code == connect.CodeUnavailable || row.code == connect.CodeResourceExhausted && connect.IsWireError(err)
		e.Permanent = row.code == connect.CodeUnimplemented || row.code == connect.CodeDataLoss
		e.RetryAfter = httpclient.RetryAfter(ce.Meta(), time.Now())
		e.Data = detailsOf(s, ce, row.name, e)
	}
	e.Err = errors.New(n.label + node.Clip(text, maxError))
	return e
}

// maxError is how many bytes of an error of a service a message shows.
const maxError = 1000

// detailsOf returns the data of an error, and reads of the details when to try again.
func detailsOf(s *protobuf.Schema, ce *connect.Error, name string, e *node.Error) value.Value {
	details := make([]value.Value, 0, len(ce.Details()))
	for _, d := range ce.Details() {
		v := s.Any(d.Type(), d.Bytes())
		if delay, ok := v.Get("retry_delay"); ok && d.Type() == "google.rpc.RetryInfo" {
			e.RetryAfter, _ = delay.AsDuration()
		}
		details = append(details, v)
	}
	return value.Map(
		value.Field{Name: keyCode, Value: value.String(name)},
		value.Field{Name: keyMessage, Value: value.String(ce.Message())},
		value.Field{Name: keyDetails, Value: value.List(details...)},
	)
}

// wireError returns what a client gets for an error of a process: its message and details if they
// are public, else where to look for them.
func wireError(ctx context.Context, s *protobuf.Schema, err error, process string) error {
	switch ctx.Err() {
	case context.DeadlineExceeded:
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("the deadline of the call has passed"))
	case context.Canceled:
		return connect.NewError(connect.CodeCanceled, errors.New("the call was cancelled"))
	}
	e := node.Describe(err)
	code := codeOf(e)
	text := node.Message(e)
	if !e.Public {
		text = strings.ToLower(strings.ReplaceAll(rowOf(code).name, "_", " "))
		if process != "" {
			text += " (process " + process + ")"
		}
	}
	ce := connect.NewError(code, errors.New(text))
	if e.Public {
		addDetails(s, ce, e.Data)
	}
	if e.RetryAfter > 0 {
		seconds := int64((e.RetryAfter + time.Second - 1) / time.Second)
		ce.Meta().Set("Retry-After", fmt.Sprint(seconds))
	}
	return ce
}

// addDetails adds the details that the data of an error has. One that does not fit its type is
// left out: the error itself matters more.
func addDetails(s *protobuf.Schema, ce *connect.Error, data value.Value) {
	if data.Kind() != value.KindMap {
		return
	}
	list, _ := data.Get(keyDetails)
	if list.Kind() != value.KindList {
		return
	}
	for _, v := range list.Elems() {
		raw, err := s.Marshal(protobuf.Known().Message("google.protobuf.Any"), v)
		var boxed anypb.Any
		if err == nil {
			err = proto.Unmarshal(raw, &boxed)
		}
		if err != nil || boxed.GetTypeUrl() == "" {
			continue
		}
		if d, err := connect.NewErrorDetail(&boxed); err == nil {
			ce.AddDetail(d)
		}
	}
}
