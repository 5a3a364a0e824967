package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// badBody is a failure to make a value of a body. Its reason is the client's to
// know.
func badBody(status int, format string, args ...any) *node.Error {
	return &node.Error{Err: fmt.Errorf(format, args...), Status: status, Public: true}
}

// firstRead is how much room is made for a body before any of it has come,
// whatever length the client promises.
const firstRead = 64 << 10

// readAll reads to the end. length is how much is expected, -1 if unknown. More
// than limit bytes are an error with status 413. reserve is told of the memory
// before it is taken, and may refuse it.
func readAll(r io.Reader, length int64, limit int, reserve func(bytes int) error) ([]byte, error) {
	size := 512
	if length >= 0 {
		size = int(min(length+1, firstRead)) // one more to see the end without growing
	}
	if err := reserve(size); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, size)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return nil, tooLarge(limit)
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) {
			if err := reserve(cap(buf)); err != nil {
				return nil, err
			}
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
	}
}

func tooLarge(limit int) error {
	return badBody(http.StatusRequestEntityTooLarge, "body of more than %d bytes", limit)
}

// decodeBody makes a value of a body that has been read and decompressed. It
// takes ownership of data.
func decodeBody(contentType string, data []byte) (value.Value, error) {
	m := parseMedia(contentType)
	switch m.kind {
	case mediaNone:
		if len(data) == 0 {
			return value.Null(), nil
		}
		return value.Binary(data), nil
	case mediaJSON:
		return decodeJSON(m, data)
	case mediaText:
		return decodeText(m, data)
	case mediaForm:
		return decodeForm(m, data)
	case mediaParts:
		return decodeParts(m, data)
	}
	return value.Binary(data), nil
}

func decodeJSON(m media, data []byte) (value.Value, error) {
	text, err := toUTF8(m, data)
	if err != nil {
		return value.Value{}, err
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if len(text) == 0 {
		return value.Null(), nil
	}
	v, err := parseJSON(text)
	if err != nil {
		return value.Value{}, badBody(http.StatusBadRequest, "body: %w", err)
	}
	return v, nil
}

func decodeText(m media, data []byte) (value.Value, error) {
	text, err := toUTF8(m, data)
	if err != nil {
		return value.Value{}, err
	}
	return value.String(unsafe.String(unsafe.SliceData(text), len(text))), nil // data is ours, and nobody writes to it any more
}

// toUTF8 returns a text in the charset of a media type as UTF-8.
func toUTF8(m media, data []byte) ([]byte, error) {
	if m.charset == "" || m.charset == "us-ascii" {
		if !utf8.Valid(data) {
			return nil, badBody(http.StatusBadRequest, "body: text is not valid UTF-8")
		}
		return data, nil
	}
	charset, err := htmlindex.Get(m.charset)
	if err != nil {
		return nil, badBody(http.StatusUnsupportedMediaType, "body: unknown charset %q", m.charset)
	}
	text, err := charset.NewDecoder().Bytes(data)
	if err != nil {
		return nil, badBody(http.StatusBadRequest, "body: text is not valid %s", m.charset)
	}
	return text, nil
}

func decodeForm(m media, data []byte) (value.Value, error) {
	text, err := toUTF8(m, data)
	if err != nil {
		return value.Value{}, err
	}
	var g grouping
	for part := range strings.SplitSeq(string(text), "&") {
		if part == "" {
			continue
		}
		name, field, _ := strings.Cut(part, "=")
		name, err := unescapeField(name)
		if err != nil {
			return value.Value{}, err
		}
		if field, err = unescapeField(field); err != nil {
			return value.Value{}, err
		}
		g.add(name, value.String(field))
	}
	return g.value(), nil
}

func unescapeField(s string) (string, error) {
	text, err := url.QueryUnescape(s)
	if err != nil {
		return "", badBody(http.StatusBadRequest, "body: form: %w", err)
	}
	if !utf8.ValidString(text) {
		return "", badBody(http.StatusBadRequest, "body: form: text is not valid UTF-8")
	}
	return text, nil
}

// maxParts is how many parts a multipart body may have: a part of a few bytes
// costs hundreds.
const maxParts = 1000

func decodeParts(m media, data []byte) (value.Value, error) {
	if m.boundary == "" {
		return value.Value{}, badBody(http.StatusBadRequest, "body: multipart without a boundary")
	}
	var values, files grouping
	r := multipart.NewReader(bytes.NewReader(data), m.boundary)
	for n := 0; ; n++ {
		part, err := r.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return value.Value{}, badBody(http.StatusBadRequest, "body: multipart: %w", err)
		}
		if n == maxParts {
			return value.Value{}, badBody(http.StatusRequestEntityTooLarge, "body: multipart: more than %d parts", maxParts)
		}
		name := part.FormName()
		if name == "" {
			return value.Value{}, badBody(http.StatusBadRequest, "body: multipart: part %d has no name", n+1)
		}
		content, err := io.ReadAll(part) // no longer than data
		if err != nil {
			return value.Value{}, badBody(http.StatusBadRequest, "body: multipart: %w", err)
		}
		filename, isFile := part.FileName(), isFile(part)
		v, err := decodePart(part.Header.Get("Content-Type"), isFile, content)
		if err != nil {
			return value.Value{}, err
		}
		if !isFile {
			values.add(name, v)
			continue
		}
		header := headerView{header: http.Header(part.Header)}
		files.add(name, value.Map(
			value.Field{Name: "filename", Value: value.String(strings.ToValidUTF8(filename, "\ufffd"))},
			value.Field{Name: keyHeader, Value: value.UniqueMap(header.Fields())},
			value.Field{Name: "size", Value: value.Int(int64(len(content)))},
			value.Field{Name: "data", Value: v},
		))
	}
	return value.Map(
		value.Field{Name: "values", Value: values.value()},
		value.Field{Name: "files", Value: files.value()},
	), nil
}

// isFile reports whether a part is an upload, one with an empty name included,
// which is what a form sends whose file was not chosen.
func isFile(part *multipart.Part) bool {
	return part.FileName() != "" || strings.Contains(part.Header.Get("Content-Disposition"), "filename=")
}

// decodePart makes a value of a part: of text a string, of JSON what it says, of
// anything else a binary. Without a type a field is text, and a file is not.
func decodePart(contentType string, file bool, content []byte) (value.Value, error) {
	m := parseMedia(contentType)
	switch {
	case m.kind == mediaJSON:
		return decodeJSON(m, content)
	case m.kind == mediaText || m.kind == mediaNone && !file:
		return decodeText(m, content)
	}
	return value.Binary(content), nil
}

// describeRead returns what to say about a body that could not be read.
func describeRead(err error) error {
	var known *node.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, errUnknownCoding):
		return badBody(http.StatusUnsupportedMediaType, "body: %w", err)
	case errors.Is(err, errSlowBody):
		return badBody(http.StatusRequestTimeout, "%w", errSlowBody)
	}
	return badBody(http.StatusBadRequest, "body: %w", err)
}
