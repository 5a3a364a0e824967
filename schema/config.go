package schema

import (
	"fmt"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

// A Config is a checked config with its defaults filled in. It is immutable. Reading a
// field that the schema does not declare, or as another type, is a bug of the kind and
// panics. The zero Config has no fields.
type Config struct {
	object Object
	slots  []slot // parallel to the object's fields
	raw    *Raw   // nil for a group that the author left out
	path   string // of the object itself, "" at the top
	pos    diag.Pos
}

// A slot is one decoded field.
type slot struct {
	v      value.Value // scalars and lists of strings
	text   diag.Text
	group  Config
	list   []Config
	raw    *Raw // nil unless given by the author
	port   int
	keyPos diag.Pos
}

func (c Config) slot(name string, types ...Type) *slot {
	i, ok := c.object.byName[name]
	if !ok {
		panic(fmt.Sprintf("schema: no field %q is declared", name))
	}
	for _, t := range types {
		if c.object.fields[i].typ == t {
			types = nil
			break
		}
	}
	if len(types) > 0 {
		panic(fmt.Sprintf("schema: field %q is declared as %s, not %s", name, c.object.fields[i].typ, types[0]))
	}
	return &c.slots[i]
}

// Raw returns a field as its author wrote it, with positions, or nil if it was left
// out. It must not be changed.
func (c Config) Raw(name string) *Raw { return c.slot(name).raw }

// Has reports whether the author gave the field. A null counts as left out, except in
// a field of any type.
func (c Config) Has(name string) bool { return c.slot(name).raw != nil }

// String returns a string or enum field, "" if it was left out without a
// default.
func (c Config) String(name string) string {
	s, _ := c.slot(name, TypeString, TypeEnum, TypeText, TypeExpr).v.AsString()
	return s
}

// Int returns an integer or size field, 0 if it was left out without a default.
func (c Config) Int(name string) int64 {
	i, _ := c.slot(name, TypeInt, TypeBytes).v.AsInt()
	return i
}

// Float returns a number field, 0 if it was left out without a default.
func (c Config) Float(name string) float64 {
	f, _ := c.slot(name, TypeFloat, TypeInt).v.AsFloat()
	return f
}

// Bool returns a boolean field, false if it was left out without a default.
func (c Config) Bool(name string) bool {
	b, _ := c.slot(name, TypeBool).v.AsBool()
	return b
}

// Duration returns a duration field, 0 if it was left out without a default.
func (c Config) Duration(name string) time.Duration {
	d, _ := c.slot(name, TypeDuration).v.AsDuration()
	return d
}

// Strings returns a list of strings, nil if it was left out without a default.
// The caller owns it.
func (c Config) Strings(name string) []string {
	v := c.slot(name, TypeStrings).v
	var list []string
	for _, e := range v.Elems() {
		s, _ := e.AsString()
		list = append(list, s)
	}
	return list
}

// Value returns a field as a payload, whatever its type.
func (c Config) Value(name string) value.Value {
	s := c.slot(name)
	if f := c.object.fields[c.object.byName[name]]; f.typ == TypeList || f.typ == TypeGroup {
		return s.raw.ToValue()
	}
	return s.v
}

// OutPort returns the index of an out-port field, 0 if it was left out without a
// default.
func (c Config) OutPort(name string) int { return c.slot(name, TypeOutPort).port }

// An OutPortUse is an out-port that a config sends to, and the field that names it.
type OutPortUse struct {
	Index int
	Pos   diag.Pos
	Path  string
}

// OutPorts returns the out-ports named by fields of the config, also within lists and
// groups, in the order of declaration.
func (c Config) OutPorts() []OutPortUse {
	var uses []OutPortUse
	for i, f := range c.object.fields {
		s := &c.slots[i]
		switch {
		case f.typ == TypeOutPort && (s.raw != nil || !f.def.IsNull()):
			uses = append(uses, OutPortUse{s.port, c.Pos(f.name), c.Path(f.name)})
		case f.typ == TypeGroup:
			uses = append(uses, s.group.OutPorts()...)
		}
		for _, below := range s.list {
			uses = append(uses, below.OutPorts()...)
		}
	}
	return uses
}

// Text returns a text or expression with its position in the document, so that the
// errors of a compiler can point there.
func (c Config) Text(name string) diag.Text {
	return c.slot(name, TypeText, TypeExpr, TypeString, TypeEnum).text
}

// List returns the objects of a list, nil if it was left out. The caller must
// not change it.
func (c Config) List(name string) []Config { return c.slot(name, TypeList).list }

// Group returns an object in the config. If it was left out it holds the
// defaults of its fields.
func (c Config) Group(name string) Config { return c.slot(name, TypeGroup).group }

// Pos returns the position of the field's value, or of its object if the field was left
// out. The empty name is the object itself.
func (c Config) Pos(name string) diag.Pos {
	if name == "" {
		return c.pos
	}
	if raw := c.slot(name).raw; raw != nil {
		return raw.Pos
	}
	return c.pos
}

// Path returns the path of a field within the node, such as "routes[1].path".
// The empty name is the object itself.
func (c Config) Path(name string) string {
	if name != "" {
		c.slot(name) // panics if it is not declared
	}
	return join(c.path, name)
}

// Find returns where the field of a path such as tls.ca is declared: its object, and its
// name there. Of a path that is not declared, it is as far as there is one.
func (c Config) Find(path string) (Config, string) {
	name, rest, nested := strings.Cut(path, ".")
	i, ok := c.object.byName[name]
	if !ok {
		return c, ""
	}
	if nested && c.object.fields[i].typ == TypeGroup {
		return c.Group(name).Find(rest)
	}
	return c, name
}

// Errorf returns an error at a field. The empty name is the object itself. The
// arguments must not contain secrets: see [Config.Hidden].
func (c Config) Errorf(name string, code diag.Code, format string, args ...any) *diag.Diagnostic {
	d := diag.Errorf(code, format, args...)
	d.Pos, d.Path = c.Pos(name), c.Path(name)
	raw := c.raw
	if name != "" {
		if given := c.slot(name).raw; given != nil {
			raw = given
		}
	}
	if raw != nil {
		d.Pointer = raw.Pointer
	}
	return d
}

// Hidden reports whether a field's content must not be shown, because the schema
// declares it secret or a template made it.
func (c Config) Hidden(name string) bool {
	s := c.slot(name)
	return c.object.fields[c.object.byName[name]].secret || s.raw.templated()
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}
