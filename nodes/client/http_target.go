package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// setTarget sets the URL of a request: base, continued by the path and the query of a
// call. sent is the path of a request that was received, and rawPath its encoding.
func setTarget(req *http.Request, base *url.URL, c call, sent, rawPath string) error {
	path, isText := c.path.AsString()
	if !c.path.IsNull() && !isText {
		return fmt.Errorf("path: want a string, got %s", c.path.Kind())
	}
	query, err := appendQuery(base.RawQuery, c.query)
	if err != nil {
		return err
	}
	if path == "" && len(query) == len(base.RawQuery) {
		return nil // req shares the URL of the node
	}
	u := *base
	u.RawQuery = query
	if path != "" {
		raw := ""
		if sent == path {
			raw = rawPath
		}
		if err := joinPath(&u, path, raw); err != nil {
			return err
		}
	}
	req.URL = &u
	return nil
}

var errDotSegment = errors.New("path has a segment of dots only, such as .. : want a path below that of the url")

// joinPath continues the path of a URL. raw is how path was encoded, or empty.
func joinPath(u *url.URL, path, raw string) error {
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		segment, _, _ = strings.Cut(segment, ";") // what servers of Java ignore
		if segment == "." || segment == ".." {
			return errDotSegment
		}
	}
	before, slash := strings.CutSuffix(u.EscapedPath(), "/")
	if slash {
		u.Path = u.Path[:len(u.Path)-1]
	}
	if raw != "" || u.RawPath != "" {
		if raw == "" {
			raw = (&url.URL{Path: path}).EscapedPath()
		}
		u.RawPath = before + "/" + strings.TrimLeft(raw, "/") // net/url ignores it if it does not fit Path
	}
	u.Path += "/" + strings.TrimLeft(path, "/")
	return nil
}

// appendQuery continues a query.
func appendQuery(query string, more value.Value) (string, error) {
	if source, ok := value.FieldSourceOf(more); ok {
		if view, ok := source.(*content.Query); ok && !strings.ContainsAny(view.Raw, ";#") {
			if query != "" && view.Raw != "" {
				query += "&"
			}
			return query + view.Raw, nil
		}
	}
	if more.IsNull() {
		return query, nil
	}
	if more.Kind() != value.KindMap {
		return "", fmt.Errorf("query: want a map, got %s", more.Kind())
	}
	if more.Len() == 0 {
		return query, nil
	}
	b, err := envelope.AppendForm([]byte(query), "query", more)
	return string(b), err
}
