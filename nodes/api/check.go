package api

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/value"
)

// A mismatch is one thing that is wrong with a value.
type mismatch struct {
	path    string // a JSON Pointer, empty for the value itself
	message string
}

const (
	// maxMismatches bounds what an error tells: a list of a million wrong elements has as
	// many mismatches.
	maxMismatches = 20

	// maxWhole is the size in bytes, as [value.Value.Size] has it, of the largest value
	// that the library checks. It keeps a description of each mismatch, 1 KiB or more.
	maxWhole = 1 << 20
)

// check reports whether a value matches, and if not, why.
func (r *rules) check(v value.Value) (found []mismatch, ok bool) {
	if r.whole != nil {
		return r.checkWhole(v)
	}
	if r.root.matches(v, nil) {
		return nil, true
	}
	var to report
	if r.root.matches(v, &to) {
		return nil, true
	}
	return to.found, false
}

// checkWhole lets the library check a value.
func (r *rules) checkWhole(v value.Value) (found []mismatch, ok bool) {
	if v.Size() > maxWhole {
		return []mismatch{{"", "too large to be checked by a schema with unevaluatedProperties, unevaluatedItems or $dynamicRef"}}, false
	}
	err := r.whole.Validate(jsonOf(v).Go())
	if err == nil {
		return nil, true
	}
	var e *jsonschema.ValidationError
	if !errors.As(err, &e) {
		return nil, false
	}
	var to report
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(to.found) >= maxMismatches {
			return
		}
		if len(e.Causes) == 0 {
			to.path = e.InstanceLocation
			text := "does not match the schema"
			if !r.root.hidden {
				text = clip(describeKind(e))
			}
			to.add("%s", text)
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(e)
	return to.found, false
}

// A report collects mismatches. A nil report is that of a caller who asks only whether
// there is one.
type report struct {
	path  []string // of the value that is being checked
	found []mismatch
}

func (to *report) add(format string, args ...any) {
	if len(to.found) >= maxMismatches {
		return
	}
	var path strings.Builder
	for _, token := range to.path {
		path.WriteByte('/')
		path.WriteString(pointerEscapes.Replace(clip(token)))
	}
	to.found = append(to.found, mismatch{path.String(), fmt.Sprintf(format, args...)})
}

// addAt adds a mismatch of a field of the value that is being checked.
func (to *report) addAt(name, format string, args ...any) {
	to.path = append(to.path, name)
	to.add(format, args...)
	to.path = to.path[:len(to.path)-1]
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// full reports whether there is nothing more to find: the caller asks for the first
// mismatch, or has enough of them.
func (to *report) full() bool { return to == nil || len(to.found) >= maxMismatches }

// jsonOf returns a value as JSON has it: the kinds that it does not have are texts, and an
// error is a map.
func jsonOf(v value.Value) value.Value {
	switch v.Kind() {
	case value.KindTime, value.KindDuration, value.KindBinary:
		return value.String(v.String())
	case value.KindError:
		return value.ErrorMap(v)
	}
	return v
}

// matches reports whether a value matches the rule, and adds to a report why it does not.
// With a report it goes on after the first mismatch.
func (r *rule) matches(v value.Value, to *report) bool {
	if r.never {
		if to != nil {
			to.add("must not be there")
		}
		return false
	}
	v = jsonOf(v)
	t := typeOf(v)
	if t == 0 || !r.anyType && t&r.types == 0 {
		if to != nil {
			to.add("want %s, got %s", r.types.orAny(), nameOf(v))
		}
		return false
	}
	ok := r.isAmong(v, to)
	if !ok && to.full() {
		return false
	}
	switch v.Kind() {
	case value.KindMap:
		ok = r.matchesMap(v, to) && ok
	case value.KindList:
		ok = r.matchesList(v, to) && ok
	case value.KindString:
		ok = r.matchesString(v, to) && ok
	case value.KindInt, value.KindUint, value.KindFloat:
		ok = r.matchesNumber(v, to) && ok
	}
	if !ok && to.full() {
		return false
	}
	return r.matchesOthers(v, to) && ok
}

// isAmong checks const, enum and format.
func (r *rule) isAmong(v value.Value, to *report) bool {
	ok := true
	if r.constant != nil && !v.Equal(*r.constant) {
		if to == nil {
			return false
		}
		to.add("%s", r.want("want ", *r.constant))
		ok = false
	}
	if r.enum != nil && !contains(r.enum, v) {
		if to == nil {
			return false
		}
		to.add("%s", r.want("want one of ", r.enum...))
		ok = false
	}
	if r.format != nil {
		if err := r.format.Validate(v.Go()); err != nil {
			if to == nil {
				return false
			}
			to.add("want the format %s", r.format.Name)
			ok = false
		}
	}
	return ok
}

func contains(list []value.Value, v value.Value) bool {
	for _, w := range list {
		if v.Equal(w) {
			return true
		}
	}
	return false
}

// want says which values there may be, unless they are not to be shown.
func (r *rule) want(before string, values ...value.Value) string {
	if r.hidden {
		return "not a value that may be here"
	}
	texts := make([]string, len(values))
	for i, v := range values {
		text, err := v.AppendJSON(nil)
		if err != nil {
			text = []byte(v.String())
		}
		texts[i] = string(text)
	}
	return clip(before + strings.Join(texts, ", "))
}

// within checks a value below the one that is being checked.
func (r *rule) within(v value.Value, token string, to *report) bool {
	if to == nil {
		return r.matches(v, nil)
	}
	to.path = append(to.path, token)
	ok := r.matches(v, to)
	to.path = to.path[:len(to.path)-1]
	return ok
}

// at is within for an element of a list.
func (r *rule) at(v value.Value, i int, to *report) bool {
	if to == nil {
		return r.matches(v, nil)
	}
	return r.within(v, strconv.Itoa(i), to)
}
