package grpc

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format/protobuf"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/node/protofile"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed grpc.md
var serverPage string

func serverDef(stream.Options) *node.Def {
	return &node.Def{
		Kind:    "grpc",
		Role:    node.HasClient,
		Summary: "Serves methods of gRPC at a listener, and starts a process for each call.",
		Page:    node.ReadPage(serverPage),
		Config: schema.Fields(slices.Concat(protofile.Fields(), []*schema.Field{
			schema.List("methods", schema.Fields(
				schema.String("method").Required().Doc("The method, such as shop.v1.Orders/Get."),
				schema.OutPort("port").Required().Doc("Where its calls go."),
			)).Required().Doc("The methods. A client that calls another one gets UNIMPLEMENTED."),
			schema.Bool("reflection").Default(true).Doc("Whether clients may ask for the types of the services."),
			schema.Duration("timeout").Default(time.Duration(0)).Doc("How long a call may take. The deadline of the client applies as well. 0 means no limit."),
			schema.Group("limits", schema.Fields(
				schema.Bytes("message_bytes").Default("8MiB").Range(1, 1<<30).Doc("Longest message, sent or received, decompressed; past it the code is RESOURCE_EXHAUSTED."),
				schema.Int("messages").Default(10_000).Range(1, 1<<24).Doc("How many messages a client may stream to a method that gets them as a list; past it the code is RESOURCE_EXHAUSTED."),
				schema.Int("calls").Default(10_000).Range(1, 1<<24).Doc("How many calls there may be, streams included; past it the code is UNAVAILABLE."),
			)).Doc("What clients may use."),
		})...),
		In: []node.Port{{Name: "in", Doc: "The request of a listener."}},
		Out: []node.Port{{
			Name: "out", Doc: "A call of a method: the request, with the message as its body.",
			Indexes: func(c schema.Config) (n int) {
				for _, m := range c.List("methods") {
					n = max(n, m.OutPort("port")+1)
				}
				return n
			},
		}},
		Error: "A request that is not a call, or a call that has failed. Its answer is that of the method.",
		Traits: node.Fixed(node.Traits{
			Is: node.SendsParts | node.NeedsRaw | node.IgnoresBody, Gives: []string{node.GivesParts}, Needs: []node.Need{handover.Needed()},
		}),
		OpenAPI: func(schema.Config) value.Value { return openapi.Object("final", value.Bool(true)) },
		Recall:  node.Always(node.Attached),
		New:     newServer,
	}
}

// A server is the part of a gRPC server that belongs to one generation. Calls belong to its
// endpoint.
type server struct {
	generation // starter from Serve on

	ref      node.Ref
	pool     *node.Pool
	memory   *node.Memory
	endpoint *endpoint    // from Open on
	release  func() error // from Open on
}

// A generation is what an endpoint needs of one generation. It is immutable once it is attached.
type generation struct {
	starter  node.Starter
	log      *slog.Logger
	ready    func() bool
	schema   *protobuf.Schema
	methods  map[string]*method // by name, with those of known.go
	timeout  time.Duration
	bytes    int
	messages int
	calls    int
}

// A method is one that is served.
type method struct {
	name    string
	desc    protoreflect.MethodDescriptor
	port    int        // -1 for a service of known.go
	call    *node.Call // sends to the port
	handler http.Handler
	plain   bool // an answer is always the message, as that has a field of an envelope
}

func newServer(init *node.Init) (node.Node, error) {
	c := init.Config
	lim := c.Group("limits")
	n := &server{
		ref: init.Node, pool: init.Pool, memory: init.Memory,
		generation: generation{
			log: init.Log, methods: make(map[string]*method), timeout: c.Duration("timeout"),
			bytes: int(lim.Int("message_bytes")), messages: int(lim.Int("messages")), calls: int(lim.Int("calls")),
			ready: func() bool { return true },
		},
	}
	if init.System != nil {
		n.ready = init.System.Ready
	}
	var err error
	if n.schema, err = protofile.Read(init.Config); err != nil {
		return nil, err
	}
	if n.schema == nil {
		return nil, c.Errorf("proto", diag.CodeBadValue, "nothing says what the types of the messages are").WithHint("add proto, source or descriptor")
	}
	call := node.NewCall(func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Fail(resp.Payload.AsError())
		}
		return node.Respond(resp)
	})
	var found diag.List
	for _, m := range c.List("methods") {
		desc, err := methodOf(n.schema, m, "method")
		var d *diag.Diagnostic
		switch {
		case errors.As(err, &d):
			found.Add(d)
		case n.methods[protobuf.MethodName(desc)] != nil:
			found.Add(m.Errorf("method", diag.CodeBadValue, "%s is there twice", protobuf.MethodName(desc)).WithHint("remove one of them"))
		default:
			n.add(&method{desc: desc, port: m.OutPort("port"), call: call})
		}
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	n.addKnown(c.Bool("reflection"))
	return n, nil
}

func (g *generation) add(m *method) {
	m.name = protobuf.MethodName(m.desc)
	for _, key := range []string{envelope.KeyStatus, envelope.KeyHeader, envelope.KeyBody} {
		m.plain = m.plain || m.desc.Output().Fields().ByName(protoreflect.Name(key)) != nil
	}
	m.handler = g.handlerOf(m)
	g.methods[m.name] = m
}

// Open finds the calls of the generation before.
func (n *server) Open(context.Context) (err error) {
	n.endpoint, n.release, err = node.Acquire(n.pool, "grpc "+n.ref.Namespace+"/"+n.ref.String(), func() (*endpoint, error) {
		return newEndpoint(n.memory), nil
	})
	return err
}

// Serve makes new calls, and new messages of streams in both directions, start their processes here.
func (n *server) Serve(src node.Starter) error {
	n.starter = src
	n.endpoint.attach(&n.generation)
	return nil
}

// Drain ends the streams that wait for their clients, unless a later generation has taken over: a
// client may hold one open for as long as it likes.
func (n *server) Drain() { n.endpoint.detach(&n.generation) }

// Stop takes back what Serve began, also if the generation has never begun to drain, and waits
// for the calls unless a later generation serves.
func (n *server) Stop(ctx context.Context) error {
	n.endpoint.detach(&n.generation)
	return n.endpoint.wait(ctx)
}

func (n *server) Close() error { return n.release() }

// Measure reports the calls.
func (n *server) Measure(report func(node.Metric)) { n.endpoint.measure(report) }

// Receive takes a request over.
func (n *server) Receive(p node.Process, pkt node.Packet) node.Result {
	r := handover.Request(p.Context())
	if r == nil {
		return node.Fail(errors.New("want the request of a listener: there is no call to answer"))
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	m := n.methods[name]
	if m == nil {
		return n.refuse(p, r, &node.Error{Err: fmt.Errorf("there is no method %.200q", name), Code: "UNIMPLEMENTED", Status: http.StatusNotFound, Public: true})
	}
	t := &taken{endpoint: n.endpoint, method: m, payload: pkt.Payload}
	if raw, ok := pkt.Payload.Get(envelope.KeyRaw); ok {
		t.data, _ = raw.AsBinary()
	}
	t.payload = t.payload.Without(envelope.KeyRaw).Without(envelope.KeyBody)
	if m.desc.IsStreamingClient() {
		return n.takeStream(p, r, t)
	}
	return n.takeRequest(p, r, t)
}

// takeStream leaves the body of a request to the call, which reads it as it comes: its client may
// be silent for long.
func (n *server) takeStream(p node.Process, r *http.Request, t *taken) node.Result {
	_, ok, err := handover.Body(p.Context(), math.MaxInt64) // so that no one else has it
	if err != nil {
		return n.refuse(p, r, err)
	}
	t.live = ok
	return leave(p.Context(), t)
}

// takeRequest reads the body of a request first, as quickly as clients must send one.
func (n *server) takeRequest(p node.Process, r *http.Request, t *taken) node.Result {
	limit := n.bytes + n.bytes/8 + 1<<10 // it may be compressed, and has a header
	body, ok, err := handover.Body(p.Context(), int64(limit))
	switch {
	case err != nil:
		return n.refuse(p, r, err)
	case !ok:
		return leave(p.Context(), t)
	}
	return node.Block(func(ctx context.Context) node.Result {
		data, err := content.ReadAll(body, r.ContentLength, limit, t.reserve)
		if err != nil {
			return n.refuseIn(ctx, r, errors.Join(err, t.Close()))
		}
		t.data = data
		return leave(ctx, t)
	})
}

func leave(ctx context.Context, t *taken) node.Result {
	if !handover.Leave(ctx, t) {
		return node.Fail(errors.Join(errTaken, t.Close()))
	}
	return node.None()
}

var errTaken = errors.New("there is no request to take over: another node has taken it, or it has been answered")

// refuse answers a request with an error. A client that speaks a protocol of calls gets it in that
// protocol, where a status of HTTP would say something else.
func (n *server) refuse(p node.Process, r *http.Request, err error) node.Result {
	return n.refuseIn(p.Context(), r, err)
}

func (n *server) refuseIn(ctx context.Context, r *http.Request, err error) node.Result {
	w := connect.NewErrorWriter()
	if ctx.Err() != nil || r.Method != http.MethodPost || !w.IsSupported(r) {
		return node.Fail(err)
	}
	answer := wireError(ctx, n.schema, err, "")
	if !handover.Leave(ctx, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_ = w.Write(rw, r, answer) // the client has left
	})) {
		return node.Fail(errors.Join(err, errTaken))
	}
	return node.None()
}

var _ interface {
	node.Opener
	node.Trigger
	node.Drainer
	node.Stopper
	node.Measured
	io.Closer
} = (*server)(nil)
