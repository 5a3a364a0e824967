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

	"github.com/uniflow-labs/uniflow/value"
)

var (
	errSlowBody = errors.New("the body comes too slowly")
	errBusy     = errors.New("the server holds too many bytes")
)

const (
	// bodyWindow is how long a client that sends a body may be silent, however
	// much it has sent before, unless the header timeout is longer.
	bodyWindow = 10 * time.Second

	// smallBody is the size in bytes up to which a body is decoded without
	// waiting for its turn. The last eighth of the bytes that a server may hold
	// is kept for requests that take no more than 16 times as many.
	smallBody = 4 << 10

	// budgetBlock is how many bytes a decoder reserves in one go, if it does not
	// need more.
	budgetBlock = 16 << 10
)

// receive checks the head of the request, and reads and decodes the body. What
// the flow will refuse anyway has no body: it is not read.
func (x *exchange) receive() error {
	if err := checkTarget(x.r.URL); err != nil {
		x.unread()
		return err
	}
	if !x.hasBody() {
		return x.decode(nil)
	}
	if x.t.admits != nil {
		if head, _ := newRequest(x.r, value.Null()); !x.t.admits(head) {
			x.unread()
			x.skipped = true
			return nil
		}
	}
	guard := newSlowGuard(x)
	limit := x.t.limits.bodyBytes
	if x.r.ContentLength > int64(limit) {
		return tooLarge(limit)
	}
	data, err := readAll(&guard, x.r.ContentLength, limit, x.tools.reserve)
	if err != nil {
		if errors.Is(err, errSlowBody) {
			x.closing = true
			x.t.counts.slowBodies.Add(1)
		}
		return describeRead(err)
	}
	guard.done()
	encodings := x.r.Header["Content-Encoding"]
	if len(data) <= smallBody && len(encodings) == 0 {
		return x.decode(data)
	}
	if err := x.s.decoders.enter(x.r.Context()); err != nil {
		return err
	}
	defer x.s.decoders.leave()
	if len(encodings) > 0 {
		if data, err = x.decompress(data, encodings, limit); err != nil {
			return describeRead(err)
		}
	}
	return x.decode(data)
}

// hasBody reports whether the request has a body that can be read.
func (x *exchange) hasBody() bool { return x.r.Body != nil && x.r.Body != http.NoBody }

// unread leaves the body where it is. net/http reads a little of it after the
// answer, to be polite: the guard's deadline is for that.
func (x *exchange) unread() {
	if x.hasBody() {
		newSlowGuard(x)
	}
}

// decompress returns what is inside a body, and gives the body back.
func (x *exchange) decompress(data []byte, encodings []string, limit int) ([]byte, error) {
	r, err := decoded(bytes.NewReader(data), encodings, x.tools.reserve)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	inside, err := readAll(r, -1, limit, x.tools.reserve)
	if err != nil {
		return nil, err
	}
	return inside, x.hold(-cap(data))
}

func (x *exchange) decode(data []byte) error {
	contentType := ""
	if list := x.r.Header["Content-Type"]; len(list) > 0 {
		contentType = list[0]
	}
	if contentType == "" && len(data) == 0 {
		return nil
	}
	v, raw, err := decodeBody(contentType, data, x.tools.reserve)
	x.body, x.raw = v, raw
	return err
}

// hold counts bytes that the request keeps alive, before they are allocated, and
// refuses them where the server holds too many already. Less than nothing gives
// back.
func (x *exchange) hold(bytes int) error {
	n := int64(bytes)
	limit := x.t.limits.heldBytes
	if x.held+n > 16*smallBody {
		limit -= limit / 8
	}
	for {
		now := x.s.bytes.Load()
		if n > 0 && now+n > limit {
			x.t.counts.refusedBytes.Add(1)
			return errBusy
		}
		if x.s.bytes.CompareAndSwap(now, now+n) {
			x.held += n
			return nil
		}
	}
}

// A budget is the memory that the decoding of one body may take. It is reserved
// in blocks before it is allocated.
type budget struct {
	reserve func(bytes int) error
	left    int
}

func (b *budget) take(bytes int) error {
	if b.left -= bytes; b.left >= 0 {
		return nil
	}
	n := max(-b.left, budgetBlock)
	b.left += n
	return b.reserve(n)
}

// garbage is how many bytes large requests have given back since they were last
// collected. Until they are, they take memory: 64 bodies of 8 KB that are lists of
// four million zeros made a server take 800 MiB while it counted 256 at most.
type garbage struct {
	bytes      atomic.Int64
	collecting sync.Mutex
}

const (
	largeRequest = 4 << 20  // bytes held by a request that counts
	maxGarbage   = 64 << 20 // bytes
)

// leave counts the bytes of a request that ends. Whoever passes the bound has all
// of them collected, so that who causes it waits for it.
func (g *garbage) leave(bytes int64) {
	if bytes < largeRequest || g.bytes.Add(bytes) < maxGarbage || !g.collecting.TryLock() {
		return
	}
	defer g.collecting.Unlock()
	g.bytes.Store(0)
	runtime.GC()
}

// decoders bounds how many bodies are decompressed and decoded at the same time.
// More of them than there are processors are not decoded sooner, but take more
// memory.
type decoders chan struct{}

func (d decoders) enter(ctx context.Context) error {
	select {
	case d <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d decoders) leave() { <-d }

// checkTarget reports what is wrong with the target of a request: a path or a
// query that is not text, or a scheme without a host.
func checkTarget(u *url.URL) error {
	if !utf8.ValidString(u.Path) {
		return badBody(http.StatusBadRequest, "path: not valid UTF-8")
	}
	if u.RawQuery != "" && !validQuery(u.RawQuery) {
		return badBody(http.StatusBadRequest, "query: not valid UTF-8")
	}
	if u.Scheme != "" && u.Host == "" {
		return badBody(http.StatusBadRequest, "target: a scheme without a host")
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
		if !utf8.ValidString(unescapeOr(name)) || !utf8.ValidString(unescapeOr(text)) {
			return false
		}
	}
	return true
}

// A slowGuard reads a request's body and gives up on a client that sends slower
// than the minimum rate, the grace of the header timeout aside. What the client
// has sent buys it time, but no more than a window from now: so it can neither
// keep its place by sending a byte now and then, nor by sending much at first.
type slowGuard struct {
	x      *exchange
	rc     *http.ResponseController
	until  time.Time // when the client has used up its time; zero if there is no limit
	armed  time.Time // the deadline of the connection
	window time.Duration
}

// newSlowGuard sets the first deadline. Where a body is not read to its end, the
// deadline stays: net/http reads on after the answer, to be polite.
func newSlowGuard(x *exchange) slowGuard {
	g := slowGuard{x: x, rc: http.NewResponseController(x.w)}
	if grace := x.s.settings.headerTimeout; grace > 0 {
		g.window = max(grace, x.s.settings.bodyWindow)
		g.until = time.Now().Add(grace)
		g.arm()
	}
	return g
}

func (g *slowGuard) arm() {
	g.armed = g.until
	g.x.setDeadline(g.rc.SetReadDeadline, g.until)
}

// came notes bytes that have come. The deadline is moved if it is a second off.
func (g *slowGuard) came(n int) {
	if g.window == 0 {
		return
	}
	g.until = g.until.Add(g.x.s.settings.transfer(int64(n)))
	if last := time.Now().Add(g.window); g.until.After(last) {
		g.until = last
	}
	if g.until.Sub(g.armed) >= time.Second {
		g.arm()
	}
}

// Read reads on.
func (g *slowGuard) Read(p []byte) (int, error) {
	n, err := g.x.r.Body.Read(p)
	if err == nil {
		g.came(n)
	}
	if err != nil && err != io.EOF && errors.Is(err, os.ErrDeadlineExceeded) {
		return n, errSlowBody
	}
	return n, err
}

// done takes the deadline away, as the client is now allowed to be silent.
func (g *slowGuard) done() {
	if g.window > 0 {
		g.x.setDeadline(g.rc.SetReadDeadline, time.Time{})
	}
}
