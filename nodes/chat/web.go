package chat

import (
	"context"
	_ "embed"
	"net/http"
	"path"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

const platformChat = "chat"

//go:embed chat.md
var chatPage string

// Out-ports of a chat.
const (
	outMessage = 0
	outHistory = 1
)

func chatDef() *node.Def {
	return &node.Def{
		Kind:    "chat",
		Summary: "Talks to people by a widget on web pages, or by JSON.",
		Page:    readPage(chatPage),
		Config: schema.Fields(
			schema.String("path").Default("/chat").Doc("The path below which requests come."),
			schema.Strings("secret").Required().Secret().Doc("Signs the tokens of conversations: at least 16 characters, such as what `openssl rand -hex 32` prints. Of several, at most 8, the first signs, and all are good; browsers get a new token when they come back. Another secret alone makes all tokens void."),
			schema.String("title").Default("Chat").Doc("What the widget is called."),
			schema.String("greeting").Doc("What the widget shows first. It is not a message of the conversation."),
			schema.Strings("origins").Doc("Other hosts whose pages may show the widget, such as `*.example.com`. Pages of the same host always may; `*` is all."),
			schema.Bytes("max_message").Default("8KiB").Range(1, 1<<20).Doc("Longest text of a message."),
			schema.Bytes("memory").Default("64MiB").Range(1<<20, 1<<40).Doc("What all conversations may have in memory: their messages, and what waits for processes and for clients, within [the memory of the program](../workflows.md#memory)."),
			schema.Int("connections").Default(10000).Range(1, 1<<24).Doc("How many there may be; past it the answer is 503. A conversation has 16 at most."),
			schema.Bool("join").Default(false).Doc("Whether a new conversation starts a process with event `join`."),
			failureField(),
		),
		In: []node.Port{{Name: "in", Doc: "The request of a listener."}},
		Out: []node.Port{
			{Name: "out", Doc: "A message."},
			{Name: "history", Doc: "A conversation whose earlier messages are not in memory."},
		},
		Role:    node.Begins | node.HasClient,
		Traits:  chatTraits,
		OpenAPI: describe,
		Recall:  node.Always(node.Attached),
		New:     newChatNode,
	}
}

func chatTraits(c schema.Config) node.Traits {
	t := node.Traits{Is: node.SendsParts, Gives: []string{node.GivesParts, node.GivesConversation}, Needs: []node.Need{needsRequest()}}
	if base := strings.TrimSuffix(c.String("path"), "/"); base == "" || base[0] == '/' {
		t.Paths = []string{base + "/messages", base + "/socket"}
	}
	return t
}

// A chatNode is the part of a chat that belongs to one generation. Its conversations and
// connections belong to the node.
type chatNode struct {
	init    *node.Init
	recalls bool // the port history is linked
	signer  signer

	path, title, greeting, failure string
	origins                        node.Hosts
	maxText, connections           int
	memory                         int64 // of the conversations
	join                           bool

	conversations *conversations // from Open on
	release       func() error   // from Open on
	generation    *generation    // from Serve on
}

func newChatNode(init *node.Init) (node.Node, error) {
	c := init.Config
	n := &chatNode{
		init:    init,
		recalls: init.OutLinks[outHistory] > 0,
		path:    strings.TrimSuffix(c.String("path"), "/"),
		title:   c.String("title"), greeting: c.String("greeting"), failure: c.String("failure"),
		maxText: int(c.Int("max_message")), connections: int(c.Int("connections")), memory: c.Int("memory"),
		join: c.Bool("join"),
	}
	if n.path != "" && (!strings.HasPrefix(n.path, "/") || path.Clean(n.path) != n.path) {
		return nil, c.Errorf("path", diag.CodeBadValue, "%q is not a path", c.String("path")).WithHint("write one such as /chat")
	}
	var err error
	if n.origins, err = node.NewHosts(init, "origins"); err != nil {
		return nil, err
	}
	n.signer, err = newSigner(c, "secret")
	return n, err
}

// Open finds the conversations of the generation before.
func (n *chatNode) Open(context.Context) (err error) {
	n.conversations, n.release, err = node.Acquire(n.init.Pool, "chat "+n.init.Node.Namespace+"/"+n.init.Node.String(), func() (*conversations, error) {
		return newConversations(n.init.Memory), nil
	})
	return err
}

// Serve makes new messages start their processes here.
func (n *chatNode) Serve(src node.Starter) error {
	n.generation = &generation{starter: src, waits: n.init.Waits, log: n.init.Log, failure: n.failure, node: n}
	n.conversations.attach(n.generation)
	n.conversations.most.Store(n.memory)
	n.conversations.resume()
	return nil
}

// Drain ends streams of events, unless a later generation goes on with them: their server
// waits for them.
func (n *chatNode) Drain() {
	if n.generation != nil && n.conversations.Current() == n.generation {
		n.conversations.drain()
	}
}

// Stop waits for the answers, and then closes the connections, unless a later generation
// has taken them over.
func (n *chatNode) Stop(ctx context.Context) error {
	if n.generation == nil {
		return nil
	}
	last, err := n.conversations.detach(ctx, n.generation)
	if !last || err != nil {
		return err
	}
	return n.conversations.shut(ctx)
}

func (n *chatNode) Close() error { return n.release() }

// Measure reports the conversations and their messages.
func (n *chatNode) Measure(report func(node.Metric)) { n.conversations.measure(report) }

// operation is what describe returns, without the failures. It is final, as messages are other
// processes.
//
//go:embed openapi.json
var operation []byte

// describe is the [node.Def.OpenAPI] of chat. The paths below the path of the node have
// one description: which of them a route has is not known here.
func describe(schema.Config) value.Value {
	v, err := value.ParseJSON(operation)
	if err != nil {
		panic(err) // of a file of this package
	}
	responses := at(v, "responses")
	for _, failure := range []struct {
		status      int
		description string
	}{
		{http.StatusForbidden, "The token or the origin of the request is not one of this chat."},
		{http.StatusNotFound, "There is nothing at this path."},
		{http.StatusMethodNotAllowed, "The path has another method."},
		{http.StatusRequestEntityTooLarge, "The message is too long."},
		{http.StatusUnprocessableEntity, "The message has no text, or fields that are not right."},
		{http.StatusTooManyRequests, "The conversation has too many messages that wait, or connections."},
		{http.StatusServiceUnavailable, "There is no room for another conversation or connection."},
	} {
		for name, response := range openapi.Failure(failure.status, failure.description).Fields() {
			responses = responses.With(name, response)
		}
	}
	return v.With("responses", responses)
}
