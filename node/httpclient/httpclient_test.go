package httpclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/test/httpbin"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(t *testing.T, s httpclient.Settings) *httpclient.Transport {
	t.Helper()
	transport, err := s.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := transport.Close(); err != nil {
			t.Error(err)
		}
	})
	return transport
}

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// silent is an address that accepts connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// TestFailures has a service that fails in each way. No text has the query of the URL.
func TestFailures(t *testing.T) {
	s := httptest.NewServer(httpbin.Handler())
	t.Cleanup(s.Close)
	secure := httptest.NewTLSServer(httpbin.Handler())
	secure.Config.ErrorLog = nil
	t.Cleanup(secure.Close)
	const cut = "the connection was closed before the answer was complete"
	for _, row := range []struct {
		url      string
		settings httpclient.Settings
		code     string
		status   int
		away     bool
		text     string
	}{
		{url: "http://127.0.0.1:1/", code: "connect", status: 502, away: true, text: "dial tcp 127.0.0.1:1: "},
		{url: "http://example.com/", settings: httpclient.Settings{Proxy: "http://127.0.0.1:1"}, code: "connect", status: 502, away: true, text: "dial tcp 127.0.0.1:1: "},
		{url: s.URL, settings: httpclient.Settings{Public: true}, code: "egress", status: 502, text: "egress: public does not allow connections to 127.0.0.1:"},
		{url: secure.URL, code: "tls", status: 502, text: "certificate"},
		{url: strings.Replace(s.URL, "http:", "https:", 1), code: "tls", status: 502, text: "HTTP response to HTTPS client"},
		{url: "https://" + silent(t), settings: httpclient.Settings{ConnectTimeout: 50 * time.Millisecond}, code: "timeout", status: 504, text: "no TLS handshake within 50ms"},
		{url: s.URL + "/slow-header", settings: httpclient.Settings{HeaderTimeout: 20 * time.Millisecond}, code: "timeout", status: 504, text: "no header of an answer within 20ms"},
		{url: s.URL + "/no-answer", code: "answer", status: 502, text: cut},
		{url: s.URL + "/early-close", code: "answer", status: 502, text: cut},
		{url: s.URL + "/garbage", code: "answer", status: 502, text: "malformed HTTP status code"},
		{url: s.URL + "/loop", code: "redirect", status: 502, text: "more than 10 redirects"},
		{url: s.URL + "/to?url=" + url.QueryEscape("http://%zz/?hunter2"), code: "redirect", status: 502, text: "a redirect to a malformed URL"},
		{url: s.URL + "/huge", code: "too_large", status: 502, text: "the answer is too large: it has more than 1024 bytes"},
	} {
		if !strings.Contains(row.url, "?") {
			row.url += "?key=hunter2"
		}
		req := get(t, row.url)
		_, _, err := httpclient.Fetch(open(t, row.settings).Client(httpclient.AllRedirects), req, 1<<10)
		var f *httpclient.Failure
		if !errors.As(err, &f) || f.Code != row.code || f.Status() != row.status || f.Away != row.away || !strings.Contains(f.Error(), row.text) || strings.Contains(f.Error(), "hunter2") {
			t.Errorf("%s: got %+v, want %s %d %t %s", row.url, f, row.code, row.status, row.away, row.text)
		}
	}
}

// TestEnded has a request whose context has ended: the reason stays in the chain.
func TestEnded(t *testing.T) {
	c := open(t, httpclient.Settings{}).Client(httpclient.NoRedirects)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err := httpclient.Fetch(c, get(t, "http://"+silent(t)).WithContext(ctx), 1<<10)
	if f := httpclient.Explain(err); f.Code != httpclient.CodeTimeout || f.Away || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v, want a timeout", f)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, _, err = httpclient.Fetch(c, get(t, "http://"+silent(t)).WithContext(ctx), 1<<10); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

// TestRedirects shows which are followed, and that no credentials go to another port.
func TestRedirects(t *testing.T) {
	s, other := httptest.NewServer(httpbin.Handler()), httptest.NewServer(httpbin.Handler())
	t.Cleanup(s.Close)
	t.Cleanup(other.Close)
	for policy, want := range map[string][2]int{httpclient.AllRedirects: {200, 200}, httpclient.SameHost: {200, 302}, httpclient.NoRedirects: {302, 302}} {
		c := open(t, httpclient.Settings{}).Client(policy)
		for i, to := range []string{"/echo", other.URL + "/echo"} {
			req := get(t, s.URL+"/to?status=302&url="+url.QueryEscape(to))
			req.Header.Set("X-Api-Key", "hunter2")
			resp, body, err := httpclient.Fetch(c, req, 1<<20)
			if err != nil || resp.StatusCode != want[i] {
				t.Fatalf("%s, %s: got %v, %v, want %d", policy, to, resp, err, want[i])
			}
			if strings.Contains(string(body), "hunter2") != (i == 0 && want[i] == 200) {
				t.Errorf("%s, %s: got %s", policy, to, body)
			}
		}
	}
}

func TestLimited(t *testing.T) {
	for most, fits := range map[int64]bool{0: false, 4: false, 5: true, 6: true} {
		data, err := io.ReadAll(&httpclient.Limited{R: strings.NewReader("hello"), Left: most})
		if fits && (err != nil || string(data) != "hello") || !fits && !errors.Is(err, httpclient.ErrTooLarge) {
			t.Errorf("%d bytes: got %q, %v", most, data, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "NaN": 0, "soon": 0,
		now.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		if got := httpclient.RetryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	if got := httpclient.RetryAfter(http.Header{"Retry-After": {"1e300"}}, now); got < 24*time.Hour {
		t.Errorf("got %v, want a very long time", got)
	}
	if got := httpclient.RetryAfter(http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"20"}}, now); got != 20*time.Millisecond {
		t.Errorf("with milliseconds: got %v, want 20ms", got)
	}
}

// TestAcquire shows that the same settings share their connections, and that keys of the pool
// show no secret.
func TestAcquire(t *testing.T) {
	c, found := schema.Fields(field.NewTLS("Doc.")).Decode(schema.RawOf(value.Map()))
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	var pool node.Pool
	acquire := func(s httpclient.Settings) *httpclient.Transport {
		t.Helper()
		transport, release, err := s.Acquire(&pool, "key", c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := release(); err != nil {
				t.Error(err)
			}
		})
		return transport
	}
	one := acquire(httpclient.Settings{Proxy: "http://a", ProxyUser: "ann", ProxyPassword: "hunter2"})
	if acquire(httpclient.Settings{Proxy: "http://a", ProxyUser: "ann", ProxyPassword: "hunter2"}) != one {
		t.Error("the same settings have connections of their own")
	}
	if acquire(httpclient.Settings{Proxy: "http://a", ProxyUser: "ann", ProxyPassword: "hunter3"}) == one {
		t.Error("another password shares the connections")
	}
	if _, _, err := (httpclient.Settings{TLS: field.TLS{CA: "/no/such/file"}}).Acquire(&pool, "key", c); err == nil || !strings.HasPrefix(err.Error(), "tls.ca: ") {
		t.Errorf("got %v, want an error at tls.ca", err)
	}
}
