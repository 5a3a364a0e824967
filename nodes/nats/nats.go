// Package nats has the kinds whose nodes exchange messages with NATS and JetStream.
//
// Each kind is one literal, in a file of its name. nats_source opens a jetStreamReader,
// whose consumer is in consumer.go, or a coreReader. The other kinds share one connection
// for each settings: conn.go keeps it, requests.go is its requests, client.go is a node's
// use of it. The package must not know how processes are run.
package nats

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	defs := []*node.Def{source().Def(o), sink().Def(o), requestDef(o), kvDef(o)}
	for _, def := range defs {
		def.Role, def.Lint = node.Connects, field.LintTLS
	}
	return defs
}
