package serve

import (
	"net/http"
	"slices"
	"strings"
)

// removeForged removes the headers that a target would take for headers of the proxy, or for
// settings. CGI, and what follows its conventions, reads a header with underscores as the one
// with hyphens: X_User stands for X-User there, which the proxy may set.
func removeForged(h http.Header, changes []headerChange) {
	for name := range h {
		hyphens := name
		if strings.Contains(name, "_") {
			hyphens = http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
		}
		switch {
		case strings.HasPrefix(hyphens, "X-Forwarded-"), slices.Contains(ofProxies, hyphens),
			hyphens != name && (slices.Contains(ofConnections, hyphens) || slices.ContainsFunc(changes, func(c headerChange) bool { return c.name == hyphens })):
			delete(h, name)
		}
	}
}

var (
	// ofProxies are the headers that say who the client is. HTTP_PROXY is what CGI makes of
	// Proxy, and what programs read their own proxy from.
	ofProxies = []string{"Forwarded", "Proxy", "X-Real-Ip"}

	// ofConnections are headers that httputil, net/http or the proxy set or remove.
	ofConnections = []string{"Authorization", "Connection", "Content-Length", "Content-Type", "Cookie", "Host", "Tracestate", "Traceparent", "Transfer-Encoding", "Upgrade", "X-Request-Id"}
)
