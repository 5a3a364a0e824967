package check

import (
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// kindSQL is the kind whose payloads are statements.
const kindSQL = "sql"

// templatedStatements warns of templates in what a node sends to a node of kind sql.
func templatedStatements(specs []*spec.Node, list *diag.List) {
	g, ok := newGraph(specs)
	if !ok {
		return
	}
	for _, s := range specs {
		if len(s.Env) == 0 || !sendsTo(g, s, kindSQL) {
			continue
		}
		raw := templated(s.Config.Field("code"))
		if raw == nil {
			continue
		}
		text, _ := raw.Value.AsString()
		warn(list, s, raw.Text.At(strings.Index(text, "{{")), "code", diag.Errorf(diag.CodeStatement, "a template in a statement of SQL can change what the statement does").
			WithHint("send values as arguments: [\"SELECT … WHERE id = :id\", {\"id\": …}]"))
	}
}

// sendsTo reports whether a spec has a link to a node of a kind.
func sendsTo(g graph, s *spec.Node, kind string) bool {
	for _, port := range s.Ports {
		targets, _ := g.targets(s, port) // a target that is missing is reported elsewhere
		for _, to := range targets {
			if to.Kind == kind {
				return true
			}
		}
	}
	return false
}

// templated returns the first text with a template below raw, or nil.
func templated(raw *schema.Raw) *schema.Raw {
	if raw == nil {
		return nil
	}
	if text, _ := raw.Value.AsString(); strings.Contains(text, "{{") {
		return raw
	}
	for _, item := range raw.Items {
		if found := templated(item); found != nil {
			return found
		}
	}
	for _, f := range raw.Fields {
		if found := templated(f.Value); found != nil {
			return found
		}
	}
	return nil
}
