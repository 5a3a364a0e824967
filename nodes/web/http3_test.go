package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// startHTTP3 is start with HTTP/3, which its client speaks.
func startHTTP3(t testing.TB, config string, f flow) *site {
	t.Helper()
	return viaHTTP3(t, start(t, http3Config(t)+config, f))
}

func http3Config(t testing.TB) string {
	cert, key := flowtest.Certificate(t, 1)
	return fmt.Sprintf(`"http3":true,"tls":{"cert":%q,"key":%q}`, cert, key)
}

// viaHTTP3 lets the client of a site speak HTTP/3.
func viaHTTP3(t testing.TB, s *site) *site {
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true}
	t.Cleanup(func() {
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
	})
	s.client, s.url = &http.Client{Transport: transport, CheckRedirect: noRedirect}, "https://"+s.node.addr()
	return s
}

func TestHTTP3(t *testing.T) {
	s := startHTTP3(t, `,"secure":true,"limits":{"body_bytes":"1MiB"}`, func(ctx context.Context, payload value.Value) node.Response {
		path, _ := payload.Get("path")
		switch p, _ := path.AsString(); p {
		case "/body":
			return echoBody(ctx, payload)
		case "/fail":
			return reply(value.Error(errTest))
		}
		return showField("protocol")(ctx, payload)
	})
	s.do("GET", "/", "", "X-Request-Id: r").want(t, 200, `["HTTP/3.0"]`, "X-Request-Id: r", "Alt-Svc: ", "X-Content-Type-Options: nosniff", "Strict-Transport-Security: max-age=63072000")
	long := strings.Repeat("tea ", 200<<10/4)
	s.do("POST", "/body", long, "Content-Type: text/plain").want(t, 200, long)
	s.do("POST", "/body", strings.Repeat("x", 2<<20)).want(t, 413, "body of more than 1048576 bytes")
	s.do("GET", "/fail", "").want(t, 500, "Internal Server Error")
	s.do("HEAD", "/", "").want(t, 200, "", "Content-Length: 12")

	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	s.client = &http.Client{Transport: transport}
	_, port, _ := net.SplitHostPort(s.node.addr())
	s.do("GET", "/", "").want(t, 200, `["HTTP/1.1"]`, `Alt-Svc: h3=":`+port+`"; ma=86400`)
}

// TestHTTP3Parts sends parts when they are there.
func TestHTTP3Parts(t *testing.T) {
	s := viaHTTP3(t, startParts(t, http3Config(t), emit(reply(value.String("end")), value.String("a"), value.String("b"))))
	s.do("GET", "/", "", "Accept: text/event-stream").want(t, 200, "retry: 1000\n\ndata: a\n\ndata: b\n\nevent: end\ndata: end\n\n")
}

// TestHTTP3Reload keeps the connections through a reload, also one with other settings.
func TestHTTP3Reload(t *testing.T) {
	config := http3Config(t)
	s := viaHTTP3(t, start(t, config, always(value.String("first"))))
	s.do("GET", "/", "").want(t, 200, "first")
	same := s.make("web", `{`+loopback+`,`+config+`}`)
	s.serve(same, &source{flow: always(value.String("second"))})
	s.do("GET", "/", "").want(t, 200, "second")
	other := s.make("web", `{`+loopback+`,`+config+`,"limits":{"idle_timeout":"7s"}}`)
	s.serve(other, &source{flow: always(value.String("third"))})
	if other.addr() != s.node.addr() {
		t.Errorf("got address %s, want %s", other.addr(), s.node.addr())
	}
	fresh := *s
	viaHTTP3(t, &fresh).do("GET", "/", "").want(t, 200, "third")
	s.do("GET", "/", "").want(t, 200, "second")
	s.end(same)
	s.end(other)
}

// TestHTTP3Stop waits for requests, and not for clients that only stay connected.
func TestHTTP3Stop(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := startHTTP3(t, "", func(_ context.Context, payload value.Value) node.Response {
		if path, _ := payload.Get("path"); path.Equal(value.String("/slow")) {
			close(entered)
			<-release
		}
		return reply(value.String("tea"))
	})
	s.do("GET", "/", "").want(t, 200, "tea")
	answers := make(chan answered, 1)
	stopped := make(chan error, 1)
	go func() { answers <- s.do("GET", "/slow", "") }()
	<-entered
	go func() { stopped <- s.node.Stop(context.Background()) }()
	s.node.server.lifecycle.Lock()
	for len(s.node.server.lifecycle.stopping) == 0 {
		s.node.server.lifecycle.Unlock()
		pause(t)
		s.node.server.lifecycle.Lock()
	}
	s.node.server.lifecycle.Unlock()
	close(release)
	got := <-answers
	got.want(t, 200, "tea")
	began := time.Now()
	if err := <-stopped; err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("Stop: got %v after %s", err, time.Since(began))
	}
}

// TestHTTP3SlowClient closes the connection of a client that does not take its answer.
func TestHTTP3SlowClient(t *testing.T) {
	w := newWorld(t)
	n := w.make("web", "{"+loopback+","+http3Config(t)+`,"limits":{"header_timeout":"300ms"}}`)
	n.settings.rate.Min = 1 << 20
	w.serve(n, &source{flow: always(value.String(strings.Repeat("x", 8<<20)))})
	t.Cleanup(func() { w.end(n) })
	s := viaHTTP3(t, &site{world: w, t: t, node: n})
	resp, err := s.client.Get(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for s.metric("http_connections_closed_total") == 0 {
		pause(t)
	}
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("got %d bytes and the end, want the connection closed", n)
	}
	for s.node.server.pendingWrites() != 0 {
		pause(t)
	}
}

func TestHTTP3PortInUse(t *testing.T) {
	port := freeport.Port(t)
	u, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	w := newWorld(t)
	n := w.make("web", fmt.Sprintf(`{"host":"127.0.0.1","port":%d,%s}`, port, http3Config(t)))
	if err := n.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "HTTP/3") {
		t.Errorf("got %v, want an error about HTTP/3", err)
	}
}
