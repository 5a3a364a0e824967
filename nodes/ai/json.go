package ai

import (
	"strings"

	"github.com/uniflow-labs/uniflow/value"
)

// strict reports whether servers take a schema in their strict form: every object has all
// its properties required, and no others.
func strict(doc value.Value) bool {
	switch doc.Kind() {
	case value.KindList:
		for _, e := range doc.Elems() {
			if !strict(e) {
				return false
			}
		}
	case value.KindMap:
		if properties := get(doc, "properties"); properties.Kind() == value.KindMap {
			others, given := get(doc, "additionalProperties").AsBool()
			if !given || others || get(doc, "required").Len() != properties.Len() {
				return false
			}
		}
		for _, e := range doc.Fields() {
			if !strict(e) {
				return false
			}
		}
	}
	return true
}

// parse reads the JSON that a model wrote. Many put it into a block of code.
func parse(text string) (value.Value, error) {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		if inner, ok = strings.CutSuffix(inner, "```"); ok {
			if _, rest, ok := strings.Cut(inner, "\n"); ok {
				text = rest
			}
		}
	}
	return value.ParseJSON([]byte(text))
}

// get returns a field of a map, null if there is none.
func get(v value.Value, name string) value.Value {
	field, _ := v.Get(name)
	return field
}

// text returns a field that is text, "" if there is none.
func text(v value.Value, name string) string {
	s, _ := get(v, name).AsString()
	return s
}

// object makes a map of names and values.
func object(pairs ...any) value.Value {
	fields := make([]value.Field, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		var v value.Value
		switch p := pairs[i+1].(type) {
		case string:
			v = value.String(p)
		case int:
			v = value.Int(int64(p))
		case bool:
			v = value.Bool(p)
		case value.Value:
			v = p
		}
		fields = append(fields, value.Field{Name: pairs[i].(string), Value: v})
	}
	return value.Map(fields...)
}
