package jsonschema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Problem is one thing that is wrong with a value.
type Problem struct {
	Path    string // a JSON Pointer, empty for the value itself
	Message string
}

// String returns the path, if there is one, and the message.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Problems returns why a value does not match, at most a number of problems; none if it
// matches, which takes no memory. It is checked once without a description of what might be
// wrong, and only a value that does not match once more for that.
func (s *Schema) Problems(v value.Value, most int) []Problem {
	to := report{most: most}
	if s.whole != nil {
		s.checkWhole(v, &to)
		return to.found
	}
	w := work{max(leastWork, workPerByte*v.Size())}
	if s.root.matches(v, nil, &w) && w.left >= 0 {
		return nil
	}
	if w.left >= 0 {
		w.left = max(leastWork, workPerByte*v.Size())
		s.root.matches(v, &to, &w)
	}
	if len(to.found) == 0 {
		to.add(tooMuchWork)
	}
	return to.found
}

// Explain returns the texts of [Schema.Problems], joined; "" if a value matches.
func (s *Schema) Explain(v value.Value, most int, between string) string {
	found := s.Problems(v, most)
	texts := make([]string, len(found))
	for i, p := range found {
		texts[i] = p.String()
	}
	return strings.Join(texts, between)
}

// A report collects problems. A nil report is for a caller who asks only whether there is
// one.
type report struct {
	path  []string // of the value that is being checked
	most  int      // problems
	found []Problem
}

// add adds a problem, and returns false: the value does not match.
func (to *report) add(format string, args ...any) bool {
	if len(to.found) < to.most {
		to.found = append(to.found, Problem{pointerOf(to.path), fmt.Sprintf(format, args...)})
	}
	return false
}

// pointerOf returns the JSON Pointer of a path.
func pointerOf(path []string) string {
	var b strings.Builder
	for _, token := range path {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(node.Clip(token, maxQuote)))
	}
	return b.String()
}

// addAt adds a problem of a field of the value that is being checked.
func (to *report) addAt(name, format string, args ...any) bool {
	to.path = append(to.path, name)
	to.add(format, args...)
	to.path = to.path[:len(to.path)-1]
	return false
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// full reports whether there is nothing more to find: the caller asks for the first
// problem, or has enough of them.
func (to *report) full() bool { return to == nil || len(to.found) >= to.most }

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
// With a report it goes on after the first problem. When no work is left, the result means
// nothing: see [Schema.Problems].
func (r *rule) matches(v value.Value, to *report, w *work) bool {
	if w.left--; w.left < 0 {
		return false
	}
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
	ok := r.isAmong(v, to, w)
	if !ok && to.full() {
		return false
	}
	switch v.Kind() {
	case value.KindMap:
		ok = r.matchesMap(v, to, w) && ok
	case value.KindList:
		ok = r.matchesList(v, to, w) && ok
	case value.KindString:
		ok = r.matchesString(v, to, w) && ok
	case value.KindInt, value.KindUint, value.KindFloat:
		ok = r.matchesNumber(v, to) && ok
	}
	if !ok && to.full() {
		return false
	}
	return r.matchesOthers(v, to, w) && ok
}

// isAmong checks const, enum and format.
func (r *rule) isAmong(v value.Value, to *report, w *work) bool {
	ok := true
	if r.constant != nil && !v.Equal(*r.constant) {
		if to == nil {
			return false
		}
		ok = to.add("%s", r.want("want ", *r.constant))
	}
	if r.enum != nil && !slices.ContainsFunc(r.enum, v.Equal) {
		if to == nil {
			return false
		}
		ok = to.add("%s", r.want("want one of ", r.enum...))
	}
	if r.format != nil {
		w.spendFormat(r.format, v)
		if err := r.format.Validate(v.Go()); err != nil {
			if to == nil {
				return false
			}
			ok = to.add("want the format %s", r.format.Name)
		}
	}
	return ok
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
	return node.Clip(before+strings.Join(texts, ", "), maxQuote)
}

// within checks a value below the one that is being checked.
func (r *rule) within(v value.Value, token string, to *report, w *work) bool {
	if to == nil {
		return r.matches(v, nil, w)
	}
	to.path = append(to.path, token)
	ok := r.matches(v, to, w)
	to.path = to.path[:len(to.path)-1]
	return ok
}

// at is within for an element of a list.
func (r *rule) at(v value.Value, i int, to *report, w *work) bool {
	if to == nil {
		return r.matches(v, nil, w)
	}
	return r.within(v, strconv.Itoa(i), to, w)
}
