package serve

import (
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A coding is how a file next to another one is compressed.
type coding struct{ name, extension string }

var codings = map[string]coding{
	"br":   {"br", ".br"},
	"zstd": {"zstd", ".zst"},
	"gzip": {"gzip", ".gz"},
}

// A fileAnswer is the answer to a request: a file, or where a folder is.
type fileAnswer struct {
	redirect string // to a folder; empty for a file
	file     file   // nil for a folder
	size     int64
	modified time.Time
	header   [6]headerField
	headers  int
}

type headerField struct {
	name   string
	values []string
}

func (a *fileAnswer) set(name string, values []string) {
	a.header[a.headers] = headerField{name, values}
	a.headers++
}

// Values that many answers share. net/http does not change them.
var (
	varyCoding     = []string{"Accept-Encoding"}
	cacheImmutable = []string{"public, max-age=31536000, immutable"}
)

// answer makes the answer of an open file, which it owns.
func (n *static) answer(r *http.Request, name string, f file, info fs.FileInfo) (*fileAnswer, error) {
	a := &fileAnswer{file: f, size: info.Size(), modified: info.ModTime()}
	contentType := typeOf(name)
	a.set("Content-Type", contentType)
	suffix := ""
	if len(n.codings) > 0 && compressible(contentType[0]) {
		a.set("Vary", varyCoding)
		smaller, c, err := n.compressed(r.Header["Accept-Encoding"], name, a.modified)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if smaller != nil {
			a.set("Content-Encoding", []string{c.name})
			suffix = "-" + c.name
			info, err = smaller.Stat()
			if err := errors.Join(err, f.Close()); err != nil {
				return nil, errors.Join(err, smaller.Close())
			}
			a.file, a.size = smaller, info.Size()
		}
	}
	a.set("Etag", []string{tag(info, suffix)})
	switch {
	case n.keeps(name):
		a.set("Cache-Control", cacheImmutable)
	case n.cache != nil:
		a.set("Cache-Control", n.cache)
	}
	return a, nil
}

// tag returns the ETag of a file. It is weak if the file has changed lately: see strong.
func tag(info fs.FileInfo, suffix string) string {
	b := make([]byte, 0, 48)
	if time.Since(info.ModTime()) < strong {
		b = append(b, "W/"...)
	}
	b = append(b, '"')
	b = strconv.AppendInt(b, info.Size(), 36)
	b = append(b, '-')
	b = strconv.AppendInt(b, info.ModTime().UnixNano(), 36)
	b = append(b, suffix...)
	return string(append(b, '"'))
}

// keeps reports whether a file never changes under its name.
func (n *static) keeps(name string) bool {
	return slices.ContainsFunc(n.immutable, func(pattern string) bool {
		of := name
		if !strings.Contains(pattern, "/") {
			of = path.Base(name)
		}
		ok, err := path.Match(pattern, of)
		return ok && err == nil
	})
}

// compressed opens the file next to another one that a client prefers; nil if there is
// none. One that is older than the file by more than strong was made of an earlier one.
func (n *static) compressed(accept []string, name string, modified time.Time) (file, coding, error) {
	if len(accept) == 0 {
		return nil, coding{}, nil
	}
	var order [3]weighted
	for _, c := range accepted(order[:0], accept, n.codings) {
		f, info, err := n.stat(name + c.extension)
		switch {
		case errors.Is(err, errNotFound) || errors.Is(err, fs.ErrPermission):
			continue
		case err != nil:
			return nil, coding{}, err
		case info.Mode().IsRegular() && info.ModTime().After(modified.Add(-strong)):
			return f, c.coding, nil
		}
		if err := f.Close(); err != nil {
			return nil, coding{}, err
		}
	}
	return nil, coding{}, nil
}

type weighted struct {
	coding
	weight float64
}

// accepted appends those codings to list that a client accepts, what it likes best first.
func accepted(list []weighted, accept []string, offered []coding) []weighted {
	for _, c := range offered {
		weight, any := -1.0, 0.0
		for _, line := range accept {
			for part := range strings.SplitSeq(line, ",") {
				name, params, _ := strings.Cut(part, ";")
				switch name = strings.TrimSpace(name); {
				case strings.EqualFold(name, c.name) || c.name == "gzip" && strings.EqualFold(name, "x-gzip"):
					weight = max(weight, quality(params))
				case name == "*":
					any = quality(params)
				}
			}
		}
		if weight < 0 {
			weight = any
		}
		if weight > 0 {
			list = append(list, weighted{c, weight})
		}
	}
	slices.SortStableFunc(list, func(a, b weighted) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return 0
	})
	return list
}

// quality returns the weight among the parameters of a coding: 1 without one, 0 if it is
// not a number from 0 to 1.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, text, ok := strings.Cut(strings.TrimSpace(param), "=")
		if !ok || !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}

// Close closes the file of an answer that is not sent.
func (a *fileAnswer) Close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// ServeHTTP sends the answer. What conditions and ranges mean is up to net/http.
func (a *fileAnswer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if a.redirect != "" {
		h["Location"] = []string{a.redirect}
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	defer a.file.Close() //nolint:errcheck // it was only read
	for _, f := range a.header[:a.headers] {
		h[f.name] = f.values
	}
	if conditional(r) {
		http.ServeContent(&sizedWriter{w, a.size}, r, "", a.modified, a.file)
		return
	}
	h["Accept-Ranges"] = acceptRanges
	h["Last-Modified"] = []string{a.modified.UTC().Format(http.TimeFormat)}
	h["Content-Length"] = []string{strconv.FormatInt(a.size, 10)}
	w.WriteHeader(http.StatusOK)
	a.send(w)
}

var acceptRanges = []string{"bytes"}

// conditional reports whether a request is about more than the whole file.
func conditional(r *http.Request) bool {
	if r.Method != http.MethodGet {
		return true
	}
	for _, name := range [...]string{"Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since"} {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// A large file is read in pieces of largeBytes, which took 267 µs of CPU for 1 MiB where 64
// KiB took 354. A slow client holds its piece, so only that many answers have a large one.
const (
	smallBytes = 32 << 10
	largeBytes = 256 << 10
	maxLarge   = 64
)

var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBytes]byte) }}
	largeBuffers = sync.Pool{New: func() any { return new([largeBytes]byte) }}
	large        atomic.Int32
)

// withBuffer calls f with memory for a piece of a file of that size.
func withBuffer(size int64, f func([]byte)) {
	if size > smallBytes {
		defer large.Add(-1)
		if large.Add(1) <= maxLarge {
			b := largeBuffers.Get().(*[largeBytes]byte)
			defer largeBuffers.Put(b)
			f(b[:])
			return
		}
	}
	b := smallBuffers.Get().(*[smallBytes]byte)
	defer smallBuffers.Put(b)
	f(b[:])
}

// send sends the file. If it has become shorter, or cannot be read, net/http breaks the
// connection off, as the length has been sent.
func (a *fileAnswer) send(w io.Writer) {
	withBuffer(a.size, func(buffer []byte) {
		for left := a.size; left > 0; {
			n, err := a.file.Read(buffer[:min(left, int64(len(buffer)))])
			left -= int64(n)
			if n > 0 {
				if _, err := w.Write(buffer[:n]); err != nil {
					return // the client has left
				}
			}
			if err != nil {
				return
			}
		}
	})
}

// A sizedWriter adds the length of a whole file, which net/http leaves out if the file is
// compressed.
type sizedWriter struct {
	http.ResponseWriter
	size int64
}

func (w *sizedWriter) WriteHeader(status int) {
	if h := w.Header(); status == http.StatusOK && len(h["Content-Length"]) == 0 {
		h["Content-Length"] = []string{strconv.FormatInt(w.size, 10)}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (w *sizedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// typeOf returns the media type of a file, by its extension alone: what the bytes look like
// would let an uploaded text become a page.
func typeOf(name string) []string {
	extension := path.Ext(name)
	if t, ok := types[extension]; ok {
		return t
	}
	if t := mime.TypeByExtension(extension); t != "" {
		return []string{t}
	}
	return typeBytes
}

var typeBytes = []string{"application/octet-stream"}

// types are those that pages need, whatever the tables of the machine say.
var types = map[string][]string{
	".avif": {"image/avif"}, ".css": {"text/css; charset=utf-8"}, ".csv": {"text/csv; charset=utf-8"},
	".gif": {"image/gif"}, ".htm": {"text/html; charset=utf-8"}, ".html": {"text/html; charset=utf-8"}, ".ico": {"image/x-icon"},
	".jpeg": {"image/jpeg"}, ".jpg": {"image/jpeg"}, ".js": {"text/javascript; charset=utf-8"}, ".json": {"application/json"},
	".map": {"application/json"}, ".md": {"text/markdown; charset=utf-8"}, ".mjs": {"text/javascript; charset=utf-8"}, ".mp3": {"audio/mpeg"},
	".mp4": {"video/mp4"}, ".otf": {"font/otf"}, ".pdf": {"application/pdf"}, ".png": {"image/png"}, ".svg": {"image/svg+xml"},
	".ttf": {"font/ttf"}, ".txt": {"text/plain; charset=utf-8"}, ".wasm": {"application/wasm"}, ".webm": {"video/webm"},
	".webmanifest": {"application/manifest+json"}, ".webp": {"image/webp"}, ".woff": {"font/woff"}, ".woff2": {"font/woff2"},
	".xml": {"application/xml"}, ".yaml": {"application/yaml"}, ".yml": {"application/yaml"}, ".zip": {"application/zip"},
}

// compressible reports whether files of a type become smaller.
func compressible(mediaType string) bool {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	switch class, rest, _ := strings.Cut(mediaType, "/"); class {
	case "text":
		return true
	case "image":
		return rest == "svg+xml" || rest == "x-icon"
	case "font":
		return rest == "ttf" || rest == "otf"
	case "application":
		return rest != "zip" && rest != "octet-stream" && rest != "pdf"
	}
	return false
}

// staticOpenAPI describes the answers of a node.
func staticOpenAPI(schema.Config) value.Value {
	described := func(text string) value.Value {
		return value.Map(value.Field{Name: "description", Value: value.String(text)})
	}
	return value.Map(value.Field{Name: "responses", Value: value.Map(
		value.Field{Name: "200", Value: value.Map(
			value.Field{Name: "description", Value: value.String("A file.")},
			value.Field{Name: "content", Value: value.Map(value.Field{Name: "*/*", Value: value.Map()})},
		)},
		value.Field{Name: "206", Value: value.Map(
			value.Field{Name: "description", Value: value.String("Ranges of a file.")},
			value.Field{Name: "content", Value: value.Map(value.Field{Name: "*/*", Value: value.Map()})},
		)},
		value.Field{Name: "301", Value: described("The path of a folder ends with a slash.")},
		value.Field{Name: "304", Value: described("The client has the file.")},
		value.Field{Name: "403", Value: described("The file cannot be read.")},
		value.Field{Name: "404", Value: described("There is no such file.")},
		value.Field{Name: "412", Value: described("The file is not that of the request.")},
		value.Field{Name: "416", Value: described("The file has no such range.")},
	)})
}
