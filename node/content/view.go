package content

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/value"
)

// ViewDepth is how deep a map of lists of strings nests: see [value.LazyMap].
const ViewDepth = 2

// A View makes a map of lists of headers when they are first read.
type View struct{ Header http.Header }

// Fields implements [value.FieldSource].
func (v *View) Fields() []value.Field { return HeaderFields(v.Header) }

// sent returns what the header was received with.
func (v *View) sent() (h http.Header, path, rawPath string) { return v.Header, "", "" }

func (v *View) mark() uint8 { return 0 }

// A RequestView is the header of a request that was received.
type RequestView struct {
	View
	Path    string // as in the payload
	RawPath string // as encoded by the client; empty if that is the default encoding of Path
}

func (v *RequestView) sent() (h http.Header, path, rawPath string) {
	return v.Header, v.Path, v.RawPath
}

func (v *RequestView) mark() uint8 { return markRequest }

// An AnswerView is the header of an answer that was received.
type AnswerView struct {
	View
	Empty bool // the answer has no body, for which null stands
}

func (v *AnswerView) mark() uint8 {
	if v.Empty {
		return markEmpty
	}
	return markAnswer
}

// Sent returns the header behind a field that is one of the types of this package, or has
// one embedded, and the path of that request as its client has encoded it: rawPath is empty
// if that is the default encoding of path. h is nil for other values.
func Sent(header value.Value) (h http.Header, path, rawPath string) {
	source, _ := value.FieldSourceOf(header)
	if view, ok := source.(interface {
		sent() (http.Header, string, string)
	}); ok {
		return view.sent()
	}
	return nil, "", ""
}

// IsEmpty reports whether header and body are from an answer that has no body.
func IsEmpty(header, body value.Value) bool {
	if !body.IsNull() {
		return false
	}
	source, _ := value.FieldSourceOf(header)
	view, ok := source.(*AnswerView)
	return ok && view.Empty
}

// HeaderFields returns the headers sorted by name, as net/http does not keep their order.
func HeaderFields(header http.Header) []value.Field {
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	fields := make([]value.Field, len(names))
	for i, name := range names {
		fields[i] = value.Field{Name: name, Value: StringList(header[name])}
	}
	return fields
}

// StringList returns a list of the values of a header.
func StringList(list []string) value.Value {
	elems := make([]value.Value, len(list))
	for i, s := range list {
		elems[i] = value.String(Text(s))
	}
	return value.List(elems...)
}

// Text returns the value of a header as UTF-8. One that is not UTF-8 is taken as
// Latin-1, the historical charset of headers.
func Text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	text := make([]rune, len(s))
	for i := range len(s) {
		text[i] = rune(s[i])
	}
	return string(text)
}

// A Query makes a map of lists of a request's query when it is first read.
type Query struct{ Raw string }

// Fields implements [value.FieldSource]: the keys in order of first appearance. A part with a malformed
// encoding stays as it is: at this point an error cannot be reported.
func (v *Query) Fields() []value.Field {
	var g grouping
	for part := range strings.SplitSeq(v.Raw, "&") {
		if part == "" {
			continue
		}
		name, text, _ := strings.Cut(part, "=")
		g.add(UnescapeOr(name), value.String(UnescapeOr(text)))
	}
	return g.fields()
}

// UnescapeOr returns a part of a query decoded, or as it is if its encoding is malformed.
func UnescapeOr(s string) string {
	if decoded, err := url.QueryUnescape(s); err == nil {
		return decoded
	}
	return s
}

// A grouping collects values by key. Keys are in order of first appearance.
type grouping struct {
	names  []string
	values [][]value.Value
	index  map[string]int
}

func (g *grouping) add(name string, v value.Value) {
	i, ok := g.index[name]
	if !ok {
		if g.index == nil {
			g.index = make(map[string]int)
		}
		i = len(g.names)
		g.index[name] = i
		g.names = append(g.names, name)
		g.values = append(g.values, nil)
	}
	g.values[i] = append(g.values[i], v)
}

func (g *grouping) fields() []value.Field {
	fields := make([]value.Field, len(g.names))
	for i, name := range g.names {
		fields[i] = value.Field{Name: name, Value: value.List(g.values[i]...)}
	}
	return fields
}

func (g *grouping) value() value.Value { return value.UniqueMap(g.fields()) }
