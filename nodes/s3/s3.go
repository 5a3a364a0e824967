// Package s3 has the kinds whose nodes read and write objects of S3, and of services with the same
// protocol.
//
// Each kind is one literal, in a file of its name. [client.go] has how a bucket is reached, and
// [failure.go] what answers mean. The package must not know how processes are run.
package s3

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed s3.md
var s3Page string

// Defs returns the kinds of the package, freshly made.
func Defs(o stream.Options) []*node.Def {
	in, out, one := sourceDef().Def(o), sinkDef().Def(o), objectDef(o)
	for _, def := range []*node.Def{in, out, one} {
		def.Role, def.Lint = node.Connects, field.LintTLS
	}
	return []*node.Def{one, in, out}
}

func objectDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "s3",
		Summary: "Reads and writes the objects of a bucket of S3.",
		Page:    node.ReadPage(s3Page),
		Config: withConnection(
			schema.Enum("action", "get", "put", "list", "delete", "head", "sign", "copy").Required().Doc("What to do."),
			schema.Text("key").Doc("The key of the object, and the prefix of `list`. It may have expressions over the payload in it: `invoices/${self.id}.pdf`."),
			schema.Expr("body").Default("self").Doc("What `put` stores."),
			schema.Enum("encode", "json", "text", "raw").Default("json").Doc("How `put` stores the body: as JSON; as text, which is JSON for lists and maps; or as it is, for text and binary."),
			schema.Enum("decode", "json", "text", "raw").Default("json").Doc("How `get` decodes an object: as JSON, text or binary."),
			schema.Bytes("max_body").Default("64MiB").Range(1, 1<<30).Doc("The largest object that `get` reads. A larger one is an error."),
			schema.Text("version").Doc("The version of the object, in a bucket with versions: for `get`, `head`, `delete`, `sign` and `copy`."),
			schema.Text("content_type").Doc("The Content-Type that `put` stores. Unset, it is that of `encode`."),
			schema.Any("metadata").Doc("The metadata that `put` stores: a map of texts, which may have expressions over the payload in them."),
			schema.Text("if_match").Doc("The ETag that the object must have: for `get`, `head`, `put` and `copy`, as far as the service has it."),
			schema.Text("if_none_match").Doc("An ETag that the object must not have; `*` for `put` says that there must be no object."),
			schema.Text("from").Doc("The key of the object that `copy` copies."),
			schema.String("from_bucket").Doc("The bucket of `from`, if it is another one."),
			schema.Text("after").Doc("The key behind which `list` begins, such as `next` of the page before."),
			schema.Int("limit").Default(maxPage).Range(1, 100_000).Doc("How many objects `list` returns at most."),
			schema.Enum("method", "get", "put", "head", "delete").Default("get").Doc("What the URL of `sign` is for."),
			schema.Duration("expires").Default("15m").Range(float64(time.Second), float64(7*24*time.Hour)).Doc("How long the URL of `sign` is good."),
			schema.Duration("timeout").Default("30s").Range(float64(time.Millisecond), float64(time.Hour)).Doc("How long it may take. It uses the real clock, also in tests that set another one."),
			schema.Int("max_in_flight").Default(64).Range(1, 100_000).Doc("How many packets of one process may wait for their answers."),
		),
		In:  []node.Port{{Name: "in", Doc: "What the expressions see."}},
		Out: []node.Port{{Name: "out", Doc: "The result."}},
		Recall: func(c schema.Config) node.Recall {
			switch c.String("action") {
			case "get", "list", "head", "sign":
				return node.Reads
			}
			return node.Effects
		},
		New: func(init *node.Init) (node.Node, error) { return newObjectNode(o, init) },
	}
}

// An objectNode is a node of the kind s3.
type objectNode struct {
	settings       *settings
	config         schema.Config
	ref            node.Ref
	pool           *node.Pool
	log            *slog.Logger
	held           *node.Account
	action         string
	encode, decode string
	method         string
	maxBody        int64
	limit          int
	timeout        time.Duration
	expires        time.Duration
	most           int
	fromBucket     string
	body           lang.Program
	metadata       *template.Template // nil without
	texts          map[string]template.Template

	store   *store
	release func() error
	lookup  *stream.Lookup // of the bucket
}

// textFields are the fields of objectNode.texts.
func textFields() []string {
	return []string{"key", "version", "content_type", "if_match", "if_none_match", "from", "after"}
}

func newObjectNode(o stream.Options, init *node.Init) (node.Node, error) {
	c := init.Config
	n := &objectNode{
		config: c, ref: init.Node, pool: init.Pool, log: init.Log, held: init.Memory.Account(init.Node.Kind), action: c.String("action"),
		encode: c.String("encode"), decode: c.String("decode"), method: c.String("method"), maxBody: c.Int("max_body"), limit: int(c.Int("limit")),
		timeout: c.Duration("timeout"), expires: c.Duration("expires"), most: int(c.Int("max_in_flight")), fromBucket: c.String("from_bucket"),
		texts: make(map[string]template.Template),
	}
	var err error
	// A request is tried once: a second put would fail on the condition that the first has fulfilled.
	if n.settings, err = newSettings(c, 1); err != nil {
		return nil, err
	}
	if n.fromBucket == "" {
		n.fromBucket = n.settings.bucket
	}
	if err := n.checkFields(c); err != nil {
		return nil, err
	}
	compile := template.Compiler(o.Languages, o.Language)
	for _, name := range textFields() {
		if !c.Has(name) {
			continue
		}
		if n.texts[name], err = template.OfField(c, name, compile); err != nil {
			return nil, err
		}
	}
	if c.Has("metadata") {
		t, err := template.OfField(c, "metadata", compile)
		if err != nil {
			return nil, err
		}
		n.metadata = &t
	}
	n.body, err = o.Expr(c, "body", lang.Options{Warn: init.Warn})
	return n, err
}

// takers are the actions that a field is for.
func takers(name string) []string {
	switch name {
	case "body", "encode", "content_type", "metadata":
		return []string{"put"}
	case "decode", "max_body":
		return []string{"get"}
	case "version":
		return []string{"get", "head", "delete", "sign", "copy"}
	case "if_match", "if_none_match":
		return []string{"get", "head", "put", "copy"}
	case "from", "from_bucket":
		return []string{"copy"}
	case "after", "limit":
		return []string{"list"}
	case "method", "expires":
		return []string{"sign"}
	}
	return nil
}

// checkFields finds fields that the action needs, or does not take.
func (n *objectNode) checkFields(c schema.Config) error {
	if n.action != "list" && !c.Has("key") {
		return c.Errorf("", diag.CodeBadValue, "%s needs a key", n.action).WithHint("add key")
	}
	if n.action == "copy" && !c.Has("from") {
		return c.Errorf("", diag.CodeBadValue, "copy needs the key to copy from").WithHint("add from")
	}
	for _, name := range []string{"body", "encode", "content_type", "metadata", "decode", "max_body", "version", "if_match", "if_none_match", "from", "from_bucket", "after", "limit", "method", "expires"} {
		takes := false
		for _, action := range takers(name) {
			takes = takes || action == n.action
		}
		if c.Has(name) && !takes {
			return c.Errorf(name, diag.CodeBadValue, "%s does not take it", n.action).WithHint("remove it, or write action: %s", takers(name)[0])
		}
	}
	return nil
}

// Open makes the client, or takes that of another node with the same settings.
func (n *objectNode) Open(context.Context) (err error) {
	n.store, n.release, err = node.Acquire(n.pool, "s3 "+field.Sum(*n.settings), func() (*store, error) { return n.settings.open() })
	return err
}

// Find looks for the bucket. See [node.Finder].
func (n *objectNode) Find(ctx context.Context) (err error) {
	n.lookup, err = stream.NewLookup(ctx, n.ref, n.log, func(ctx context.Context) error { return n.store.check(ctx, "", false) })
	return field.Place(err, n.config)
}

// Ready implements [node.Readier].
func (n *objectNode) Ready() error { return n.lookup.Ready() }

// Concurrency implements [node.Concurrent].
func (n *objectNode) Concurrency() int { return n.most }

// Close lets go of the client, which others may use.
func (n *objectNode) Close() error {
	err := n.lookup.Close()
	n.held.Close()
	if n.release != nil {
		err = errors.Join(err, n.release())
	}
	return err
}

// Receive implements [node.Node].
func (n *objectNode) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Block(func(ctx context.Context) node.Result {
		ctx, cancel := context.WithTimeoutCause(ctx, n.timeout, errTimeout)
		defer cancel()
		out, err := n.do(ctx, pkt.Payload)
		if err != nil {
			return node.Fail(n.failure(ctx, err))
		}
		return node.Send(0, out)
	})
}

var errTimeout = errors.New("no answer in time")

// failure returns an error as workflows see it.
func (n *objectNode) failure(ctx context.Context, err error) error {
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		return &node.Error{Err: fmt.Errorf("%s: no answer within %s", n.settings.endpoint, n.timeout), Status: 504, Code: "timeout", Outage: true}
	case errors.Is(err, stream.ErrLost):
		return &node.Error{Err: err, Status: 503, Code: "lost", Outage: true}
	}
	return err
}
