package web

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/node/accept"
	"github.com/uniflow-labs/uniflow/node/content"
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

// encoders keeps compressors that are not in use, as making one allocates up to a
// megabyte.
type encoders struct{ gzip, deflate, br, zstd sync.Pool }

// compress appends the compressed body to dst.
func (e *encoders) compress(dst *bytes.Buffer, level int, coding string, body []byte) error {
	pool, c, err := e.take(coding, level)
	if err != nil {
		return err
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

func (e *encoders) take(coding string, level int) (*sync.Pool, compressor, error) {
	switch coding {
	case "gzip":
		if c, ok := e.gzip.Get().(compressor); ok {
			return &e.gzip, c, nil
		}
		c, err := gzip.NewWriterLevel(nil, flateLevels[level])
		return &e.gzip, c, err
	case "deflate":
		if c, ok := e.deflate.Get().(compressor); ok {
			return &e.deflate, c, nil
		}
		c, err := zlib.NewWriterLevel(nil, flateLevels[level])
		return &e.deflate, c, err
	case "br":
		if c, ok := e.br.Get().(compressor); ok {
			return &e.br, c, nil
		}
		return &e.br, brotli.NewWriterLevel(nil, brLevels[level]), nil
	case "zstd":
		if c, ok := e.zstd.Get().(compressor); ok {
			return &e.zstd, c, nil
		}
		c, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstdLevels[level]), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1<<20))
		return &e.zstd, c, err
	}
	return nil, nil, fmt.Errorf("%w %q", content.ErrUnknownCoding, coding)
}
