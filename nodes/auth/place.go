package auth

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A place is where requests have what a scheme looks for.
type place struct {
	header string // canonical; or else query or cookie
	prefix string // the word before it in the header, lower case, with a space; may be empty
	query  string
	cookie string
}

// newPlace reads the fields of a scheme. The header and the prefix are those unless set.
func newPlace(c schema.Config, header, prefix string) (place, error) {
	n := 0
	for _, name := range []string{"header", "query", "cookie"} {
		if c.Has(name) {
			n++
			if c.String(name) == "" || name != "query" && !envelope.ValidToken(c.String(name)) {
				return place{}, c.Errorf(name, diag.CodeBadValue, "want a name of letters, digits and hyphens")
			}
		}
	}
	switch {
	case n > 1:
		return place{}, c.Errorf("", diag.CodeBadValue, "header, query and cookie exclude each other").
			WithHint("write a scheme for each")
	case c.Has("prefix") && (c.Has("query") || c.Has("cookie")):
		return place{}, c.Errorf("prefix", diag.CodeBadValue, "prefix is used with a header only").WithHint("remove it")
	case c.Has("prefix") && c.String("prefix") != "" && !envelope.ValidToken(c.String("prefix")):
		return place{}, c.Errorf("prefix", diag.CodeBadValue, "want a word such as Bearer")
	case c.Has("query"):
		return place{query: c.String("query")}, nil
	case c.Has("cookie"):
		return place{cookie: c.String("cookie")}, nil
	case c.Has("header"):
		if !strings.EqualFold(c.String("header"), header) {
			prefix = ""
		}
		header = c.String("header")
	}
	if c.Has("prefix") {
		prefix = c.String("prefix")
	}
	if prefix != "" {
		prefix = strings.ToLower(prefix) + " "
	}
	return place{header: textproto.CanonicalMIMEHeaderKey(header), prefix: prefix}, nil
}

// find returns what a request has at the place. The error is errAbsent, or a refusal if
// there is more than one.
func (p place) find(payload value.Value) (string, error) {
	var text string
	var n int
	switch {
	case p.query != "":
		text, n = only(payload, "query", p.query)
	case p.cookie != "":
		text, n = cookie(payload, p.cookie)
	default:
		text, n = only(payload, "header", p.header)
	}
	switch {
	case n == 0:
		return "", errAbsent
	case n > 1:
		return "", refuse("the credentials are there more than once")
	case p.prefix == "":
		return text, nil
	case len(text) < len(p.prefix) || !strings.EqualFold(text[:len(p.prefix)], p.prefix):
		return "", errAbsent // credentials of another scheme
	}
	return strings.TrimLeft(text[len(p.prefix):], " "), nil
}

// only returns the text of a key in the header or the query of a request, and how many
// there are.
func only(payload value.Value, part, name string) (text string, n int) {
	all, _ := payload.Get(part)
	v, _ := all.Get(name)
	if v.Kind() == value.KindList {
		if n = v.Len(); n != 1 {
			return "", n
		}
		v = v.At(0)
	}
	text, ok := v.AsString()
	if !ok {
		return "", 0
	}
	return text, 1
}

// cookie returns a cookie of a request, and how many there are of that name.
func cookie(payload value.Value, name string) (text string, n int) {
	for _, line := range cookieLines(payload, name) {
		for _, c := range parseCookies(line) {
			if c.Name == name {
				text = c.Value
				n++
			}
		}
	}
	return text, n
}

// cookieNames returns the names of all cookies of a request.
func cookieNames(payload value.Value) (names []string) {
	for _, line := range cookieLines(payload, "") {
		for _, c := range parseCookies(line) {
			names = append(names, c.Name)
		}
	}
	return names
}

// cookieLines returns the headers with cookies that have some text.
func cookieLines(payload value.Value, with string) (lines []string) {
	header, _ := payload.Get("header")
	v, _ := header.Get("Cookie")
	if v.Kind() != value.KindList {
		v = value.List(v)
	}
	for _, e := range v.Elems() {
		if line, ok := e.AsString(); ok && strings.Contains(line, with) {
			lines = append(lines, line)
		}
	}
	return lines
}

func parseCookies(line string) []*http.Cookie {
	r := http.Request{Header: http.Header{"Cookie": {line}}}
	return r.Cookies()
}
