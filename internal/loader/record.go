package loader

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strconv"
)

// A journal is lines: a CRC32C in hexadecimal, a space, and the JSON object that
// it is of. The first line is a header.
//
//	1f2e3d4c {"journal":1,"file":0,"offset":0,"events":0,"batches":0}
//	5a6b7c8d {"key":"p/1/0/1","file":1,"offset":0,"length":310,"accepted":2}
//	9e8f7a6b {"file":1,"offset":310,"length":155,"accepted":1,"rejected":[{"index":1,…}]}
//
// Fields are in this order and without white space, so that reading them back
// takes no JSON parser: a start with a million keys reads them all.

// A record is one line of a journal.
type record struct {
	header   bool
	key      string // empty for none
	span     Span   // of a header, the position that it begins at
	accepted uint64 // events; of a header, those before it
	batches  uint64 // of a header, those before it
	rejected []byte // verdicts as JSON, without the brackets
}

// crcSize is the length of the check before each object, with its space.
const crcSize = 9

// castagnoli returns the table of CRC32C, which processors compute themselves.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// append appends the line of a record.
func (r *record) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, "00000000 {"...)
	if r.header {
		dst = append(dst, `"journal":1,`...)
	} else if r.key != "" {
		dst = append(dst, `"key":`...)
		dst = append(appendString(dst, r.key), ',')
	}
	number := func(name string, v uint64) {
		dst = append(dst, name...)
		dst = strconv.AppendUint(dst, v, 10)
	}
	number(`"file":`, r.span.File)
	number(`,"offset":`, uint64(r.span.Offset))
	if r.header {
		number(`,"events":`, r.accepted)
		number(`,"batches":`, r.batches)
	} else {
		number(`,"length":`, uint64(r.span.Length))
		number(`,"accepted":`, r.accepted)
		if len(r.rejected) > 0 {
			dst = append(dst, `,"rejected":[`...)
			dst = append(append(dst, r.rejected...), ']')
		}
	}
	dst = append(dst, '}')
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(dst[start+crcSize:], castagnoli()))
	hex.Encode(dst[start:], sum[:])
	return append(dst, '\n')
}

// parseRecord reads a line, without its newline. Only what append writes is
// read, byte for byte. The record shares the line's memory.
func parseRecord(line []byte) (r record, ok bool) {
	var sum [4]byte
	if len(line) < crcSize || line[crcSize-1] != ' ' {
		return r, false
	}
	if _, err := hex.Decode(sum[:], line[:crcSize-1]); err != nil {
		return r, false
	}
	c := cursor{text: line[crcSize:], ok: true}
	if crc32.Checksum(c.text, castagnoli()) != binary.BigEndian.Uint32(sum[:]) {
		return r, false
	}
	c.want(`{`)
	r.header = c.has(`"journal":1,`)
	if !r.header && c.has(`"key":`) {
		r.key = c.quoted()
		c.want(`,`)
	}
	c.want(`"file":`)
	r.span.File = c.number()
	c.want(`,"offset":`)
	r.span.Offset = c.size()
	if r.header {
		c.want(`,"events":`)
		r.accepted = c.number()
		c.want(`,"batches":`)
		r.batches = c.number()
	} else {
		c.want(`,"length":`)
		r.span.Length = c.size()
		c.want(`,"accepted":`)
		r.accepted = c.number()
		if c.has(`,"rejected":[`) {
			n := bytes.LastIndexByte(c.text, ']')
			if n <= 0 {
				return r, false
			}
			r.rejected, c.text = c.text[:n], c.text[n+1:]
		}
	}
	c.want(`}`)
	return r, c.ok && len(c.text) == 0 && r.span.Offset+r.span.Length >= 0
}

// A cursor reads what is expected. After something else ok is false for good.
type cursor struct {
	text []byte
	ok   bool
}

// has steps over a text if it is next.
func (c *cursor) has(text string) bool {
	if len(c.text) < len(text) || string(c.text[:len(text)]) != text {
		return false
	}
	c.text = c.text[len(text):]
	return true
}

func (c *cursor) want(text string) {
	if !c.has(text) {
		c.ok = false
	}
}

// number reads digits as strconv writes them.
func (c *cursor) number() uint64 {
	n := digits(c.text, 0)
	v, err := strconv.ParseUint(string(c.text[:n]), 10, 64)
	if err != nil || n > 1 && c.text[0] == '0' {
		c.ok = false
	}
	c.text = c.text[n:]
	return v
}

// size reads a number of bytes.
func (c *cursor) size() int64 {
	v := int64(c.number())
	if v < 0 {
		c.ok = false
	}
	return v
}

// quoted reads what appendString writes.
func (c *cursor) quoted() string {
	if n := bytes.IndexAny(c.text[min(1, len(c.text)):], `"\`); n >= 0 && c.text[0] == '"' && c.text[n+1] == '"' {
		s := string(c.text[1 : n+1])
		c.text = c.text[n+2:]
		return s
	}
	i, err := 0, error(nil)
	if len(c.text) == 0 || c.text[0] != '"' {
		c.ok = false
		return ""
	}
	if i, err = text(c.text, 0); err != nil {
		c.ok = false
		return ""
	}
	quoted := c.text[1 : i-1]
	c.text = c.text[i:]
	out := make([]byte, 0, len(quoted))
	for len(quoted) > 0 {
		switch {
		case quoted[0] != '\\':
			out, quoted = append(out, quoted[0]), quoted[1:]
		case quoted[1] == '"' || quoted[1] == '\\':
			out, quoted = append(out, quoted[1]), quoted[2:]
		case len(quoted) >= 6 && quoted[1] == 'u' && quoted[2] == '0' && quoted[3] == '0':
			v, err := strconv.ParseUint(string(quoted[4:6]), 16, 8)
			c.ok = c.ok && err == nil
			out, quoted = append(out, byte(v)), quoted[6:]
		default:
			c.ok = false
			return ""
		}
	}
	return string(out)
}
