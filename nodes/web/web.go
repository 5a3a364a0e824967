// Package web holds the node kinds that speak HTTP: listener and router.
//
// Read listener.go first: a node per generation, which hands its part of the
// work to a [server] that outlives it. Then the way of a request: exchange.go
// (what happens in which order), body.go (its body becomes a value), request.go
// (the payload and its views), answer.go and envelope.go (a response becomes an
// answer), media.go and coding.go (what a type, an Accept header and a
// Content-Encoding mean). routes.go finds the route of a path, and router.go is
// the node around it. server.go and socket.go are about starting, reloading and
// stopping.
//
// Invariants: a request that was accepted is answered, whatever it holds and
// whatever is reloaded or stopped meanwhile; what nobody reads of its headers and
// query is not built; a payload keeps nothing of the connection alive.
//
// The package must not know how processes are run, and uses the engine through
// package node only.
package web

import "github.com/uniflow-labs/uniflow/node"

// Defs returns the kinds of this package.
func Defs() []*node.Def { return []*node.Def{listenerDef(), routerDef()} }
