package events

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/trail/query"
	"github.com/uniflow-labs/uniflow/value"
)

// A queryTree is the query of a config as package query reads it. The line of each
// node is the number of its place, from 1.
type queryTree struct {
	root   doctree.Node
	places []place
}

// A place is where a key or a value is in the workflow.
type place struct {
	pos           diag.Pos
	pointer, path string // the path is such as ".funnel.steps[0]"
}

// newQueryTree makes the tree of a document. unescape is called for each text.
func newQueryTree(doc *schema.Raw, unescape func(string) string) *queryTree {
	t := &queryTree{}
	t.add(doc, "", unescape, &t.root)
	return t
}

func (t *queryTree) at(p place) doctree.Pos {
	t.places = append(t.places, p)
	return doctree.Pos{Line: len(t.places), Column: 1}
}

func (t *queryTree) add(doc *schema.Raw, path string, unescape func(string) string, to *doctree.Node) {
	at := t.at(place{doc.Pos, doc.Pointer, path})
	switch doc.Kind {
	case schema.RawMap:
		to.Kind = doctree.Map
		to.Fields = make([]doctree.Field, len(doc.Fields))
		for i, f := range doc.Fields {
			inner := path + "." + f.Name
			to.Fields[i] = doctree.Field{Name: f.Name, Pos: t.at(place{f.Pos, f.Value.Pointer, inner})}
			t.add(f.Value, inner, unescape, &to.Fields[i].Value)
		}
	case schema.RawList:
		to.Kind = doctree.List
		to.Items = make([]doctree.Node, len(doc.Items))
		for i, item := range doc.Items {
			t.add(item, path+"["+strconv.Itoa(i)+"]", unescape, &to.Items[i])
		}
	default:
		if text, ok := doc.Value.AsString(); ok {
			*to = doctree.Node{Kind: doctree.String, Text: unescape(text)}
		} else {
			setNode(to, doc.Value)
		}
	}
	to.Pos = at
}

// locate finds the place of an error.
func (t *queryTree) locate(d *diag.Diagnostic, in query.Pos) {
	at := t.places[in.Line-1]
	if at.pos.IsValid() {
		d.Pos = at.pos
	}
	if at.pointer != "" {
		d.Pointer = at.pointer
	}
	d.Path += at.path
}

// setNode makes the tree of a value, without places. exact is false if a number in it
// is NaN or infinite: YAML has these, but a query does not, so they become text.
func setNode(to *doctree.Node, v value.Value) (exact bool) {
	exact = true
	switch v.Kind() {
	case value.KindMap:
		to.Kind = doctree.Map
		to.Fields = make([]doctree.Field, 0, v.Len())
		for name, field := range v.Fields() {
			to.Fields = append(to.Fields, doctree.Field{Name: name})
			exact = setNode(&to.Fields[len(to.Fields)-1].Value, field) && exact
		}
	case value.KindList:
		to.Kind = doctree.List
		to.Items = make([]doctree.Node, v.Len())
		for i, item := range v.Elems() {
			exact = setNode(&to.Items[i], item) && exact
		}
	case value.KindString:
		*to = doctree.Node{Kind: doctree.String, Text: v.String()}
	default:
		text, err := v.AppendJSON(nil)
		if err != nil {
			exact = false
			text = strconv.AppendQuote(nil, v.String())
		}
		if *to = doctree.Plain(string(text)); strings.HasPrefix(to.Text, `"`) && json.Unmarshal(text, &to.Text) != nil {
			to.Text = v.String()
		}
	}
	return exact
}
