package language

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/reference"
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A Class is what an [Item] is.
type Class uint8

// The classes of items.
const (
	ClassKind Class = iota
	ClassField
	ClassWord
	ClassNode
	ClassPort
	ClassVariable
)

// An Item is something that can be written at a place.
type Item struct {
	Label  string
	Class  Class
	Detail string // a few words
	Doc    string // Markdown
	Edit   Edit

	// Stops are the byte offsets in Edit.Text where the author goes on, in this order; none is at its end.
	Stops []int
}

// Complete returns what can be written at a place, the most likely first. An editor filters it by what is
// written already.
func (w *Workspace) Complete(at diag.Pos) []Item {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.texts[at.File]
	if t == nil {
		return nil
	}
	s, ok := t.spotAt(at)
	if !ok {
		return nil
	}
	c := &completion{Workspace: w, text: t, spot: s, seen: make(map[string]bool)}
	c.in, c.path = s.spec()
	if c.in == nil {
		return nil
	}
	c.fill()
	return c.items
}

// A completion collects items.
type completion struct {
	*Workspace
	*text
	spot

	in    *doctree.Node // the spec
	path  []step        // from the spec
	items []Item
	seen  map[string]bool // by label
}

func (c *completion) fill() {
	kind := word(c.in, "kind")
	g := c.grammarOf(c.text.File, kind)
	if c.key && len(c.path) == 1 && !given(c.in, "kind") {
		c.add(Item{Label: "kind", Class: ClassField, Detail: "required", Doc: "What the node is."}, "kind: ")
	}
	way := c.path
	if c.key {
		way = way[:len(way)-1]
	}
	if c.names(way) {
		return
	}
	schemas := g.at(kind, way)
	if c.key {
		c.fields(g, schemas, c.path[len(c.path)-1].in)
		if len(way) == 1 && way[0].key == "ports" {
			c.indexed(kind, c.path[len(c.path)-1].in)
		}
	}
	if !c.key || c.alone {
		for _, word := range words(schemas) {
			c.add(Item{Label: word, Class: ClassWord}, scalar(word))
		}
	}
}

// add adds an item that is written as text in place of the word.
func (c *completion) add(item Item, text string) {
	if c.seen[item.Label] {
		return
	}
	c.seen[item.Label] = true
	item.Edit = Edit{c.Range, text}
	c.items = append(c.items, item)
}

// fields adds the fields that a map can have: those that it must have, its other own ones, and those that
// all specs have.
func (c *completion) fields(g *grammar, schemas []value.Value, in *doctree.Node) {
	common := spec.CommonFields()
	rank := func(s value.Value, name string) int {
		switch {
		case hasText(s, "required", name):
			return 0
		case in == c.in && slices.Contains(common, name):
			return 2
		}
		return 1
	}
	for at := range 3 {
		for _, s := range schemas {
			properties, _ := s.Get("properties")
			for name, f := range properties.Fields() {
				if given(in, name) && name != c.spot.text || rank(s, name) != at {
					continue
				}
				of := g.plain(f, nil)
				if slices.ContainsFunc(of, func(s value.Value) bool { old, _ := s.Get("deprecated"); return old.Truth() }) {
					continue
				}
				detail := about(of)
				if at == 0 {
					detail = strings.TrimPrefix(detail+", required", ", ")
				}
				text := name
				if !strings.HasPrefix(c.after(), ":") {
					text += ": "
				}
				c.add(Item{Label: name, Class: ClassField, Detail: detail, Doc: describe(of)}, text)
			}
		}
	}
}

// after returns what stands behind the word in its line.
func (c *completion) after() string {
	line := []rune(c.src().Line(c.To.Line))
	return string(line[min(c.To.Col-1, len(line)):])
}

// indexed adds the next of the ports that a kind has several of, such as out[2].
func (c *completion) indexed(kind string, in *doctree.Node) {
	def := c.def(c.text.File, kind)
	if def == nil {
		return
	}
	for _, p := range def.Out {
		if p.Indexes == nil {
			continue
		}
		next := 0
		for _, f := range in.Fields {
			if strings.HasPrefix(f.Name, p.Name+"[") || f.Name == p.Name {
				next++
			}
		}
		name := fmt.Sprintf("%s[%d]", p.Name, next)
		text := name
		if c.flow {
			text = `"` + name + `"`
		}
		c.add(Item{Label: name, Class: ClassPort, Doc: p.Doc}, text+": ")
	}
}

// names adds names that stand elsewhere: kinds, nodes, in-ports and variables. It reports whether the spot
// takes nothing else.
func (c *completion) names(way []step) bool {
	switch {
	case len(way) == 1 && way[0].key == "kind" && !c.key:
		c.kindNames()
	case len(way) == 3 && way[0].key == "env" && way[2].key == "name" && !c.key:
		for _, v := range c.opts.Variables() {
			c.add(Item{Label: v.Name, Class: ClassVariable}, scalar(v.Name))
		}
	case linked(way) == "node" && (!c.key || c.alone):
		c.targets()
		return !c.alone && !c.key
	case linked(way) == "port" && !c.key:
		c.inPorts(way[len(way)-1].in)
	default:
		return false
	}
	return true
}

// linked says what the end of a way names, if it is in a link: a node, or a port of it.
func linked(way []step) string {
	if len(way) < 2 || way[0].key != "ports" && way[0].key != "inbounds" && way[0].key != "outbounds" {
		return ""
	}
	rest := way[2:]
	if len(rest) > 0 && rest[0].index >= 0 {
		rest = rest[1:]
	}
	switch {
	case len(rest) == 0, len(rest) == 1 && rest[0].key == "name":
		return "node"
	case len(rest) == 1 && rest[0].key == "port":
		return "port"
	}
	return ""
}

// kindNames adds the kinds, each with the fields that it must have.
func (c *completion) kindNames() {
	indent := ""
	if !c.flow && len(c.in.Fields) == 1 && c.after() == "" {
		indent = "\n" + strings.Repeat(" ", max(0, c.in.Pos.Column-1))
	}
	for _, def := range c.defs(c.text.File) {
		item := Item{Label: def.Kind, Class: ClassKind, Detail: def.Summary, Doc: def.Doc}
		text := def.Kind
		if indent != "" {
			for _, name := range c.grammarOf(c.text.File, def.Kind).required(def.Kind) {
				text += indent + name + ": "
				item.Stops = append(item.Stops, len(text))
			}
		}
		c.add(item, text)
	}
}

// targets adds the nodes that a link here can lead to.
func (c *completion) targets() {
	own := c.own()
	namespace, inner := c.opts.Namespace, false
	if n := word(c.in, "namespace"); n != "" {
		namespace = n
	}
	for _, s := range c.spot.path {
		inner = inner || s.key == "specs"
	}
	for _, t := range c.related(c.text.File, c.known) {
		for _, n := range c.known(t) {
			switch {
			case n.Name == "" || strings.HasPrefix(n.Name, "$") || c.Workspace.kinds.IsTemplate(n.Kind):
				continue
			case inner && (n.Outer == nil || n.Pos.File != c.text.File || n.Pos.Line < own.From.Line || n.Pos.Line > own.To.Line):
				continue
			case !inner && (n.Outer != nil || n.Namespace != namespace):
				continue
			}
			def := c.def(c.text.File, n.Kind)
			if def != nil && len(def.In) == 0 && n.Boundary == nil {
				continue // it starts processes
			}
			detail := n.Kind
			if t != c.text {
				detail += ", " + filepath.Base(t.File)
			}
			item := Item{Label: n.Name, Class: ClassNode, Detail: detail}
			if def != nil {
				item.Doc = def.Summary
			}
			c.add(item, scalar(n.Name))
		}
	}
}

// own is the spec of the document that the spot is in.
func (c *completion) own() Range {
	first, last := c.block(c.From.Line)
	return Range{c.pos(first, 1), c.pos(last, 1)}
}

// inPorts adds the in-ports of the node that a link names.
func (c *completion) inPorts(link *doctree.Node) {
	name, id := word(link, "name"), word(link, "id")
	for _, t := range c.related(c.text.File, c.known) {
		for _, n := range c.known(t) {
			if (name == "" || n.Name != name) && (id == "" || n.ID != id) {
				continue
			}
			if n.Boundary != nil {
				for _, p := range n.Boundary.In {
					c.add(Item{Label: p.Name, Class: ClassPort}, scalar(p.Name))
				}
			}
			if def := c.def(c.text.File, n.Kind); def != nil {
				for _, p := range def.In {
					c.add(Item{Label: p.Name, Class: ClassPort, Doc: p.Doc}, scalar(p.Name))
				}
			}
			return
		}
	}
}

// scalar writes a word of a schema as YAML: with quotes where it would be something else.
func scalar(word string) string {
	if plain().MatchString(word) {
		return word
	}
	return fmt.Sprintf("%q", word)
}

var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\p{L}\p{N}_./][\p{L}\p{N}_./ -]*$`) })

func hasText(s value.Value, list, word string) bool {
	l, _ := s.Get(list)
	for _, v := range l.Elems() {
		if text, _ := v.AsString(); text == word {
			return true
		}
	}
	return false
}

// defs returns the kinds that a file can use: those of the program, and templates.
func (w *Workspace) defs(file string) []*node.Def {
	all := slices.Clone(w.opts.Kinds)
	for _, t := range w.related(file, w.known) {
		w.known(t)
		all = append(all, t.templates...)
	}
	slices.SortStableFunc(all, func(a, b *node.Def) int { return strings.Compare(a.Kind, b.Kind) })
	return all
}

// def returns a kind that a file can use, nil if there is none of the name.
func (w *Workspace) def(file, kind string) *node.Def {
	if def, ok := w.kinds.Kind(kind); ok {
		return def
	}
	for _, t := range w.related(file, w.known) {
		w.known(t)
		for _, def := range t.templates {
			if def.Kind == kind {
				return def
			}
		}
	}
	return nil
}

// grammarOf returns the grammar that has a kind: that of the kinds of the program, or one of a template.
func (w *Workspace) grammarOf(file, kind string) *grammar {
	if _, ok := w.kinds.Kind(kind); ok || kind == "" {
		return w.schema()
	}
	if def := w.def(file, kind); def != nil {
		return newGrammar([]*node.Def{def})
	}
	return w.schema()
}

// Hover returns what the word at a place means, in Markdown; ok is false if nothing is known of it.
func (w *Workspace) Hover(at diag.Pos) (r Range, doc string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.texts[at.File]
	if t == nil {
		return Range{}, "", false
	}
	if u, _, ok := w.useAt(at); ok {
		if u.of != nil {
			return u.Range, "variable **" + u.of.Name + "**" + place(u.of.Pos), true
		}
		return u.Range, w.hoverNode(at.File, u), true
	}
	s, ok := t.spotAt(at)
	in, path := s.spec()
	if !ok || in == nil {
		return Range{}, "", false
	}
	kind := word(in, "kind")
	if len(path) == 1 && path[0].key == "kind" && !s.key {
		kind = s.text
		if def := w.def(at.File, kind); def != nil {
			return s.Range, kindDoc(def), true
		}
		return Range{}, "", false
	}
	if linked(path) == "port" && !s.key {
		c := &completion{Workspace: w, text: t, spot: s, seen: make(map[string]bool)}
		c.inPorts(path[len(path)-1].in)
		for _, item := range c.items {
			if item.Label == s.text && item.Doc != "" {
				return s.Range, "**" + item.Label + "** " + item.Doc, true
			}
		}
		return Range{}, "", false
	}
	schemas := w.grammarOf(at.File, kind).at(kind, path)
	doc = describe(schemas)
	if doc == "" {
		return Range{}, "", false
	}
	name := path[len(path)-1].key
	if name == "" && len(path) > 1 {
		name = path[len(path)-2].key
	}
	heading := "**" + name + "**"
	if a := about(schemas); a != "" {
		heading += " " + a
	}
	return s.Range, heading + "\n\n" + doc, true
}

// hoverNode describes the node that a name means.
func (w *Workspace) hoverNode(file string, u use) string {
	n := u.node
	text := "**" + n.Name + "** " + n.Kind + place(n.Pos)
	if def := w.def(file, n.Kind); def != nil {
		text += "\n\n" + def.Summary
	}
	return text
}

// kindDoc is the page of a kind, without its heading and fields.
func kindDoc(def *node.Def) string {
	k := reference.Describe(def)
	text := "**" + k.Kind + "** " + k.Summary
	if k.Doc != "" {
		text += "\n\n" + strings.TrimSpace(k.Doc)
	}
	if k.Example != "" {
		text += "\n\n```yaml\n" + strings.TrimSpace(k.Example) + "\n```"
	}
	return text
}

func place(at diag.Pos) string {
	if !at.IsValid() {
		return ""
	}
	return ", " + diag.Pos{File: filepath.Base(at.File), Line: at.Line, Col: at.Col}.String()
}
