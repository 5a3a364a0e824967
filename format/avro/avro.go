// Package avro reads and writes values as Avro, with the schema that a [Codec] has.
//
// A record is a map with the fields of its schema, in their order; a union is the value of
// its branch. Logical types are the values that they stand for: a timestamp or a date is a
// time, a time of day a duration, a UUID a text, and a decimal a text such as "12.50", as
// a float would round it. Input is not trusted: see the package format.
//
// It must not know where schemas come from.
package avro

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/twmb/avro"

	"github.com/uniflow-labs/uniflow/value"
)

// A Codec encodes and decodes values of one schema. Any goroutine may use it.
type Codec struct {
	schema *avro.Schema
	root   *avro.SchemaNode
	named  map[string]*avro.SchemaNode // records, enums and what is fixed, by full name
}

// New returns a codec of a schema, which is JSON. It may refer to the types of other schemas,
// each of which may refer to those before it.
func New(schema string, others ...string) (*Codec, error) {
	var cache avro.SchemaCache
	c := &Codec{named: map[string]*avro.SchemaNode{}}
	for _, text := range append(slices.Clone(others), schema) {
		s, err := cache.Parse(text)
		if err != nil {
			return nil, err
		}
		c.schema, c.root = s, s.Root()
		c.index(c.root, "")
	}
	return c, nil
}

func of(s *avro.Schema) *Codec {
	c := &Codec{schema: s, root: s.Root(), named: map[string]*avro.SchemaNode{}}
	c.index(c.root, "")
	return c
}

// index finds the named types below a node of a namespace, and writes references to them with
// their full names.
func (c *Codec) index(n *avro.SchemaNode, namespace string) {
	if n == nil {
		return
	}
	switch n.Type {
	case "record", "error", "enum", "fixed":
		namespace = n.Namespace
		c.named[qualified(n.Name, namespace)] = n
	default:
		if full := qualified(n.Type, namespace); c.named[full] != nil {
			n.Type = full
		}
	}
	for i := range n.Fields {
		c.index(&n.Fields[i].Type, namespace)
	}
	for i := range n.Branches {
		c.index(&n.Branches[i], namespace)
	}
	c.index(n.Items, namespace)
	c.index(n.Values, namespace)
}

func qualified(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

// resolve follows the name of a type that is defined elsewhere in the schema.
func (c *Codec) resolve(n *avro.SchemaNode) *avro.SchemaNode {
	if def := c.named[n.Type]; def != nil {
		return def
	}
	return n
}

// Reading returns a codec that decodes what another schema has written, as values of this
// schema: fields that it lacks are left out, and those that only it has are their defaults.
func (c *Codec) Reading(writer *Codec) (*Codec, error) {
	s, err := avro.Resolve(writer.schema, c.schema)
	if err != nil {
		return nil, err
	}
	return &Codec{schema: s, root: c.root, named: c.named}, nil
}

// Decode reads the one value that data holds.
func (c *Codec) Decode(data []byte) (value.Value, error) {
	var decoded any
	rest, err := c.schema.Decode(data, &decoded, avro.TaggedUnions())
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow the value: it may have been written with another schema", len(rest))
	}
	if err != nil {
		return value.Value{}, reason(err)
	}
	return c.toValue(c.root, decoded, 0)
}

// reason is an error of the library without what is about its types of Go: that a record is
// "unsupported" would hide that its bytes end early.
func reason(err error) error {
	var e *avro.SemanticError
	for errors.As(err, &e) && e.GoType == nil && e.Err != nil {
		err = e.Err
	}
	return err
}

func (c *Codec) toValue(n *avro.SchemaNode, in any, depth int) (value.Value, error) {
	if depth > value.MaxDepth {
		return value.Value{}, fmt.Errorf("it is nested deeper than %d", value.MaxDepth)
	}
	n = c.resolve(n)
	switch in := in.(type) {
	case map[string]any:
		return c.toMap(n, in, depth)
	case []any:
		elems := make([]value.Value, len(in))
		for i, elem := range in {
			var err error
			if elems[i], err = c.toValue(n.Items, elem, depth+1); err != nil {
				return value.Value{}, err
			}
		}
		return value.List(elems...), nil
	case *big.Rat:
		return value.String(in.FloatString(n.Scale)), nil
	case [16]byte:
		return value.String(uuid.UUID(in).String()), nil
	case avro.Duration:
		return value.Map(
			value.Field{Name: "months", Value: value.Int(int64(in.Months))},
			value.Field{Name: "days", Value: value.Int(int64(in.Days))},
			value.Field{Name: "milliseconds", Value: value.Int(int64(in.Milliseconds))},
		), nil
	case string:
		if !utf8.ValidString(in) {
			return value.Value{}, errors.New("a text is not UTF-8")
		}
	case float32: // as it is written, not as a double sees it
		f, err := strconv.ParseFloat(strconv.FormatFloat(float64(in), 'g', -1, 32), 64)
		return value.Float(f), err
	}
	return value.Encode(in)
}

// toMap makes a value of a record, of a map, or of a union's branch, which is a map with its
// name.
func (c *Codec) toMap(n *avro.SchemaNode, in map[string]any, depth int) (value.Value, error) {
	switch n.Type {
	case "union":
		for i := range n.Branches {
			branch := &n.Branches[i]
			if inner, ok := in[c.branchName(branch)]; ok {
				return c.toValue(branch, inner, depth)
			}
		}
		return value.Value{}, errors.New("a value is of no branch of its union")
	case "map":
		var b value.MapBuilder
		for name, elem := range in {
			v, err := c.toValue(n.Values, elem, depth+1)
			if err != nil {
				return value.Value{}, err
			}
			b.Set(name, v)
		}
		return b.Build(), nil
	}
	fields := make([]value.Field, 0, len(n.Fields))
	for i := range n.Fields {
		f := &n.Fields[i]
		v, err := c.toValue(&f.Type, in[f.Name], depth+1)
		if err != nil {
			return value.Value{}, err
		}
		fields = append(fields, value.Field{Name: f.Name, Value: v})
	}
	return value.UniqueMap(fields), nil
}

// branchName is what a branch of a union is called.
func (c *Codec) branchName(n *avro.SchemaNode) string {
	if n.Name != "" {
		return qualified(n.Name, n.Namespace)
	}
	return n.Type
}

// Append appends the encoding of a value. A field that the schema lacks is an error, and so
// is one without a default that the value lacks.
func (c *Codec) Append(dst []byte, v value.Value) ([]byte, error) {
	in, err := c.fromValue(c.root, v, "")
	if err != nil {
		return dst, err
	}
	return c.schema.AppendEncode(dst, in)
}

// fromValue makes of a value what the schema's library takes.
func (c *Codec) fromValue(n *avro.SchemaNode, v value.Value, path string) (any, error) {
	n = c.resolve(n)
	switch n.Type {
	case "union":
		return c.fromUnion(n, v, path)
	case "record", "error":
		return c.fromRecord(n, v, path)
	case "map":
		if v.Kind() != value.KindMap {
			return nil, wrong(path, "a map", v)
		}
		out := make(map[string]any, v.Len())
		for name, field := range v.Fields() {
			var err error
			if out[name], err = c.fromValue(n.Values, field, path+"."+name); err != nil {
				return nil, err
			}
		}
		return out, nil
	case "array":
		if v.Kind() != value.KindList {
			return nil, wrong(path, "a list", v)
		}
		out := make([]any, 0, v.Len())
		for i, elem := range v.Elems() {
			in, err := c.fromValue(n.Items, elem, path+"["+strconv.Itoa(i)+"]")
			if err != nil {
				return nil, err
			}
			out = append(out, in)
		}
		return out, nil
	}
	return fromScalar(n, v, path)
}

func (c *Codec) fromRecord(n *avro.SchemaNode, v value.Value, path string) (any, error) {
	if v.Kind() != value.KindMap {
		return nil, wrong(path, "a map, for the record "+n.Name, v)
	}
	out := make(map[string]any, len(n.Fields))
	for i := range n.Fields {
		f := &n.Fields[i]
		field, ok := v.Get(f.Name)
		if !ok {
			if !f.HasDefault && !nullable(&f.Type) {
				return nil, fmt.Errorf("%s is missing, and the schema has no default for it", place(path+"."+f.Name))
			}
			continue
		}
		in, err := c.fromValue(&f.Type, field, path+"."+f.Name)
		if err != nil {
			return nil, err
		}
		out[f.Name] = in
	}
	if len(out) < v.Len() {
		for name := range v.Fields() {
			if _, ok := out[name]; !ok {
				return nil, fmt.Errorf("the schema has no field %s", place(path+"."+name))
			}
		}
	}
	return out, nil
}

// nullable reports whether a field may be left out, as it can be null.
func nullable(n *avro.SchemaNode) bool {
	return n.Type == "null" || n.Type == "union" && len(n.Branches) > 0 && n.Branches[0].Type == "null"
}

// fromUnion takes the first branch that the value fits.
func (c *Codec) fromUnion(n *avro.SchemaNode, v value.Value, path string) (any, error) {
	var last error
	for i := range n.Branches {
		branch := &n.Branches[i]
		in, err := c.fromValue(branch, v, path)
		if err != nil {
			last = err
			continue
		}
		return in, nil
	}
	if len(n.Branches) == 2 && last != nil { // such as null and one other
		return nil, last
	}
	return nil, fmt.Errorf("%s fits no branch of its union", place(path))
}

func fromScalar(n *avro.SchemaNode, v value.Value, path string) (any, error) {
	kind := v.Kind()
	number := kind == value.KindInt || kind == value.KindUint || kind == value.KindFloat
	switch {
	case n.Type == "null" && kind != value.KindNull:
		return nil, wrong(path, "null", v)
	case n.Type == "boolean" && kind != value.KindBool:
		return nil, wrong(path, "a boolean", v)
	case n.LogicalType == "decimal":
		text, ok := v.AsString()
		if !ok && !number {
			return nil, wrong(path, "a decimal, such as \"12.50\"", v)
		}
		if !ok {
			text = v.String()
		}
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			return nil, fmt.Errorf("%s must be a decimal, such as \"12.50\", got %q", place(path), text)
		}
		return r, nil
	case n.LogicalType == "duration":
		return fromDuration(v, path)
	case (n.Type == "int" || n.Type == "long" || n.Type == "float" || n.Type == "double") && !number && kind != value.KindTime && kind != value.KindDuration && (n.LogicalType == "" || kind != value.KindString):
		return nil, wrong(path, "a number", v)
	case (n.Type == "string" || n.Type == "enum") && kind != value.KindString:
		return nil, wrong(path, "a text", v)
	case n.Type == "enum" && !n.HasEnumDefault:
		if text, _ := v.AsString(); !slices.Contains(n.Symbols, text) {
			return nil, fmt.Errorf("%s must be one of %s, got %q", place(path), strings.Join(n.Symbols, ", "), text)
		}
	case n.Type == "int" && number:
		if i, ok := v.AsInt(); !ok || int64(int32(i)) != i {
			return nil, fmt.Errorf("%s must be an integer of 32 bits, got %s", place(path), v)
		}
	case n.Type == "long" && number:
		if _, ok := v.AsInt(); !ok {
			return nil, fmt.Errorf("%s must be an integer of 64 bits, got %s", place(path), v)
		}
	case n.Type == "float" && number:
		if f, _ := v.AsFloat(); math.Abs(f) > math.MaxFloat32 && !math.IsInf(f, 0) {
			return nil, fmt.Errorf("%s must be a float of 32 bits, got %s", place(path), v)
		}
	case n.Type == "fixed" && kind == value.KindBinary:
		if b, _ := v.AsBinary(); len(b) != n.Size {
			return nil, fmt.Errorf("%s must have %d bytes, got %d", place(path), n.Size, len(b))
		}
	case (n.Type == "bytes" || n.Type == "fixed") && kind != value.KindBinary && kind != value.KindString:
		return nil, wrong(path, "binary", v)
	}
	if (n.LogicalType == "time-millis" || n.LogicalType == "time-micros") && kind == value.KindString {
		text, _ := v.AsString()
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, wrong(path, "a duration, such as \"90m\"", v)
		}
		return d, nil
	}
	return v.Go(), nil
}

// fromDuration reads what the logical type duration decodes to.
func fromDuration(v value.Value, path string) (any, error) {
	var d avro.Duration
	for name, into := range map[string]*uint32{"months": &d.Months, "days": &d.Days, "milliseconds": &d.Milliseconds} {
		field, _ := v.Get(name)
		n, ok := field.AsUint()
		if v.Kind() != value.KindMap || v.Len() != 3 || !ok || n > 1<<32-1 {
			return nil, wrong(path, "a map with months, days and milliseconds", v)
		}
		*into = uint32(n)
	}
	return d, nil
}

func wrong(path, want string, v value.Value) error {
	return fmt.Errorf("%s must be %s, got %s", place(path), want, v.Kind())
}

// place is a path of a value for people.
func place(path string) string {
	if path == "" {
		return "the payload"
	}
	if path[0] == '.' {
		return path[1:]
	}
	return path
}
