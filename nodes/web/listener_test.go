package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// hold is a flow that reports when it has a request, and answers when it is released.
type hold struct {
	entered chan context.Context
	release chan struct{}
}

func newHold() *hold {
	return &hold{entered: make(chan context.Context, 100), release: make(chan struct{})}
}

func (h *hold) flow(ctx context.Context, _ value.Value) node.Response {
	h.entered <- ctx
	select {
	case <-h.release:
		return reply(value.String("late"))
	case <-ctx.Done():
		return reply(value.Error(context.Cause(ctx)))
	}
}

// get starts a request in the background.
func (s *site) get() <-chan answered {
	done := make(chan answered, 1)
	go func() {
		resp, err := s.client.Get(s.url)
		if err != nil {
			done <- answered{body: err.Error()}
			return
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			data = []byte(err.Error())
		}
		done <- answered{resp.StatusCode, resp.Header, string(data)}
	}()
	return done
}

func TestTooManyProcesses(t *testing.T) {
	h := newHold()
	s := start(t, `"limits":{"processes":2}`, h.flow)
	first, second := s.get(), s.get()
	<-h.entered
	<-h.entered
	s.do("GET", "/", "").want(t, 503, "Service Unavailable", "Retry-After: 1")
	close(h.release)
	(<-first).want(t, 200, "late")
	(<-second).want(t, 200, "late")
	s.do("GET", "/", "").want(t, 200, "late")
}

func TestTooManyBytes(t *testing.T) {
	h := newHold()
	s := start(t, "", h.flow)
	s.node.generation.limits.heldBytes = 100 << 10 // no goroutine has read it yet
	done := make(chan answered, 1)
	go func() { done <- s.do("POST", "/", strings.Repeat("x", 50<<10), "Content-Type: text/plain") }()
	<-h.entered
	s.do("POST", "/", strings.Repeat("x", 50<<10), "Content-Type: text/plain").want(t, 503, "Service Unavailable", "Retry-After: 1")
	close(h.release)
	(<-done).want(t, 200, "late")
	s.do("POST", "/", strings.Repeat("x", 40<<10), "Content-Type: text/plain").want(t, 200, "late")
	if got := s.node.server.held.Held(); got != 0 {
		t.Errorf("bytes held at rest: got %d, want 0", got)
	}
}

func TestClientLeaves(t *testing.T) {
	h := newHold()
	s := start(t, "", h.flow)
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() {
		_, err := s.client.Do(req)
		left <- err
	}()
	process := <-h.entered
	cancel()
	if err := <-left; err == nil {
		t.Error("client: got an answer, want none")
	}
	<-process.Done()
	close(h.release)
	s.do("GET", "/", "").want(t, 200, "late")
}

func TestRequestTimeout(t *testing.T) {
	s := start(t, `"limits":{"request_timeout":"10ms"}`, newHold().flow)
	s.do("GET", "/", "").want(t, 503, "Service Unavailable")
}

// TestPanic closes the connection of a request whose answering panics, and logs it.
func TestPanic(t *testing.T) {
	s := start(t, "", func(context.Context, value.Value) node.Response { panic("out of tea") })
	if got, err := s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err == nil {
		t.Errorf("got answer %v, want none", got)
	}
	for _, want := range []string{"level=ERROR", "panic while answering a request", `error="out of tea"`, "TestPanic"} {
		if got := s.logs.String(); !strings.Contains(got, want) {
			t.Errorf("got log %s, want %s", got, want)
		}
	}
	if n := s.node.server.inFlight.Load(); n != 0 {
		t.Errorf("got %d requests in flight, want 0", n)
	}
}

func TestSlowHeader(t *testing.T) {
	s := start(t, `"limits":{"header_timeout":"50ms"}`, always(value.String("pong")))
	c := s.dial()
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ") // and no more
	if data, err := io.ReadAll(c); err != nil {
		t.Errorf("got %q and %v, want the end", data, err)
	}
	s.do("GET", "/", "").want(t, 200, "pong")
}

func TestSlowBody(t *testing.T) {
	s := start(t, `"limits":{"header_timeout":"50ms"}`, echoBody)
	c := s.dial()
	defer c.Close()
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf of it")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
		t.Errorf("got %s, close %v, want 408 and the end of the connection", resp.Status, resp.Close)
	}
	// A flow that takes longer than the header timeout is not the client's fault.
	h := newHold()
	slow := start(t, `"limits":{"header_timeout":"20ms"}`, h.flow)
	done := make(chan answered, 1)
	go func() { done <- slow.do("POST", "/", "x") }()
	ctx := <-h.entered
	select {
	case <-ctx.Done():
		t.Error("the process was cancelled")
	case <-time.After(60 * time.Millisecond):
	}
	close(h.release)
	(<-done).want(t, 200, "late")
}

func TestSlowTaker(t *testing.T) {
	w := newWorld(t)
	n := w.make("web", "{"+loopback+`,"limits":{"header_timeout":"50ms"}}`)
	n.settings.rate.Min = 1 << 40
	entered := make(chan struct{})
	w.serve(n, &source{flow: func(context.Context, value.Value) node.Response {
		close(entered)
		return reply(value.Binary(make([]byte, 64<<20)))
	}})
	c, err := net.Dial("tcp", n.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-entered
	w.end(n) // waits for the answer that the client does not take
}

func (s *site) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.node.addr())
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func TestHeaderLimit(t *testing.T) {
	s := start(t, `"limits":{"header_bytes":"2KiB"}`, always(value.String("pong")))
	if got := s.do("GET", "/", "", "X-Long: "+strings.Repeat("x", 10<<10)); got.status != 431 {
		t.Errorf("got %d, want 431", got.status)
	}
	s.do("GET", "/", "", "X-Long: "+strings.Repeat("x", 1<<10)).want(t, 200, "pong")
}

func TestAccessLog(t *testing.T) {
	s := start(t, `"access_log":true`, always(value.String("pong")))
	s.do("GET", "/ping?secret=1", "", "X-Request-Id: r-1", "User-Agent: kettle/2")
	s.client.CloseIdleConnections()
	if err := s.node.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := s.logs.String()
	for _, want := range []string{"msg=request", "method=GET", "path=/ping", "status=200", "bytes=4", "process=" + processID, "duration=", "request_id=r-1",
		"user_agent=kettle/2", "protocol=HTTP/1.1", "remote=127.0.0.1 ", `route=""`} {
		if !strings.Contains(got, want) {
			t.Errorf("log: got %s, want %s", got, want)
		}
	}
	if strings.Contains(got, "secret") {
		t.Errorf("log: got %s, want no query", got)
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := newWorld(t)
	n := w.make("web", fmt.Sprintf(`{"host":"127.0.0.1","port":%d}`, l.Addr().(*net.TCPAddr).Port))
	err = n.Open(context.Background())
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v, want the address and why", err)
	}
	if err := n.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// freePort returns the beginning of a config, with a port that is free.
func freePort(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf(`{"host":"127.0.0.1","port":%d`, freeport.Port(t))
}

func TestTwoListeners(t *testing.T) {
	w := newWorld(t)
	at := freePort(t)
	a, b := w.make("a", at+"}"), w.make("b", at+`,"limits":{"idle_timeout":"1s"}}`)
	if err := a.Open(context.Background()); err != nil {
		t.Fatal(err)
	}
	err := b.Open(context.Background())
	if err == nil || !strings.Contains(err.Error(), `node "a" listens on 127.0.0.1:`) || !strings.Contains(err.Error(), "test.yaml:1") {
		t.Errorf("got %v, want an error that names the other node", err)
	}
	for _, n := range []*listener{b, a} {
		if err := n.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	c := w.make("c", at+"}") // nothing is left of the two
	w.serve(c, &source{flow: always(value.Null())})
	w.end(c)
}

// load sends requests until stop is closed; wait returns how many were
// answered. Any failure fails the test.
func load(t testing.TB, url string, keepAlive bool, stop <-chan struct{}) (wait func() int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	total := 0
	for range 4 {
		wg.Go(func() {
			transport := &http.Transport{DisableKeepAlives: !keepAlive}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			n := 0
			for {
				select {
				case <-stop:
					mu.Lock()
					total += n
					mu.Unlock()
					return
				default:
				}
				resp, err := client.Get(url)
				if err != nil {
					t.Errorf("request: %v", err)
					return
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
					t.Errorf("request: got %s, %v", resp.Status, err)
				}
				resp.Body.Close()
				n++
			}
		})
	}
	return func() int { wg.Wait(); return total }
}

// TestReload replaces generations under load, on one port: with the same server and
// with a different one.
func TestReload(t *testing.T) {
	f := func(name string, keepAlive bool, config func(i int) string) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			at := freePort(t)
			probe := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			src := &source{flow: always(value.String("0"))}
			n := w.make("web", at+config(0)+"}")
			w.serve(n, src)
			stop := make(chan struct{})
			wait := load(t, "http://"+n.addr(), keepAlive, stop)
			for i := 1; i <= 20; i++ {
				next := w.make("web", at+config(i)+"}")
				nextSrc := &source{flow: always(value.String(fmt.Sprint(i)))}
				w.serve(next, nextSrc)
				if err := n.Stop(context.Background()); err != nil {
					t.Errorf("Stop: %v", err)
				}
				src.stopped.Store(true)
				if err := n.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				n, src = next, nextSrc
				resp, err := probe.Get("http://" + n.addr())
				if err != nil {
					t.Fatal(err)
				}
				if data, err := io.ReadAll(resp.Body); err != nil || string(data) != fmt.Sprint(i) {
					t.Fatalf("generation %d: got %q, %v", i, data, err)
				}
				resp.Body.Close()
			}
			close(stop)
			if wait() == 0 {
				t.Error("no load")
			}
			http.DefaultClient.CloseIdleConnections()
			w.end(n)
			if log := w.logs.String(); strings.Contains(log, "panic") || strings.Contains(log, "ERROR") {
				t.Errorf("log: got %.3000s", log)
			}
		})
	}
	f("same settings", true, func(int) string { return "" })
	f("other limits", true, func(i int) string { return fmt.Sprintf(`,"limits":{"processes":%d}`, 100+i) })
	f("other settings", false, func(i int) string { return fmt.Sprintf(`,"limits":{"idle_timeout":%d}`, 1000+i%2) })
}

// TestReloadKeepsConnections checks that two generations answer on one connection, and
// on one free port.
func TestReloadKeepsConnections(t *testing.T) {
	w := newWorld(t)
	const config = "{" + loopback + "}"
	first := w.make("web", config)
	src := &source{flow: always(value.String("one"))}
	w.serve(first, src)
	c, err := net.Dial("tcp", first.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	ask := func(want string) {
		t.Helper()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if data, err := io.ReadAll(resp.Body); err != nil || string(data) != want {
			t.Errorf("got %q, %v, want %q", data, err, want)
		}
	}
	ask("one")
	second := w.make("web", config)
	w.serve(second, &source{flow: always(value.String("two"))})
	if first.addr() != second.addr() {
		t.Errorf("port 0: got %s after %s, want the same", second.addr(), first.addr())
	}
	src.stopped.Store(true)
	w.end(first)
	ask("two")
	w.end(second)
	if got := strings.Count(w.logs.String(), "msg=listening"); got != 1 {
		t.Errorf("log: got %d times listening, want once", got)
	}
}

// TestFailedReload opens and serves a generation that is then closed without use.
func TestFailedReload(t *testing.T) {
	for _, settings := range []string{"", `,"limits":{"idle_timeout":"1s"}`} {
		w := newWorld(t)
		at := freePort(t)
		old := w.make("web", at+"}")
		w.serve(old, &source{flow: always(value.String("old"))})
		url := "http://" + old.addr()
		ask := func(want string) {
			t.Helper()
			resp, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if data, err := io.ReadAll(resp.Body); err != nil || string(data) != want {
				t.Errorf("got %q, %v, want %q", data, err, want)
			}
		}
		ask("old")
		opened := w.make("web", at+settings+"}")
		if err := opened.Open(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
		ask("old")
		served := w.make("web", at+settings+"}")
		w.serve(served, &source{flow: always(value.String("new"))})
		http.DefaultClient.CloseIdleConnections()
		ask("new")
		w.end(served)
		ask("old")
		http.DefaultClient.CloseIdleConnections()
		w.end(old)
	}
}

// TestStopAnswers stops under load: what was accepted is answered.
func TestStopAnswers(t *testing.T) {
	h := newHold()
	s := start(t, "", h.flow)
	var got []<-chan answered
	for range 20 {
		got = append(got, s.get())
	}
	for range 20 {
		<-h.entered
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.node.Stop(context.Background()) }()
	select {
	case err := <-stopped:
		t.Errorf("Stop returned before the answers: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(h.release)
	for _, a := range got {
		(<-a).want(t, 200, "late")
	}
	if err := <-stopped; err != nil {
		t.Errorf("Stop: %v", err)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://")); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}

// TestStopInTime stops waiting when the context is done. The answer that comes when
// the process is cancelled is still sent.
func TestStopInTime(t *testing.T) {
	w := newWorld(t)
	n := w.make("web", "{"+loopback+"}")
	release := make(chan struct{})
	entered := make(chan struct{})
	w.serve(n, &source{flow: func(context.Context, value.Value) node.Response {
		close(entered)
		<-release
		return reply(value.Error(errTest))
	}})
	done := make(chan int, 1)
	url := "http://" + n.addr()
	go func() {
		resp, err := http.Get(url)
		if err != nil {
			done <- 0
			return
		}
		resp.Body.Close()
		done <- resp.StatusCode
	}()
	<-entered
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := n.Stop(ctx); err == nil {
		t.Error("Stop: got no error, want the error of its context")
	}
	close(release)
	if err := n.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if got := <-done; got != 500 {
		t.Errorf("got status %d, want 500", got)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestTimeoutStatus checks that the timeline of a request that took too long has the
// status that its client got.
func TestTimeoutStatus(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if got := statusOf(ctx, reply(value.Error(context.DeadlineExceeded))); got != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503", got)
	}
}

// A screening is a source that admits no request, and is called for each.
type screening struct {
	*source
	asked func()
}

func (s screening) Screen(int) func(value.Value) bool {
	return func(value.Value) bool {
		s.asked()
		return false
	}
}

// TestUnwantedBodyAcrossReload skips the body of a request for a generation that then
// stops. The next generation gets the body.
func TestUnwantedBodyAcrossReload(t *testing.T) {
	w := newWorld(t)
	old, next := w.make("web", "{"+loopback+"}"), w.make("web", "{"+loopback+"}")
	src := &source{flow: echoBody}
	w.serve(old, screening{src, func() {
		w.serve(next, &source{flow: echoBody})
		src.stopped.Store(true)
	}})
	s := &site{world: w, t: t, node: old, client: &http.Client{Transport: &http.Transport{}}, url: "http://" + old.addr()}
	s.do("POST", "/", "hello", "Content-Type: text/plain").want(t, 200, "hello")
	s.client.CloseIdleConnections()
	w.end(old)
	w.end(next)
}

// TestStoppedForGood answers a request when no generation is left.
func TestStoppedForGood(t *testing.T) {
	s := start(t, "", always(value.Null()))
	s.source.stopped.Store(true)
	s.do("GET", "/", "").want(t, 503, "Service Unavailable", "Retry-After: 1")
}

// TestTLS serves HTTP/2 and HTTP/1.1 with a certificate from text and from files,
// and keeps TLS, with the new certificate, through a reload.
func TestTLS(t *testing.T) {
	w := newWorld(t)
	cert, key := flowtest.Certificate(t, 1)
	n := w.make("web", fmt.Sprintf(`{%s,"tls":{"cert":%q,"key":%q}}`, loopback, cert, key))
	scheme := func(_ context.Context, payload value.Value) node.Response {
		s, _ := payload.Get("scheme")
		p, _ := payload.Get("protocol")
		return reply(value.String(s.String() + " " + p.String()))
	}
	w.serve(n, &source{flow: scheme})
	ask := func(serial int64, http2 bool, want string) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get("https://" + n.addr())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if data, err := io.ReadAll(resp.Body); err != nil || string(data) != want {
			t.Errorf("got %q, %v, want %q", data, err, want)
		}
		if got := resp.TLS.PeerCertificates[0].SerialNumber.Int64(); got != serial {
			t.Errorf("certificate: got %d, want %d", got, serial)
		}
	}
	ask(1, true, "https HTTP/2.0")
	ask(1, false, "https HTTP/1.1")

	cert, key = flowtest.Certificate(t, 2)
	certFile, keyFile := filepath.Join(t.TempDir(), "c.pem"), filepath.Join(t.TempDir(), "k.pem")
	for file, text := range map[string]string{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := w.make("web", fmt.Sprintf(`{%s,"tls":{"cert":%q,"key":%q}}`, loopback, certFile, keyFile))
	w.serve(next, &source{flow: scheme})
	w.end(n)
	n = next
	ask(2, true, "https HTTP/2.0")
	w.end(n)

	bad := w.make("bad", fmt.Sprintf(`{%s,"tls":{"cert":"/nowhere.pem","key":%q}}`, loopback, key))
	if err := bad.Open(context.Background()); err == nil || !strings.Contains(err.Error(), "tls.cert") {
		t.Errorf("got %v, want an error about tls.cert", err)
	}
	if strings.Contains(w.logs.String(), "PRIVATE") {
		t.Error("log: the key is in it")
	}
}

func TestH2C(t *testing.T) {
	s := start(t, "", echoBody)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	s.client.Transport = transport
	s.do("POST", "/", "hello", "Content-Type: text/plain").want(t, 200, "hello")
	s.do("POST", "/", strings.Repeat("x", 1<<20), "Content-Type: text/plain").want(t, 200, strings.Repeat("x", 1<<20))
}

// TestHostileBytes sends malformed requests.
func TestHostileBytes(t *testing.T) {
	s := start(t, "", echoBody)
	f := func(request string, status int) {
		t.Helper()
		got, err := s.raw(request)
		if err != nil || got.status != status {
			t.Errorf("%.60q: got %d, %v, want %d", request, got.status, err, status)
		}
	}
	f("\x00\x01\x02\r\n\r\n", 400)
	f("GET\r\n\r\n", 400)
	f("GET / HTTP/9.9\r\nHost: x\r\n\r\n", 505)
	f("GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400)
	f("GET / HTTP/1.1\r\n\r\n", 400)
	f("GET / HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", 400)
	f("GET / HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", 400)
	f("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400)
	f("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400)
	f("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400)
	f("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501)
	f("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nshort", 400)
	f("GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n", 400)
	f("GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n", 400)
	f("GET /?a=%ff HTTP/1.1\r\nHost: x\r\n\r\n", 400)
	f("GET /?\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400)
	f("GET /?a=%zz HTTP/1.1\r\nHost: x\r\n\r\n", 200)
	f("GET http:///path HTTP/1.1\r\nHost: x\r\n\r\n", 400)
	f("GET / HTTP/1.1\r\nHost: x\r\nX: \xff\r\n\r\n", 200)
	f("GET /users/:x?:=* HTTP/1.0\r\n\r\n", 200)
	f("GET http://other/static/* HTTP/1.1\r\nHost: x\r\n\r\n", 200)
	f("!#$ * HTTP/1.1\r\nHost: x\r\n\r\n", 200)
	f("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 200)
	s.do("GET", "/", "").want(t, 200, "null")
}

func FuzzListenerInput(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /?a=%zz HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n[null]",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"a\":[{}]}\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n\x1f\x8b\x08\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 7\r\n\r\n--b\r\n\r\n",
		"GET /users/:x HTTP/1.1\r\nHost: x\r\nAccept: text/*;q=0.1, */*;q=x\r\nAccept-Encoding: br;q=1.0, *\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"\x16\x03\x01\x00\x05hello",
	} {
		f.Add([]byte(seed))
	}
	s := start(f, `"limits":{"body_bytes":"64KiB","header_timeout":"1s"}`, func(_ context.Context, payload value.Value) node.Response {
		if _, err := payload.AppendJSON(nil); err != nil { // reads all of it
			return reply(value.Error(err))
		}
		return echoBody(context.Background(), payload)
	})
	f.Fuzz(func(t *testing.T, input []byte) {
		s := s.in(t)
		got, err := s.raw(string(input))
		if err == nil && (got.status < 100 || got.status > 599) {
			t.Errorf("got status %d", got.status)
		}
		s.do("GET", "/", "").want(t, 200, "null")
		if log := s.logs.String(); strings.Contains(log, "panic") {
			t.Errorf("log: got %s", log)
		}
	})
}
