package reference

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// Schema returns a JSON Schema (draft 2020-12) of a document with nodes of the
// given kinds: one spec, or a list of specs. It takes the older form, too, and
// marks it as deprecated.
func Schema(defs []*node.Def) ([]byte, error) {
	var kinds []value.Value
	var all value.MapBuilder
	add := func(name string, s value.Value) {
		all.Set(name, s)
		kinds = append(kinds, ref(name))
	}
	for _, def := range defs {
		add(def.Kind, kindSchema(def, def.Kind, nil))
		switch def.Kind {
		case "router":
			add("route", kindSchema(def, "route", nil))
		case "listener":
			add("http", kindSchema(def, "http", olderListener))
		}
	}
	all.Set("spec", object(
		"type", text("object"),
		"required", value.List(text("kind")),
		"oneOf", value.List(kinds...),
	))
	all.Set("links", linksSchema())
	all.Set("env", envSchema())
	doc := object(
		"$schema", text("https://json-schema.org/draft/2020-12/schema"),
		"title", text("Uniflow workflow"),
		"description", text("One spec, or a list of specs."),
		"anyOf", value.List(
			ref("spec"),
			object("type", text("array"), "items", ref("spec")),
		),
		"$defs", all.Build(),
	)
	data, err := doc.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// olderListener makes the schema of a listener's own fields one of the older
// form: an address in place of protocol, host and port.
func olderListener(own value.Value) value.Value {
	properties, _ := own.Get("properties")
	properties = properties.Without("protocol").Without("host").Without("port").With("address", object(
		"description", text("Where to listen, such as :8000. Today: protocol, host and port."),
		"type", list("string", "integer"),
		"deprecated", value.Bool(true),
	))
	return own.With("properties", properties).With("required", list("address"))
}

// kindSchema is the schema of a spec of one kind.
func kindSchema(def *node.Def, kind string, change func(value.Value) value.Value) value.Value {
	own := def.Config.JSONSchema()
	if change != nil {
		own = change(own)
	}
	var properties value.MapBuilder
	constant := object("const", text(kind), "description", text(def.Summary))
	if kind != def.Kind {
		constant = constant.With("deprecated", value.Bool(true))
	}
	ports := portsSchema(def)
	properties.Set("kind", constant)
	properties.Set("id", object("type", text("string"), "format", text("uuid"), "description", text("Made from namespace and name, or place, when missing.")))
	properties.Set("namespace", object("type", text("string"), "minLength", value.Int(1), "default", text("default"), "description", text("Which specs see one another.")))
	properties.Set("name", object("type", text("string"), "minLength", value.Int(1), "maxLength", value.Int(256), "description", text("What links call the node; unique in its namespace.")))
	properties.Set("annotations", object("type", list("object", "null"), "description", text("Notes for people and tools.")))
	properties.Set("env", ref("env"))
	properties.Set("ports", ports.With("description", text("Links, by out-port.")))
	properties.Set("links", ports.With("description", text("The older name of ports.")).With("deprecated", value.Bool(true)))
	if fields, ok := own.Get("properties"); ok {
		for name, field := range fields.Fields() {
			properties.Set(name, field)
		}
	}
	required := list("kind")
	if more, ok := own.Get("required"); ok {
		for _, name := range more.Elems() {
			required = required.Append(name)
		}
	}
	return object(
		"title", text(kind),
		"description", text(def.Summary),
		"type", text("object"),
		"properties", properties.Build(),
		"required", required,
		"additionalProperties", value.Bool(false),
	)
}

// portsSchema is the schema of the out-ports of a kind.
func portsSchema(def *node.Def) value.Value {
	var properties, patterns value.MapBuilder
	named := func(name, doc string) {
		properties.Set(name, object("$ref", text("#/$defs/links"), "description", text(doc)))
	}
	for _, p := range def.Out {
		named(p.Name, p.Doc)
		if p.Indexes != nil {
			patterns.Set("^"+regexp.QuoteMeta(p.Name)+`\[(0|[1-9][0-9]*)\]$`, object("$ref", text("#/$defs/links"), "description", text(p.Doc)))
		} else {
			patterns.Set("^"+regexp.QuoteMeta(p.Name)+`\[0\]$`, object("$ref", text("#/$defs/links"), "description", text(p.Doc)))
		}
	}
	if def.HasError() {
		named("error", errorDoc)
	}
	named("init", "Run before the node opens.")
	named("active", "Run after the node has opened.")
	named("deactive", "Run before the node closes.")
	named("deinit", "Run after the node has closed.")
	s := object("type", list("object", "null"), "properties", properties.Build())
	if patterns.Len() > 0 {
		s = s.With("patternProperties", patterns.Build())
	}
	return s.With("additionalProperties", value.Bool(false))
}

func linksSchema() value.Value {
	link := object(
		"type", text("object"),
		"properties", object(
			"name", object("type", text("string"), "minLength", value.Int(1), "description", text("The node that the link leads to.")),
			"id", object("type", text("string"), "format", text("uuid"), "description", text("The node that the link leads to, by id.")),
			"port", object("type", text("string"), "minLength", value.Int(1), "default", text("in"), "description", text("The in-port there.")),
		),
		"oneOf", value.List(object("required", list("name")), object("required", list("id"))),
		"additionalProperties", value.Bool(false),
	)
	return object("anyOf", value.List(object("type", text("array"), "items", link), link, object("type", text("null"))))
}

func envSchema() value.Value {
	entry := object(
		"type", list("object", "null"),
		"properties", object(
			"name", object("type", text("string"), "minLength", value.Int(1), "description", text("The variable to take.")),
			"id", object("type", text("string"), "format", text("uuid"), "description", text("The variable to take, by id.")),
			"data", object("description", text("Text that may be a template over the variable, or over the environment.")),
		),
		"additionalProperties", value.Bool(false),
	)
	older := object("type", text("array"), "items", entry, "minItems", value.Int(1), "maxItems", value.Int(1), "deprecated", value.Bool(true))
	return object(
		"description", text("What templates in the kind's own fields may use, by key."),
		"type", list("object", "null"),
		"additionalProperties", object("anyOf", value.List(entry, older)),
	)
}

func text(s string) value.Value { return value.String(s) }

func ref(name string) value.Value { return object("$ref", text("#/$defs/"+name)) }

func list(words ...string) value.Value {
	elems := make([]value.Value, len(words))
	for i, w := range words {
		elems[i] = text(w)
	}
	return value.List(elems...)
}

// object makes a map of names and values in turn.
func object(pairs ...any) value.Value {
	var b value.MapBuilder
	for i := 0; i < len(pairs); i += 2 {
		b.Set(pairs[i].(string), pairs[i+1].(value.Value))
	}
	return b.Build()
}
