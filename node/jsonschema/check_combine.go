package jsonschema

import "github.com/uniflow-labs/uniflow/value"

// matchesOthers checks what combines schemas.
func (r *rule) matchesOthers(v value.Value, to *report, w *work) bool {
	ok := r.ref == nil || r.ref.matches(v, to, w)
	for _, below := range r.all {
		if !ok && to.full() {
			return false
		}
		ok = below.matches(v, to, w) && ok
	}
	if len(r.any) > 0 && countMatches(r.any, v, 1, w) == 0 {
		if to == nil {
			return false
		}
		explainAny(r.any, v, to, w)
		ok = false
	}
	if len(r.one) > 0 {
		if n := countMatches(r.one, v, 2, w); n != 1 {
			if to == nil {
				return false
			}
			if n == 0 {
				explainAny(r.one, v, to, w)
			} else {
				to.add("matches more than one of %d schemas of which exactly one must match", len(r.one))
			}
			ok = false
		}
	}
	if r.not != nil && r.not.matches(v, nil, w) {
		if to == nil {
			return false
		}
		ok = to.add("matches a schema that it must not match")
	}
	if r.cond == nil || !ok && to.full() {
		return ok
	}
	next := r.no
	if r.cond.matches(v, nil, w) {
		next = r.yes
	}
	return (next == nil || next.matches(v, to, w)) && ok
}

// countMatches counts the rules that a value matches, as far as most.
func countMatches(rules []*rule, v value.Value, most int, w *work) (n int) {
	for _, r := range rules {
		if r.matches(v, nil, w) {
			if n++; n == most {
				return n
			}
		}
	}
	return n
}

// explainAny says why a value matches none of some rules. If only one of them is about
// values of its type, what is wrong is what that finds.
func explainAny(rules []*rule, v value.Value, to *report, w *work) {
	var only *rule
	n := 0
	for _, r := range rules {
		if r.anyType || r.types&typeOf(v) != 0 {
			only, n = r, n+1
		}
	}
	if n == 1 {
		only.matches(v, to, w)
		return
	}
	to.add("matches none of %d schemas", len(rules))
}
