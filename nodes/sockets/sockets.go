// Package sockets has the kinds whose nodes read from and write to sockets: TCP, UDP and Unix.
//
// Each kind is one literal, in a file of its name. reader.go serves the connections of a
// socket_source, conn.go one of them; frame.go separates messages; settings.go connects
// and listens. The package must not know how processes are run.
package sockets

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	in, out := source().Def(o), sink().Def(o)
	in.Lint, out.Lint = field.LintTLS, field.LintTLS
	in.Role, out.Role = node.Connects, node.Connects
	return []*node.Def{in, out}
}
