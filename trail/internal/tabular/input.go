package tabular

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	fastgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/internal/records"
)

// maxWindow is the largest window of a zstd stream that is taken, and so the
// memory it can ask for: the window of zstd --long=27, the largest that its own tool
// reads without a flag.
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
			return in.unpackError(err)
		}
		in.unpacked = z
	case "zst":
		if in.decoder == nil {
			// Without concurrency it starts no goroutine.
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
			if err != nil {
				return in.unpackError(err)
			}
			in.decoder = d
		}
		if err := in.decoder.Reset(counted); err != nil {
			return in.unpackError(err)
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

// records returns a reader of the records from where the input stands.
func (in *input) records(framing records.Framing) *records.Reader {
	r := records.New(in, records.Options{Framing: framing, Delimiter: ',', MaxRecord: maxRecord, Ahead: true}, 0, 1)
	r.End()
	return r
}

// Read fills p if it can, as batches end with what was read.
func (in *input) Read(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		if m, err = in.unpacked.Read(p[n:]); m == 0 && err == nil {
			break
		}
		n += m
	}
	if n > 0 {
		return n, nil // the next call returns the error
	}
	return 0, in.unpackError(err)
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

// unpackError says what an error of reading means for a packed file.
func (in *input) unpackError(err error) error {
	form := map[string]string{"gz": "gzip", "zst": "zstd"}[in.packed]
	switch {
	case err == nil || err == io.EOF && in.unpacked != nil || form == "":
		return err
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the file ends too early", form)
	case errors.Is(err, gzip.ErrHeader) || errors.Is(err, fastgzip.ErrHeader) || errors.Is(err, zstd.ErrMagicMismatch):
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
