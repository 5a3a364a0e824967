package envelope

import (
	"fmt"
	"net/http"
	"net/textproto"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// ServerHeader reports whether a workflow cannot set a header, because it is about
// the connection or about the encoded body.
func ServerHeader(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// SetHeaders sets headers that a workflow has given, names in any case, except for
// those that skip reports. It returns the Content-Type among them.
func SetHeaders(h http.Header, header value.Value, skip func(name string) bool) (contentType string, err error) {
	switch header.Kind() {
	case value.KindNull:
		return "", nil
	case value.KindMap:
	default:
		return "", fmt.Errorf("header is a %s: want a map", header.Kind())
	}
	for name, v := range header.Fields() {
		if !ValidToken(name) {
			return "", fmt.Errorf("%q is not a valid header name", node.Clip(name, MaxQuote))
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
				return nil, fmt.Errorf("header %q has a list within its list", node.Clip(name, MaxQuote))
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
	s, ok := Text(v)
	if !ok {
		return nil, fmt.Errorf("header %q is a %s: want a string or a list of strings", node.Clip(name, MaxQuote), v.Kind())
	}
	if !ValidHeaderValue(s) {
		return nil, fmt.Errorf("header %q has control characters", node.Clip(name, MaxQuote))
	}
	return append(list, s), nil
}

// Text returns a string, number or boolean as text.
func Text(v value.Value) (s string, ok bool) {
	switch v.Kind() {
	case value.KindString:
		return v.AsString()
	case value.KindBool, value.KindInt, value.KindUint, value.KindFloat:
		data, err := v.AppendJSON(nil)
		return string(data), err == nil
	}
	return "", false
}
