// Package serve holds the kinds that answer a request with what is elsewhere: static with
// files, page with HTML made of a payload, proxy with the answer of another server.
// static and proxy take the exchange over, see node/handover: the process finds the file,
// or waits for the other server, so that a failure is one of the node; what is sent to the
// client is sent when the process has ended.
//
// Read static.go first: static_path.go finds the file of a path, static_answer.go makes an
// answer of it, with static_type.go and static_coding.go, and static_send.go sends that. Then
// read page.go, and proxy.go: proxy_path.go says which paths go on, proxy_transit.go follows
// one request, proxy_upstream.go has the servers.
//
// The package must not know listeners.
package serve

import (
	"fmt"
	"net/http"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(o stream.Options) []*node.Def {
	return []*node.Def{staticDef(), pageDef(o), proxyDef(o)}
}

// refusal returns an error whose message is for the client: it says nothing that the
// request does not.
func refusal(status int, format string, args ...any) *node.Error {
	if format == "" {
		format = http.StatusText(status)
	}
	return &node.Error{Err: fmt.Errorf(format, args...), Status: status, Public: true}
}
