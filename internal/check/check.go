// Package check finds what is allowed in a document but probably not meant, and
// reports it as warnings.
//
// Each rule is a function of the specs in [Lint]'s list. The package must not
// know how programs are compiled or run.
package check

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/spec"
)

// Lint returns the warnings about specs.
func Lint(specs []*spec.Node) diag.List {
	var list diag.List
	for _, rule := range []func([]*spec.Node, *diag.List){
		snippetLanguage,
	} {
		rule(specs, &list)
	}
	return list
}

// snippetLanguage remarks on snippets that do not say what they are written in.
func snippetLanguage(specs []*spec.Node, list *diag.List) {
	for _, s := range specs {
		if s.Kind != "snippet" || s.Config.Field("language") != nil {
			continue
		}
		d := diag.Errorf(diag.CodeNoLanguage, "no language, so the code is plain text").WithHint("add language: text, or the language that is meant")
		d.Severity = diag.SeverityWarning
		d.Pos, d.Node, d.Path = s.Pos, s.Name, "language"
		list.Add(d)
	}
}
