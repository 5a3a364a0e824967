package spool

import (
	"bytes"
	"errors"
	"io"
)

// window is how much a scanner reads at a time. A longer record is read whole.
const window = 256 << 10

// maxDirectSum is up to which length a candidate is summed directly while looking for
// the next record; see prefixSums.
const maxDirectSum = 2 * block

// A span is the bytes [from, to) of a segment.
type span struct{ from, to int64 }

// A scanner reads the records of a segment, whatever state its bytes are in.
type scanner struct {
	r    tolerantReader
	size int64
	buf  []byte // the bytes from off on
	off  int64
	sums *prefixSums // made when first needed
}

// found is what a scanner came upon: a record, or bytes that are none.
type found struct {
	span
	ok     bool
	record Record // payload borrowed until the next step; if ok
	last   bool   // no record follows, if not ok
}

func newScanner(r io.ReaderAt, size int64) *scanner {
	return &scanner{r: tolerantReader{r: r}, size: size}
}

// next returns what stands at off, which ends before limit. Zeros at the end of
// the file, reserved and not written, are bytes that are no record.
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

// resync returns where the next record begins, from off on and before limit;
// limit if there is none.
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

// plausible reports whether a record begins at off, without reading all of it.
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

// content returns where the last byte of [from, to) ends that is not zero; from
// if all are.
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

// bytes returns the n bytes from off on, which must be within the file. They are
// valid until the next call.
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

// tolerantReader reads what can be read of a file, with zeros for the rest.
type tolerantReader struct {
	r   io.ReaderAt
	bad []span // blocks that could not be read
	err error  // why not, the first
}

// ReadAt never fails.
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
