package value

import (
	"bytes"
	"strings"
)

// Clone returns a copy of v that keeps nothing else alive. It is for what stays longer than
// where it has come from: a text or a binary may be a small part of a large one, and a lazy
// map keeps what its fields are made of. Names of fields and errors are shared.
func (v Value) Clone() Value {
	switch v.Kind() {
	case KindString:
		s, _ := v.AsString()
		return String(strings.Clone(s))
	case KindBinary:
		b, _ := v.AsBinary()
		return Binary(bytes.Clone(b))
	case KindList:
		elems := make([]Value, 0, v.Len())
		for _, e := range v.Elems() {
			elems = append(elems, e.Clone())
		}
		return List(elems...)
	case KindMap:
		fields := make([]Field, 0, v.Len())
		for name, f := range v.Fields() {
			fields = append(fields, Field{name, f.Clone()})
		}
		return UniqueMap(fields)
	}
	return v
}
