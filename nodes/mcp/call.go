package mcp

import (
	"context"
	_ "embed"
	"errors"
	"net/http"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/mcp/client"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed mcp_call.md
var mcpCallPage string

func callDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "mcp_call",
		Summary: "Calls a tool of a server of the Model Context Protocol.",
		Page:    node.ReadPage(mcpCallPage),
		Config: schema.Fields(append([]*schema.Field{
			schema.Any("tool").Required().Doc("The name of the tool. `${…}` in it is an expression over the payload."),
			schema.Any("arguments").Doc("The arguments, a map in which `${…}` is an expression over the payload. By default they are the payload."),
			schema.Bool("progress").Default(false).Doc("Passes on what the tool reports, as parts of the answer."),
		}, client.Fields()...)...),
		In:  []node.Port{{Name: "in", Doc: "What the arguments are made from."}},
		Out: []node.Port{{Name: "out", Doc: "The answer, with text, data and content."}},
		Traits: func(c schema.Config) (t node.Traits) {
			if c.Bool("progress") {
				t.Is = node.SendsParts
			}
			return t
		},
		Recall: node.Always(node.Effects),
		Lint:   field.LintTLS,
		New:    func(init *node.Init) (node.Node, error) { return newCaller(init, o) },
	}
}

type caller struct {
	pool      *node.Pool
	settings  *client.Settings
	tool      template.Template
	arguments template.Template
	given     bool // arguments are
	progress  bool

	client  *client.Client // from Open on
	release func() error   // from Open on
}

func newCaller(init *node.Init, o stream.Options) (node.Node, error) {
	c := init.Config
	n := &caller{pool: init.Pool, given: c.Has("arguments"), progress: c.Bool("progress")}
	var err error
	if n.settings, err = client.New(init, c); err != nil {
		return nil, err
	}
	compile := template.Compiler(o.Languages, o.Language)
	if n.tool, err = template.OfField(c, "tool", compile); err != nil {
		return nil, err
	}
	if n.arguments, err = template.OfField(c, "arguments", compile); err != nil {
		return nil, err
	}
	if name, ok := c.Value("tool").AsString(); !ok || name == "" {
		return nil, c.Errorf("tool", diag.CodeBadValue, "must be the name of a tool").WithHint("write one such as weather, or ${self.tool}")
	}
	if v := c.Value("arguments"); n.given && v.Kind() != value.KindMap && v.Kind() != value.KindString {
		return nil, c.Errorf("arguments", diag.CodeBadValue, "must be a map, or an expression that makes one").WithHint(`write one such as {city: "${self.city}"}`)
	}
	return n, nil
}

// Open finds the connection of the generation before. It makes none.
func (n *caller) Open(context.Context) (err error) {
	n.client, n.release, err = n.settings.Open(n.pool)
	return err
}

// Close ends the connection, unless a later generation uses it.
func (n *caller) Close() error { return n.release() }

// Concurrency is how many packets of one process are sent concurrently.
func (n *caller) Concurrency() int { return 16 }

func (n *caller) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Block(func(ctx context.Context) node.Result {
		answer, err := n.call(ctx, pkt.Payload)
		if err != nil {
			return node.Fail(err)
		}
		return node.Send(0, answer)
	})
}

func (n *caller) call(ctx context.Context, payload value.Value) (value.Value, error) {
	tool, _, err := n.tool.Render(ctx, payload)
	if err != nil {
		return value.Value{}, err
	}
	name, ok := tool.AsString()
	if !ok || name == "" {
		return value.Value{}, errors.New("tool: want the name of a tool")
	}
	arguments := payload
	if n.given {
		if arguments, _, err = n.arguments.Render(ctx, payload); err != nil {
			return value.Value{}, err
		}
	}
	if arguments.IsNull() {
		arguments = value.Map()
	}
	if arguments.Kind() != value.KindMap {
		return value.Value{}, errors.New("the arguments of a tool are a map: write arguments: {…}")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var report func(value.Value)
	if parts, ok := node.PartsOf(ctx); ok && n.progress {
		report = func(v value.Value) {
			if err := parts.Part(ctx, v); err != nil {
				cancel(err)
			}
		}
	}
	r, err := n.client.Call(ctx, name, arguments, report)
	var failed *client.ToolError
	switch {
	case errors.As(err, &failed):
		return value.Value{}, &node.Error{Err: failed, Code: "tool", Status: http.StatusBadGateway}
	case err != nil:
		return value.Value{}, err
	}
	return value.Map(
		value.Field{Name: "text", Value: value.String(r.Text)}, value.Field{Name: "data", Value: r.Data}, value.Field{Name: "content", Value: r.Content}), nil
}

var _ interface {
	node.Opener
	node.Concurrent
} = (*caller)(nil)
