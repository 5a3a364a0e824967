package grpc

import (
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// setMetadata adds a map of text, lists of text, or with -bin bytes.
func setMetadata(h http.Header, v value.Value) error {
	if v.Kind() != value.KindMap {
		return fmt.Errorf("want a map of text, got %s", v.Kind())
	}
	for name, field := range v.Fields() {
		if !envelope.ValidToken(name) || isProtocolHeader(name) {
			return fmt.Errorf("%.100q is not a key that can be sent", name)
		}
		elems := []value.Value{field}
		if field.Kind() == value.KindList {
			elems = elems[:0]
			for _, elem := range field.Elems() {
				elems = append(elems, elem)
			}
		}
		h.Del(name)
		for _, elem := range elems {
			if elem.IsNull() {
				continue
			}
			text, ok := envelope.Text(elem)
			if b, binary := elem.AsBinary(); binary {
				text, ok = string(b), isBinaryKey(name)
			}
			if isBinaryKey(name) {
				text = connect.EncodeBinaryHeader([]byte(text))
			}
			if !ok || !envelope.ValidHeaderValue(text) {
				return fmt.Errorf("%s: want text of ASCII, or a key that ends with -bin", name)
			}
			h.Add(name, text)
		}
	}
	return nil
}

func isBinaryKey(name string) bool {
	return len(name) > 4 && strings.EqualFold(name[len(name)-4:], "-bin")
}

// isProtocolHeader reports whether a header is up to the protocol or the connection.
func isProtocolHeader(name string) bool {
	key := http.CanonicalHeaderKey(name)
	switch key {
	case "Content-Type", "Content-Encoding", "Accept-Encoding", "Te", "Trailer", "Host":
		return true
	}
	return strings.HasPrefix(key, "Grpc-") || strings.HasPrefix(key, "Connect-") || envelope.ServerHeader(key)
}

// metadataOf returns metadata as a map of lists.
func metadataOf(h http.Header) value.Value {
	var b value.MapBuilder
	for name, list := range h {
		if isProtocolHeader(name) || strings.HasPrefix(name, "Trailer-") {
			continue
		}
		elems := make([]value.Value, 0, len(list))
		for _, text := range list {
			v := value.String(content.Text(text))
			if isBinaryKey(name) {
				if data, err := connect.DecodeBinaryHeader(text); err == nil {
					v = value.Binary(data)
				}
			}
			elems = append(elems, v)
		}
		b.Set(strings.ToLower(name), value.List(elems...))
	}
	return b.Build()
}
