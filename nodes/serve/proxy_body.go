package serve

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A transitBody is the body of a request: whole, or as the client sends it.
type transitBody struct {
	whole  []byte
	rest   io.Reader // what comes after first; nil if the body is whole
	first  []byte    // what has been read of it
	length int64     // -1 if unknown

	used   atomic.Bool                // something has been read of rest, or first was sent
	failed atomic.Pointer[node.Error] // why the client has not sent it all
	pace   pace
}

// smallBody is the longest body, in bytes, that is read before it is sent on: a target gets
// it in one go, and again if it has closed its connection meanwhile. It takes as much memory
// as the buffer of one that passes through.
const smallBody = 32 << 10

// firstBytes is how much of a body of unknown length is read first, as it may be all.
const firstBytes = 4 << 10

// bodyLimit returns the limit of the node, or -1 for the limit of the listener.
func bodyLimit(c schema.Config) int64 {
	switch n := c.Int("body_bytes"); {
	case !c.Has("body_bytes"):
		return -1
	case n == 0:
		return math.MaxInt64
	default:
		return n
	}
}

// take finds the body of a request: with the listener, or in the payload.
func (b *transitBody) take(ctx context.Context, r *http.Request, payload value.Value, limit int64) error {
	rest, ok, err := handover.Body(ctx, limit)
	if ok {
		b.rest, b.length = rest, r.ContentLength
		return err
	}
	raw, _ := payload.Get("raw")
	if b.whole, ok = raw.AsBinary(); !ok && r.Body != nil && r.Body != http.NoBody {
		return errors.New("the payload has no raw: the body of the request cannot be sent on; send the request itself to the proxy")
	}
	if b.length = int64(len(b.whole)); limit >= 0 && b.length > limit {
		return refusal(http.StatusRequestEntityTooLarge, "body of more than %d bytes", limit)
	}
	return nil
}

// read reads a body that is small, or the beginning of one that may be. It waits for the
// client. A client that waits for 100 Continue is not asked for anything yet: the target
// may refuse the request. Over HTTP/2, a body of unknown length may be one side of a talk;
// over HTTP/3, there may be none.
func (b *transitBody) read(r *http.Request) error {
	if b.rest == nil {
		return nil
	}
	if r.Header.Get("Expect") == "" {
		switch {
		case b.length >= 0 && b.length <= smallBody:
			b.whole = make([]byte, b.length)
			_, err := io.ReadFull(b.rest, b.whole)
			b.rest = nil
			return err
		case b.length < 0 && (r.ProtoMajor == 1 || hardlyHasBody(r.Method)):
			buf := make([]byte, firstBytes)
			n, err := b.rest.Read(buf)
			b.first = buf[:n]
			if err == io.EOF {
				b.whole, b.length, b.first, b.rest = b.first, int64(n), nil, nil
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	if r.Header.Get("Upgrade") != "" {
		return refusal(http.StatusBadRequest, "a request for another protocol has a body")
	}
	return nil
}

func hardlyHasBody(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete:
		return true
	}
	return false
}

// sending returns the body for one try. Its Close does nothing: the listener ends what is
// being read.
func (b *transitBody) sending() io.ReadCloser { return io.NopCloser((*transitReader)(b)) }

// A transitReader is what a target gets.
type transitReader transitBody

// Read is called by one goroutine, which may go on when the try has failed.
func (r *transitReader) Read(p []byte) (n int, err error) {
	r.used.Store(true)
	if len(r.first) > 0 {
		n = copy(p, r.first)
		r.first = r.first[n:]
		return n, nil
	}
	r.pace.wait(true)
	n, err = r.rest.Read(p)
	r.pace.wait(false)
	var known *node.Error
	if errors.As(err, &known) {
		r.failed.Store(known)
	}
	return n, err
}

// A pace limits how long a target may take, not counting how long the client does.
type pace struct {
	clock node.Clock
	limit time.Duration // 0 is none
	late  func()

	mu struct {
		sync.Mutex
		ended, waiting bool // for the client
		since          time.Time
		stop           func() bool
	}
}

// start begins with the time of the target, and calls late when it is over. end must be
// called.
func (p *pace) start(clock node.Clock, limit time.Duration, late func()) {
	p.clock, p.limit, p.late = clock, limit, late
	if limit == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.since = p.clock.Now()
	p.mu.stop = p.clock.AfterFunc(p.limit, p.check)
}

// wait says that the client is being waited for, or is no longer: the target has all of its
// time again.
func (p *pace) wait(waiting bool) {
	if p.limit == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting, p.mu.since = waiting, p.clock.Now()
}

func (p *pace) check(context.Context) {
	p.mu.Lock()
	left := p.limit
	if !p.mu.waiting {
		left -= p.clock.Now().Sub(p.mu.since)
	}
	late := left <= 0 && !p.mu.ended
	if left > 0 && !p.mu.ended {
		p.mu.stop = p.clock.AfterFunc(left, p.check)
	}
	p.mu.Unlock()
	if late {
		p.late()
	}
}

func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.ended = true
	if p.mu.stop != nil {
		p.mu.stop()
	}
}
