package spec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/schema"
)

// Format writes a document in its canonical form: the current names, the common
// fields in their usual order, two spaces of indentation, and a blank line between
// specs. A file named .json stays JSON. Comments are kept. Formatting a formatted
// document changes nothing, and formatting never changes the meaning of a document.
//
// A document that cannot be read is not formatted: the list has the reason. Fields in
// a document with anchors keep their order, because an alias must come after its
// anchor.
func Format(doc Document) ([]byte, diag.List) {
	src, docs, roots, list := yamltree.Load(doc.File, doc.Data)
	for _, raw := range roots {
		if raw.Kind == schema.RawScalar && !isNull(raw) {
			d := diag.Errorf(diag.CodeNotSpec, "a document is a spec or a list of specs, not %s", raw.What())
			d.Pos = raw.Pos
			list.Add(d)
		}
	}
	if list.HasErrors() {
		list.Sort()
		return nil, list
	}
	pages := layout(src, docs)
	anchors := slices.ContainsFunc(pages, func(p *page) bool { return p.anchors })
	for _, p := range pages {
		if p.root != nil {
			p.root.specs(!anchors)
		}
	}
	var e emitter
	if strings.EqualFold(filepath.Ext(doc.File), ".json") && len(pages) == 1 && pages[0].root != nil && !anchors && !commented(src.Text) {
		e.json(pages[0].root, 0)
		e.out.WriteByte('\n')
	} else {
		e.pages(pages)
	}
	made := Document{File: doc.File, Data: e.out.Bytes()}
	if what := changed(doc, made); what != "" {
		return nil, diag.List{diag.Errorf(diag.CodeBug, "formatting would change %s, so the document was left as it is", what).
			WithHint("please report this document").At(diag.Pos{File: doc.File}, "")}
	}
	return made.Data, nil
}

// changed returns the first difference in the meaning of two documents.
func changed(before, after Document) string {
	a, found := Parse(before, ParseOptions{})
	b, left := Parse(after, ParseOptions{})
	if len(found) != len(left) {
		return "what is wrong with it"
	}
	if len(a) != len(b) {
		return "the number of specs"
	}
	for i := range a {
		if field := difference(a[i], b[i]); field != "" {
			return fmt.Sprintf("%s of node %q", field, a[i].title())
		}
	}
	return ""
}

// A cell is a value as it will be written.
type cell struct {
	node    *yaml.Node
	kind    yaml.Kind
	prefix  string   // anchor and tag
	text    string   // of a scalar or alias on one line; the header of a block
	block   []string // the lines of a block scalar, without indentation
	flow    bool     // a list or map in brackets
	entries []*entry
}

// An entry is a field of a map or an item of a list, with its comments.
type entry struct {
	key    string // as written; empty in a list
	name   string // the value of the key
	value  *cell
	parent *entry

	offset, line, col int // where it begins in the source

	head []string // comments and blank lines above
	eol  string   // the comment on its first line
	foot []string // comments and blank lines below that belong to it
}

// A page is one YAML document of a file.
type page struct {
	root    *cell
	first   int // the line on which it begins
	anchors bool
	tail    []string // comments after the last entry
}

// specs rewrites the specs of a document in the canonical form.
func (c *cell) specs(order bool) {
	switch c.kind {
	case yaml.MappingNode:
		c.spec(order)
	case yaml.SequenceNode:
		for _, e := range c.entries {
			if e.value.kind == yaml.MappingNode {
				e.value.spec(order)
				e.hoist()
			}
		}
	}
}

// hoist moves the comments above the first field of an item in front of the item,
// because they cannot be between the dash and the field.
func (e *entry) hoist() {
	if !e.value.flow && len(e.value.entries) > 0 && e.value.prefix == "" {
		first := e.value.entries[0]
		e.head = append(e.head, first.head...)
		first.head = nil
	}
}

func rank(name string) int {
	switch name {
	case "ports":
		return 100
	case "lifecycle":
		return 98
	case "links":
		return 99
	}
	if i := slices.Index(CommonFields(), name); i >= 0 {
		return i
	}
	return 50
}

func (c *cell) spec(order bool) {
	c.modernise()
	if order {
		written := slices.Clone(c.entries)
		slices.SortStableFunc(c.entries, func(a, b *entry) int { return rank(a.name) - rank(b.name) })
		for i, e := range c.entries {
			if e != written[i] && len(e.head) > 0 && e.head[0] == "" {
				e.head = e.head[1:] // the blank line before the moved field
			}
		}
	}
	if specs := c.field("specs"); specs != nil && specs.value.kind == yaml.SequenceNode {
		for _, e := range specs.value.entries {
			if e.value.kind == yaml.MappingNode && e.value.field("kind") != nil {
				e.value.spec(order)
				e.hoist()
			}
		}
	}
}

func (c *cell) field(name string) *entry {
	for _, e := range c.entries {
		if e.name == name && e.key != "" {
			return e
		}
	}
	return nil
}

func (c *cell) is(name, text string) bool {
	e := c.field(name)
	return e != nil && e.value.kind == yaml.ScalarNode && e.value.node != nil && e.value.node.Value == text
}

func (c *cell) set(text string) {
	if c.kind == yaml.ScalarNode {
		c.text, c.block, c.prefix = text, nil, ""
	}
}

// plainOrQuoted writes a string, in quotes if YAML would not read it as a string.
func plainOrQuoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == "" && s[0] != '-' {
		if doctree.Plain(s).Kind == doctree.String {
			return s
		}
	}
	return strconv.Quote(s)
}
