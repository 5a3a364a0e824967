package compile

import (
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
)

// withheld removes the reason from findings of a kind's New that may quote text from
// a template, which may contain a secret: kinds and the errors of libraries quote
// their input. The title of the finding's code is left.
func withheld(u *unit, list []*diag.Diagnostic) []*diag.Diagnostic {
	made := templated(u.spec.Config)
	if len(made) == 0 {
		return list
	}
	safe := make([]*diag.Diagnostic, len(list))
	for i, d := range list {
		if safe[i] = d; d.Plain || !concerns(u, d, made) {
			continue
		}
		entry, _ := diag.Lookup(d.Code)
		safe[i] = &diag.Diagnostic{Code: d.Code, Severity: d.Severity, Pos: d.Pos, Node: d.Node, Path: d.Path, Pointer: d.Pointer, Msg: entry.Title,
			Hint: "the reason is not shown because a template made the text, which may hold a secret: uniflow describe " + u.spec.Kind + " says what is valid"}
	}
	return safe
}

// templated returns the scalars in raw that templates have rendered.
func templated(raw *schema.Raw) (made []*schema.Raw) {
	for part := range raw.All() {
		if part.Templated {
			made = append(made, part)
		}
	}
	return made
}

// concerns reports whether a finding may be about a scalar that a template has
// rendered: if its place is at, in or around one, if it has no exact place, or if it
// contains the text of one.
func concerns(u *unit, d *diag.Diagnostic, made []*schema.Raw) bool {
	if !d.Pos.IsValid() || d.Pos.Col == 0 || d.Pos == u.spec.Pos {
		return true // such places are approximate
	}
	if at := containing(u.spec.Config, d.Pos); at != nil && len(templated(at)) > 0 {
		return true
	}
	for _, raw := range made {
		if text, _ := raw.Value.AsString(); len(text) > 3 && strings.Contains(d.Msg+d.Hint, text) {
			return true
		}
	}
	return false
}

// containing returns the list, map or scalar that starts at a place, or else the
// last scalar that starts before it.
func containing(root *schema.Raw, pos diag.Pos) (best *schema.Raw) {
	after := func(a, b diag.Pos) bool { return a.Line > b.Line || a.Line == b.Line && a.Col > b.Col }
	for raw := range root.All() {
		switch {
		case raw.Pos == pos && (raw.Kind != schema.RawScalar || raw.Templated || best == nil || best.Pos != pos):
			best = raw
		case raw.Kind == schema.RawScalar && !after(raw.Pos, pos) && (best == nil || after(raw.Pos, best.Pos)):
			best = raw
		}
	}
	return best
}
