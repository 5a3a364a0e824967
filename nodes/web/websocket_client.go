package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// websocketClientDef is a source of messages with an in-port that sends.
func websocketClientDef(o stream.Options) *node.Def {
	def := stream.Source{
		Kind:    "websocket_client",
		Summary: "Takes messages from a WebSocket server, and sends some.",
		Doc: `Each message of the server starts a process at ` + "`out`" + `. WebSockets have no acknowledgement: what the server sends while there is no connection does not come, and a message that was read is lost if the program is killed before its process has ended.
A lost connection is made again. With 401 and 403 the workflow does not start.

A packet at ` + "`send`" + ` is sent: a string as text, a binary as binary, all else as JSON; of a map of nothing but ` + "`body`" + ` and fields of a message, the body. It is answered when the socket has taken it, and is an error with status 503 while there is no connection.

Messages have ` + "`id`" + ` and ` + "`binary`" + `.`,
		Example: `- kind: websocket_client
  name: prices
  url: wss://stream.example.com/prices
  ports:
    out: [{name: keep, port: in}]

- kind: snippet
  name: keep
  language: cel
  code: body
`,
		Config: schema.Fields(slices.Concat([]*schema.Field{
			schema.String("url").Required().Doc("The server, such as wss://stream.example.com/prices."),
			schema.Strings("protocols").Doc("Subprotocols to offer, best first."),
			schema.Any("hello").Doc("What to send whenever there is a new connection, such as a subscription."),
		}, httpclient.Fields(), []*schema.Field{
			schema.Bytes("max_message").Default("1MiB").Range(1, 1<<30).Doc("Longest message of the server. A longer one ends the connection, which is made again."),
			schema.Duration("ping").Default(30 * time.Second).Doc("How often to ask whether the server is still there. 0 is never."),
		})...),
		Traits: stream.Traits{Order: stream.OrderTotal},
		Open:   openWSClient,
	}.Def(o)
	def.In = []node.Port{{Name: "send", Doc: "A message to send."}}
	def.Role, def.Lint = node.Begins|node.Connects, field.LintTLS
	source := def.New
	def.New = func(init *node.Init) (node.Node, error) {
		n, err := source(init)
		if err != nil {
			return nil, err
		}
		inner, ok := n.(sourceOfStream)
		if !ok {
			return nil, fmt.Errorf("a source is a %T, which lacks a method", n)
		}
		return &wsClientNode{sourceOfStream: inner, pool: init.Pool, key: wsLinkKey(init.Node)}, nil
	}
	return def
}

// sourceOfStream is what the node of a source implements.
type sourceOfStream interface {
	node.Node
	node.Opener
	node.Trigger
	node.Stopper
	node.Readier
	node.Finite
	node.Measured
	io.Closer
}

// A wsClientNode is a source that can send as well. The connection belongs to the reader,
// which outlives generations: both find it by a wsLink in the pool.
type wsClientNode struct {
	sourceOfStream
	pool    *node.Pool
	key     string
	link    *wsLink      // from Open on
	release func() error // from Open on
}

func wsLinkKey(ref node.Ref) string {
	return "web.websocket_client " + ref.Namespace + "/" + ref.String()
}

// Open opens the source.
func (n *wsClientNode) Open(ctx context.Context) (err error) {
	if n.link, n.release, err = acquireWSLink(n.pool, n.key); err != nil {
		return err
	}
	if err := n.sourceOfStream.Open(ctx); err != nil {
		return errors.Join(err, n.release())
	}
	return nil
}

// Close closes the source.
func (n *wsClientNode) Close() error { return errors.Join(n.sourceOfStream.Close(), n.release()) }

// Receive sends a message.
func (n *wsClientNode) Receive(_ node.Process, pkt node.Packet) node.Result {
	v := pkt.Payload
	if body, ok := messageBody(v); ok {
		v = body
	}
	kind, data, err := encodeMessage(v, nil)
	switch {
	case err != nil:
		return node.Fail(err)
	case n.link == nil:
		return node.Fail(node.ErrNotOpen)
	}
	return node.Block(func(ctx context.Context) node.Result {
		if err := n.link.send(ctx, kind, data); err != nil {
			return node.Fail(&node.Error{Err: err, Status: http.StatusServiceUnavailable})
		}
		return node.None()
	})
}

// A wsLink is where a client finds the connection of its reader.
type wsLink struct {
	mu struct {
		sync.Mutex
		conn *websocket.Conn // nil without one
	}
}

func acquireWSLink(pool *node.Pool, key string) (*wsLink, func() error, error) {
	return node.Acquire(pool, key, func() (*wsLink, error) { return new(wsLink), nil })
}

// Close does nothing: the connection belongs to the reader.
func (l *wsLink) Close() error { return nil }

// set makes another connection the one to send on, in place of before.
func (l *wsLink) set(conn, before *websocket.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if conn != nil || l.mu.conn == before {
		l.mu.conn = conn
	}
}

// wsSendTimeout is how long a server may take to take a message. The connection is then
// closed, as part of the message may have been sent.
const wsSendTimeout = 30 * time.Second

func (l *wsLink) send(ctx context.Context, kind websocket.MessageType, data []byte) error {
	l.mu.Lock()
	conn := l.mu.conn
	l.mu.Unlock()
	if conn == nil {
		return errors.New("there is no connection")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The end of the process must not end the connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wsSendTimeout)
	defer cancel()
	return conn.Write(ctx, kind, data)
}
