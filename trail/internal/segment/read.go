package segment

import (
	"sort"
	"unsafe"
)

// runBlock is how many rows an entry of a run index stands for.
const runBlock = 1024

// code is what codes are read as.
type code interface {
	uint8 | uint16 | uint32
}

// Codes are codes of the width that a segment keeps them in: one of the slices is
// set, unless there are none.
type Codes struct {
	U8  []uint8
	U16 []uint16
	U32 []uint32
}

// At returns the code at i.
func (c Codes) At(i int) uint32 {
	switch {
	case c.U8 != nil:
		return uint32(c.U8[i])
	case c.U16 != nil:
		return uint32(c.U16[i])
	}
	return c.U32[i]
}

// Read8 returns the codes of rows [lo,hi) of a column with at most 256 codes. The
// result is in the mapped file if they are stored as such; otherwise dst is filled, or a
// longer slice if it is too short. The caller must not write to the result.
func (c *Column) Read8(dst []uint8, lo, hi int) []uint8 {
	if c.enc == encPlain && c.width == 1 {
		return c.data8[lo:hi:hi]
	}
	dst = sized(dst, hi-lo)
	read(c, dst, lo, hi)
	return dst
}

// Map8 fills dst, or a longer one if it is too short, with what a table has for the
// codes of rows [lo,hi) of a column with at most 256 codes: for runs and users with
// one code it is looked up once.
func (c *Column) Map8(dst []uint8, table *[256]uint8, lo, hi int) []uint8 {
	dst = sized(dst, hi-lo)
	switch {
	case c.enc == encUser && c.width == 1:
		spread(dst, &c.s.starts, c.data8, table, c.s.userOf(lo), lo)
	case c.enc == encRuns && c.width == 1:
		expand(dst, c.runs, c.data8, table, c.blocks, lo)
	case c.enc == encPacked && c.width <= 4:
		mapPacked(dst, c.packed, table, lo, uint64(c.width))
	case c.enc == encDigits && len(dst) >= digitsWorth:
		var mapped digitTable
		c.digitTable().through(&mapped, table, digitsIn(c.width))
		readDigits(dst, c.data8, &mapped, digitsIn(c.width), lo)
	case c.enc == encUserSparse && c.width == 1:
		spread(dst, &c.s.starts, c.data8, table, c.s.userOf(lo), lo)
		patch(c, dst, viewOf[uint8](c.s, c.others), table, lo)
	default:
		for i, code := range c.Read8(dst, lo, hi)[:len(dst)] {
			dst[i] = table[code]
		}
	}
	return dst
}

// mapPacked fills dst with what a table has for packed codes of at most four bits from
// lo on. It looks up two codes at a time, and stores eight.
func mapPacked(dst []uint8, b []byte, table *[256]uint8, lo int, w uint64) {
	if len(dst) == 0 {
		return
	}
	var pairs [256]uint16
	for i := range pairs[:1<<(2*w&15)] {
		pairs[i] = uint16(table[i&(1<<w-1)]) | uint16(table[i>>(w&7)])<<8
	}
	bit := uint64(lo) * w
	_ = b[(bit+uint64(len(dst)-1)*w)>>3+7]
	base := unsafe.Pointer(unsafe.SliceData(b))
	mask, w2, w4, w6 := uint8(1<<(2*w)-1), 2*w&63, 4*w&63, 6*w&63
	i := 0
	for ; i+8 <= len(dst); i += 8 { // begun at any bit of a byte: 7 + 8*4 = 39
		v := *(*uint64)(unsafe.Add(base, bit>>3)) >> (bit & 7)
		*(*uint64)(unsafe.Pointer(&dst[i])) = uint64(pairs[uint8(v)&mask]) | uint64(pairs[uint8(v>>w2)&mask])<<16 |
			uint64(pairs[uint8(v>>w4)&mask])<<32 | uint64(pairs[uint8(v>>w6)&mask])<<48
		bit += 8 * w
	}
	for ; i < len(dst); i++ {
		v := *(*uint64)(unsafe.Add(base, bit>>3)) >> (bit & 7)
		dst[i] = table[v&(1<<w-1)]
		bit += w
	}
}

// Read16 does the same as Read8 for a column with at most 65536 codes.
func (c *Column) Read16(dst []uint16, lo, hi int) []uint16 {
	if c.enc == encPlain && c.width == 2 {
		return c.data16[lo:hi:hi]
	}
	dst = sized(dst, hi-lo)
	read(c, dst, lo, hi)
	return dst
}

// Read32 does the same as Read8 for any column with codes.
func (c *Column) Read32(dst []uint32, lo, hi int) []uint32 {
	if c.enc == encPlain && c.width == 4 {
		return c.data32[lo:hi:hi]
	}
	dst = sized(dst, hi-lo)
	read(c, dst, lo, hi)
	return dst
}

// ReadRaw returns the values of rows [lo,hi) of a raw column: integers in two's
// complement, numbers as IEEE 754, RawMissing for no value. dst is used as by
// Read8.
func (c *Column) ReadRaw(dst []uint64, lo, hi int) []uint64 {
	if c.enc == encRaw {
		return c.data64[lo:hi:hi]
	}
	dst = sized(dst, hi-lo)
	fill(dst, RawMissing(c.typ))
	from := searchRow(c.places, lo)
	scatter(dst, c.places[from:], c.data64[from:], lo)
	return dst
}

// Default returns the code of nearly all rows of a column, and the rows in [lo,hi) that
// have another one, ascending, with their codes, both in the mapped file. It is not ok if
// the column is laid out in another way.
func (c *Column) Default(lo, hi int) (code uint32, rows []uint32, codes Codes, ok bool) {
	switch c.enc {
	case encConstant:
		return c.fixed, nil, Codes{}, true
	case encSparse:
	default:
		return 0, nil, Codes{}, false
	}
	from, to := searchRow(c.places, lo), searchRow(c.places, hi)
	if from >= to {
		return c.fixed, nil, Codes{}, true
	}
	switch c.width {
	case 1:
		codes.U8 = c.data8[from:to:to]
	case 2:
		codes.U16 = c.data16[from:to:to]
	default:
		codes.U32 = c.data32[from:to:to]
	}
	return c.fixed, c.places[from:to:to], codes, true
}

// read fills dst with the codes of rows [lo,hi).
func read[T code](c *Column, dst []T, lo, hi int) {
	switch c.enc {
	case encConstant:
		fill(dst, T(c.fixed))
	case encPacked:
		unpack(dst, c.packed, lo, int64(c.width))
	case encDigits:
		readDigits(dst, c.data8, c.digitTable(), digitsIn(c.width), lo)
	case encPresent:
		readPresent(c, dst, lo)
	default:
		switch c.width {
		case 1:
			readCodes(c, dst, c.data8, lo, hi)
		case 2:
			readCodes(c, dst, c.data16, lo, hi)
		case 4:
			readCodes(c, dst, c.data32, lo, hi)
		}
	}
}

func readCodes[D, S code](c *Column, dst []D, codes []S, lo, hi int) {
	switch c.enc {
	case encPlain:
		widen(dst, codes[lo:hi])
	case encSparse:
		fill(dst, D(c.fixed))
		from := searchRow(c.places, lo)
		scatter(dst, c.places[from:], codes[from:], lo)
	case encUser:
		spread(dst, &c.s.starts, codes, nil, c.s.userOf(lo), lo)
	case encRuns:
		expand(dst, c.runs, codes, nil, c.blocks, lo)
	case encUserSparse:
		spread(dst, &c.s.starts, codes, nil, c.s.userOf(lo), lo)
		patch(c, dst, viewOf[S](c.s, c.others), nil, lo)
	}
}

// fill sets all entries, by doubling: copy moves more at a time than a loop.
func fill[T number](dst []T, v T) {
	const first = 32
	for i := range dst[:min(first, len(dst))] {
		dst[i] = v
	}
	for n := first; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

func widen[D, S number](dst []D, src []S) {
	if len(dst) > len(src) {
		return
	}
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] = D(v)
	}
}

// searchRow returns the first place that is not before a row. It looks where
// checkPlaces did.
func searchRow(places []uint32, row int) int {
	return sort.Search(len(places), func(i int) bool { return int(places[i]) >= row })
}

// scatter sets the exceptions of the rows from lo on.
func scatter[D, S number](dst []D, places []uint32, codes []S, lo int) {
	codes = codes[:len(places)]
	for i, row := range places {
		at := int(row) - lo
		if uint(at) >= uint(len(dst)) {
			return
		}
		dst[at] = D(codes[i])
	}
}

// spread gives the rows from lo on the code of their user, or what a table has for
// it.
func spread[D, S code](dst []D, starts *rowStarts, codes []S, table *[256]uint8, user, lo int) {
	at := 0
	for ; at < len(dst) && user < len(codes); user++ {
		end := starts.row(user+1) - lo
		at = stretch(dst, at, end, through[D](codes[user], table))
	}
}

// expand gives the rows from lo on the code of their run, or what a table has for
// it. The index has the run of every 1024th row, and how many of its rows lie before.
func expand[D, S code](dst []D, runs []uint8, codes []S, table *[256]uint8, blocks []uint64, lo int) {
	if len(dst) == 0 {
		return
	}
	entry := blocks[lo/runBlock]
	run := int(entry >> 8)
	at := lo&^(runBlock-1) - int(entry&255) - lo // of the run's first row, at most 0
	for run < len(runs) && at+int(runs[run]) <= 0 {
		at += int(runs[run])
		run++
	}
	codes = codes[:len(runs)]
	end := at
	at = 0
	for ; at < len(dst) && run < len(runs); run++ {
		end += int(runs[run])
		at = stretch(dst, at, end, through[D](codes[run], table))
	}
}

func through[D, S code](c S, table *[256]uint8) D {
	if table == nil {
		return D(c)
	}
	return D(table[uint8(c)])
}

// wide is how many entries stretch sets at a time: most runs are shorter, and a
// fixed number needs no loop.
const wide = 8

// stretch sets the entries [at,end) and returns end, or the length if that is less.
// It may set entries after end, which are not set yet.
func stretch[T code](dst []T, at, end int, v T) int {
	for len(dst)-at >= wide {
		set8(&dst[at], v)
		if end-at <= wide {
			return max(end, at)
		}
		at += wide
	}
	end = min(end, len(dst))
	for i := at; i < end; i++ {
		dst[i] = v
	}
	return max(end, at)
}

// set8 sets the eight entries from p on, as few words.
func set8[T code](p *T, v T) {
	switch unsafe.Sizeof(v) {
	case 1:
		*(*uint64)(unsafe.Pointer(p)) = uint64(v) * 0x0101010101010101
	case 2:
		w := uint64(v) * 0x0001000100010001
		*(*[2]uint64)(unsafe.Pointer(p)) = [2]uint64{w, w}
	case 4:
		w := uint64(v) | uint64(v)<<32
		q := (*[4]uint64)(unsafe.Pointer(p))
		q[0], q[1], q[2], q[3] = w, w, w, w
	}
}
