package schema

import (
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// A FieldInfo is what is to be said about a field.
type FieldInfo struct {
	Name     string
	Type     Type
	Default  value.Value // null for none
	Doc      string      // Markdown
	Required bool
	Secret   bool
	Enum     []string // the words that it may be; must not be changed
	Min, Max float64  // the range, if Ranged; a duration in nanoseconds
	Ranged   bool
	Fields   Object // of a list or group
}

// All returns the fields in the order of declaration. The caller owns the slice.
func (o Object) All() []FieldInfo {
	all := make([]FieldInfo, len(o.fields))
	for i, f := range o.fields {
		all[i] = FieldInfo{
			Name: f.name, Type: f.typ, Default: f.def, Doc: f.doc, Required: f.required, Secret: f.secret,
			Enum: f.enum, Min: f.min, Max: f.max, Ranged: f.ranged, Fields: f.fields,
		}
	}
	return all
}

// JSONSchema returns a JSON Schema (draft 2020-12) of the object as a map. A
// caller that adds fields of its own, such as kind, adds them to "properties".
// Every field but those of text takes what the decoder does: a string in place
// of a number, one entry in place of a list.
func (o Object) JSONSchema() value.Value {
	var properties value.MapBuilder
	var required []value.Value
	for _, f := range o.fields {
		properties.Set(f.name, f.jsonSchema())
		if f.required {
			required = append(required, value.String(f.name))
		}
	}
	var b value.MapBuilder
	b.Set("type", value.String("object"))
	b.Set("properties", properties.Build())
	if len(required) > 0 {
		b.Set("required", value.List(required...))
	}
	b.Set("additionalProperties", value.Bool(false))
	return b.Build()
}

func (f *Field) jsonSchema() value.Value {
	var b value.MapBuilder
	if f.doc != "" {
		b.Set("description", value.String(f.doc))
	}
	types := func(names ...string) {
		if len(names) == 1 {
			b.Set("type", value.String(names[0]))
			return
		}
		elems := make([]value.Value, len(names))
		for i, name := range names {
			elems[i] = value.String(name)
		}
		b.Set("type", value.List(elems...))
	}
	oneOrMany := func(item value.Value) {
		var list value.MapBuilder
		list.Set("type", value.String("array"))
		list.Set("items", item)
		if f.required {
			list.Set("minItems", value.Int(1))
		}
		b.Set("anyOf", value.List(list.Build(), item))
	}
	switch f.typ {
	case TypeString:
		types("string")
	case TypeText, TypeExpr:
		types("string", "number", "boolean")
	case TypeEnum:
		words := make([]value.Value, len(f.enum))
		for i, word := range f.enum {
			words[i] = value.String(word)
		}
		b.Set("anyOf", value.List(
			value.Map(value.Field{Name: "enum", Value: value.List(words...)}),
			value.Map(value.Field{Name: "type", Value: value.String("string")}, value.Field{Name: "pattern", Value: value.String(`\{\{`)}),
		))
	case TypeInt:
		types("integer", "string")
	case TypeFloat:
		types("number", "string")
	case TypeBool:
		types("boolean", "string")
	case TypeDuration, TypeBytes:
		types("string", "number")
	case TypeStrings:
		oneOrMany(value.Map(value.Field{Name: "type", Value: value.String("string")}))
	case TypeOutPort:
		types("string")
		b.Set("pattern", value.String(`^out(\[(0|[1-9][0-9]*)\])?$|\{\{`))
	case TypeList:
		oneOrMany(f.fields.JSONSchema())
	case TypeGroup:
		for name, v := range f.fields.JSONSchema().Fields() {
			b.Set(name, v)
		}
	}
	if f.ranged && (f.typ == TypeInt || f.typ == TypeFloat) {
		b.Set("minimum", value.Float(f.min))
		b.Set("maximum", value.Float(f.max))
	}
	if !f.def.IsNull() {
		b.Set("default", f.written())
	}
	if f.secret {
		b.Set("writeOnly", value.Bool(true))
	}
	return b.Build()
}

// written returns the default as an author would write it.
func (f *Field) written() value.Value {
	if d, ok := f.def.AsDuration(); ok {
		return value.String(d.String())
	}
	if n, ok := f.def.AsFloat(); ok && f.typ == TypeBytes {
		return value.String(formatSize(n))
	}
	return f.def
}

// Markdown returns a table of the fields, those of lists and groups indented
// with the name they stand in. It is empty if there are none.
func (o Object) Markdown() string {
	if len(o.fields) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("| field | type | default | description |\n| --- | --- | --- | --- |\n")
	o.rows(&b, "")
	return b.String()
}

func (o Object) rows(b *strings.Builder, prefix string) {
	for _, f := range o.fields {
		name := prefix + f.name
		def := ""
		switch {
		case f.required:
			def = "required"
		case !f.def.IsNull() && !f.secret:
			def = "`" + plainText(f.written()) + "`"
		}
		b.WriteString("| `" + name + "` | " + f.typeCell() + " | " + cell(def) + " | " + cell(f.doc) + " |\n")
		switch f.typ {
		case TypeList:
			f.fields.rows(b, name+"[].")
		case TypeGroup:
			f.fields.rows(b, name+".")
		}
	}
}

func (f *Field) typeCell() string {
	t := f.typ.String()
	if f.typ == TypeEnum {
		words := make([]string, len(f.enum))
		for i, word := range f.enum {
			words[i] = "`" + word + "`"
		}
		t = strings.Join(words, ", ")
	}
	if f.ranged {
		least, most := formatFloat(f.min), formatFloat(f.max)
		switch f.typ {
		case TypeDuration:
			least, most = time.Duration(f.min).String(), time.Duration(f.max).String()
		case TypeBytes:
			least, most = formatSize(f.min), formatSize(f.max)
		}
		t += ", " + least + " to " + most
	}
	if f.secret {
		t += ", secret"
	}
	return cell(t)
}

// cell makes text fit into a cell of a Markdown table.
func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(s), "|", `\|`), "\n", " ")
}

func plainText(v value.Value) string {
	if s, ok := v.AsString(); ok {
		if s == "" {
			return `""`
		}
		return s
	}
	return v.String()
}
