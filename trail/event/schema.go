package event

import (
	"fmt"
	"slices"
)

// A Field is a property by name and type.
type Field struct {
	Name string
	Type Type
}

// A Schema lists the properties of a set of events, in any order, each name once.
// The user, the time, the name and the id of an event are not properties.
type Schema []Field

// Index returns the index of a property, -1 if the schema does not have it.
func (s Schema) Index(name string) int {
	return slices.IndexFunc(s, func(f Field) bool { return f.Name == name })
}

// Type returns the type of a property, Unknown if the schema does not have it.
func (s Schema) Type(name string) Type {
	if i := s.Index(name); i >= 0 {
		return s[i].Type
	}
	return Unknown
}

// Names returns the names of the properties in the order of the schema.
func (s Schema) Names() []string {
	names := make([]string, len(s))
	for i, f := range s {
		names[i] = f.Name
	}
	return names
}

// A TypeError is the error of a property with two types that cannot be combined.
type TypeError struct {
	Property  string
	Have, Got Type
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("property %q is %s %s, and comes as %s %s", e.Property, article(e.Have), e.Have, article(e.Got), e.Got)
}

// An InexactError is the error of a property that would have both numbers and integers
// that a number cannot hold exactly, such as 9007199254740993. As strings they can be
// kept.
type InexactError struct {
	Property string
	Value    Value // such an integer; missing if it is numbers that are refused
}

func (e *InexactError) Error() string {
	if e.Value.Missing() {
		return fmt.Sprintf("property %q has integers that a number cannot hold exactly, and comes as a number", e.Property)
	}
	return fmt.Sprintf("property %q is a number, which cannot hold the integer %s exactly; as a string it can be kept", e.Property, e.Value)
}

func article(t Type) string {
	switch t {
	case Int, Unknown:
		return "an"
	}
	return "a"
}

// Widen returns the type that holds values of both types: the other one if one is
// Unknown, Float for Int and Float. It is not ok if no type does.
func Widen(a, b Type) (t Type, ok bool) {
	switch {
	case a == b, b == Unknown:
		return a, true
	case a == Unknown:
		return b, true
	case a == Int && b == Float, a == Float && b == Int:
		return Float, true
	}
	return Unknown, false
}

// Merge returns a schema that holds the events of both: the fields of s, widened
// where they must be, then the new fields of other. s is not changed. The
// error is a *TypeError.
func (s Schema) Merge(other Schema) (Schema, error) {
	merged := slices.Clone(s)
	for _, f := range other {
		i := s.Index(f.Name)
		if i < 0 {
			merged = append(merged, f)
			continue
		}
		t, ok := Widen(s[i].Type, f.Type)
		if !ok {
			return nil, &TypeError{Property: f.Name, Have: s[i].Type, Got: f.Type}
		}
		merged[i].Type = t
	}
	return merged, nil
}
