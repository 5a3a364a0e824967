// Package dialogue holds the kinds that remember what was said and wait for what comes
// next: session, recall and remember, ask and form. The package must not know where
// messages come from: the conversation of a process is in its context.
package dialogue

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(stream.Options) []*node.Def { return nil }
