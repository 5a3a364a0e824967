package httpclient

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/observe"
)

// maxRedirects is how many redirects of one request are followed.
const maxRedirects = 10

var (
	errRedirects      = fmt.Errorf("more than %d redirects", maxRedirects)
	errRedirectScheme = errors.New("a redirect to a URL that is neither http nor https")
)

// The redirects that a client follows. One that is not followed is the answer.
const (
	AllRedirects = "follow"
	SameHost     = "same_host" // to the same host, port and scheme
	NoRedirects  = "none"
)

// Client returns a client with these connections, which has no timeout. To another host, port
// or scheme it sends only headers that cannot be credentials.
func (t *Transport) Client(redirects string) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		return checkRedirect(redirects, req, via)
	}}
}

// checkRedirect decides on a redirect, and removes the headers that are not for another
// host. Once a redirect has left the host, one back to it does not get them either.
func checkRedirect(redirects string, req *http.Request, via []*http.Request) error {
	first := via[0].URL
	away := !sameOrigin(first, req.URL)
	for _, r := range via[1:] {
		away = away || !sameOrigin(first, r.URL)
	}
	switch {
	case redirects == NoRedirects || redirects == SameHost && !sameOrigin(first, req.URL):
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return errRedirects
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return errRedirectScheme
	}
	delete(req.Header, "Referer") // net/http has set it, and its query may be a secret
	if away {
		for name := range req.Header {
			if !isHarmless(name) {
				delete(req.Header, name)
			}
		}
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// isHarmless reports whether a header cannot be a credential, and may go to a host that
// the workflow does not name.
func isHarmless(name string) bool {
	switch name {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Content-Encoding", "Content-Language", "Content-Type",
		"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range", "Traceparent", "Tracestate", "User-Agent":
		return true
	}
	return false
}

// SetTrace sets the headers of a trace, which must not be zero, in place of those of another.
func SetTrace(h http.Header, trace observe.Trace) {
	h["Traceparent"] = []string{trace.String()}
	delete(h, "Tracestate")
	if trace.State != "" {
		h["Tracestate"] = []string{trace.State}
	}
}

// Fetch sends a request, and reads and closes the body of its answer, which may have so many
// bytes. The error is a [*Failure]; resp and the body are there as far as they have come.
func Fetch(c *http.Client, req *http.Request, most int) (resp *http.Response, body []byte, err error) {
	if resp, err = c.Do(req); err != nil {
		return nil, nil, Explain(err)
	}
	body, err = io.ReadAll(&Limited{R: resp.Body, Left: int64(most)})
	if errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("%w: it has more than %d bytes", err, most)
	}
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return resp, body, Explain(err)
	}
	return resp, body, nil
}

// A Limited reader fails with [ErrTooLarge] behind a number of bytes.
type Limited struct {
	R    io.Reader
	Left int64
}

func (l *Limited) Read(p []byte) (int, error) {
	if l.Left < 0 {
		return 0, ErrTooLarge
	}
	n, err := l.R.Read(p[:min(int64(len(p)), l.Left+1)])
	if l.Left -= int64(n); l.Left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// RetryAfter returns how long a service asks to wait before the next request: seconds, or a
// date (RFC 9110, section 10.2.3), or milliseconds as models have them. 0 if it does not ask,
// or the time has passed.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	for _, in := range [...]struct {
		header string
		unit   time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		if n, err := strconv.ParseFloat(h.Get(in.header), 64); err == nil && n > 0 {
			return time.Duration(min(n*float64(in.unit), math.MaxInt64/2))
		}
	}
	if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
