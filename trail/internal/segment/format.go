package segment

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// The fixed parts of a segment. docs/trail-format.md lists what changes them.
const (
	headMagic   = "TRAILSEG"
	tailMagic   = "TRL1"
	version     = 1
	byteOrder   = 0x01020304
	headerSize  = 64
	trailerSize = 32
	slack       = 8 // zero bytes after packed numbers, so that eight bytes can be loaded from the last
)

// The records of the footer. A reader refuses odd tags that it does not know and
// passes over even ones.
const (
	tagSummary = 1
	tagUsers   = 3
	tagTimes   = 5
	tagColumn  = 7
	tagPages   = 9
	tagGaps    = 11 // in place of tagTimes
	tagHalves  = 13 // in place of tagUsers
	tagSets    = 2
	tagBlocks  = 4
)

// The names of sections in errors.
const (
	nameHeader  = "header"
	nameFooter  = "footer"
	nameTrailer = "trailer"
	nameUsers   = "user index"
	nameIDs     = "user ids"
	nameTimes   = "times"
	nameEvents  = "events"
	nameEventID = "event ids"
	nameSets    = "event sets"
	nameBlocks  = "block summaries"
)

// A role is what a column holds.
type role uint8

const (
	roleProperty role = iota
	roleEvents
	roleIDs
)

// An encoding is the layout of a column's codes.
type encoding uint8

const (
	encConstant encoding = iota
	encPlain
	encPacked
	encSparse
	encUser
	encRuns
	encRaw
	encRawSparse
	encDigits
	encPresent
	encUserSparse
	encEnd
)

func (e encoding) String() string {
	return [...]string{"constant", "plain", "packed", "sparse", "user", "runs", "raw", "raw-sparse", "digits", "present", "user-sparse"}[e]
}

// maxCodes is the largest number of codes of a column. 32-bit machines support half
// of it, and refuse files with more.
const maxCodes = min(math.MaxUint32, math.MaxInt)

// A dictKind is a kind of dictionary: how codes stand for values.
type dictKind uint8

const (
	dictNone       dictKind = iota // raw values
	dictRange                      // (min + code - 1) / 10^scale
	dictValues                     // sorted values of eight bytes
	dictText                       // sorted strings, whose ends have four bytes
	dictBool                       // 1 false, 2 true
	dictPackedText                 // sorted strings, whose ends are packed
	dictEnd
)

// A section is a named span, for errors.
type section struct {
	name string
	span span
}

func appendHeader(b []byte) []byte {
	b = append(b, headMagic...)
	b = binary.LittleEndian.AppendUint16(b, version)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, pageSize)
	b = binary.LittleEndian.AppendUint32(b, byteOrder)
	return append(b, make([]byte, headerSize-20)...)
}

// appendTrailer returns the last 32 bytes of a segment with a footer at off.
func appendTrailer(b []byte, off int64, footer []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(off))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(footer)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(footer, castagnoli))
	b = binary.LittleEndian.AppendUint64(b, uint64(off)+uint64(len(footer))+trailerSize)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
	return append(b, tailMagic...)
}

// A record gathers the fields of one record of the footer.
type record []byte

func (r *record) uint(v uint64) { *r = binary.AppendUvarint(*r, v) }
func (r *record) int(v int64)   { *r = binary.AppendVarint(*r, v) }
func (r *record) text(s string) { r.uint(uint64(len(s))); *r = append(*r, s...) }
func (r *record) span(p span)   { r.uint(uint64(p.off)); r.uint(uint64(p.len)) }
func (r record) end(tag byte, footer []byte) []byte {
	footer = append(footer, tag)
	footer = binary.AppendUvarint(footer, uint64(len(r)))
	return append(footer, r...)
}

// A meta is the record of a column in the footer.
type meta struct {
	role    role
	name    string
	typ     event.Type
	missing int
	codes   int

	dict  dictKind
	min   int64
	scale int
	terms span // dictValues: values; of strings: ends
	text  span
	ends  int // bits of an end, of dictPackedText

	enc    encoding
	fixed  uint32 // the code of constant, the default of sparse, the least one of digits
	width  int    // bytes of a code, bits of a packed one, or the base of digits
	count  int    // exceptions, runs, or rows with a value
	data   span   // codes or values
	places span   // rows of exceptions, lengths of runs, or which rows have a value
	index  span   // of runs, exceptions or rows with a value
	others span   // codes of the exceptions of user-sparse
}

func (m *meta) append(r *record) {
	r.uint(uint64(m.role))
	r.text(m.name)
	r.uint(uint64(m.typ))
	r.uint(uint64(m.missing))
	r.uint(uint64(m.codes))
	r.uint(uint64(m.dict))
	switch m.dict {
	case dictRange:
		r.int(m.min)
		r.uint(uint64(m.scale))
	case dictValues:
		r.span(m.terms)
	case dictText:
		r.span(m.terms)
		r.span(m.text)
	case dictPackedText:
		r.uint(uint64(m.ends))
		r.span(m.terms)
		r.span(m.text)
	}
	r.uint(uint64(m.enc))
	switch m.enc {
	case encConstant:
		r.uint(uint64(m.fixed))
	case encPlain, encPacked, encUser:
		r.uint(uint64(m.width))
		r.span(m.data)
	case encSparse:
		r.uint(uint64(m.fixed))
		r.uint(uint64(m.width))
		r.uint(uint64(m.count))
		r.span(m.places)
		r.span(m.data)
	case encRuns:
		r.uint(uint64(m.width))
		r.uint(uint64(m.count))
		r.span(m.places)
		r.span(m.data)
		r.span(m.index)
	case encDigits:
		r.uint(uint64(m.fixed))
		r.uint(uint64(m.width))
		r.span(m.data)
	case encPresent:
		r.uint(uint64(m.width))
		r.uint(uint64(m.count))
		r.span(m.places)
		r.span(m.index)
		r.span(m.data)
	case encUserSparse:
		r.uint(uint64(m.width))
		r.uint(uint64(m.count))
		r.span(m.data)
		r.span(m.places)
		r.span(m.index)
		r.span(m.others)
	case encRaw:
		r.span(m.data)
	case encRawSparse:
		r.uint(uint64(m.count))
		r.span(m.places)
		r.span(m.data)
	}
}

func (m *meta) section() string {
	switch m.role {
	case roleEvents:
		return nameEvents
	case roleIDs:
		return nameEventID
	}
	return "column " + m.name
}

func (m *meta) dictSection() string {
	if m.role == roleEvents {
		return "dictionary of events"
	}
	return "dictionary " + m.name
}

// A cursor reads the fields of a record. After the first missing field it returns
// zeros, and bad is set.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) uint(limit uint64) uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 || v > limit || c.bad {
		c.bad = true
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) int() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 || c.bad {
		c.bad = true
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) text() string {
	n := c.uint(uint64(len(c.b)))
	if c.bad || n > uint64(len(c.b)) {
		c.bad = true
		return ""
	}
	s := string(c.b[:n])
	c.b = c.b[n:]
	return s
}

// span reads a section that holds n entries of a size and extra bytes.
func (c *cursor) span(body int64, n, size, extra int64) span {
	p := c.anySpan(body)
	if p.len != n*size+extra {
		c.bad = true
		return span{}
	}
	return p
}

func (c *cursor) anySpan(body int64) span {
	p := span{off: int64(c.uint(math.MaxInt64)), len: int64(c.uint(math.MaxInt64))}
	if p.off < headerSize || p.off&63 != 0 || p.off > body || p.len > body-p.off {
		c.bad = true
		return span{}
	}
	return p
}

// packedBytes returns how long n packed numbers of some bits are, slack included.
func packedBytes(n, bits int64) int64 { return (n*bits+7)/8 + slack }
