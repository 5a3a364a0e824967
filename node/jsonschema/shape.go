package jsonschema

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/schema"
)

// Shape returns what is known of the values that match the schema.
func (s *Schema) Shape() *schema.Shape {
	return shapeMaker(make(map[string]*schema.Shape)).of([]*rule{s.root})
}

// A shapeMaker has the shapes of places in a value, by the rules that apply there.
type shapeMaker map[string]*schema.Shape

func (m shapeMaker) of(rules []*rule) *schema.Shape {
	rules = together(rules)
	key := keyOf(rules)
	if s, ok := m[key]; ok {
		return s
	}
	if len(m) >= maxPlaces {
		return nil
	}
	s := &schema.Shape{Fields: make(map[string]*schema.Shape)}
	m[key] = s
	fields, items := inside(rules)
	for _, r := range rules {
		s.Closed = s.Closed || r.closed && len(r.patterns) == 0
	}
	for name, field := range fields {
		if allowed(rules, name) {
			s.Fields[name] = m.of(field)
		}
	}
	if len(items) > 0 {
		s.Items = m.of(items)
	}
	return s
}

// allowed reports whether no rule is closed to a field.
func allowed(rules []*rule, name string) bool {
	for _, r := range rules {
		if _, there := r.fields[name]; !there && r.closed && len(r.patterns) == 0 {
			return false
		}
	}
	return true
}

// keyOf tells places in a value by the rules that apply there.
func keyOf(rules []*rule) (key string) {
	for _, r := range rules {
		key += fmt.Sprintf("%p ", r)
	}
	return key
}

// inside returns what rules that all hold say of each field, and of elements where all have the same rule.
func inside(rules []*rule) (fields map[string][]*rule, items []*rule) {
	fields = make(map[string][]*rule)
	for _, r := range rules {
		for name, field := range r.fields {
			fields[name] = append(fields[name], field)
		}
		if r.items != nil && len(r.first) == 0 {
			items = append(items, r.items)
		}
	}
	return fields, items
}
