// Package web holds the node kinds that speak HTTP: listener, router and http.
//
// Read listener.go first: a listener is a node of one generation, and serves through
// a [server] that outlives it. Then follow a request: exchange.go (the order of
// events), receive.go and body.go (its body becomes a value), request.go (the payload
// and its views), answer.go and envelope.go (a response becomes an answer), media.go
// and coding.go (media types, Accept and Content-Encoding). routes.go finds the route
// of a path, and router.go is the node around it. server.go, socket.go and drain.go
// start, reload and stop. conn.go and pending.go limit what slow clients cost. edge.go has
// what a listener adds to all requests and answers: who the client is (origin.go,
// forwarded.go), headers (fixed.go, cors.go, request_id.go). problem.go answers with
// errors, handed.go lets a node answer. certs.go and acme.go have the certificates,
// http3.go and quic.go what HTTP/3 is served with.
//
// client.go is the node that calls services: client_request.go makes a request of a
// payload, client_answer.go a payload of its answer, client_error.go an error of a
// failure. client_transport.go has the connections, and which addresses they may go to.
//
// Invariants: a request that was accepted is answered, whatever it contains and
// whatever is reloaded or stopped meanwhile. Headers and queries are built only when
// they are read. A payload keeps nothing of the connection alive.
//
// The package must not know how processes are run, and uses the engine only through
// package node.
package web

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(o stream.Options) []*node.Def {
	events := sseSource().Def(o)
	events.Lint = stream.LintTLS
	return []*node.Def{listenerDef(), routerDef(), clientDef(), websocketDef(o), websocketClientDef(o), events}
}
