package serve_test

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/uniflow-labs/uniflow/flowtest"
)

// framesFlow answers in all the ways that there are.
const framesFlow = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, compress: {min_bytes: 1KiB}, TLS ports: {out: [{name: routes, port: in}]}}
- kind: router
  name: routes
  routes:
    - {method: GET, path: /plain/:size, port: "out[0]"}
    - {method: GET, path: /status/:status, port: "out[1]"}
    - {method: GET, path: /static/*, port: "out[2]"}
    - {method: GET, path: /proxy/*, port: "out[3]"}
    - {method: GET, path: /parts/:size, port: "out[4]"}
    - {method: GET, path: /fails, port: "out[5]"}
  ports:
    "out[0]": [{name: plain, port: in}]
    "out[1]": [{name: status, port: in}]
    "out[2]": [{name: files, port: in}]
    "out[3]": [{name: there, port: in}]
    "out[4]": [{name: both, port: in}]
    "out[5]": [{name: fails, port: in}]
- {kind: snippet, name: plain, language: javascript, code: 'export default ({params}) => "x".repeat(Number(params.size))'}
- {kind: snippet, name: status, language: cel, code: '{"status": int(params.status)}'}
- {kind: static, name: files, root: 'ROOT', strip: /static}
- {kind: proxy, name: there, target: 'TARGET', strip: /proxy}
- {kind: snippet, name: both, language: cel, code: '["xx", params.size]', ports: {out: [{name: each, port: in}]}}
- {kind: for, name: each, ports: {"out[0]": [{name: first, port: in}], "out[1]": [{name: last, port: in}]}}
- {kind: if, name: first, when: self == "xx", ports: {"out[0]": [{name: part, port: in}]}}
- {kind: emit, name: part}
- {kind: snippet, name: last, language: javascript, code: 'export default ([size]) => "x".repeat(Number(size))'}
- {kind: pipe, name: fails, ports: {"out[0]": [{name: part, port: in}], "out[1]": [{name: throw, port: in}]}}
- {kind: throw, name: throw}
`

// A frameClient speaks HTTP/2, and sees the frames.
type frameClient struct {
	*http2.Framer
	t       *testing.T
	head    bytes.Buffer
	enc     *hpack.Encoder
	stream  uint32
	header  http.Header // of the last answer
	arrived func()      // called when a part of the body has come; may be nil
}

// frames connects with windows that are never full.
func (w *site) frames(t *testing.T, secure bool) *frameClient {
	t.Helper()
	conn, err := net.Dial("tcp", w.Address())
	if err == nil && secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &frameClient{Framer: http2.NewFramer(conn, conn), t: t}
	c.enc = hpack.NewEncoder(&c.head)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err := errors.Join(err, c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}), c.WriteWindowUpdate(0, 1<<30)); err != nil {
		t.Fatal(err)
	}
	return c
}

// do returns the body of an answer, and its frames: H is a header, D data, 0 a frame of data
// without data, R a reset; the one that ends the stream has a dot.
func (c *frameClient) do(method, path string, header ...string) (body []byte, frames string) {
	c.t.Helper()
	c.head.Reset()
	for i, fields := 0, append([]string{":method", method, ":scheme", "http", ":authority", "x", ":path", path}, header...); i < len(fields); i += 2 {
		if err := c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.stream += 2
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream - 1, BlockFragment: c.head.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		c.t.Fatal(err)
	}
	c.header = make(http.Header)
	for {
		f, err := c.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		ended := false
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				if err := c.WriteSettingsAck(); err != nil {
					c.t.Fatal(err)
				}
			}
		case *http2.MetaHeadersFrame:
			frames, ended = frames+"H", f.StreamEnded()
			for _, field := range f.Fields {
				c.header.Add(field.Name, field.Value)
			}
		case *http2.DataFrame:
			name := "D"
			if len(f.Data()) == 0 {
				name = "0"
			}
			body, frames, ended = append(body, f.Data()...), frames+name, f.StreamEnded()
			if c.arrived != nil {
				c.arrived()
			}
		case *http2.RSTStreamFrame:
			frames, ended = frames+"R", true
		case *http2.GoAwayFrame:
			c.t.Fatalf("%s %s: got %v", method, path, f)
		}
		if ended {
			return body, frames + "."
		}
	}
}

// want checks that the last frame of a body ends the stream, and that no frame is empty.
func (c *frameClient) want(name, frames string, body []byte, want []byte) {
	c.t.Helper()
	if !bytes.Equal(body, want) {
		c.t.Errorf("%s: got %d bytes, want %d", name, len(body), len(want))
	}
	if len(want) == 0 && frames != "H." || len(want) > 0 && (!strings.HasPrefix(frames, "HD") || strings.Trim(frames[1:], "D") != ".") {
		c.t.Errorf("%s: got the frames %s", name, frames)
	}
}

// ofSize answers with as many bytes as the path says, with their length, in chunks
// that come with the end, or flushed.
func ofSize(w http.ResponseWriter, r *http.Request) {
	how, size, _ := strings.Cut(r.URL.Path[1:], "/")
	n, err := strconv.Atoi(size)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body := strings.Repeat("x", n)
	if how == "length" {
		w.Header().Set("Content-Length", size)
		fmt.Fprint(w, body) //nolint:errcheck // the client notices
		return
	}
	if how == "flushed" {
		w.(http.Flusher).Flush()
		fmt.Fprint(w, body) //nolint:errcheck // the client notices
		return
	}
	// At one go, so that it is up to the reader whether the end comes with the last chunk.
	text := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
	if n > 0 {
		text += fmt.Sprintf("%x\r\n%s\r\n", n, body)
	}
	text += "0\r\n"
	if how == "trailer" {
		text += "X-Sum: 1\r\n"
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	io.WriteString(conn, text+"\r\n") //nolint:errcheck // the client notices
}

// endsLater matches the frames of a body that the proxy may have sent before it knew of the end.
var endsLater = regexp.MustCompile(`^HD*0?\.$`)

// TestLastDataEndsStream reads the frames of answers of all kinds over HTTP/2: the last one
// that has something ends the stream, as a proxy may hold back what does not.
func TestLastDataEndsStream(t *testing.T) {
	sizes := []int{0, 1, 2047, 2048, 2049, 4095, 4096, 4097, 6144, 16384, 65536, 65537, 1 << 20}
	dir := t.TempDir()
	for _, n := range sizes {
		write(t, dir, fmt.Sprintf("%d.txt", n), strings.Repeat("x", n))
	}
	later := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/later" {
			ofSize(w, r)
			return
		}
		fmt.Fprint(w, "now")
		w.(http.Flusher).Flush()
		select {
		case <-later:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(upstream.Close)
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%t", secure), func(t *testing.T) {
			settings := ""
			if secure {
				cert, key := flowtest.Certificate(t, 1)
				settings = fmt.Sprintf("tls: {cert: %q, key: %q},", cert, key)
			}
			w := serve(t, strings.NewReplacer("TLS", settings, "ROOT", dir, "TARGET", upstream.URL).Replace(framesFlow))
			c := w.frames(t, secure)
			for _, n := range sizes {
				want := bytes.Repeat([]byte("x"), n)
				for _, path := range []string{"/plain/%d", "/static/%d.txt", "/proxy/length/%d"} {
					path = fmt.Sprintf(path, n)
					body, frames := c.do("GET", path)
					c.want(path, frames, body, want)
					body, frames = c.do("HEAD", path)
					c.want("HEAD "+path, frames, body, nil)
				}
				body, frames := c.do("GET", fmt.Sprintf("/plain/%d", n), "accept-encoding", "gzip")
				if n >= 1024 {
					unpack, err := gzip.NewReader(bytes.NewReader(body))
					if err != nil || c.header.Get("Content-Encoding") != "gzip" {
						t.Fatal(err, c.header)
					}
					if body, err = io.ReadAll(unpack); err != nil {
						t.Fatal(err)
					}
				}
				c.want(fmt.Sprintf("%d bytes, compressed", n), frames, body, want)
				if n > 2 {
					body, frames = c.do("GET", fmt.Sprintf("/static/%d.txt", n), "range", "bytes=1-")
					c.want(fmt.Sprintf("a range of %d bytes", n), frames, body, want[1:])
				}

				// The first part is sent when it comes. The end is the last frame.
				body, frames = c.do("GET", fmt.Sprintf("/parts/%d", n))
				if n == 0 { // nothing is left to be sent when the end is known
					if string(body) != "xx" || frames != "HD0." {
						t.Errorf("a part, and an empty end: got %s, %q", frames, body)
					}
				} else {
					c.want(fmt.Sprintf("a part, and an end of %d bytes", n), frames, body, append([]byte("xx"), want...))
				}

				// Without a length, the end may come with the last read of the body.
				body, frames = c.do("GET", fmt.Sprintf("/proxy/chunks/%d", n))
				if n > 0 && n < 3000 { // one read
					c.want(fmt.Sprintf("%d bytes in chunks", n), frames, body, want)
				} else if !bytes.Equal(body, want) || !endsLater.MatchString(frames) {
					t.Errorf("%d bytes in chunks: got %d, %s", n, len(body), frames)
				}
			}
			if body, frames := c.do("GET", "/proxy/trailer/2048"); len(body) != 2048 || frames != "HDH." || c.header.Get("X-Sum") != "1" {
				t.Errorf("a trailer: got %d bytes, %s, %v", len(body), frames, c.header)
			}

			// What comes before the end is known is sent immediately.
			c.arrived = func() {
				c.arrived = nil
				later <- struct{}{}
			}
			if body, frames := c.do("GET", "/proxy/later"); string(body) != "now" || frames != "HD0." {
				t.Errorf("an end that comes later: got %q, %s", body, frames)
			}

			// An answer that is cut ends with what was sent.
			if body, frames := c.do("GET", "/fails", "accept", "application/x-ndjson"); !strings.Contains(string(body), `{"error":{"status":500}}`) || frames != "HDR." {
				t.Errorf("an answer that fails: got %q, %s", body, frames)
			}
			body, frames := c.do("GET", "/parts/0", "accept", "text/event-stream")
			c.want("events", frames, body, []byte("retry: 1000\n\ndata: xx\n\nevent: end\ndata: \n\n"))
			for _, path := range []string{"/status/204", "/status/304", "/status/200"} {
				body, frames := c.do("GET", path)
				c.want(path, frames, body, nil)
			}
			_, _ = c.do("GET", "/static/1.txt")
			body, frames = c.do("GET", "/static/1.txt", "if-none-match", c.header.Get("Etag"))
			c.want("an unchanged file", frames, body, nil)
			if got := c.header.Get(":status"); got != "304" {
				t.Errorf("got status %s, want 304", got)
			}
		})
	}
}
