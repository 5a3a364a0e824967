package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/test/httpbin"
	"github.com/uniflow-labs/uniflow/value"
)

func TestHTTPRedirects(t *testing.T) {
	s, other := bin(t), bin(t) // another port is another host
	to := func(where string, status int) string {
		return fmt.Sprintf("%s/to?status=%d&url=%s", s.URL, status, url.QueryEscape(where))
	}
	const secrets = `"auth":{"token":"t0ken"},"header":{"X-Api-Key":"k3y","Accept":"application/json"}`
	follow := func(config string, payload string) value.Value {
		t.Helper()
		return ask(t, "{"+config+"}", flowtest.Parse(t, payload))
	}
	header := func(answer value.Value, name string) string {
		return get(answer, "body", "header", name).At(0).String()
	}

	// Within the host everything goes along, except for the URL that was left.
	a := follow(`"url":"`+to("/echo/x", 302)+`",`+secrets, `null`)
	if header(a, "Authorization") != "Bearer t0ken" || header(a, "X-Api-Key") != "k3y" || !get(a, "body", "header", "Referer").IsNull() {
		t.Errorf("same host: got %s", get(a, "body", "header"))
	}
	// Elsewhere no credentials do, whether of the node or of the payload.
	a = follow(`"url":"`+to(other.URL+"/echo", 307)+`",`+secrets, `{"body":"hello","header":{"Cookie":"c=1","X-Csrf":"2"}}`)
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "X-Csrf", "Referer"} {
		if h := get(a, "body", "header", name); !h.IsNull() {
			t.Errorf("another host: got %s: %s", name, h)
		}
	}
	if header(a, "Accept") != "application/json" || get(a, "body", "body").String() != "hello" || get(a, "body", "method").String() != "POST" {
		t.Errorf("another host: got %s", get(a, "body"))
	}
	// And not when that leads back.
	a = follow(`"url":"`+to(other.URL+"/to?url="+url.QueryEscape(s.URL+"/echo"), 302)+`",`+secrets, `null`)
	if h := get(a, "body", "header"); !get(h, "Authorization").IsNull() || !get(h, "X-Api-Key").IsNull() {
		t.Errorf("there and back: got %s", h)
	}
	// 303 makes a GET of a POST.
	a = follow(`"url":"`+to("/echo", 303)+`"`, `"hello"`)
	if get(a, "body", "method").String() != "GET" || get(a, "body", "body").String() != "" {
		t.Errorf("303: got %s", get(a, "body"))
	}
	// A redirect that is not followed is the answer.
	for _, config := range []string{`"redirects":"none","url":"` + to("/echo", 302) + `"`, `"redirects":"same_host","url":"` + to(other.URL, 302) + `"`} {
		if a = follow(config, `null`); get(a, "status").String() != "302" || get(a, "header", "Location").Len() != 1 {
			t.Errorf("%s: got %s", config, a)
		}
	}
	if a = follow(`"redirects":"same_host","url":"`+to("/echo", 302)+`"`, `null`); get(a, "status").String() != "200" {
		t.Errorf("same_host: got %s", a)
	}
	failed(t, `{"url":"`+to("file:///etc/passwd", 302)+`"}`, value.Null(), httpclient.CodeRedirect)
	e := failed(t, `{"url":"`+to("http://%zz/?token=hunter2", 302)+`"}`, value.Null(), httpclient.CodeRedirect)
	if strings.Contains(e.Error(), "hunter2") {
		t.Errorf("the error has the query: %v", e)
	}
}

// TestHTTPEgress calls this machine under all the names that it has.
func TestHTTPEgress(t *testing.T) {
	s := bin(t)
	port := s.URL[strings.LastIndexByte(s.URL, ':')+1:]
	// The resolver of the system may take numbers for addresses, or for names that do
	// not exist.
	for host, codes := range map[string][]string{
		"localhost": {httpclient.CodeEgress}, "LOCALHOST.": {httpclient.CodeEgress, httpclient.CodeConnect},
		"2130706433": {httpclient.CodeEgress, httpclient.CodeConnect}, "0177.0.0.1": {httpclient.CodeEgress, httpclient.CodeConnect}, "0x7f.1": {httpclient.CodeEgress, httpclient.CodeConnect}, "127.1": {httpclient.CodeEgress, httpclient.CodeConnect},
	} {
		n := newService(t, `{"egress":"public","url":"http://`+host+":"+port+`/json"}`)
		var e *node.Error
		v := runClient(t.Context(), n, value.Null())
		if !errors.As(v.AsError(), &e) || !strings.Contains(strings.Join(codes, " "), e.Code) {
			t.Errorf("%s: got %s, want one of %v", host, v, codes)
		}
	}
	// A redirect is checked like the URL. The first connection must be let through.
	for _, to := range []string{"http://127.0.0.1:" + port, "http://[::1]:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port, "http://169.254.169.254/latest/meta-data"} {
		n := newService(t, `{"egress":"public","url":"http://public.example/"}`)
		n.http.Transport = &firstFrom{s, to, n.http.Transport}
		var e *node.Error
		if v := runClient(t.Context(), n, value.Null()); !errors.As(v.AsError(), &e) || e.Code != httpclient.CodeEgress {
			t.Errorf("redirect to %s: got %s", to, v)
		}
	}
}

// firstFrom answers for public.example with a redirect, which a server of the test cannot do
// as it has no public address.
type firstFrom struct {
	s    *httptest.Server
	to   string
	next http.RoundTripper
}

func (f *firstFrom) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "public.example" {
		return f.next.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	http.Redirect(w, r, f.to, http.StatusFound)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

func TestHTTPTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(httpbin.Handler())
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := quoted(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	a := ask(t, `{"url":"`+s.URL+`/json","tls":{"ca":`+ca+`}}`, value.Null())
	if p := get(a, "protocol").String(); p != "HTTP/2.0" {
		t.Errorf("got protocol %s", p)
	}
	if a = ask(t, `{"url":"`+s.URL+`/gzip","tls":{"skip_verify":true}}`, value.Null()); !get(a, "body").Equal(flowtest.Parse(t, httpbin.Orders)) {
		t.Errorf("got %s", a)
	}
	for _, path := range []string{"/slow-header", "/slow-body"} {
		failed(t, `{"url":"`+s.URL+path+`","timeout":"200ms","tls":{"ca":`+ca+`}}`, value.Null(), httpclient.CodeTimeout)
	}
	failed(t, `{"url":"`+s.URL+`/huge","limits":{"body_bytes":"64KiB"},"tls":{"ca":`+ca+`}}`, value.Null(), httpclient.CodeTooLarge)
	failed(t, `{"url":"`+s.URL+`/slow-header","limits":{"header_timeout":"50ms"},"tls":{"ca":`+ca+`}}`, value.Null(), httpclient.CodeTimeout)
	failed(t, `{"url":"`+s.URL+`/json"}`, value.Null(), httpclient.CodeTLS)
	ask(t, `{"url":"`+s.URL+`/json","tls":{"ca":`+ca+`,"server_name":"example.com"}}`, value.Null())
	failed(t, `{"url":"`+s.URL+`/json","tls":{"ca":`+ca+`,"server_name":"other.example"}}`, value.Null(), httpclient.CodeTLS)
	failed(t, strings.Replace(`{"url":"`+bin(t).URL+`/json"}`, "http:", "https:", 1), value.Null(), httpclient.CodeTLS)

	// A handshake that does not come.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e := failed(t, `{"url":"https://`+l.Addr().String()+`","limits":{"connect_timeout":"50ms"}}`, value.Null(), httpclient.CodeTimeout)
	if !strings.Contains(node.Message(e), "no TLS handshake within 50ms") {
		t.Errorf("got %v", e)
	}
}

func quoted(s string) string {
	return value.List(value.String(s)).String()[1 : len(value.List(value.String(s)).String())-1]
}

func TestHTTPCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(httpbin.Handler())
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	cert := quoted(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	der, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	file := path.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{key, file} {
		a := ask(t, `{"url":"`+s.URL+`/json","tls":{"ca":`+cert+`,"cert":`+cert+`,"key":`+quoted(k)+`}}`, value.Null())
		if get(a, "status").String() != "200" {
			t.Errorf("got %s", a)
		}
	}
	failed(t, `{"url":"`+s.URL+`/json","tls":{"ca":`+cert+`}}`, value.Null(), httpclient.CodeTLS)
}

// A proxy forwards requests, and makes tunnels to one server whatever their name is.
type proxy struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []string
	closed bool
}

func newProxy(t *testing.T, backend string) *proxy {
	p := new(proxy)
	var tunnels sync.WaitGroup
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.seen = append(p.seen, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		p.mu.Unlock()
		switch {
		case r.Header.Get("Proxy-Authorization") == "":
			w.WriteHeader(http.StatusProxyAuthRequired)
		case r.Method != http.MethodConnect:
			io.WriteString(w, "by proxy")
		default:
			to, err := net.Dial("tcp", backend)
			if err != nil {
				t.Error(err)
				return
			}
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			p.mu.Lock() // a server does not wait for handlers that have taken their connection
			defer p.mu.Unlock()
			if p.closed {
				to.Close()
				c.Close()
				return
			}
			tunnels.Go(func() { io.Copy(to, c); to.Close() })
			tunnels.Go(func() { io.Copy(c, to); c.Close() })
		}
	}))
	t.Cleanup(func() {
		p.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		tunnels.Wait()
	})
	return p
}

func TestHTTPProxy(t *testing.T) {
	s := httptest.NewTLSServer(httpbin.Handler())
	t.Cleanup(s.Close)
	p := newProxy(t, s.Listener.Addr().String())
	const credentials = `","proxy_auth":{"user":"ann","password":"hunter2"}}`
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:hunter2"))

	a := ask(t, `{"url":"http://service.invalid/a","proxy":"`+p.URL+credentials, value.Null())
	if got := get(a, "body"); !got.Equal(value.String("by proxy")) {
		t.Errorf("got %s", a)
	}
	ca := quoted(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	tunnel := `{"url":"https://example.com/json","tls":{"ca":` + ca + `},"proxy":"`
	if a = ask(t, tunnel+p.URL+credentials, value.Null()); get(a, "status").String() != "200" {
		t.Errorf("got %s", a)
	}
	e := failed(t, tunnel+p.URL+`"}`, value.Null(), httpclient.CodeConnect)
	if !strings.Contains(node.Message(e), "the proxy answered 407") {
		t.Errorf("got %v", e)
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	e = failed(t, tunnel+closed.URL+credentials, value.Null(), httpclient.CodeConnect)
	if strings.Contains(e.Error(), "hunter2") {
		t.Errorf("the error has the password: %v", e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	want := "GET http://service.invalid/a " + basic + "\nCONNECT example.com:443 " + basic + "\nCONNECT example.com:443 "
	if got := strings.Join(p.seen, "\n"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestHTTPProxyOfEnvironment runs itself with a proxy in the environment, which net/http
// reads once.
func TestHTTPProxyOfEnvironment(t *testing.T) {
	const config = `{"url":"http://service.invalid/a"`
	if os.Getenv("UNIFLOW_TEST_PROXY") != "" {
		if a := ask(t, config+`}`, value.Null()); !get(a, "body").Equal(value.String("by proxy")) {
			t.Errorf("got %s", a)
		}
		failed(t, config+`,"proxy":"none"}`, value.Null(), httpclient.CodeConnect)
		failed(t, config+`,"egress":"public"}`, value.Null(), httpclient.CodeConnect)
		return
	}
	p := newProxy(t, "")
	cmd := exec.Command(os.Args[0], "-test.run=^TestHTTPProxyOfEnvironment$")
	cmd.Env = append(os.Environ(), "UNIFLOW_TEST_PROXY=1", "HTTP_PROXY="+strings.Replace(p.URL, "http://", "http://a:b@", 1), "NO_PROXY=", "http_proxy=", "no_proxy=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// counted starts a service that counts its connections.
func counted(t *testing.T, h http.Handler) (s *httptest.Server, connections *atomic.Int32) {
	connections = new(atomic.Int32)
	s = httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s, connections
}

func TestHTTPReuse(t *testing.T) {
	s, connections := counted(t, httpbin.Handler())
	n := newService(t, `{"url":"`+s.URL+`","limits":{"connections":8}}`)
	run := func(path string) value.Value {
		return runClient(t.Context(), n, value.Map(value.Field{Name: "path", Value: value.String(path)}))
	}
	for _, path := range []string{"/json", "/gzip", "/status/404", "/status/204", "/redirect/3", "/bad-json"} {
		for range 5 {
			run(path)
		}
	}
	// On a busy machine net/http closes one now and then, as it cannot tell in time
	// that the request was written.
	if got := connections.Load(); got > 3 {
		t.Errorf("one after the other: got %d connections for 30 calls", got)
	}
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 10 {
				if v := run("/json"); v.IsError() {
					t.Error(v.AsError())
				}
			}
		})
	}
	all.Wait()
	if got := connections.Load(); got > 12 {
		t.Errorf("concurrently: got %d connections for 640 calls, want about 8", got)
	}
}

// TestHTTPReload keeps the connections over a reload with the same settings, and a call
// in progress.
func TestHTTPReload(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			close(entered)
			<-leave
		}
		io.WriteString(w, r.URL.Path)
	}))
	t.Cleanup(s.Close)
	pool := new(node.Pool)
	generation := func(more string) *httpNode {
		n, err := makeClient(t, pool, `{"url":"`+s.URL+`"`+more+`}`)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	run := func(n *httpNode, path string) string {
		return get(runClient(t.Context(), n, value.Map(value.Field{Name: "path", Value: value.String(path)})), "body").String()
	}
	first := generation("")
	run(first, "/a")
	second := generation(`,"timeout":"10s"`)
	run(second, "/b")
	if first.http.Transport != second.http.Transport {
		t.Error("the connections of the generation before are not used")
	}
	held := make(chan string, 1)
	var w sync.WaitGroup
	w.Go(func() { held <- run(first, "/held") })
	<-entered
	third := generation(`,"limits":{"connections":2}`)
	if got := run(third, "/c"); got != "/c" {
		t.Errorf("got %s", got)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	close(leave)
	if got := <-held; got != "/held" {
		t.Errorf("the call in progress: got %s", got)
	}
	w.Wait()
	var calls float64
	third.Measure(func(m node.Metric) {
		if m.Name == "http_calls_total" {
			calls += m.Value
		}
	})
	if calls != 4 {
		t.Errorf("got %v calls counted, want 4", calls)
	}
	for _, n := range []*httpNode{first, third} {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestHTTPCancel ends a process at each thing that its call waits for.
func TestHTTPCancel(t *testing.T) {
	errGone := errors.New("the client has left")
	entered := make(chan struct{}, 1)
	bin := httpbin.Handler()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case entered <- struct{}{}:
		default:
		}
		bin.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts no connection, so there is no handshake
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	f := func(name, config string, begun func()) {
		t.Helper()
		n := newService(t, config)
		ctx, cancel := context.WithCancelCause(t.Context())
		var w sync.WaitGroup
		w.Go(func() {
			begun()
			cancel(errGone)
		})
		v := runClient(ctx, n, value.String("x"))
		w.Wait()
		if !errors.Is(v.AsError(), errGone) {
			t.Errorf("%s: got %s, want the cause of the end", name, v)
		}
	}
	f("header", `{"url":"`+s.URL+`/slow-header"}`, func() { <-entered })
	f("body", `{"url":"`+s.URL+`/slow-body"}`, func() { <-entered })
	f("handshake", `{"url":"https://`+silent.Addr().String()+`"}`, func() {})
	// A place among the connections.
	n := newService(t, `{"url":"`+s.URL+`/slow-header","limits":{"connections":1}}`)
	ctx, cancel := context.WithCancel(t.Context())
	var w sync.WaitGroup
	w.Go(func() { runClient(ctx, n, value.Null()) })
	<-entered
	late, stop := context.WithCancelCause(t.Context())
	stop(errGone)
	if v := runClient(late, n, value.Null()); !errors.Is(v.AsError(), errGone) {
		t.Errorf("connection: got %s", v)
	}
	cancel()
	w.Wait()
}

func TestHTTPMetrics(t *testing.T) {
	s := bin(t)
	n := newService(t, `{"url":"`+s.URL+`"}`)
	for _, path := range []string{"/json", "/text", "/status/404", "/status/500", "/bad-json", "/no-answer"} {
		runClient(t.Context(), n, value.Map(value.Field{Name: "path", Value: value.String(path)}))
	}
	var b bytes.Buffer
	n.Measure(func(m node.Metric) {
		var observed uint64
		for _, c := range m.Counts {
			observed += c
		}
		fmt.Fprintln(&b, m.Name, m.Labels, m.Value+float64(observed))
	})
	const want = `http_calls_total [{status error}] 2
http_calls_total [{status 2xx}] 2
http_calls_total [{status 4xx}] 1
http_calls_total [{status 5xx}] 1
http_call_duration_seconds [] 6
http_calls_in_flight [] 0
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestHTTPTrace(t *testing.T) {
	s := bin(t)
	n := newService(t, `{"url":"`+s.URL+`/echo"}`)
	trace, ok := observe.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b")
	if !ok {
		t.Fatal("the trace of the test is malformed")
	}
	payload := flowtest.Parse(t, `{"header":{"traceparent":"of-a-client","tracestate":"c=d"}}`)
	h := get(runClient(observe.WithTrace(t.Context(), trace), n, payload), "body", "header")
	if got := get(h, "Traceparent").String() + get(h, "Tracestate").String(); got != `["`+trace.String()+`"]["a=b"]` {
		t.Errorf("got %s", got)
	}
	h = get(runClient(observe.WithTrace(t.Context(), trace), n, value.Null()), "body", "header")
	if got := get(h, "Traceparent").At(0).String(); got != trace.String() {
		t.Errorf("got %s", got)
	}
	if h = get(runClient(t.Context(), n, value.Null()), "body", "header"); !get(h, "Traceparent").IsNull() {
		t.Errorf("got a trace that no one has begun: %s", h)
	}
}

// FuzzTarget continues URLs by paths and queries. The result stays on the host and
// below the path of the URL, and has both queries.
func FuzzTarget(f *testing.F) {
	f.Add("/api", "a=1", "/users/7", "q", "x y")
	f.Add("/a%2Fb/", "", "//evil.example/..", "a&b", "=")
	f.Add("", "a=%zz", "c?d#e", "ä", "\x00")
	f.Add("/%2e%2e", "", "\\..\\", "", "")
	f.Fuzz(func(t *testing.T, base, query, path, key, val string) {
		u, err := url.Parse("http://service.example" + "/" + strings.TrimLeft(base, "/"))
		if err != nil || u.Fragment != "" || u.RawQuery != "" || !utf8.ValidString(key+val) {
			return
		}
		u.RawQuery = url.QueryEscape(query)
		req := new(http.Request)
		c := call{path: value.String(path), query: value.Map(value.Field{Name: key, Value: value.String(val)})}
		if err := setTarget(req, u, c, "", ""); err != nil {
			return
		}
		got, err := url.Parse(req.URL.String())
		if err != nil {
			t.Fatalf("%s does not parse: %v", req.URL, err)
		}
		if got.Scheme != "http" || got.Host != "service.example" || got.User != nil {
			t.Errorf("got %s, which is elsewhere", got)
		}
		prefix := strings.TrimSuffix(u.EscapedPath(), "/")
		if path != "" && !strings.HasPrefix(got.EscapedPath(), prefix+"/") {
			t.Errorf("got path %s, want it below %s", got.EscapedPath(), prefix)
		}
		if rest := strings.TrimPrefix(got.Path, u.Path); strings.Contains("/"+rest+"/", "/../") && path != "" {
			t.Errorf("got path %q, which leaves %q", got.Path, u.Path)
		}
		if !strings.HasPrefix(got.RawQuery, u.RawQuery) || got.Query().Get(key) != val && query != key {
			t.Errorf("got query %q, want the query of %q and %q=%q", got.RawQuery, u.RawQuery, key, val)
		}
	})
}
