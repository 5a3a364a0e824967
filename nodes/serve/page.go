package serve

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"mime"
	"sync"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed page.md
var pagePage string

func pageDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "page",
		Summary: "Makes a page of HTML of a payload.",
		Page:    node.ReadPage(pagePage),
		Config: schema.Fields(
			schema.Text("text").Braces().Doc("The template."),
			schema.String("file").Doc("The file of the template, instead of `text`."),
			schema.String("layout").Doc("The file of the page that the template is a part of."),
			schema.Strings("partials").Doc("Files with more templates; patterns such as `parts/*.html` are allowed."),
			schema.Expr("data").Doc("What the template gets, made of the payload. Without it, the payload."),
			schema.Int("status").Default(200).Range(200, 599).Doc("The status of the answer."),
			schema.String("content_type").Default("text/html; charset=utf-8").Doc("The media type of the answer. Whatever it is, the template is one of HTML."),
			schema.Bytes("max_bytes").Default("8MiB").Range(1, 1<<30).Doc("Longest page; a longer one is an error."),
		),
		In:      []node.Port{{Name: "in", Doc: "What the page is made of."}},
		Out:     []node.Port{{Name: "out", Doc: "The answer, with the page as its body."}},
		OpenAPI: pageOpenAPI,
		Recall:  node.Always(node.Pure),
		New:     func(init *node.Init) (node.Node, error) { return newPage(init, o) },
	}
}

// A page makes pages of payloads.
type page struct {
	set    *template.Template // the one to execute, with all that it uses
	data   lang.Program       // nil is the payload
	status value.Value
	header value.Value
	limit  int
}

func newPage(init *node.Init, o stream.Options) (node.Node, error) {
	c := init.Config
	n := &page{
		status: value.Int(c.Int("status")),
		header: value.Map(value.Field{Name: "Content-Type", Value: value.String(c.String("content_type"))}),
		limit:  int(c.Int("max_bytes")),
	}
	_, _, err := mime.ParseMediaType(c.String("content_type"))
	if err != nil {
		return nil, c.Errorf("content_type", diag.CodeBadValue, "want a media type").WithHint("write one such as text/html; charset=utf-8")
	}
	if n.data, err = o.Expr(c, "data", lang.Options{Warn: init.Warn}); err != nil {
		return nil, err
	}
	n.set, err = parsePage(c)
	return n, err
}

func (n *page) Receive(p node.Process, pkt node.Packet) node.Result {
	body, err := n.render(p.Context(), pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	return node.Send(0, value.Map(
		value.Field{Name: "status", Value: n.status},
		value.Field{Name: "header", Value: n.header},
		value.Field{Name: "body", Value: value.String(body)},
	))
}

func (n *page) render(ctx context.Context, payload value.Value) (string, error) {
	data := payload
	if n.data != nil {
		var err error
		if data, err = n.data.Eval(ctx, payload); err != nil {
			return "", fmt.Errorf("data: %w", err)
		}
	}
	buffer := pages.Get().(*bytes.Buffer)
	defer func() {
		if buffer.Cap() <= maxPooled {
			pages.Put(buffer)
		}
	}()
	buffer.Reset()
	if err := n.set.Execute(&boundedWriter{ctx, buffer, n.limit}, plain(data)); err != nil {
		if errors.Is(err, errTooLong) {
			return "", fmt.Errorf("the page is longer than max_bytes, which is %d", n.limit)
		}
		return "", err
	}
	return buffer.String(), nil
}

// maxPooled is the largest buffer, in bytes, that is kept for the next page.
const maxPooled = 256 << 10

var pages = sync.Pool{New: func() any { return new(bytes.Buffer) }}

var errTooLong = errors.New("too long")

// A boundedWriter takes a number of bytes, until a context ends.
type boundedWriter struct {
	ctx  context.Context
	to   io.Writer
	left int
}

func (w *boundedWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errTooLong
	}
	if err := w.ctx.Err(); err != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.to.Write(p)
}

// plain returns a payload as templates read it: an error by its fields.
func plain(v value.Value) any {
	if v.IsError() {
		v = value.ErrorMap(v)
	}
	return v.Go()
}

// pageOpenAPI describes the answers of a node.
func pageOpenAPI(c schema.Config) value.Value {
	content := openapi.Object(c.String("content_type"), openapi.Object("schema", openapi.Object("type", "string")))
	return openapi.Object("responses", openapi.Object(
		fmt.Sprint(c.Int("status")), openapi.Object("description", "A page.", "content", content),
	))
}
