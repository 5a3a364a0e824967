package spec

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// older rewrites specs of kinds that had another name in older versions of Uniflow.
// Only this file of the package knows kinds.
func (p *parser) older(s scope, n *Node) {
	switch {
	case n.Kind == "route":
		n.Kind = "router"
		n.Older = append(n.Older, Deprecation{Pos: n.KindPos, Path: "kind", Want: "router"})
	case isOlderListener(n):
		n.Kind = "listener"
		n.Older = append(n.Older,
			Deprecation{Pos: n.KindPos, Path: "kind", Want: "listener"},
			Deprecation{Pos: n.Config.Field("address").Pos, Path: "address", Want: "protocol, host and port"})
		if text, _ := n.Config.Field("address").Value.AsString(); len(n.Env) > 0 && strings.Contains(text, "{{") {
			return // Resolve splits the address when it is known
		}
		splitAddress(s, n)
	}
}

// isOlderListener reports whether n is a listener of the older form. Today's http
// is a client, and has a url.
func isOlderListener(n *Node) bool {
	return n.Kind == "http" && n.Config.Field("address") != nil && n.Config.Field("url") == nil
}

// splitAddress makes protocol, host and port of the address of an older
// listener. They stand where the address does.
func splitAddress(s scope, n *Node) {
	at := slices.IndexFunc(n.Config.Fields, func(f schema.RawField) bool { return f.Name == "address" })
	f := n.Config.Fields[at]
	for _, field := range []string{"protocol", "host", "port"} {
		if n.Config.Field(field) != nil {
			s.report(f.Value, "address", diag.Errorf(diag.CodeOldAndNew, "address is the older form of host and port, and the spec also has %s", field).
				WithHint("leave address out"))
			n.Config.Fields = slices.Delete(n.Config.Fields, at, at+1)
			return
		}
	}
	text, ok := f.Value.Value.AsString()
	if i, isInt := f.Value.Value.AsInt(); isInt && f.Value.Kind == schema.RawScalar {
		text, ok = ":"+strconv.FormatInt(i, 10), true
	}
	host, port, err := net.SplitHostPort(text)
	if !ok || err != nil {
		shown := "got text from a template"
		if !f.Value.Templated {
			shown = "got " + f.Value.What()
			if ok {
				shown = fmt.Sprintf("got %q", text)
			}
		}
		s.report(f.Value, "address", diag.Errorf(diag.CodeWrongType, "want an address such as :8000, %s", shown))
		n.Config.Fields = slices.Delete(n.Config.Fields, at, at+1)
		return
	}
	made := func(name, text string) schema.RawField {
		v := *f.Value
		v.Value, v.Kind = value.String(text), schema.RawScalar
		v.Text = diag.NewText(text, f.Pos.File, f.Value.Pos, nil)
		return schema.RawField{Name: name, Pos: f.Pos, Value: &v}
	}
	fields := []schema.RawField{made("protocol", "http")}
	if host != "" {
		fields = append(fields, made("host", host))
	}
	if i, err := strconv.ParseInt(port, 10, 64); err == nil {
		p := made("port", port)
		p.Value.Value = value.Int(i)
		fields = append(fields, p)
	} else {
		fields = append(fields, made("port", port))
	}
	n.Config.Fields = slices.Replace(n.Config.Fields, at, at+1, fields...)
}

// wasOlder reports whether n is an older listener whose address could not be split
// before its templates were rendered.
func wasOlder(n *Node) bool {
	return slices.ContainsFunc(n.Older, func(o Deprecation) bool { return o.Path == "address" })
}

// modernise rewrites a spec in the older form, for Format.
func (c *cell) modernise() {
	kind := c.field("kind")
	if kind == nil {
		return
	}
	if c.is("kind", "route") {
		kind.value.set("router")
	}
	if c.is("kind", "snippet") && c.field("language") == nil && c.field("<<") == nil {
		c.setLanguage()
	}
	if c.is("kind", "http") && c.field("address") != nil && c.field("url") == nil && c.splitAddress() {
		kind.value.set("listener")
	}
	if links := c.field("links"); links != nil && c.field("ports") == nil {
		links.key, links.name = "ports", "ports"
	}
	if ports := c.field("ports"); ports != nil {
		for _, port := range ports.value.entries {
			links := port.value.entries
			if port.value.kind == yaml.MappingNode {
				links = []*entry{{value: port.value}}
			}
			for _, link := range links {
				if link.value.is("port", "io") {
					link.value.field("port").value.set("in")
				}
			}
		}
	}
	if env := c.field("env"); env != nil && env.value.kind == yaml.MappingNode {
		for _, e := range env.value.entries {
			if list := e.value; list.kind == yaml.SequenceNode && len(list.entries) == 1 && list.prefix == "" {
				only := list.entries[0]
				e.value = only.value
				e.head = append(e.head, only.head...)
				e.foot = append(only.foot, e.foot...)
				if only.eol != "" {
					e.head = append(e.head, only.eol)
				}
			}
		}
	}
}

// setLanguage writes the language of a snippet that names none, before its code.
func (c *cell) setLanguage() {
	at := slices.IndexFunc(c.entries, func(e *entry) bool { return e.name == "code" })
	if at < 0 {
		return
	}
	code := c.entries[at]
	language := &entry{key: "language", name: "language", value: &cell{kind: yaml.ScalarNode, text: "text"}, parent: code.parent, head: code.head}
	code.head = nil
	c.entries = slices.Insert(c.entries, at, language)
}

// isImplied reports whether a field of a kind means the same as no field.
func isImplied(kind string, f schema.RawField) bool {
	text, _ := f.Value.Value.AsString()
	return kind == "snippet" && f.Name == "language" && text == "text"
}

// splitAddress splits an address into protocol, host and port, unless it cannot be
// split or is a template.
func (c *cell) splitAddress() bool {
	at := slices.IndexFunc(c.entries, func(e *entry) bool { return e.name == "address" })
	address := c.entries[at]
	if address.value.kind != yaml.ScalarNode || c.field("protocol") != nil || c.field("host") != nil || c.field("port") != nil {
		return false
	}
	text := address.value.node.Value
	if n := doctree.Plain(text); n.Kind == doctree.Int && address.value.node.Style&doctree.Quoted == 0 {
		text = ":" + strconv.FormatInt(n.Int(), 10)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || strings.Contains(text, "{{") {
		return false
	}
	scalar := func(text string) *cell { return &cell{kind: yaml.ScalarNode, text: text} }
	made := []*entry{{key: "protocol", name: "protocol", value: scalar("http"), head: address.head}}
	if host != "" {
		made = append(made, &entry{key: "host", name: "host", value: scalar(plainOrQuoted(host))})
	}
	if i, err := strconv.ParseInt(port, 10, 64); err == nil {
		port = strconv.FormatInt(i, 10)
	} else {
		port = plainOrQuoted(port)
	}
	made = append(made, &entry{key: "port", name: "port", value: scalar(port), eol: address.eol, foot: address.foot})
	c.entries = slices.Replace(c.entries, at, at+1, made...)
	return true
}
