package jsonschema

import (
	"errors"

	library "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// maxWhole is the size in bytes, as [value.Value.Size] has it, of the largest value that the
// library checks. It keeps a description of each problem, 1 KiB or more.
const maxWhole = 1 << 20

// checkWhole lets the library check a value.
func (s *Schema) checkWhole(v value.Value, to *report) {
	if v.Size() > maxWhole {
		to.add("too large to be checked by a schema of an older draft, or with unevaluatedProperties, unevaluatedItems or $dynamicRef")
		return
	}
	v, err := toJSON(v)
	if err != nil {
		to.add("not a value of JSON")
		return
	}
	w := work{leastWhole + v.Size()/4}
	if s.root.spend(v, &w); w.left < 0 {
		to.add(tooMuchWork)
		return
	}
	if err = s.whole.Validate(v.Go()); err == nil {
		return
	}
	var e *library.ValidationError
	if !errors.As(err, &e) {
		to.add("does not match the schema")
		return
	}
	var walk func(e *library.ValidationError)
	walk = func(e *library.ValidationError) {
		if to.full() {
			return
		}
		if len(e.Causes) == 0 {
			to.path = e.InstanceLocation
			to.add("%s", unless(s.root.hidden, "does not match the schema", node.Clip(describeKind(e), maxQuote)))
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(e)
}
