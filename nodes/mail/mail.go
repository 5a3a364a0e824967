// Package mail has the kind mail, whose nodes send mail by SMTP.
//
// settings.go is how they connect, message.go makes a message of a payload, node.go sends
// it. The package must not know how processes are run.
package mail

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	def := mailDef(o)
	def.Role, def.Lint = node.Connects, field.LintTLS
	return []*node.Def{def}
}
