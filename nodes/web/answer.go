package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

// Header values that most answers share. net/http does not change them.
var (
	headerJSON    = []string{envelope.TypeJSON}
	headerText    = []string{envelope.TypeText}
	headerOctets  = []string{envelope.TypeOctets}
	headerProblem = []string{envelope.TypeProblem}
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

// An encoded is an answer that is ready to be sent: the status and the body. Its header is
// that of the http.ResponseWriter. An exchange has one for all its requests.
type encoded struct {
	status int
	body   []byte
	buf    *bytes.Buffer // that has the body; nil if the body is that of the value
	err    error         // why the answer cannot be sent
}

// encode reads an answer and encodes it. An error means that it cannot be sent.
func (a *answerWriter) encode(x *exchange, resp node.Response) error {
	to := &x.reusable.answer
	to.status, to.body = http.StatusOK, nil
	if resp.None {
		return nil
	}
	e, ok, err := envelope.Open(resp.Payload)
	if err != nil {
		return err
	}
	if !ok {
		return a.encodeBody(x, "", resp.Payload)
	}
	if view, ok := request.HeaderOf(e.Header); ok && x.req != nil && view == &x.req.Header {
		// The client's own headers are not sent back to it.
		if !e.HasStatus && e.Body.Equal(x.body) {
			a.encodeEcho(x)
			return nil
		}
		e.Header = value.Null()
	}
	contentType, err := envelope.SetHeaders(x.w.Header(), e.Header, envelope.ServerHeader)
	if err != nil {
		clear(x.w.Header())
		return fmt.Errorf("answer: %w", err)
	}
	to.status = e.Status
	if !e.HasBody || !content.HasBody(e.Status) || content.IsEmpty(e.Header, e.Body) {
		return nil
	}
	return a.encodeBody(x, contentType, e.Body)
}

// encodeEcho answers a request with its own body.
func (a *answerWriter) encodeEcho(x *exchange) {
	if contentType, ok := x.r.Header["Content-Type"]; ok && len(x.raw) > 0 {
		x.w.Header()["Content-Type"] = contentType[:1]
	}
	x.reusable.answer.body = x.raw
}

// encodeBody encodes a value in the form of the Content-Type. If that is empty, the value
// and the client's Accept header decide.
func (a *answerWriter) encodeBody(x *exchange, contentType string, v value.Value) error {
	h := x.w.Header()
	m := envelope.ParseMedia(contentType)
	asJSON := false
	if m.Kind == envelope.NoMedia && v.Kind() == value.KindString {
		asJSON = prefersJSON(x.r.Header["Accept"])
		// A text without any header has nothing by which a cache could know how long it
		// is fresh. To say what it depends on would take 2 % of the time of a short request.
		if asJSON || len(h) > 0 || len(x.gen.edge.fixed) > 0 {
			vary(h, headerVaryAccept)
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
				header := headerOctets
				if detected == envelope.TypeText {
					header = headerText
				}
				h["Content-Type"] = header
			}
			x.reusable.answer.body = data
			return nil
		}
	}
	if m.Kind == envelope.NoMedia {
		h["Content-Type"] = headerJSON
	}
	buf := a.getBuffer()
	data, err := v.AppendJSON(buf.AvailableBuffer())
	if err != nil {
		a.putBuffer(buf)
		clear(h)
		return fmt.Errorf("answer: body: %w", err)
	}
	x.reusable.answer.body, x.reusable.answer.buf = keepArray(buf, data), buf
	return nil
}

// sendEncoded sends the answer that was encoded.
func (a *answerWriter) sendEncoded(x *exchange) (status, size int) {
	status, size = a.write(x, x.reusable.answer.status, x.reusable.answer.body)
	a.discard(x)
	return status, size
}

// discard drops the answer that was encoded, if there is one.
func (a *answerWriter) discard(x *exchange) {
	to := &x.reusable.answer
	to.body = nil
	if to.buf != nil {
		a.putBuffer(to.buf)
		to.buf = nil
	}
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
	if !content.HasBody(status) {
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
		if allow := x.req.Header.Allow.Load(); allow != nil {
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
