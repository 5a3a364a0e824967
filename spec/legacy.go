package spec

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// older rewrites specs of kinds that had another name in older versions of Uniflow.
// It is the only place in the package that knows kinds.
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
