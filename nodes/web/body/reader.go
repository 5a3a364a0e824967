// Package body reads the bodies of requests, of clients that must send at a minimum rate: a
// [Reader] for the listener, an [Upload] for a node that sends the body on. The package must not
// know what a body means.
package body

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
)

// ErrSlow is the error of a body whose client sends it too slowly.
var ErrSlow = errors.New("the body comes too slowly")

// Describe returns the error for a body that could not be read.
func Describe(err error) error {
	var known *node.Error
	switch {
	case errors.Is(err, content.ErrBusy) || errors.As(err, &known):
		return err
	case errors.Is(err, content.ErrUnknownCoding):
		return content.Errorf(http.StatusUnsupportedMediaType, "body: %v", err)
	case errors.Is(err, ErrSlow):
		return content.Errorf(http.StatusRequestTimeout, "%v", ErrSlow)
	}
	return content.Errorf(http.StatusBadRequest, "body: %v", err)
}

// A Reader reads the body of a request, and fails if the client sends slower
// than the minimum rate once the header timeout has passed: see [pace.Rate.Extend].
type Reader struct {
	r     *http.Request
	rc    *http.ResponseController
	rate  *pace.Rate
	log   *slog.Logger
	until time.Time // the deadline; zero if there is none
	armed time.Time // the deadline that the connection has
}

// NewReader sets the first deadline. It stays set if the body is not read to
// its end, as net/http reads on after the answer.
func NewReader(w http.ResponseWriter, r *http.Request, rate *pace.Rate, log *slog.Logger) Reader {
	b := Reader{r: r, rc: http.NewResponseController(w), rate: rate, log: log}
	if rate.Grace > 0 {
		b.until = time.Now().Add(rate.Grace)
		b.arm()
	}
	return b
}

func (b *Reader) setDeadline(t time.Time) { pace.SetDeadline(b.rc.SetReadDeadline, t, b.r, b.log) }

func (b *Reader) arm() {
	b.armed = b.until
	b.setDeadline(b.until)
}

// Read reads what the client has sent, or waits for it. The deadline of the connection is set
// again only if it is a second off.
func (b *Reader) Read(p []byte) (int, error) {
	n, err := b.r.Body.Read(p)
	if err == nil && !b.until.IsZero() {
		if b.until = b.rate.Extend(b.until, time.Now(), n); b.until.Sub(b.armed) >= time.Second {
			b.arm()
		}
	}
	if err != nil && err != io.EOF && errors.Is(err, os.ErrDeadlineExceeded) {
		return n, ErrSlow
	}
	return n, err
}

// Done removes the deadline, as the client may now be silent.
func (b *Reader) Done() {
	if !b.until.IsZero() {
		b.setDeadline(time.Time{})
	}
}
