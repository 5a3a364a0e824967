// Package redis has the kinds whose nodes exchange data with Redis.
//
// Each kind is one literal, in a file of its name. redis_source opens a streamReader, a
// listReader or a channelReader, as its field mode says; redis_sink opens a writer. Connections
// are those of package client. The package must not know how processes are run.
package redis

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	defs := []*node.Def{source().Def(o), sink().Def(o)}
	for _, def := range defs {
		def.Role, def.Lint = node.Connects, field.LintTLS
	}
	return defs
}
