package reference

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/value"
)

// A sharer collects the definitions of what schemas of kinds have in common.
type sharer struct {
	uses  map[string]int    // of the schema of a field, by its text
	names map[string]string // of definitions, by the text of their schema
	taken map[string]bool   // names of definitions
	defs  value.MapBuilder
}

func newSharer() *sharer {
	return &sharer{uses: map[string]int{}, names: map[string]string{}, taken: map[string]bool{}}
}

// define returns a reference to a definition of a schema. The first of several calls with
// equal schemas names it.
func (s *sharer) define(name string, schema value.Value) value.Value {
	key := schema.String()
	if known, ok := s.names[key]; ok {
		return ref(known)
	}
	unique := name
	for n := 2; s.taken[unique]; n++ {
		unique = fmt.Sprintf("%s.%d", name, n)
	}
	s.names[key], s.taken[unique] = unique, true
	s.defs.Set(unique, s.share(name, schema))
	return ref(unique)
}

// count counts how often fields with the same schema occur in a schema, for share. Those
// in a field that has come before do not count again.
func (s *sharer) count(schema value.Value) {
	eachSchema(schema, func(keyword string, below value.Value) value.Value {
		if keyword == "properties" {
			for _, field := range below.Fields() {
				key := field.String()
				if s.uses[key]++; s.uses[key] == 1 {
					s.count(field)
				}
			}
		} else {
			s.count(below)
		}
		return below
	})
}

// minShared is the least length, in bytes, of a schema that is worth a definition.
const minShared = 120

// share returns a schema in which the fields that occur elsewhere, too, are references to
// definitions. They are named after the first place.
func (s *sharer) share(place string, schema value.Value) value.Value {
	return eachSchema(schema, func(keyword string, below value.Value) value.Value {
		if keyword != "properties" {
			return s.share(place, below)
		}
		var properties value.MapBuilder
		for name, field := range below.Fields() {
			at := place + "." + name
			if key := field.String(); s.uses[key] > 1 && len(key) >= minShared {
				properties.Set(name, s.define(at, field))
			} else {
				properties.Set(name, s.share(at, field))
			}
		}
		return properties.Build()
	})
}

// eachSchema replaces the values of the keywords of a schema, or of each schema in a
// list.
func eachSchema(schema value.Value, f func(keyword string, below value.Value) value.Value) value.Value {
	switch schema.Kind() {
	case value.KindList:
		var elems []value.Value
		for _, elem := range schema.Elems() {
			elems = append(elems, eachSchema(elem, f))
		}
		return value.List(elems...)
	case value.KindMap:
		var b value.MapBuilder
		for keyword, below := range schema.Fields() {
			if keyword != "default" && keyword != "const" && keyword != "enum" { // which are data
				below = f(keyword, below)
			}
			b.Set(keyword, below)
		}
		return b.Build()
	}
	return schema
}
