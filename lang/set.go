package lang

import (
	"maps"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
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
		return d.WithHint("did you mean %q?", long)
	}
	if near, ok := spell.Nearest(name, s.names); ok {
		return d.WithHint("did you mean %q?", near)
	}
	return d.WithHint("use one of %s", strings.Join(s.names, ", "))
}

// Compile compiles code in the named language. The error is a *diag.Diagnostic
// or a diag.List; the error of an unknown language has no place.
func (s *Set) Compile(name string, code diag.Text, opts Options) (Program, error) {
	if err := s.Check(name); err != nil {
		return nil, err
	}
	return s.byName[name].Compile(code, opts)
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
