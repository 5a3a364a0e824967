package value

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"
)

// Go returns v as plain Go: nil, bool, int64, uint64, float64, string, []byte,
// time.Time, time.Duration, []any, map[string]any or error. Lists, maps and
// bytes are copies, which the caller owns; empty ones are empty, not nil.
func (v Value) Go() any {
	switch v.meta.kind() {
	case KindBool:
		return v.num != 0
	case KindInt:
		return int64(v.num)
	case KindUint:
		return v.num
	case KindFloat:
		return math.Float64frombits(v.num)
	case KindDuration:
		return time.Duration(v.num)
	case KindTime:
		t, _ := v.AsTime()
		return t
	case KindString:
		return v.bytes()
	case KindBinary:
		return []byte(v.bytes())
	case KindList:
		list := make([]any, v.num)
		for i, e := range v.elems() {
			list[i] = e.Go()
		}
		return list
	case KindMap:
		fields := (*mapData)(v.ptr).load()
		m := make(map[string]any, len(fields))
		for i := range fields {
			m[fields[i].Name] = fields[i].Value.Go()
		}
		return m
	case KindError:
		return v.AsError()
	}
	return nil
}

// String returns v as a text: a string is itself, an error its message (see
// [ErrorMap]), binary is base64, a duration such as "1m30s", a time RFC 3339;
// all else is as in JSON, with NaN and Infinity as such.
func (v Value) String() string {
	switch v.meta.kind() {
	case KindString:
		return v.bytes()
	case KindError:
		return message(v.AsError())
	}
	w := writer{lenient: true}
	text := string(w.value(nil, v))
	if len(text) >= 2 && text[0] == '"' { // binary, duration, time: nothing in them is escaped
		return text[1 : len(text)-1]
	}
	return text
}

// message returns the message field of [ErrorMap], or the text of the error if there
// is none.
func message(err error) string {
	for _, f := range errorFields(err) {
		if text, ok := f.Value.AsString(); ok && f.Name == "message" {
			return text
		}
	}
	return err.Error()
}

// A describer is an error with more fields than a message.
type describer interface {
	ErrorFields() []Field
}

// ErrorMap returns an error payload as the map that expressions and snippets see: the
// fields of the first error in its tree with a method ErrorFields() []Field, or
// {message: …} if there is none. For joined errors, messages are joined by newlines, a
// field is true only if it is true in all of them, and of other fields the first
// counts. A v that is not an error is returned as it is.
func ErrorMap(v Value) Value {
	if v.meta.kind() != KindError {
		return v
	}
	return Map(slices.Clone(errorFields(v.AsError()))...)
}

func errorFields(err error) []Field {
	if fields := describe(err, 0); fields != nil {
		return fields
	}
	return []Field{{"message", String(err.Error())}}
}

// describe returns the fields of the error tree, or nil if no error in it has
// any.
func describe(err error, depth int) []Field {
	for ; err != nil && depth < MaxDepth; depth++ {
		if d, ok := err.(describer); ok {
			return d.ErrorFields()
		}
		switch e := err.(type) {
		case interface{ Unwrap() []error }:
			return describeJoined(e.Unwrap(), depth+1)
		case interface{ As(any) bool }:
			var d describer
			if e.As(&d) {
				return d.ErrorFields()
			}
		}
		err = errors.Unwrap(err)
	}
	return nil
}

func describeJoined(parts []error, depth int) []Field {
	var (
		all   = []Field{{Name: "message"}}
		lines []string
		found bool
	)
	for _, part := range parts {
		if part == nil {
			continue
		}
		fields := describe(part, depth)
		found = found || fields != nil
		line := part.Error()
		for _, f := range fields {
			switch i := scan(all, f.Name); {
			case f.Name == "message":
				if text, ok := f.Value.AsString(); ok {
					line = text
				}
			case i < 0 && (len(lines) == 0 || !isTrue(f.Value)):
				all = append(all, f)
			case i >= 0 && isTrue(all[i].Value):
				all[i].Value = f.Value
			}
		}
		all = slices.DeleteFunc(all, func(f Field) bool { return isTrue(f.Value) && scan(fields, f.Name) < 0 })
		lines = append(lines, line)
	}
	if !found {
		return nil
	}
	all[0].Value = String(strings.Join(lines, "\n"))
	return all
}

func isTrue(v Value) bool { return v.meta.kind() == KindBool && v.num != 0 }
