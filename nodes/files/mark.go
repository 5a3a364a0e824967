package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// printSize is how many bytes of the beginning of a file, and in front of a place in it,
// distinguish it from another.
const printSize = 1 << 10

// A position is a place in a file, after unpacking.
type position struct{ offset, line int64 }

// A fingerprint identifies how a file begins.
type fingerprint struct {
	sum  string // in hexadecimal, of the first size bytes
	size int    // at most printSize
}

// A place identifies what a file has just in front of some offset. Zero identifies nothing.
type place struct {
	sum string // in hexadecimal, of up to printSize bytes
	at  int64
}

// A mark is a position that is kept, with what it was a position of.
type mark struct {
	position
	fingerprint
	place // at or before the position; of a packed file, or a table, at its end as it is on the disk
	cut   int
	// origin is the file that the messages have their ids from, before it was copied or
	// compressed. Zero in marks of 4d86ea6: it is the file itself.
	origin fileID
	path   string
}

// markWords is how many words a mark of 4d86ea6 begins with, before the path, and markWords2
// how many one has now that begins with v2.
const markWords, markWords2 = 5, 9

func (m mark) String() string {
	proof := "-"
	if m.place.at > 0 {
		proof = m.place.sum
	}
	return fmt.Sprintf("v2 %d %d %d %d %s %d %s %s %s", m.offset, m.line, m.cut, m.size, m.fingerprint.sum, m.place.at, proof, m.origin.name(), m.path)
}

// parseMark reads a mark; not ok if the text is not one.
func parseMark(text string) (m mark, ok bool) {
	count := markWords
	if rest, now := strings.CutPrefix(text, "v2 "); now {
		text, count = rest, markWords2-1
	}
	words := strings.SplitN(text, " ", count+1)
	if len(words) <= count {
		return mark{}, false
	}
	var errs [5]error
	m.offset, errs[0] = strconv.ParseInt(words[0], 10, 64)
	m.line, errs[1] = strconv.ParseInt(words[1], 10, 64)
	m.cut, errs[2] = strconv.Atoi(words[2])
	m.size, errs[3] = strconv.Atoi(words[3])
	m.fingerprint.sum, m.path = words[4], words[count]
	if count > markWords {
		m.place.at, errs[4] = strconv.ParseInt(words[5], 10, 64)
		if m.place.at > 0 {
			m.place.sum = words[6]
		}
		var okID bool
		if m.origin, okID = parseID(words[7]); !okID {
			return mark{}, false
		}
	}
	return m, errors.Join(errs[:]...) == nil && m.offset >= 0 && m.line >= 1 && m.cut >= 0 && m.size >= 0 && m.size <= printSize && m.place.at >= 0
}

// fits reports whether a file may be the one of the mark: first if it begins so, and whole
// if it also has what is in front of the place. A mark of 4d86ea6 has no place: what
// it covers is known if all of it was in the fingerprint.
func (m mark) fits(f io.ReaderAt) (first, whole bool, err error) {
	fp, err := printOf(f, m.size)
	if err != nil || fp != m.fingerprint {
		return false, false, err
	}
	if m.place.at == 0 {
		return true, m.offset <= int64(m.size), nil
	}
	at, err := placeOf(f, m.place.at)
	return true, at == m.place, err
}

// printOf returns the fingerprint of the first bytes of a file, at most size.
func printOf(f io.ReaderAt, size int) (fingerprint, error) {
	sum, n, err := sumOf(f, 0, size)
	return fingerprint{sum, n}, err
}

// placeOf returns a place of a file, or its end if that comes before.
func placeOf(f io.ReaderAt, at int64) (place, error) {
	if at == 0 {
		return place{}, nil
	}
	from := max(0, at-printSize)
	sum, n, err := sumOf(f, from, int(at-from))
	return place{sum, from + int64(n)}, err
}

func sumOf(f io.ReaderAt, from int64, size int) (sum string, n int, err error) {
	var buf [printSize]byte
	n, err = f.ReadAt(buf[:size], from)
	if err != nil && err != io.EOF {
		return "", 0, err
	}
	h := sha256.Sum256(buf[:n])
	return hex.EncodeToString(h[:16]), n, nil
}

// A forward reads at offsets of a stream: any within its beginning, and none again after it.
type forward struct {
	src  io.Reader
	head []byte
	next int64 // what src comes to
}

// newForward keeps as much as a fingerprint and a place have in common.
func newForward(src io.Reader) (*forward, error) {
	head := make([]byte, 2*printSize)
	n, err := io.ReadFull(src, head)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return &forward{src, head[:n], int64(n)}, err
}

// ReadAt implements [io.ReaderAt] for offsets that grow.
func (f *forward) ReadAt(b []byte, off int64) (n int, err error) {
	if off < int64(len(f.head)) {
		n = copy(b, f.head[off:])
		b, off = b[n:], off+int64(n)
	}
	if len(b) == 0 {
		return n, nil
	}
	if _, err := io.CopyN(io.Discard, f.src, off-f.next); err != nil {
		return n, err
	}
	more, err := io.ReadFull(f.src, b)
	f.next = off + int64(more)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n + more, err
}
