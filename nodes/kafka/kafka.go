// Package kafka has the kinds whose nodes exchange messages with Kafka.
//
// Each kind is one literal, in a file of its name. [client.go] has what they share: how a
// client connects, and what its errors mean. The package must not know how processes are
// run.
package kafka

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	in, out := sourceDef().Def(o), sinkDef().Def(o)
	in.Role, out.Role = node.Connects, node.Connects
	in.Lint, out.Lint = field.LintTLS, field.LintTLS
	return []*node.Def{in, out}
}
