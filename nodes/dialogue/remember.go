package dialogue

import (
	_ "embed"
	"fmt"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/session"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed remember.md
var rememberPage string

func rememberDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "remember",
		Summary: "Changes what the session has.",
		Page:    node.ReadPage(rememberPage),
		Config: schema.Fields(
			schema.Any("set").Doc("A map of values to set. One whose expression is null is left as it is."),
			schema.Any("append").Doc("A map of what to put at the end of lists: an item, or a list of them."),
			schema.Int("most").Default(100).Range(1, 1_000_000).Doc("The most items of a list that was appended to; the first ones go."),
			schema.Strings("forget").Doc("Names of values to remove."),
			schema.Bool("clear").Doc("Removes all values first: with nothing set after it, the session ends."),
		),
		In:     in("A payload."),
		Out:    out("The same."),
		Recall: node.Always(node.Pure),
		Traits: node.Fixed(node.Traits{Is: node.Inside, Needs: []node.Need{session.Needed("")}}),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n := &rememberNode{most: int(c.Int("most")), forget: c.Strings("forget"), clear: c.Bool("clear")}
			if !c.Has("set") && !c.Has("append") && len(n.forget) == 0 && !n.clear {
				return nil, c.Errorf("", diag.CodeBadNode, "it remembers nothing").WithHint("add one such as set: {name: '${self.name}'}, or append, forget or clear")
			}
			var err error
			if n.set, err = mapOfField(c, "set", o); err != nil {
				return nil, err
			}
			n.add, err = mapOfField(c, "append", o)
			return n, err
		},
	}
}

func mapOfField(c schema.Config, name string, o stream.Options) (t template.Template, err error) {
	if raw := c.Raw(name); raw != nil && raw.Kind != schema.RawMap {
		return t, c.Errorf(name, diag.CodeBadValue, "is not a map").WithHint("want names and values, such as {name: \"${self.name}\"}")
	}
	return template.OfField(c, name, template.Compiler(o.Languages, o.Language))
}

// A rememberNode is a node of kind remember.
type rememberNode struct {
	set, add template.Template // make maps, or null
	most     int
	forget   []string
	clear    bool
}

// Receive changes the session.
func (n *rememberNode) Receive(p node.Process, pkt node.Packet) node.Result {
	s, ok := session.Of(p)
	if !ok {
		return node.Fail(errNoSession)
	}
	set, _, err := n.set.Render(p.Context(), pkt.Payload)
	if err != nil {
		return node.Fail(fmt.Errorf("set: %w", err))
	}
	add, _, err := n.add.Render(p.Context(), pkt.Payload)
	if err != nil {
		return node.Fail(fmt.Errorf("append: %w", err))
	}
	if n.clear {
		s.Clear()
	}
	for _, name := range n.forget {
		s.Set(name, value.Null())
	}
	for name, v := range set.Fields() {
		s.Set(name, v.Clone()) // it stays
	}
	for name, v := range add.Fields() {
		s.Append(name, n.most, itemsOf(v.Clone())...)
	}
	return node.Send(0, pkt.Payload)
}

// itemsOf returns the items that a value stands for.
func itemsOf(v value.Value) []value.Value {
	if v.Kind() != value.KindList {
		return []value.Value{v}
	}
	items := make([]value.Value, 0, v.Len())
	for _, item := range v.Elems() {
		items = append(items, item)
	}
	return items
}
