package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/value"
)

var errSlowBody = errors.New("the body comes too slowly")

const (
	// smallBody is the largest body, in bytes, that is decoded without a decode slot.
	// The last eighth of the bytes that a server may hold is kept for requests that
	// hold at most 16 times as many.
	smallBody = 4 << 10
)

// receive checks the head of the request, then reads and decodes the body. The body
// of a request that the flow will refuse is not read, nor is one that a node sends on.
func (x *exchange) receive() error {
	if err := checkTarget(x.r.URL); err != nil {
		x.skipBody()
		return err
	}
	if !x.hasBody() {
		return x.decode(nil)
	}
	if x.r.ContentLength != 0 && x.gen.unread.leaves(x.r) {
		x.bodySkipped = true
		return nil
	}
	if x.gen.admits != nil {
		head := request.New(x.r, &x.from)
		if !x.gen.admits(head.Value(value.Null())) {
			x.skipBody()
			x.bodySkipped = true
			return nil
		}
		x.head = head // node.Screener keeps nothing of it
	}
	body := newMinRateReader(x)
	limit := x.gen.limits.bodyBytes
	if x.r.ContentLength > int64(limit) {
		return content.TooLarge(limit)
	}
	data, err := content.ReadAll(&body, x.r.ContentLength, limit, x.reusable.reserve)
	if err != nil {
		if errors.Is(err, errSlowBody) {
			x.closeConn = true
			x.gen.metrics.SlowBodies.Add(1)
		}
		return describeRead(err)
	}
	body.clearDeadline()
	x.sent = data
	encodings := x.r.Header["Content-Encoding"]
	if len(data) <= smallBody && len(encodings) == 0 {
		return x.decode(data)
	}
	if err := x.s.decodeSlots.acquire(x.r.Context()); err != nil {
		return err
	}
	defer x.s.decodeSlots.release()
	x.s.garbage.collect()
	if len(encodings) > 0 {
		if data, err = x.decompress(data, encodings, limit); err != nil {
			return describeRead(err)
		}
	}
	return x.decode(data)
}

// hasBody reports whether the request has a body that can be read.
func (x *exchange) hasBody() bool { return x.r.Body != nil && x.r.Body != http.NoBody }

// skipBody does not read the body. It sets a deadline, as net/http reads a little of
// the body after the answer.
func (x *exchange) skipBody() {
	if x.hasBody() {
		newMinRateReader(x)
	}
}

// decompress decodes a body, and releases the bytes of the encoded one unless the flow needs
// them.
func (x *exchange) decompress(data []byte, encodings []string, limit int) ([]byte, error) {
	r, err := content.NewReader(bytes.NewReader(data), encodings, x.reusable.reserve)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	inside, err := content.ReadAll(r, -1, limit, x.reusable.reserve)
	if err != nil {
		return nil, err
	}
	if x.gen.raw {
		return inside, nil
	}
	x.sent = nil
	return inside, x.reserveBytes(-cap(data))
}

// describeRead returns the error for a body that could not be read.
func describeRead(err error) error {
	var known *node.Error
	switch {
	case errors.Is(err, content.ErrBusy) || errors.As(err, &known):
		return err
	case errors.Is(err, content.ErrUnknownCoding):
		return content.Errorf(http.StatusUnsupportedMediaType, "body: %v", err)
	case errors.Is(err, errSlowBody):
		return content.Errorf(http.StatusRequestTimeout, "%v", errSlowBody)
	}
	return content.Errorf(http.StatusBadRequest, "body: %v", err)
}

func (x *exchange) decode(data []byte) error {
	contentType := ""
	if list := x.r.Header["Content-Type"]; len(list) > 0 {
		contentType = list[0]
	}
	if contentType == "" && len(data) == 0 {
		return nil
	}
	v, raw, err := content.Decode(contentType, data, x.reusable.reserve)
	x.body, x.raw = v, raw
	return err
}

// reserveBytes counts bytes that the request is about to allocate, or returns content.ErrBusy
// if the server holds too many already. A negative number releases bytes.
func (x *exchange) reserveBytes(bytes int) error {
	n := int64(bytes)
	limit := x.gen.limits.heldBytes
	if x.heldBytes+n > 16*smallBody {
		limit -= limit / 8
	}
	switch {
	case n < 0:
		x.s.held.Free(-n)
	case !x.s.held.TakeWithin(n, limit):
		x.gen.metrics.RefusedBytes.Add(1)
		return content.ErrBusy
	}
	x.heldBytes += n
	return nil
}

// garbage counts the bytes that large requests have released since the last garbage
// collection. Until then they take memory: 64 bodies of 8 KB, each a list of four
// million zeros, made a server take 800 MiB while it counted at most 256.
type garbage struct {
	most       int64 // bytes
	bytes      atomic.Int64
	collecting sync.Mutex
}

const (
	largeRequest = 4 << 20  // bytes; smaller requests are not counted
	maxGarbage   = 64 << 20 // bytes
)

// add counts the bytes of a request that ends.
func (g *garbage) add(bytes int64) {
	if bytes >= largeRequest {
		g.bytes.Add(bytes)
	}
}

// collect runs the garbage collection if there is too much. The bodies that are to be
// decoded wait for it, as decoding meanwhile makes more.
func (g *garbage) collect() {
	if g.bytes.Load() < g.most {
		return
	}
	g.collecting.Lock()
	defer g.collecting.Unlock()
	if g.bytes.Load() >= g.most {
		runtime.GC()
		g.bytes.Store(0)
	}
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

// A minRateReader reads the body of a request, and fails if the client sends slower
// than the minimum rate once the header timeout has passed: see [pace.Rate.Extend].
type minRateReader struct {
	x     *exchange
	rc    *http.ResponseController
	until time.Time // the deadline; zero if there is none
	armed time.Time // the deadline that the connection has
}

// newMinRateReader sets the first deadline. It stays set if the body is not read to
// its end, as net/http reads on after the answer.
func newMinRateReader(x *exchange) minRateReader {
	g := minRateReader{x: x, rc: http.NewResponseController(x.w)}
	if grace := x.s.settings.rate.Grace; grace > 0 {
		g.until = time.Now().Add(grace)
		g.arm()
	}
	return g
}

func (g *minRateReader) setDeadline(t time.Time) {
	pace.SetDeadline(g.rc.SetReadDeadline, t, g.x.r, g.x.gen.log)
}

func (g *minRateReader) arm() {
	g.armed = g.until
	g.setDeadline(g.until)
}

// received extends the deadline. That of the connection is set only if it is a second
// off.
func (g *minRateReader) received(n int) {
	if g.until.IsZero() {
		return
	}
	g.until = g.x.s.settings.rate.Extend(g.until, time.Now(), n)
	if g.until.Sub(g.armed) >= time.Second {
		g.arm()
	}
}

func (g *minRateReader) Read(p []byte) (int, error) {
	n, err := g.x.r.Body.Read(p)
	if err == nil {
		g.received(n)
	}
	if err != nil && err != io.EOF && errors.Is(err, os.ErrDeadlineExceeded) {
		return n, errSlowBody
	}
	return n, err
}

// clearDeadline removes the deadline, as the client may now be silent.
func (g *minRateReader) clearDeadline() {
	if !g.until.IsZero() {
		g.setDeadline(time.Time{})
	}
}
