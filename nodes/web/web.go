// Package web has the kind listener, and lists the kinds that serve HTTP, of the packages below it.
//
// Read listener.go first: a listener is a node of one generation, and serves through
// a [server] that outlives it. Then follow a request: exchange.go (the order of
// events), receive.go (what has come, with the packages request and body), send.go (how it is
// answered, with the packages answer and parts). Package counts counts it, log.go logs it, and
// describe.go describes it to observers. The packages socket, certs and pace have the
// addresses, the certificates and the limits for slow clients; router and websocket have the
// other kinds.
//
// Invariants: a request that was accepted is answered, whatever it contains and
// whatever is reloaded or stopped meanwhile. Headers and queries are built only when
// they are read.
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

// Defs returns the kinds that serve HTTP.
func Defs(o stream.Options) []*node.Def {
	return append(websocket.Defs(o), listenerDef(o), router.Def())
}
