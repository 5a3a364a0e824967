package spool

import (
	"bytes"
	"errors"
	"io"
)

// window is how much a scanner reads at a time. A longer record is read with one read.
const window = 256 << 10

// maxDirectSum is the length up to which the checksum of a candidate is computed
// directly, in the search for the next record; see prefixSums.
const maxDirectSum = 2 * block

// A span is the bytes [from, to) of a segment.
type span struct{ from, to int64 }

// A scanner reads the records of a segment, which may be damaged.
type scanner struct {
	r    tolerantReader
	size int64
	buf  []byte // the bytes from off on
	off  int64
	sums *prefixSums // made when first needed
}

// A found is the result of a scanner: a record, or bytes that are not a record.
type found struct {
	span
	ok     bool
	record Record // if ok; the payload is valid until the next step
	last   bool   // if not ok: no record follows
}

func newScanner(r io.ReaderAt, size int64) *scanner {
	return &scanner{r: tolerantReader{r: r}, size: size}
}

// next returns what is at off and ends before limit. Reserved zeros at the end of the
// file are bytes that are not a record.
func (s *scanner) next(off, limit int64) (found, bool) {
	limit = min(limit, s.size)
	if off >= limit {
		return found{}, false
	}
	if r, n, ok := s.record(off); ok {
		return found{span: span{off, off + n}, ok: true, record: r}, true
	}
	end, ok := s.resync(off+1, limit)
	return found{span: span{off, end}, last: !ok}, true
}

// record reads the record at off.
func (s *scanner) record(off int64) (Record, int64, bool) {
	if s.size-off < recordHeader {
		return Record{}, 0, false
	}
	n, ok := recordLength(s.bytes(off, recordHeader))
	if !ok || n > s.size-off {
		return Record{}, 0, false
	}
	r, ok := parseRecord(s.bytes(off, n))
	return r, n, ok
}

// resync returns the offset of the next record in [off, limit), or limit if there is
// none.
func (s *scanner) resync(off, limit int64) (int64, bool) {
	magic := le.AppendUint32(nil, recordMagic)
	for limit-off >= recordHeader {
		w := s.bytes(off, min(window, limit-off))
		i := bytes.Index(w, magic)
		if i < 0 {
			off += int64(len(w) - len(magic) + 1)
			continue
		}
		off += int64(i)
		if s.plausible(off) {
			return off, true
		}
		off++
	}
	return limit, false
}

// plausible reports whether a valid record begins at off. It does not read a long one.
func (s *scanner) plausible(off int64) bool {
	if s.size-off < recordHeader {
		return false
	}
	h := s.bytes(off, recordHeader)
	n, ok := recordLength(h)
	if !ok || n > s.size-off {
		return false
	}
	if n <= maxDirectSum {
		_, _, ok := s.record(off)
		return ok
	}
	want := le.Uint32(h[8:])
	if s.sums == nil {
		s.sums = newPrefixSums(&s.r, s.size)
	}
	return s.sums.between(off+12, off+n) == want
}

// content returns the end of the last byte in [from, to) that is not zero, or from if
// all are zero.
func (s *scanner) content(from, to int64) int64 {
	end := from
	for off := from; off < to; {
		w := s.bytes(off, min(window, to-off))
		if n := len(bytes.TrimRight(w, "\x00")); n > 0 {
			end = off + int64(n)
		}
		off += int64(len(w))
	}
	return end
}

// bytes returns n bytes from off, which must be within the file. They are valid until
// the next call.
func (s *scanner) bytes(off, n int64) []byte {
	if off < s.off || off+n > s.off+int64(len(s.buf)) {
		load := min(max(n, window), s.size-off)
		if int64(cap(s.buf)) < load {
			s.buf = make([]byte, load)
		}
		s.buf, s.off = s.buf[:load], off
		s.r.read(s.buf, off)
	}
	return s.buf[off-s.off : off-s.off+n]
}

// A tolerantReader reads a file, with zeros in place of what cannot be read.
type tolerantReader struct {
	r   io.ReaderAt
	bad []span // blocks that could not be read
	err error  // the first error
}

func (s *tolerantReader) ReadAt(p []byte, off int64) (int, error) {
	s.read(p, off)
	return len(p), nil
}

func (s *tolerantReader) read(p []byte, off int64) {
	if n, err := s.r.ReadAt(p, off); n == len(p) || err == nil {
		return
	}
	for len(p) > 0 {
		n := min(block-off%block, int64(len(p)))
		if got, err := s.r.ReadAt(p[:n], off); int64(got) < n {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the file has become shorter
			}
			clear(p[:n])
			s.bad = append(s.bad, span{off, off + n})
			if s.err == nil {
				s.err = err
			}
		}
		p, off = p[n:], off+n
	}
}

// unreadable reports whether part of the span could not be read.
func (s *tolerantReader) unreadable(in span) bool {
	for _, b := range s.bad {
		if b.from < in.to && in.from < b.to {
			return true
		}
	}
	return false
}
