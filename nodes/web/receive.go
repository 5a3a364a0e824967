package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/nodes/web/answer"
	"github.com/uniflow-labs/uniflow/nodes/web/body"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// smallBody is the largest body, in bytes, that is decoded without a decode slot.
	// The last eighth of the bytes that a server may hold is kept for requests that
	// hold at most 16 times as many.
	smallBody = 4 << 10
)

// A reception is the first phase of an exchange: the head of the request is checked, and its
// body read and decoded.
type reception struct {
	*arrival
	reserve   func(bytes int) error // reserveBytes
	from      request.Origin        // where the request came from
	id        string                // of the client, or made for the request; may be empty
	head      *request.Payload      // made for screening; may be nil
	body      value.Value           // decoded
	raw       []byte                // the body, decompressed; the value may share it
	sent      []byte                // the body as it came; nil if it was compressed and the flow does not need it
	heldBytes int64                 // counted in server.held
	skipped   bool                  // the body was not read, because the flow would not take the request, or takes the body itself
	slow      bool                  // the client was: the connection must not be used again
}

// identify finds where the request came from, and its id: the one of the client, if it can be shown
// in logs and headers as it is, else a new one, or none.
func (in *reception) identify() {
	in.from.Set(in.r, in.gen.proxies)
	if list := in.r.Header[answer.HeaderRequestID]; len(list) == 1 && validRequestID(list[0]) {
		in.id = list[0]
	} else if in.gen.alwaysID {
		in.id = uuid.Must(uuid.NewV7()).String() // fails only without a source of randomness
	}
}

// maxRequestID is the longest id of a request that is taken over, in bytes.
const maxRequestID = 128

// validRequestID reports whether an id is 1 to 128 visible characters of ASCII.
func validRequestID(s string) bool {
	if s == "" || len(s) > maxRequestID {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// receive checks the head of the request, then reads and decodes the body. The body
// of a request that the flow will refuse is not read, nor is one that a node sends on.
func (in *reception) receive() error {
	if err := checkTarget(in.r.URL); err != nil {
		in.skipBody()
		return err
	}
	if !in.hasBody() {
		return in.decode(nil)
	}
	if !in.direct && in.r.ContentLength != 0 && in.gen.unread.has(in.r) {
		in.skipped = true
		return nil
	}
	if in.gen.admits != nil {
		head := request.New(in.r, &in.from)
		if !in.gen.admits(head.Value(value.Null())) {
			in.skipBody()
			in.skipped = true
			return nil
		}
		in.head = head // node.Screener keeps nothing of it
	}
	from := in.reader()
	limit := in.gen.limits.bodyBytes
	if in.r.ContentLength > int64(limit) {
		return content.TooLarge(limit)
	}
	data, err := content.ReadAll(&from, in.r.ContentLength, limit, in.reserve)
	if err != nil {
		if errors.Is(err, body.ErrSlow) {
			in.slow = true
			in.gen.metrics.SlowBodies.Add(1)
		}
		return body.Describe(err)
	}
	from.Done()
	in.sent = data
	encodings := in.r.Header["Content-Encoding"]
	if len(data) <= smallBody && len(encodings) == 0 {
		return in.decode(data)
	}
	if err := in.s.decodeSlots.acquire(in.ctx); err != nil {
		return err
	}
	defer in.s.decodeSlots.release()
	in.s.memory.Collect() // decoding meanwhile makes more
	if len(encodings) > 0 {
		if data, err = in.decompress(data, encodings, limit); err != nil {
			return body.Describe(err)
		}
	}
	return in.decode(data)
}

// hasBody reports whether the request has a body that can be read.
func (in *reception) hasBody() bool { return in.r.Body != nil && in.r.Body != http.NoBody }

// skipBody does not read the body. It sets a deadline, as net/http reads a little of
// the body after the answer.
func (in *reception) skipBody() {
	if in.hasBody() {
		in.reader()
	}
}

func (in *reception) reader() body.Reader {
	return body.NewReader(in.w, in.r, &in.s.settings.rate, in.gen.log)
}

// takeHead returns what the payload is made of.
func (in *reception) takeHead() *request.Payload {
	if head := in.head; head != nil {
		in.head = nil
		return head
	}
	return request.New(in.r, &in.from)
}

// decompress decodes a body, and releases the bytes of the encoded one unless the flow needs
// them.
func (in *reception) decompress(data []byte, encodings []string, limit int) ([]byte, error) {
	r, err := content.NewReader(bytes.NewReader(data), encodings, in.reserve)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	inside, err := content.ReadAll(r, -1, limit, in.reserve)
	if err != nil {
		return nil, err
	}
	if in.gen.raw {
		return inside, nil
	}
	in.sent = nil
	return inside, in.reserveBytes(-cap(data))
}

func (in *reception) decode(data []byte) error {
	contentType := ""
	if list := in.r.Header["Content-Type"]; len(list) > 0 {
		contentType = list[0]
	}
	if contentType == "" && len(data) == 0 {
		return nil
	}
	v, raw, err := content.Decode(contentType, data, in.reserve)
	in.body, in.raw = v, raw
	return err
}

// reserveBytes counts bytes that the request is about to allocate, or returns content.ErrBusy
// if the server holds too many already. A negative number releases bytes.
func (in *reception) reserveBytes(bytes int) error {
	n := int64(bytes)
	limit := in.gen.limits.heldBytes
	if in.heldBytes+n > 16*smallBody {
		limit -= limit / 8
	}
	switch {
	case n < 0:
		in.s.held.Free(-n)
	case !in.s.held.TakeWithin(n, limit):
		in.gen.metrics.RefusedBytes.Add(1)
		return content.ErrBusy
	}
	in.heldBytes += n
	return nil
}

// free releases the bytes that the request has counted.
func (in *reception) free() {
	if in.heldBytes != 0 {
		in.s.held.Free(in.heldBytes)
	}
}

// drop drops what a pending answer must not keep alive.
func (in *reception) drop() {
	in.head, in.body, in.raw, in.sent = nil, value.Value{}, nil, nil
}

// decodeSlots bounds how many bodies are decompressed and decoded concurrently. More
// than there are processors would not be faster, but take more memory.
type decodeSlots chan struct{}

func (d decodeSlots) acquire(ctx context.Context) error {
	select {
	case d <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d decodeSlots) release() { <-d }

// checkTarget returns an error if the path or the query of a request is not UTF-8,
// or if its target has a scheme without a host.
func checkTarget(u *url.URL) error {
	if !utf8.ValidString(u.Path) {
		return content.Errorf(http.StatusBadRequest, "path: not valid UTF-8")
	}
	if u.RawQuery != "" && !validQuery(u.RawQuery) {
		return content.Errorf(http.StatusBadRequest, "query: not valid UTF-8")
	}
	if u.Scheme != "" && u.Host == "" {
		return content.Errorf(http.StatusBadRequest, "target: a scheme without a host")
	}
	return nil
}

// validQuery reports whether the keys and values of a query are text.
func validQuery(raw string) bool {
	if !utf8.ValidString(raw) {
		return false
	}
	if strings.IndexByte(raw, '%') < 0 {
		return true
	}
	for part := range strings.SplitSeq(raw, "&") {
		name, text, _ := strings.Cut(part, "=")
		if !utf8.ValidString(content.UnescapeOr(name)) || !utf8.ValidString(content.UnescapeOr(text)) {
			return false
		}
	}
	return true
}
