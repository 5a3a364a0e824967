package check

import (
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
)

// Values reports what is wrong with the values of tests: a value that no env reads, and
// what would have to be rendered, as values are read before the templates.
func Values(specs, bodies []*spec.Node, kinds *registry.Registry) diag.List {
	var list diag.List
	tests := func(s *spec.Node) bool {
		def, ok := kinds.Kind(s.Kind)
		return ok && def.Role.Has(node.Tests) && s.Config.Field(node.FieldValues) != nil
	}
	for _, s := range bodies {
		if tests(s) {
			d := diag.Errorf(diag.CodeBadNode, "a test in a template has no values of its own").WithHint("write the test in a document")
			d.Node = s.Path()
			list.Add(d.At(s.Config.Field(node.FieldValues).Pos, node.FieldValues))
		}
	}
	read := make(map[string]*uses)
	for _, s := range specs {
		if !tests(s) {
			continue
		}
		u := read[s.Namespace]
		if u == nil {
			u = reads(slices.Concat(specs, bodies), s.Namespace)
			read[s.Namespace] = u
		}
		for _, f := range s.Config.Field(node.FieldValues).Fields {
			if !u.all && !u.words[f.Name] {
				warn(&list, s, f.Pos, node.FieldValues+"."+f.Name, diag.Errorf(diag.CodeUnusedEnv, "no env reads the value %q", f.Name).
					WithHint("name a variable as env does, or remove the value"))
			}
		}
	}
	return list
}

// reads returns what env takes in a namespace: names of variables, and keys of the environment.
func reads(specs []*spec.Node, namespace string) *uses {
	u := &uses{words: make(map[string]bool)}
	for _, s := range specs {
		for _, b := range s.Env {
			switch {
			case s.Namespace != namespace:
			case b.Name != "":
				u.words[b.Name] = true
			case b.ID != "":
			case b.Data == nil:
				u.words[b.Key] = true
			default:
				u.collect(b.Data)
			}
		}
	}
	return u
}
