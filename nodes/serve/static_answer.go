package serve

import (
	"errors"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

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

// strong is how long a file must not have changed for its ETag to be strong: two changes
// within a tick of the file system's clock, which may be 2 s, have the same time.
const strong = 2 * time.Second

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
