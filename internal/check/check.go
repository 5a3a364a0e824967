// Package check finds what is allowed in a document but probably not meant, and
// reports it as warnings.
//
// Read [Lint] first; each rule is a function of the specs in a file of its own, or
// below. The package must not know how programs are compiled or run.
package check

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/spec"
)

// Options are what the rules must be told. All fields but Incomplete are
// required.
type Options struct {
	// Trigger reports whether the nodes of a kind start processes by themselves,
	// and whether the kind is known.
	Trigger func(kind string) (trigger, known bool)

	// Incomplete says that some specs could not be read, so that what links lead
	// to cannot be known.
	Incomplete bool
}

// Lint returns the warnings about specs as they were written: their templates
// must not have been rendered yet.
func Lint(specs []*spec.Node, opts Options) diag.List {
	var list diag.List
	for _, s := range specs {
		snippetLanguage(s, &list)
		olderForm(s, &list)
		unusedEnv(s, &list)
	}
	if !opts.Incomplete {
		unreachable(specs, opts.Trigger, &list)
	}
	return list
}

// warn adds a finding about a spec.
func warn(list *diag.List, s *spec.Node, pos diag.Pos, path string, d *diag.Diagnostic) {
	d.Severity, d.Node = diag.SeverityWarning, s.Name
	list.Add(d.At(pos, path))
}

// snippetLanguage remarks on snippets that do not say what they are written in.
func snippetLanguage(s *spec.Node, list *diag.List) {
	if s.Kind == "snippet" && s.Config.Field("language") == nil {
		warn(list, s, s.Pos, "language", diag.Errorf(diag.CodeNoLanguage, "no language, so the code is plain text").
			WithHint("add language: text, or the language that is meant"))
	}
}

// olderForm remarks once on each spec that is written in an older form.
func olderForm(s *spec.Node, list *diag.List) {
	if len(s.Older) > 0 {
		o := s.Older[0]
		warn(list, s, o.Pos, o.Path, diag.Errorf(diag.CodeOlderForm, "an older form: today it is %s", o.Want).
			WithHint("uniflow fmt -w rewrites the file"))
	}
}
