package answer

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/accept"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/schema"
)

// codingOrder is how answers are compressed, best ratio of gain to cost first.
var codingOrder = [...]string{"zstd", "br", "gzip", "deflate"}

// chooseCoding returns what to compress an answer with, or "" for nothing.
func chooseCoding(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	best, most := "", 0
	for _, name := range codingOrder {
		if weight := accept.Coding(lines, name); weight > most {
			best, most = name, weight
		}
	}
	if identity, ok := accept.Named(lines, "identity"); ok && identity > most {
		return ""
	}
	return best
}

// A compressor is a writer of one coding that can be used again.
type compressor interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// compressors keeps those that are not in use, as making one allocates up to a
// megabyte.
type compressors [len(codingOrder)]sync.Pool // of compressor, in the order of codingOrder

// compress appends the compressed body to dst.
func (e *compressors) compress(dst *bytes.Buffer, level int, coding string, body []byte) (err error) {
	pool := &e[slices.Index(codingOrder[:], coding)]
	c, ok := pool.Get().(compressor)
	if !ok {
		if c, err = newCompressor(coding, level); err != nil {
			return err
		}
	}
	c.Reset(dst)
	if _, err := c.Write(body); err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	pool.Put(c)
	return nil
}

// The levels of each coding: fast, default and best.
var (
	flateLevels = [...]int{gzip.BestSpeed, gzip.DefaultCompression, gzip.BestCompression}
	brLevels    = [...]int{1, 4, 9} // 4 is as fast as gzip's default, and smaller
	zstdLevels  = [...]zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedBetterCompression}
)

func newCompressor(coding string, level int) (compressor, error) {
	switch coding {
	case "gzip":
		return gzip.NewWriterLevel(nil, flateLevels[level])
	case "deflate":
		return zlib.NewWriterLevel(nil, flateLevels[level])
	case "br":
		return brotli.NewWriterLevel(nil, brLevels[level]), nil
	}
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstdLevels[level]), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
}

// A compression says which answers are compressed.
type compression struct {
	minBytes int
	types    []string // lower case; type/* is all of a type. nil is the ones that get smaller
	level    int      // index of the settings of each coding, or levelNone
}

const levelNone = -1

func newCompression(c schema.Config) (compression, error) {
	levels := map[string]int{"none": levelNone, "fast": 0, "default": 1, "best": 2}
	m := compression{minBytes: int(c.Int("min_bytes")), level: levels[c.String("level")]}
	for _, text := range c.Strings("types") {
		major, minor, ok := strings.Cut(strings.ToLower(text), "/")
		if !ok || !envelope.ValidToken(major) || !envelope.ValidToken(minor) {
			return m, c.Errorf("types", diag.CodeBadValue, "%q is not a media type", text).WithHint("write one such as application/json or text/*")
		}
		m.types = append(m.types, major+"/"+minor)
	}
	return m, nil
}

// admits reports whether bodies of a media type are compressed.
func (m *compression) admits(contentType string) bool {
	if m.types == nil {
		return compressible(contentType)
	}
	name, _, _ := strings.Cut(contentType, ";")
	name = strings.ToLower(strings.TrimSpace(name))
	for _, pattern := range m.types {
		major, all := strings.CutSuffix(pattern, "*")
		if name == pattern || all && (major == "*/" || strings.HasPrefix(name, major)) {
			return true
		}
	}
	return false
}

// compressible reports whether compression makes bodies of a media type smaller.
func compressible(contentType string) bool {
	name, _, _ := strings.Cut(contentType, ";")
	name = strings.ToLower(strings.TrimSpace(name))
	if strings.HasPrefix(name, "text/") || strings.HasSuffix(name, "+json") || strings.HasSuffix(name, "+xml") {
		return true
	}
	switch name {
	case envelope.TypeJSON, "application/javascript", "application/xml", "application/wasm", "application/x-ndjson",
		"application/yaml", "application/x-yaml", "application/toml", envelope.TypeForm, "application/graphql":
		return true
	}
	return false
}

// coding returns what to compress an answer with, or "".
func (m *compression) coding(h http.Header, r *http.Request) string {
	if m.level == levelNone || len(h["Content-Encoding"]) > 0 || len(h["Content-Range"]) > 0 || strings.Contains(h.Get("Cache-Control"), "no-transform") {
		return ""
	}
	if contentType := h["Content-Type"]; len(contentType) == 0 || !m.admits(contentType[0]) {
		return ""
	}
	Vary(h, varyEncoding)
	return chooseCoding(r.Header["Accept-Encoding"])
}

// Compress compresses the body, if the settings say so and the client accepts it. A body that
// cannot be compressed stays as it is.
func (e *Encoder) Compress(a *Answer, h http.Header, r *http.Request, s *Settings, log *slog.Logger) {
	if len(a.Body) < s.compression.minBytes || len(a.Body) == 0 {
		return
	}
	coding := s.compression.coding(h, r)
	if coding == "" {
		return
	}
	buf, level := e.buffer(), s.compression.level
	if err := e.compressors[level].compress(buf, level, coding, a.Body); err != nil {
		log.Warn("answer sent without compression", "coding", coding, "error", err)
		e.recycle(buf)
		return
	}
	e.Discard(a)
	a.Body, a.buf = buf.Bytes(), buf
	h["Content-Encoding"] = []string{coding}
	if etag := h.Get("Etag"); strings.HasPrefix(etag, `"`) {
		h.Set("Etag", "W/"+etag) // weak: the bytes differ
	}
}
