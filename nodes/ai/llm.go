package ai

import (
	_ "embed"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/session"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/mcp/client"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed llm.md
var llmPage string

// The out-ports. Tool k is toolPort+k.
const (
	outPort  = 0
	partPort = 1
	toolPort = 2
)

const maxWait = float64(24 * time.Hour)

func llmDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "llm",
		Summary: "Asks a language model, and lets it call nodes as tools.",
		Page:    node.ReadPage(llmPage),
		Config:  llmFields(o),
		In:      []node.Port{{Name: "in", Doc: "The payload for the expressions in `prompt`, `messages` and `system`."}},
		Out: []node.Port{
			{Name: "out", Doc: "The answer: `{text, data, usage, finish, turns}`."},
			{Name: "part", Doc: "With `stream`, each piece of text. Without a link, the pieces are parts of the answer of the process."},
			{Name: "tool", Doc: "`tool[k]` gets the arguments when the model calls entry k of `tools`, and answers with the result.", Indexes: func(c schema.Config) int { return len(c.List("tools")) }},
		},
		Error:  "The failure, with one of the codes above.",
		Recall: node.Always(node.Reruns),
		Traits: func(c schema.Config) (t node.Traits) {
			if c.Bool("stream") {
				t.Is = node.SendsParts
			}
			if c.Int("history") > 0 {
				t.Needs = []node.Need{session.Needed("history")}
			}
			return t
		},
		New: func(init *node.Init) (node.Node, error) { return newLLM(init, o) },
	}
}

func llmFields(o stream.Options) schema.Object {
	return schema.Fields(
		schema.String("url").Required().Doc("The base URL of the server's API, such as `https://api.openai.com/v1` or `http://127.0.0.1:11434/v1`; `/chat/completions` is added."),
		schema.String("key").Secret().Doc("The key, sent as `Authorization: Bearer KEY`. Unset sends none."),
		schema.Any("header").Secret().Doc("More headers of each request, a map of text."),
		schema.String("model").Required().Doc("The name of the model, as the server calls it."),
		schema.String("system").Doc("The system message: what the model is told first. It may hold expressions over the payload, such as `${user.name}`. Do not put text of users here."),
		schema.Expr("prompt").Doc("The question: an expression that makes text, or a list of the parts of a message. Unset, it is the payload itself."),
		schema.Expr("messages").Doc("In place of `prompt`: an expression that makes a list of messages, each `{role, content}`."),
		schema.Int("history").Range(0, 10_000).Doc("How many earlier messages of the session are sent along. The question and the answer are added to the session's list `messages`, which keeps as many. If together they are more than a quarter of `budget.run`, or too long for the model, the oldest are not sent. It needs a node `session` upstream."),
		schema.Int("max_tokens").Range(1, 1<<30).Doc("The maximum length of the answer of one turn, in tokens. Unset, the server decides."),
		schema.Bool("stream").Default(false).Doc("Sends on the text as it comes: on `part`, or if that has no link as parts of the answer, as `emit` does. If the process has no client that takes parts, there are none."),
		schema.List("tools", schema.Fields(
			schema.String("name").Required().Doc("The name of the tool, for the model: letters, digits, `_` and `-`."),
			schema.String("description").Doc("What the tool does and when to call it, for the model."),
			schema.Any("input").Doc("The JSON Schema of the arguments, an object, as in `validate`. Unset, the tool takes no arguments."),
			schema.Duration("timeout").Default(time.Minute).Range(0, maxWait).Doc("How long one call may take; then it is cancelled, and the model is told. 0 means no limit."),
		)).Doc("What the model may call. Entry k is the port `tool[k]`."),
		schema.List("tools_from", schema.Fields(append(client.Fields(),
			schema.Strings("only").Doc("The names of the tools that the model may call. Unset, it may call all of them."),
		)...)).Doc("Servers of the Model Context Protocol whose tools the model may call, too. Their lists are read once a minute at most. The model reads the answers of these tools, and their descriptions: use servers that you trust."),
		schema.Any("schema").Doc("The JSON Schema of the answer, as in `validate`; the answer then is `data`. If an answer does not fit, the model is told once what is wrong; if the next one does not fit either, that is an error."),
		schema.Int("max_turns").Default(8).Range(1, 1000).Doc("How many requests one packet may need, including those after tool calls and repairs."),
		schema.Group("retry", schema.Fields(
			schema.Int("threshold").Default(3).Range(0, 100).Doc("How many times a request is sent again, after the first time."),
			field.NewBackoff(field.Backoff{Initial: 500 * time.Millisecond, Factor: 2, Max: 30 * time.Second, Jitter: 0.5},
				"How long to wait before that.", "The longest wait. If the server asks for a longer one, the request is not sent again."),
		)).Doc("What happens when, before the first piece of text has come, the server cannot be reached, breaks off, or answers 408, 429 or 5xx."),
		schema.Group("budget", schema.Fields(
			schema.Int("run").Range(1, 1<<40).Doc("How many tokens one packet may use in all turns, including the tokens that are sent."),
			schema.Int("key").Range(1, 1<<40).Doc("How many tokens all packets of one key may use in a window."),
			schema.Expr("by").Doc("The key, an expression over the payload. Unset, it is the conversation that the process belongs to; without a conversation, there is one key for all."),
			schema.Duration("window").Default(24*time.Hour).Range(float64(time.Second), float64(366*24*time.Hour)).Doc("How long a window is. It begins with the first request of a key."),
		)).Doc("How many tokens may be used. The server's own figures count; if it gives none, four bytes are a token."),
		schema.Any("request").Doc("More fields of the request, a map, such as `{temperature: 0.2}`."),
		schema.Duration("timeout").Default(5*time.Minute).Range(0, maxWait).Doc("How long one turn may take, from the request to the end of the answer. 0 means no limit."),
		schema.Group("limits", schema.Fields(
			schema.Duration("connect_timeout").Default("10s").Range(0, maxWait).Doc("How long it may take to look up the name and to connect, and again for the TLS handshake. 0 means no limit."),
			schema.Duration("silence").Default("1m").Range(0, maxWait).Doc("How long the server may send nothing, not even a comment that keeps the connection open. 0 means no limit."),
			schema.Bytes("answer_bytes").Default("4MiB").Range(1<<10, 1<<30).Doc("The maximum size of an answer, as it is sent."),
			schema.Bytes("result_bytes").Default("64KiB").Range(1<<7, 1<<30).Doc("The maximum size of a tool's result; of a longer one, the model gets the beginning."),
			schema.Int("connections").Default(1024).Range(1, 1<<16).Doc("How many connections to the server there may be, idle ones included. Further requests wait."),
		)).Doc("Limits of a turn."),
		field.NewTLS("Connections to a URL of https use TLS. Files are read when the node opens."),
		o.NewLanguage("The language of the expressions; `"+o.Language+"` unless set."),
	)
}
