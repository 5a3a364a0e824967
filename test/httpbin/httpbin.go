// Package httpbin is a service for the tests of clients: it answers well, badly, slowly
// or never, as the path of a request says.
//
// Read [Handler]. The package must not know how clients work.
package httpbin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Orders is the JSON that /json and the compressed paths answer with.
const Orders = `{"id":"ord-173","note":"leave at the door","item":{"sku":"a-1","count":2}}`

// Handler returns the service:
//
//	/echo…              the request as JSON
//	/status/N           that status, and its text
//	/json /text /octets /form   a body of that type
//	/gzip /deflate /br /zstd    compressed JSON
//	/bomb/CODING        64 MiB of zeros, compressed
//	/unknown-coding /empty-members  a coding that does not exist; gzip without contents, without end
//	/huge /huge-chunked 64 MiB, announced and not
//	/bad-json /html-as-json     JSON that is none
//	/redirect/N         N redirects, then /echo
//	/loop               a redirect to itself
//	/to?url=U&status=N  a redirect to a URL
//	/slow-header /slow-body     no header, and no end of the body, until the client leaves
//	/broken-chunk /early-close /garbage  answers that are cut off or malformed
func Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/echo", echo)
	m.HandleFunc("/echo/", echo)
	m.HandleFunc("/status/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue("n"))
		if err != nil {
			n = http.StatusBadRequest
		}
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(n)
		if n != http.StatusNoContent && n != http.StatusNotModified {
			io.WriteString(w, http.StatusText(n))
		}
	})
	for path, c := range map[string]struct{ contentType, body string }{
		"/json":         {"application/json", Orders},
		"/text":         {"text/plain; charset=iso-8859-1", "caf\xe9"},
		"/octets":       {"application/octet-stream", "\x00\xff"},
		"/form":         {"application/x-www-form-urlencoded", "a=1&a=2&b=x+y"},
		"/bad-json":     {"application/json", `{"id": `},
		"/html-as-json": {"application/json", "<html>502 Bad Gateway</html>"},
	} {
		m.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.contentType)
			io.WriteString(w, c.body)
		})
	}
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		small := Compress(coding, strings.NewReader(Orders))
		m.HandleFunc("/"+coding, func(w http.ResponseWriter, _ *http.Request) { sendCoded(w, coding, small) })
		bomb := sync.OnceValue(func() []byte { return Compress(coding, io.LimitReader(zeros{}, 64<<20)) })
		m.HandleFunc("/bomb/"+coding, func(w http.ResponseWriter, _ *http.Request) { sendCoded(w, coding, bomb()) })
	}
	m.HandleFunc("/unknown-coding", func(w http.ResponseWriter, _ *http.Request) { sendCoded(w, "rot13", []byte(Orders)) })
	m.HandleFunc("/empty-members", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		member := Compress("gzip", strings.NewReader(""))
		for {
			if _, err := w.Write(member); err != nil {
				return
			}
		}
	})
	m.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(64<<20))
		io.CopyN(w, zeros{}, 64<<20)
	})
	m.HandleFunc("/huge-chunked", func(w http.ResponseWriter, _ *http.Request) { io.CopyN(w, zeros{}, 64<<20) })
	m.HandleFunc("/redirect/{n}", func(w http.ResponseWriter, r *http.Request) {
		to := "/echo"
		if n, err := strconv.Atoi(r.PathValue("n")); err == nil && n > 1 {
			to = fmt.Sprintf("/redirect/%d", n-1)
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	m.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	m.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusFound
		if n, err := strconv.Atoi(r.URL.Query().Get("status")); err == nil {
			status = n
		}
		w.Header().Set("Location", r.URL.Query().Get("url"))
		w.WriteHeader(status)
	})
	m.HandleFunc("/slow-header", func(_ http.ResponseWriter, r *http.Request) { leave(r) })
	m.HandleFunc("/slow-body", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "beginning")
		http.NewResponseController(w).Flush()
		leave(r)
	})
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	for path, answer := range map[string]string{
		"/broken-chunk": head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
		"/early-close":  head + "Content-Length: 100\r\n\r\nhello",
		"/no-status":    "HTTP/1.1 000 x\r\nContent-Length: 2\r\n\r\nhi",
		"/garbage":      "220 mail.example.com ESMTP\r\n",
		"/no-answer":    "",
		"/long-header":  head + "X-Long: " + strings.Repeat("a", 1<<20) + "\r\n\r\n",
		"/switch":       "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
	} {
		m.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer c.Close()
			io.WriteString(c, answer)
			if t, ok := c.(*net.TCPConn); ok {
				t.CloseWrite() // the client reads all of it before it sees the end
			}
		})
	}
	return m
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method, "host": r.Host, "target": r.RequestURI, "query": r.URL.Query(), "header": r.Header, "body": string(body), "protocol": r.Proto,
	})
}

// leave waits until the client has left. net/http sees that only when the body was read.
func leave(r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func sendCoded(w http.ResponseWriter, coding string, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", coding)
	w.Write(data)
}

// Compress returns what r reads in a content encoding.
func Compress(coding string, r io.Reader) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "br":
		w = brotli.NewWriterLevel(&b, 1)
	case "zstd":
		e, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err)
		}
		w = e
	}
	if _, err := io.Copy(w, r); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
