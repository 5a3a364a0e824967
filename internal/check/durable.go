package check

import (
	"regexp"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
)

// unstored reports what nodes below a durable trigger do with the fields of requests that are credentials, or that
// are not stored. An author who has all stored is told nothing.
func unstored(graph []node.Vertex, trigger *node.Vertex, report Report) {
	runs := trigger.Traits.Runs
	if runs == nil || len(runs.Strip) == 0 {
		return
	}
	always := trigger.Traits.Is.Has(node.Durable) // and not only for some requests
	reached := set(node.Reach(node.Down, node.Nodes(append(trigger.Out, trigger.Err)...), func(at *node.Vertex) bool { return at.Def != nil && at.Def.Begins() }))
	for i := range graph {
		v := &graph[i]
		if !reached[v] || v == trigger || v.Def == nil {
			continue
		}
		if len(v.Traits.Credentials) > 0 {
			for _, field := range v.Traits.Credentials {
				storedCredential(i, field, trigger, report)
			}
			continue
		}
		for _, field := range runs.Strip {
			if always && readsField(v, field) {
				report(i, warning(diag.Errorf(diag.CodeNotStored, "it reads %s, which runs of %q do not have, as it is not stored", field, trigger.Ref.String()).
					WithHint("auth has it, and says who has sent the request; else leave it out of strip in durability, where strip: [] stores all")))
			}
		}
	}
}

// storedCredential reports a field with credentials, for the node at an index, that is stored, or whose loss in a
// crash ends runs.
func storedCredential(i int, field string, trigger *node.Vertex, report Report) {
	runs := trigger.Traits.Runs
	stripped := slices.ContainsFunc(runs.Strip, func(path string) bool { return path == field || strings.HasPrefix(field, path+".") })
	switch {
	case !stripped:
		d := diag.Errorf(diag.CodeCredential, "it finds credentials in %s, which runs of %q store, and who reads the journal could use them", field, trigger.Ref.String()).
			WithHint("add %s to strip in durability, after header.Authorization and header.Cookie; strip: [] stores all", field)
		if !trigger.Traits.Is.Has(node.Durable) {
			warning(d)
		}
		report(i, d)
	case runs.Level == node.LevelAccept:
		report(i, warning(diag.Errorf(diag.CodeNotStored, "after a crash, runs of %q begin again without %s, and do not pass", trigger.Ref.String(), field).
			WithHint("with level: checkpoint, one that has passed goes on")))
	}
}

// readsField reports whether code of a node reads a field of its payload.
func readsField(v *node.Vertex, field string) bool {
	if v.Def.Subgraph != node.NoSubgraph {
		return false
	}
	names := strings.Split(field, ".")
	for i := range names {
		names[i] = regexp.QuoteMeta(names[i])
	}
	read, err := regexp.Compile(`\b` + strings.Join(names, `\s*(\?\s*)?(\.|\[\s*\??\s*["'])\s*`) + `\b`)
	if err != nil { // the parts are quoted
		panic(err)
	}
	for _, f := range v.Def.Config.All() {
		for raw := range v.Config.Raw(f.Name).All() {
			if text, _ := raw.Value.AsString(); read.MatchString(text) {
				return true
			}
		}
	}
	return false
}
