package jsonschema

import "github.com/uniflow-labs/uniflow/value"

const (
	// leastWork is how many rules may be applied to a value of any size.
	leastWork = 1 << 20

	// workPerByte is the same for each byte of a large value, as [value.Value.Size] has it.
	workPerByte = 4

	// leastWhole is how many parts of a schema the library may apply to a value of any size,
	// and as many as a quarter of its bytes: see maxWhole.
	leastWhole = 1 << 16

	tooMuchWork = "takes too long to check: parts of the schema lead to the same part in several ways"
)

// A work bounds what one check takes. Where two parts of a schema lead to a third for the
// same value, as in a oneOf of two trees, each level of the value doubles the time: without a
// bound, a body of 600 bytes would take years.
type work struct{ left int }

// spend takes from w what the library does at most to check a value, as it tries all parts of
// a schema. Of $dynamicRef and of older drafts it counts all that the library may look at.
func (r *rule) spend(v value.Value, w *work) {
	if r == nil || w.left < 0 {
		return
	}
	w.left--
	for _, same := range [...]*rule{r.ref, r.not, r.cond, r.yes, r.no} {
		same.spend(v, w)
	}
	for _, list := range [...][]*rule{r.all, r.any, r.one, r.dynamic} {
		for _, same := range list {
			same.spend(v, w)
		}
	}
	for _, d := range r.dependent {
		d.rule.spend(v, w)
	}
	for name, field := range v.Fields() {
		r.fields[name].spend(field, w)
		for _, p := range r.patterns {
			p.rule.spend(field, w)
		}
		r.others.spend(field, w)
		r.names.spend(value.String(name), w)
		r.otherUnseen.spend(field, w)
	}
	for i, elem := range v.Elems() {
		if i < len(r.first) {
			r.first[i].spend(elem, w)
		}
		r.items.spend(elem, w)
		r.contains.spend(elem, w)
		r.unseen.spend(elem, w)
		r.atLarge.spend(elem, w)
	}
}
