// Package chat holds the kinds that bring messages of people: chat, with a widget for web
// pages, telegram, slack and discord. Each makes one payload of its messages, and starts
// their processes one after the other for each conversation. The package must not know
// models.
package chat

import (
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Defs returns the kinds of this package.
func Defs(stream.Options) []*node.Def { return nil }
