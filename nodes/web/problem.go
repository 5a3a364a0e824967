package web

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// writeError answers with an error: its status, and its message only if it is public.
func (a *answerWriter) writeError(x *exchange, e *node.Error) (status, size int) {
	h := x.w.Header()
	clear(h)
	status = envelope.FailureStatus(e)
	if e.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10)}
	}
	if len(e.Challenges) > 0 {
		h["Www-Authenticate"] = e.Challenges
	}
	title := statusText(status)
	h["Vary"] = headerVaryAccept
	if !prefersProblem(x.r.Header["Accept"]) {
		body := title
		if e.Public {
			body = node.Message(e)
		}
		h["Content-Type"] = headerText
		return a.write(x, status, stringBytes(body))
	}
	h["Content-Type"] = headerProblem
	data, err := x.problem(e, status, title).AppendJSON(nil)
	if err != nil { // JSON cannot represent what the workflow says of the error
		data, err = x.problem(&node.Error{Err: e.Err}, status, title).AppendJSON(nil)
	}
	if err != nil {
		data = nil
	}
	return a.write(x, status, data)
}

// problem describes an error as RFC 9457 does. If the error is public, its data is part of
// that: a map of members, of which type and title replace those that the status has.
func (x *exchange) problem(e *node.Error, status int, title string) value.Value {
	fields := []value.Field{
		{Name: "type", Value: value.String("about:blank")},
		{Name: "title", Value: value.String(title)},
		{Name: "status", Value: value.Int(int64(status))},
	}
	if detail := node.Message(e); e.Public && detail != title {
		fields = append(fields, value.Field{Name: "detail", Value: value.String(detail)})
	}
	if x.id != "" {
		fields = append(fields, value.Field{Name: "instance", Value: value.String("urn:uuid:" + x.id)})
	}
	if id := x.answeredID(); id != "" {
		fields = append(fields, value.Field{Name: "request_id", Value: value.String(id)})
	}
	if !e.Public || e.Data.Kind() != value.KindMap {
		return value.UniqueMap(fields)
	}
	for name, field := range e.Data.Fields() {
		switch name {
		case "type", "title":
			if field.Kind() == value.KindString {
				at := slices.IndexFunc(fields, func(f value.Field) bool { return f.Name == name })
				fields[at].Value = field
			}
		case "status", "detail", "instance", "request_id":
		default:
			fields = append(fields, value.Field{Name: name, Value: field})
		}
	}
	return value.UniqueMap(fields)
}

func statusText(status int) string {
	if s := http.StatusText(status); s != "" {
		return s
	}
	return "Status " + strconv.Itoa(status)
}
