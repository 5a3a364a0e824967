// Package auth holds the kinds that find out who a request comes from: auth, which checks
// what a client brings with it, and login, which sends people to a provider of OpenID
// Connect.
//
// Read scheme.go first: what a scheme is. guard.go is the node auth, whose fields are in
// fields.go; key.go, basic.go, jwt.go and hmac.go are the schemes, and place.go finds what
// they look for. claims.go, verifier.go and remote.go judge tokens, issuer.go and
// issuer_read.go have the keys of issuers. login.go is the node login: login_begin.go sends
// people to the provider, login_session.go takes them back, seal.go has their cookies.
//
// The package must not know how requests are served.
package auth

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(o stream.Options) []*node.Def { return []*node.Def{authDef(o), loginDef()} }
