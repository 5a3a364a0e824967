package reference

import (
	"cmp"
	"regexp"

	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// SchemaID is the URL of the schema of the latest version.
const SchemaID = "https://raw.githubusercontent.com/uniflow-labs/uniflow/main/docs/reference/schema.json"

// Schema returns a JSON Schema (draft 2020-12) of a document with nodes of the
// given kinds: one spec, or a list of specs. It accepts the older form, too, and
// marks it as deprecated. The kind of a spec selects its schema, so that editors
// report the errors of that kind.
func Schema(defs []*node.Def) ([]byte, error) {
	var kinds, older, branches []value.Value
	var specs, all value.MapBuilder // by kind; all definitions
	shared := newSharer()
	add := func(name string, s value.Value) {
		specs.Set(name, s)
		shared.taken[name] = true
		is := object("type", text("object"), "properties", object("kind", object("const", text(name))), "required", list("kind"))
		branches = append(branches, object("if", is, "then", ref(name)))
	}
	var listener *node.Def
	var client value.Value
	for _, def := range defs {
		kinds = append(kinds, text(def.Kind))
		own := kindSchema(def, def.Kind, shared, nil)
		add(def.Kind, own)
		switch def.Kind {
		case "router":
			older = append(older, text("route"))
			add("route", kindSchema(def, "route", shared, nil))
		case "listener":
			listener = def
		case "http":
			client = own
		}
	}
	if listener != nil {
		was := kindSchema(listener, "http", shared, olderListener)
		if !client.IsNull() { // it has a url
			specs.Set("http", object("if", object("type", text("object"), "properties", object("address", object()), "required", list("address")), "then", was, "else", client))
		} else {
			older = append(older, text("http"))
			add("http", was)
		}
	}
	kind := object("enum", value.List(kinds...))
	if len(older) > 0 {
		kind = object("anyOf", value.List(kind, object("enum", value.List(older...), "deprecated", value.Bool(true))))
	}
	byKind := specs.Build()
	for _, s := range byKind.Fields() {
		shared.count(s)
	}
	for name, s := range byKind.Fields() {
		all.Set(name, shared.share(name, s))
	}
	for name, s := range shared.defs.Build().Fields() {
		all.Set(name, s)
	}
	all.Set("spec", object(
		"type", text("object"),
		"required", list("kind"),
		"properties", object("kind", kind.With("description", text("What the node is."))),
		"allOf", value.List(branches...),
	))
	all.Set("links", linksSchema())
	all.Set("env", envSchema())
	doc := object(
		"$schema", text("https://json-schema.org/draft/2020-12/schema"),
		"$id", text(SchemaID),
		"title", text("Uniflow workflow"),
		"description", text("One spec, or a list of specs."),
		"if", object("type", text("array")),
		"then", object("type", text("array"), "items", ref("spec")),
		"else", ref("spec"),
		"$defs", all.Build(),
	)
	data, err := appendIndented(nil, doc, "\n")
	return append(data, '\n'), err
}

// appendIndented appends JSON with a line for each element of what does not fit into one.
func appendIndented(dst []byte, v value.Value, newline string) ([]byte, error) {
	before := len(dst)
	dst, err := v.AppendJSON(dst)
	if err != nil || len(dst)-before <= 100 {
		return dst, err
	}
	inside := newline + "  "
	switch v.Kind() {
	case value.KindList:
		dst = append(dst[:before], '[')
		for i, elem := range v.Elems() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendIndented(append(dst, inside...), elem, inside); err != nil {
				return dst, err
			}
		}
		dst = append(append(dst, newline...), ']')
	case value.KindMap:
		dst = append(dst[:before], '{')
		first := true
		for name, field := range v.Fields() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			if dst, err = text(name).AppendJSON(append(dst, inside...)); err != nil {
				return dst, err
			}
			if dst, err = appendIndented(append(dst, ": "...), field, inside); err != nil {
				return dst, err
			}
		}
		dst = append(append(dst, newline...), '}')
	}
	return dst, nil
}

// olderListener makes the schema of a listener's own fields one of the older
// form: an address in place of protocol, host and port.
func olderListener(own value.Value) value.Value {
	properties, _ := own.Get("properties")
	properties = properties.Without("protocol").Without("host").Without("port").With("address", object(
		"description", text("Where to listen, such as :8000. Today: protocol, host and port."),
		"anyOf", value.List(object("type", text("string")), object("type", text("integer"))),
		"deprecated", value.Bool(true),
	))
	return own.With("properties", properties).With("required", list("address"))
}

func kindSchema(def *node.Def, kind string, shared *sharer, change func(value.Value) value.Value) value.Value {
	own := def.Config.JSONSchema()
	if change != nil {
		own = change(own)
	}
	var properties value.MapBuilder
	constant := object("const", text(kind), "description", text(def.Summary))
	if kind != def.Kind {
		constant = constant.With("deprecated", value.Bool(true))
	}
	ports := shared.define(kind+".ports", portsSchema(def))
	common := func(name string, s value.Value) { properties.Set(name, shared.define("spec."+name, s)) }
	properties.Set("kind", constant)
	common("id", uuid("A UUID; derived from namespace and name, or from the place of a node without a name, if left out."))
	common("namespace", object("type", text("string"), "minLength", value.Int(1), "default", text("default"), "description", text("Which specs see one another.")))
	common("name", object("type", text("string"), "pattern", text(`^\S(.*\S)?$`), "maxLength", value.Int(256), "description", text("What links call the node; unique in its namespace.")))
	common("annotations", object("type", list("object", "null"), "description", text("Notes for people and tools.")))
	properties.Set("env", ref("env"))
	lifecycleFields, _ := spec.Lifecycle().JSONSchema().Get("properties")
	for name, field := range lifecycleFields.Fields() {
		common(name, field)
	}
	properties.Set("ports", ports)
	if fields, ok := own.Get("properties"); ok {
		for name, field := range fields.Fields() {
			properties.Set(name, field)
		}
	}
	switch def.Subgraph {
	case node.SubgraphSequence:
		properties.Set("specs", specsSchema(own, "specs"))
	case node.SubgraphGraph, node.SubgraphTemplate:
		if def.Config.Has("specs") { // a use of a template has none
			properties.Set("specs", specsSchema(own, "specs"))
			for _, name := range []string{"inbounds", "outbounds"} {
				properties.Set(name, object("type", list("object", "null"), "additionalProperties", ref("links"), "description", described(own, name)))
			}
		}
	}
	required := list("kind")
	if def.Subgraph == node.SubgraphTemplate {
		required = required.Append(text("name"))
	}
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
		// A pattern accepts it, and editors do not suggest it.
		"patternProperties", object("^links$", ports.With("description", text("The older name of ports.")).With("deprecated", value.Bool(true))),
		"required", required,
		"additionalProperties", value.Bool(false),
	)
}

// specsSchema is the schema of a field with specs.
func specsSchema(own value.Value, name string) value.Value {
	return object("anyOf", value.List(object("type", text("array"), "items", ref("spec")), ref("spec")), "description", described(own, name))
}

// described is the description of a field in the schema of a kind's own fields.
func described(own value.Value, name string) value.Value {
	properties, _ := own.Get("properties")
	field, _ := properties.Get(name)
	doc, _ := field.Get("description")
	return doc
}

// portsSchema is the schema of the out-ports of a kind. A block declares its own, so
// any name is allowed.
func portsSchema(def *node.Def) value.Value {
	if def.Subgraph == node.SubgraphGraph && def.Config.Has("outbounds") {
		return object("type", list("object", "null"), "description", text("Links, by out-port."), "additionalProperties", ref("links"))
	}
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
		named("error", cmp.Or(def.Error, node.OwnFailure))
	}
	for _, port := range lifecycle.Ports() {
		named(port.Name, port.Doc)
	}
	s := object("type", list("object", "null"), "description", text("Links, by out-port."), "properties", properties.Build())
	if patterns.Len() > 0 {
		s = s.With("patternProperties", patterns.Build())
	}
	return s.With("additionalProperties", value.Bool(false))
}

func linksSchema() value.Value {
	port := object("type", text("string"), "minLength", value.Int(1), "default", text("in"), "description", text("The in-port there."))
	link := func(key string, target value.Value) value.Value {
		return object("type", text("object"), "properties", object(key, target, "port", port), "required", list(key), "additionalProperties", value.Bool(false))
	}
	named := link("name", object("type", text("string"), "minLength", value.Int(1), "description", text("The node that the link leads to.")))
	short := object("type", text("string"), "minLength", value.Int(1), "description", text("The node that the link leads to, at its port in, or out in outbounds."))
	one := object("anyOf", value.List(short, named, link("id", uuid("The node that the link leads to, by id."))))
	return object("anyOf", value.List(object("type", text("array"), "items", one), one, object("type", text("null"))))
}

func envSchema() value.Value {
	entry := object(
		"type", list("object", "null"),
		"properties", object(
			"name", object("type", text("string"), "minLength", value.Int(1), "description", text("The variable to take.")),
			"id", uuid("The variable to take, by id."),
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

// uuid is a string with a pattern: most validators ignore the format uuid by default.
func uuid(doc string) value.Value {
	return object("type", text("string"), "pattern", text("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"), "description", text(doc))
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

// object makes a map of alternating names and values.
func object(pairs ...any) value.Value {
	var b value.MapBuilder
	for i := 0; i < len(pairs); i += 2 {
		b.Set(pairs[i].(string), pairs[i+1].(value.Value))
	}
	return b.Build()
}
