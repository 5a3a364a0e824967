// Package check warns of what is allowed but probably not meant, and reports nodes that
// contradict each other.
//
// Read [Lint] first, which checks specs as they were written, then [Graph] and [Needs], which
// check how the nodes made of them are linked. Each rule is a function; rules of a single
// kind are in its Def. The package must not know which kinds there are, or how programs are run.
package check

import (
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// Lint returns the findings about specs as they were written, and about the bodies of
// templates: their own templates must not have been rendered yet.
func Lint(specs, bodies []*spec.Node, kinds *registry.Registry) diag.List {
	var list diag.List
	for _, s := range bodies {
		olderForm(s, &list)
	}
	unusedEnv(slices.Concat(specs, bodies), &list)
	for _, s := range specs {
		olderForm(s, &list)
		notTemplate(s, kinds, &list)
		notShell(s, kinds, &list)
	}
	byKind(specs, kinds, &list)
	list.Sort()
	return list
}

// byKind adds what the kinds themselves report of their specs in each namespace. Specs with
// unknown fields are left out: what is wrong with them is reported elsewhere.
func byKind(specs []*spec.Node, kinds *registry.Registry, list *diag.List) {
	type space struct {
		def       *node.Def
		namespace string
	}
	written := make(map[space][]node.WrittenSpec)
	for _, s := range specs {
		def, ok := kinds.Kind(s.Kind)
		if ok && def.Lint != nil && !slices.ContainsFunc(s.Config.Fields, func(f schema.RawField) bool { return !def.Config.Has(f.Name) }) {
			in := space{def, s.Namespace}
			written[in] = append(written[in], node.WrittenSpec{Name: s.Path(), Pos: s.Pos, Config: s.Config})
		}
	}
	for in, specs := range written {
		list.Append(in.def.Lint(specs))
	}
}

func warn(list *diag.List, s *spec.Node, pos diag.Pos, path string, d *diag.Diagnostic) {
	d.Severity, d.Node = diag.SeverityWarning, s.Path()
	list.Add(d.At(pos, path))
}

// Empty returns the warning about a document without specs.
func Empty(file string) *diag.Diagnostic {
	return diag.Warningf(diag.CodeEmpty, "the document has no spec").
		WithHint("write one such as {kind: nop, name: a}, or remove the file").At(diag.Pos{File: file}, "")
}

// olderForm warns once of each spec in an older form.
func olderForm(s *spec.Node, list *diag.List) {
	if len(s.Older) > 0 {
		o := s.Older[0]
		warn(list, s, o.Pos, o.Path, diag.Errorf(diag.CodeOlderForm, "an older form; the current form is %s", o.Want).
			WithHint("uniflow fmt -w rewrites the file"))
	}
}
