// Package mail has the kinds whose nodes send mail.
package mail

import (
	_ "github.com/wneessen/go-mail"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	return nil
}
