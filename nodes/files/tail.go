package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node/input"
)

// A fileID is what a file is known by while it exists: another file may get it later.
type fileID struct{ device, inode uint64 }

// name is what the lane is kept under.
func (id fileID) name() string { return fmt.Sprintf("%x-%x", id.device, id.inode) }

// parseID reads what name returns.
func parseID(text string) (id fileID, ok bool) {
	device, inode, _ := strings.Cut(text, "-")
	var err1, err2 error
	id.device, err1 = strconv.ParseUint(device, 16, 64)
	id.inode, err2 = strconv.ParseUint(inode, 16, 64)
	return id, err1 == nil && err2 == nil
}

// A tail reads one file from some position to its end, and on when it grows. A file that
// is truncated gets another tail; the one before goes on in the copy of what the file had,
// if there is one. The goroutine that calls Read owns it, except for what the source guards.
type tail struct {
	lane   int32
	origin fileID // where its messages have their ids from; immutable
	cut    int    // how many files had the origin before; immutable
	input  input.Input
	start  position // of file

	file   *os.File // nil before it is opened, and when it is done
	reader *format.Reader
	table  *format.ParquetReader // instead of reader
	raw    int64                 // bytes that were read, before unpacking

	ready bool      // there may be something to read
	quiet time.Time // since when there was not; zero before
	gone  bool      // no path leads to it any more
	last  bool      // what is left is its last record

	stat fs.FileInfo     // of the file when it was opened; nil before
	rest []format.Record // that had been read and not returned when the file was truncated

	// Guarded by the source. Only the goroutine that calls Read changes id, path and place.
	path    string
	id      fileID // of the file that it reads
	entry   *entry // unless nil, it is known that the file is gone, or has other content
	print   fingerprint
	place   place    // in what was read; the same for all of a file that is fixed
	fixed   bool     // what was read is not in the file as it is, or not all of it
	limit   int64    // unless 0: the file is a copy of that much, and ends there
	end     position // of what was read
	settled position
	proof   place // in what is settled
	done    bool  // nothing more is read, unless it grows
	failed  bool  // what it has cannot be read
	away    bool  // done, and dealt with as the field settled says
}

// mark returns what is kept of a position, and of a place at or before it.
func (t *tail) mark(at position, proof place) mark {
	if t.fixed {
		proof = t.place
	}
	if t.limit > 0 {
		at.offset = min(at.offset, t.limit)
	}
	return mark{position: at, fingerprint: t.print, place: proof, cut: t.cut, origin: t.origin, path: t.path}
}

// errOther says that a path leads to another file than before.
var errOther = errors.New("the file was replaced")

// errCut says that a file has not what was read of it before.
var errCut = errors.New("the file was truncated")

// open opens the file, which continues at the tail's start, and returns its fingerprint,
// and a place in it.
func (t *tail) open(in input.Input) (fp fingerprint, at place, err error) {
	f, err := openRegular(t.path)
	if err != nil {
		return fp, at, err
	}
	t.input = in.Of(t.path)
	if fp, at, err = t.begin(f); err != nil {
		return fp, at, errors.Join(err, f.Close())
	}
	t.file = f
	return fp, at, nil
}

func (t *tail) begin(f *os.File) (fp fingerprint, at place, err error) {
	info, err := f.Stat()
	if err != nil {
		return fp, at, err
	}
	if identity(info, t.path) != t.id {
		return fp, at, errOther
	}
	if fp, err = printOf(f, printSize); err != nil {
		return fp, at, err
	}
	at = t.place
	if t.start.offset > 0 {
		first, whole, err := t.mark(t.start, at).fits(f)
		if at.at == 0 && t.fixed { // of 4d86ea6
			whole = first
		}
		if err != nil || !whole || !t.fixed && info.Size() < t.start.offset {
			return fp, at, cmp.Or(err, errCut)
		}
	}
	if t.stat = info; t.fixed {
		if at, err = placeOf(f, info.Size()); err != nil {
			return fp, at, err
		}
	}
	if t.input.Table() {
		if t.input.Packing != "" {
			return fp, at, errors.New("a table cannot be in a compressed file")
		}
		t.table, err = format.NewParquetReader(f, info.Size(), t.start.offset)
		return fp, at, err
	}
	o, err := t.columns(f)
	if err != nil {
		return fp, at, err
	}
	src, err := unpack(t.input, f, t.start.offset)
	if err != nil {
		return fp, at, err
	}
	t.reader = format.NewReader(src, o, t.start.offset, t.start.line)
	if t.last {
		t.reader.End()
	}
	return fp, at, nil
}

// columns returns the options of the reader: what begins in the middle of CSV needs the
// names of the columns.
func (t *tail) columns(f *os.File) (format.Options, error) {
	o := t.input.Options
	if t.start.offset == 0 || o.Name != format.CSV || o.Columns != nil {
		return o, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return o, err
	}
	return t.input.Header(f)
}

// changed returns the fingerprint of the file, and whether the file is not what has been
// read of it: it was truncated, and may have grown since.
func (t *tail) changed() (fp fingerprint, changed bool, err error) {
	info, err := t.file.Stat()
	if err != nil {
		return fp, false, err
	}
	if info.Size() < t.at() {
		return t.print, true, nil
	}
	fp = t.print
	if t.place.at > 0 { // covers more than the fingerprint
		at, err := placeOf(t.file, t.place.at)
		if err != nil || at != t.place {
			return fp, true, err
		}
	} else if fp, err = printOf(t.file, t.print.size); err != nil || fp != t.print {
		return fp, true, err
	}
	if fp.size < printSize {
		fp, err = printOf(t.file, printSize)
	}
	return fp, false, err
}

// placeStep is how far places are from each other, unless the file ends before.
const placeStep = 16 << 10

// noted returns the place at an end that was read, if it is far enough from the last one, and
// the last one otherwise, or if the file is not what was read any more.
func (t *tail) noted(last place, end, read int64) place {
	step := int64(placeStep)
	if last.at == 0 { // the fingerprint covers as much
		step = printSize + 1
	}
	if t.fixed || t.file == nil || end != read && end-last.at < step {
		return last
	}
	if at, err := placeOf(t.file, end); err == nil && at.at == end { // reading on says what is wrong
		return at
	}
	return last
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

// doubtful reports whether another file may have the id: as long as the file is open, none can.
func (t *tail) doubtful(f *find) bool {
	switch {
	case t.file != nil:
		return false
	case !t.done:
		return t.path != f.path
	case !t.fixed || t.stat == nil:
		return false
	}
	return f.info.Size() != t.stat.Size() || !f.info.ModTime().Equal(t.stat.ModTime())
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

// unpack returns a reader of what a file has from an offset on, after unpacking.
func unpack(in input.Input, f *os.File, offset int64) (io.Reader, error) {
	at := offset
	if in.Packing != "" {
		at = 0
	}
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return nil, err
	}
	return in.Unpack(f, offset)
}
