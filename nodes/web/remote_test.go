package web

import (
	"context"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

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
