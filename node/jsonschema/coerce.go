package jsonschema

import (
	"maps"
	"slices"

	"github.com/uniflow-labs/uniflow/value"
)

// A Coercion reads the texts of a map as what a schema asks for its fields. It is immutable,
// and made by [Schema.Coercion].
type Coercion struct {
	fields map[string]*rule // as the schema has them, fields of $ref and allOf included
	others *rule            // of other fields; nil if they stay as they are
	picks  bool             // only the fields that the schema names
	picked []pickedName     // these, if so
}

// A pickedName is what a schema calls a field, and what a map may call it.
type pickedName struct{ name, other string }

// Coercion returns what reads the texts of a map. If other is not nil, only the fields that
// the schema names are taken over; the map may have each of them under
// the name that other returns for it, as headers have theirs.
func (s *Schema) Coercion(other func(name string) string) *Coercion {
	c := &Coercion{fields: make(map[string]*rule), picks: other != nil}
	c.collect(s.root)
	if c.picks {
		for _, name := range slices.Sorted(maps.Keys(c.fields)) {
			c.picked = append(c.picked, pickedName{name, other(name)})
		}
	}
	return c
}

func (c *Coercion) collect(r *rule) {
	if r == nil {
		return
	}
	for name, field := range r.fields {
		if _, there := c.fields[name]; !there {
			c.fields[name] = field
		}
	}
	if c.others == nil {
		c.others = r.others
	}
	c.collect(r.ref)
	for _, part := range r.all {
		c.collect(part)
	}
}

// Apply returns a map with its texts read. What is not a map stays as it is, except that null
// is an empty one.
func (c *Coercion) Apply(v value.Value) value.Value {
	if v.Kind() != value.KindMap && !v.IsNull() {
		return v
	}
	if c.picks {
		return c.pick(v)
	}
	fields := make([]value.Field, 0, v.Len())
	for name, field := range v.Fields() {
		r, ok := c.fields[name]
		if !ok {
			r = c.others
		}
		if r != nil {
			field = r.read(field)
		}
		fields = append(fields, value.Field{Name: name, Value: field})
	}
	return value.UniqueMap(fields)
}

// pick returns the fields that the schema names, under these names.
func (c *Coercion) pick(v value.Value) value.Value {
	fields := make([]value.Field, 0, len(c.picked))
	for _, p := range c.picked {
		field, ok := v.Get(p.other)
		if !ok {
			field, ok = v.Get(p.name)
		}
		if ok {
			fields = append(fields, value.Field{Name: p.name, Value: c.fields[p.name].read(field)})
		}
	}
	return value.UniqueMap(fields)
}

// expects returns the types that a rule lets through, types of its parts included; 0 for any.
func (r *rule) expects() (types, *rule) {
	for ; ; r = r.ref {
		switch {
		case !r.anyType:
			return r.types, r
		case r.constant != nil:
			return typeOf(*r.constant), r
		case len(r.enum) > 0:
			var t types
			for _, v := range r.enum {
				t |= typeOf(v)
			}
			return t, r
		case r.ref == nil:
			return 0, r
		}
	}
}

// read reads a text, or the list of texts of a name.
func (r *rule) read(v value.Value) value.Value {
	t, from := r.expects()
	if t&isArray != 0 {
		if v.Kind() != value.KindList {
			if v.Kind() != value.KindString || t&isString != 0 {
				return v
			}
			v = value.List(v)
		}
		if from.items == nil {
			return v
		}
		elems := make([]value.Value, 0, v.Len())
		for _, elem := range v.Elems() {
			elems = append(elems, from.items.read(elem))
		}
		return value.List(elems...)
	}
	if v.Kind() == value.KindList && v.Len() == 1 {
		v = v.At(0)
	}
	s, ok := v.AsString()
	if !ok || t == 0 || t&isString != 0 {
		return v
	}
	return readText(s, t, v)
}

// maxNumber is the longest text, in bytes, that is read as a number.
const maxNumber = 64

// readText reads a text as one of some types, or returns it as it is.
func readText(s string, t types, as value.Value) value.Value {
	switch {
	case t&isBool != 0 && (s == "true" || s == "false"):
		return value.Bool(s == "true")
	case t&isNull != 0 && s == "null":
		return value.Null()
	case t&(isNumber|isInteger) != 0 && s != "" && len(s) <= maxNumber && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && s[len(s)-1] > ' ':
		n, err := value.ParseJSON([]byte(s))
		if err != nil {
			return as
		}
		if i, ok := n.AsInt(); ok && t&isNumber == 0 {
			return value.Int(i) // 1.0 is 1
		}
		return n
	}
	return as
}
