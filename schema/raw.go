package schema

import (
	"iter"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

// A RawKind says which fields of a [Raw] are in use.
type RawKind uint8

// The kinds of a Raw.
const (
	RawScalar RawKind = iota // Value and Text
	RawList                  // Items
	RawMap                   // Fields
)

// A Raw is a part of a document as its author wrote it, with positions. The nil Raw is
// a missing field; the zero Raw is a null without a position. It is a tree: no Raw is
// part of two others.
type Raw struct {
	Kind    RawKind
	Pos     diag.Pos
	Pointer string // JSON Pointer into the document

	Value value.Value // of a scalar
	Text  diag.Text   // a scalar as it is written, with its position; strings without their quotes
	Items []*Raw      // of a list
	// Fields are the fields of a map in the order written. Their names are unique.
	Fields []RawField

	// Templated marks a scalar that a template made. It may be a secret, so no
	// message shows it. Its positions are approximate.
	Templated bool
}

// A RawField is one entry of a map.
type RawField struct {
	Name  string
	Pos   diag.Pos // of the name
	Value *Raw
}

// Field returns the field of a map, or nil if r is not a map or has no such field.
func (r *Raw) Field(name string) *Raw {
	if r == nil {
		return nil
	}
	for i := range r.Fields {
		if r.Fields[i].Name == name {
			return r.Fields[i].Value
		}
	}
	return nil
}

// ToValue returns the value of r without positions. It is null for nil.
func (r *Raw) ToValue() value.Value {
	if r == nil {
		return value.Null()
	}
	switch r.Kind {
	case RawList:
		elems := make([]value.Value, len(r.Items))
		for i, item := range r.Items {
			elems[i] = item.ToValue()
		}
		return value.List(elems...)
	case RawMap:
		fields := make([]value.Field, len(r.Fields))
		for i, f := range r.Fields {
			fields[i] = value.Field{Name: f.Name, Value: f.Value.ToValue()}
		}
		return value.Map(fields...)
	}
	return r.Value
}

// What describes the type of r for messages: "a list", "an integer".
func (r *Raw) What() string {
	switch r.Kind {
	case RawList:
		return "a list"
	case RawMap:
		return "a map"
	}
	switch name := r.Value.Kind().String(); name {
	case "null":
		return "null"
	case "integer", "error":
		return "an " + name
	default:
		return "a " + name
	}
}

// templated reports whether any scalar in r was made by a template.
func (r *Raw) templated() bool {
	for part := range r.All() {
		if part.Templated {
			return true
		}
	}
	return false
}

// All returns r and what is in it, each list and map after its parts. A nil r has none.
func (r *Raw) All() iter.Seq[*Raw] {
	return func(yield func(*Raw) bool) { r.walk(yield) }
}

func (r *Raw) walk(yield func(*Raw) bool) (more bool) {
	if r == nil {
		return true
	}
	for _, item := range r.Items {
		if !item.walk(yield) {
			return false
		}
	}
	for i := range r.Fields {
		if !r.Fields[i].Value.walk(yield) {
			return false
		}
	}
	return yield(r)
}
