// Package check checks specs as they were written. It warns of what is allowed but
// probably not meant, and reports specs that contradict each other.
//
// Read [Lint] first; each rule is a function of the specs. The rules of a single
// kind are in its Def. The package must not know how programs are compiled or run.
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

	// Bodies are the specs of templates, which are reached when the template is used.
	Bodies []*spec.Node
}

// Lint returns the findings about specs as they were written: their templates
// must not have been rendered yet. Each namespace is checked by itself.
func Lint(specs []*spec.Node, opts Options) diag.List {
	var list diag.List
	spaces := make(map[string][]*spec.Node)
	for _, s := range opts.Bodies {
		olderForm(s, &list)
	}
	unusedEnv(slices.Concat(specs, opts.Bodies), &list)
	for _, s := range specs {
		olderForm(s, &list)
		notTemplate(s, &list)
		spaces[s.Namespace] = append(spaces[s.Namespace], s)
	}
	for _, specs := range spaces {
		byKind(specs, opts.Kinds, &list)
		templatedStatements(specs, &list)
		unseenStatus(specs, opts.Kinds, &list)
		committedBefore(specs, &list)
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
			written[s.Kind] = append(written[s.Kind], node.WrittenSpec{Name: s.Path(), Pos: s.Pos, Config: s.Config})
		}
	}
	for kind, specs := range written {
		def, _ := kinds.Kind(kind)
		list.Append(def.Lint(specs))
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
