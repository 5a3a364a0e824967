// Package markdown has a kind of its own module: it shows how a program gets kinds that are
// not in the repository of uniflow.
//
//	uniflow build --with github.com/uniflow-labs/uniflow/kinds/markdown -o uniflow-markdown
package markdown

import (
	"bytes"
	"errors"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// Defs returns the kinds of the package. The command build of uniflow looks for this
// function.
func Defs(stream.Options) []*node.Def {
	return []*node.Def{{
		Kind:    "markdown",
		Summary: "Turns Markdown into HTML.",
		Page: node.Page{
			Doc:     "The dialect is that of GitHub: tables, lists of tasks, links that are only addresses, and text that is struck out.",
			Example: "- {kind: markdown, name: page}\n",
		},
		Config: schema.Fields(
			schema.Bool("html").Doc("Keep HTML that is in the text. Without it, such tags are left out, so a text of anyone is safe to show."),
		),
		In:     []node.Port{{Name: "in", Doc: "Markdown, as a text."}},
		Out:    []node.Port{{Name: "out", Doc: "HTML, as a text."}},
		Recall: node.Always(node.Pure),
		New:    newNode,
	}}
}

func newNode(init *node.Init) (node.Node, error) {
	var options []goldmark.Option
	options = append(options, goldmark.WithExtensions(extension.GFM))
	if init.Config.Bool("html") {
		options = append(options, goldmark.WithRendererOptions(html.WithUnsafe()))
	}
	convert := goldmark.New(options...) // many processes share it
	return node.Func(func(_ node.Process, in value.Value) (value.Value, error) {
		text, ok := in.AsString()
		if !ok {
			return value.Value{}, node.Unusable("type", errors.New("want a text, got "+in.Kind().String()))
		}
		var b bytes.Buffer
		if err := convert.Convert([]byte(text), &b); err != nil {
			return value.Value{}, err
		}
		return value.String(b.String()), nil
	}), nil
}
