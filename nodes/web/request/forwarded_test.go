package request

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func proxiesOf(t testing.TB, list ...string) Proxies {
	t.Helper()
	var l Proxies
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
		o := l.forwarded(Origin{Remote: peer, Scheme: "http", Host: "a.example"}, h)
		if got := o.Remote + " " + o.Scheme + " " + o.Host; got != want {
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
	f("scheme of the last proxy", "10.1.2.3", "10.1.2.3 https a.example", "X-Forwarded-Proto: http, HTTPS")
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

func FuzzForwarded(f *testing.F) {
	f.Add("127.0.0.1, 10.0.0.1", `for="[::1]:4711";proto=https;host=a, for=_b`)
	f.Add(",,,", `for="\"";by=x;;`)
	f.Add("[::1", `=,=`)
	l := proxiesOf(f, "10.0.0.0/8", "::1")
	f.Fuzz(func(t *testing.T, fors, standard string) {
		o := l.forwarded(Origin{Remote: "10.0.0.1", Scheme: "http", Host: "a"}, http.Header{"X-Forwarded-For": {fors}, "Forwarded": {standard}})
		if _, err := netip.ParseAddr(o.Remote); err != nil {
			t.Errorf("remote: %v", err)
		}
		if o.Scheme != "http" && o.Scheme != "https" || o.Host == "" {
			t.Errorf("got %q", o)
		}
	})
}
