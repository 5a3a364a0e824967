// Package check finds what can be seen in specs as they were written: what is
// allowed but probably not meant, which it reports as warnings, and what cannot
// work together.
//
// Read [Lint] first; each rule is a function of the specs in a file of its own, or
// below. The package must not know how programs are compiled or run.
package check

import (
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/schema"
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

// Lint returns the findings about specs as they were written: their templates
// must not have been rendered yet. Specs of several namespaces do not see one
// another.
func Lint(specs []*spec.Node, opts Options) diag.List {
	var list diag.List
	spaces := make(map[string][]*spec.Node)
	for _, s := range specs {
		snippetLanguage(s, &list)
		olderForm(s, &list)
		unusedEnv(s, &list)
		notTemplate(s, &list)
		spaces[s.Namespace] = append(spaces[s.Namespace], s)
	}
	for _, specs := range spaces {
		sameAddress(specs, &list)
		if !opts.Incomplete {
			unreachable(specs, opts.Trigger, &list)
		}
	}
	list.Sort()
	return list
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

// sameAddress refuses two listeners at one address, as far as that is known before
// templates are rendered. Port 0 is a free one each time.
func sameAddress(specs []*spec.Node, list *diag.List) {
	type listening struct {
		host string
		at   diag.Pos
	}
	ports := make(map[string][]listening)
	for _, s := range specs {
		port := s.Config.Field("port")
		if s.Kind != "listener" || port == nil || port.Text.Code == "0" || strings.Contains(port.Text.Code, "{{") {
			continue
		}
		host := ""
		if h := s.Config.Field("host"); h != nil {
			host, _ = h.Value.AsString()
		}
		others := ports[port.Text.Code]
		i := slices.IndexFunc(others, func(o listening) bool {
			return o.host == host || !strings.Contains(o.host+host, "{{") && (everywhere(o.host) || everywhere(host))
		})
		if i >= 0 {
			d := diag.Errorf(diag.CodeSameAddress, "the node at %s listens on port %s, too", others[i].at, port.Text.Code).
				WithHint("give one of them another port, or send both to one router").At(port.Pos, "port")
			d.Node = s.Name
			list.Add(d)
		}
		ports[port.Text.Code] = append(others, listening{host, s.Pos})
	}
}

// everywhere reports whether a host stands for all addresses of the machine.
func everywhere(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }

// snippetLanguage remarks on snippets that do not say what they are written in.
func snippetLanguage(s *spec.Node, list *diag.List) {
	meant := func(f schema.RawField) bool {
		_, near := spell.Nearest(f.Name, []string{"language"})
		return near || f.Name == "language"
	}
	if s.Kind == "snippet" && !slices.ContainsFunc(s.Config.Fields, meant) {
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
