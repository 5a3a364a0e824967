package schema

import "maps"

// A Shape is what is known of a value before there is one, such as what leaves a node. Nil
// means that nothing is known. Shapes may lead back to themselves; they are immutable.
type Shape struct {
	// Fields are those of a map of which something is known, or that it may have. Where
	// nothing is known of a field it is nil.
	Fields map[string]*Shape

	Closed bool   // the value has no other fields
	Items  *Shape // of the elements of a list
}

// Lacks reports whether the value cannot have a field.
func (s *Shape) Lacks(name string) bool {
	if s == nil || !s.Closed {
		return false
	}
	_, there := s.Fields[name]
	return !there
}

// Field returns what is known of a field.
func (s *Shape) Field(name string) *Shape {
	if s == nil {
		return nil
	}
	return s.Fields[name]
}

// With returns the shape of the value with a field of a shape.
func (s *Shape) With(name string, field *Shape) *Shape {
	if s == nil && field == nil {
		return nil
	}
	changed := &Shape{Fields: map[string]*Shape{}}
	if s != nil {
		*changed = Shape{Fields: maps.Clone(s.Fields), Closed: s.Closed}
	}
	if changed.Fields == nil {
		changed.Fields = map[string]*Shape{}
	}
	changed.Fields[name] = field
	return changed
}

// maxEither is how deep shapes are compared that may be one or the other.
const maxEither = 8

// Either returns what is known of a value that has one of two shapes.
func Either(a, b *Shape) *Shape { return make(eithers).of(a, b, maxEither) }

// eithers are what is known so far, as many paths may lead to the same two shapes.
type eithers map[pair]*Shape

type pair struct {
	a, b  *Shape
	depth int
}

func (all eithers) of(a, b *Shape, depth int) *Shape {
	switch {
	case a == nil || b == nil || depth == 0:
		return nil
	case a == b:
		return a
	}
	key := pair{a, b, depth}
	if s, ok := all[key]; ok {
		return s
	}
	s := &Shape{Closed: a.Closed && b.Closed, Items: all.of(a.Items, b.Items, depth-1), Fields: map[string]*Shape{}}
	all[key] = s
	for name, field := range a.Fields {
		other, both := b.Fields[name]
		switch {
		case both:
			s.Fields[name] = all.of(field, other, depth-1)
		case b.Closed:
			s.Fields[name] = field
		}
	}
	for name, field := range b.Fields {
		if _, both := a.Fields[name]; !both && a.Closed {
			s.Fields[name] = field
		}
	}
	return s
}
