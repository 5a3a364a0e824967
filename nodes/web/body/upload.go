package body

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
	"github.com/uniflow-labs/uniflow/value"
)

var (
	errUploadTaken = errors.New("another node has taken the body of the request")
	errUploadEnded = errors.New("the request has been answered: its body cannot be read any more")
)

// An Upload is the body of a request that no node needs as a value, for the node that
// sends it on: see [node.IgnoresBody]. The client must send at the minimum rate, as with a
// body that the listener reads ([Reader]), but only while the node reads: a node that
// does not is not the fault of the client. So it has a timer in place of a deadline, which would
// end a stream of HTTP/2 at any time.
//
// It may be read by a goroutine that the listener does not know, such as one of an HTTP
// client. End makes such a Read return, and waits for that, so that nothing of the request
// is used afterwards.
type Upload struct {
	UploadOptions
	body    io.ReadCloser
	length  int64 // -1 if unknown
	expects bool  // the client sends nothing before the first Read
	rc      *http.ResponseController

	mu struct {
		sync.Mutex
		taken, begun, ended bool
		slow                bool          // the client was
		reading             bool          // a Read is in progress
		returned            chan struct{} // closed when it returns; nil unless End waits for that
		err                 error         // of all further Reads, such as io.EOF
		limit               int64         // how many bytes there may be
		left                int64         // of these
		until               time.Time     // when the client is too slow
		paused              time.Time     // when the last Read returned
		timer               *time.Timer   // nil before the first Read
		armed               bool
	}
}

// UploadOptions are what the listener says of an upload.
type UploadOptions struct {
	Rate     *pace.Rate
	Limit    int64          // bytes of a body, unless the node has a limit of its own
	Slow     *atomic.Uint64 // counts clients that were too slow
	Progress func()         // called when something has come
}

// NewUpload returns the body of a request, which no one has read.
func NewUpload(w http.ResponseWriter, r *http.Request, o UploadOptions) *Upload {
	return &Upload{UploadOptions: o, body: r.Body, length: r.ContentLength, expects: r.Header["Expect"] != nil, rc: http.NewResponseController(w)}
}

// Open is the Open of a [handover.Slot].
func (u *Upload) Open(limit int64) (io.Reader, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if limit < 0 {
		limit = u.Limit
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
func (u *Upload) Read(p []byte) (int, error) {
	if err := u.begin(); err != nil {
		return 0, err
	}
	n, err := u.body.Read(p)
	return u.finish(n, err)
}

func (u *Upload) begin() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.mu.err != nil:
		return u.mu.err
	case u.mu.ended:
		return errUploadEnded
	case u.mu.reading:
		return errUploadTaken
	}
	u.mu.reading = true
	if !u.mu.begun {
		u.mu.begun = true
		_ = u.rc.SetReadDeadline(time.Time{}) // NewReader has set it; fails if the connection has, and so does the Read
	}
	if u.Rate.Grace == 0 {
		return nil
	}
	now := time.Now()
	if u.mu.timer == nil {
		u.mu.until = now.Add(u.Rate.Grace)
		u.mu.timer = time.AfterFunc(u.Rate.Grace, u.late)
	} else if u.mu.until = u.mu.until.Add(now.Sub(u.mu.paused)); !u.mu.armed {
		u.mu.timer.Reset(u.mu.until.Sub(now))
	}
	u.mu.armed = true
	return nil
}

func (u *Upload) finish(n int, err error) (int, error) {
	u.Progress()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mu.reading = false
	if u.mu.returned != nil {
		close(u.mu.returned)
	}
	if u.Rate.Grace > 0 {
		u.mu.paused = time.Now()
		u.mu.until = u.Rate.Extend(u.mu.until, u.mu.paused, n)
	}
	switch u.mu.left -= int64(n); {
	case u.mu.left < 0:
		n, u.mu.err = 0, content.TooLarge(int(u.mu.limit))
	case u.mu.slow: // also at the end: the connection has failed
		u.mu.err = Describe(ErrSlow)
	case err == io.EOF:
		u.mu.err = io.EOF
	case err != nil && u.mu.ended && errors.Is(err, os.ErrDeadlineExceeded):
		u.mu.err = errUploadEnded
	case err != nil:
		u.mu.err = Describe(err)
	}
	return n, u.mu.err
}

// late is called when the client may be too slow.
func (u *Upload) late() {
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
	u.Slow.Add(1)
	u.interruptLocked()
}

// interruptLocked makes a Read return. The lock is held, as the deadline would be for
// the next request if the exchange ended meanwhile.
func (u *Upload) interruptLocked() {
	_ = u.rc.SetReadDeadline(time.Now().Add(-time.Second)) // fails if the connection has: so does the Read
}

// IsOpen reports whether a node has the body, and has not come to its end.
func (u *Upload) IsOpen() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mu.taken && u.mu.err != io.EOF
}

// End makes all Reads fail, and waits for one in progress. A body that was read to its end stays
// at its end: a client of net/http reads once more when it has sent a Content-Length, perhaps
// while the answer to that comes. The deadline that End sets is for net/http, which reads a little
// of a body after the answer. Call it before the request ends; more calls do nothing, nor does one
// for nil.
func (u *Upload) End() {
	if u == nil {
		return
	}
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
	case u.Rate.Grace > 0:
		_ = u.rc.SetReadDeadline(time.Now().Add(u.Rate.Grace)) // as above
	}
}

// Blame returns a response, or what the client has done wrong while it sent the body if the
// process only knows that it must end: net/http ends the context of a request that it cannot read.
func (u *Upload) Blame(resp node.Response) node.Response {
	if u == nil || !resp.IsError() || node.Describe(resp.Payload.AsError()).Code != string(diag.CodeCancelled) {
		return resp
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var known *node.Error
	if errors.As(u.mu.err, &known) {
		return node.Response{Payload: value.Error(known)}
	}
	return resp
}
