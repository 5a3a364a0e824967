package request

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// Complete returns the payload of the request that a client would send with the fields that
// are given, which have the names of those of a payload. All may be left out:
//
//   - method is GET, or POST with a body
//   - path is /, and is as a client writes it: with %20 for a space, and with a query after
//     a ?, unless there is a field query
//   - query and header are maps of texts, or of lists of them
//   - scheme, host, protocol and remote are those of a client on this machine
//
// body is the decoded one; with one, there is a Content-Type. Other fields, such as params, are
// kept as they are.
func Complete(given value.Value) (value.Value, error) {
	if given.Kind() != value.KindMap && !given.IsNull() {
		return value.Value{}, fmt.Errorf("want a map with method, path, query, header and body, got %s", given.Kind())
	}
	c := completion{given: given}
	body, _ := given.Get(envelope.KeyBody)
	method, contentType := http.MethodGet, ""
	if !body.IsNull() {
		method, contentType = http.MethodPost, envelope.TypeJSON
	}
	if _, text := body.AsString(); text {
		contentType = envelope.TypeText
	}
	r := &http.Request{Method: c.text(envelope.KeyMethod, method), Proto: c.text(envelope.KeyProtocol, "HTTP/1.1"), Header: c.header(contentType), URL: c.target()}
	from := &Origin{Remote: c.text(envelope.KeyRemote, "127.0.0.1"), Scheme: c.text(envelope.KeyScheme, "http"), Host: c.text(envelope.KeyHost, "localhost")}
	if len(c.errs) > 0 {
		return value.Value{}, errors.Join(c.errs...)
	}
	made := New(r, from)
	var more []value.Field
	for name, v := range given.Fields() {
		if !slices.ContainsFunc(made.fields[:], func(f value.Field) bool { return f.Name == name }) && name != envelope.KeyBody {
			more = append(more, value.Field{Name: name, Value: v})
		}
	}
	return made.Value(body, more...), nil
}

// A completion reads the fields that are given, and keeps what is wrong with them.
type completion struct {
	given value.Value
	errs  []error
}

func (c *completion) fail(err error) { c.errs = append(c.errs, err) }

// text returns the text of a field, or other if it is left out.
func (c *completion) text(field, other string) string {
	v, _ := c.given.Get(field)
	s, ok := v.AsString()
	switch {
	case v.IsNull():
		return other
	case !ok:
		c.fail(fmt.Errorf("%s: want text, got %s", field, v.Kind()))
	case s == "":
		c.fail(fmt.Errorf("%s: is empty", field))
	}
	return s
}

// header returns the header, with the given Content-Type if it has none.
func (c *completion) header(contentType string) http.Header {
	h := make(http.Header)
	given, _ := c.given.Get(envelope.KeyHeader)
	typed, err := envelope.SetHeaders(h, given, func(string) bool { return false })
	if err != nil {
		c.fail(err)
	}
	if typed == "" && contentType != "" {
		h.Set("Content-Type", contentType)
	}
	return h
}

// target returns the path and the query.
func (c *completion) target() *url.URL {
	path := c.text(envelope.KeyPath, "/")
	u, err := url.ParseRequestURI(path)
	switch {
	case path == "":
		return nil // reported
	case !strings.HasPrefix(path, "/"):
		c.fail(fmt.Errorf("path: want one such as /orders?limit=2, got %q", path))
		return nil
	case err != nil:
		c.fail(fmt.Errorf("path: %w; %%25 stands for %%", err))
		return nil
	}
	query, _ := c.given.Get(envelope.KeyQuery)
	switch {
	case query.IsNull():
		return u
	case query.Kind() != value.KindMap:
		c.fail(fmt.Errorf("query: want a map, got %s", query.Kind()))
	case strings.Contains(path, "?"):
		c.fail(errors.New("the path has a query, and there is a field query: leave out one of them"))
	}
	form, err := envelope.AppendForm(nil, "query", query)
	if err != nil {
		c.fail(err)
	}
	u.RawQuery = string(form)
	return u
}
