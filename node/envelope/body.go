package envelope

import (
	"fmt"
	"net/url"
	"unsafe"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// PlainBody returns the bytes of a body in the form of a media type, and the type of
// one without: [TypeText] or [TypeOctets]. ok is false for a value that is written as JSON. The bytes may belong
// to the value.
func PlainBody(m Media, v value.Value) (data []byte, detected string, ok bool, err error) {
	if s, isString := v.AsString(); isString {
		switch {
		case m.Kind == JSON:
			return nil, "", false, nil
		case m.Kind == PlainText && m.Charset != "":
			return fromUTF8(m.Charset, s), "", true, nil
		}
		return bytesOf(s), TypeText, true, nil
	}
	if b, isBinary := v.AsBinary(); isBinary {
		return b, TypeOctets, true, nil
	}
	switch {
	case m.Kind == Form && v.Kind() == value.KindMap:
		data, err = AppendForm(nil, "form field", v)
		return data, "", err == nil, err
	case m.Kind == PlainText && v.IsNull():
		return nil, "", true, nil
	}
	return nil, "", false, nil
}

// bytesOf returns the bytes of a string that will only be read.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// fromUTF8 encodes a text in a charset. Characters that the charset does not have
// become its replacement character.
func fromUTF8(charset, s string) []byte {
	if charset == "us-ascii" {
		return bytesOf(s)
	}
	e, err := htmlindex.Get(charset)
	if err != nil {
		return bytesOf(s) // the workflow has chosen an unknown charset: the body is its own
	}
	data, err := encoding.ReplaceUnsupported(e.NewEncoder()).Bytes(bytesOf(s))
	if err != nil {
		return bytesOf(s)
	}
	return data
}

// AppendForm appends a map of texts, or of lists of texts, in the encoding of forms and queries.
// Null adds nothing. what is what an entry is called by errors.
func AppendForm(dst []byte, what string, form value.Value) ([]byte, error) {
	add := func(name string, v value.Value) error {
		if v.IsNull() {
			return nil
		}
		s, ok := Text(v)
		if !ok {
			return fmt.Errorf("%s %q is a %s: want a string or a list of strings", what, node.Clip(name, MaxQuote), v.Kind())
		}
		if len(dst) > 0 {
			dst = append(dst, '&')
		}
		dst = append(append(append(dst, url.QueryEscape(name)...), '='), url.QueryEscape(s)...)
		return nil
	}
	for name, field := range form.Fields() {
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
	return dst, nil
}
