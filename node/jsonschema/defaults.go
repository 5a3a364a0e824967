package jsonschema

import (
	"maps"
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

// Defaults put the defaults of a schema into the maps of a value that lack the fields. They
// are immutable, and made by [Schema.Defaults].
//
// What counts are defaults of properties, those below $ref and allOf included, of the value
// itself, of its fields and of the elements of its lists. A default is taken as it is: the maps
// in it get no further fields. Defaults that depend on how the value matches, such as those
// below anyOf, do not count.
type Defaults struct {
	presets []value.Field // in order of the names
	fields  map[string]*Defaults
	items   *Defaults // of the elements of a list; nil if they lack nothing
	counts  bool      // whether there is a default here or below
}

// Defaults returns what puts the defaults of the schema into a value; nil if there are none. The
// mistakes are about defaults that do not count, and about those that do not match.
func (s *Schema) Defaults() (*Defaults, Mistakes) {
	m := defaultMaker{made: make(map[string]*Defaults), used: make(map[*rule]bool)}
	d := m.at([]*rule{s.root})
	for changed := true; changed; {
		changed = false
		for _, d := range m.made {
			if !d.counts && d.reaches() {
				d.counts, changed = true, true
			}
		}
	}
	for _, d := range m.made {
		d.prune()
	}
	found := append(m.wrong, s.ignored(m.used, "remove it, or move it: those of properties count that are not below anyOf, oneOf, not, if, then, else or patternProperties")...)
	if !d.counts {
		return nil, found
	}
	return d, found
}

// Ignored returns a mistake with a hint for each default of a schema whose defaults are not put
// in.
func (s *Schema) Ignored(hint string) Mistakes { return s.ignored(nil, hint) }

func (s *Schema) ignored(used map[*rule]bool, hint string) (found Mistakes) {
	for _, r := range s.presets {
		if !used[r] {
			found = append(found, Mistake{Path: r.place + "/default", Code: diag.CodeNoDefault, Message: "the default is not filled in", Hint: hint})
		}
	}
	return found
}

// A defaultMaker makes the Defaults of a schema. A place in a value is told by the rules that
// apply to it, so that a schema that leads back to itself has as many as are different.
type defaultMaker struct {
	made  map[string]*Defaults // by the rules of the place
	used  map[*rule]bool       // rules whose defaults count
	wrong Mistakes
}

// maxPlaces bounds the places, as rules may be combined in many ways.
const maxPlaces = 10_000

// at returns the defaults at a place to which rules apply.
func (m *defaultMaker) at(rules []*rule) *Defaults {
	rules = together(rules)
	key := keyOf(rules)
	if d, ok := m.made[key]; ok {
		return d
	}
	d := &Defaults{fields: make(map[string]*Defaults)}
	if len(m.made) >= maxPlaces {
		return d
	}
	m.made[key] = d
	fields, items := inside(rules)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if preset := m.preset(fields[name]); preset != nil {
			d.presets = append(d.presets, value.Field{Name: name, Value: *preset})
		}
		d.fields[name] = m.at(fields[name])
	}
	if len(items) > 0 {
		d.items = m.at(items)
	}
	return d
}

// preset returns the default of a field; nil if it has none.
func (m *defaultMaker) preset(rules []*rule) (preset *value.Value) {
	for _, r := range together(rules) {
		if r.preset == nil {
			continue
		}
		if m.used[r] = true; preset == nil {
			preset = r.preset
			w := work{leastWork + workPerByte*preset.Size()}
			if slices.ContainsFunc(rules, func(r *rule) bool { return !r.matches(*preset, nil, &w) }) && w.left >= 0 {
				m.wrong = append(m.wrong, Mistake{
					Path: r.place + "/default", Code: diag.CodeNoDefault, Message: "the default does not match its own schema",
					Hint: "what lacks the field is refused because of it: write a default that matches, or remove it",
				})
			}
		}
	}
	return preset
}

// together returns rules and those that apply with them to the same value, each once.
func together(rules []*rule) (all []*rule) {
	var add func(r *rule)
	add = func(r *rule) {
		if r == nil || slices.Contains(all, r) {
			return
		}
		all = append(all, r)
		add(r.ref)
		for _, part := range r.all {
			add(part)
		}
	}
	for _, r := range rules {
		add(r)
	}
	return all
}

// reaches reports whether there is a default here, or one below that is known of.
func (d *Defaults) reaches() bool {
	for _, below := range d.fields {
		if below.counts {
			return true
		}
	}
	return len(d.presets) > 0 || d.items != nil && d.items.counts
}

// prune removes what leads to no default.
func (d *Defaults) prune() {
	maps.DeleteFunc(d.fields, func(_ string, below *Defaults) bool { return !below.counts })
	if d.items != nil && !d.items.counts {
		d.items = nil
	}
}

// Apply returns a value with the defaults of what it lacks, and whether it lacked something.
func (d *Defaults) Apply(v value.Value) (filled value.Value, changed bool) {
	switch v.Kind() {
	case value.KindMap:
		return d.applyMap(v)
	case value.KindList:
		return d.applyList(v)
	}
	return v, false
}

func (d *Defaults) applyMap(v value.Value) (value.Value, bool) {
	var fields []value.Field // nil until one changes
	edit := func() {
		if fields != nil {
			return
		}
		fields = make([]value.Field, 0, v.Len()+len(d.presets))
		for name, field := range v.Fields() {
			fields = append(fields, value.Field{Name: name, Value: field})
		}
	}
	if len(d.fields) > 0 {
		i := 0
		for name, field := range v.Fields() {
			if below := d.fields[name]; below != nil {
				if filled, changed := below.Apply(field); changed {
					edit()
					fields[i].Value = filled
				}
			}
			i++
		}
	}
	for _, preset := range d.presets {
		if _, there := v.Get(preset.Name); !there {
			edit()
			fields = append(fields, preset)
		}
	}
	if fields == nil {
		return v, false
	}
	return value.UniqueMap(fields), true
}

func (d *Defaults) applyList(v value.Value) (value.Value, bool) {
	if d.items == nil {
		return v, false
	}
	var elems []value.Value // nil until one changes
	for i, elem := range v.Elems() {
		filled, changed := d.items.Apply(elem)
		if changed && elems == nil {
			elems = make([]value.Value, 0, v.Len())
			for _, e := range v.Elems() {
				elems = append(elems, e)
			}
		}
		if changed {
			elems[i] = filled
		}
	}
	if elems == nil {
		return v, false
	}
	return value.List(elems...), true
}
