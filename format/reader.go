package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	chunkSize  = 256 << 10 // bytes that are read in one call; stays in the second level cache
	firstChunk = 16 << 10  // many files may be open, and most of them be small or quiet
	shownSize  = 1 << 10   // bytes that are kept of a record that is too long
)

// A Record is one record of a sequence, as it was found.
type Record struct {
	// Raw is the record without its line end. It is never changed, unless it is given
	// back by [Reader.Return]: the caller may keep it, which keeps up to 256 KiB in front
	// of and behind it. Of a record that is too long it is the beginning.
	Raw []byte

	Offset, End int64 // where it begins, and where what follows it does, in bytes from 0
	Line        int64 // where it begins, from 1

	// Err says why the record is damaged; nil if it can be decoded.
	Err error
}

// A Reader splits a stream of bytes into records. It is not for concurrent use.
type Reader struct {
	src     io.Reader
	o       Options
	decoder *Decoder // nil until the columns are known

	buf    []byte // never written before hi, since records refer to it
	lo, hi int    // buf[lo:hi] was read and is not used
	lent   bool   // a record refers to buf
	first  bool   // nothing has been read: a byte order mark may come
	done   bool   // the one record of a whole was returned
	ended  bool   // what is left is the last record
	eof    bool   // src was at its end at the last read
	offset int64  // of buf[lo]
	line   int64  // of buf[lo]
	row    rowScan

	// A record that is too long is passed over up to its end.
	long *Record
}

// NewReader returns a reader of src, which stands at an offset and line of the whole:
// 0 and 1 at its beginning. Elsewhere, CSV needs Options.Columns: see [Reader.Columns].
func NewReader(src io.Reader, o Options, offset, line int64) *Reader {
	o = o.withDefaults()
	r := &Reader{src: src, o: o, offset: offset, line: line, first: offset == 0}
	if o.Name != CSV || o.Columns != nil {
		r.decoder = newDecoder(o)
	}
	return r
}

// Decoder returns what makes values of the records that were read; nil before the names
// of the columns are known.
func (r *Reader) Decoder() *Decoder { return r.decoder }

// Columns returns the names of the columns of CSV, nil before they are known.
func (r *Reader) Columns() []string { return r.o.Columns }

// Return gives the records of earlier calls back: their memory is used again.
func (r *Reader) Return() { r.lent = false }

// Offset returns where the bytes begin that were read and not returned.
func (r *Reader) Offset() (offset, line int64) { return r.offset, r.line }

// End says that no more bytes come than src has now: what is left without a line end is a
// record.
func (r *Reader) End() { r.ended, r.eof = true, false }

// Rest returns what was read of a record whose end will not come, without reading.
func (r *Reader) Rest() (rec Record, ok bool) {
	r.ended, r.eof = true, true
	return r.next()
}

// A HeaderError says why the first record of CSV does not name the columns. Nothing can be
// read then.
type HeaderError struct {
	Line int64
	Err  error
}

func (e *HeaderError) Error() string {
	return fmt.Sprintf("line %d must have the names of the columns: %v", e.Line, e.Err)
}

// Unwrap lets errors.Is find the reason.
func (e *HeaderError) Unwrap() error { return e.Err }

// Read appends records to dst until it has limit records, or room bytes, or src is empty;
// the last one may exceed room. It returns as soon as it has records and would have to
// read. The error is io.EOF if src was at its end and there are no records: Read may be
// called again when src has more, or after [Reader.End]. After another error, of src or a
// *HeaderError, the reader is unusable.
func (r *Reader) Read(dst []Record, limit int, room int64) ([]Record, error) {
	n := len(dst)
	for len(dst)-n < limit && room > 0 {
		rec, ok := r.next()
		if !ok {
			if len(dst) > n {
				return dst, nil
			}
			if r.ended && r.eof {
				return dst, io.EOF
			}
			if err := r.Fill(); err != nil {
				if err == io.EOF && r.ended {
					continue // what is left is a record now
				}
				return dst, err
			}
			continue
		}
		if r.decoder == nil {
			if err := r.header(rec); err != nil {
				return dst, err
			}
			continue
		}
		dst = append(dst, rec)
		room -= int64(len(rec.Raw))
	}
	return dst, nil
}

// Buffered is [Reader.Read] of what was read before: it does not read, and returns none if
// it would have to.
func (r *Reader) Buffered(limit int, room int64) (records []Record, err error) {
	for len(records) < limit && room > 0 {
		rec, ok := r.next()
		if !ok {
			break
		}
		if r.decoder == nil {
			if err := r.header(rec); err != nil {
				return records, err
			}
			continue
		}
		records = append(records, rec)
		room -= int64(len(rec.Raw))
	}
	return records, nil
}

func (r *Reader) header(rec Record) error {
	err := rec.Err
	if err == nil {
		var names []string
		if names, err = headerOf(rec.Raw, r.o.Delimiter); err == nil {
			r.o.Columns = names
			r.decoder = newDecoder(r.o)
			return nil
		}
	}
	return &HeaderError{rec.Line, err}
}

// next takes the next record from the buffer, if it is there as a whole.
func (r *Reader) next() (rec Record, ok bool) {
	for {
		rest := r.buf[r.lo:r.hi]
		last := r.ended && r.eof
		if r.first {
			if !last && len(rest) < len(mark) && bytes.HasPrefix([]byte(mark), rest) {
				return rec, false
			}
			r.first = false
			if bytes.HasPrefix(rest, []byte(mark)) && r.o.Name != Raw {
				r.use(len(mark), 0)
				continue
			}
		}
		if r.long != nil {
			return r.skip(rest, last)
		}
		used, lines, size, err := r.split(rest, last)
		if used == 0 && !(last && r.o.whole() && !r.done) {
			if len(rest) > r.o.MaxRecord+2 { // the line end may be there
				r.tooLong(rest)
				continue
			}
			return rec, false
		}
		if size > r.o.MaxRecord {
			r.tooLong(rest)
			continue
		}
		rec = Record{Raw: rest[:size:size], Offset: r.offset, Line: r.line, Err: err}
		r.use(used, lines)
		r.done = true
		rec.End = r.offset
		if rec.Err == nil && r.blank(rec.Raw) {
			continue
		}
		r.lent = true
		return rec, true
	}
}

// mark is the byte order mark of UTF-8, which is not part of the text.
const mark = "\xef\xbb\xbf"

func (r *Reader) use(n int, lines int64) {
	r.lo += n
	r.offset += int64(n)
	r.line += lines
	r.row = rowScan{}
}

// blank reports whether a record is passed over.
func (r *Reader) blank(raw []byte) bool {
	switch r.o.Name {
	case NDJSON:
		return len(raw) == 0 || raw[0] <= ' ' && len(bytes.TrimLeft(raw, " \t\r")) == 0
	case CSV:
		return len(raw) == 0
	}
	return false
}

// split finds the record that b begins with: how many bytes and lines to use up, 0 if more
// must be read, and the size without the line end. last says that no more comes.
func (r *Reader) split(b []byte, last bool) (used int, lines int64, size int, err error) {
	switch {
	case len(b) == 0 || r.o.whole() && !last:
		return 0, 0, 0, nil
	case r.o.whole():
		return len(b), 1, len(b), nil
	case r.o.Name == CSV:
		used, lines, err = r.row.find(b, r.o.Delimiter, last)
	default:
		i := bytes.IndexByte(b[r.row.at:], '\n')
		if i < 0 {
			r.row.at = len(b)
			if last {
				used, lines = len(b), 1
			}
		} else {
			used, lines = r.row.at+i+1, 1
		}
	}
	size = used
	if size > 0 && b[size-1] == '\n' {
		size--
		if size > 0 && b[size-1] == '\r' {
			size--
		}
	}
	return used, lines, size, err
}

// tooLong begins to pass over the record that rest begins with. A row of CSV loses its
// first line only, as a quote may not be closed.
func (r *Reader) tooLong(rest []byte) {
	r.long = &Record{Raw: bytes.Clone(rest[:min(r.o.MaxRecord, shownSize)]), Offset: r.offset, Line: r.line}
	if i := bytes.IndexByte(rest, '\n'); r.o.Name == CSV && i >= 0 && i <= r.o.MaxRecord {
		r.long.Err = errQuote
		r.long.Raw = rest[:i:i]
		r.lent = true
	}
}

// skip passes over bytes of a record that is too long.
func (r *Reader) skip(rest []byte, last bool) (rec Record, ok bool) {
	i := -1
	if !r.o.whole() {
		i = bytes.IndexByte(rest, '\n')
	}
	if i < 0 {
		r.use(len(rest), 0)
		if !last {
			return rec, false
		}
	} else {
		r.use(i+1, 1)
	}
	rec, r.long = *r.long, nil
	r.done = true
	rec.End = r.offset
	if rec.Err == nil {
		rec.Err = fmt.Errorf("the record is longer than %d bytes", r.o.MaxRecord)
	}
	return rec, true
}

// Fill reads once from src, for [Reader.Buffered]. The error is io.EOF if there is nothing
// now.
func (r *Reader) Fill() error {
	rest := r.hi - r.lo
	if len(r.buf)-r.hi < 4<<10 {
		size := chunkSize
		if r.buf == nil {
			size = firstChunk
		} else if rest >= size/2 {
			size = 4 * rest
		}
		size = min(size, max(chunkSize, r.o.MaxRecord+8<<10))
		if r.lent || size > len(r.buf) || r.lo == 0 {
			buf := make([]byte, size)
			copy(buf, r.buf[r.lo:r.hi])
			r.buf = buf
		} else {
			copy(r.buf, r.buf[r.lo:r.hi])
		}
		r.lo, r.hi, r.lent = 0, rest, false
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.hi:])
		r.hi += n
		if n > 0 {
			r.eof = false
			return nil
		}
		if errors.Is(err, io.EOF) {
			r.eof = true
			if r.lo == r.hi {
				r.buf, r.lo, r.hi, r.lent = nil, 0, 0, false // it may be long until more comes
			}
			return io.EOF
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}
