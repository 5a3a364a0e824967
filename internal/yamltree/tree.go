// Package yamltree makes trees of [schema.Raw], and findings, of what package doctree
// reads from YAML and JSON.
package yamltree

import (
	"go.yaml.in/yaml/v4"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// MaxSize is how many bytes a document may have.
const MaxSize = 16 << 20

// source returns the source of a document, bounded far above what a person writes.
func source(file string, data []byte) *doctree.Source {
	return doctree.New(file, data, doctree.Limits{Size: MaxSize, Values: 525_000})
}

// Read returns the trees of the YAML documents of a file, one for each that is not
// empty.
func Read(file string, data []byte) ([]*schema.Raw, diag.List) {
	b := &builder{src: source(file, data)}
	b.list = append(findings(b.src, b.src.Build(b)), b.list...)
	return b.roots, b.list
}

// Load is Read that also returns the source, and what the YAML parser made of it.
func Load(file string, data []byte) (*doctree.Source, []*yaml.Node, []*schema.Raw, diag.List) {
	b := &builder{src: source(file, data)}
	docs, errs := b.src.Load()
	b.list = append(findings(b.src, append(errs, b.src.Walk(docs, b)...)), b.list...)
	return b.src, docs, b.roots, b.list
}

var codes = [...]diag.Code{
	doctree.BadSyntax: diag.CodeYAML, doctree.TooLarge: diag.CodeLimit, doctree.BadAlias: diag.CodeAlias,
	doctree.BadKey: diag.CodeKey, doctree.DuplicateKey: diag.CodeDuplicateKey, doctree.BadScalar: diag.CodeScalar,
}

// findings makes findings of errors.
func findings(src *doctree.Source, errs []*doctree.Error) diag.List {
	var list diag.List
	for _, e := range errs {
		list.Add(&diag.Diagnostic{
			Code: codes[e.Kind], Severity: diag.SeverityError, Pos: place(src, e.Pos), Pointer: e.Pointer, Msg: e.Msg, Hint: e.Hint,
		})
	}
	return list
}

func place(src *doctree.Source, at doctree.Pos) diag.Pos {
	return diag.Pos{File: src.File, Line: at.Line, Col: at.Column}
}

// A builder makes trees of what a source holds.
type builder struct {
	src   *doctree.Source
	list  diag.List
	roots []*schema.Raw
	open  []container
}

// A container is a list or map that has not ended.
type container struct {
	raw   *schema.Raw
	spare []schema.Raw // for its entries
}

func (c *container) next() *schema.Raw {
	if len(c.spare) == 0 {
		return new(schema.Raw)
	}
	raw := &c.spare[0]
	c.spare = c.spare[1:]
	return raw
}

// next returns the tree of the next value.
func (b *builder) next() *schema.Raw {
	if len(b.open) == 0 {
		b.roots = append(b.roots, new(schema.Raw))
		return b.roots[len(b.roots)-1]
	}
	c := &b.open[len(b.open)-1]
	if in := c.raw; in.Kind == schema.RawMap {
		return in.Fields[len(in.Fields)-1].Value
	}
	raw := c.next()
	raw.Pointer = doctree.PointerAt(c.raw.Pointer, len(c.raw.Items))
	c.raw.Items = append(c.raw.Items, raw)
	return raw
}

func (b *builder) Begin(kind doctree.Kind, at doctree.Pos, entries int) {
	raw := b.next()
	raw.Pos = place(b.src, at)
	if kind == doctree.List {
		raw.Kind, raw.Items = schema.RawList, make([]*schema.Raw, 0, entries)
	} else {
		raw.Kind, raw.Fields = schema.RawMap, make([]schema.RawField, 0, entries)
	}
	b.open = append(b.open, container{raw, make([]schema.Raw, entries)})
}

func (b *builder) Key(name string, at doctree.Pos) {
	c := &b.open[len(b.open)-1]
	raw := c.next()
	raw.Pointer = doctree.Pointer(c.raw.Pointer, name)
	c.raw.Fields = append(c.raw.Fields, schema.RawField{Name: name, Pos: place(b.src, at), Value: raw})
}

func (b *builder) End(bool) { b.open = b.open[:len(b.open)-1] }

func (b *builder) Scalar(n *doctree.Node) {
	raw := b.next()
	raw.Pos = place(b.src, n.Pos)
	var parts []diag.Part
	start := b.src.Parts(n, func(offset int, at doctree.Pos) {
		parts = append(parts, diag.Part{Offset: offset, Pos: place(b.src, at)})
	})
	raw.Text = diag.NewFoldedText(n.Text, b.src.File, place(b.src, start), parts)
	raw.Value = Value(n)
	if n.Kind == doctree.BigInt {
		b.list.Add(diag.Errorf(diag.CodeScalar, "the integer does not fit 64 bits").WithHint("put quotes around it, or write it as 1e30").At(raw.Pos, ""))
		b.list[len(b.list)-1].Pointer = raw.Pointer
	}
}

// Value returns the value of a scalar; null for an integer beyond 64 bits.
func Value(n *doctree.Node) value.Value {
	switch n.Kind {
	case doctree.Bool:
		return value.Bool(n.Bool())
	case doctree.Int:
		return value.Int(n.Int())
	case doctree.Uint:
		return value.Uint(n.Uint())
	case doctree.Float:
		return value.Float(n.Float())
	case doctree.String:
		return value.String(n.Text)
	case doctree.Binary:
		return value.Binary(n.Binary())
	}
	return value.Null()
}
