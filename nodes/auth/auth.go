// Package auth holds the kinds that find out who a request comes from: auth, which checks
// what a client brings with it, and login, which sends people to a provider of OpenID
// Connect. The package must not know how requests are served.
package auth

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(o stream.Options) []*node.Def { return []*node.Def{authDef(o), loginDef()} }
