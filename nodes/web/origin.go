package web

import (
	"net/http"
	"strings"
)

// An origin is where a request came from, and what its client has asked for.
type origin struct {
	remote string // the address of the client, without a port
	scheme string
	host   string // as the client wrote it, with the port if there is one
}

// origin sets where a request came from. It sets fields, since every request would pay some
// 30 ns for a copy of the whole.
func (g *generation) origin(o *origin, r *http.Request) {
	o.remote, o.scheme, o.host = withoutPort(r.RemoteAddr), "http", r.Host
	if r.TLS != nil {
		o.scheme = "https"
	}
	if len(g.edge.proxies) > 0 {
		*o = g.edge.proxies.forwarded(*o, r.Header)
	}
}

// withoutPort returns the address of host:port or [host]:port, as a part of it.
func withoutPort(address string) string {
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		address = address[:i]
	}
	return strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
}
