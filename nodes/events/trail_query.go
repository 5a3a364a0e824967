package events

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/query"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed trail_query.md
var trailQueryPage string

func trailQueryDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "trail_query",
		Summary: "Queries a store of events for a funnel, retention, a segment, a cohort or paths.",
		Page:    node.ReadPage(trailQueryPage),
		Config: schema.Fields(
			schema.String("db").Required().Doc("The folder of the store."),
			schema.Any("query").Required().Doc("The query: a map, or text in YAML."),
			schema.Duration("timeout").Default("30s").Doc("The longest time for a query."),
			schema.Bytes("memory").Default("64MiB").Range(1<<20, 1<<40).Doc("The most memory for a query, beyond the files of the store."),
			schema.Bool("ids").Default(false).Doc("List the ids of the users of a cohort, or of a query with `users`, as `ids`."),
			schema.Float("sample").Range(0, 1).Doc("The share of the users to look at, such as `0.1`; counts are scaled to all. Unset takes `sample` of the query."),
		),
		In:     []node.Port{{Name: "in", Doc: "The payload for the expressions in the query."}},
		Out:    []node.Port{{Name: "out", Doc: "The answer."}},
		Recall: node.Always(node.Reads),
		New:    func(init *node.Init) (node.Node, error) { return newQueryNode(o, init) },
	}
}

// A queryNode is a node of kind trail_query.
type queryNode struct {
	db       string
	query    *query.Query // nil if it depends on the payload
	template template.Template
	opt      trail.QueryOptions
	pool     *node.Pool
	log      *slog.Logger

	store   *sharedStore
	release func() error
}

func newQueryNode(o stream.Options, init *node.Init) (*queryNode, error) {
	c := init.Config
	n := &queryNode{
		db: c.String("db"), pool: init.Pool, log: init.Log,
		opt: trail.QueryOptions{Memory: c.Int("memory"), Timeout: c.Duration("timeout"), Sample: c.Float("sample"), IDs: c.Bool("ids")},
	}
	if c.Has("sample") && n.opt.Sample == 0 {
		return nil, c.Errorf("sample", diag.CodeBadValue, "must be a share above 0, up to 1").WithHint("write one such as 0.1")
	}
	var err error
	doc := c.Raw("query")
	if text, ok := doc.Value.AsString(); ok && doc.Kind == schema.RawScalar {
		if !strings.Contains(text, "${") {
			n.query, err = query.Parse("", []byte(text))
			locate := func(d *diag.Diagnostic, in query.Pos) {
				if doc.Text.Code == text {
					d.Pos = doc.Text.Pos(in.Line, in.Column)
				}
			}
			return n, found(c, err, locate, func(*query.Error) bool { return true })
		}
		p, err := o.Languages.Compile("yaml", doc.Text, lang.Options{})
		if err != nil {
			return nil, err
		}
		if constant, ok := p.(lang.Constant); ok {
			doc = schema.RawOf(constant.Constant())
		}
	}
	if doc.Kind != schema.RawMap {
		return nil, c.Errorf("query", diag.CodeBadValue, "must be a query, got %s", doc.What()).WithHint("write one such as {segment: {event: signup}}")
	}
	n.template, err = template.New(doc, template.Compiler(o.Languages, o.Language))
	if err != nil { // it may have no place: the query is a text, and the expression a part of it
		return nil, template.Place(c, "query", err)
	}
	tree := newQueryTree(doc, template.Unescape)
	q, err := query.FromTree(&tree.root)
	if n.template.Constant() {
		n.query = q
		return n, found(c, err, tree.locate, func(*query.Error) bool { return true })
	}
	// Until there is a payload, only keys that no query has are certain to be wrong.
	return n, found(c, err, tree.locate, func(e *query.Error) bool { return e.UnknownKey != "" && !strings.Contains(e.Msg, "${") })
}

// A locate sets the place of a finding in the workflow. in is its place in the query.
type locate func(d *diag.Diagnostic, in query.Pos)

// found makes findings of those errors of a query that are wanted.
func found(c schema.Config, err error, locate locate, wanted func(*query.Error) bool) error {
	var all query.Errors
	if err == nil {
		return nil
	}
	if !errors.As(err, &all) {
		return c.Errorf("query", diag.CodeBadValue, "%s", err)
	}
	var list diag.List
	for _, e := range all {
		if !wanted(e) {
			continue
		}
		d := c.Errorf("query", diag.CodeBadValue, "%s", e.Msg)
		if e.Hint != "" {
			d = d.WithHint("%s", e.Hint)
		}
		if c.Hidden("query") { // the message may quote a secret
			d.Msg, d.Hint = "a template has made a query that is wrong", ""
		}
		if e.Line > 0 {
			locate(d, e.Pos)
		}
		list.Add(d)
	}
	return list.Err()
}

// Receive runs the query, and sends the answer.
func (n *queryNode) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Block(func(ctx context.Context) node.Result {
		answer, err := n.answer(ctx, pkt.Payload)
		if err != nil {
			return node.Fail(n.failure(err))
		}
		return node.Send(0, answer)
	})
}

// Concurrency lets one process run several queries concurrently.
func (n *queryNode) Concurrency() int { return 4 }

// answer runs the query that a payload makes.
func (n *queryNode) answer(ctx context.Context, payload value.Value) (value.Value, error) {
	q := n.query
	if q == nil {
		doc, _, err := n.template.Render(ctx, payload)
		if err != nil {
			return value.Null(), fmt.Errorf("query: %w", err)
		}
		var root doctree.Node
		if !setNode(&root, doc) {
			_, err := doc.AppendJSON(nil) // has the path of the number
			return value.Null(), &badQuery{err}
		}
		if q, err = query.FromTree(&root); err != nil {
			return value.Null(), &badQuery{err}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, n.opt.Timeout)
	defer cancel()
	s, done, err := n.store.reader(ctx)
	if err != nil {
		return value.Null(), err
	}
	defer done()
	answer, err := s.Query(ctx, q, n.opt)
	if err != nil {
		return value.Null(), err
	}
	w := &valueWriter{}
	answer.Write(w)
	return w.root, nil
}

// A badQuery is the error of a query that a payload has made wrong.
type badQuery struct{ err error }

// Error returns the problems, one on a line, without their places, which are in
// a document that a template made.
func (e *badQuery) Error() string {
	var all query.Errors
	if !errors.As(e.err, &all) {
		return "query: " + e.err.Error()
	}
	lines := make([]string, len(all))
	for i, p := range all {
		if lines[i] = "query: " + p.Msg; p.Hint != "" {
			lines[i] += " (" + p.Hint + ")"
		}
	}
	return strings.Join(lines, "\n")
}

func (e *badQuery) Unwrap() error { return e.err }

// failure gives an error the status and code that the error port has. What is wrong with a query
// that is always the same is the mistake of its author.
func (n *queryNode) failure(err error) error {
	var bad *badQuery
	var problem *query.Error
	var memory *trail.MemoryError
	switch {
	case errors.As(err, &bad):
		return &node.Error{Err: bad, Status: http.StatusBadRequest, Code: "bad_query", Public: true}
	case errors.As(err, &problem): // such as text for a property of numbers
		if n.query != nil {
			return node.Unusable("bad_query", &badQuery{err})
		}
		return &node.Error{Err: &badQuery{err}, Status: http.StatusBadRequest, Code: "bad_query", Public: true}
	case errors.As(err, &memory):
		if n.query != nil {
			return node.Unusable("too_large", memory)
		}
		return &node.Error{Err: memory, Status: http.StatusRequestEntityTooLarge, Code: "too_large", Public: true}
	case errors.Is(err, context.DeadlineExceeded):
		return &node.Error{Err: fmt.Errorf("the query has taken too long: %w", err), Status: http.StatusGatewayTimeout, Code: "timeout"}
	case errors.Is(err, trail.ErrNoStore):
		return &node.Error{Err: err, Status: http.StatusServiceUnavailable, Code: "no_store", RetryAfter: time.Second}
	}
	return err
}

// Open finds the store. The store may also appear later.
func (n *queryNode) Open(ctx context.Context) (err error) {
	if n.store, n.release, err = acquireStore(n.pool, n.log, n.db, false); err != nil {
		return err
	}
	_, done, err := n.store.reader(ctx)
	switch {
	case errors.Is(err, trail.ErrNoStore):
		n.log.Warn("there is no store yet: queries fail until there is", "store", n.db)
		return nil
	case err != nil:
		return errors.Join(err, n.Close())
	}
	done()
	return nil
}

// Close releases the store.
func (n *queryNode) Close() error { return n.release() }
