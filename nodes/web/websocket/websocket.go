// Package websocket has the kinds websocket and websocket_client.
//
// Read websocket.go first: an [endpoint] is a node of one generation, and server.go has the
// connections, which outlive it. upgrade.go takes a request over, and makes a connection of it.
// conn.go reads messages and ends, run.go runs their processes, send.go sends. client.go is the
// other side. The package must not know the listener that a request comes from.
package websocket

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed websocket.md
var websocketPage string

// Defs returns the kinds of this package.
func Defs(o stream.Options) []*node.Def { return []*node.Def{serverDef(o), clientDef(o)} }

// maxLogged is how many bytes a text in a log record may have.
const maxLogged = 1000

// Ports of a websocket.
const (
	portIn, portSend              = 0, 1
	portOut, portOpen, portClosed = 0, 1, 2
)

func serverDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "websocket",
		Role:    node.HasClient,
		Summary: "Makes a WebSocket of a request, and starts a process for each message.",
		Page:    node.ReadPage(websocketPage),
		Config: schema.Fields(
			schema.Enum("decode", "json", "text", "raw").Default("json").Doc("What messages become: values of JSON, texts, or with `raw` texts and binaries."),
			schema.Strings("topics").Doc("Topics of a connection. `${…}` in a topic is an expression over the request, such as `room/${self.params.room}`."),
			schema.Strings("origins").Doc("Other hosts whose pages may connect, such as `*.example.com`. Pages of the same host always may; `*` is all."),
			schema.Bytes("max_message").Default("1MiB").Range(1, 1<<30).Doc("Longest message from a client; past it the connection is closed with code 1009."),
			schema.Int("connections").Default(10000).Range(1, 1<<24).Doc("How many there may be; past it the answer is 503."),
			schema.Duration("ping").Default(30*time.Second).Doc("How often to ask whether the client is still there. 0 is never."),
		),
		In: []node.Port{
			{Name: "in", Doc: "The request of a listener."},
			{Name: "send", Doc: "A message to send: `to` or `topic`, and `body`."},
		},
		Out: []node.Port{
			{Name: "out", Doc: "A message."},
			{Name: "open", Doc: "The request, before it becomes a WebSocket."},
			{Name: "close", Doc: "A connection that has ended."},
		},
		Traits:  node.Fixed(node.Traits{Is: node.SendsParts, Gives: []string{node.GivesParts}, Needs: []node.Need{handover.Needed()}}),
		OpenAPI: describe,
		Recall:  node.Always(node.Attached),
		New:     func(init *node.Init) (node.Node, error) { return newEndpoint(init, o) },
	}
}

// An endpoint is the part of a WebSocket server that belongs to one generation. The
// connections belong to its server.
type endpoint struct {
	generation // starter from Serve on

	ref    node.Ref
	pool   *node.Pool
	memory *node.Memory
	topics template.Template
	opens  bool // open is linked

	server  *server      // from Open on
	release func() error // from Open on
}

// settings are what the fields say.
type settings struct {
	decode      string
	origins     node.Hosts
	maxMessage  int64
	connections int
	ping        time.Duration
}

func newEndpoint(init *node.Init, o stream.Options) (node.Node, error) {
	c := init.Config
	n := &endpoint{
		ref: init.Node, pool: init.Pool, memory: init.Memory,
		opens: init.OutLinks[portOpen] > 0,
		generation: generation{
			log:    init.Log,
			closes: init.OutLinks[portClosed] > 0,
			fails:  init.ErrorLinks > 0,
			parts:  init.Below(node.SendsParts),
			settings: settings{
				decode:      c.String("decode"),
				maxMessage:  c.Int("max_message"),
				connections: int(c.Int("connections")),
				ping:        c.Duration("ping"),
			},
		},
	}
	var err error
	if n.settings.origins, err = node.NewHosts(init, "origins"); err != nil {
		return nil, err
	}
	if !c.Has("topics") {
		return n, nil
	}
	n.topics, err = template.New(c.Raw("topics"), template.Compiler(o.Languages, o.Language))
	var d *diag.Diagnostic
	if errors.As(err, &d) {
		d.Path = c.Path("topics")
	}
	return n, err
}

// Open finds the connections of the generation before.
func (n *endpoint) Open(context.Context) (err error) {
	n.server, n.release, err = node.Acquire(n.pool, "web.websocket "+n.ref.Namespace+"/"+n.ref.String(), func() (*server, error) {
		return newServer(n.memory), nil
	})
	return err
}

// Serve makes new messages start their processes here.
func (n *endpoint) Serve(src node.Starter) error {
	n.starter = src
	n.server.attach(&n.generation)
	return nil
}

// Stop closes the connections, unless a later generation has taken them over, when the
// messages that were received are answered.
func (n *endpoint) Stop(ctx context.Context) error {
	if n.starter == nil {
		return nil
	}
	return n.server.detach(ctx, &n.generation)
}

func (n *endpoint) Close() error { return n.release() }

// Measure reports the connections and their messages.
func (n *endpoint) Measure(report func(node.Metric)) { n.server.measure(report) }

// Receive takes a request over, or sends a message.
func (n *endpoint) Receive(p node.Process, pkt node.Packet) node.Result {
	if pkt.Port == portSend {
		return n.send(pkt.Payload)
	}
	if err := n.refusal(pkt.Payload); err != nil {
		return node.Fail(err)
	}
	if !n.opens {
		return n.take(p, pkt.Payload)
	}
	return node.SendThen(portOpen, pkt.Payload, func(p node.Process, resp node.Response) node.Result {
		if e, ok, _ := envelope.Open(resp.Payload); resp.IsError() || ok && !resp.None && e.Status >= 300 {
			return node.Respond(resp)
		}
		return n.take(p, pkt.Payload)
	})
}

// send sends a message to one connection, or to all of a topic.
func (n *endpoint) send(v value.Value) node.Result {
	to, topic, body, err := addressOf(v)
	if err != nil {
		return node.Fail(err)
	}
	kind, data, err := encodeMessage(body, nil)
	if err != nil {
		return node.Fail(err)
	}
	if topic != "" {
		n.server.publish(topic, kind, data)
		return node.None()
	}
	c := n.server.find(to)
	if c == nil {
		return node.Fail(&node.Error{Err: fmt.Errorf("connection %q has ended", node.Clip(to, envelope.MaxQuote)), Status: http.StatusGone})
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		var once sync.Once
		finish := func(err error) {
			once.Do(func() {
				if err != nil {
					done(node.Fail(&node.Error{Err: err, Status: http.StatusGone}))
				} else {
					done(node.None())
				}
			})
		}
		stop := context.AfterFunc(ctx, func() { finish(context.Cause(ctx)) })
		c.post(kind, data, func(err error) {
			stop()
			finish(err)
		})
	})
}

// addressOf reads a packet of the port send.
func addressOf(v value.Value) (to, topic string, body value.Value, err error) {
	hasBody := false
	if v.Kind() == value.KindMap {
		body, hasBody = v.Get(envelope.KeyBody)
	}
	if hasBody {
		if field, ok := v.Get("to"); ok {
			to, _ = field.AsString()
		}
		if field, ok := v.Get("topic"); ok {
			topic, _ = envelope.Text(field)
		}
	}
	if (to == "") == (topic == "") {
		return "", "", value.Value{}, errors.New("want a map of body, and of to (the id of a connection) or topic")
	}
	return to, topic, body, nil
}

// describe returns the answers to a request for a WebSocket. OpenAPI has no words
// for messages.
func describe(schema.Config) value.Value {
	responses := openapi.Object("101", openapi.Object("description", "The connection is a WebSocket."))
	add := func(status int, description string) {
		for name, response := range openapi.Failure(status, description).Fields() {
			responses = responses.With(name, response)
		}
	}
	add(http.StatusForbidden, "Pages of this origin may not connect.")
	add(http.StatusUpgradeRequired, "The request does not ask for a WebSocket.")
	add(http.StatusServiceUnavailable, "There are too many connections.")
	return openapi.Object(
		"responses", responses,
		"final", value.Bool(true), // messages are other processes
		"asks", value.List(value.String("open")),
	)
}
