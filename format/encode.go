package format

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/value"
)

// An Encoder appends values as records of a format. JSON is NDJSON for it. Only CSV without
// Options.Columns has a state: the first record then gives the columns, and it is not for
// concurrent use.
type Encoder struct{ o Options }

// NewEncoder returns an encoder.
func NewEncoder(o Options) *Encoder { return &Encoder{o: o.withDefaults()} }

// Columns returns the names of the columns of CSV, nil before the first record.
func (e *Encoder) Columns() []string { return e.o.Columns }

// SetColumns sets the names of the columns of CSV, such as those that a file has.
func (e *Encoder) SetColumns(names []string) { e.o.Columns = names }

// AppendHeader appends the row of the names of the columns.
func (e *Encoder) AppendHeader(dst []byte) []byte {
	for i, name := range e.o.Columns {
		if i > 0 {
			dst = append(dst, e.o.Delimiter)
		}
		dst = appendField(dst, name, e.o.Delimiter)
	}
	return append(dst, '\n')
}

// Append appends v as a record, with a line end unless the format is raw. Lines take text,
// and other values as JSON; raw takes text and binary; CSV takes maps whose fields are
// columns, and lists of as many elements. After an error, dst is returned unchanged.
func (e *Encoder) Append(dst []byte, v value.Value) ([]byte, error) {
	switch e.o.Name {
	case Raw:
		if b, ok := v.AsBinary(); ok {
			return append(dst, b...), nil
		}
		if text, ok := v.AsString(); ok {
			return append(dst, text...), nil
		}
		return dst, fmt.Errorf("want text or binary, got %s", v.Kind())
	case CSV:
		return e.appendRow(dst, v)
	case Lines:
		out, err := appendText(dst, v)
		if err != nil {
			return dst, err
		}
		return append(out, '\n'), nil
	}
	out, err := v.AppendJSON(dst)
	if err != nil {
		return dst, err
	}
	return append(out, '\n'), nil
}

// appendText appends text as it is, and other values as JSON.
func appendText(dst []byte, v value.Value) ([]byte, error) {
	switch v.Kind() {
	case value.KindString:
		text, _ := v.AsString()
		return append(dst, text...), nil
	case value.KindBinary:
		b, _ := v.AsBinary()
		if !utf8.Valid(b) {
			return dst, records.ErrUTF8
		}
		return append(dst, b...), nil
	case value.KindTime, value.KindDuration:
		return append(dst, v.String()...), nil
	}
	return v.AppendJSON(dst)
}

func (e *Encoder) appendRow(dst []byte, v value.Value) ([]byte, error) {
	names := e.o.Columns
	switch v.Kind() {
	case value.KindMap:
		if names == nil {
			for name := range v.Fields() {
				names = append(names, name)
			}
			if err := records.CheckColumns(names); err != nil {
				return dst, err
			}
		}
		found := 0
		for _, name := range names {
			if _, ok := v.Get(name); ok {
				found++
			}
		}
		if found < v.Len() {
			for name := range v.Fields() {
				if !slices.Contains(names, name) {
					return dst, fmt.Errorf("the field %q is not one of the columns", name)
				}
			}
		}
	case value.KindList:
		if names == nil {
			return dst, fmt.Errorf("a list does not name the columns of CSV: give columns")
		}
		if v.Len() != len(names) {
			return dst, fmt.Errorf("the list has %d elements, and there are %d columns", v.Len(), len(names))
		}
	default:
		return dst, fmt.Errorf("want a map or a list for a row of CSV, got %s", v.Kind())
	}
	out := dst
	var text []byte
	for i, name := range names {
		field := v.At(i)
		if v.Kind() == value.KindMap {
			field, _ = v.Get(name)
		}
		if i > 0 {
			out = append(out, e.o.Delimiter)
		}
		if field.IsNull() {
			continue
		}
		if s, ok := field.AsString(); ok {
			out = appendField(out, s, e.o.Delimiter)
			continue
		}
		var err error
		if text, err = appendText(text[:0], field); err != nil {
			return dst, fmt.Errorf("column %q: %w", name, err)
		}
		out = appendField(out, string(text), e.o.Delimiter)
	}
	if len(out) == len(dst) { // one empty column: an empty line is passed over
		out = append(out, '"', '"')
	}
	e.o.Columns = names
	return append(out, '\n'), nil
}
