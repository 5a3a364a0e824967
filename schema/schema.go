// Package schema describes the fields of a kind's config once. Decoding with
// positions, defaults and checks, JSON Schema, and the tables of the reference
// pages are derived from that.
//
// Read [Fields] and [Field] first: they are what the author of a kind writes.
// Then [Raw], the tree that a document's parser makes, [Object.Decode], and
// [Config], the checked result. [Object.JSONSchema] is for editors and
// [Object.Markdown] for the reference.
//
// Invariants: Decode reports every mistake, not only the first. A diagnostic never
// shows the content of a scalar that a template made, as it may be a secret.
//
// The package must not know kinds, or how documents are written.
package schema

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// A Type is the type of a field.
type Type uint8

// The types.
const (
	TypeString   Type = iota // one string
	TypeEnum                 // one of a few strings
	TypeText                 // code, with its place in the document
	TypeExpr                 // code that is one expression
	TypeInt                  // an int64
	TypeFloat                // a float64
	TypeBool                 // true or false
	TypeDuration             // a Go duration, or milliseconds
	TypeBytes                // a number of bytes, or a size such as 8MiB
	TypeAny                  // anything
	TypeStrings              // a list of strings, or one
	TypeOutPort              // the name of an out-port: out, or out[2]
	TypeList                 // a list of objects
	TypeGroup                // an object
)

var typeNames = [...]string{
	TypeString: "string", TypeEnum: "string", TypeText: "text", TypeExpr: "expression", TypeInt: "integer",
	TypeFloat: "number", TypeBool: "boolean", TypeDuration: "duration", TypeBytes: "size", TypeAny: "any",
	TypeStrings: "list of strings", TypeOutPort: "out-port", TypeList: "list", TypeGroup: "object",
}

// String returns the name that users see.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "unknown"
}

// A Field describes one field of a config. Make one with the function named
// after its type; the methods complete it and return it. A Field must not be
// changed after it was handed to [Fields], and a mistake in one, such as a
// default that does not fit, panics there.
type Field struct {
	name     string
	typ      Type
	doc      string
	def      value.Value // null for none
	checked  bool        // by check, since which objects share the field
	required bool
	secret   bool
	braces   bool
	pattern  string // of the JSON Schema; empty for none
	enum     []string
	open     bool // strings that are not in enum are allowed
	ranged   bool
	min, max float64
	fields   Object
	short    string // the field of fields that a scalar stands for; empty for none
}

// String declares a string.
func String(name string) *Field { return &Field{name: name, typ: TypeString} }

// Enum declares a string that is one of a few words.
func Enum(name string, words ...string) *Field {
	return &Field{name: name, typ: TypeEnum, enum: words}
}

// Text declares code or other text whose positions matter: see [Config.Text].
func Text(name string) *Field { return &Field{name: name, typ: TypeText} }

// Expr declares an expression: see [Config.Text].
func Expr(name string) *Field { return &Field{name: name, typ: TypeExpr} }

// Int declares an integer.
func Int(name string) *Field { return &Field{name: name, typ: TypeInt} }

// Float declares a number.
func Float(name string) *Field { return &Field{name: name, typ: TypeFloat} }

// Bool declares a boolean.
func Bool(name string) *Field { return &Field{name: name, typ: TypeBool} }

// Duration declares a span of time, written as a Go duration such as 1m30s or as
// a number of milliseconds. It is never negative.
func Duration(name string) *Field { return &Field{name: name, typ: TypeDuration} }

// Bytes declares a number of bytes, also written as a size such as 64KiB, 8MiB,
// 1GiB or 10MB. It is never negative.
func Bytes(name string) *Field { return &Field{name: name, typ: TypeBytes} }

// Any declares a field that takes any value.
func Any(name string) *Field { return &Field{name: name, typ: TypeAny} }

// Strings declares a list of strings. A string by itself is a list of one.
func Strings(name string) *Field { return &Field{name: name, typ: TypeStrings} }

// OutPort declares the name of one of the node's numbered out-ports: out[2]
// means index 2, and out index 0.
func OutPort(name string) *Field { return &Field{name: name, typ: TypeOutPort} }

// List declares a list of objects. An object by itself is a list of one.
func List(name string, fields Object) *Field {
	return &Field{name: name, typ: TypeList, fields: fields}
}

// Group declares an object in the config.
func Group(name string, fields Object) *Field {
	return &Field{name: name, typ: TypeGroup, fields: fields}
}

// Short makes a scalar in place of the object short for one of its fields.
func (f *Field) Short(name string) *Field {
	f.short = name
	return f
}

// Doc describes the field to users, in Markdown: what it does, with units. The
// reference shows its type and default in columns of their own.
func (f *Field) Doc(text string) *Field {
	f.doc = text
	return f
}

// Required makes it an error to leave the field out. A required list must not be
// empty.
func (f *Field) Required() *Field {
	f.required = true
	return f
}

// Secret keeps the value out of all messages and listings.
func (f *Field) Secret() *Field {
	f.secret = true
	return f
}

// Braces says that a text has templates of its own, so that {{ in it is meant as it stands.
func (f *Field) Braces() *Field {
	f.braces = true
	return f
}

// Words lists strings for a string field, for editors. The kind itself must check the
// field. If open is set, other strings are allowed as well.
func (f *Field) Words(open bool, words ...string) *Field {
	f.open, f.enum = open, words
	return f
}

// Pattern gives a regular expression that strings of a string or text field match, for
// editors. The kind itself must check the field.
func (f *Field) Pattern(expr string) *Field {
	f.pattern = expr
	return f
}

// Range bounds a number, both ends included. The bounds of a duration are in
// nanoseconds, the bounds of a size in bytes.
func (f *Field) Range(least, most float64) *Field {
	f.ranged, f.min, f.max = true, least, most
	return f
}

// Default sets the value of the field if the author leaves it out: a string, bool,
// number, time.Duration, []string or [value.Value]. A default may also be written as
// in a document, such as "8MiB".
func (f *Field) Default(v any) *Field {
	switch v := v.(type) {
	case string:
		f.def = value.String(v)
	case bool:
		f.def = value.Bool(v)
	case int:
		f.def = value.Int(int64(v))
	case int64:
		f.def = value.Int(v)
	case float64:
		f.def = value.Float(v)
	case time.Duration:
		f.def = value.Duration(v)
	case []string:
		elems := make([]value.Value, len(v))
		for i := range v {
			elems[i] = value.String(v[i])
		}
		f.def = value.List(elems...)
	case value.Value:
		f.def = v
	default:
		panic(fmt.Sprintf("schema: field %q: a default cannot be a %T", f.name, v))
	}
	return f
}

// An Object is the fields of a config, in the order in which they are
// documented. The zero Object has none. It is immutable.
type Object struct {
	fields []*Field
	byName map[string]int
}

// Has reports whether there is a field of that name.
func (o Object) Has(name string) bool {
	_, ok := o.byName[name]
	return ok
}

// Fields makes an object of its fields.
func Fields(fields ...*Field) Object {
	o := Object{fields: slices.Clone(fields), byName: make(map[string]int, len(fields))}
	for i, f := range fields {
		if _, dup := o.byName[f.name]; dup || f.name == "" {
			panic(fmt.Sprintf("schema: field %q is declared twice, or has no name", f.name))
		}
		o.byName[f.name] = i
		f.check()
	}
	return o
}

// With returns an object that has more fields, after its own.
func (o Object) With(fields ...*Field) Object {
	return Fields(append(o.fields[:len(o.fields):len(o.fields)], fields...)...)
}

// check panics if the default does not fit the field, and decodes it.
func (f *Field) check() {
	if f.checked {
		return // another goroutine may read it
	}
	f.checked = true
	if f.def.IsNull() {
		return
	}
	if f.typ == TypeList || f.typ == TypeGroup {
		panic(fmt.Sprintf("schema: field %q: defaults belong to the fields within", f.name))
	}
	if f.typ == TypeAny {
		return
	}
	raw := RawOf(f.def)
	var s slot
	if d := f.decode(&s, raw); len(d) > 0 {
		panic(fmt.Sprintf("schema: field %q: its default does not fit: %s", f.name, d[0].Msg))
	}
	f.def = s.v
}

// RawOf returns v as a tree without positions.
func RawOf(v value.Value) *Raw {
	switch v.Kind() {
	case value.KindList:
		r := &Raw{Kind: RawList}
		for _, e := range v.Elems() {
			r.Items = append(r.Items, RawOf(e))
		}
		return r
	case value.KindMap:
		r := &Raw{Kind: RawMap}
		for name, e := range v.Fields() {
			r.Fields = append(r.Fields, RawField{Name: name, Value: RawOf(e)})
		}
		return r
	}
	r := &Raw{Value: v}
	if s, ok := v.AsString(); ok {
		r.Text.Code = s
	}
	return r
}

func inRange(n float64, f *Field) bool {
	return !f.ranged || !math.IsNaN(n) && n >= f.min && n <= f.max
}
