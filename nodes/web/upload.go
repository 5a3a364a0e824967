package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/nodes/web/counts"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
	"github.com/uniflow-labs/uniflow/value"
)

var (
	errUploadTaken = errors.New("another node has taken the body of the request")
	errUploadEnded = errors.New("the request has been answered: its body cannot be read any more")
)

// An upload is the body of a request that no node needs as a value, for the node that
// sends it on: see [node.IgnoresBody]. The client must send at the minimum rate, as with a
// body that the listener reads (minRateReader), but only while the node reads: a node that
// does not is not the fault of the client. So it has a timer in place of a deadline, which would
// end a stream of HTTP/2 at any time.
//
// It may be read by a goroutine that the exchange does not know, such as that of an HTTP
// client. end makes such a Read return, and waits for that, so that nothing of the exchange
// is used afterwards.
type upload struct {
	body    io.ReadCloser
	length  int64 // -1 if unknown
	expects bool  // the client sends nothing before the first Read
	rc      *http.ResponseController
	parts   *parts
	metrics *counts.Listener
	limit   int64 // of the listener
	rate    *pace.Rate

	mu struct {
		sync.Mutex
		taken, begun, ended bool
		slow                bool          // the client was
		reading             bool          // a Read is in flight
		returned            chan struct{} // closed when it returns; nil unless end waits for that
		err                 error         // of all further Reads, such as io.EOF
		limit               int64         // how many bytes there may be
		left                int64         // of these
		until               time.Time     // when the client is too slow
		paused              time.Time     // when the last Read returned
		timer               *time.Timer   // nil before the first Read
		armed               bool
	}
}

func newUpload(x *exchange) *upload {
	return &upload{
		body: x.r.Body, length: x.r.ContentLength, expects: x.r.Header["Expect"] != nil, rc: http.NewResponseController(x.w), parts: x.parts,
		metrics: x.gen.metrics, limit: int64(x.gen.limits.bodyBytes), rate: &x.s.settings.rate,
	}
}

// open is the Open of a [handover.Slot].
func (u *upload) open(limit int64) (io.Reader, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if limit < 0 {
		limit = u.limit
	}
	switch {
	case u.mu.taken:
		return nil, errUploadTaken
	case u.length > limit:
		return nil, content.TooLarge(int(limit))
	}
	u.mu.taken, u.mu.limit, u.mu.left = true, limit, limit
	return u, nil
}

// Read reads what the client has sent, or waits for it.
func (u *upload) Read(p []byte) (int, error) {
	if err := u.begin(); err != nil {
		return 0, err
	}
	n, err := u.body.Read(p)
	return u.finish(n, err)
}

func (u *upload) begin() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.mu.ended:
		return errUploadEnded
	case u.mu.err != nil:
		return u.mu.err
	case u.mu.reading:
		return errUploadTaken
	}
	u.mu.reading = true
	if !u.mu.begun {
		u.mu.begun = true
		_ = u.rc.SetReadDeadline(time.Time{}) // that of skipBody; fails if the connection has, and so does the Read
	}
	if u.rate.Grace == 0 {
		return nil
	}
	now := time.Now()
	if u.mu.timer == nil {
		u.mu.until = now.Add(u.rate.Grace)
		u.mu.timer = time.AfterFunc(u.rate.Grace, u.late)
	} else if u.mu.until = u.mu.until.Add(now.Sub(u.mu.paused)); !u.mu.armed {
		u.mu.timer.Reset(u.mu.until.Sub(now))
	}
	u.mu.armed = true
	return nil
}

func (u *upload) finish(n int, err error) (int, error) {
	u.parts.progress()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.reading = false
	if u.mu.returned != nil {
		close(u.mu.returned)
	}
	if u.rate.Grace > 0 {
		u.mu.paused = time.Now()
		u.mu.until = u.rate.Extend(u.mu.until, u.mu.paused, n)
	}
	switch u.mu.left -= int64(n); {
	case u.mu.left < 0:
		n, u.mu.err = 0, content.TooLarge(int(u.mu.limit))
	case u.mu.slow: // also at the end: the connection has failed
		u.mu.err = describeRead(errSlowBody)
	case err == io.EOF:
		u.mu.err = io.EOF
	case err != nil && u.mu.ended && errors.Is(err, os.ErrDeadlineExceeded):
		u.mu.err = errUploadEnded
	case err != nil:
		u.mu.err = describeRead(err)
	}
	return n, u.mu.err
}

// late is called when the client may be too slow.
func (u *upload) late() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.armed = false
	if u.mu.ended || !u.mu.reading {
		return
	}
	if left := time.Until(u.mu.until); left > 0 {
		u.mu.timer.Reset(left)
		u.mu.armed = true
		return
	}
	u.mu.slow = true
	u.metrics.SlowBodies.Add(1)
	u.interruptLocked()
}

// interruptLocked makes a Read return. The lock is held, as the deadline would be that of
// the next request if the exchange ended meanwhile.
func (u *upload) interruptLocked() {
	_ = u.rc.SetReadDeadline(time.Now().Add(-time.Second)) // fails if the connection has: so does the Read
}

// isOpen reports whether a node has the body, and has not come to its end.
func (u *upload) isOpen() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mu.taken && u.mu.err != io.EOF
}

// end makes all Reads fail, and waits for one that is in flight. The deadline that it sets is
// for net/http, which reads a little of a body after the answer. Call it before the exchange
// ends; more calls do nothing.
func (u *upload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.ended {
		return
	}
	u.mu.ended = true
	if u.mu.timer != nil {
		u.mu.timer.Stop()
	}
	if u.mu.reading {
		u.mu.returned = make(chan struct{})
		u.interruptLocked()
		u.mu.Unlock()
		<-u.mu.returned
		u.mu.Lock()
	}
	switch {
	case u.mu.err == io.EOF:
	case u.expects && !u.mu.begun:
		u.interruptLocked()
	case u.rate.Grace > 0:
		_ = u.rc.SetReadDeadline(time.Now().Add(u.rate.Grace)) // as above
	}
}

// offerBody lets a node have the body, if it was left to one.
func (x *exchange) offerBody() {
	p := x.parts
	if !x.bodySkipped || x.gen.unread == nil {
		p.upload, p.slot.Open = nil, nil
		return
	}
	p.upload = newUpload(x)
	p.slot.Open = p.upload.open
}

// holdUpload is called before a handler answers. An upload may go on meanwhile. net/http
// would read the rest of its body before the header of the answer, unless the connection is
// not used again, which it cannot be if that rest is never read.
func (x *exchange) holdUpload() {
	u := x.parts.upload
	switch {
	case u == nil:
	case !u.isOpen():
		u.end()
	case x.r.ProtoMajor == 1:
		x.closeConn = true
	}
}

// endUpload is called before any other answer.
func (x *exchange) endUpload() {
	if x.parts != nil && x.parts.upload != nil {
		x.holdUpload()
		x.parts.upload.end()
	}
}

// blame returns a response, or what the client has done wrong while it sent the body if the
// process was only told to end: net/http ends the context of a request that it cannot read.
func (p *parts) blame(resp node.Response) node.Response {
	if p.upload == nil || !resp.IsError() || node.Describe(resp.Payload.AsError()).Code != string(diag.CodeCancelled) {
		return resp
	}
	p.upload.mu.Lock()
	defer p.upload.mu.Unlock()
	var known *node.Error
	if errors.As(p.upload.mu.err, &known) {
		return node.Response{Payload: value.Error(known)}
	}
	return resp
}
