package check

import (
	"regexp"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/registry"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
)

// unusedEnv warns of keys of env that no template uses: neither in their spec nor in
// those within it.
func unusedEnv(specs []*spec.Node, list *diag.List) {
	used := make(map[*spec.Node]*uses)
	for _, s := range specs {
		if len(s.Env) > 0 {
			used[s] = &uses{words: make(map[string]bool)}
		}
	}
	if len(used) == 0 {
		return
	}
	for _, s := range specs {
		for at := s; at != nil; at = at.Outer {
			if u := used[at]; u != nil {
				u.collect(s.Config)
				for _, b := range s.Env {
					u.collect(b.Data)
				}
			}
		}
	}
	for s, u := range used {
		for _, b := range s.Env {
			if !u.all && !u.words[b.Key] {
				warn(list, s, b.Pos, "env."+b.Key, diag.Errorf(diag.CodeUnusedEnv, "env %q is used by no template", b.Key).
					WithHint("use it as {{ .%s }}, or remove it", b.Key))
			}
		}
	}
}

// template matches braces around a field, as in {{ .KEY }}. Other texts with braces,
// such as templates of other programs, have no such field.
var template = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{-?\s*(\w+\s+)?\.[\pL_][^{}]*\}\}`) })

// notTemplate warns of the first template of a spec without env, neither of its own
// nor around it.
func notTemplate(s *spec.Node, kinds *registry.Registry, list *diag.List) {
	for at := s; at != nil; at = at.Outer {
		if len(at.Env) > 0 || at.EnvPos != at.Pos { // env: {} says that braces are meant
			return
		}
	}
	own := make(map[string]bool) // fields with templates of their own
	if def, ok := kinds.Kind(s.Kind); ok {
		for _, f := range def.Config.All() {
			own[f.Name] = f.Braces
		}
	}
	for _, f := range s.Config.Fields {
		for raw := range f.Value.All() {
			text, _ := raw.Value.AsString()
			if at := template().FindStringIndex(text); at != nil && !own[f.Name] {
				warn(list, s, raw.Text.At(at[0]), "", diag.Errorf(diag.CodeNotTemplate, "this looks like a template, but the spec has no env, so it stays as it is").
					WithHint("bind its keys in env, such as env: {KEY: {data: text}}; write env: {} if you mean the braces"))
				return
			}
		}
	}
}

// shellVariable matches what a shell would replace, as in ${API_TOKEN}, or a text that is
// $API_TOKEN as a whole. Names of payloads are rarely in capitals.
var shellVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{[A-Z][A-Z0-9_]{2,}\}|^\$[A-Z][A-Z0-9_]{2,}$`) })

// notShell warns of the first text of a spec that has a variable of a shell. Code is left out.
func notShell(s *spec.Node, kinds *registry.Registry, list *diag.List) {
	def, ok := kinds.Kind(s.Kind)
	if !ok {
		return
	}
	code := make(map[string]bool)
	for _, f := range def.Config.All() {
		code[f.Name] = f.Type == schema.TypeText || f.Type == schema.TypeExpr
	}
	for _, f := range s.Config.Fields {
		for raw := range f.Value.All() {
			text, _ := raw.Value.AsString()
			if at := shellVariable().FindStringIndex(text); at != nil && !code[f.Name] {
				name := strings.Trim(text[at[0]:at[1]], "${}")
				warn(list, s, raw.Text.At(at[0]), "", diag.Errorf(diag.CodeNotTemplate, "this looks like a variable of the environment, and is none").
					WithHint("bind it, as with env: {%s: {data: '{{ .%s }}'}}, and write {{ .%s }}", name, name, name))
				return
			}
		}
	}
}

// uses are the words in the templates of a spec. Every word of an action counts,
// whatever its meaning, so that no key is reported that may be used.
type uses struct {
	words map[string]bool
	all   bool // a template uses all keys together, as in {{ json . }}
}

var (
	action = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)\{\{.*?\}\}`) })
	word   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\pL\pN_]+`) })

	// whole matches a dot or a dollar without a name after it. It also matches a dot
	// within range and with, which is not all keys: then nothing is reported.
	whole = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(^|[^\pL\pN_])\.([^\pL\pN_]|$)|\$([^\pL\pN_.]|$)`) })
)

// collect collects the words of the strings in root.
func (u *uses) collect(root *schema.Raw) {
	for raw := range root.All() {
		text, _ := raw.Value.AsString()
		for _, a := range action().FindAllString(text, -1) {
			u.all = u.all || whole().MatchString(a)
			for _, w := range word().FindAllString(a, -1) {
				u.words[w] = true
			}
		}
	}
}
