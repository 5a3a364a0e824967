package mcp

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed mcp.md
var mcpPage string

// Kind is the kind of nodes that serve tools.
const Kind = "mcp"

func serverDef() *node.Def {
	return &node.Def{
		Kind:    Kind,
		Role:    node.HasClient,
		Summary: "Serves nodes as tools of the Model Context Protocol.",
		Page:    node.ReadPage(mcpPage),
		Config: schema.Fields(
			schema.List("tools", schema.Fields(
				schema.String("name").Required().Pattern(`^[A-Za-z0-9_.-]{1,128}$`).Doc("What clients call it."),
				schema.String("title").Doc("The name to show to people."),
				schema.String("description").Required().Doc("What it does, for a model that decides whether to call it."),
				schema.Any("input").Doc("The arguments: a JSON Schema of an object, as `validate` has it, such as `{properties: {id: {type: integer}}, required: [id]}`. By default there are none."),
				schema.Any("output").Doc("The answer, likewise a JSON Schema of an object. Clients are shown it, and a call whose answer does not fit has failed. By default the answer may be anything."),
				schema.Bool("read_only").Default(false).Doc("Tells clients that it changes nothing. They may then call it without asking."),
				schema.Duration("timeout").Default("60s").Doc("How long a call may take. 0 means no limit."),
			)).Required().Doc("The tools, those of `out[0]`, `out[1]` and so on."),
			schema.String("title").Doc("The name of the server, for clients; by default that of the node."),
			schema.String("version").Default("1").Doc("The version of the server, for clients."),
			schema.String("instructions").Doc("How to use the tools, for models."),
			schema.Enum("payload", "arguments", "call").Default("arguments").Doc("What tools get: the arguments alone, or also which tool it is and the request."),
			schema.Strings("origins").Doc("Other hosts whose pages may call, such as `*.example.com`. `*` is all."),
			schema.Strings("hosts").Doc("The hosts that requests may name, such as `tools.example.com`; others get 403."),
			schema.Int("calls").Default(1000).Range(1, 1<<20).Doc("How many calls there may be at a time; past it they fail immediately, as do requests past [the memory of the program](../workflows.md#memory)."),
			schema.Group("sessions", schema.Fields(
				schema.Int("most").Default(1000).Range(1, 1<<20).Doc("How many there may be; past it new clients get 503, as they do where memory is short."),
				schema.Duration("idle").Default("30m").Doc("How long one is kept without a request."),
			)).Doc("Keeps a session for each client."),
		),
		In: []node.Port{{Name: "in", Doc: "The request of a listener."}},
		Out: []node.Port{{
			Name: "out", Doc: "A call of a tool.",
			Indexes: func(c schema.Config) int { return len(c.List("tools")) },
		}},
		Error:   "A request that is refused, or a call that has failed. Its answer is that of the tool.",
		Traits:  node.Fixed(node.Traits{Is: node.SendsParts, Gives: []string{node.GivesParts}}),
		OpenAPI: describe,
		Recall:  node.Always(node.Attached),
		New:     newServer,
	}
}

// A server is the part of a server of tools that belongs to one generation. Sessions, if
// there are any, belong to its endpoint.
type server struct {
	ref     node.Ref
	pool    *node.Pool
	memory  *node.Memory
	log     *slog.Logger
	about   about
	tools   []*tool
	whole   bool // payload: call
	origins node.Hosts
	hosts   node.Hosts
	calls   int64

	endpoint *endpoint    // from Open on
	release  func() error // from Open on
	starter  node.Starter // from Serve on
}

// about is what the sessions of a server depend on. If it changes, they end.
type about struct {
	title, version, instructions string
	anyHost                      bool // hosts says which
	sessions                     bool
	most                         int
	idle                         time.Duration
}

func newServer(init *node.Init) (node.Node, error) {
	c := init.Config
	s := &server{
		ref: init.Node, pool: init.Pool, memory: init.Memory, log: init.Log,
		whole: c.String("payload") == "call",
		calls: c.Int("calls"),
		about: about{
			title: c.String("title"), version: c.String("version"), instructions: c.String("instructions"),
			anyHost: c.Has("hosts"), sessions: c.Has("sessions"),
			most: int(c.Group("sessions").Int("most")), idle: c.Group("sessions").Duration("idle"),
		},
	}
	if s.about.title == "" {
		s.about.title = init.Node.String()
	}
	var err error
	if s.origins, err = node.NewHosts(init, "origins"); err != nil {
		return nil, err
	}
	if s.hosts, err = node.NewHosts(init, "hosts"); err != nil {
		return nil, err
	}
	if s.tools, err = newTools(init); err != nil {
		return nil, err
	}
	return s, nil
}

// Open finds the sessions of the generation before.
func (s *server) Open(context.Context) (err error) {
	key := "mcp " + s.ref.Namespace + "/" + s.ref.String() + " " + s.about.key()
	s.endpoint, s.release, err = node.Acquire(s.pool, key, func() (*endpoint, error) { return newEndpoint(s.about, s.memory), nil })
	return err
}

// Serve makes new calls start their processes here.
func (s *server) Serve(src node.Starter) error {
	s.starter = src
	s.endpoint.attach(s)
	return nil
}

// Drain ends the sessions, unless a later generation has taken them over: a client may
// hold a request open for as long as it has one.
func (s *server) Drain() { s.endpoint.detach(s) }

// Stop takes back what Serve began, also if the generation has never begun to drain.
func (s *server) Stop(context.Context) error {
	s.endpoint.detach(s)
	return nil
}

func (s *server) Close() error { return s.release() }

// Measure reports calls and sessions.
func (s *server) Measure(report func(node.Metric)) { s.endpoint.measure(report) }

// Receive takes a request over, or serves a client on another way of transport.
func (s *server) Receive(p node.Process, pkt node.Packet) node.Result {
	if t, ok := p.Context().Value(transportKey{}).(sdk.Transport); ok {
		return node.Block(func(ctx context.Context) node.Result { return s.endpoint.serveSession(ctx, t) })
	}
	r, err := s.requestOf(pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	if !handover.Leave(p.Context(), &taken{s.endpoint, r}) {
		return node.Fail(errors.New("there is no request to take over: another node has taken it, or it has been answered"))
	}
	return node.None()
}

type transportKey struct{}

// WithTransport returns a context whose processes, if they begin at a node of kind mcp,
// serve one client on another way of transport than HTTP. They end with it.
func WithTransport(ctx context.Context, t sdk.Transport) context.Context {
	return context.WithValue(ctx, transportKey{}, t)
}

var _ interface {
	node.Opener
	node.Trigger
	node.Drainer
	node.Stopper
	node.Measured
} = (*server)(nil)
