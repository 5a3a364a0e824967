// Package records splits streams of bytes into records: lines, rows of CSV, or all bytes as
// one. The package parquet below it reads columns of Parquet files.
//
// A [Reader] finds where records begin and end, with their offsets and lines. [Header],
// [Cut] and [Field] take rows of CSV apart. What a record means is up to the caller.
//
// Invariants: input is not trusted. Any bytes give records, damaged ones among them, and
// never a panic; memory is bounded by the longest record that is allowed, and no byte is
// read more than a few times. A damaged record does not end the reading. What is read
// does not depend on how the bytes arrive.
package records

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// A Framing says what a record is.
type Framing uint8

const (
	Lines Framing = iota // end with LF or CRLF
	JSON                 // lines; lines of white space are skipped
	CSV                  // rows of RFC 4180, with CRLF or LF; empty lines are skipped
	Whole                // all bytes
)

// Options describe a stream.
type Options struct {
	Framing   Framing
	Delimiter byte // of CSV
	MaxRecord int  // bytes of a record without its line end
	Mark      bool // a byte order mark at the beginning is part of the first record
	Ahead     bool // the first read is a large one: there are few streams, and they are long
}

const (
	chunkSize  = 256 << 10 // bytes that are read in one call; stays in the second level cache
	firstChunk = 16 << 10  // many streams may be open, and most of them be small or quiet
	shownSize  = 1 << 10   // bytes that are kept of a record that is too long
)

// mark is the byte order mark of UTF-8.
const mark = "\xef\xbb\xbf"

// A Record is one record of a stream, as it was found.
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
	src io.Reader
	o   Options

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

	// A record that is too long is skipped up to its end.
	long *Record
}

// New returns a reader of src, which stands at an offset and line of the whole: 0 and 1 at
// its beginning.
func New(src io.Reader, o Options, offset, line int64) *Reader {
	return &Reader{src: src, o: o, offset: offset, line: line, first: offset == 0}
}

// Return gives the records of earlier calls back: their memory is used again.
func (r *Reader) Return() { r.lent = false }

// Offset returns where the bytes begin that were read and not returned.
func (r *Reader) Offset() (offset, line int64) { return r.offset, r.line }

// Peek returns the bytes that were read and not returned, without a byte order mark. They
// are valid until the next call.
func (r *Reader) Peek() []byte {
	rest := r.buf[r.lo:r.hi]
	if r.first && !r.o.Mark {
		rest = bytes.TrimPrefix(rest, []byte(mark))
	}
	return rest
}

// End says that no more bytes come than src has now: what is left without a line end is a
// record.
func (r *Reader) End() { r.ended, r.eof = true, false }

// Rest returns what was read of a record whose end will not come, without reading.
func (r *Reader) Rest() (rec Record, ok bool) {
	r.ended, r.eof = true, true
	return r.Next()
}

// Next returns the next record if it was read as a whole; it does not read.
func (r *Reader) Next() (rec Record, ok bool) {
	for {
		rest := r.buf[r.lo:r.hi]
		last := r.ended && r.eof
		if r.first {
			if !last && len(rest) < len(mark) && bytes.HasPrefix([]byte(mark), rest) {
				return rec, false
			}
			r.first = false
			if bytes.HasPrefix(rest, []byte(mark)) && !r.o.Mark {
				r.use(len(mark), 0)
				continue
			}
		}
		if r.long != nil {
			return r.skip(rest, last)
		}
		used, lines, size, err := r.split(rest, last)
		if used == 0 && !(last && r.o.Framing == Whole && !r.done) {
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

func (r *Reader) use(n int, lines int64) {
	r.lo += n
	r.offset += int64(n)
	r.line += lines
	r.row = rowScan{}
}

// blank reports whether a record is skipped.
func (r *Reader) blank(raw []byte) bool {
	switch r.o.Framing {
	case JSON:
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
	case len(b) == 0 || r.o.Framing == Whole && !last:
		return 0, 0, 0, nil
	case r.o.Framing == Whole:
		return len(b), 1, len(b), nil
	case r.o.Framing == CSV:
		// What is wrong with a row depends on no more than may belong to it.
		most := min(len(b), r.o.MaxRecord+2)
		used, lines, err = r.row.find(b[:most], r.o.Delimiter, last && most == len(b))
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
	ended := size > 0 && b[size-1] == '\n'
	if ended {
		size--
	}
	if size > 0 && b[size-1] == '\r' && (ended || r.o.Framing == CSV) {
		size--
	}
	return used, lines, size, err
}

// tooLong begins to pass over the record that rest begins with. A row of CSV loses its
// first line only, as a quote may not be closed.
func (r *Reader) tooLong(rest []byte) {
	r.long = &Record{Raw: bytes.Clone(rest[:min(r.o.MaxRecord, shownSize)]), Offset: r.offset, Line: r.line}
	if i := bytes.IndexByte(rest, '\n'); r.o.Framing == CSV && i >= 0 && i <= r.o.MaxRecord {
		r.long.Err = fmt.Errorf("a quote is not closed, or the record is longer than %s; %s", r.limit(), goesOn)
		r.long.Raw = rest[:i:i]
		r.lent = true
	}
}

func (r *Reader) limit() string {
	if n := r.o.MaxRecord; n%(1<<20) != 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%d MiB", r.o.MaxRecord>>20)
}

// skip passes over bytes of a record that is too long.
func (r *Reader) skip(rest []byte, last bool) (rec Record, ok bool) {
	i := -1
	if r.o.Framing != Whole {
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
		rec.Err = fmt.Errorf("the record is longer than %s", r.limit())
	}
	return rec, true
}

// Read calls Return and returns the next record. Its errors are the errors of [Reader.More].
func (r *Reader) Read() (Record, error) {
	r.Return()
	for {
		if rec, ok := r.Next(); ok {
			return rec, nil
		}
		if err := r.More(); err != nil {
			return Record{}, err
		}
	}
}

// More reads once from src after [Reader.Next] had nothing. The error is io.EOF if src is
// at its end and no record is left.
func (r *Reader) More() error {
	if r.ended && r.eof {
		return io.EOF
	}
	err := r.Fill()
	if err == io.EOF && r.ended {
		return nil // what is left is a record now
	}
	return err
}

// Fill reads once from src. The error is io.EOF if there is nothing now.
func (r *Reader) Fill() error {
	rest := r.hi - r.lo
	if len(r.buf)-r.hi < 4<<10 {
		size := chunkSize
		if r.buf == nil && !r.o.Ahead {
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
			if invariant.Enabled { // make the use of what was given back visible
				for i := range r.buf[:r.lo] {
					r.buf[i] = '#'
				}
			}
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
