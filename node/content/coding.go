package content

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/node"
)

// ErrUnknownCoding is wrapped by the error of an unknown Content-Encoding.
var ErrUnknownCoding = errors.New("unknown content encoding")

// maxCodings is how many codings of one body are decoded. Even two are never needed,
// and each multiplies what a small body can expand to.
const maxCodings = 3

// maxWindow bounds the window, in bytes, of a zstd body.
const maxWindow = 8 << 20

// NewReader returns a reader that decodes r, given the Content-Encoding
// headers. reserve is called for the memory of its decoders, which Close frees. Close
// does not close r.
func NewReader(r io.Reader, encodings []string, reserve func(bytes int) error) (io.ReadCloser, error) {
	var codings []string
	for _, header := range encodings {
		for name := range strings.SplitSeq(header, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if name != "" && name != "identity" {
				codings = append(codings, name)
			}
		}
	}
	if len(codings) > maxCodings {
		return nil, fmt.Errorf("%w: more than %d in a row", ErrUnknownCoding, maxCodings)
	}
	layers := decodedReader{Reader: r, reserve: reserve}
	for _, name := range slices.Backward(codings) {
		if err := layers.add(name); err != nil {
			layers.Close()
			return nil, err
		}
	}
	return &layers, nil
}

// A decodedReader is a stack of decoders.
type decodedReader struct {
	io.Reader
	release  []func()
	reserve  func(bytes int) error
	reserved int
}

// decoderBytes is the most that a decoder needs in addition to its input and output.
func decoderBytes(coding string) int {
	switch coding {
	case "br":
		return 16<<20 + 1<<20 // the client chooses the window
	case "zstd":
		return maxWindow + 1<<20
	}
	return 64 << 10
}

func (l *decodedReader) add(coding string) error {
	bytes := decoderBytes(coding)
	if err := l.reserve(bytes); err != nil {
		return err
	}
	l.reserved += bytes
	switch coding {
	case "gzip", "x-gzip":
		r, err := gzip.NewReader(l.Reader)
		if err != nil {
			return err
		}
		l.Reader = r
	case "deflate":
		r, err := inflate(l.Reader)
		if err != nil {
			return err
		}
		l.Reader = r
	case "br":
		l.Reader = brotli.NewReader(l.Reader)
	case "zstd":
		r, err := zstd.NewReader(l.Reader, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return err
		}
		l.Reader = r
		l.release = append(l.release, r.Close)
	default:
		return fmt.Errorf("%w %q", ErrUnknownCoding, node.Clip(coding, 40))
	}
	return nil
}

// Close frees what the decoders hold.
func (l *decodedReader) Close() error {
	for _, f := range slices.Backward(l.release) {
		f()
	}
	l.release = nil
	bytes := l.reserved
	l.reserved = 0
	return l.reserve(-bytes)
}

// inflate decodes "deflate", which is zlib in the standard and raw deflate with some
// clients.
func inflate(r io.Reader) (io.Reader, error) {
	var head [2]byte
	n, err := io.ReadFull(r, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	r = io.MultiReader(bytes.NewReader(head[:n]), r)
	if n == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}
