// Package jsonschema checks values against a JSON Schema, for all kinds that have one among
// their fields or get one from a server.
//
// Read [Compile], [Schema] and [Problem] first. rule.go makes rules of a schema that a library
// has compiled; check.go and the files next to it apply them to a value as it is, without a
// conversion, and check_whole.go lets the library do it where the rules cannot; check_work.go
// bounds what that takes. keywords.go finds misspelt keywords, and mistake.go says what is wrong with a
// schema, and where in a document ([At]). coerce.go reads texts as what a schema asks for.
//
// No schema is loaded from elsewhere. The package must not know requests, models or what else
// is checked, and nodes no other library for it.
package jsonschema

import (
	"errors"

	library "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/value"
)

// A Schema is compiled. It is immutable, and made by [Compile].
type Schema struct {
	root    *rule
	presets []*rule // those with a default
	doubts  Mistakes

	// whole is set for a schema whose keywords depend on what others have looked at, and of
	// an older draft: the library then checks it, after a conversion of the value.
	whole *whole
}

// Options say how a schema is compiled. The zero Options are for a schema in a document,
// which must be one of draft 2020-12, and whose formats are checked.
type Options struct {
	// Hidden keeps values of the schema out of messages: a template made a part of it, which
	// may be a secret.
	Hidden bool

	// Foreign is for a schema that a server has given: keywords that JSON Schema does not
	// have are ignored, older drafts are taken, and formats are those that the draft checks,
	// which for 2020-12 are none.
	Foreign bool
}

// What the library calls a schema, and one for values that do not match it. Nothing is loaded
// from there.
const (
	schemaURL = "https://schema.invalid/"
	notURL    = "https://not.invalid/"
)

// A noLoader refuses to load schemas from elsewhere.
type noLoader struct{}

var errElsewhere = errors.New("a $ref leads out of the schema")

func (noLoader) Load(string) (any, error) { return nil, errElsewhere }

// Compile compiles a schema. Its errors are [Mistakes].
func Compile(doc value.Value, o Options) (*Schema, error) {
	var doubts Mistakes
	if !o.Foreign {
		found, unchecked := unknownWords(doc)
		if len(found) > 0 {
			return nil, found
		}
		doubts = unchecked
	}
	doc, err := toJSON(doc)
	if err != nil {
		return nil, mistake("", "not JSON")
	}
	lib, err := newCompiler(doc, o)
	if err != nil {
		return nil, mistakesOf(err, o.Hidden)
	}
	compiled, err := lib.Compile(schemaURL)
	if err != nil {
		return nil, mistakesOf(err, o.Hidden)
	}
	m := ruleMaker{made: make(map[*library.Schema]*rule), hidden: o.Hidden}
	root := m.of(compiled)
	if m.old != "" && !o.Foreign {
		return nil, Mistakes{{Path: fragment(m.old), Message: "the schema is not of draft 2020-12", Hint: "remove $schema: it is draft 2020-12"}}
	}
	if err := root.acyclic(nil, make(map[*rule]bool)); err != nil {
		return nil, Mistakes{{Message: err.Error(), Hint: "a $ref to the schema itself must be below properties or items"}}
	}
	s := &Schema{root: root, presets: m.presets, doubts: doubts}
	if m.whole || m.old != "" {
		anchors := anchorsIn(doc)
		s.whole = &whole{compile: func() *counted { return newCounted(doc, o, anchors) }}
	}
	return s, nil
}

// newCompiler returns a compiler that has the schema, and one for values that do not match it.
func newCompiler(doc value.Value, o Options) (*library.Compiler, error) {
	lib := library.NewCompiler()
	lib.DefaultDraft(library.Draft2020)
	lib.UseLoader(noLoader{})
	if !o.Foreign {
		lib.AssertFormat()
	}
	if err := lib.AddResource(notURL, map[string]any{"not": map[string]any{"$ref": schemaURL}}); err != nil {
		return nil, err
	}
	return lib, lib.AddResource(schemaURL, doc.Go())
}

// toJSON returns a value that has the kinds of JSON only.
func toJSON(v value.Value) (value.Value, error) {
	data, err := v.AppendJSON(nil)
	if err != nil {
		return v, err
	}
	return value.ParseJSON(data)
}

// Doubts returns what is probably not meant in a schema of a document: see [Warn].
func (s *Schema) Doubts() Mistakes { return s.doubts }

// Types returns the names of the types that a value may have, in the order of JSON Schema's
// list; nil if it may have any.
func (s *Schema) Types() (names []string) {
	t, _ := s.root.expects()
	for i, of := range typeNames {
		if t&(1<<i) != 0 {
			names = append(names, of.name)
		}
	}
	return names
}
