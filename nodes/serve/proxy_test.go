package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"

	"github.com/coder/websocket"
)

const proxyFlow = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, LISTENER ports: {out: [{name: shop, port: in}]}}
- {kind: proxy, name: shop, target: [TARGET], MORE}
`

// proxied runs a proxy in front of a handler.
func proxied(t testing.TB, h http.HandlerFunc, more string) *site {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return serve(t, proxyOf(more, s.URL))
}

func proxyOf(more string, targets ...string) string {
	listener, more, _ := strings.Cut(more, "|")
	return strings.NewReplacer("LISTENER", listener, "TARGET", "'"+strings.Join(targets, "', '")+"'", "MORE", more).Replace(proxyFlow)
}

// A seen is a request as a target got it.
type seen struct {
	Method, Target, Host, Body string
	Header                     http.Header
	TransferEncoding           []string
	Length                     int64
}

// mirror answers with the request.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Powered-By", "mirror")
	w.Header().Add("Set-Cookie", "a=1")
	w.Header().Add("Set-Cookie", "b=2")
	json.NewEncoder(w).Encode(seen{r.Method, r.RequestURI, r.Host, string(body), r.Header, r.TransferEncoding, r.ContentLength}) //nolint:errcheck // the client notices
}

func (w *site) seen(method, path, body string, header ...string) (s seen, a flowtest.Reply) {
	w.t.Helper()
	a = w.Request(method, path, body, header...)
	if err := json.Unmarshal([]byte(a.Body), &s); err != nil {
		w.t.Fatalf("%s %s: %d %q", method, path, a.Status, a.Body)
	}
	return s, a
}

func TestProxy(t *testing.T) {
	w := proxied(t, mirror, "request_ids: always,|header: {X-User: '${self.method}-user', Authorization: null, X-Fixed: a}, answer_header: {X-Powered-By: null, X-Via: uniflow}")
	got, a := w.seen("POST", "/orders/a%2Fb?q=1;2&%zz", `{"a":  1}`, "Content-Type", "application/json", "Authorization", "Bearer x", "X-Fixed", "b", "X-Own", "c",
		"X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil", "X-Forwarded-Proto", "https", "X-Forwarded-Ssl", "on", "Forwarded", "for=6.6.6.6", "X-Real-Ip", "6.6.6.6")
	if got.Method != "POST" || got.Target != "/orders/a%2Fb?q=1;2&%zz" || got.Body != `{"a":  1}` || got.Length != 9 || strings.Contains(got.Host, w.Address()) {
		t.Errorf("the target got %+v", got)
	}
	for name, want := range map[string]string{
		"X-User": "POST-user", "X-Fixed": "a", "X-Own": "c", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": w.Address(), "X-Forwarded-Proto": "http",
		"X-Request-Id": a.Header.Get("X-Request-Id"), "Authorization": "", "Forwarded": "", "X-Forwarded-Ssl": "", "X-Real-Ip": "", "X-Forwarded-Prefix": "",
	} {
		if strings.Join(got.Header[http.CanonicalHeaderKey(name)], "|") != want {
			t.Errorf("the target got %s: %q, want %q", name, got.Header[name], want)
		}
	}
	if a.Status != 200 || a.Header.Get("X-Powered-By") != "" || a.Header.Get("X-Via") != "uniflow" || len(a.Header["Set-Cookie"]) != 2 {
		t.Errorf("got %+v", a)
	}
	if got, _ := w.seen("GET", "/", ""); got.Body != "" || got.Length != 0 || len(got.TransferEncoding) > 0 || got.Header["User-Agent"] == nil {
		t.Errorf("GET: the target got %+v", got)
	}
	if got, _ := w.seen("POST", "/", strings.Repeat("x", 100_000), "Content-Type", "application/octet-stream"); len(got.Body) != 100_000 {
		t.Errorf("the target got %d bytes", len(got.Body))
	}
	if got, _ := w.seen("POST", "/", "x", "Content-Encoding", "lzma"); got.Body != "x" || got.Header.Get("Content-Encoding") != "lzma" {
		t.Errorf("the target got %+v", got)
	}
}

// What compresses a request goes to the target as it came, as does what a trusted proxy says.
func TestProxyTrusted(t *testing.T) {
	w := proxied(t, mirror, "trusted_proxies: [127.0.0.0/8],|strip: /api, host: client")
	got, _ := w.seen("GET", "/api/x", "", "X-Forwarded-For", "9.9.9.9", "X-Forwarded-Proto", "https", "Host", "shop.example")
	if got.Target != "/x" || got.Host != "shop.example" || got.Header.Get("X-Forwarded-For") != "9.9.9.9, 127.0.0.1" ||
		got.Header.Get("X-Forwarded-Proto") != "https" || got.Header.Get("X-Forwarded-Prefix") != "/api" {
		t.Errorf("the target got %+v", got)
	}
	if got := w.Request("GET", "/apix", ""); got.Status != 404 {
		t.Errorf("got %+v", got)
	}
}

// What would reach something else than the rules have seen is refused.
func TestProxySmuggling(t *testing.T) {
	var got atomic.Pointer[seen]
	var requests atomic.Int32
	w := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		body, _ := io.ReadAll(r.Body)
		got.Store(&seen{r.Method, r.RequestURI, r.Host, string(body), r.Header, r.TransferEncoding, r.ContentLength})
	}, "|strip: /api")
	send := func(text string) (status string, s seen) {
		t.Helper()
		got.Store(&seen{})
		answer := w.raw(strings.ReplaceAll(text, "\n", "\r\n"))
		status, _, _ = strings.Cut(strings.TrimPrefix(answer, "HTTP/1.1 "), " ")
		return status, *got.Load()
	}
	const end = "Host: a\nConnection: close\n\n"
	for _, path := range []string{"/api/../admin", "/api/%2e%2e/admin", "/api/..%2fadmin", `/api/..\admin`, "/api/..%5cadmin", "/api/x/..;/admin", "/api/%252e%252e/admin", "/api/./x",
		"/api/x%00", "/api/x%0d%0aHost:%20b", "/other", "/api%2fx", "*"} {
		requests.Store(0)
		if status, s := send("GET " + path + " HTTP/1.1\n" + end); requests.Load() > 0 || status[0] != '4' {
			t.Errorf("%s: got %s, the target %+v", path, status, s)
		}
	}
	f := func(name, text, want string, ok func(seen) bool) {
		t.Helper()
		requests.Store(0)
		status, s := send(text)
		if status != want || requests.Load() > 1 || ok != nil && (requests.Load() != 1 || !ok(s)) {
			t.Errorf("%s: got %s, the target %d requests, %+v", name, status, requests.Load(), s)
		}
	}
	f("both lengths", "POST /api/x HTTP/1.1\nHost: a\nContent-Length: 4\nTransfer-Encoding: chunked\n\n1\na\n0\n\nGET /api/smuggled HTTP/1.1\nHost: a\n\n", "200",
		func(s seen) bool { return s.Body == "a" && s.Length == 1 && s.Target == "/x" })
	f("two lengths", "POST /api/x HTTP/1.1\nHost: a\nContent-Length: 1\nContent-Length: 2\n\nab", "400", nil)
	f("an odd coding", "POST /api/x HTTP/1.1\nHost: a\nTransfer-Encoding: xchunked\n\n0\n\n", "501", nil)
	f("a space before the colon", "POST /api/x HTTP/1.1\nHost: a\nContent-Length : 1\n\na", "400", nil)
	f("a folded header", "GET /api/x HTTP/1.1\nX-A: b\n Transfer-Encoding: chunked\n"+end, "200",
		func(s seen) bool {
			return s.Header.Get("X-A") == "b Transfer-Encoding: chunked" && len(s.TransferEncoding) == 0
		})
	f("a bare line feed", "GET /api/x HTTP/1.1\nX-A: b\rX-Forwarded-For: c\n"+end, "400", nil)
	f("headers of the connection", "GET /api/x HTTP/1.1\nHost: a\nConnection: close, X-Secret, X-Forwarded-For\nX-Secret: 1\nKeep-Alive: 5\nProxy-Authorization: x\nProxy-Connection: y\nTe: gzip\nTrailer: X\n\n", "200",
		func(s seen) bool {
			for _, name := range []string{"X-Secret", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Connection"} {
				if s.Header[name] != nil {
					return false
				}
			}
			return s.Header.Get("X-Forwarded-For") == "127.0.0.1"
		})
	f("an absolute target", "GET http://user:pass@evil.example/api/x HTTP/1.1\n"+end, "200",
		func(s seen) bool {
			return s.Target == "/x" && !strings.Contains(s.Host, "evil") && s.Header["Authorization"] == nil
		})
	f("an upgrade to HTTP/2", "GET /api/x HTTP/1.1\nHost: a\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\nConnection: close\n\n", "200",
		func(s seen) bool { return s.Header["Upgrade"] == nil && s.Header["Http2-Settings"] == nil })
	f("a tunnel", "CONNECT evil.example:443 HTTP/1.1\n"+end, "501", nil)
	f("a trace", "TRACE /api/x HTTP/1.1\n"+end, "501", nil)
	f("chunk extensions", "POST /api/x HTTP/1.1\nHost: a\nConnection: close\nTransfer-Encoding: chunked\n\n1;a=b;c=\"d\"\na\n0\n\n", "200",
		func(s seen) bool { return s.Body == "a" && s.Length == 1 && len(s.TransferEncoding) == 0 })
	f("a line feed in a chunk extension", "POST /api/x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n2;\rxx\n4c\n0\n\n", "400", nil)
	f("a chunk size in hexadecimal notation", "POST /api/x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n0x1\na\n0\n\n", "400", nil)
	f("a chunk size that overflows", "POST /api/x HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\nffffffffffffffff1\na\n0\n\n", "400", nil)
	f("trailers", "POST /api/x HTTP/1.1\nHost: a\nConnection: close\nTrailer: X-User\nTransfer-Encoding: chunked\n\n1\na\n0\nX-User: root\nX-Forwarded-For: 6.6.6.6\n\n", "200",
		func(s seen) bool {
			return s.Body == "a" && s.Header["X-User"] == nil && s.Header["Trailer"] == nil && s.Header.Get("X-Forwarded-For") == "127.0.0.1"
		})
	f("chunks of HTTP/1.0", "POST /api/x HTTP/1.0\nHost: a\nConnection: keep-alive\nTransfer-Encoding: chunked\n\nGET /api/smuggled HTTP/1.1\nHost: a\n\n", "HTTP/1.0",
		func(s seen) bool { return s.Body == "" && s.Target == "/x" })
	f("two hosts", "GET /api/x HTTP/1.1\nHost: b\n"+end, "400", nil)
	f("an encoded line in the query", "GET /api/x?a=%0d%0aX-User:%20b HTTP/1.1\n"+end, "200",
		func(s seen) bool { return s.Target == "/x?a=%0d%0aX-User:%20b" && s.Header["X-User"] == nil })
}

// Headers that a target may take for those that the proxy sets do not pass.
func TestProxyForged(t *testing.T) {
	w := proxied(t, mirror, "|header: {X-User: ann}")
	got, _ := w.seen("GET", "/", "", "X_User", "root", "X_FORWARDED-For", "6.6.6.6", "X_real_ip", "6.6.6.6", "Proxy", "http://evil.example", "Content_Length", "5", "X_Own", "c")
	for name, want := range map[string]string{"X-User": "ann", "X-Forwarded-For": "127.0.0.1", "X_own": "c"} {
		if got.Header.Get(name) != want {
			t.Errorf("the target got %s: %q, want %q", name, got.Header[name], want)
		}
	}
	for name := range got.Header {
		if strings.Contains(name, "_") && name != "X_own" || name == "Proxy" {
			t.Errorf("the target got %s", name)
		}
	}
}

// problem reads an error.
func (w *site) problem(path string) (status int, code string) {
	w.t.Helper()
	a := w.Request("GET", path, "", "Accept", "application/problem+json")
	var p struct {
		Status int
		Title  string
	}
	if err := json.Unmarshal([]byte(a.Body), &p); err != nil || a.Header.Get("Content-Type") != "application/problem+json" || p.Status != a.Status {
		w.t.Errorf("got %+v, want a problem", a)
	}
	return a.Status, p.Title
}

func TestProxyErrors(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	w := serve(t, proxyOf("|retries: 0", closed.URL))
	if status, title := w.problem("/"); status != 502 || title != "Bad Gateway" {
		t.Errorf("nothing listens: got %d %s", status, title)
	}
	if strings.Contains(w.Request("GET", "/", "").Body, "127.0.0.1") {
		t.Error("a client sees the address of the target")
	}

	release := make(chan struct{})
	w = proxied(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, "|timeout: 50ms")
	if status, title := w.problem("/"); status != 504 || title != "Gateway Timeout" {
		t.Errorf("no answer: got %d %s", status, title)
	}
	close(release)

	w = proxied(t, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "|ports: {error: [{name: no, port: in}]}}\n- {kind: page, name: no, status: 503, text: '{{ .status }} {{ .code }}'")
	if got := w.Request("GET", "/", ""); got.Status != 503 || got.Body != "502 answer" {
		t.Errorf("the port error: got %+v", got)
	}

	// An answer that breaks off is broken off.
	w = proxied(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Repeat("x", 10_000)) //nolint:errcheck // see below
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, "|retries: 0")
	resp, err := w.Client().Get("http://" + w.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if data, err := io.ReadAll(resp.Body); err == nil || len(data) != 10_000 {
		t.Errorf("got %d bytes, %v; want 10,000 and an error", len(data), err)
	}
}

func TestProxyRetries(t *testing.T) {
	var first, second atomic.Int32
	count := func(n *atomic.Int32, h http.HandlerFunc) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n.Add(1)
			h(w, r)
		}))
		t.Cleanup(s.Close)
		return s
	}
	broken := count(&first, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	good := count(&second, mirror)
	w := serve(t, proxyOf("|retries: 1", broken.URL, good.URL))
	for range 4 {
		if got := w.Request("GET", "/", ""); got.Status != 200 {
			t.Errorf("GET: got %+v", got)
		}
	}
	if first.Load() == 0 {
		t.Error("the broken target was never asked")
	}
	failed := 0
	before := first.Load()
	for range 4 {
		if got := w.Request("POST", "/", "x"); got.Status == 502 {
			failed++
		}
	}
	if failed != 2 || first.Load() != before+2 {
		t.Errorf("%d of 4 POSTs failed, the broken target got %d; want 2 and 2: they may not be repeated", failed, first.Load()-before)
	}

	// A target that cannot be connected to gets nothing, so anything goes to the next.
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	w = serve(t, proxyOf("|retries: 1", closed.URL, good.URL))
	for range 6 {
		if got, _ := w.seen("POST", "/", "body"); got.Body != "body" {
			t.Errorf("the target got %+v", got)
		}
	}
}

// Events come when they are sent, and a client that leaves ends the request to the target.
func TestProxyEvents(t *testing.T) {
	next, left := make(chan string), make(chan struct{})
	w := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		defer close(left)
		for {
			select {
			case text := <-next:
				fmt.Fprintf(w, "data: %s\n\n", text)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}, "|timeout: 1s")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+w.Address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		text := fmt.Sprint("event ", i)
		next <- text
		if lines.Scan(); lines.Text() != "data: "+text {
			t.Fatalf("got %q, want %q", lines.Text(), text)
		}
		lines.Scan()
	}
	cancel()
	<-left
}

func TestProxyWebsocket(t *testing.T) {
	ended := make(chan struct{}, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { ended <- struct{}{} }()
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, append([]byte(r.RequestURI+" "), data...)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	w := serve(t, proxyOf("|strip: /ws", s.URL))
	echo := func(c *websocket.Conn, text string) {
		t.Helper()
		if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, data, err := c.Read(t.Context()); err != nil || string(data) != "/chat "+text {
			t.Fatalf("got %q, %v", data, err)
		}
	}
	dial := func() *websocket.Conn {
		t.Helper()
		c, _, err := websocket.Dial(t.Context(), "ws://"+w.Address()+"/ws/chat", nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := dial()
	echo(c, "one")
	w.Load(strings.Replace(proxyOf("|strip: /ws", s.URL), "port: 0", "port: 0, access_log: true", 1)) // keeps the connection
	echo(c, "two")
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	<-ended

	// The end of the node ends its connections.
	c = dial()
	echo(c, "three")
	w.Load("- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: n, port: in}]}}\n- {kind: nop, name: n}")
	if _, _, err := c.Read(t.Context()); err == nil {
		t.Error("the connection is still open")
	}
	<-ended
	c.CloseNow() //nolint:errcheck // it has ended
	w.Close()    // the line of a request is written when its connection is closed on both sides
	if got := w.Log(); !strings.Contains(got, "path=/ws/chat route=\"\" status=101 ") {
		t.Errorf("log: got %s, want status 101", got)
	}
}

// What is not needed any more is dropped: the process has failed, or the client has left.
func TestProxyDropped(t *testing.T) {
	var open atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer s.Close()
	w := serve(t, `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: both, port: in}]}}
- {kind: pipe, name: both, ports: {"out[0]": [{name: shop, port: in}], "out[1]": [{name: no, port: in}]}}
- {kind: proxy, name: shop, target: '`+s.URL+`'}
- {kind: throw, name: no, status: 418}
`)
	for range 20 {
		if got := w.Request("GET", "/", ""); got.Status != 418 {
			t.Fatalf("got %+v", got)
		}
	}
	deadline := time.After(10 * time.Second)
	for tick := time.NewTicker(time.Millisecond); open.Load() > 0; {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d requests to the target go on", open.Load())
		}
	}
}

// Reloads under load fail no request.
func TestProxyReloads(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(mirror))
	defer s.Close()
	w := serve(t, proxyOf("|retries: 0", s.URL))
	var failed atomic.Int32
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := w.Client().Post("http://"+w.Address()+"/x", "text/plain", strings.NewReader("body"))
				if err != nil {
					failed.Add(1)
					continue
				}
				var got seen
				if err := errors.Join(json.NewDecoder(resp.Body).Decode(&got), resp.Body.Close()); err != nil || got.Body != "body" {
					failed.Add(1)
				}
			}
		})
	}
	for i := range 20 {
		w.Load(proxyOf(fmt.Sprintf("|retries: 0, timeout: %ds, connections: %d", 10+i, 100+i/5), s.URL))
	}
	close(stop)
	clients.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d requests failed", failed.Load())
	}
}

// A target that speaks something else is an error.
func TestProxyGarbage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "SSH-2.0-OpenSSH\r\n") //nolint:errcheck // the client notices
			c.Close()
		}
	})
	defer serving.Wait()
	defer l.Close()
	w := serve(t, proxyOf("|retries: 1", "http://"+l.Addr().String()))
	if status, _ := w.problem("/"); status != 502 {
		t.Errorf("got %d", status)
	}
}
