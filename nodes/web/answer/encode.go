package answer

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
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

// An Answer is one that is ready to be sent: the status and the body. Its header is that of the
// http.ResponseWriter. It can be used for one request after the other.
type Answer struct {
	Status int
	Body   []byte
	Err    error         // why it cannot be sent
	buf    *bytes.Buffer // that has the body; nil if the body is that of the value
}

// A Received is what an answer may be about: the request, and its body.
type Received struct {
	*http.Request
	Header *request.Header // of the payload; nil without a payload
	Body   value.Value     // decoded
	Raw    []byte          // the same as bytes, decompressed
}

// Encode encodes a response, and sets headers of it. An error means that the response cannot be
// sent; it is a.Err, too.
func (e *Encoder) Encode(a *Answer, h http.Header, to Received, s *Settings, resp node.Response) error {
	a.Err = e.encode(a, h, &to, s, resp)
	return a.Err
}

func (e *Encoder) encode(a *Answer, h http.Header, to *Received, s *Settings, resp node.Response) error {
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
	if own, ok := request.HeaderOf(v.Header); ok && own == to.Header {
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
		h["Content-Type"] = JSON
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
