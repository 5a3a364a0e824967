package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"
	"unsafe"
)

// pageBits is the logarithm of the length of a page, the unit of checksums.
const (
	pageBits = 16
	pageSize = 1 << pageBits
)

// castagnoli is CRC-32C, for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A span is a range of bytes of the file.
type span struct{ off, len int64 }

// part returns the entries [lo,hi) of an array in a span.
func (p span) part(lo, hi int, size int64) span {
	return span{p.off + int64(lo)*size, int64(hi-lo) * size}
}

// A DamageError is the error of damaged bytes of a segment.
type DamageError struct {
	Path    string
	Section string // what they hold, such as "user index", "column price", "dictionary country" or "footer"
	Offset  int64  // where they begin in the file
	Length  int64
	Reason  string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("segment %s: %s: damaged at %d (%d bytes): %s", e.Path, e.Section, e.Offset, e.Length, e.Reason)
}

func (s *Segment) damage(section string, at span, reason string) *DamageError {
	return &DamageError{Path: s.name, Section: section, Offset: at.off, Length: at.len, Reason: reason}
}

// check compares the checksums of the pages of a span. It compares each page once.
func (s *Segment) check(p span, section string) error {
	if p.len <= 0 {
		return nil
	}
	for page := p.off >> pageBits; page <= (p.off+p.len-1)>>pageBits; page++ {
		word, bit := &s.checked[page>>6], uint64(1)<<(page&63)
		if word.Load()&bit != 0 {
			continue
		}
		if err := s.checkPage(page, section); err != nil {
			return err
		}
		word.Or(bit)
	}
	return nil
}

// search returns the first of n entries, in order, that is not before what is sought, as
// sort.Search does. It checks each entry before reading it.
func search(n int, check func(i int) error, before func(i int) bool) (int, error) {
	lo, hi := 0, n
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if err := check(mid); err != nil {
			return 0, err
		}
		if before(mid) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, nil
}

func (s *Segment) checkPage(page int64, section string) error {
	from := page << pageBits
	to := min(from+pageSize, s.body)
	got := crc32.Checksum(s.image[from:to], castagnoli)
	if want := binary.LittleEndian.Uint32(s.sums[page*4:]); got != want {
		return s.damage(section, span{from, to - from}, fmt.Sprintf("checksum %08x, want %08x", got, want))
	}
	return nil
}

func newBitmap(pages int64) []atomic.Uint64 { return make([]atomic.Uint64, (pages+63)/64) }

// An output writes the body of a segment and takes the checksums of its pages.
type output struct {
	w    io.Writer
	off  int64
	crc  uint32
	sums []uint32
	err  error
	buf  []byte // scratch of the encodings
}

// newOutput returns an output of a segment with about some rows: the encodings
// gather up to 64 KiB before they write, and less for the small images that single
// appends make.
func newOutput(w io.Writer, rows int) *output {
	return &output{w: w, buf: make([]byte, min(max(rows, 64)*8, 64<<10))}
}

// bytes writes b. The first error stays in o.err.
func (o *output) bytes(b []byte) {
	if o.err != nil || len(b) == 0 {
		return
	}
	if _, err := o.w.Write(b); err != nil {
		o.err = err
		return
	}
	for len(b) > 0 {
		n := min(int64(len(b)), pageSize-o.off&(pageSize-1))
		o.crc = crc32.Update(o.crc, castagnoli, b[:n])
		o.off += n
		b = b[n:]
		if o.off&(pageSize-1) == 0 {
			o.sums = append(o.sums, o.crc)
			o.crc = 0
		}
	}
}

func (o *output) align() {
	var zero [64]byte
	if n := o.off & 63; n != 0 {
		o.bytes(zero[n:])
	}
}

func (o *output) begin() int64 {
	o.align()
	return o.off
}

// since returns the section that began at off.
func (o *output) since(off int64) span { return span{off, o.off - off} }

func (o *output) section(b []byte) span {
	off := o.begin()
	o.bytes(b)
	return o.since(off)
}

// pages ends the body and returns the checksums.
func (o *output) pages() []uint32 {
	o.align()
	if o.off&(pageSize-1) != 0 {
		o.sums = append(o.sums, o.crc)
		o.crc = 0
	}
	return o.sums
}

// number is what arrays in segments are made of.
type number interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// bytesOf returns numbers as the bytes they are stored as, without a copy.
func bytesOf[T number](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T))))
}

// viewOf returns a section as numbers, without a copy. Sections begin on multiples
// of 64 and the image on one of eight.
func viewOf[T number](s *Segment, p span) []T {
	n := p.len / int64(unsafe.Sizeof(*new(T)))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&s.image[p.off])), n)
}
