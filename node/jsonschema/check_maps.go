package jsonschema

import (
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func (r *rule) matchesMap(v value.Value, to *report, w *work) bool {
	ok := r.hasFields(v, to, w)
	if !ok && to.full() {
		return false
	}
	if r.fields == nil && r.patterns == nil && !r.closed && r.others == nil && r.names == nil {
		return ok
	}
	for name, field := range v.Fields() {
		ok = r.matchesField(name, field, to, w) && ok
		if !ok && to.full() {
			return false
		}
	}
	return ok
}

// hasFields checks how many fields there are, and which.
func (r *rule) hasFields(v value.Value, to *report, w *work) bool {
	ok := true
	for _, name := range r.required {
		if _, there := v.Get(name); !there {
			if to == nil {
				return false
			}
			ok = to.addAt(name, "is missing")
		}
	}
	if v.Len() < r.minFields || r.maxFields >= 0 && v.Len() > r.maxFields {
		if to == nil {
			return false
		}
		ok = to.add("want %s, got %d", between(r.minFields, r.maxFields, "field"), v.Len())
	}
	for _, n := range r.needs {
		if _, there := v.Get(n.name); !there {
			continue
		}
		for _, other := range n.others {
			if _, there := v.Get(other); !there {
				if to == nil {
					return false
				}
				ok = to.add("a value with %q needs %q", node.Clip(n.name, maxQuote), node.Clip(other, maxQuote))
			}
		}
	}
	for _, d := range r.dependent {
		if _, there := v.Get(d.name); there {
			ok = d.rule.matches(v, to, w) && ok
		}
		if !ok && to.full() {
			return false
		}
	}
	return ok
}

func (r *rule) matchesField(name string, field value.Value, to *report, w *work) bool {
	ok, known := true, false
	if below, there := r.fields[name]; there {
		known = true
		ok = below.within(field, name, to, w)
	}
	for _, p := range r.patterns {
		if p.pattern.MatchString(name) {
			known = true
			ok = p.rule.within(field, name, to, w) && ok
		}
	}
	switch {
	case known:
	case r.closed:
		if to == nil {
			return false
		}
		ok = to.addAt(name, "is not a field that may be here%s", r.nearest(name))
	case r.others != nil:
		ok = r.others.within(field, name, to, w) && ok
	}
	if r.names != nil && !r.names.matches(value.String(name), nil, w) {
		if to == nil {
			return false
		}
		ok = to.addAt(name, "has a name that may not be here")
	}
	return ok
}

// nearest suggests a field that differs from a name only in case, the first of several.
func (r *rule) nearest(name string) string {
	first := ""
	for known := range r.fields {
		if strings.EqualFold(known, name) && (first == "" || known < first) {
			first = known
		}
	}
	if first == "" {
		return ""
	}
	return "; write " + first
}

// between says how many there may be; -1 stands for any number.
func between(least, most int, what string) string {
	switch {
	case most < 0:
		return "at least " + amount(least, what)
	case least < 0:
		return "at most " + amount(most, what)
	case least == most:
		return amount(most, what)
	}
	return "between " + amount(least, what) + " and " + amount(most, what)
}

func (r *rule) matchesList(v value.Value, to *report, w *work) bool {
	ok := true
	if v.Len() < r.minItems || r.maxItems >= 0 && v.Len() > r.maxItems {
		if to == nil {
			return false
		}
		ok = to.add("want %s, got %d", between(r.minItems, r.maxItems, "element"), v.Len())
	}
	if r.first != nil || r.items != nil {
		for i, elem := range v.Elems() {
			switch {
			case i < len(r.first):
				ok = r.first[i].at(elem, i, to, w) && ok
			case r.items != nil:
				ok = r.items.at(elem, i, to, w) && ok
			}
			if !ok && to.full() {
				return false
			}
		}
	}
	if r.unique {
		w.left -= v.Size() / 16
	}
	if r.unique && hasTwins(v) {
		if to == nil {
			return false
		}
		ok = to.add("has an element twice")
	}
	if r.contains != nil && !r.containsEnough(v, w) {
		if to == nil {
			return false
		}
		ok = to.add("does not have as many elements of a kind as it must")
	}
	return ok
}

func (r *rule) containsEnough(v value.Value, w *work) bool {
	n := 0
	for _, elem := range v.Elems() {
		if r.contains.matches(elem, nil, w) {
			n++
		}
	}
	least := r.minContains
	if least < 0 {
		least = 1
	}
	return n >= least && (r.maxContains < 0 || n <= r.maxContains)
}

// hasTwins reports whether two elements of a list are equal.
func hasTwins(v value.Value) bool {
	if v.Len() < 2 {
		return false
	}
	seen := make(map[uint64][]int, v.Len())
	for i, elem := range v.Elems() {
		hash := elem.Hash()
		for _, j := range seen[hash] {
			if elem.Equal(v.At(j)) {
				return true
			}
		}
		seen[hash] = append(seen[hash], i)
	}
	return false
}
