// Package chat holds the kinds that bring messages of people: chat, with a widget for web
// pages, telegram, slack and discord. Each makes one payload of its messages, and starts
// their processes one after the other for each conversation. The package must not know
// models.
//
// A [dispatcher] runs the processes, and an [outlet] takes the answers to one message: a
// [turn] shows them in the widget, a [delivery] sends them to a platform. Read dispatcher.go and
// message.go first.
package chat

import (
	_ "embed"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// Defs returns the kinds of this package.
func Defs(stream.Options) []*node.Def {
	return []*node.Def{chatDef(), discordPlatform().def(), slackPlatform().def(), telegramPlatform().def()}
}

// What the pages of all kinds say of messages and answers.
var (
	//go:embed message.md
	messageDoc string

	//go:embed answers.md
	answersDoc string
)

// readPage returns the page of a kind, with what all of them say.
func readPage(text string) node.Page {
	common := strings.NewReplacer("{message}", strings.TrimSpace(messageDoc), "{answers}", strings.TrimSpace(answersDoc))
	return node.ReadPage(common.Replace(text))
}

// failureField is the text that clients get for an error that is not public.
func failureField() *schema.Field {
	return schema.String("failure").Default("Something went wrong. Please try again.").Doc("What to answer if a process fails, and its error has nothing for clients. Empty is silence.")
}
