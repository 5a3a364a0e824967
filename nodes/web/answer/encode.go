package answer

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/accept"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

// An Encoder encodes and compresses answers. All requests of a server share it. The zero Encoder
// is ready.
type Encoder struct {
	compressors [3]compressors // by level
	buffers     sync.Pool      // of *bytes.Buffer
}

// MaxBuffer is the largest buffer, in bytes, that is kept for the next answer.
const MaxBuffer = 64 << 10

func (e *Encoder) buffer() *bytes.Buffer {
	if b, ok := e.buffers.Get().(*bytes.Buffer); ok {
		b.Reset()
		return b
	}
	return new(bytes.Buffer)
}

func (e *Encoder) recycle(b *bytes.Buffer) {
	if b.Cap() <= MaxBuffer {
		e.buffers.Put(b)
	}
}

// An Answer is one that is ready to be sent: the status and the body. Its header is in the
// http.ResponseWriter. It can be used for one request after the other.
type Answer struct {
	Status int
	Body   []byte
	Err    error         // why it cannot be sent
	buf    *bytes.Buffer // that has the body; nil if the body belongs to the value
}

// A Received is what an answer may be about: the request, and its body.
type Received struct {
	*http.Request
	Header *request.Header // of the payload; nil without a payload
	Body   value.Value     // decoded
	Raw    []byte          // the same as bytes, decompressed
}

// Encode encodes a response, and sets headers of it. An error means that the response cannot be
// sent.
func (e *Encoder) Encode(a *Answer, h http.Header, to *Received, s *Settings, resp node.Response) error {
	a.Status, a.Body = http.StatusOK, nil
	if resp.None {
		return nil
	}
	v, ok, err := envelope.Open(resp.Payload)
	if err != nil {
		return err
	}
	if !ok {
		return e.body(a, h, to, s, "", resp.Payload)
	}
	if own, ok := request.HeaderOf(v.Header); ok && own == to.Header || !ok && content.OfRequest(v.Header) { // of a run
		// The client's own headers are not sent back to it.
		if !v.HasStatus && v.Body.Equal(to.Body) {
			if contentType, ok := to.Request.Header["Content-Type"]; ok && len(to.Raw) > 0 {
				h["Content-Type"] = contentType[:1]
			}
			a.Body = to.Raw
			return nil
		}
		v.Header = value.Null()
	}
	contentType, err := envelope.SetHeaders(h, v.Header, envelope.ServerHeader)
	if err != nil {
		clear(h)
		return fmt.Errorf("answer: %w", err)
	}
	a.Status = v.Status
	if !v.HasBody || !content.HasBody(v.Status) || content.IsEmpty(v.Header, v.Body) {
		return nil
	}
	return e.body(a, h, to, s, contentType, v.Body)
}

// body encodes a value in the form of the Content-Type. If that is empty, the value
// and the client's Accept header decide.
func (e *Encoder) body(a *Answer, h http.Header, to *Received, s *Settings, contentType string, v value.Value) error {
	m := envelope.ParseMedia(contentType)
	asJSON := false
	if m.Kind == envelope.NoMedia && v.Kind() == value.KindString {
		asJSON = prefersJSON(to.Request.Header["Accept"])
		// A text without any header has nothing by which a cache could know how long it
		// is fresh. To say what it depends on would take 2 % of the time of a short request.
		if asJSON || len(h) > 0 || len(s.fixed) > 0 {
			Vary(h, VaryAccept)
		}
	}
	if !asJSON {
		data, detected, ok, err := envelope.PlainBody(m, v)
		if err != nil {
			clear(h)
			return fmt.Errorf("answer: %w", err)
		}
		if ok {
			if m.Kind == envelope.NoMedia {
				header := Octets
				if detected == envelope.TypeText {
					header = Text
				}
				h["Content-Type"] = header
			}
			a.Body = data
			return nil
		}
	}
	if m.Kind == envelope.NoMedia {
		h["Content-Type"] = headerJSON
	}
	buf := e.buffer()
	data, err := v.AppendJSON(buf.AvailableBuffer())
	if err != nil {
		e.recycle(buf)
		clear(h)
		return fmt.Errorf("answer: body: %w", err)
	}
	*buf = *bytes.NewBuffer(data) // it keeps the array for the next use
	a.Body, a.buf = data, buf
	return nil
}

// Discard drops the body of an answer, which was sent, or will not be.
func (e *Encoder) Discard(a *Answer) {
	a.Body = nil
	if a.buf != nil {
		e.recycle(a.buf)
		a.buf = nil
	}
}

// acceptsAny reports whether an Accept header leaves the media type to the server.
func acceptsAny(lines []string) bool {
	return len(lines) == 0 || len(lines) == 1 && (lines[0] == "*/*" || lines[0] == "")
}

// prefersJSON reports whether a client prefers a string as JSON to one as text.
func prefersJSON(lines []string) bool {
	return !acceptsAny(lines) && accept.Type(lines, envelope.TypeJSON) > accept.Type(lines, "text/plain")
}

// prefersProblem reports whether a client prefers an error as problem+json, or as any
// JSON, to one as text.
func prefersProblem(lines []string) bool {
	if acceptsAny(lines) {
		return false
	}
	return max(accept.Type(lines, envelope.TypeProblem), accept.Type(lines, envelope.TypeJSON)) > accept.Type(lines, "text/plain")
}

// stringBytes returns the bytes of a string that will only be read.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Vary adds to the headers of requests that an answer depends on.
func Vary(h http.Header, names []string) {
	if len(h["Vary"]) == 0 {
		h["Vary"] = names // shared: nothing may change it
		return
	}
	h["Vary"] = append(slices.Clip(h["Vary"]), names...)
}

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
