package plain

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestParse(t *testing.T) {
	f := func(head string, want verdict) {
		t.Helper()
		var r http.Request
		if n, got := parse([]byte(head), &r, new(url.URL)); got != want || got == whole && n != len(head) {
			t.Errorf("%q: got verdict %d and %d bytes, want %d", head, got, n, want)
		}
	}
	const host = "Host: a\r\n"
	for _, head := range []string{
		"GET / HTTP/1.1\r\n" + host,
		"GET /a/b?x=1&y=%20 HTTP/1.1\r\n" + host,
		"GET /%7e//..;a HTTP/1.1\r\nhost: [::1]:80\r\nx-y: \t a b \t\r\nempty:\r\n",
		"DELETE /? HTTP/1.1\r\n" + host + "Connection: CLOSE\r\n",
		"POST / HTTP/1.1\r\n" + host + "Content-Length: 262144\r\nConnection: keep-alive\r\n",
		"GET / HTTP/1.1\r\n" + host + "Accept: a\r\nAccept: b\r\nPragma: no-cache\r\nCache-Control: no-cache\r\n",
	} {
		f(head+"\r\n", whole)
		for i := range len(head) + 1 {
			f(head[:i], incomplete)
		}
	}
	for _, head := range []string{
		"GET / HTTP/1.0\r\n" + host, "GET / HTTP/2.0\r\n" + host, "PRI * HTTP/2.0\r\n",
		"get / HTTP/1.1\r\n" + host, "OPTIONS * HTTP/1.1\r\n" + host, "CONNECT a:1 HTTP/1.1\r\n" + host,
		"GET http://a/ HTTP/1.1\r\n" + host, "GET  / HTTP/1.1\r\n" + host, "GET /a b HTTP/1.1\r\n" + host,
		"GET /\x7f HTTP/1.1\r\n" + host, "GET /%zz HTTP/1.1\r\n" + host,
		"GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n" + host + host, "GET / HTTP/1.1\r\nHost: a b\r\n", "GET / HTTP/1.1\r\nHost:\r\n",
		"GET / HTTP/1.1\r\n" + host + "A : b\r\n", "GET / HTTP/1.1\r\n" + host + " folded\r\n", "GET / HTTP/1.1\r\n" + host + "A: \x00\r\n",
		"GET / HTTP/1.1\r\n" + host + "A: b\nB: c\r\n", "GET / HTTP/1.1\r\n" + host + "none\r\n", "GET / HTTP/1.1\r\n" + host + "A: \rb\r\n",
		"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n", "POST / HTTP/1.1\r\n" + host + "Expect: 100-continue\r\n",
		"GET / HTTP/1.1\r\n" + host + "Upgrade: websocket\r\n", "GET / HTTP/1.1\r\n" + host + "Connection: keep-alive, Upgrade\r\n",
		"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 1\r\n", "POST / HTTP/1.1\r\n" + host + "Content-Length: +1\r\n",
		"POST / HTTP/1.1\r\n" + host + "Content-Length: 262145\r\n", "POST / HTTP/1.1\r\n" + host + "Content-Length: 1, 1\r\n",
		"POST / HTTP/1.1\r\n" + host + "Content-Length:\r\n", "GET / HTTP/1.1\r\n" + host + "Pragma: no-cache\r\n",
	} {
		f(head+"\r\n", other)
	}
	f("\x16\x03", other)
	f("GET / HTTP/1.1\n", other)
	f("GET / HTTP/1.1\r\nA: "+strings.Repeat("b", maxHead), other)
}

// A message is a request as its server sees it.
type message struct {
	Method, Target, Host, Proto string
	URL                         url.URL
	Header                      http.Header
	Length                      int64
	Close                       bool
	Body                        string
}

func messageOf(r *http.Request, body []byte) message {
	return message{r.Method, r.RequestURI, r.Host, r.Proto, *r.URL, r.Header, r.ContentLength, r.Close, string(body)}
}

// byNetHTTP returns the requests that net/http reads from a connection on which a client sends
// data and then nothing more.
func byNetHTTP(data []byte) (all []message) {
	once := make(chan net.Conn, 1)
	once <- &pipe{Reader: bytes.NewReader(data)}
	l := &declined{conns: once, closed: make(chan struct{})}
	s := http.Server{
		ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				l.Close()
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err == nil {
				all = append(all, messageOf(r, body))
			}
		}),
	}
	_ = s.Serve(l)
	return all
}

// A pipe is a connection whose client sends what the Reader has.
type pipe struct{ *bytes.Reader }

func (p *pipe) WriteTo(w io.Writer) (int64, error) { return 0, errors.ErrUnsupported }
func (p *pipe) Write(b []byte) (int, error)        { return len(b), nil }
func (p *pipe) Close() error                       { return nil }
func (p *pipe) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (p *pipe) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (p *pipe) SetDeadline(time.Time) error        { return nil }
func (p *pipe) SetReadDeadline(time.Time) error    { return nil }
func (p *pipe) SetWriteDeadline(time.Time) error   { return nil }

// FuzzParse compares what is plain with what net/http reads. A message that is plain here must be the
// same there, and end at the same byte, which the message after it shows.
func FuzzParse(f *testing.F) {
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST /a?b=c HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /x HTTP/1.1\r\nhost: b\r\n\r\n",
		"GET /%41//b;c=%2f?x=%zz+y HTTP/1.1\r\nHost: [::1]:80\r\nUser-agent:  x \t\r\nCookie: a=b; c=\xff\r\nX_y: 1\r\nConnection: close\r\n\r\n",
		"PUT /[a]!'()* HTTP/1.1\r\nHost: a\r\nContent-Length: 00\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /a# HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: 1\r\n\r\nx", "GET //a:b/?? HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\n\r\n",
	} {
		f.Add([]byte(head))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var ours []message
		for rest := data; ; {
			var r http.Request
			n, v := parse(rest, &r, new(url.URL))
			if v != whole || len(rest)-n < int(r.ContentLength) {
				break
			}
			rest = rest[n:]
			ours = append(ours, messageOf(&r, rest[:r.ContentLength]))
			if rest = rest[r.ContentLength:]; r.Close {
				break
			}
		}
		if len(ours) == 0 {
			return
		}
		theirs := byNetHTTP(data)
		if len(theirs) < len(ours) || !reflect.DeepEqual(ours, theirs[:len(ours)]) {
			t.Errorf("%q:\ngot  %#v\nwant %#v", data, ours, theirs)
		}
	})
}
