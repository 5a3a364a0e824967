package language

import (
	"regexp"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/cli/reference"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A grammar is the JSON Schema of documents, for walking along the way to a spot.
type grammar struct {
	root, defs value.Value
}

func newGrammar(kinds []*node.Def) *grammar {
	data, err := reference.Schema(kinds)
	if err != nil {
		panic("language: no schema of the kinds: " + err.Error()) // a test of package reference makes it of all
	}
	root, err := value.ParseJSON(data)
	if err != nil {
		panic("language: the schema is not JSON: " + err.Error())
	}
	g := &grammar{root: root}
	g.defs, _ = root.Get("$defs")
	return g
}

// spec returns the schema of the specs of a kind, or of any kind.
func (g *grammar) spec(kind string) value.Value {
	for _, name := range []string{kind, "spec"} {
		if s, ok := g.defs.Get(name); ok {
			return s
		}
	}
	return value.Null()
}

// at returns the schemas of what a way leads to, from a spec of a kind.
func (g *grammar) at(kind string, path []step) []value.Value {
	all := g.plain(g.spec(kind), nil)
	for _, st := range path {
		var next []value.Value
		for _, s := range all {
			if below, ok := g.below(s, st); ok {
				next = g.plain(below, next)
			}
		}
		all = next
	}
	return all
}

// plain appends a schema without references and choices.
func (g *grammar) plain(s value.Value, to []value.Value) []value.Value {
	if ref, ok := textOf(s, "$ref"); ok {
		if target, found := g.defs.Get(strings.TrimPrefix(ref, "#/$defs/")); found {
			if doc, ok := s.Get("description"); ok {
				target = target.With("description", doc)
			}
			return g.plain(target, to)
		}
		return to
	}
	to = append(to, s)
	for _, choice := range []string{"anyOf", "oneOf"} {
		list, _ := s.Get(choice)
		for _, one := range list.Elems() {
			to = g.plain(one, to)
		}
	}
	for _, branch := range []string{"then", "else"} { // of the older listener
		if one, ok := s.Get(branch); ok {
			to = g.plain(one, to)
		}
	}
	return to
}

// below returns the schema of a field or an entry.
func (g *grammar) below(s value.Value, st step) (value.Value, bool) {
	if st.index >= 0 {
		return s.Get("items")
	}
	properties, _ := s.Get("properties")
	if f, ok := properties.Get(st.key); ok {
		return f, true
	}
	patterns, _ := s.Get("patternProperties")
	for pattern, f := range patterns.Fields() {
		if match, err := regexp.MatchString(pattern, st.key); err == nil && match {
			return f, true
		}
	}
	if f, ok := s.Get("additionalProperties"); ok && f.Kind() == value.KindMap {
		return f, true
	}
	return value.Null(), false
}

func textOf(s value.Value, name string) (string, bool) {
	f, _ := s.Get(name)
	return f.AsString()
}

// describe returns the first description among schemas.
func describe(schemas []value.Value) string {
	for _, s := range schemas {
		if doc, ok := textOf(s, "description"); ok {
			return doc
		}
	}
	return ""
}

// about returns the type, the default and the bounds that a schema has, in a few words.
func about(schemas []value.Value) string {
	var types, more []string
	add := func(list *[]string, word string) {
		for _, w := range *list {
			if w == word {
				return
			}
		}
		*list = append(*list, word)
	}
	for _, s := range schemas {
		t, _ := s.Get("type")
		for _, one := range t.Elems() {
			if name, _ := one.AsString(); name != "null" {
				add(&types, name)
			}
		}
		if name, ok := t.AsString(); ok && name != "null" {
			add(&types, name)
		}
		if d, ok := s.Get("default"); ok {
			if text, isText := d.AsString(); isText && text != "" {
				add(&more, "default "+text)
			} else {
				add(&more, "default "+d.String())
			}
		}
	}
	return strings.Join(append([]string{strings.Join(types, " or ")}, more...), ", ")
}

// words returns the words that schemas allow, in their order.
func words(schemas []value.Value) (all []string) {
	add := func(v value.Value) {
		switch text, ok := v.AsString(); {
		case ok:
			all = append(all, text)
		case v.Kind() != value.KindNull:
			all = append(all, v.String())
		}
	}
	for _, s := range schemas {
		if old, _ := s.Get("deprecated"); old.Truth() {
			continue
		}
		enum, _ := s.Get("enum")
		for _, v := range enum.Elems() {
			add(v)
		}
		if examples, ok := s.Get("examples"); ok {
			for _, v := range examples.Elems() {
				add(v)
			}
		}
		if v, ok := s.Get("const"); ok {
			add(v)
		}
		if name, _ := textOf(s, "type"); name == "boolean" {
			all = append(all, "true", "false")
		}
	}
	return all
}

// required returns the fields of its own that specs of a kind must have, in order.
func (g *grammar) required(kind string) (names []string) {
	list, _ := g.spec(kind).Get("required")
	for _, v := range list.Elems() {
		if name, _ := v.AsString(); name != "kind" {
			names = append(names, name)
		}
	}
	return names
}
