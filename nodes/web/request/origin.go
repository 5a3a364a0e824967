package request

import (
	"net/http"
	"strings"
)

// An Origin is where a request came from, and what its client has asked for.
type Origin struct {
	Remote string // the address of the client, without a port
	Scheme string
	Host   string // as the client wrote it, with the port if there is one
}

// Set sets where a request came from. Headers of the proxies are believed. It sets fields, since
// every request would pay some 30 ns for a copy of the whole.
func (o *Origin) Set(r *http.Request, proxies Proxies) {
	o.Remote, o.Scheme, o.Host = withoutPort(r.RemoteAddr), "http", r.Host
	if r.TLS != nil {
		o.Scheme = "https"
	}
	if len(proxies) > 0 {
		*o = proxies.forwarded(*o, r.Header)
	}
}

// withoutPort returns the address of host:port or [host]:port, as a part of it.
func withoutPort(address string) string {
	if i := strings.LastIndexByte(address, ':'); i >= 0 {
		address = address[:i]
	}
	return strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
}
