package api

import (
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func field(name string, v value.Value) value.Field { return value.Field{Name: name, Value: v} }

// describe returns the schema of a node as the body or the parameters of a request, and the
// response to what does not match.
func describe(c schema.Config) value.Value {
	s := withoutTemplates(c.Raw("schema"))
	var op value.MapBuilder
	switch on := c.String("on"); on {
	case onBody:
		s, components := hoist(s)
		media := value.Map(field("schema", s))
		content := []value.Field{field("application/json", media)}
		if coerces(c) {
			content = append(content, field("application/x-www-form-urlencoded", media))
		}
		op.Set("requestBody", value.Map(field("required", value.Bool(true)), field("content", value.Map(content...))))
		if !components.IsNull() {
			op.Set("components", components)
		}
	case onQuery, onParams, onHeader:
		if list := parameters(s, on); len(list) > 0 {
			op.Set("parameters", value.List(list...))
		}
	default:
		return value.Null()
	}
	op.Set("responses", openapi.Failure(int(c.Int("status")), "The request does not match the schema."))
	return op.Build()
}

// withoutTemplates returns a part of a schema without what templates made of it, which may
// be secrets: the description then says less than what is checked.
func withoutTemplates(raw *schema.Raw) value.Value {
	if raw == nil {
		return value.Null()
	}
	switch raw.Kind {
	case schema.RawList:
		var elems []value.Value
		for _, item := range raw.Items {
			if !item.Templated {
				elems = append(elems, withoutTemplates(item))
			}
		}
		return value.List(elems...)
	case schema.RawMap:
		var b value.MapBuilder
		for _, f := range raw.Fields {
			if !f.Value.Templated {
				b.Set(f.Name, withoutTemplates(f.Value))
			}
		}
		return b.Build()
	}
	return raw.ToValue()
}

// ignoredHeaders are those that OpenAPI describes elsewhere.
var ignoredHeaders = []string{"accept", "content-type", "authorization"}

// parameters returns a Parameter Object for each property of a schema.
func parameters(s value.Value, on string) (list []value.Value) {
	properties, _ := s.Get("properties")
	required, _ := s.Get("required")
	in := on
	if on == onParams {
		in = "path"
	}
	for name, property := range properties.Fields() {
		if on == onHeader && slices.Contains(ignoredHeaders, strings.ToLower(name)) {
			continue
		}
		p := []value.Field{field("name", value.String(name)), field("in", value.String(in))}
		if description, ok := property.Get("description"); ok {
			p = append(p, field("description", description))
			property = property.Without("description")
		}
		if on == onParams || has(required, name) {
			p = append(p, field("required", value.Bool(true)))
		}
		n := inliner{root: s, left: maxInlined}
		list = append(list, value.Map(append(p, field("schema", n.inline(property, nil)))...))
	}
	return list
}

// An inliner replaces references to places within a schema by what is there: a parameter is not
// a component. One that leads back to where it is stands for any value, and so do those past
// maxInlined.
type inliner struct {
	root value.Value
	left int
}

// maxInlined is how many references of a parameter are replaced.
const maxInlined = 1000

// inline returns a part of the schema without references. within are those that lead to it.
func (n *inliner) inline(s value.Value, within []string) value.Value {
	switch s.Kind() {
	case value.KindList:
		elems := make([]value.Value, 0, s.Len())
		for _, elem := range s.Elems() {
			elems = append(elems, n.inline(elem, within))
		}
		return value.List(elems...)
	case value.KindMap:
	default:
		return s
	}
	fields := make([]value.Field, 0, s.Len())
	to := ""
	for name, f := range s.Fields() {
		if text, ok := f.AsString(); ok && name == "$ref" && strings.HasPrefix(text, "#") {
			to = text
			continue
		}
		fields = append(fields, field(name, n.inline(f, within)))
	}
	own := value.UniqueMap(fields)
	if to == "" {
		return own
	}
	def, ok := lookUp(n.root, to)
	if n.left--; !ok || n.left < 0 || slices.Contains(within, to) {
		return own
	}
	def = n.inline(def, append(slices.Clip(within), to))
	if def.Kind() != value.KindMap { // true or false
		return def
	}
	for name, f := range own.Fields() {
		def = def.With(name, f)
	}
	return def
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// lookUp returns what is in a schema at a place such as #/$defs/item.
func lookUp(s value.Value, place string) (found value.Value, ok bool) {
	pointer, ok := strings.CutPrefix(place, "#/")
	if !ok {
		return s, place == "#"
	}
	for token := range strings.SplitSeq(pointer, "/") {
		token = unescape.Replace(token)
		if i, err := strconv.Atoi(token); err == nil && s.Kind() == value.KindList && i >= 0 && i < s.Len() {
			s = s.At(i)
		} else if s, ok = s.Get(token); !ok {
			return s, false
		}
	}
	return s, true
}

func has(list value.Value, name string) bool {
	for _, v := range list.Elems() {
		if s, _ := v.AsString(); s == name {
			return true
		}
	}
	return false
}

// hoist moves a schema that has a title, or that refers to a place within itself, to the
// components, and returns a reference to it. Within a document of OpenAPI, # is the document.
func hoist(s value.Value) (schema, components value.Value) {
	titled, _ := s.Get("title")
	title, _ := titled.AsString()
	name := strings.Trim(openapi.ComponentName(title), "_")
	if _, own := s.Get("$id"); own || name == "" && !refersWithin(s) {
		return s, value.Null()
	}
	if name == "" {
		name = "Body"
	}
	to := "#/components/schemas/" + name
	return value.Map(field("$ref", value.String(to))),
		value.Map(field("schemas", value.Map(field(name, rebase(s, to)))))
}

// refersWithin reports whether a schema has a $ref to a place within itself.
func refersWithin(s value.Value) (found bool) {
	openapi.MapRefs(s, func(ref string) string {
		found = found || strings.HasPrefix(ref, "#")
		return ref
	})
	return found
}

// rebase makes references to places within a schema lead there from the root of a document.
func rebase(s value.Value, root string) value.Value {
	return openapi.MapRefs(s, func(ref string) string {
		if ref == "#" || strings.HasPrefix(ref, "#/") {
			return root + ref[1:]
		}
		return ref
	})
}
