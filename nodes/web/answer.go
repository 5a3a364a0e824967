package web

import (
	"bytes"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// Header values that most answers share. net/http does not change them.
var (
	headerJSON    = []string{typeJSON}
	headerText    = []string{typeText}
	headerOctets  = []string{typeOctets}
	headerProblem = []string{typeProblem}
	headerClose   = []string{"close"}

	headerVaryAccept   = []string{"Accept"}
	headerVaryEncoding = []string{"Accept-Encoding"}
	headerVaryOrigin   = []string{"Origin"}
)

const (
	// lengthFrom is the smallest body, in bytes, whose length is set here. A smaller
	// one fits the buffer of net/http, which sets its length without an allocation.
	lengthFrom = 2048
)

// An answerWriter writes answers. All requests of a server share it.
type answerWriter struct {
	encoders [3]encoders // by level
	buffers  sync.Pool   // of *bytes.Buffer
}

// maxPooledBuffer is the largest buffer, in bytes, that is kept for the next answer.
const maxPooledBuffer = 64 << 10

func (a *answerWriter) getBuffer() *bytes.Buffer {
	if b, ok := a.buffers.Get().(*bytes.Buffer); ok {
		b.Reset()
		return b
	}
	return new(bytes.Buffer)
}

func (a *answerWriter) putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxPooledBuffer {
		a.buffers.Put(b)
	}
}

// writeResponse writes the answer that a response describes, and returns its status
// and the size of its body. An error means that the response cannot be sent, and
// that nothing was written.
func (a *answerWriter) writeResponse(x *exchange, resp node.Response) (status, size int, err error) {
	if resp.None {
		return a.finish(x, http.StatusOK, nil)
	}
	e, ok, err := openEnvelope(resp.Payload)
	if err != nil {
		return 0, 0, err
	}
	if !ok {
		return a.writeBody(x, http.StatusOK, "", resp.Payload)
	}
	if view, ok := viewOf(e.header); ok && x.req != nil && view == &x.req.header {
		// The client's own headers are not sent back to it.
		if !e.hasStatus && e.body.Equal(x.body) {
			return a.writeEcho(x)
		}
		e.header = value.Null()
	}
	contentType, err := setHeaders(x.w.Header(), e.header, isServerHeader)
	if err != nil {
		clear(x.w.Header())
		return 0, 0, fmt.Errorf("answer: %w", err)
	}
	if !e.hasBody || !bodyAllowed(e.status) || isEmpty(e.header, e.body) {
		return a.finish(x, e.status, nil)
	}
	return a.writeBody(x, e.status, contentType, e.body)
}

// writeEcho answers a request with its own body.
func (a *answerWriter) writeEcho(x *exchange) (status, size int, err error) {
	if contentType, ok := x.r.Header["Content-Type"]; ok && len(x.raw) > 0 {
		x.w.Header()["Content-Type"] = contentType[:1]
	}
	return a.finish(x, http.StatusOK, x.raw)
}

// writeBody answers with a value, in the form of the Content-Type. If that is empty,
// the value and the client's Accept header decide.
func (a *answerWriter) writeBody(x *exchange, status int, contentType string, v value.Value) (int, int, error) {
	h := x.w.Header()
	m := parseMedia(contentType)
	asJSON := false
	if m.kind == mediaNone && v.Kind() == value.KindString {
		vary(h, headerVaryAccept)
		asJSON = prefersJSON(x.r.Header["Accept"])
	}
	if !asJSON {
		data, detected, ok, err := plainBody(m, v)
		if err != nil {
			clear(h)
			return 0, 0, fmt.Errorf("answer: %w", err)
		}
		if ok {
			if m.kind == mediaNone {
				h["Content-Type"] = detected
			}
			return a.finish(x, status, data)
		}
	}
	if m.kind == mediaNone {
		h["Content-Type"] = headerJSON
	}
	buf := a.getBuffer()
	defer a.putBuffer(buf)
	data, err := v.AppendJSON(buf.AvailableBuffer())
	if err != nil {
		clear(h)
		return 0, 0, fmt.Errorf("answer: body: %w", err)
	}
	return a.finish(x, status, keepArray(buf, data))
}

// plainBody returns the bytes of a body in the form of a media type, and the type of
// one without. ok is false for a value that is written as JSON. The bytes may be those
// of the value.
func plainBody(m media, v value.Value) (data []byte, detected []string, ok bool, err error) {
	if s, isString := v.AsString(); isString {
		switch {
		case m.kind == mediaJSON:
			return nil, nil, false, nil
		case m.kind == mediaText && m.charset != "":
			return fromUTF8(m.charset, s), nil, true, nil
		}
		return stringBytes(s), headerText, true, nil
	}
	if b, isBinary := v.AsBinary(); isBinary {
		return b, headerOctets, true, nil
	}
	switch {
	case m.kind == mediaForm && v.Kind() == value.KindMap:
		data, err = encodeForm(v)
		return data, nil, err == nil, err
	case m.kind == mediaText && v.IsNull():
		return nil, nil, true, nil
	}
	return nil, nil, false, nil
}

// keepArray makes buf keep the array of data for the next use.
func keepArray(buf *bytes.Buffer, data []byte) []byte {
	*buf = *bytes.NewBuffer(data)
	return data
}

// stringBytes returns the bytes of a string that will only be read.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// fromUTF8 encodes a text in a charset. Characters that the charset does not have
// become its replacement character.
func fromUTF8(charset, s string) []byte {
	if charset == "us-ascii" {
		return stringBytes(s)
	}
	e, err := htmlindex.Get(charset)
	if err != nil {
		return stringBytes(s) // the workflow has chosen an unknown charset: the body is its own
	}
	data, err := encoding.ReplaceUnsupported(e.NewEncoder()).Bytes(stringBytes(s))
	if err != nil {
		return stringBytes(s)
	}
	return data
}

// finish is write, with an error that is always nil.
func (a *answerWriter) finish(x *exchange, status int, body []byte) (int, int, error) {
	status, size := a.write(x, status, body)
	return status, size, nil
}

// write sends a status and a body, compressed if that is worth it, and returns how
// many bytes of the body were sent.
func (a *answerWriter) write(x *exchange, status int, body []byte) (sent, size int) {
	x.logFailure(status)
	h := x.w.Header()
	x.setFixed(h, x.answeredID())
	if x.closeConn && x.r.ProtoMajor < 3 {
		h["Connection"] = headerClose
	}
	if !bodyAllowed(status) {
		x.release()
		x.w.WriteHeader(status)
		return status, 0
	}
	if compression := &x.gen.edge.compression; len(body) >= compression.minBytes && len(body) > 0 {
		if coding := a.codingFor(x, h); coding != "" {
			buf := a.getBuffer()
			defer a.putBuffer(buf)
			if err := a.encoders[compression.level].compress(buf, compression.level, coding, body); err != nil {
				x.gen.log.Warn("answer sent without compression", keyLogCoding, coding, keyLogError, err)
			} else {
				body = buf.Bytes()
				h["Content-Encoding"] = []string{coding}
				if etag := h.Get("Etag"); strings.HasPrefix(etag, `"`) {
					h.Set("Etag", "W/"+etag) // weak: the bytes differ
				}
			}
		}
	}
	if status == http.StatusMethodNotAllowed && x.req != nil && len(h["Allow"]) == 0 {
		if allow := x.req.header.allow.Load(); allow != nil {
			h["Allow"] = []string{*allow}
		}
	}
	if status == http.StatusUpgradeRequired && x.r.ProtoMajor == 1 { // the only upgrade that there is
		h["Upgrade"] = []string{"websocket"}
		h["Connection"] = append(h["Connection"], "Upgrade")
	}
	x.release()
	head := x.r.Method == http.MethodHead
	if head || len(body) >= lengthFrom || x.r.ProtoMajor > 1 {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	if status != http.StatusOK || head {
		x.w.WriteHeader(status)
	}
	if head {
		return status, 0
	}
	n, err := x.send(body)
	if err != nil {
		x.writeErr = err // the client has gone
	}
	return status, n
}

// codingFor returns what to compress an answer with, or "".
func (a *answerWriter) codingFor(x *exchange, h http.Header) string {
	if x.gen.edge.compression.level == levelNone || len(h["Content-Encoding"]) > 0 || len(h["Content-Range"]) > 0 || strings.Contains(h.Get("Cache-Control"), "no-transform") {
		return ""
	}
	if contentType := h["Content-Type"]; len(contentType) == 0 || !x.gen.edge.compression.admits(contentType[0]) {
		return ""
	}
	vary(h, headerVaryEncoding)
	return chooseCoding(x.r.Header["Accept-Encoding"])
}

// bodyAllowed reports whether answers of a status have a body.
func bodyAllowed(status int) bool {
	return status != http.StatusNoContent && status != http.StatusResetContent && status != http.StatusNotModified
}

// isServerHeader reports whether a workflow cannot set a header, because it is about
// the connection or about the encoded body.
func isServerHeader(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// setHeaders sets headers that a workflow has given, names in any case, except for
// those that skip reports. It returns the Content-Type among them.
func setHeaders(h http.Header, header value.Value, skip func(name string) bool) (contentType string, err error) {
	switch header.Kind() {
	case value.KindNull:
		return "", nil
	case value.KindMap:
	default:
		return "", fmt.Errorf("header is a %s: want a map", header.Kind())
	}
	for name, v := range header.Fields() {
		if !validToken(name) {
			return "", fmt.Errorf("%q is not a valid header name", node.Clip(name, maxQuote))
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		if skip(key) {
			continue
		}
		list, err := headerValues(h[key], name, v)
		if err != nil {
			return "", err
		}
		if len(list) == 0 {
			continue
		}
		if key == "Content-Type" {
			list = list[len(list)-1:]
			contentType = list[0]
		}
		h[key] = list
	}
	return contentType, nil
}

// headerValues appends a header's value, or each of a list. Null adds nothing.
func headerValues(list []string, name string, v value.Value) ([]string, error) {
	if v.Kind() == value.KindList {
		for _, elem := range v.Elems() {
			if elem.Kind() == value.KindList {
				return nil, fmt.Errorf("header %q has a list within its list", node.Clip(name, maxQuote))
			}
			var err error
			if list, err = headerValues(list, name, elem); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	if v.IsNull() {
		return list, nil
	}
	s, ok := text(v)
	if !ok {
		return nil, fmt.Errorf("header %q is a %s: want a string or a list of strings", node.Clip(name, maxQuote), v.Kind())
	}
	if !validHeaderValue(s) {
		return nil, fmt.Errorf("header %q has control characters", node.Clip(name, maxQuote))
	}
	return append(list, s), nil
}

// text returns a string, number or boolean as text.
func text(v value.Value) (s string, ok bool) {
	switch v.Kind() {
	case value.KindString:
		return v.AsString()
	case value.KindBool, value.KindInt, value.KindUint, value.KindFloat:
		data, err := v.AppendJSON(nil)
		return string(data), err == nil
	}
	return "", false
}

// encodeForm writes a map as a form.
func encodeForm(v value.Value) ([]byte, error) {
	var out []byte
	add := func(name string, v value.Value) error {
		s, ok := text(v)
		if !ok {
			return fmt.Errorf("form field %q is a %s: want a string or a list of strings", node.Clip(name, maxQuote), v.Kind())
		}
		if len(out) > 0 {
			out = append(out, '&')
		}
		out = append(append(append(out, url.QueryEscape(name)...), '='), url.QueryEscape(s)...)
		return nil
	}
	for name, field := range v.Fields() {
		if field.Kind() != value.KindList {
			if err := add(name, field); err != nil {
				return nil, err
			}
			continue
		}
		for _, elem := range field.Elems() {
			if err := add(name, elem); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// vary adds to the headers of requests that an answer depends on.
func vary(h http.Header, names []string) {
	if len(h["Vary"]) == 0 {
		h["Vary"] = names // shared: nothing may change it
		return
	}
	h["Vary"] = append(slices.Clip(h["Vary"]), names...)
}
