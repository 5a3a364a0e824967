package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/format"
)

// A fileID is what a file is known by while it exists: another file may get it later.
type fileID struct{ device, inode uint64 }

// printSize is how much of the beginning of a file tells it from another with its fileID.
const printSize = 1 << 10

// A tail reads one file from some position to its end, and on when it grows. A file that
// is truncated gets another tail. The goroutine that calls Read owns it, except for what
// the source guards.
type tail struct {
	path  string // guarded by the source
	lane  int32
	id    fileID
	cut   int // how often the file was truncated, or another file had the id; immutable
	input input
	start position // immutable

	file   *os.File // nil before it is opened, and when it is done
	reader *format.Reader
	table  *format.ParquetReader // instead of reader
	raw    int64                 // bytes that were read, before unpacking

	ready bool      // there may be something to read
	quiet time.Time // since when there was not; zero before
	gone  bool      // no path leads to it any more
	last  bool      // what is left is its last record

	// Guarded by the source.
	print   fingerprint
	end     position // of what was read
	settled position
	done    bool // nothing more is read, unless it grows
	failed  bool // what it has cannot be read
	away    bool // done, and dealt with as the field settled says
}

// A position is a place in a file, after unpacking.
type position struct{ offset, line int64 }

// A fingerprint tells a file from another with its fileID.
type fingerprint struct {
	sum  string // in hexadecimal, of the first size bytes
	size int    // at most printSize
}

// A mark is a position that is kept, with what it was a position of.
type mark struct {
	position
	fingerprint
	cut  int
	path string // for people
}

func (m mark) String() string {
	return fmt.Sprintf("%d %d %d %d %s %s", m.offset, m.line, m.cut, m.size, m.sum, m.path)
}

// parseMark reads a mark; not ok if the text is not one.
func parseMark(text string) (m mark, ok bool) {
	head, path := "", ""
	for range 5 {
		word, rest, found := strings.Cut(text, " ")
		if !found {
			return mark{}, false
		}
		head, text, path = head+word+" ", rest, rest
	}
	if _, err := fmt.Sscan(head, &m.offset, &m.line, &m.cut, &m.size, &m.sum); err != nil {
		return mark{}, false
	}
	m.path = path
	return m, m.offset >= 0 && m.line >= 1 && m.cut >= 0 && m.size >= 0 && m.size <= printSize
}

// name is what the lane is kept under.
func (id fileID) name() string { return fmt.Sprintf("%x-%x", id.device, id.inode) }

// printOf returns the fingerprint of the first bytes of a file, at most size.
func printOf(f io.ReaderAt, size int) (fingerprint, error) {
	buf := make([]byte, size)
	n, err := f.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return fingerprint{}, err
	}
	h := sha256.Sum256(buf[:n])
	return fingerprint{hex.EncodeToString(h[:16]), n}, nil
}

// errOther says that a path leads to another file than before.
var errOther = errors.New("the file was replaced")

// open opens the file, which continues at the tail's start, and returns its fingerprint.
func (t *tail) open(in input) (fingerprint, error) {
	f, err := openRegular(t.path)
	if err != nil {
		return fingerprint{}, err
	}
	t.input = in.of(t.path)
	fp, err := t.begin(f)
	if err != nil {
		return fp, errors.Join(err, f.Close())
	}
	t.file = f
	return fp, nil
}

func (t *tail) begin(f *os.File) (fp fingerprint, err error) {
	info, err := f.Stat()
	if err != nil {
		return fp, err
	}
	if identity(info, t.path) != t.id {
		return fp, errOther
	}
	if fp, err = printOf(f, printSize); err != nil {
		return fp, err
	}
	if t.input.table() {
		if t.input.packing != "" {
			return fp, errors.New("a table cannot be in a compressed file")
		}
		t.table, err = format.NewParquetReader(f, info.Size(), t.start.offset)
		return fp, err
	}
	o, err := t.columns(f)
	if err != nil {
		return fp, err
	}
	src, err := t.input.unpack(f, t.start.offset)
	if err != nil {
		return fp, err
	}
	t.reader = format.NewReader(src, o, t.start.offset, t.start.line)
	if t.last {
		t.reader.End()
	}
	return fp, nil
}

// columns returns the options of the reader: what begins in the middle of CSV needs the
// names of the columns.
func (t *tail) columns(f *os.File) (format.Options, error) {
	o := t.input.options
	if t.start.offset == 0 || o.Name != format.CSV || o.Columns != nil {
		return o, nil
	}
	src, err := t.input.unpack(f, 0)
	if err != nil {
		return o, err
	}
	r := format.NewReader(src, o, 0, 1)
	r.End()
	if _, err := r.Read(nil, 1, 1); err != nil && err != io.EOF {
		return o, err
	}
	o.Columns = r.Columns()
	return o, nil
}

// changed returns the fingerprint of the file, and whether the file is not what has been
// read of it: it was truncated, and may have grown since.
func (t *tail) changed() (fp fingerprint, changed bool, err error) {
	info, err := t.file.Stat()
	if err != nil {
		return fp, false, err
	}
	if fp, err = printOf(t.file, t.print.size); err != nil {
		return fp, false, err
	}
	if info.Size() < t.at() || fp != t.print {
		return fp, true, nil
	}
	if fp.size < printSize {
		fp, err = printOf(t.file, printSize)
	}
	return fp, false, err
}

// at returns how much of the file was read, before unpacking.
func (t *tail) at() int64 {
	if t.file == nil {
		return t.raw
	}
	if t.table != nil {
		info, err := t.file.Stat()
		if err != nil {
			return t.raw
		}
		next, total := t.table.Rows()
		return int64(float64(info.Size()) * float64(next) / float64(max(1, total)))
	}
	at, err := t.file.Seek(0, io.SeekCurrent)
	if err != nil { // reading says why
		return t.raw
	}
	return at
}

func (t *tail) close() error {
	if t.file == nil {
		return nil
	}
	t.raw = t.at()
	var err error
	if t.table != nil {
		err = t.table.Close()
	}
	err = errors.Join(err, t.file.Close())
	t.file, t.reader, t.table = nil, nil, nil
	return err
}

// openRegular opens a file for reading. It does not wait for the other end of a pipe.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(info.Mode(), path); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// regular returns why something cannot be read as a file.
func regular(mode os.FileMode, path string) error {
	return regularOr(mode, path, "a program can be read through the kind stdin")
}

// regularOr returns why something is not a file, and what to do instead.
func regularOr(mode os.FileMode, path, instead string) error {
	what := ""
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return fmt.Errorf("%s is a folder; name the files in it, such as %s", path, filepath.Join(path, "*"))
	case mode&os.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&os.ModeSocket != 0:
		what = "a socket"
	default:
		what = "a device"
	}
	return fmt.Errorf("%s is %s, not a file; %s", path, what, instead)
}
