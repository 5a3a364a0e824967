package segment

import (
	"encoding/binary"
	"math/bits"
)

// A packer writes numbers of a fixed count of bits one after another, the lowest
// bits first.
type packer struct {
	o    *output
	bits int64
	acc  uint64
	n    int64 // bits in acc
	fill int
	off  int64 // of the output when it began
}

// written returns the whole bytes so far.
func (p *packer) written() int64 { return p.o.off - p.off + int64(p.fill) }

func newPacker(o *output, bits int64) *packer { return &packer{o: o, bits: bits, off: o.off} }

// put writes v, which must fit into the packer's bits. They are at most 56.
func (p *packer) put(v uint64) {
	p.acc |= v << p.n
	p.n += p.bits
	for p.n >= 8 {
		if p.fill == len(p.o.buf) {
			p.o.bytes(p.o.buf)
			p.fill = 0
		}
		p.o.buf[p.fill] = byte(p.acc)
		p.fill++
		p.acc >>= 8
		p.n -= 8
	}
}

// end writes the last bits and the slack.
func (p *packer) end() {
	p.o.bytes(p.o.buf[:p.fill])
	var rest [slack + 1]byte
	rest[0] = byte(p.acc)
	if p.n > 0 {
		p.o.bytes(rest[:])
	} else {
		p.o.bytes(rest[1:])
	}
}

func pack(o *output, values []uint32, width int64) span {
	off := o.begin()
	buf := o.buf
	var acc uint64
	var n int64
	fill := 0
	for _, v := range values {
		acc |= uint64(v) << n
		n += width
		if n >= 32 { // at most 31 + 32 bits
			if fill+4 > len(buf) {
				o.bytes(buf[:fill])
				fill = 0
			}
			binary.LittleEndian.PutUint32(buf[fill:], uint32(acc))
			fill += 4
			acc >>= 32
			n -= 32
		}
	}
	o.bytes(buf[:fill])
	var rest [4 + slack]byte
	binary.LittleEndian.PutUint32(rest[:], uint32(acc))
	used := (n + 7) / 8
	o.bytes(rest[:used])
	clear(rest[:])
	o.bytes(rest[:slack])
	return o.since(off)
}

// narrow writes codes of a width in bytes as a section.
func narrow(o *output, codes []uint32, width int) span {
	off := o.begin()
	switch width {
	case 1:
		for len(codes) > 0 {
			n := min(len(codes), len(o.buf))
			buf := o.buf[:n]
			for i, c := range codes[:n] {
				buf[i] = uint8(c)
			}
			o.bytes(buf)
			codes = codes[n:]
		}
	case 2:
		for len(codes) > 0 {
			n := min(len(codes), len(o.buf)/2)
			for i, c := range codes[:n] {
				binary.LittleEndian.PutUint16(o.buf[2*i:], uint16(c))
			}
			o.bytes(o.buf[:2*n])
			codes = codes[n:]
		}
	default:
		o.bytes(bytesOf(codes))
	}
	return o.since(off)
}

func codeWidth(codes int) int {
	switch {
	case codes <= 1<<8:
		return 1
	case codes <= 1<<16:
		return 2
	}
	return 4
}

// A shape has the properties of codes that decide their encoding.
type shape struct {
	common     uint32 // the code that more than half of the rows have, if any does
	exceptions int    // rows that do not have it
	runs       int    // runs of at most 255 rows
	perUser    bool   // all rows of a user have one code
	least, top uint32 // codes
	missing    int    // rows with code 0

	each    []uint32 // by user, the code that most of the rows have; nil if that is not worth a look
	patches int      // rows that do not have it
}

// other returns 1 if two codes differ and 0 if they do not, without a branch.
func other(a, b uint32) uint64 { return (uint64(a^b) + 1<<32 - 1) >> 32 }

func measure(codes, rowStart []uint32) shape {
	var s shape
	votes, length := 0, 0
	last := ^uint32(0)
	user, next := 0, uint32(0)
	s.perUser = true
	for i, c := range codes {
		switch {
		case votes == 0:
			s.common, votes = c, 1
		case c == s.common:
			votes++
		default:
			votes--
		}
		first := uint32(i) == next
		if first {
			user++
			next = rowStart[user]
		}
		if c != last {
			s.perUser = s.perUser && first
			last, length = c, 0
			s.runs++
		} else if length == 255 {
			length = 0
			s.runs++
		}
		length++
	}
	s.least, s.missing = ^uint32(0), len(codes)
	for _, c := range codes {
		s.exceptions += int(other(c, s.common))
		s.missing -= int(other(c, 0))
		s.least, s.top = min(s.least, c), max(s.top, c)
	}
	if users := len(rowStart) - 1; !s.perUser && s.runs < len(codes)/2 && users < len(codes)/4 {
		s.each, s.patches = patches(codes, rowStart)
	}
	return s
}

// choose returns the encoding that costs least, for a column that a share of the questions read.
func choose(s shape, rows, users, codes int, share float64) encoding {
	if s.exceptions == 0 {
		return encConstant
	}
	width := codeWidth(codes)
	best, least := encPlain, float64(rows*width)*byteCost
	try := func(enc encoding, bytes float64, units int) {
		if cost := paces[enc].cost(bytes, rows, units, share); cost < least {
			best, least = enc, cost
		}
	}
	try(encPacked, float64(rows*bits.Len(uint(codes-1)))/8+slack, 0)
	try(encSparse, float64(s.exceptions*(4+width)), s.exceptions)
	try(encRuns, float64(s.runs*(1+width))+float64(rows)*8/runBlock, s.runs)
	if s.perUser {
		try(encUser, float64(users*width), users)
	}
	if s.each != nil {
		try(encUserSparse, float64(users*width+s.patches*(2+width)+(rows/stripe+2)*4), users)
	}
	if base := int(s.top-s.least) + 1; base > 1 && base <= maxBase {
		try(encDigits, float64(digitBytes(int64(rows), base)), 0)
	}
	if s.missing > 0 {
		try(encPresent, presentBytes(rows, s.missing, codes), rows-s.missing)
	}
	return best
}

// chooseTimes returns whether times cost less as gaps than packed, and the bits of a packed one:
// 32, which need no unpacking, if that costs less.
func chooseTimes(g gapShape, rows, users int, width int64) (asGaps bool, packed int64) {
	const padding = 4 * 32 // of more sections
	least := paceTimes.cost(float64(packedBytes(int64(rows), width)), rows, 0, readAlways)
	if plain := float64(4*rows) * byteCost; plain < least {
		least, width = plain, 32
	}
	return paceGaps.cost(float64(g.bytes+padding), rows, users, readAlways) < least, width
}

// writeCodes writes the codes of a column in the encoding that choose returns.
func writeCodes(o *output, m *meta, codes, rowStart []uint32) {
	s, share := measure(codes, rowStart), readProperty
	if m.role == roleEvents {
		share = readAlways
	}
	writeCodesAs(o, m, codes, rowStart, s, choose(s, len(codes), len(rowStart)-1, m.codes, share))
}

func writeCodesAs(o *output, m *meta, codes, rowStart []uint32, s shape, enc encoding) {
	m.enc = enc
	m.width = codeWidth(m.codes)
	switch enc {
	case encConstant:
		m.fixed = s.common
	case encPlain:
		m.data = narrow(o, codes, m.width)
	case encPacked:
		m.width = bits.Len(uint(m.codes - 1))
		m.data = pack(o, codes, int64(m.width))
	case encSparse:
		writeSparse(o, m, codes, s)
	case encUser:
		writePerUser(o, m, codes, rowStart)
	case encRuns:
		writeRuns(o, m, codes, s)
	case encDigits:
		writeDigits(o, m, codes, int(s.least), int(s.top-s.least)+1)
	case encPresent:
		writePresent(o, m, codes)
	case encUserSparse:
		writeUserSparse(o, m, codes, rowStart, s.each, s.patches)
	}
}

func writeSparse(o *output, m *meta, codes []uint32, s shape) {
	m.fixed, m.count = s.common, s.exceptions
	rows := make([]uint32, 0, s.exceptions)
	others := make([]uint32, 0, s.exceptions)
	for i, c := range codes {
		if c != s.common {
			rows = append(rows, uint32(i))
			others = append(others, c)
		}
	}
	m.places = o.section(bytesOf(rows))
	m.data = narrow(o, others, m.width)
}

func writePerUser(o *output, m *meta, codes, rowStart []uint32) {
	each := make([]uint32, len(rowStart)-1)
	for u := range each {
		each[u] = codes[rowStart[u]]
	}
	m.data = narrow(o, each, m.width)
}

func writeRuns(o *output, m *meta, codes []uint32, s shape) {
	lengths := make([]uint8, 0, s.runs)
	values := make([]uint32, 0, s.runs)
	index := make([]uint64, 0, len(codes)/runBlock+1)
	length := 0
	for i, c := range codes {
		if n := len(values); n > 0 && values[n-1] == c && length < 255 {
			length++
		} else {
			if n > 0 {
				lengths = append(lengths, uint8(length))
			}
			values = append(values, c)
			length = 1
		}
		if i%runBlock == 0 {
			index = append(index, uint64(len(values)-1)<<8|uint64(length-1))
		}
	}
	lengths = append(lengths, uint8(length))
	m.count = len(values)
	m.places = o.section(lengths)
	m.data = narrow(o, values, m.width)
	m.index = o.section(bytesOf(index))
}

// writeRaw writes raw values. If most are missing, it leaves those out.
func writeRaw(o *output, m *meta, values []uint64) {
	none := RawMissing(m.typ)
	present := len(values) - m.missing
	if int64(present)*12 >= int64(len(values))*8 {
		m.enc = encRaw
		m.data = o.section(bytesOf(values))
		return
	}
	m.enc, m.count = encRawSparse, present
	rows := make([]uint32, 0, present)
	off := make([]uint64, 0, present)
	for i, v := range values {
		if v != none {
			rows = append(rows, uint32(i))
			off = append(off, v)
		}
	}
	m.places = o.section(bytesOf(rows))
	m.data = o.section(bytesOf(off))
}

// writeSets writes the event sets of users, if there are at most 64 names.
func writeSets(o *output, names int, codes, rowStart []uint32) (at span, ok bool) {
	if names > 64 {
		return span{}, false
	}
	width := setWidth(names)
	off := o.begin()
	fill := 0
	for u := range len(rowStart) - 1 {
		var set uint64
		for _, c := range codes[rowStart[u]:rowStart[u+1]] {
			set |= 1 << ((c - 1) & 63)
		}
		if fill+8 > len(o.buf) {
			o.bytes(o.buf[:fill])
			fill = 0
		}
		binary.LittleEndian.PutUint64(o.buf[fill:], set)
		fill += width
	}
	o.bytes(o.buf[:fill])
	return o.since(off), true
}
