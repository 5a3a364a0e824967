package jsonschema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

func TestDefaults(t *testing.T) {
	f := func(doc, v, want string) {
		t.Helper()
		s, err := Compile(parse(t, doc), Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, wrong := s.Defaults()
		if len(wrong) > 0 {
			t.Errorf("%s: got %v, want no mistake", doc, wrong)
		}
		in := parse(t, v)
		got, changed := in, false
		if d != nil {
			got, changed = d.Apply(in)
		}
		if got.String() != want {
			t.Errorf("%s, %s: got %s, want %s", doc, v, got, want)
		}
		if changed != (in.String() != want) {
			t.Errorf("%s, %s: got changed %v", doc, v, changed)
		}
		if again := parse(t, v); !again.Equal(in) {
			t.Errorf("%s: the value was changed", v)
		}
	}
	const flat = `{"properties": {"b": {"default": 2}, "a": {"default": null}, "c": {}}}`
	f(flat, `{}`, `{"a":null,"b":2}`)
	f(flat, `{"c": 3, "b": 7}`, `{"c":3,"b":7,"a":null}`)
	f(flat, `{"a": 1, "b": null}`, `{"a":1,"b":null}`)
	f(flat, `null`, `null`)
	f(flat, `[]`, `[]`)
	f(`{"properties": {"c": {}}}`, `{}`, `{}`)

	const deep = `{"properties": {"page": {"properties": {"size": {"default": 20}}}, "list": {"items": {"properties": {"n": {"default": 1}}}}}}`
	f(deep, `{}`, `{}`)
	f(deep, `{"page": {}, "list": [{}, {"n": 2}, 7]}`, `{"page":{"size":20},"list":[{"n":1},{"n":2},7]}`)
	f(deep, `{"page": 1, "list": {}, "x": {}}`, `{"page":1,"list":{},"x":{}}`)
	f(deep, `{"list": [{"n": 2}]}`, `{"list":[{"n":2}]}`)

	// A default is taken as it is.
	f(`{"properties": {"a": {"default": {}, "properties": {"b": {"default": 1}}}}}`, `{}`, `{"a":{}}`)
	f(`{"properties": {"a": {"default": {}, "properties": {"b": {"default": 1}}}}}`, `{"a": {}}`, `{"a":{"b":1}}`)

	// Parts of a schema elsewhere.
	f(`{"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"default": 5}}}`, `{}`, `{"a":5}`)
	f(`{"properties": {"a": {"$ref": "#/$defs/n", "default": 6}}, "$defs": {"n": {"default": 5}}}`, `{}`, `{"a":6}`)
	f(`{"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"a": {"default": 1}}}}}`, `{}`, `{"a":1}`)
	f(`{"allOf": [{"properties": {"a": {"default": 1}}}, {"properties": {"a": {"properties": {"b": {"default": 2}}}}}]}`, `{}`, `{"a":1}`)
	f(`{"allOf": [{"properties": {"a": {"default": {}}}}, {"properties": {"a": {"properties": {"b": {"default": 2}}}}}]}`, `{"a": {}}`, `{"a":{"b":2}}`)

	// A schema that leads back to itself.
	const tree = `{"properties": {"n": {"default": 0}, "children": {"items": {"$ref": "#"}}}}`
	f(tree, `{"children": [{"children": [{"n": 1}, {}]}]}`, `{"children":[{"children":[{"n":1},{"n":0}],"n":0}],"n":0}`)
}

// TestDefaultsTwice has a schema whose parts lead to the same part in two ways at each level: each
// part of a value is looked at one time.
func TestDefaultsTwice(t *testing.T) {
	s, err := Compile(parse(t, `{"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}], "properties": {"n": {"default": 1}}}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, wrong := s.Defaults()
	if d == nil || len(wrong) > 0 {
		t.Fatalf("got %v, %v", d, wrong)
	}
	const depth = 90 // two to the power of it are more than can be looked at
	got, _ := d.Apply(parse(t, strings.Repeat(`{"a":`, depth)+"{}"+strings.Repeat("}", depth)))
	if n := strings.Count(got.String(), `"n":1`); n != depth+1 {
		t.Errorf("got %d defaults, want %d", n, depth+1)
	}
}

func TestDefaultsThatDoNothing(t *testing.T) {
	f := func(doc string, want ...string) {
		t.Helper()
		s, err := Compile(parse(t, doc), Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, wrong := s.Defaults()
		var got []string
		for _, m := range wrong {
			got = append(got, m.Path+": "+m.Message)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\ngot  %v\nwant %v", doc, got, want)
		}
	}
	const unmatched, ignored = "the default does not match its own schema", "the default is not filled in"
	f(`{"properties": {"a": {"type": "integer", "default": 1}}}`)
	f(`{"properties": {"a": {"type": "integer", "default": "1"}}}`, "/properties/a/default: "+unmatched)
	f(`{"properties": {"a/b": {"$ref": "#/$defs/n", "default": 7}}, "$defs": {"n": {"maximum": 5}}}`, "/properties/a~1b/default: "+unmatched)
	f(`{"default": {}}`, "/default: "+ignored)
	f(`{"properties": {"a": {"items": {"default": 1}}}}`, "/properties/a/items/default: "+ignored)
	f(`{"anyOf": [{"properties": {"a": {"default": 1}}}, {}]}`, "/anyOf/0/properties/a/default: "+ignored)
	f(`{"patternProperties": {"a": {"default": 1}}}`, "/patternProperties/a/default: "+ignored)
	f(`{"properties": {"a": {"$ref": "#/$defs/n"}}, "oneOf": [{"$ref": "#/$defs/n"}], "$defs": {"n": {"default": 1}}}`)
	f(`{"$defs": {"unused": {"default": 1}}}`)

	s, err := Compile(parse(t, `{"properties": {"a": {"default": 1}}}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Ignored("why"); len(got) != 1 || got[0].Path != "/properties/a/default" || got[0].Hint != "why" {
		t.Errorf("got %+v", got)
	}
}

func TestFormats(t *testing.T) {
	for _, name := range checkedFormats {
		s, err := Compile(value.Map(value.Field{Name: "format", Value: value.String(name)}), Options{})
		if err != nil || s.root.format == nil || len(s.Doubts()) > 0 {
			t.Errorf("%s: not checked, error %v", name, err)
		}
	}
	f := func(doc, want string) {
		t.Helper()
		s, err := Compile(parse(t, doc), Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, m := range s.Doubts() {
			got += m.Path + ": " + m.Hint
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", doc, got, want)
		}
	}
	f(`{"format": "e-mail"}`, "/format: write email")
	f(`{"properties": {"a": {"items": {"format": "datetime"}}}}`, "/properties/a/items/format: write date-time")
	f(`{"format": "phone"}`, "/format: write one of email, date,")
	f(`{"format": "int64"}`, "")
	f(`{"format": "x-phone"}`, "")
	f(`{"properties": {"format": {"const": "e-mail"}}, "default": {"format": "e-mail"}}`, "")
}
