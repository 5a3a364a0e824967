// Package ai holds the kind llm, which asks a language model, and lets it call nodes as
// tools. The package must not know where questions come from.
//
// Reading order: llm.go (the kind and its fields), settings.go (a node made of them), run.go
// (what happens with a packet: turns, tools, repair), exchange.go (one turn: request, retry,
// answer), reply.go (how an answer is read), failure.go (its errors), budget.go.
package ai

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(o stream.Options) []*node.Def { return []*node.Def{llmDef(o)} }
