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
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// Defs returns the kinds of this package.
func Defs(stream.Options) []*node.Def {
	return []*node.Def{chatDef(), discordPlatform().def(), slackPlatform().def(), telegramPlatform().def()}
}

// answersDoc describes answers, for all kinds.
const answersDoc = `The answer is a text, a map of ` + "`text`, `buttons`, `files` and `edit`" + ` (the first three are enough alone), or a list of these; none is silence. A button is a text, or a map of ` + "`text`" + ` and ` + "`data`" + `, which comes back as a message with event ` + "`action`, or `url`" + `. A file is a map of ` + "`name` and `url`" + `. ` + "`edit: true`" + ` replaces the message before. Other fields are not looked at.
Parts of the answer, such as those of a model, appear as they come: a text is a piece of the message that is being written, a map is a message of its own. The answer at the end is the whole of the message that was being written.

Processes of a conversation run one after the other; 32 messages may wait, more are refused. A message for which a node waits, such as ` + "`ask`" + `, goes there and starts no process.
An error goes to ` + "`error`" + `, whose answer is the answer. If that has no link, the client is told the message of a public error, and otherwise ` + "`failure`" + `.`

// payloadDoc describes messages, for all kinds.
const payloadDoc = "A message is a map of `platform`, `conversation` (a key that differs from those of all other platforms), `user` (`id`, `name`), `text`, `event` (`message`, `command`, `action` or `join`), `data`, `files`, `id` and `raw`."

// failureField is the text that clients get for an error that is not public.
func failureField() *schema.Field {
	return schema.String("failure").Default("Something went wrong. Please try again.").Doc("What to answer if a process fails, and its error has nothing for clients. Empty is silence.")
}
