package value

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Path leads from a value to one within it, such as orders[0].price. The empty
// Path leads to the value itself. Paths are made by [ParsePath] or written as
// literals.
type Path []Step

// A Step leads from a list or map to one of its parts.
type Step struct {
	Name    string // of a field
	Index   int    // of an element, counted from 0
	Element bool   // whether Index counts, and not Name
}

// A PathError says why a text is not a path, or why a value cannot be changed
// at one.
type PathError struct {
	Path string // the text, or the path up to the step that cannot be made
	Msg  string
}

// Error returns the message with the path in front.
func (e *PathError) Error() string { return fmt.Sprintf("path %q: %s", e.Path, e.Msg) }

// ParsePath reads a path: names joined by dots, elements as [0], and names that
// hold dots, brackets or quotes, or nothing, as ["a.b"] in JSON's or Go's
// quoting. The error is a [*PathError].
func ParsePath(text string) (Path, error) {
	fail := func(format string, args ...any) (Path, error) {
		return nil, &PathError{Path: text, Msg: fmt.Sprintf(format, args...)}
	}
	var path Path
	for rest := text; rest != ""; {
		at := len(text) - len(rest)
		if rest[0] == '[' {
			step, n, msg := parseBracket(rest)
			if msg != "" {
				return fail("%s at offset %d", msg, at)
			}
			path, rest = append(path, step), rest[n:]
			continue
		}
		if len(path) > 0 {
			if rest[0] != '.' {
				return fail("want a dot or a bracket at offset %d", at)
			}
			rest = rest[1:]
			at++
		}
		n := strings.IndexAny(rest, ".[]\"")
		if n < 0 {
			n = len(rest)
		}
		if n == 0 {
			return fail("want a name at offset %d", at)
		}
		path, rest = append(path, Step{Name: rest[:n]}), rest[n:]
	}
	return path, nil
}

// parseBracket reads [0] or ["name"] at the start of text and returns how long
// it is.
func parseBracket(text string) (step Step, n int, msg string) {
	if quoted, err := strconv.QuotedPrefix(text[1:]); err == nil {
		name, err := strconv.Unquote(quoted)
		n = 1 + len(quoted)
		if err != nil || n >= len(text) || text[n] != ']' {
			return Step{}, 0, "want a closing bracket after the quoted name"
		}
		return Step{Name: name}, n + 1, ""
	}
	n = strings.IndexByte(text, ']')
	if n < 0 {
		return Step{}, 0, "bracket without end"
	}
	i, err := strconv.ParseUint(text[1:n], 10, 31)
	if err != nil {
		return Step{}, 0, fmt.Sprintf("want an index or a quoted name, got %q", text[1:n])
	}
	return Step{Index: int(i), Element: true}, n + 1, ""
}

// String returns the path in the form that [ParsePath] reads.
func (p Path) String() string {
	var b []byte
	for i, s := range p {
		switch {
		case s.Element:
			b = append(strconv.AppendInt(append(b, '['), int64(s.Index), 10), ']')
		case s.Name == "" || strings.ContainsAny(s.Name, ".[]\"") || !isPlain(s.Name):
			b = append(strconv.AppendQuote(append(b, '['), s.Name), ']')
		default:
			if i > 0 {
				b = append(b, '.')
			}
			b = append(b, s.Name...)
		}
	}
	return string(b)
}

// isPlain reports whether a name may stand in a path as it is. Others are
// quoted so that a path stays one readable line.
func isPlain(name string) bool {
	for _, r := range name {
		if !strconv.IsPrint(r) || r == '\uFFFD' {
			return false
		}
	}
	return true
}

// Lookup follows a path of field names (string) and list indexes (int), and
// reports whether all of it is there. A step of another type is never found.
func (v Value) Lookup(path ...any) (Value, bool) {
	for _, step := range path {
		var ok bool
		switch step := step.(type) {
		case string:
			v, ok = v.Get(step)
		case int:
			v, ok = v.elem(step)
		}
		if !ok {
			return Value{}, false
		}
	}
	return v, true
}

// Find follows a path, and reports whether all of it is there.
func (v Value) Find(path Path) (Value, bool) {
	for _, step := range path {
		var ok bool
		if step.Element {
			v, ok = v.elem(step.Index)
		} else {
			v, ok = v.Get(step.Name)
		}
		if !ok {
			return Value{}, false
		}
	}
	return v, true
}

func (v Value) elem(i int) (Value, bool) {
	if v.meta.kind() != KindList || i < 0 || i >= int(v.num) {
		return Value{}, false
	}
	return v.elems()[i], true
}

// Set returns v with the part at path set to field; v itself is unchanged, and
// shares all other parts with the result. What is missing or null on the way is
// made: a map for a name, a list for index 0. An index equal to the length
// appends. The error, a [*PathError], says which step cannot be made: a name in
// what is not a map, an index beyond the end, or too deep a value.
func (v Value) Set(path Path, field Value) (Value, error) {
	if len(path) > MaxDepth {
		return Value{}, &PathError{Path: path[:8].String() + "…", Msg: fmt.Sprintf("longer than %d steps", MaxDepth)}
	}
	return v.set(path, 0, field)
}

func (v Value) set(path Path, done int, field Value) (Value, error) {
	if done == len(path) {
		return field, nil
	}
	fail := func(msg string) (Value, error) {
		return Value{}, &PathError{Path: path[:done+1].String(), Msg: msg}
	}
	step, want := path[done], KindMap
	if step.Element {
		want = KindList
	}
	if k := v.meta.kind(); k != want && k != KindNull {
		return fail(fmt.Sprintf("want a %s to set this in, got a %s", want, k))
	}
	if step.Element && (step.Index < 0 || step.Index > v.Len()) {
		return fail(fmt.Sprintf("the list has %d elements", v.Len()))
	}
	var old Value
	if step.Element {
		old = v.At(step.Index)
	} else {
		old, _ = v.Get(step.Name)
	}
	field, err := old.set(path, done+1, field)
	if err != nil {
		return Value{}, err
	}
	var changed Value
	switch {
	case !step.Element:
		changed = v.With(step.Name, field)
	case step.Index == v.Len():
		changed = v.Append(field)
	default:
		elems := slices.Clone(v.elems())
		elems[step.Index] = field
		changed = List(elems...)
	}
	if changed.IsError() {
		return fail(changed.AsError().Error())
	}
	return changed, nil
}

// Delete returns v without the part at path; v itself is unchanged, and shares
// all other parts with the result. Elements behind a deleted one move up. Where
// there is no such part the result is v. The empty path deletes all: the result
// is null. The error is always nil for a value as it is today; it is there for
// callers who treat Set and Delete alike.
func (v Value) Delete(path Path) (Value, error) {
	if _, ok := v.Find(path); !ok {
		return v, nil
	}
	if len(path) == 0 {
		return Value{}, nil
	}
	parent, last := path[:len(path)-1], path[len(path)-1]
	owner, _ := v.Find(parent)
	if last.Element {
		elems := make([]Value, 0, owner.Len()-1)
		elems = append(append(elems, owner.elems()[:last.Index]...), owner.elems()[last.Index+1:]...)
		owner = List(elems...)
	} else {
		owner = owner.Without(last.Name)
	}
	return v.Set(parent, owner)
}
