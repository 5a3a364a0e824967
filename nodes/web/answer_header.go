package web

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// isServerHeader reports whether a workflow cannot set a header, because it is about
// the connection or about the encoded body.
func isServerHeader(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// setHeaders sets headers that a workflow has given, names in any case, except for
// those that skip reports. It returns the Content-Type among them.
func setHeaders(h http.Header, header value.Value, skip func(name string) bool) (contentType string, err error) {
	switch header.Kind() {
	case value.KindNull:
		return "", nil
	case value.KindMap:
	default:
		return "", fmt.Errorf("header is a %s: want a map", header.Kind())
	}
	for name, v := range header.Fields() {
		if !validToken(name) {
			return "", fmt.Errorf("%q is not a valid header name", node.Clip(name, maxQuote))
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		if skip(key) {
			continue
		}
		list, err := headerValues(h[key], name, v)
		if err != nil {
			return "", err
		}
		if len(list) == 0 {
			continue
		}
		if key == "Content-Type" {
			list = list[len(list)-1:]
			contentType = list[0]
		}
		h[key] = list
	}
	return contentType, nil
}

// headerValues appends a header's value, or each of a list. Null adds nothing.
func headerValues(list []string, name string, v value.Value) ([]string, error) {
	if v.Kind() == value.KindList {
		for _, elem := range v.Elems() {
			if elem.Kind() == value.KindList {
				return nil, fmt.Errorf("header %q has a list within its list", node.Clip(name, maxQuote))
			}
			var err error
			if list, err = headerValues(list, name, elem); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	if v.IsNull() {
		return list, nil
	}
	s, ok := text(v)
	if !ok {
		return nil, fmt.Errorf("header %q is a %s: want a string or a list of strings", node.Clip(name, maxQuote), v.Kind())
	}
	if !validHeaderValue(s) {
		return nil, fmt.Errorf("header %q has control characters", node.Clip(name, maxQuote))
	}
	return append(list, s), nil
}

// text returns a string, number or boolean as text.
func text(v value.Value) (s string, ok bool) {
	switch v.Kind() {
	case value.KindString:
		return v.AsString()
	case value.KindBool, value.KindInt, value.KindUint, value.KindFloat:
		data, err := v.AppendJSON(nil)
		return string(data), err == nil
	}
	return "", false
}

// vary adds to the headers of requests that an answer depends on.
func vary(h http.Header, names []string) {
	if len(h["Vary"]) == 0 {
		h["Vary"] = names // shared: nothing may change it
		return
	}
	h["Vary"] = append(slices.Clip(h["Vary"]), names...)
}
