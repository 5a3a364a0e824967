package answer

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// IDs are what an answer with an error says of its request and its process. Empty ones are left
// out.
type IDs struct{ Request, Process string }

// SetError makes an answer of an error: its status, and its message only if it is public.
func (a *Answer) SetError(h http.Header, r *http.Request, e *node.Error, ids IDs) {
	clear(h)
	a.Status = envelope.FailureStatus(e)
	if e.RetryAfter > 0 {
		h["Retry-After"] = []string{strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10)}
	}
	if len(e.Challenges) > 0 {
		h["Www-Authenticate"] = e.Challenges
	}
	title := statusText(a.Status)
	h["Vary"] = VaryAccept
	if !prefersProblem(r.Header["Accept"]) {
		body := title
		if e.Public {
			body = node.Message(e)
		}
		h["Content-Type"] = Text
		a.Body = stringBytes(body)
		return
	}
	h["Content-Type"] = headerProblem
	data, err := problem(e, a.Status, title, ids).AppendJSON(nil)
	if err != nil { // JSON cannot represent what the workflow says of the error
		data, err = problem(&node.Error{Err: e.Err}, a.Status, title, ids).AppendJSON(nil)
	}
	if err != nil {
		data = nil
	}
	a.Body = data
}

// problem describes an error as RFC 9457 does. If the error is public, its data is part of
// that: a map of members, of which type and title replace those that the status has.
func problem(e *node.Error, status int, title string, ids IDs) value.Value {
	fields := []value.Field{
		{Name: "type", Value: value.String("about:blank")},
		{Name: "title", Value: value.String(title)},
		{Name: "status", Value: value.Int(int64(status))},
	}
	if detail := node.Message(e); e.Public && detail != title {
		fields = append(fields, value.Field{Name: "detail", Value: value.String(detail)})
	}
	if ids.Process != "" {
		fields = append(fields, value.Field{Name: "instance", Value: value.String("urn:uuid:" + ids.Process)})
	}
	if ids.Request != "" {
		fields = append(fields, value.Field{Name: "request_id", Value: value.String(ids.Request)})
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
