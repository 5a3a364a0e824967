package jsonschema

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	library "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/value"
)

// A rule is a schema or a part of one, as check.go applies it. What is nil or unset is not
// asked for. Rules may refer to each other in a circle.
type rule struct {
	never    bool // the schema false
	types    types
	anyType  bool
	constant *value.Value
	enum     []value.Value
	format   *library.Format

	ref                *rule
	all, any, one      []*rule
	not, cond, yes, no *rule

	minFields, maxFields int // -1 is unset, as for all counts here
	required             []string
	fields               map[string]*rule
	patterns             []patternRule
	closed               bool  // no other fields
	others               *rule // of other fields
	names                *rule
	needs                []fieldNeeds // in order of the fields, as reports have it
	dependent            []fieldRule  // likewise

	minItems, maxItems       int
	unique                   bool
	contains                 *rule
	minContains, maxContains int
	first                    []*rule // of the first elements
	items                    *rule   // of the others

	minLength, maxLength int
	pattern              library.Regexp

	min, max, above, below *value.Value
	multiple               *big.Rat

	preset *value.Value // the default
	place  string       // where the rule is in the schema, as a JSON Pointer, if it has a default
	hidden bool         // messages do not name values of the schema
}

type patternRule struct {
	pattern library.Regexp
	rule    *rule
}

// A fieldNeeds says which fields there must be if there is one of a name.
type fieldNeeds struct {
	name   string
	others []string
}

// A fieldRule is a rule for maps that have a field of a name.
type fieldRule struct {
	name string
	rule *rule
}

// A ruleMaker makes rules of what the library has compiled.
type ruleMaker struct {
	made    map[*library.Schema]*rule
	hidden  bool
	whole   bool
	presets []*rule // those with a default
	old     string  // the place of a schema of another draft
}

func (m *ruleMaker) of(s *library.Schema) *rule {
	if s == nil {
		return nil
	}
	if r, ok := m.made[s]; ok {
		return r
	}
	r := &rule{hidden: m.hidden, preset: valueOf(s.Default)}
	m.made[s] = r
	if r.preset != nil {
		m.presets = append(m.presets, r)
		if pointer, ok := strings.CutPrefix(s.Location, schemaURL+"#"); ok {
			r.place = pointer
		}
	}
	if s.DraftVersion != 2020 {
		m.old = s.Location
	}
	if s.Bool != nil {
		r.never = !*s.Bool
	}
	m.whole = m.whole || s.DynamicRef != nil || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
	r.types, r.anyType = typesOf(s.Types), s.Types == nil
	r.constant, r.format = valueOf(s.Const), formatOf(s.Format)
	if s.Enum != nil {
		r.enum = make([]value.Value, len(s.Enum.Values))
		for i, v := range s.Enum.Values {
			r.enum[i] = *valueOf(&v)
		}
	}
	r.ref, r.all, r.any, r.one = m.of(s.Ref), m.list(s.AllOf), m.list(s.AnyOf), m.list(s.OneOf)
	r.not, r.cond, r.yes, r.no = m.of(s.Not), m.of(s.If), m.of(s.Then), m.of(s.Else)
	m.object(r, s)
	r.minItems, r.maxItems, r.unique = count(s.MinItems), count(s.MaxItems), s.UniqueItems
	r.contains, r.minContains, r.maxContains = m.of(s.Contains), count(s.MinContains), count(s.MaxContains)
	r.first, r.items = m.list(s.PrefixItems), m.of(s.Items2020)
	r.minLength, r.maxLength, r.pattern = count(s.MinLength), count(s.MaxLength), s.Pattern
	r.min, r.max, r.above, r.below = bound(s.Minimum), bound(s.Maximum), bound(s.ExclusiveMinimum), bound(s.ExclusiveMaximum)
	r.multiple = s.MultipleOf
	return r
}

func (m *ruleMaker) object(r *rule, s *library.Schema) {
	r.minFields, r.maxFields, r.required = count(s.MinProperties), count(s.MaxProperties), s.Required
	r.fields, r.names = m.byName(s.Properties), m.of(s.PropertyNames)
	for _, name := range slices.Sorted(maps.Keys(s.DependentRequired)) {
		r.needs = append(r.needs, fieldNeeds{name, s.DependentRequired[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		r.dependent = append(r.dependent, fieldRule{name, m.of(s.DependentSchemas[name])})
	}
	for pattern, below := range s.PatternProperties {
		r.patterns = append(r.patterns, patternRule{pattern, m.of(below)})
	}
	slices.SortFunc(r.patterns, func(a, b patternRule) int { return strings.Compare(a.pattern.String(), b.pattern.String()) })
	switch others := s.AdditionalProperties.(type) {
	case bool:
		r.closed = !others
	case *library.Schema:
		r.others = m.of(others)
	}
}

func (m *ruleMaker) list(schemas []*library.Schema) []*rule {
	list := make([]*rule, len(schemas))
	for i, s := range schemas {
		list[i] = m.of(s)
	}
	return list
}

func (m *ruleMaker) byName(schemas map[string]*library.Schema) map[string]*rule {
	if len(schemas) == 0 {
		return nil
	}
	all := make(map[string]*rule, len(schemas))
	for name, s := range schemas {
		all[name] = m.of(s)
	}
	return all
}

func count(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}

func valueOf(v *any) *value.Value {
	if v == nil {
		return nil
	}
	encoded, err := value.Encode(*v)
	if err != nil {
		panic(fmt.Sprintf("jsonschema: %v", err)) // it was made by Value.Go
	}
	return &encoded
}

// bound returns a limit as a number that compares with numbers of payloads. It was one in the
// document, so no digit is lost.
func bound(n *big.Rat) *value.Value {
	if n == nil {
		return nil
	}
	f, _ := n.Float64()
	v := value.Float(f)
	if n.IsInt() && n.Num().IsInt64() {
		v = value.Int(n.Num().Int64())
	}
	return &v
}
