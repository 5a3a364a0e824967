// Package content reads what was received over HTTP: a body becomes a value by its
// Content-Encoding ([NewReader]) and its Content-Type ([Decode]), and headers and queries are
// views, which are built when they are read first ([View], [Query]). All memory is reserved
// before it is taken.
//
// The package must not know connections, nor who has sent what it reads.
package content

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// ErrBusy is wrapped by the errors of what may take no more memory: see [MaxHeld] and
// [node.Memory].
var ErrBusy = errors.New("no memory is left for bodies")

// Errorf returns an error that a malformed message causes. A client gets the reason, of
// which [envelope.MaxQuote] bytes are kept.
func Errorf(status int, format string, args ...any) *node.Error {
	return &node.Error{Err: errors.New(node.Clip(fmt.Sprintf(format, args...), envelope.MaxQuote)), Status: status, Public: true}
}

// MaxHeld returns how many bytes the bodies may take together that are being read, if one
// of them may be so long.
func MaxHeld(body int64) int64 { return max(256<<20, 32*body) }

// HasBody reports whether answers of a status have a body.
func HasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusResetContent && status != http.StatusNotModified
}

// firstRead is the buffer for a body, at most, before any of it has come, whatever
// length the client announces.
const firstRead = 64 << 10

// ReadAll reads to the end. length is the expected size, or -1 if unknown. More than
// limit bytes are the error [TooLarge]. reserve is called before memory is
// allocated, and may refuse it. What is reserved for the result is its capacity.
func ReadAll(r io.Reader, length int64, limit int, reserve func(bytes int) error) ([]byte, error) {
	size := 512
	if length >= 0 {
		size = int(min(length+1, firstRead)) // one more, to see the end without growing
	}
	if err := reserve(size); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, size)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return nil, TooLarge(limit)
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) {
			old := cap(buf)
			if err := reserve(2 * old); err != nil {
				return nil, err
			}
			buf = append(make([]byte, 0, 2*old), buf...)
			if err := reserve(-old); err != nil {
				return nil, err
			}
		}
	}
}

// TooLarge returns the error of a longer body, with status 413.
func TooLarge(limit int) error {
	return Errorf(http.StatusRequestEntityTooLarge, "body of more than %d bytes", limit)
}

// Decode makes a value of a body that was read and decompressed. It takes
// ownership of data, and returns the bytes for an answer that repeats the body.
// reserve is called before more memory is allocated.
func Decode(contentType string, data []byte, reserve func(bytes int) error) (v value.Value, raw []byte, err error) {
	m := envelope.ParseMedia(contentType)
	b := &budget{reserve: reserve}
	switch m.Kind {
	case envelope.NoMedia:
		if len(data) > 0 {
			v = value.Binary(data)
		}
	case envelope.JSON:
		if m.Charset == "" {
			data = bytes.TrimPrefix(data, []byte(byteOrderMark))
		}
		v, err = decodeJSON(m, data, b)
	case envelope.PlainText:
		v, err = decodeText(m, data, b)
	case envelope.Form:
		v, err = decodeForm(m, data, b)
	case envelope.Multipart:
		v, err = decodeMultipart(m, data, b)
	default:
		v = value.Binary(data)
	}
	return v, data, err
}

// A budget reserves the memory for the decoding of one body, in blocks.
type budget struct {
	reserve func(bytes int) error
	left    int
}

// budgetBlock is how many bytes a decoder reserves at a time, unless it needs more.
const budgetBlock = 16 << 10

func (b *budget) take(bytes int) error {
	if b.left -= bytes; b.left >= 0 {
		return nil
	}
	n := max(-b.left, budgetBlock)
	b.left += n
	return b.reserve(n)
}

const byteOrderMark = "\ufeff"

func decodeJSON(m envelope.Media, data []byte, b *budget) (value.Value, error) {
	text, err := toUTF8(m, data, b)
	if err != nil {
		return value.Value{}, err
	}
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if len(text) == 0 {
		return value.Null(), nil
	}
	v, err := value.ParseJSONWith(text, value.JSONOptions{Reserve: b.reserve})
	if errors.Is(err, ErrBusy) {
		return value.Value{}, err
	}
	if err != nil {
		return value.Value{}, Errorf(http.StatusBadRequest, "body: %v", err)
	}
	return v, nil
}

func decodeText(m envelope.Media, data []byte, b *budget) (value.Value, error) {
	text, err := toUTF8(m, data, b)
	if err != nil {
		return value.Value{}, err
	}
	return value.String(unsafe.String(unsafe.SliceData(text), len(text))), nil // data is owned here and is not written to any more
}

// toUTF8 returns a text in the charset of a media type as UTF-8.
func toUTF8(m envelope.Media, data []byte, b *budget) ([]byte, error) {
	if m.Charset == "" || m.Charset == "us-ascii" {
		if !utf8.Valid(data) {
			return nil, Errorf(http.StatusBadRequest, "body: text is not valid UTF-8")
		}
		return data, nil
	}
	charset, err := htmlindex.Get(m.Charset)
	if err != nil {
		return nil, Errorf(http.StatusUnsupportedMediaType, "body: unknown charset %q", node.Clip(m.Charset, 40))
	}
	if err := b.take(4 * len(data)); err != nil { // a byte becomes at most three, and the buffer doubles
		return nil, err
	}
	text, err := charset.NewDecoder().Bytes(data)
	if err != nil {
		return nil, Errorf(http.StatusBadRequest, "body: text is not valid %s", node.Clip(m.Charset, 40))
	}
	return text, nil
}

func decodeForm(m envelope.Media, data []byte, b *budget) (value.Value, error) {
	text, err := toUTF8(m, data, b)
	if err != nil {
		return value.Value{}, err
	}
	if err := b.take(len(text)); err != nil {
		return value.Value{}, err
	}
	var g grouping
	for part := range strings.SplitSeq(string(text), "&") {
		if part == "" {
			continue
		}
		if err := b.take(fieldBytes + len(part)); err != nil {
			return value.Value{}, err
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

// fieldBytes is what a field of a form or a header costs in addition to its text: an
// index entry, a name, and a list of one value, all of which grow by doubling.
const fieldBytes = 400

func unescapeField(s string) (string, error) {
	text, err := url.QueryUnescape(s)
	if err != nil {
		return "", Errorf(http.StatusBadRequest, "body: form: %v", err)
	}
	if !utf8.ValidString(text) {
		return "", Errorf(http.StatusBadRequest, "body: form: text is not valid UTF-8")
	}
	return text, nil
}

// maxParts is how many parts a multipart body may have. A part of a few bytes costs
// hundreds of bytes of memory.
const maxParts = 1000

func decodeMultipart(m envelope.Media, data []byte, b *budget) (value.Value, error) {
	if m.Boundary == "" {
		return value.Value{}, Errorf(http.StatusBadRequest, "body: multipart without a boundary")
	}
	var values, files grouping
	r := multipart.NewReader(bytes.NewReader(data), m.Boundary)
	for n := 0; ; n++ {
		part, err := r.NextPart()
		if err == io.EOF && bytes.Contains(data, []byte("--"+m.Boundary+"--")) { // also for a header that is cut off
			break
		}
		if err != nil {
			return value.Value{}, Errorf(http.StatusBadRequest, "body: multipart: %v", err)
		}
		if n == maxParts {
			return value.Value{}, Errorf(http.StatusRequestEntityTooLarge, "body: multipart: more than %d parts", maxParts)
		}
		name := part.FormName()
		if name == "" {
			return value.Value{}, Errorf(http.StatusBadRequest, "body: multipart: part %d has no name", n+1)
		}
		if err := b.take(headerBytes(part.Header)); err != nil {
			return value.Value{}, err
		}
		content, err := ReadAll(part, -1, len(data), b.take)
		if errors.Is(err, ErrBusy) {
			return value.Value{}, err
		}
		if err != nil {
			return value.Value{}, Errorf(http.StatusBadRequest, "body: multipart: %v", err)
		}
		filename, isFile := part.FileName(), isFile(part)
		v, err := decodePart(part.Header.Get("Content-Type"), isFile, content, b)
		if err != nil {
			return value.Value{}, err
		}
		if !isFile {
			values.add(name, v)
			continue
		}
		files.add(name, value.Map(
			value.Field{Name: "filename", Value: value.String(strings.ToValidUTF8(filename, "\ufffd"))},
			value.Field{Name: envelope.KeyHeader, Value: value.UniqueMap(HeaderFields(http.Header(part.Header)))},
			value.Field{Name: "size", Value: value.Int(int64(len(content)))},
			value.Field{Name: "data", Value: v},
		))
	}
	return value.Map(
		value.Field{Name: "values", Value: values.value()},
		value.Field{Name: "files", Value: files.value()},
	), nil
}

// headerBytes estimates the memory of a part's header, as a header and as a value.
func headerBytes(header textproto.MIMEHeader) int {
	n := 0
	for name, list := range header {
		n += fieldBytes + 2*len(name)
		for _, v := range list {
			n += 100 + 2*len(v)
		}
	}
	return n
}

// isFile reports whether a part is an upload. Its name may be empty: a form sends
// that if no file was chosen.
func isFile(part *multipart.Part) bool {
	return part.FileName() != "" || strings.Contains(part.Header.Get("Content-Disposition"), "filename=")
}

// decodePart makes a value of a part: a string of text, the value of JSON, a binary
// of anything else. Without a type, a field is text and a file is binary.
func decodePart(contentType string, file bool, content []byte, b *budget) (value.Value, error) {
	m := envelope.ParseMedia(contentType)
	switch {
	case m.Kind == envelope.JSON:
		return decodeJSON(m, content, b)
	case m.Kind == envelope.PlainText || m.Kind == envelope.NoMedia && !file:
		return decodeText(m, content, b)
	}
	return value.Binary(content), nil
}
