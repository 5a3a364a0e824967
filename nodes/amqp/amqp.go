// Package amqp has the kinds whose nodes exchange messages with RabbitMQ.
//
// Each kind is one literal, in a file of its name. amqp_source opens a reader (reader.go),
// amqp_sink a writer (writer.go). settings.go says how both connect, link.go what
// a connection is, gate.go how much it takes. The package must not know how processes are run.
package amqp

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
