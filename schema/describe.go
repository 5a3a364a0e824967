package schema

import (
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/value"
)

// A FieldInfo describes a field.
type FieldInfo struct {
	Name     string
	Type     Type
	Default  value.Value // null for none
	Doc      string      // Markdown
	Required bool
	Secret   bool
	Braces   bool     // see [Field.Braces]
	Enum     []string // the allowed words; must not be changed
	Min, Max float64  // the range, if Ranged; a duration in nanoseconds
	Ranged   bool
	Fields   Object // of a list or group
}

// All returns the fields in the order of declaration. The caller owns the slice.
func (o Object) All() []FieldInfo {
	all := make([]FieldInfo, len(o.fields))
	for i, f := range o.fields {
		all[i] = FieldInfo{
			Name: f.name, Type: f.typ, Default: f.def, Doc: f.doc, Required: f.required, Secret: f.secret, Braces: f.braces,
			Min: f.min, Max: f.max, Ranged: f.ranged, Fields: f.fields,
		}
		if f.secret {
			all[i].Default = value.Null()
		}
		if !f.open {
			all[i].Enum = f.enum
		}
	}
	return all
}

// JSONSchema returns a JSON Schema (draft 2020-12) of the object as a map. A
// caller that adds fields of its own, such as kind, adds them to "properties".
// It accepts what the decoder accepts: a string in place of a number, one entry in
// place of a list. Only fields of text are stricter.
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

// Patterns of the strings that the decoder accepts in place of other values. What a
// template renders to is not known here, so every template matches.
const (
	number   = `([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?`
	template = `|\{\{`
)

var (
	anyString   = entry("type", value.String("string"))
	stringForms = map[Type]string{
		TypeInt:      `^[-+]?[0-9]+(\.0*)?([eE]\+?[0-9]+)?$` + template,
		TypeFloat:    `^[-+]?` + number + `$` + template,
		TypeBool:     `^([Tt]rue|TRUE|[Ff]alse|FALSE)$` + template,
		TypeDuration: `^\+?(` + number + `|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$` + template,
		TypeBytes:    `^` + number + ` *([KMGT]iB|[kKMGT]?B)?$` + template,
		TypeOutPort:  `^out(\[(0|[1-9][0-9]{0,2}|10[01][0-9]|102[0-3])\])?$` + template,
	}
)

// entry makes a map of alternating names and values.
func entry(pairs ...any) value.Value {
	var b value.MapBuilder
	for i := 0; i < len(pairs); i += 2 {
		b.Set(pairs[i].(string), pairs[i+1].(value.Value))
	}
	return b.Build()
}

func form(pattern string) value.Value { return anyString.With("pattern", value.String(pattern)) }

// anyString is the schema of a string that has the field's pattern, if there is one.
func (f *Field) anyString() value.Value {
	if f.pattern == "" {
		return anyString
	}
	return form(f.pattern + template)
}

// alternatives returns the schemas of which a value of the field must match one. None
// means that any value is valid.
func (f *Field) alternatives() []value.Value {
	bounded := func(name string, unit float64) value.Value {
		s := entry("type", value.String(name))
		if f.ranged {
			return s.With("minimum", value.Float(f.min/unit)).With("maximum", value.Float(f.max/unit))
		}
		return s
	}
	many := func(item value.Value) value.Value {
		list := entry("type", value.String("array"), "items", item)
		if f.required {
			list = list.With("minItems", value.Int(1))
		}
		return list
	}
	switch f.typ {
	case TypeString, TypeEnum:
		s := f.anyString()
		if f.required {
			s = s.With("minLength", value.Int(1))
		}
		if len(f.enum) == 0 {
			return []value.Value{s}
		}
		words := make([]value.Value, len(f.enum))
		for i, word := range f.enum {
			words[i] = value.String(word)
		}
		if !f.open {
			s = form(template[1:])
		}
		return []value.Value{entry("enum", value.List(words...)), s}
	case TypeText, TypeExpr:
		return []value.Value{f.anyString(), entry("type", value.String("number")), entry("type", value.String("boolean"))}
	case TypeInt:
		return []value.Value{bounded("integer", 1), form(stringForms[f.typ])}
	case TypeFloat:
		return []value.Value{bounded("number", 1), form(stringForms[f.typ])}
	case TypeBool:
		return []value.Value{entry("type", value.String("boolean")), form(stringForms[f.typ])}
	case TypeDuration, TypeBytes:
		unit := 1.0
		if f.typ == TypeDuration {
			unit = float64(time.Millisecond)
		}
		number := bounded("number", unit)
		if !f.ranged {
			number = number.With("minimum", value.Int(0))
		}
		return []value.Value{form(stringForms[f.typ]), number}
	case TypeOutPort:
		return []value.Value{form(stringForms[f.typ])}
	case TypeStrings:
		return []value.Value{many(anyString), anyString}
	case TypeList:
		return []value.Value{many(f.fields.JSONSchema()), f.fields.JSONSchema()}
	case TypeGroup:
		all := []value.Value{f.fields.JSONSchema()}
		if f.short != "" {
			all = append(all, f.fields.fields[f.fields.byName[f.short]].alternatives()...)
		}
		return all
	}
	return nil
}

func (f *Field) jsonSchema() value.Value {
	var b value.MapBuilder
	if f.doc != "" {
		b.Set("description", value.String(f.doc))
	}
	all := f.alternatives()
	if !f.required && f.typ != TypeAny {
		all = append(all, entry("type", value.String("null"))) // left out
	}
	switch len(all) {
	case 0:
	case 1:
		for name, v := range all[0].Fields() {
			b.Set(name, v)
		}
	default:
		b.Set("anyOf", value.List(all...))
	}
	if !f.def.IsNull() && !f.secret {
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
		return value.String(show.Size(n))
	}
	return f.def
}

// Markdown returns a table of the fields. The name of a field of a list or group
// follows the name of its list or group. The table is empty if there are no fields.
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
	if len(f.enum) > 0 && !f.open {
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
			least, most = show.Size(f.min), show.Size(f.max)
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
