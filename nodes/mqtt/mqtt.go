// Package mqtt has the kinds whose nodes exchange messages with brokers of MQTT 5 and 3.1.1.
//
// Each kind is one literal, in a file of its name. mqtt_source opens a reader, mqtt_sink a
// writer. Both use a session (session.go): one connection, whose packets the libraries of
// Eclipse Paho encode (wire.go). Their clients are not used: what they acknowledge waits for a
// timer, and they read ahead without a bound of bytes. The package must not know how processes
// are run.
package mqtt

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
