package spec

import (
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A NodeChange is a node that two versions of documents have not the same: one is nil if only the other
// version has it.
type NodeChange struct {
	Before, After *Node
	Fields        []FieldChange // of a node that both have
}

// A FieldChange is a field that differs. Null is one that is not there. The links of an out-port are a
// list of NODE:PORT.
type FieldChange struct {
	Path          string // within the node, such as "routes[1].path"
	Before, After value.Value
}

// Compare returns the nodes that differ in meaning: those that were removed or have changed, in the order
// of before, then those that were added. Nodes are the same by their ids; those without a name and an id,
// whose ids are their places, are the same if they mean the same, and then in the order of their kind.
func Compare(before, after []*Node) []NodeChange {
	pairs := match(before, after)
	taken := make(map[*Node]bool)
	var all []NodeChange
	for _, a := range before {
		b := pairs[a]
		if b == nil {
			all = append(all, NodeChange{Before: a})
			continue
		}
		taken[b] = true
		if fields := differences(a, b); len(fields) > 0 {
			all = append(all, NodeChange{a, b, fields})
		}
	}
	for _, b := range after {
		if !taken[b] {
			all = append(all, NodeChange{After: b})
		}
	}
	return all
}

// place reports whether the id of a node is its place.
func place(n *Node) bool { return n.Name == "" && !n.IDPos.IsValid() }

// match pairs the nodes of before with those of after.
func match(before, after []*Node) map[*Node]*Node {
	pairs := make(map[*Node]*Node)
	byID := make(map[string]*Node)
	byKind := make(map[string][]*Node)
	for _, b := range after {
		if place(b) {
			byKind[b.Kind] = append(byKind[b.Kind], b)
		} else if byID[b.ID] == nil {
			byID[b.ID] = b
		}
	}
	var left []*Node
	for _, a := range before {
		if !place(a) {
			if b := byID[a.ID]; b != nil {
				pairs[a] = b
				delete(byID, a.ID)
			}
			continue
		}
		i := slices.IndexFunc(byKind[a.Kind], func(b *Node) bool { return len(differences(a, b)) == 0 })
		if i < 0 {
			left = append(left, a)
			continue
		}
		pairs[a] = byKind[a.Kind][i]
		byKind[a.Kind] = slices.Delete(byKind[a.Kind], i, i+1)
	}
	for _, a := range left {
		if rest := byKind[a.Kind]; len(rest) > 0 {
			pairs[a], byKind[a.Kind] = rest[0], rest[1:]
		}
	}
	return pairs
}

// differences returns the fields in which two nodes differ, except for the id.
func differences(a, b *Node) (all []FieldChange) {
	add := func(path string, before, after value.Value) {
		all = append(all, FieldChange{path, before, after})
	}
	for _, f := range []struct{ path, before, after string }{
		{"kind", a.Kind, b.Kind}, {"namespace", a.Namespace, b.Namespace}, {"name", a.Name, b.Name},
	} {
		if f.before != f.after {
			add(f.path, textOrNull(f.before), textOrNull(f.after))
		}
	}
	if a.LifecycleTimeout != b.LifecycleTimeout {
		add("lifecycle.timeout", value.String(a.LifecycleTimeout.String()), value.String(b.LifecycleTimeout.String()))
	}
	each(notes(a), notes(b), func(name string, before, after value.Value) { add("annotations."+name, before, after) })
	each(bindings(a), bindings(b), func(name string, before, after value.Value) { add("env."+name, before, after) })
	each(targets(a), targets(b), func(name string, before, after value.Value) { add("ports."+name, before, after) })
	compareRaw(a.Config, b.Config, "", add)
	return all
}

func textOrNull(text string) value.Value {
	if text == "" {
		return value.Null()
	}
	return value.String(text)
}

// each calls yield for the fields in which two maps differ, in the order of a, then of b.
func each(a, b value.Value, yield func(name string, before, after value.Value)) {
	for name, before := range a.Fields() {
		after, _ := b.Get(name)
		if !same(before, after) {
			yield(name, before, after)
		}
	}
	for name, after := range b.Fields() {
		if _, ok := a.Get(name); !ok {
			yield(name, value.Null(), after)
		}
	}
}

func notes(n *Node) value.Value {
	var m value.MapBuilder
	for _, note := range n.Annotations {
		m.Set(note.Name, note.Value)
	}
	return m.Build()
}

func bindings(n *Node) value.Value {
	var m value.MapBuilder
	for _, b := range n.Env {
		m.Set(b.Key, value.Map(value.Field{Name: "id", Value: textOrNull(b.ID)}, value.Field{Name: "name", Value: textOrNull(b.Name)}, value.Field{Name: "data", Value: b.Data.ToValue()}))
	}
	return m.Build()
}

func targets(n *Node) value.Value {
	var m value.MapBuilder
	for _, p := range n.Ports {
		links := make([]value.Value, len(p.Links))
		for i, l := range p.Links {
			links[i] = value.String(l.Name + l.ID + ":" + l.Port)
		}
		m.Set(p.Name, value.List(links...))
	}
	return m.Build()
}

// compareRaw calls add for the parts in which two trees differ, as deep as both have the same form.
func compareRaw(a, b *schema.Raw, path string, add func(path string, before, after value.Value)) {
	switch {
	case sameRaw(a, b):
	case a != nil && b != nil && a.Kind == schema.RawMap && b.Kind == schema.RawMap:
		for _, f := range a.Fields {
			compareRaw(f.Value, b.Field(f.Name), within(path, f.Name), add)
		}
		for _, f := range b.Fields {
			if a.Field(f.Name) == nil {
				compareRaw(nil, f.Value, within(path, f.Name), add)
			}
		}
	case a != nil && b != nil && a.Kind == schema.RawList && b.Kind == schema.RawList && len(a.Items) == len(b.Items):
		for i := range a.Items {
			compareRaw(a.Items[i], b.Items[i], fmt.Sprintf("%s[%d]", path, i), add)
		}
	default:
		add(path, a.ToValue(), b.ToValue())
	}
}

func within(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
