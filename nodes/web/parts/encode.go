package parts

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/accept"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/answer"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

// A partForm is how the parts of an answer are written.
type partForm uint8

const (
	partChunks partForm = iota // text as it is, all else as a line of JSON
	partEvents                 // server-sent events
	partLines                  // a line of JSON each
)

const (
	typeEvents = "text/event-stream"
	typeLines  = "application/x-ndjson"
)

var (
	headerEvents  = []string{typeEvents}
	headerLines   = []string{typeLines}
	headerNoStore = []string{"no-store"}
)

// eventsHead begins a stream of events: a client that loses it comes back after a second.
const eventsHead = "retry: 1000\n\n"

// eventsComment keeps a stream of events from looking idle to what is in between.
const eventsComment = ":\n\n"

// formOf returns the form that a client has asked for by name. A workflow that says what
// it sends decides otherwise.
func formOf(accepted []string, contentType string) partForm {
	if contentType != "" {
		name, _, _ := strings.Cut(contentType, ";")
		switch name = strings.TrimSpace(name); {
		case strings.EqualFold(name, typeEvents):
			return partEvents
		case strings.EqualFold(name, typeLines):
			return partLines
		}
		return partChunks
	}
	events, _ := accept.Named(accepted, typeEvents)
	lines, _ := accept.Named(accepted, typeLines)
	switch {
	case events > 0 && events >= lines:
		return partEvents
	case lines > 0:
		return partLines
	}
	return partChunks
}

// contentType is the Content-Type of an answer whose first part is v.
func (f partForm) contentType(v value.Value) []string {
	switch {
	case f == partEvents:
		return headerEvents
	case f == partLines:
		return headerLines
	case v.Kind() == value.KindString:
		return answer.Text
	case v.Kind() == value.KindBinary:
		return answer.Octets
	}
	return headerLines
}

// append appends one part, or the end of an answer if that has a name.
func (f partForm) append(dst []byte, v value.Value, end string) ([]byte, error) {
	if f == partEvents {
		return appendEvent(dst, v, end)
	}
	if f == partChunks {
		if s, ok := v.AsString(); ok {
			return append(dst, s...), nil
		}
		if b, ok := v.AsBinary(); ok {
			return append(dst, b...), nil
		}
	}
	dst, err := v.AppendJSON(dst)
	if err != nil {
		return dst, err
	}
	return append(dst, '\n'), nil
}

// appendEvent appends a server-sent event: v is its data, or if it is a map of only
// event, id, data and retry, the event. The name is for an event that has none.
func appendEvent(dst []byte, v value.Value, name string) ([]byte, error) {
	start := len(dst)
	data, hasData := v, true
	if isEvent(v) {
		hasData = name != "" // a named event without data would not reach the page
		data = value.String("")
		for key, field := range v.Fields() {
			var err error
			switch key {
			case "data":
				data, hasData = field, true
			case "event":
				name, err = eventText(field)
				hasData = true
			case "id":
				var id string
				if id, err = eventText(field); err == nil {
					dst = append(append(append(dst, "id: "...), id...), '\n')
				}
			case "retry":
				ms, ok := field.AsInt()
				if !ok || ms < 0 {
					err = fmt.Errorf("want milliseconds, got %s", node.Clip(field.String(), envelope.MaxQuote))
				}
				dst = append(strconv.AppendInt(append(dst, "retry: "...), ms, 10), '\n')
			}
			if err != nil {
				return dst[:start], fmt.Errorf("%s of an event: %w", key, err)
			}
		}
	}
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	if hasData {
		s, isText := data.AsString()
		if isText {
			dst = appendData(dst, s)
		} else {
			var err error
			if dst, err = data.AppendJSON(append(dst, "data: "...)); err != nil {
				return dst[:start], err
			}
			dst = append(dst, '\n')
		}
	}
	return append(dst, '\n'), nil
}

// appendData appends a text, each of whose lines is a field of its own.
func appendData(dst []byte, s string) []byte {
	for {
		i := strings.IndexAny(s, "\r\n")
		line := s
		if i >= 0 {
			line = s[:i]
		}
		dst = append(append(append(dst, "data: "...), line...), '\n')
		if i < 0 {
			return dst
		}
		if strings.HasPrefix(s[i:], "\r\n") {
			i++
		}
		s = s[i+1:]
	}
}

// isEvent reports whether v is a map of only event, id, data and retry.
func isEvent(v value.Value) bool {
	if v.Kind() != value.KindMap || v.Len() == 0 {
		return false
	}
	for name := range v.Fields() {
		switch name {
		case "event", "id", "data", "retry":
		default:
			return false
		}
	}
	return true
}

// eventText returns a field of an event that is one line.
func eventText(v value.Value) (string, error) {
	s, ok := envelope.Text(v)
	if !ok {
		return "", fmt.Errorf("want text, got %s", v.Kind())
	}
	if strings.ContainsAny(s, "\r\n\x00") {
		return "", errors.New("a line break or a zero byte would end it")
	}
	return s, nil
}

// failurePart describes an error that ends an answer in parts. The message is there only
// if it is public.
func failurePart(e *node.Error) value.Value {
	fields := []value.Field{{Name: "status", Value: value.Int(int64(envelope.FailureStatus(e)))}}
	if e.Public {
		fields = append(fields, value.Field{Name: "message", Value: value.String(node.Message(e))})
	}
	return value.UniqueMap(fields)
}

// open reads a part as an answer is read: of a map of status, header and body it is the
// body. ok is false if there is nothing to send.
func (p *Parts) open(resp node.Response) (e envelope.Envelope, ok bool, err error) {
	if resp.None {
		return envelope.Envelope{Status: http.StatusOK}, false, nil
	}
	e, isEnvelope, err := envelope.Open(resp.Payload)
	switch {
	case err != nil:
		return e, false, err
	case !isEnvelope:
		return envelope.Envelope{Status: http.StatusOK, Body: resp.Payload}, true, nil
	}
	if own, ok := request.HeaderOf(e.Header); ok && own == p.env.Header() {
		return envelope.Envelope{Status: http.StatusOK}, false, nil // the request itself, of a branch without a link
	}
	return e, e.HasBody, nil
}

// WantsEvents reports whether a client asks for server-sent events.
func WantsEvents(r *http.Request) bool { return formOf(r.Header["Accept"], "") == partEvents }
