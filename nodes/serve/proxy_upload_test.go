package serve_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
)

// zeros is a body of that many bytes which takes no memory. It is not a type that net/http
// knows, so its length is only what the request says.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	clear(p[:n])
	z.left -= int64(n)
	return n, nil
}

// upload sends a body; a length of -1 is chunked, or has no length over HTTP/2.
func (w *site) upload(client *http.Client, body io.Reader, length int64, header ...string) (flowtest.Reply, error) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), "POST", "http://"+w.Address()+"/upload", struct{ io.Reader }{body})
	if err != nil {
		w.t.Fatal(err)
	}
	r.ContentLength = length
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		return flowtest.Reply{}, err
	}
	return flowtest.ReadReply(resp)
}

// clients returns a client for HTTP/1 and one for HTTP/2.
func (w *site) clients() map[string]*http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	w.t.Cleanup(transport.CloseIdleConnections)
	return map[string]*http.Client{"HTTP/1.1": w.Client(), "HTTP/2.0": {Transport: transport}}
}

// digest answers with the length and the hash of what it gets.
func digest(w http.ResponseWriter, r *http.Request) {
	h := sha256.New()
	n, err := io.Copy(h, r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, "%d %s %d %v", n, hex.EncodeToString(h.Sum(nil)[:4]), r.ContentLength, r.TransferEncoding)
}

// An upload of any length passes through without being kept.
func TestUpload(t *testing.T) {
	const size = 64 << 20
	h := sha256.New()
	if _, err := io.Copy(h, &zeros{size}); err != nil {
		t.Fatal(err)
	}
	sum := hex.EncodeToString(h.Sum(nil)[:4])
	w := proxied(t, digest, "limits: {body_bytes: 1KiB},|body_bytes: 0")
	for protocol, client := range w.clients() {
		for _, length := range []int64{size, -1} {
			want := fmt.Sprintf("%d %s %d []", size, sum, length)
			if length < 0 {
				want = fmt.Sprintf("%d %s %d [chunked]", size, sum, length)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := w.upload(client, &zeros{size}, length, "Content-Type", "application/json")
			runtime.ReadMemStats(&after)
			if err != nil || got.Status != 200 || got.Body != want {
				t.Fatalf("%s, length %d: got %+v, %v, want %s", protocol, length, got, err, want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > size/2 { // by the client and the target, too; pools keep little with -race
				t.Errorf("%s, length %d: %d KiB were allocated", protocol, length, used>>10)
			}
		}
	}
}

// A target gets the bytes that the client has sent, whatever they are.
func TestUploadBytes(t *testing.T) {
	w := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Type", r.Header.Get("Content-Type")+"|"+r.Header.Get("Content-Encoding")+"|")
		data, _ := io.ReadAll(r.Body)
		w.Write(data) //nolint:errcheck // the client notices
	}, "|strip: ''")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, strings.Repeat("x", 100_000)) //nolint:errcheck // to memory
	z.Close()
	for protocol, client := range w.clients() {
		for _, chunked := range []bool{false, true} {
			f := func(contentType, coding, body string) {
				t.Helper()
				length := int64(len(body))
				if chunked {
					length = -1
				}
				got, err := w.upload(client, strings.NewReader(body), length, "Content-Type", contentType, "Content-Encoding", coding)
				if err != nil || got.Status != 200 || got.Body != body || got.Header.Get("X-Type") != contentType+"|"+coding+"|" {
					t.Errorf("%s %s %s: got %d and %d bytes, %v; want %d", protocol, contentType, coding, got.Status, len(got.Body), err, len(body))
				}
			}
			f("application/json", "", `{"a": `)
			f("application/json", "", "\ufeff"+`{"a": 1 }`+"\n")
			f("application/json", "", strings.Repeat("[", 1<<20))
			f("application/json", "gzip", packed.String())
			f("application/json", "gzip", "not gzip")
			f("text/plain; charset=klingon", "", "\xff\xfe")
			f("multipart/form-data", "", "no boundary")
			f("application/x-www-form-urlencoded", "", "a=%zz")
			f("", "snappy", "x")
			f("", "", strings.Repeat("0123456789abcdef", 5000))
		}
	}
}

// The proxy has a limit, or the limit of the listener counts.
func TestUploadLimit(t *testing.T) {
	var began atomic.Int32
	h := func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 0 {
			began.Add(1)
		}
		digest(w, r)
	}
	f := func(limits string, size int64, want int) {
		t.Helper()
		w := proxied(t, h, limits)
		for protocol, client := range w.clients() {
			for _, length := range []int64{size, -1} {
				began.Store(0)
				got, err := w.upload(client, &zeros{size}, length)
				if err != nil && want == 200 || err == nil && got.Status != want {
					t.Errorf("%s: %s with %d bytes, length %d: got %+v, %v", limits, protocol, size, length, got, err)
				}
				if want == 413 && length > 0 && began.Load() > 0 {
					t.Errorf("%s: %s with %d bytes: the target got a request", limits, protocol, size)
				}
				if want == 413 && err == nil && !strings.Contains(got.Body, "bytes") {
					t.Errorf("%s: got %q, want the limit", limits, got.Body)
				}
			}
		}
	}
	f("|body_bytes: 100KiB", 100<<10, 200)
	f("|body_bytes: 100KiB", 100<<10+1, 413)
	f("limits: {body_bytes: 100KiB},|strip: ''", 100<<10+1, 413)
	f("limits: {body_bytes: 10B},|strip: ''", 11, 413)
	f("limits: {body_bytes: 10B},|body_bytes: 20MiB", 10<<20, 200)
}

// Where another node needs the body, the listener reads it, within its own limit.
func TestUploadRead(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(digest))
	t.Cleanup(s.Close)
	const router = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, limits: {body_bytes: 1KiB}, ports: {out: [{name: NEXT, port: in}]}}
- {kind: limit, name: guard, rate: 1000/s, ports: {out: [{name: api, port: in}], error: [{name: busy, port: in}]}}
- {kind: page, name: busy, status: 429, text: slow down}
- kind: router
  name: api
  routes:
    - {method: '*', path: /upload, port: 'out[0]'}
    - {method: '*', path: /length, port: 'out[1]'}
    - {method: '*', path: /echo, port: 'out[2]'}
  ports:
    out[0]: [{name: shop, port: in}]
    out[1]: [{name: length, port: in}]
    out[2]: []
- {kind: proxy, name: shop, target: 'TARGET', body_bytes: 0, ports: {error: [{name: failed, port: in}]}}
- {kind: page, name: failed, status: 502, text: 'failed: {{ .status }}'}
- {kind: snippet, name: length, language: cel, code: 'self.body.a'}
`
	for _, first := range []string{"guard", "api"} {
		w := serve(t, strings.NewReplacer("TARGET", s.URL, "NEXT", first).Replace(router))
		if got, err := w.upload(w.Client(), &zeros{100 << 10}, 100<<10, "Content-Type", "application/json"); err != nil || got.Status != 200 {
			t.Errorf("the route of the proxy: got %+v, %v", got, err)
		}
		for _, c := range []struct {
			path, body string
			status     int
			want       string
		}{
			{"/length", `{"a": 7}`, 200, "7"},
			{"/length", `{"a": `, 400, ""},
			{"/length", `{"a": "` + strings.Repeat("x", 2000) + `"}`, 413, ""},
			{"/echo", `{"a": 7}`, 200, `{"a": 7}`},
			{"/none", `{"a": 7}`, 404, ""},
		} {
			if got := w.Request("POST", c.path, c.body, "Content-Type", "application/json"); got.Status != c.status || c.want != "" && got.Body != c.want {
				t.Errorf("%s: got %+v, want %d %s", c.path, got, c.status, c.want)
			}
		}
	}

	w := serve(t, strings.ReplaceAll(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, limits: {body_bytes: 1KiB}, ports: {out: [{name: shop, port: in}, {name: audit, port: in}]}}
- {kind: proxy, name: shop, target: 'TARGET', body_bytes: 10B}
- {kind: snippet, name: audit, language: cel, code: 'null'}
`, "TARGET", s.URL))
	for _, c := range []struct {
		body   string
		status int
	}{{"x", 200}, {strings.Repeat("x", 11), 413}, {strings.Repeat("x", 2000), 413}} {
		if got := w.Request("POST", "/", c.body); got.Status != c.status {
			t.Errorf("%d bytes: got %+v, want %d", len(c.body), got, c.status)
		}
	}
	if got := w.Request("POST", "/", "{", "Content-Type", "application/json"); got.Status != 400 {
		t.Errorf("malformed JSON: got %+v", got)
	}
}

// A broken is a target that reports what became of the bodies that it has read.
type broken struct {
	*httptest.Server
	began, ended chan error
}

// reads makes a target that reads to the end.
func reads(t *testing.T) broken {
	b := broken{began: make(chan error, 100), ended: make(chan error, 100)}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := r.Body.Read(make([]byte, 1))
		b.began <- err
		_, err = io.Copy(io.Discard, r.Body)
		b.ended <- err
	}))
	t.Cleanup(b.Close)
	return b
}

const (
	head   = "POST /x HTTP/1.1\r\nHost: a\r\n"
	length = head + "Content-Length: 100000\r\n\r\n"
	chunks = head + "Transfer-Encoding: chunked\r\n\r\n2000\r\n"
)

func (w *site) dial() net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.Address())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

func (w *site) say(conn net.Conn, text string) {
	w.t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
}

// A client that stalls gets status 408, and the target is not kept.
func TestUploadStalls(t *testing.T) {
	b := reads(t)
	w := serve(t, proxyOf("limits: {header_timeout: 300ms},|timeout: 10s", b.URL))
	for _, begin := range []string{length, chunks} {
		conn := w.dial()
		w.say(conn, begin+strings.Repeat("x", 100))
		if begin == chunks { // the target has got nothing of the other one yet: net/http waits for 4 KiB
			if err := <-b.began; err != nil {
				t.Fatal(err)
			}
		}
		data, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(data), "HTTP/1.1 408 ") || !strings.Contains(string(data), "Connection: close") {
			t.Errorf("got %q, %v; want 408 and the end, log %s", data, err, w.Log())
		}
	}
	if err := <-b.ended; err == nil {
		t.Error("the target takes the body for a whole one")
	}
	conn := w.dial()
	w.say(conn, head+"Content-Length: 10\r\n\r\nx") // small: the target does not get it
	if data, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(data), "HTTP/1.1 408 ") || len(b.began) > 0 {
		t.Errorf("got %q, %v; want 408", data, err)
	}
}

// A client that goes away does not make a whole body of a part.
func TestUploadLeft(t *testing.T) {
	b := reads(t)
	w := serve(t, proxyOf("|timeout: 10s", b.URL))
	for _, begin := range []string{length, chunks} {
		conn := w.dial()
		w.say(conn, begin+strings.Repeat("x", 8000))
		if err := <-b.began; err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if err := <-b.ended; err == nil {
			t.Error("the target takes the body for a whole one")
		}
	}
	client := w.clients()["HTTP/2.0"]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body, feed := io.Pipe()
	defer feed.Close()
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+w.Address(), body)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		resp, err := client.Do(r)
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	io.WriteString(feed, "hello") //nolint:errcheck // the target notices
	if err := <-b.began; err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := errors.Join(<-b.ended); err == nil {
		t.Error("the target takes the body for a whole one")
	}
	<-done
}

// Malformed chunks in the middle are the fault of the client.
func TestUploadMalformed(t *testing.T) {
	b := reads(t)
	w := serve(t, proxyOf("|timeout: 10s", b.URL))
	conn := w.dial()
	w.say(conn, head+"Transfer-Encoding: chunked\r\n\r\n1000\r\n"+strings.Repeat("x", 4096)+"\r\n1000\r\n"+strings.Repeat("x", 4096)+"\r\nno length\r\n")
	data, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(data), "HTTP/1.1 400 ") {
		t.Errorf("got %q, %v; want 400", data, err)
	}
	<-b.began
	if err := <-b.ended; err == nil {
		t.Error("the target takes the body for a whole one")
	}
}

// A target may answer before it has read the body. What is left of that is not read as one.
func TestUploadEarlyAnswer(t *testing.T) {
	var requests atomic.Int32
	w := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "no") //nolint:errcheck // the client notices
	}, "|body_bytes: 0")
	for protocol, client := range w.clients() {
		for range 10 {
			// Clients of HTTP/1 may find the connection closed while they write: see RFC 9112, 9.6.
			got, err := w.upload(client, &zeros{1 << 20}, 1<<20)
			if err == nil && got.Status != http.StatusTeapot && got.Status != http.StatusBadGateway || protocol == "HTTP/2.0" && err != nil {
				t.Errorf("%s: got %+v, %v", protocol, got, err)
			}
		}
	}
	for range 20 {
		requests.Store(0)
		conn := w.dial()
		w.say(conn, head+"Content-Length: 10000000\r\n\r\n"+strings.Repeat("x", 10_000)) // enough for net/http to send it on
		answers := bufio.NewReader(conn)
		resp, err := http.ReadResponse(answers, nil)
		if err != nil || resp.StatusCode != http.StatusTeapot || !resp.Close {
			t.Fatalf("got %+v, %v; want 418, and the end of the connection", resp, err)
		}
		io.WriteString(conn, strings.Repeat("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", 3000)) //nolint:errcheck // the connection ends
		io.Copy(io.Discard, answers)                                                            //nolint:errcheck // as above
		resp.Body.Close()
		if n := requests.Load(); n != 1 {
			t.Fatalf("the target got %d requests", n)
		}
	}
}

// Both sides may talk at the same time.
func TestUploadTalk(t *testing.T) {
	w := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := errors.Join(rc.EnableFullDuplex(), rc.Flush()); err != nil {
			t.Error(err)
		}
		for buf := make([]byte, 100); ; {
			n, err := r.Body.Read(buf)
			w.Write(bytes.ToUpper(buf[:n])) //nolint:errcheck // the client notices
			rc.Flush()                      //nolint:errcheck // as above
			if err != nil {
				return
			}
		}
	}, "|timeout: 10s")
	for protocol, client := range w.clients() {
		body, feed := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+w.Address(), body)
		if err != nil {
			t.Fatal(err)
		}
		if protocol == "HTTP/1.1" {
			go io.WriteString(feed, "first ") //nolint:errcheck // a chunked body is sent on when some of it is there
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 6)
		if protocol == "HTTP/1.1" {
			if _, err := io.ReadFull(resp.Body, buf); string(buf) != "FIRST " {
				t.Errorf("%s: got %q, %v", protocol, buf, err)
			}
		}
		for range 5 {
			if _, err := io.WriteString(feed, "ping  "); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, buf); string(buf) != "PING  " {
				t.Fatalf("%s: got %q, %v", protocol, buf, err)
			}
		}
		feed.Close()
		if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
			t.Errorf("%s: got %q, %v", protocol, rest, err)
		}
		resp.Body.Close()
	}
}

// A request of which something was read is not sent again.
func TestUploadTargetDies(t *testing.T) {
	var requests atomic.Int32
	dies := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		io.ReadFull(r.Body, make([]byte, 10_000)) //nolint:errcheck // it dies
		panic(http.ErrAbortHandler)
	})
	one, two := httptest.NewServer(dies), httptest.NewServer(dies)
	defer one.Close()
	defer two.Close()
	w := serve(t, proxyOf("|retries: 3, body_bytes: 0", one.URL, two.URL))
	for protocol, client := range w.clients() {
		for _, length := range []int64{4 << 20, -1} {
			requests.Store(0)
			got, err := w.upload(client, &zeros{4 << 20}, length)
			if err == nil && got.Status != 502 || protocol == "HTTP/2.0" && err != nil {
				t.Errorf("%s: got %+v, %v; want 502", protocol, got, err)
			}
			if n := requests.Load(); n != 1 {
				t.Errorf("%s: the targets got %d requests", protocol, n)
			}
		}
	}

	// A target that cannot be connected to has got nothing.
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	good := httptest.NewServer(http.HandlerFunc(digest))
	defer good.Close()
	w = serve(t, proxyOf("|retries: 1", closed.URL, good.URL))
	for protocol, client := range w.clients() {
		for _, length := range []int64{1 << 20, -1, 1 << 20, -1} {
			if got, err := w.upload(client, &zeros{1 << 20}, length); err != nil || got.Status != 200 || !strings.HasPrefix(got.Body, "1048576 ") {
				t.Errorf("%s: got %+v, %v", protocol, got, err)
			}
		}
	}

	// One that does not read is late.
	release := make(chan struct{})
	w = proxied(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, "|timeout: 200ms, body_bytes: 0")
	defer close(release)
	if got, err := w.upload(w.clients()["HTTP/2.0"], &zeros{1 << 30}, 1<<30); err != nil || got.Status != 504 {
		t.Errorf("got %+v, %v; want 504", got, err)
	}
}

// A client that expects 100 Continue gets it when the target asks for the body.
func TestUploadExpect(t *testing.T) {
	w := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		digest(w, r)
	}, "|body_bytes: 0")
	for _, size := range []int{100, 100_000} {
		ask := fmt.Sprintf("%sExpect: 100-continue\r\nContent-Length: %d\r\n", head, size)
		conn := w.dial()
		w.say(conn, ask+"\r\n")
		data, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(data), "HTTP/1.1 401 ") || strings.Contains(string(data), "HTTP/1.1 100") {
			t.Errorf("got %q, %v; want 401 without the body", data, err)
		}
		conn = w.dial()
		w.say(conn, ask+"Authorization: x\r\n\r\n")
		answers := bufio.NewReader(conn)
		if line, err := answers.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		answers.ReadString('\n') //nolint:errcheck // the empty line
		w.say(conn, strings.Repeat("x", size))
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !strings.HasPrefix(string(body), fmt.Sprint(size, " ")) || err != nil || resp.Close {
			t.Errorf("got %q, %v, closed %v", body, err, resp.Close)
		}
	}
}

// What follows an upload on its connection is the next request, and only that.
func TestUploadPipelined(t *testing.T) {
	w := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %d %v", r.URL.Path, n, err)
	}, "|body_bytes: 0")
	conn := w.dial()
	go io.WriteString(conn, length+strings.Repeat("x", 100_000)+ //nolint:errcheck // the answers tell
		head+"Transfer-Encoding: chunked\r\n\r\n186a0\r\n"+strings.Repeat("y", 100_000)+"\r\n0\r\n\r\n"+
		"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	answers := bufio.NewReader(conn)
	for _, want := range []string{"/x 100000 <nil>", "/x 100000 <nil>", "/last 0 <nil>"} {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("%v, want %s", err, want)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != want || err != nil {
			t.Errorf("got %q, %v, want %q", body, err, want)
		}
	}
}

// A request for another protocol takes the connection, which an upload reads.
func TestUploadUpgrade(t *testing.T) {
	w := proxied(t, mirror, "|strip: ''")
	conn := w.dial()
	w.say(conn, head+"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 100000\r\n\r\nxyz")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 400 {
		t.Fatalf("got %+v, %v", resp, err)
	}
	resp.Body.Close()
}

// A reload lets uploads come to their end; the end of the program does not wait for them.
func TestUploadReload(t *testing.T) {
	b := reads(t)
	w := serve(t, proxyOf("|body_bytes: 0", b.URL))
	type outcome struct {
		flowtest.Reply
		err error
	}
	start := func(client *http.Client) (*io.PipeWriter, chan outcome) {
		body, feed := io.Pipe()
		done := make(chan outcome, 1)
		go func() {
			a, err := w.upload(client, body, -1)
			done <- outcome{a, err}
		}()
		io.WriteString(feed, "hello") //nolint:errcheck // the target notices
		if err := <-b.began; err != nil {
			t.Fatal(err)
		}
		return feed, done
	}
	for protocol, client := range w.clients() {
		feed, done := start(client)
		for i := range 3 {
			w.Load(proxyOf(fmt.Sprintf("|body_bytes: 0, timeout: %ds", 10+i), b.URL))
			io.WriteString(feed, strings.Repeat("x", 10_000)) //nolint:errcheck // the target notices
		}
		feed.Close()
		if got := <-done; got.err != nil || got.Status != 200 {
			t.Errorf("%s: got %+v", protocol, got)
		}
		if err := <-b.ended; err != nil {
			t.Errorf("%s: the target got %v", protocol, err)
		}
	}
	feed, done := start(w.Client())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := w.Engine().Shutdown(ctx); err == nil {
		t.Error("the shutdown has not noticed the upload")
	}
	if err := <-b.ended; err == nil {
		t.Error("the target takes the body for a whole one")
	}
	feed.CloseWithError(io.ErrClosedPipe) //nolint:errcheck // it never fails
	if got := <-done; got.err == nil && got.Status < 500 {
		t.Errorf("got %+v", got)
	}
}
