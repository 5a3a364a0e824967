// Package web holds the node kinds that serve HTTP: listener, router and websocket, and
// websocket_client, the other side of that.
//
// Read listener.go first: a listener is a node of one generation, and serves through
// a [server] that outlives it. Then follow a request: exchange.go (the order of
// events), receive.go (its body becomes a value, by package content), request.go (the payload
// and its views), answer.go (a response becomes an answer, as package
// envelope reads it), media.go and coding.go (media types, Accept and Content-Encoding). parts.go sends an answer in parts, in one of the
// forms of parts_encode.go. routes.go is the table of routes: routes_path.go reads their
// paths, and routes_search.go finds that of a request; router.go is the node around it.
// server.go, socket.go and drain.go
// start, reload and stop. conn.go and pending.go limit what slow clients cost. edge.go has
// what a listener adds to all requests and answers: who the client is (origin.go,
// forwarded.go), headers (fixed.go, cors.go, request_id.go). problem.go answers with
// errors, handed.go lets a node answer. certs.go and acme.go have the certificates,
// http3.go and quic.go what HTTP/3 is served with.
//
// websocket.go is the node of WebSockets: websocket_take.go takes a request over,
// websocket_upgrade.go makes a connection of it, and websocket_hub.go has them all.
// websocket_conn.go reads messages, websocket_run.go runs their processes,
// websocket_send.go sends, websocket_end.go ends. websocket_client.go is the other side,
// whose reader is websocket_reader.go, with the connections of package httpclient.
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
	"github.com/uniflow-labs/uniflow/nodes/web/router"
	"github.com/uniflow-labs/uniflow/nodes/web/websocket"
)

// Defs returns the kinds of this package.
func Defs(o stream.Options) []*node.Def {
	return append(websocket.Defs(o), listenerDef(), router.Def())
}
