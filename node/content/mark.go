package content

import (
	"net/http"

	"github.com/uniflow-labs/uniflow/value"
)

// What a header was received with, in addition to its fields. Journals have these numbers, so they must not change.
const (
	markRequest uint8 = 1 + iota
	markAnswer
	markEmpty // of an answer without a body
)

// keyPath is a field of what is written for the header of a request: the path of the payload, and how the client has
// encoded it. No header has a colon in its name.
const keyPath = ":path"

// Mark returns what is behind the header of a request or an answer, for [Marked]. mark is 0 for other values.
func Mark(header value.Value) (mark uint8, fields []value.Field) {
	source, _ := value.FieldSourceOf(header)
	view, ok := source.(interface {
		sent() (http.Header, string, string)
		mark() uint8
	})
	if !ok || view.mark() == 0 {
		return 0, nil
	}
	h, path, rawPath := view.sent()
	fields = HeaderFields(h)
	if rawPath != "" {
		fields = append(fields, value.Field{Name: keyPath, Value: value.List(value.String(path), value.String(rawPath))})
	}
	return view.mark(), fields
}

// Marked returns the header of which Mark has returned this: for [Sent], [IsEmpty] and [OfRequest] it is what that was.
// A mark that is not known makes a map.
func Marked(mark uint8, fields []value.Field) value.Value {
	h, path, size := make(http.Header, len(fields)), []string(nil), 0
	for _, f := range fields {
		list, ok := textsOf(f.Value)
		if !ok {
			return value.Map(fields...) // as no header is
		}
		if f.Name == keyPath {
			path = list
			continue
		}
		h[f.Name] = list
		size += len(f.Name) + f.Value.Size()
	}
	var source value.FieldSource
	switch mark {
	case markRequest:
		view := &RequestView{View: View{h}}
		if len(path) == 2 {
			view.Path, view.RawPath = path[0], path[1]
		}
		source = view
	case markAnswer, markEmpty:
		source = &AnswerView{View: View{h}, Empty: mark == markEmpty}
	default:
		return value.Map(fields...)
	}
	return value.LazyMap(source, size, ViewDepth)
}

func textsOf(v value.Value) (list []string, ok bool) {
	if v.Kind() != value.KindList {
		return nil, false
	}
	list = make([]string, 0, v.Len())
	for _, elem := range v.Elems() {
		s, ok := elem.AsString()
		if !ok {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

// Changed returns fields that were made of a header as one that was received with the same.
func Changed(header, fields value.Value) value.Value {
	mark, before := Mark(header)
	if mark == 0 || fields.Kind() != value.KindMap {
		return fields
	}
	var all []value.Field
	for name, v := range fields.Fields() {
		all = append(all, value.Field{Name: name, Value: v})
	}
	if n := len(before); n > 0 && before[n-1].Name == keyPath {
		all = append(all, before[n-1])
	}
	return Marked(mark, all)
}

// Unencoded returns the header of a request without how its client has encoded the path.
func Unencoded(header value.Value) value.Value {
	mark, fields := Mark(header)
	if n := len(fields); n > 0 && fields[n-1].Name == keyPath {
		return Marked(mark, fields[:n-1])
	}
	return header
}

// OfRequest reports whether a header is that of a request, as it was received.
func OfRequest(header value.Value) bool {
	mark, _ := Mark(header)
	return mark == markRequest
}
