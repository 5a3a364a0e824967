package web

import (
	"bytes"
	"fmt"
	"net/url"
	"unsafe"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// plainBody returns the bytes of a body in the form of a media type, and the type of
// one without. ok is false for a value that is written as JSON. The bytes may be those
// of the value.
func plainBody(m media, v value.Value) (data []byte, detected []string, ok bool, err error) {
	if s, isString := v.AsString(); isString {
		switch {
		case m.kind == mediaJSON:
			return nil, nil, false, nil
		case m.kind == mediaText && m.charset != "":
			return fromUTF8(m.charset, s), nil, true, nil
		}
		return stringBytes(s), headerText, true, nil
	}
	if b, isBinary := v.AsBinary(); isBinary {
		return b, headerOctets, true, nil
	}
	switch {
	case m.kind == mediaForm && v.Kind() == value.KindMap:
		data, err = encodeForm(v)
		return data, nil, err == nil, err
	case m.kind == mediaText && v.IsNull():
		return nil, nil, true, nil
	}
	return nil, nil, false, nil
}

// keepArray makes buf keep the array of data for the next use.
func keepArray(buf *bytes.Buffer, data []byte) []byte {
	*buf = *bytes.NewBuffer(data)
	return data
}

// stringBytes returns the bytes of a string that will only be read.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// fromUTF8 encodes a text in a charset. Characters that the charset does not have
// become its replacement character.
func fromUTF8(charset, s string) []byte {
	if charset == "us-ascii" {
		return stringBytes(s)
	}
	e, err := htmlindex.Get(charset)
	if err != nil {
		return stringBytes(s) // the workflow has chosen an unknown charset: the body is its own
	}
	data, err := encoding.ReplaceUnsupported(e.NewEncoder()).Bytes(stringBytes(s))
	if err != nil {
		return stringBytes(s)
	}
	return data
}

// encodeForm writes a map as a form.
func encodeForm(v value.Value) ([]byte, error) {
	var out []byte
	add := func(name string, v value.Value) error {
		s, ok := text(v)
		if !ok {
			return fmt.Errorf("form field %q is a %s: want a string or a list of strings", node.Clip(name, maxQuote), v.Kind())
		}
		if len(out) > 0 {
			out = append(out, '&')
		}
		out = append(append(append(out, url.QueryEscape(name)...), '='), url.QueryEscape(s)...)
		return nil
	}
	for name, field := range v.Fields() {
		if field.Kind() != value.KindList {
			if err := add(name, field); err != nil {
				return nil, err
			}
			continue
		}
		for _, elem := range field.Elems() {
			if err := add(name, elem); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
