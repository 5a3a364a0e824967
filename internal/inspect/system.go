// Package inspect is what an engine shows of its workflow, to nodes and to its host, and what it
// hides of it because it may be a secret.
package inspect

import (
	"time"

	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A Generation is one that has served, or is about to.
type Generation struct {
	*run.Generation
	Number int // from 1
	Since  time.Time
}

// A System shows nodes what the engine runs: see [node.System]. The specs and variables
// are the ones that the node was made with; they stay in memory only if a node keeps
// the system.
type System struct {
	Current   func() *Generation // that serves; nil while the first one opens
	Kinds     *registry.Registry
	Specs     []*spec.Node
	Variables []*spec.Variable
	Secrets   []string // of both
}

// Ready implements [node.System].
func (s *System) Ready() bool {
	g := s.Current()
	return g != nil && len(g.Generation.Ready()) == 0
}

// redacted stands for what may be a secret.
var redacted = value.String("[redacted]")

func text(name, s string) value.Field {
	return value.Field{Name: name, Value: value.String(s)}
}

func number(name string, n int) value.Field {
	return value.Field{Name: name, Value: value.Int(int64(n))}
}

// Rows implements [node.System].
func (s *System) Rows(table string) []value.Value {
	switch table {
	case "specs":
		return s.specRows()
	case "values":
		return s.valueRows()
	}
	g := s.Current()
	if g == nil {
		return nil
	}
	switch table {
	case "symbols":
		return g.symbolRows()
	case "processes", "frames":
		return g.processRows(table == "frames")
	}
	return nil
}

func (s *System) specRows() []value.Value {
	var rows []value.Value
	for _, n := range s.Specs {
		config := value.Value{}
		if def, ok := s.Kinds.Kind(n.Kind); ok {
			config = shown(n.Config, def.Config)
		}
		var ports []value.Value
		for _, p := range n.Ports {
			for _, l := range p.Links {
				ports = append(ports, value.Map(text("out", p.Name), text("name", l.Name), text("id", l.ID), text("in", l.Port)))
			}
		}
		rows = append(rows, value.Map(text("id", n.ID), text("kind", n.Kind), text("namespace", n.Namespace), text("name", n.Name),
			text("file", n.Pos.File), number("line", n.Pos.Line), value.Field{Name: "config", Value: config}, value.Field{Name: "links", Value: value.List(ports...)}))
	}
	return rows
}

// shown is a config without its secrets: fields that the schema declares secret, and
// whatever a template made.
func shown(raw *schema.Raw, object schema.Object) value.Value {
	secret := make(map[string]bool)
	inner := make(map[string]schema.Object)
	for _, f := range object.All() {
		secret[f.Name], inner[f.Name] = f.Secret, f.Fields
	}
	switch raw.Kind {
	case schema.RawList:
		var elems []value.Value
		for _, item := range raw.Items {
			elems = append(elems, shown(item, object))
		}
		return value.List(elems...)
	case schema.RawMap:
		var fields []value.Field
		for _, f := range raw.Fields {
			v := redacted
			if !secret[f.Name] {
				v = shown(f.Value, inner[f.Name])
			}
			fields = append(fields, value.Field{Name: f.Name, Value: v})
		}
		return value.Map(fields...)
	}
	if raw.Templated {
		return redacted
	}
	return raw.Value
}

func (s *System) valueRows() []value.Value {
	var rows []value.Value
	for _, v := range s.Variables {
		data := v.Data
		if v.Secret || len(spec.Secrets([]*spec.Variable{v})) > 0 {
			data = redacted
		}
		rows = append(rows, value.Map(text("id", v.ID), text("namespace", v.Namespace), text("name", v.Name), value.Field{Name: "secret", Value: value.Bool(v.Secret)},
			value.Field{Name: "data", Value: data}))
	}
	return rows
}

func (g *Generation) symbolRows() []value.Value {
	var rows []value.Value
	for _, v := range g.Program().Vertices {
		links := len(v.Err)
		for _, edges := range v.Out {
			links += len(edges)
		}
		rows = append(rows, value.Map(text("id", v.Ref.ID), text("kind", v.Ref.Kind), text("namespace", v.Ref.Namespace), text("name", v.Ref.Name),
			text("file", v.Ref.Pos.File), number("line", v.Ref.Pos.Line), number("links", links), number("generation", g.Number), text("since", g.Since.UTC().Format(time.RFC3339Nano))))
	}
	return rows
}

// processRows returns a row for each process that waits, or for each of its blocking
// calls.
func (g *Generation) processRows(calls bool) []value.Value {
	var rows []value.Value
	g.Waiting(func(w run.Waiting) {
		if !calls {
			rows = append(rows, value.Map(text("id", w.ID), number("generation", g.Number), number("frames", len(w.At))))
			return
		}
		for _, ref := range w.At {
			rows = append(rows, value.Map(text("process", w.ID), text("node_id", ref.ID), text("kind", ref.Kind), text("namespace", ref.Namespace), text("name", ref.Name)))
		}
	})
	return rows
}
