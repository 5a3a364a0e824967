package reference

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

// validators are what compile has made, by the text of the schema: most examples define no
// kind, so they share one schema.
var validators = make(map[string]*jsonschema.Schema)

// compile makes a validator of the schema of some kinds, checking the schema
// against its own meta-schema.
func compile(t *testing.T, defs []*node.Def) *jsonschema.Schema {
	t.Helper()
	text, err := Schema(defs)
	if err != nil {
		t.Fatal(err)
	}
	if s := validators[string(text)]; s != nil {
		return s
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	validators[string(text)] = s
	return s
}

// validate checks each YAML document of a text, and returns the first error.
func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	loader, err := yaml.NewLoader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for {
		var doc any
		if err := loader.Load(&doc); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		data, err := json.Marshal(named(doc))
		if err != nil {
			t.Fatal(err)
		}
		instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(instance); err != nil {
			return err
		}
	}
}

// named turns the keys of maps into strings, as in JSON: in YAML they can be numbers,
// such as HTTP statuses.
func named(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, field := range v {
			v[key] = named(field)
		}
	case map[any]any:
		all := make(map[string]any, len(v))
		for key, field := range v {
			all[fmt.Sprint(key)] = named(field)
		}
		return all
	case []any:
		for i := range v {
			v[i] = named(v[i])
		}
	}
	return v
}

func TestSchemaTakesExamples(t *testing.T) {
	s := compile(t, std.Defs(""))
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs("")})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "examples", "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("got %d examples, error %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, string(data)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, def := range std.Defs("") {
		if def.Example == "" {
			t.Errorf("%s: got no example, want one", def.Kind)
		}
		kinds, list := engine.Kinds(uniflow.Source{Documents: []spec.Document{{File: def.Kind, Data: []byte(def.Example)}}})
		if list.HasErrors() {
			t.Errorf("%s: %v", def.Kind, list)
		}
		if err := validate(t, compile(t, kinds), def.Example); err != nil {
			t.Errorf("%s: %v", def.Kind, err)
		}
	}
}

func TestSchema(t *testing.T) {
	s := compile(t, std.Defs(""))
	f := func(text string, ok bool) {
		t.Helper()
		if err := validate(t, s, text); (err == nil) != ok {
			t.Errorf("%s: got %v, want ok %v", text, err, ok)
		}
	}
	f("{kind: nop}", true)
	f("[]", true)
	f("[{kind: nop, name: a}, {kind: nop, name: b}]", true)
	f("{kind: nop, id: 01890a5d-ac96-774b-bcce-b302099a8057, namespace: n, annotations: {a: 1}, env: {A: {name: v}, B: , C: [{data: x}]}, ports: }", true)
	f("{kind: nop, id: one}", false)
	f("{kind: nop, name: ''}", false)
	f("{kind: nope}", false)
	f("{name: a}", false)
	f("pong", false)
	f("{kind: nop, extra: 1}", false)
	f("{kind: nop, env: {A: {nmae: v}}}", false)
	f("{kind: snippet, code: x, ports: {out: [{name: a, port: in}], error: {id: 01890a5d-ac96-774b-bcce-b302099a8057}, init: []}}", true)
	f("{kind: snippet, code: x, ports: {output: [{name: a}]}}", false)
	f("{kind: snippet, code: x, ports: {out: [{name: a, id: 01890a5d-ac96-774b-bcce-b302099a8057}]}}", false)
	f("{kind: snippet, code: x, ports: {out: [{port: in}]}}", false)
	f("{kind: snippet, code: x, timeout: 5s}", true)
	f("{kind: snippet, code: x, timeout: 5000}", true)
	f("{kind: snippet, code: x, timeout: [5]}", false)
	f("{kind: snippet}", false)
	f("{kind: if, when: a, ports: {'out[1]': [{name: a}]}}", true)
	f("{kind: if, when: a, ports: {'out[x]': [{name: a}]}}", false)
	f("{kind: listener, port: 8000, limits: {body_bytes: 8MiB}}", true)
	f("{kind: listener, port: 8000, limits: {body_byte: 8MiB}}", false)
	f("{kind: listener, port: 80000}", false)
	f("{kind: listener, port: '{{ .PORT }}', protocol: '{{ .PROTOCOL }}'}", true)
	f("{kind: listener, protocol: htp, port: 1}", false)
	f("{kind: http, address: ':8000', links: {out: [{name: a, port: io}]}}", true)
	f("{kind: http, port: 8000}", false)
	f("{kind: snippet, code: x, timeout: 5 parsecs}", false)
	f("{kind: snippet, code: x, timeout: 1m30.5s}", true)
	f("{kind: snippet, code: x, timeout: '-5s'}", false)
	f("{kind: snippet, code: x, timeout: '{{ .T }}'}", true)
	f("{kind: snippet, code: x, timeout: }", true)
	f("{kind: snippet, code: x, language: js}", false)
	f("{kind: snippet, code: x, language: '{{ .L }}'}", true)
	f("{kind: snippet, code: x, links: {out: {name: a}}}", true)
	f("{kind: listener, port: 8000, limits: {body_bytes: 8 megs}}", false)
	f("{kind: listener, port: 8000, limits: {body_bytes: 1.5 MB}}", true)
	f("{kind: listener, port: http}", false)
	f("{kind: listener, port: '8000', access_log: 'true'}", true)
	f("{kind: listener, port: 1, access_log: yes please}", false)
	f("{kind: router, routes: []}", false)
	f("{kind: router, routes: [{method: PURGE, path: /, port: out}]}", true)
	f("{kind: router, routes: [{method: GET, path: /, port: first}]}", false)
	f("{kind: nop, name: ' a'}", false)
	f("{kind: route, routes: [{method: GET, path: /, port: 'out[0]'}]}", true)
}

// TestSchemaIsStrict holds the schema to what ajv's strict mode asks for, with
// strictTypes, strictTuples and strictRequired: keywords that it knows, one type (or
// one and null) that the others apply to, and required properties that are declared.
func TestSchemaIsStrict(t *testing.T) {
	text, err := Schema(std.Defs(""))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	appliesTo := map[string]string{
		"properties": "object", "patternProperties": "object", "additionalProperties": "object", "required": "object",
		"items": "array", "minItems": "array", "maxItems": "array", "pattern": "string", "minLength": "string", "maxLength": "string",
		"minimum": "number", "maximum": "number",
	}
	others := " $schema $id $ref $defs title description type enum const default deprecated writeOnly anyOf allOf if then else "
	var check func(path string, s map[string]any)
	each := func(path string, of any) {
		for name, below := range of.(map[string]any) {
			check(path+"/"+name, below.(map[string]any))
		}
	}
	check = func(path string, s map[string]any) {
		types, isList := s["type"].([]any)
		if !isList && s["type"] != nil {
			types = []any{s["type"]}
		}
		if len(types) > 2 || len(types) == 2 && types[1] != "null" {
			t.Errorf("%s: got types %v, want one, or one and null", path, types)
		}
		for key, v := range s {
			if want := appliesTo[key]; want == "" && !strings.Contains(others, " "+key+" ") {
				t.Errorf("%s: got the keyword %s", path, key)
			} else if want != "" && (len(types) == 0 || types[0] != want && (want != "number" || types[0] != "integer")) {
				t.Errorf("%s: got the keyword %s for types %v", path, key, types)
			}
			switch key {
			case "properties", "patternProperties", "$defs":
				each(path+"/"+key, v)
			case "anyOf", "allOf":
				for _, below := range v.([]any) {
					check(path+"/"+key, below.(map[string]any))
				}
			case "required":
				for _, name := range v.([]any) {
					properties, _ := s["properties"].(map[string]any)
					if _, ok := properties[name.(string)]; !ok {
						t.Errorf("%s: got %s required and not declared", path, name)
					}
				}
			case "items", "additionalProperties", "if", "then", "else":
				if below, ok := v.(map[string]any); ok {
					check(path+"/"+key, below)
				}
			}
		}
	}
	check("", doc)
}

// TestSchemaCompletes has the words for editors to suggest: all kinds, whatever
// their required fields, and languages and methods.
func TestSchemaCompletes(t *testing.T) {
	text, err := Schema(std.Defs(""))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	words := func(path ...string) string {
		definitions := doc["$defs"].(map[string]any)
		at := any(definitions)
		for _, name := range append(path, "anyOf") {
			at = at.(map[string]any)[name]
			if s, ok := at.(map[string]any); ok && s["$ref"] != nil {
				at = definitions[strings.TrimPrefix(s["$ref"].(string), "#/$defs/")]
			}
		}
		return fmt.Sprint(at.([]any)[0].(map[string]any)["enum"])
	}
	kinds := words("spec", "properties", "kind")
	for _, def := range std.Defs("") {
		if !strings.Contains(kinds, def.Kind) {
			t.Errorf("got kinds %s, want %s too", kinds, def.Kind)
		}
	}
	if got, want := words("if", "properties", "language"), "[cel javascript json text typescript yaml]"; got != want {
		t.Errorf("got languages %s, want %s", got, want)
	}
}

func TestSchemaOfOneKind(t *testing.T) {
	for _, def := range std.Defs("") {
		s := compile(t, []*node.Def{def})
		if err := validate(t, s, "{kind: something}"); err == nil {
			t.Errorf("%s: got another kind accepted, want it refused", def.Kind)
		}
	}
}
