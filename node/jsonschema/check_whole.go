package jsonschema

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"sync"

	library "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// maxWhole is the size in bytes, as [value.Value.Size] has it, of the largest value that the
	// library checks.
	maxWhole = 1 << 20

	// leastWhole is how many parts of a schema the library may apply to a value of any size,
	// and as many as a quarter of its bytes.
	leastWhole = 1 << 16

	// maxDescribed is how many bytes descriptions of problems may take, about. The library
	// describes each, with its whole path.
	maxDescribed = 64 << 20
)

// A whole is a schema that the library checks. It has several copies, as the work of a check
// is counted in the schema: nothing else of a check is known to what the library calls.
type whole struct {
	copies  sync.Pool // of *counted
	compile func() *counted
}

// A counted schema is a copy for one check at a time.
type counted struct {
	matches  *library.Schema // fails if a value matches, and describes nothing
	describe *library.Schema
	left     int
}

// errWork is what ends a check with a panic: the library has no other way to end one.
var errWork = errors.New(tooMuchWork)

// count makes parts of a schema, and those that they lead to, take what they do from c.left. The
// library checks the format first, after the type, before it goes on to other parts. So each
// part gets a format.
func (c *counted) count(seen map[*library.Schema]bool, parts ...*library.Schema) {
	for _, s := range parts {
		if s == nil || seen[s] {
			continue
		}
		seen[s] = true
		format := formatOf(s.Format)
		if format == nil {
			format = &library.Format{Validate: func(any) error { return nil }}
		}
		s.Format = &library.Format{Name: format.Name, Validate: func(v any) error {
			if c.left -= costOf(s, v); c.left < 0 {
				panic(errWork)
			}
			return format.Validate(v)
		}}
		c.count(seen, partsOf(s)...)
	}
}

// partsOf returns the schemas that the exported fields of one lead to. The fields of all drafts
// are 23, of several types: what a later version of the library adds is found as well.
func partsOf(s *library.Schema) (parts []*library.Schema) {
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Interface:
			walk(v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			for _, key := range v.MapKeys() {
				walk(v.MapIndex(key))
			}
		case reflect.Pointer:
			switch part := v.Interface().(type) {
			case *library.Schema:
				parts = append(parts, part)
			case *library.DynamicRef:
				if part != nil {
					parts = append(parts, part.Ref)
				}
			}
		}
	}
	fields := reflect.ValueOf(s).Elem()
	for i := range fields.NumField() {
		if fields.Type().Field(i).IsExported() {
			walk(fields.Field(i))
		}
	}
	return parts
}

// costOf is what one part of a schema does with a value, without the parts that it leads to.
func costOf(s *library.Schema, v any) int {
	switch v := v.(type) {
	case string:
		if s.Format != nil && s.Format.Name == regexName {
			return 1 + len(v)*workPerPattern/16
		}
		return 1 + len(v)/16
	case map[string]any:
		return 1 + len(v)/2
	case []any:
		if s.UniqueItems {
			parts, _ := measure(v)
			return parts
		}
		return 1 + len(v)/2
	}
	return 1
}

// measure returns how many parts a value consists of, and how deep it is.
func measure(v any) (parts, depth int) {
	parts = 1
	add := func(below any) {
		n, d := measure(below)
		parts, depth = parts+n, max(depth, d)
	}
	switch v := v.(type) {
	case string:
		parts += len(v) / 16
	case map[string]any:
		for _, field := range v {
			add(field)
		}
	case []any:
		for _, elem := range v {
			add(elem)
		}
	}
	return parts, depth + 1
}

// validate lets the library check a value with so much work at most.
func (c *counted) validate(s *library.Schema, v any, most int) (err error) {
	c.left = most
	defer func() {
		switch r := recover(); r {
		case nil:
		case errWork:
			err = errWork
		default:
			panic(r)
		}
	}()
	return s.Validate(v)
}

// checkWhole lets the library check a value.
func (s *Schema) checkWhole(v value.Value, to *report) {
	if v.Size() > maxWhole {
		to.add("too large to be checked by a schema of an older draft, or with unevaluatedProperties, unevaluatedItems or $dynamicRef")
		return
	}
	size := v.Size()
	v, err := toJSON(v)
	if err != nil {
		to.add("not a value of JSON")
		return
	}
	c, _ := s.whole.copies.Get().(*counted)
	if c == nil {
		c = s.whole.compile()
	}
	defer s.whole.copies.Put(c)
	plain := v.Go()
	switch err = c.validate(c.matches, plain, leastWhole+size/4); err {
	case errWork:
		to.add(tooMuchWork)
		return
	case nil: // it does not match
	default:
		return
	}
	_, depth := measure(plain)
	err = c.validate(c.describe, plain, min(leastWhole+size/4, maxDescribed/(1<<10+16*depth)))
	var e *library.ValidationError
	if !errors.As(err, &e) {
		to.add("does not match the schema")
		return
	}
	var walk func(e *library.ValidationError)
	walk = func(e *library.ValidationError) {
		if to.full() {
			return
		}
		if len(e.Causes) == 0 {
			to.path = e.InstanceLocation
			to.add("%s", unless(s.root.hidden, "does not match the schema", node.Clip(describeKind(e), maxQuote)))
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(e)
}

// newCounted compiles a copy of a schema, whose anchors are at some places.
func newCounted(doc value.Value, o Options, anchors []string) *counted {
	lib, err := newCompiler(doc, o)
	if err != nil {
		panic(fmt.Sprintf("jsonschema: %v", err)) // it was compiled before
	}
	c := new(counted)
	part := func(at string) *library.Schema {
		s, err := lib.Compile(at)
		if err != nil {
			panic(fmt.Sprintf("jsonschema: %s: %v", at, err)) // likewise
		}
		return s
	}
	c.describe, c.matches = part(schemaURL), part(notURL)
	parts := []*library.Schema{c.describe, c.matches}
	for _, at := range anchors {
		// Such a part may be one that only a $dynamicRef leads to, in a way that is not exported.
		if s, err := lib.Compile(schemaURL + "#" + at); err == nil {
			parts = append(parts, s)
		}
	}
	c.count(make(map[*library.Schema]bool), parts...)
	return c
}

// anchorsIn returns the places, as URLs have them, of all that may be a schema with a name for
// $dynamicRef.
func anchorsIn(doc value.Value) (places []string) {
	var walk func(v value.Value, at string)
	walk = func(v value.Value, at string) {
		if _, named := v.Get("$dynamicAnchor"); named {
			places = append(places, at)
		}
		for name, field := range v.Fields() {
			walk(field, at+"/"+url.PathEscape(pointerEscapes.Replace(name)))
		}
		for i, elem := range v.Elems() {
			walk(elem, fmt.Sprintf("%s/%d", at, i))
		}
	}
	walk(doc, "")
	return places
}
