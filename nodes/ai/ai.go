// Package ai holds the kind llm, which asks a language model, and lets it call nodes as
// tools. The package must not know where questions come from.
package ai

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(stream.Options) []*node.Def { return nil }
