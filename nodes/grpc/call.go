package grpc

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format/protobuf"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/protofile"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed grpc_call.md
var callPage string

// Ports of a call.
const (
	outPort = iota
	partPort
)

// The protocols of a call.
const (
	protocolGRPC    = "grpc"
	protocolWeb     = "grpc-web"
	protocolConnect = "connect"
)

func callDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "grpc_call",
		Summary: "Calls a method of a gRPC service, and sends its answer on.",
		Page:    node.ReadPage(callPage),
		Config: schema.Fields(slices.Concat([]*schema.Field{
			schema.String("url").Required().Doc("The service, such as https://orders.example.com or http://127.0.0.1:50051. Without TLS, HTTP/2 is spoken immediately (h2c)."),
			schema.String("method").Required().Doc("The method, such as shop.v1.Orders/Get."),
		}, protofile.Fields(), []*schema.Field{
			schema.Bool("reflection").Default(false).Doc("In place of these: asks the service for the types, at the first call."),
			schema.Enum("protocol", protocolGRPC, protocolWeb, protocolConnect).Default(protocolGRPC).Doc("What is spoken."),
			schema.Any("metadata").Secret().Doc("Metadata of each call: a map of text. Texts may hold expressions over the payload, such as `${self.tenant}`. Keys that end with `-bin` take bytes."),
			schema.Duration("timeout").Default("30s").Doc("How long a call may take. The service learns of it. 0 means no limit."),
			schema.Bool("stream").Default(false).Doc("Sends on the messages of a stream as they come: on `part`, or if that has no link as parts of the answer, as `emit` does. Without it, `out` gets a list of them."),
			schema.Enum("answer", "message", "full").Default("message").Doc("What `out` gets: the message, or a map of `body`, `header` and `trailer`."),
			schema.Enum("compression", "none", "gzip").Default("none").Doc("How messages are sent. Answers may be compressed in any case."),
		}, httpclient.Fields(), []*schema.Field{
			schema.Group("limits", schema.Fields(
				schema.Duration("connect_timeout").Default("10s").Doc("How long it may take to look up the name and to connect, and again for the TLS handshake. 0 means no limit."),
				schema.Duration("idle_timeout").Default("90s").Doc("How long a connection may be idle before it is closed. 0 means no limit."),
				schema.Bytes("message_bytes").Default("8MiB").Range(1, 1<<30).Doc("Longest message, sent or received, decompressed."),
				schema.Int("messages").Default(10_000).Range(1, 1<<24).Doc("How many messages of a stream `out` may get as a list."),
				schema.Int("connections").Default(1024).Range(1, 1<<16).Doc("How many connections there may be. Calls share them."),
				schema.Int("concurrency").Default(16).Range(1, 1<<10).Doc("How many packets of one process are sent concurrently; 1 keeps their order."),
			)).Doc("What a call may use."),
		})...),
		In: []node.Port{{Name: "in", Doc: "The message; a list of messages if the method takes a stream."}},
		Out: []node.Port{
			{Name: "out", Doc: "The answer: the message, or the messages of a stream."},
			{Name: "part", Doc: "With `stream`, each message. Without a link, the messages are parts of the answer of the process."},
		},
		Traits: func(c schema.Config) (t node.Traits) {
			if t.Is = node.FailsByStatus; c.Bool("stream") {
				t.Is |= node.SendsParts
			}
			return t
		},
		Recall: func(c schema.Config) node.Recall {
			if c.Bool("stream") {
				return node.Attached // it continues after the answers to its messages
			}
			return node.Effects // but see Reads
		},
		New: func(init *node.Init) (node.Node, error) { return newCall(init, o) },
	}
}

// A client calls one method.
type client = connect.Client[dynamicpb.Message, dynamicpb.Message]

// A callNode calls one method of one service.
type callNode struct {
	config      schema.Config
	owner       string
	pool        *node.Pool
	held        *node.Account // bytes of answers that wait for others
	service     *httpclient.Endpoint
	label       string // begins messages
	method      string
	metadata    template.Template
	timeout     time.Duration
	protocol    string
	gzip        bool
	full        bool // answer: full
	streams     bool // stream: true
	parted      bool // the port part is linked, and gets messages
	linked      bool // the port out is linked
	bytes       int
	messages    int
	concurrency int
	fixed       *types // nil with reflection

	http    *http.Client   // from Open on
	metrics *callMetrics   // from Open on
	release []func() error // from Open on
	asked   struct {
		sync.Mutex        // held while the service is asked
		types      *types // what it has answered; nil if it must be asked
	}
}

// types are what a call needs of a schema.
type types struct {
	schema *protobuf.Schema
	method protoreflect.MethodDescriptor
	client *client // made when it is first needed
}

func newCall(init *node.Init, o stream.Options) (node.Node, error) {
	c := init.Config
	lim := c.Group("limits")
	n := &callNode{
		config: c, owner: init.Node.Namespace + "/" + init.Node.String(),
		pool: init.Pool, held: init.Memory.Account(init.Node.Kind),
		method: strings.TrimPrefix(c.String("method"), "/"), timeout: c.Duration("timeout"), protocol: c.String("protocol"),
		gzip: c.String("compression") == "gzip", full: c.String("answer") == "full",
		streams: c.Bool("stream"), parted: c.Bool("stream") && init.OutLinks[partPort] > 0, linked: init.OutLinks[outPort] > 0,
		bytes: int(lim.Int("message_bytes")), messages: int(lim.Int("messages")), concurrency: int(lim.Int("concurrency")),
	}
	var method protoreflect.MethodDescriptor
	s, err := protofile.Read(init.Config)
	if err == nil {
		method, err = methodOf(s, c, "method")
	}
	if err == nil {
		err = n.checkTypes(s)
	}
	var more error
	n.service, more = httpclient.NewEndpoint(c, "http", httpclient.Settings{
		ConnectTimeout: lim.Duration("connect_timeout"), IdleTimeout: lim.Duration("idle_timeout"), Connections: int(lim.Int("connections")),
		Raw:   true, // messages are compressed, not bodies
		HTTP2: n.protocol == protocolGRPC || method != nil && method.IsStreamingClient() && method.IsStreamingServer(),
	})
	if err = errors.Join(err, more); err != nil {
		return nil, err
	}
	n.label = n.service.Label + n.method + ": "
	if n.service.URL.RawQuery != "" {
		return nil, c.Errorf("url", diag.CodeBadValue, "the url of a service has no query")
	}
	if method != nil {
		n.fixed = &types{schema: s, method: method}
		if n.streams && !method.IsStreamingServer() {
			return nil, c.Errorf("stream", diag.CodeBadValue, "%s answers with one message, so there is no stream", n.method).WithHint("remove stream")
		}
	}
	if !c.Bool("stream") && init.OutLinks[partPort] > 0 {
		init.AddWarning(c.Errorf("", diag.CodeNoEffect, "the port part gets nothing without stream: true").WithHint("add stream: true, or remove the link"))
	}
	if n.metadata, err = template.OfField(c, "metadata", template.Compiler(o.Languages, o.Language)); err != nil {
		return nil, err
	}
	if raw := c.Raw("metadata"); raw != nil && raw.Kind != schema.RawMap {
		return nil, c.Errorf("metadata", diag.CodeBadValue, "must be a map of text").WithHint("write one such as {tenant: shop}")
	}
	return n, nil
}

// checkTypes checks that exactly one field says what the types are.
func (n *callNode) checkTypes(s *protobuf.Schema) error {
	c := n.config
	switch asks := c.Bool("reflection"); {
	case asks && s != nil:
		return c.Errorf("reflection", diag.CodeBadValue, "the types are in files, so the service is not asked").WithHint("remove reflection, or the field with the types")
	case asks && n.protocol != protocolGRPC:
		return c.Errorf("reflection", diag.CodeBadValue, "only protocol: grpc has reflection").WithHint("add proto, source or descriptor")
	case !asks && s == nil:
		return c.Errorf("proto", diag.CodeBadValue, "nothing says what the types of the messages are").WithHint("add proto, source, descriptor, or reflection: true")
	}
	return nil
}

// newClient returns a client of a method of the service, which speaks a protocol.
func (n *callNode) newClient(name, protocol string, answer protoreflect.MessageDescriptor) *client {
	options := []connect.ClientOption{
		connect.WithReadMaxBytes(n.bytes), connect.WithSendMaxBytes(n.bytes), connect.WithCodec(protoCodec{}),
		connect.WithResponseInitializer(func(_ connect.Spec, m any) error { return initialize(m, answer) }),
	}
	switch protocol {
	case protocolGRPC:
		options = append(options, connect.WithGRPC())
	case protocolWeb:
		options = append(options, connect.WithGRPCWeb())
	}
	if n.gzip {
		options = append(options, connect.WithSendGzip())
	}
	return connect.NewClient[dynamicpb.Message, dynamicpb.Message](n.http, strings.TrimSuffix(n.service.URL.String(), "/")+"/"+name, options...)
}

// initialize makes a message that the library has made one of a type.
func initialize(m any, d protoreflect.MessageDescriptor) error {
	dynamic, ok := m.(*dynamicpb.Message)
	if !ok {
		return fmt.Errorf("a message is a %T", m)
	}
	*dynamic = *dynamicpb.NewMessage(d)
	return nil
}

// Open makes the connections, or shares those of the generation before.
func (n *callNode) Open(context.Context) error {
	transport, release, err := n.service.Settings.Acquire(n.pool, "grpc.call "+n.owner, n.config)
	if err != nil {
		return err
	}
	n.release = append(n.release, release)
	m, release, err := node.Acquire(n.pool, "grpc.call counts "+n.owner, func() (*callMetrics, error) { return new(callMetrics), nil })
	if err != nil {
		return errors.Join(err, n.Close())
	}
	n.metrics, n.release = m, append(n.release, release)
	n.http = transport.Client(httpclient.NoRedirects)
	if n.fixed != nil {
		n.fixed.client = n.newClient(n.method, n.protocol, n.fixed.method.Output())
	}
	return nil
}

// Close closes the idle connections, unless a later generation uses them.
func (n *callNode) Close() error {
	defer n.held.Close()
	var errs []error
	for _, release := range n.release {
		errs = append(errs, release())
	}
	return errors.Join(errs...)
}

// Concurrency is how many packets of one process are sent concurrently.
func (n *callNode) Concurrency() int { return n.concurrency }

// Measure reports the calls.
func (n *callNode) Measure(report func(node.Metric)) { n.metrics.measure(report) }

// Reads implements [node.Reader]: the .proto file may say that a method changes nothing.
func (n *callNode) Reads(node.Packet) bool {
	return n.fixed != nil && idempotency(n.fixed.method) == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

func idempotency(m protoreflect.MethodDescriptor) descriptorpb.MethodOptions_IdempotencyLevel {
	options, _ := m.Options().(*descriptorpb.MethodOptions) // nil without options
	return options.GetIdempotencyLevel()
}

var _ interface {
	node.Opener
	node.Concurrent
	node.Measured
	node.Reader
	io.Closer
} = (*callNode)(nil)
