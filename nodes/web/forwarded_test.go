package web

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func proxiesOf(t testing.TB, list ...string) proxyList {
	t.Helper()
	var l proxyList
	for _, s := range list {
		p, err := parseProxy(s)
		if err != nil {
			t.Fatal(err)
		}
		l = append(l, p)
	}
	return l
}

func TestForwarded(t *testing.T) {
	l := proxiesOf(t, "10.0.0.0/8", "192.0.2.7", "2001:db8::/32")
	f := func(name, peer, want string, headers ...string) {
		t.Helper()
		h := make(http.Header)
		for _, line := range headers {
			name, v, _ := strings.Cut(line, ": ")
			h.Add(name, v)
		}
		o := l.forwarded(origin{remote: peer, scheme: "http", host: "a.example"}, h)
		if got := o.remote + " " + o.scheme + " " + o.host; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	f("not a proxy", "203.0.113.1", "203.0.113.1 http a.example", "X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example")
	f("a proxy", "10.1.2.3", "198.51.100.1 https shop.example", "X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.example")
	f("forged before it", "10.1.2.3", "198.51.100.1 http a.example", "X-Forwarded-For: 127.0.0.1, 10.0.0.1, 198.51.100.1, 10.9.9.9")
	f("forged on lines of its own", "10.1.2.3", "198.51.100.1 http a.example", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-For: 198.51.100.1")
	f("all are proxies", "10.1.2.3", "10.0.0.1 http a.example", "X-Forwarded-For: 10.0.0.1, 10.0.0.2")
	f("not an address", "10.1.2.3", "10.0.0.2 http a.example", "X-Forwarded-For: 198.51.100.1, unknown, 10.0.0.2")
	f("nothing in it", "10.1.2.3", "10.1.2.3 http a.example", "X-Forwarded-For: ")
	f("with a port", "192.0.2.7", "198.51.100.1 http a.example", "X-Forwarded-For: 198.51.100.1:4711")
	f("IPv6", "2001:db8::1", "2001:4860::1 http a.example", "X-Forwarded-For: [2001:4860::1]:80")
	f("IPv4 in IPv6", "::ffff:10.0.0.1", "198.51.100.1 http a.example", "X-Forwarded-For: ::ffff:198.51.100.1")
	f("another scheme", "10.1.2.3", "10.1.2.3 http a.example", "X-Forwarded-Proto: javascript")
	f("that of the last proxy", "10.1.2.3", "10.1.2.3 https a.example", "X-Forwarded-Proto: http, HTTPS")
	f("not a host", "10.1.2.3", "10.1.2.3 http a.example", "X-Forwarded-Host: a b/c")
	f("long host", "10.1.2.3", "10.1.2.3 http a.example", "X-Forwarded-Host: "+strings.Repeat("a", 300))
	f("Forwarded", "10.1.2.3", "198.51.100.1 https shop.example", `Forwarded: for=10.0.0.9;proto=http, For="198.51.100.1:80";Proto=https;host="shop.example", for=10.0.0.1;proto=http`)
	f("Forwarded with IPv6", "10.1.2.3", "2001:4860::1 http a.example", `Forwarded: for="[2001:4860::1]:4711";by=10.0.0.1`)
	f("Forwarded, hidden", "10.1.2.3", "10.1.2.3 http a.example", `Forwarded: for=_hidden;proto=https`)
	f("Forwarded, malformed", "10.1.2.3", "10.1.2.3 http a.example", `Forwarded: for="198.51.100.1`, "X-Forwarded-For: 198.51.100.1")
	f("Forwarded next to headers of another kind", "10.1.2.3", "198.51.100.1 http a.example", `Forwarded: for=198.51.100.1`, "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example")
	f("both", "10.1.2.3", "198.51.100.1 https a.example", "Forwarded: for=198.51.100.1", "X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https")
	f("both, one forged", "10.1.2.3", "10.1.2.3 http a.example", "Forwarded: for=127.0.0.1", "X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https")
	f("too many", "10.1.2.3", "10.0.0.1 http a.example", "X-Forwarded-For: 198.51.100.1"+strings.Repeat(",10.0.0.1", maxHops))
	f("too many of the other", "10.1.2.3", "10.1.2.3 http a.example", "Forwarded: for=198.51.100.1"+strings.Repeat(",for=10.0.0.1", maxHops))
}

func TestTrustedProxies(t *testing.T) {
	show := func(_ context.Context, payload value.Value) node.Response {
		var list []value.Value
		for _, name := range []string{"remote", "scheme", "host"} {
			v, _ := payload.Get(name)
			list = append(list, v)
		}
		return reply(value.List(list...))
	}
	forged := []string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.example"}
	s := start(t, `"trusted_proxies":["127.0.0.0/8"],"access_log":true`, show)
	s.do("GET", "/", "", forged...).want(t, 200, `["198.51.100.1","https","shop.example"]`)
	s.client.CloseIdleConnections()
	if err := s.node.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.logs.String(); !strings.Contains(got, "remote=198.51.100.1 ") || !strings.Contains(got, "host=shop.example") {
		t.Errorf("log: got %s, want the client", got)
	}
	other := start(t, `"trusted_proxies":["192.0.2.0/24"]`, show)
	other.do("GET", "/", "", forged...).want(t, 200, `["127.0.0.1","http","`+strings.TrimPrefix(other.url, "http://")+`"]`)
}

// TestHostHeader refuses requests that name their host in two ways, or in none.
func TestHostHeader(t *testing.T) {
	s := start(t, "", showField("host"))
	f := func(head string, status int, body string) {
		t.Helper()
		got, err := s.raw(head + "Connection: close\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		if got.status != status || body != "" && got.body != body {
			t.Errorf("%q: got %d %s, want %d %s", head, got.status, got.body, status, body)
		}
	}
	f("GET / HTTP/1.1\r\nHost: shop.example\r\n", 200, `["shop.example"]`)
	f("GET / HTTP/1.1\r\nHost: shop.example\r\nX-Forwarded-Host: evil.example\r\n", 200, `["shop.example"]`)
	f("GET / HTTP/1.1\r\n", 400, "")
	f("GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n", 400, "")
	f("GET / HTTP/1.1\r\nHost: a.example/x@b\r\n", 400, "")
	f("GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n", 200, `["b.example"]`)
}

func FuzzForwarded(f *testing.F) {
	f.Add("127.0.0.1, 10.0.0.1", `for="[::1]:4711";proto=https;host=a, for=_b`)
	f.Add(",,,", `for="\"";by=x;;`)
	f.Add("[::1", `=,=`)
	l := proxiesOf(f, "10.0.0.0/8", "::1")
	f.Fuzz(func(t *testing.T, fors, standard string) {
		o := l.forwarded(origin{remote: "10.0.0.1", scheme: "http", host: "a"}, http.Header{"X-Forwarded-For": {fors}, "Forwarded": {standard}})
		if _, err := netip.ParseAddr(o.remote); err != nil {
			t.Errorf("remote: %v", err)
		}
		if o.scheme != "http" && o.scheme != "https" || o.host == "" {
			t.Errorf("got %q", o)
		}
	})
}
