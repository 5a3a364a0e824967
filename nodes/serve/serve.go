// Package serve holds the kinds that answer a request with what is elsewhere: static with
// files, template with a page made of a payload, proxy with the answer of another server.
// static and proxy take the exchange over, see node/handover. The package must not know
// listeners.
package serve

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(stream.Options) []*node.Def { return nil }
