package tabular

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	fastgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// maxWindow is the largest window of a zstd stream that is taken, and so the
// memory it can ask for: that of zstd --long=27, the largest that its own tool
// reads without being told to.
const maxWindow = 128 << 20

// An input is an opened file, unpacked while it is read. It counts the packed
// bytes.
type input struct {
	file  *os.File // nil for stdin
	raw   io.Reader
	total int64 // -1 if not known
	done  atomic.Int64

	packed   string
	unpacked io.Reader
	decoder  *zstd.Decoder // nil unless packed is zst
}

func openInput(path string, stdin io.Reader, packed string) (*input, error) {
	in := &input{packed: packed, total: -1, raw: stdin}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		stat, err := f.Stat()
		if err == nil && stat.IsDir() {
			err = errors.New("is a folder, not a file")
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		in.file, in.raw = f, f
		if stat.Mode().IsRegular() {
			in.total = stat.Size()
		}
	} else if stdin == nil {
		return nil, errors.New("there is no standard input")
	}
	if err := in.unpack(); err != nil {
		return nil, errors.Join(err, in.close())
	}
	return in, nil
}

// unpack starts reading at where the file stands.
func (in *input) unpack() error {
	counted := counting{in}
	switch in.packed {
	case "gz":
		z, err := fastgzip.NewReader(counted)
		if err != nil {
			return unpackError("gzip", err)
		}
		in.unpacked = z
	case "zst":
		if in.decoder == nil {
			// Without concurrency it starts no goroutine.
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
			if err != nil {
				return unpackError("zstd", err)
			}
			in.decoder = d
		}
		if err := in.decoder.Reset(counted); err != nil {
			return unpackError("zstd", err)
		}
		in.unpacked = in.decoder
	default:
		in.unpacked = counted
	}
	return nil
}

func (in *input) rewind() error {
	if in.file == nil {
		return errors.New("standard input cannot be read twice")
	}
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	in.done.Store(0)
	return in.unpack()
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.unpacked.Read(p)
	if err != nil && err != io.EOF {
		switch in.packed {
		case "gz":
			err = unpackError("gzip", err)
		case "zst":
			err = unpackError("zstd", err)
		}
	}
	return n, err
}

func (in *input) close() error {
	if in.decoder != nil {
		in.decoder.Close()
		in.decoder = nil
	}
	if in.file == nil {
		return nil
	}
	return in.file.Close()
}

func unpackError(form string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: the file ends too early", form)
	}
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, fastgzip.ErrHeader) || errors.Is(err, zstd.ErrMagicMismatch) {
		return fmt.Errorf("the file is not packed with %s, as its name says", form)
	}
	return fmt.Errorf("%s: %w", form, err)
}

// counting counts what is read of the raw file.
type counting struct{ in *input }

func (c counting) Read(p []byte) (int, error) {
	n, err := c.in.raw.Read(p)
	c.in.done.Add(int64(n))
	return n, err
}

// A window holds a part of a stream. Only fill moves it on, so what was found in it
// can be lent until then.
type window struct {
	r      io.Reader
	buf    []byte
	lo, hi int // buf[lo:hi] was not used yet
	eof    bool
	err    error // of the stream, other than io.EOF
}

// windowSize lets a batch of about a thousand rows of usual size stay in the second
// level cache.
const windowSize = 256 << 10

func newWindow(r io.Reader) *window { return &window{r: r, buf: make([]byte, windowSize)} }

func (f *window) rest() []byte { return f.buf[f.lo:f.hi] }

// fill reads more. Everything lent before becomes invalid. A full window grows, up
// to the size of the longest record.
func (f *window) fill() {
	if invariant.Enabled { // make the misuse of lent bytes visible
		for i := range f.buf[:f.lo] {
			f.buf[i] = '#'
		}
	}
	f.hi = copy(f.buf, f.buf[f.lo:f.hi])
	f.lo = 0
	if f.hi == len(f.buf) && len(f.buf) < 2*maxRecord {
		f.buf = append(f.buf, make([]byte, len(f.buf))...)
	}
	for empty := 0; !f.eof && f.hi < len(f.buf); {
		n, err := f.r.Read(f.buf[f.hi:])
		f.hi += n
		if err != nil {
			f.eof = true
			if err != io.EOF {
				f.err = err
			}
		}
		if n > 0 {
			empty = 0
		} else if empty++; empty == 100 {
			f.eof, f.err = true, io.ErrNoProgress
		}
	}
}

// whole reports whether the window reaches the end of the stream. The last line then
// needs no newline.
func (f *window) whole() bool { return f.eof && f.err == nil }

func (f *window) skipLine() bool {
	for {
		if i := bytes.IndexByte(f.rest(), '\n'); i >= 0 {
			f.lo += i + 1
			return true
		}
		f.lo = f.hi
		if f.eof {
			return false
		}
		f.fill()
	}
}
