// Package check finds what can be seen in specs as they were written: what is
// allowed but probably not meant, which it reports as warnings, and what cannot
// work together.
//
// Read [Lint] first; each rule is a function of the specs in a file of its own, or
// below. The package must not know how programs are compiled or run.
package check

import (
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// Options are what the rules need to know. Kinds is required.
type Options struct {
	Kinds *registry.Registry

	// Incomplete says that some specs could not be read, so the targets of links
	// may be missing.
	Incomplete bool
}

// Lint returns the findings about specs as they were written: their templates
// must not have been rendered yet. Each namespace is checked by itself.
func Lint(specs []*spec.Node, opts Options) diag.List {
	var list diag.List
	spaces := make(map[string][]*spec.Node)
	for _, s := range specs {
		olderForm(s, &list)
		unusedEnv(s, &list)
		notTemplate(s, &list)
		spaces[s.Namespace] = append(spaces[s.Namespace], s)
	}
	for _, specs := range spaces {
		byKind(specs, opts.Kinds, &list)
		if !opts.Incomplete {
			unreachable(specs, opts.Kinds, &list)
		}
	}
	list.Sort()
	return list
}

// byKind adds what the kinds themselves report. Specs with unknown fields are left
// out: what is wrong with them is reported elsewhere.
func byKind(specs []*spec.Node, kinds *registry.Registry, list *diag.List) {
	written := make(map[string][]node.WrittenSpec)
	for _, s := range specs {
		def, ok := kinds.Kind(s.Kind)
		if ok && def.Lint != nil && !slices.ContainsFunc(s.Config.Fields, func(f schema.RawField) bool { return !def.Config.Has(f.Name) }) {
			written[s.Kind] = append(written[s.Kind], node.WrittenSpec{Name: s.Name, Pos: s.Pos, Config: s.Config})
		}
	}
	for kind, specs := range written {
		def, _ := kinds.Kind(kind)
		list.Append(def.Lint(specs))
	}
}

// warn adds a finding about a spec.
func warn(list *diag.List, s *spec.Node, pos diag.Pos, path string, d *diag.Diagnostic) {
	d.Severity, d.Node = diag.SeverityWarning, s.Name
	list.Add(d.At(pos, path))
}

// Empty is the warning about a document that was read without a finding and has no
// specs.
func Empty(file string) *diag.Diagnostic {
	return diag.Warningf(diag.CodeEmpty, "there is no spec in the document").
		WithHint("write one such as {kind: nop, name: a}, or remove the file").At(diag.Pos{File: file}, "")
}

// olderForm remarks once on each spec that is written in an older form.
func olderForm(s *spec.Node, list *diag.List) {
	if len(s.Older) > 0 {
		o := s.Older[0]
		warn(list, s, o.Pos, o.Path, diag.Errorf(diag.CodeOlderForm, "an older form: today it is %s", o.Want).
			WithHint("uniflow fmt -w rewrites the file"))
	}
}
