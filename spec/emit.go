package spec

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
)

// flowWidth is the longest list or map, in bytes, that stays in brackets on one line.
const flowWidth = 100

type emitter struct{ out bytes.Buffer }

// pages writes all pages. The comments of a page without anything else move to the
// next page.
func (e *emitter) pages(pages []*page) {
	var carried []string
	written := 0
	for i, p := range pages {
		if p.empty() && i < len(pages)-1 {
			carried = append(carried, p.tail...)
			continue
		}
		if p.empty() && len(p.tail) == 0 && len(carried) == 0 {
			continue
		}
		if written > 0 && !p.empty() {
			e.out.WriteString("---\n")
		}
		written++
		for _, line := range carried {
			e.line(0, line)
		}
		carried = nil
		if !p.empty() {
			e.root(p.root)
		}
		for _, line := range p.tail {
			if line != "" || e.out.Len() > 0 {
				e.line(0, line)
			}
		}
	}
}

func (p *page) empty() bool {
	return p.root == nil || p.root.kind == yaml.ScalarNode && p.root.text == "" && p.root.prefix == ""
}

// root writes the value of a page, with blank lines between specs.
func (e *emitter) root(c *cell) {
	if len(c.entries) == 0 || c.onOneLine() && c.kind != yaml.SequenceNode {
		e.inline(c, 0)
		return
	}
	if c.prefix != "" {
		e.out.WriteString(strings.TrimSpace(c.prefix) + "\n")
	}
	for i, entry := range c.entries {
		if i > 0 && c.kind == yaml.SequenceNode && entry.value.kind == yaml.MappingNode && (len(entry.head) == 0 || entry.head[0] != "") && !slices.Contains(entry.head, "") {
			entry.head = append([]string{""}, entry.head...)
		}
		e.entry(c, entry, i, 0)
	}
}

func (e *emitter) line(indent int, text string) {
	if text != "" {
		e.indent(indent)
		e.out.WriteString(text)
	}
	e.out.WriteByte('\n')
}

func (e *emitter) indent(n int) {
	for range n {
		e.out.WriteByte(' ')
	}
}

// entry writes entry number i of a list or map.
func (e *emitter) entry(c *cell, x *entry, i, indent int) {
	for k, line := range x.head {
		if line == "" && i == 0 && k == 0 {
			continue // no blank line at the beginning
		}
		e.line(indent, line)
	}
	e.indent(indent)
	e.rest(c, x, indent)
	for _, line := range x.foot {
		e.line(indent, line)
	}
}

// rest writes an entry from its dash or key on.
func (e *emitter) rest(c *cell, x *entry, indent int) {
	item := c.kind == yaml.SequenceNode
	if item {
		e.out.WriteByte('-')
	} else {
		e.out.WriteString(x.key + ":")
	}
	v := x.value
	if len(v.entries) == 0 || v.onOneLine() {
		if v.text != "" || v.prefix != "" || v.kind != yaml.ScalarNode {
			e.out.WriteByte(' ')
		}
		e.scalar(v, x.eol, indent+2)
		return
	}
	if item && v.prefix == "" && x.eol == "" && len(v.entries[0].head) == 0 {
		// The first field or item is on the line of the dash.
		e.out.WriteByte(' ')
		for i, inner := range v.entries {
			if i > 0 {
				e.entry(v, inner, i, indent+2)
				continue
			}
			e.rest(v, inner, indent+2)
			for _, line := range inner.foot {
				e.line(indent+2, line)
			}
		}
		return
	}
	if v.prefix != "" {
		e.out.WriteString(" " + strings.TrimSpace(v.prefix))
	}
	if x.eol != "" {
		e.out.WriteString(" " + x.eol)
	}
	e.out.WriteByte('\n')
	for i, inner := range v.entries {
		e.entry(v, inner, i, indent+2)
	}
}

// inline writes a value without entries, or one on one line, at the root.
func (e *emitter) inline(c *cell, indent int) { e.scalar(c, "", indent+2) }

// scalar writes a scalar on one line, or as a block, with the comment on its first
// line.
func (e *emitter) scalar(c *cell, eol string, indent int) {
	var b strings.Builder
	c.flowText(&b)
	e.out.WriteString(strings.TrimRight(b.String(), " "))
	if eol != "" {
		e.out.WriteString(" " + eol)
	}
	e.out.WriteByte('\n')
	for _, line := range c.block {
		e.line(indent, line)
	}
}

// onOneLine reports whether a list or map is written in brackets.
func (c *cell) onOneLine() bool {
	if !c.flow || c.remarked() {
		return false
	}
	var b strings.Builder
	c.flowText(&b)
	return b.Len() <= flowWidth
}

// remarked reports whether anything in the cell has a comment or is a block.
func (c *cell) remarked() bool {
	for _, x := range c.entries {
		if x.eol != "" || len(x.foot) > 0 || slices.ContainsFunc(x.head, func(line string) bool { return line != "" }) || x.value.remarked() || len(x.value.block) > 0 || !x.value.flow && len(x.value.entries) > 0 {
			return true
		}
	}
	return false
}

func (c *cell) flowText(b *strings.Builder) {
	b.WriteString(c.prefix)
	switch c.kind {
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, x := range c.entries {
			if i > 0 {
				b.WriteString(", ")
			}
			x.value.flowValue(b)
		}
		b.WriteByte(']')
	case yaml.MappingNode:
		b.WriteByte('{')
		for i, x := range c.entries {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(x.key + ": ")
			x.value.flowValue(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString(c.text)
	}
}

// flowValue writes an element; an empty one is null.
func (c *cell) flowValue(b *strings.Builder) {
	if c.kind == yaml.ScalarNode && c.text == "" && c.prefix == "" {
		b.WriteString("null")
		return
	}
	c.flowText(b)
}

func (e *emitter) json(c *cell, indent int) {
	open, closing := "{", "}"
	switch {
	case c.kind == yaml.SequenceNode:
		open, closing = "[", "]"
	case c.kind != yaml.MappingNode:
		e.jsonScalar(c)
		return
	}
	e.out.WriteString(open)
	for i, x := range c.entries {
		if i > 0 {
			e.out.WriteByte(',')
		}
		e.out.WriteByte('\n')
		e.indent(indent + 2)
		if c.kind == yaml.MappingNode {
			e.jsonString(x.name)
			e.out.WriteString(": ")
		}
		e.json(x.value, indent+2)
	}
	if len(c.entries) > 0 {
		e.out.WriteByte('\n')
		e.indent(indent)
	}
	e.out.WriteString(closing)
}

func (e *emitter) jsonScalar(c *cell) {
	text := c.text
	if c.node == nil || text == c.node.Value && c.node.Style&doctree.Quoted == 0 {
		if json.Valid([]byte(text)) {
			e.out.WriteString(text)
			return
		}
		if doctree.Plain(text).Kind == doctree.Null {
			e.out.WriteString("null")
			return
		}
	}
	if c.node != nil && c.node.Style&doctree.Quoted != 0 && (text == "" || strings.ContainsAny(text[:1], `"'|>`)) {
		text = c.node.Value
	}
	e.jsonString(text)
}

func (e *emitter) jsonString(s string) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	e.out.Write(bytes.TrimRight(b.Bytes(), "\n"))
}
