package lang

import (
	"maps"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

// A Set is the languages that a program may use, by name. It is immutable and
// safe for concurrent use.
type Set struct {
	byName map[string]Language
	names  []string // sorted
}

// NewSet returns the set of the languages. The map is copied.
func NewSet(byName map[string]Language) *Set {
	return &Set{byName: maps.Clone(byName), names: slices.Sorted(maps.Keys(byName))}
}

// Names returns the names, sorted. The caller may keep the slice.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Has reports whether there is a language of that name.
func (s *Set) Has(name string) bool {
	_, ok := s.byName[name]
	return ok
}

// abbreviations are other names of languages, such as the extensions of files.
var abbreviations = map[string]string{"js": "javascript", "mjs": "javascript", "ts": "typescript", "yml": "yaml", "txt": "text", "plain": "text"}

// Check returns nil for the name of a language, and otherwise a diagnostic that
// names the nearest one.
func (s *Set) Check(name string) error {
	if s.Has(name) {
		return nil
	}
	d := diag.Errorf(diag.CodeUnknownLanguage, "unknown language %q", name)
	if long := abbreviations[strings.ToLower(name)]; s.Has(long) {
		return d.Instead(name, long)
	}
	if d.Suggest(name, s.names) {
		return d
	}
	return d.WithHint("use one of %s", strings.Join(s.names, ", "))
}

// Compile compiles code in the named language. The error is a *diag.Diagnostic
// or a diag.List; the error of an unknown language has no place.
func (s *Set) Compile(name string, code diag.Text, opts Options) (Program, error) {
	if err := s.Check(name); err != nil {
		return nil, err
	}
	program, err := s.byName[name].Compile(code, opts)
	if err == nil && opts.Condition && opts.Warn != nil {
		if kind, ok := resultKind(program); ok && kind != value.KindBool {
			opts.Warn(notCondition(code, kind))
		}
	}
	return program, err
}

// resultKind returns the kind of all results of a program, if that is known.
func resultKind(p Program) (kind value.Kind, ok bool) {
	switch p := p.(type) {
	case Constant:
		return p.Constant().Kind(), true
	case Typed:
		return p.ResultKind()
	}
	return kind, false
}

// notCondition returns the warning about a condition whose results are of a kind.
func notCondition(code diag.Text, kind value.Kind) *diag.Diagnostic {
	is, hint := "a "+kind.String(), "write what is true or false, such as total > 100"
	switch kind {
	case value.KindNull:
		is = "null"
	case value.KindInt, value.KindUint, value.KindFloat:
		is, hint = "a number", "compare it, such as total > 100"
	case value.KindString:
		is, hint = "a text", `compare it, such as method == "GET"`
	case value.KindList, value.KindMap:
		hint = "compare its size, such as size(items) > 0"
	}
	d := diag.Warningf(diag.CodeNotCondition, "the condition is %s, which is neither true nor false", is).WithHint("%s", hint).AsPlain()
	d.Pos = code.Pos(1, 1)
	return d
}

// Isolate compiles a function in the named language so that it runs in processes of its
// own. Errors are as for Compile; the error of a language that is not an [Isolator] has
// no place.
func (s *Set) Isolate(name string, code diag.Text, opts Options) (Isolated, error) {
	if err := s.Check(name); err != nil {
		return nil, err
	}
	if isolator, ok := s.byName[name].(Isolator); ok {
		return isolator.Isolate(code, opts)
	}
	able := slices.DeleteFunc(s.Names(), func(name string) bool { _, ok := s.byName[name].(Isolator); return !ok })
	return nil, diag.Errorf(diag.CodeBadValue, "%s cannot be isolated", name).
		WithHint("leave isolate out: it is for %s", strings.Join(able, " and "))
}

// OfExtension returns the name of the language that files with an extension, such as
// ".js", are written in: the extension itself if it stands for none.
func OfExtension(extension string) string {
	name := strings.ToLower(strings.TrimPrefix(extension, "."))
	if long, ok := abbreviations[name]; ok {
		return long
	}
	return name
}
