package segment

import (
	"encoding/binary"
	"unsafe"
)

// Digits: as many codes as fit are the digits of one byte, the first one the lowest. A
// table of 256 entries has the codes of each byte, so that one look-up reads several
// rows.

// maxBase is the largest base of digits: two are in a byte.
const maxBase = 16

// digitsIn returns how many digits of a base are in a byte.
func digitsIn(base int) int {
	switch {
	case base <= 2:
		return 8
	case base <= 3:
		return 5
	case base <= 4:
		return 4
	case base <= 6:
		return 3
	}
	return 2
}

func digitBytes(rows int64, base int) int64 {
	k := int64(digitsIn(base))
	return (rows + k - 1) / k
}

// A digitTable has for each byte what its digits stand for, a byte each.
type digitTable [256]uint64

// digitsWorth is the number of rows for which it is worth to look up all entries of a
// table in another one.
const digitsWorth = 2048

// digitTable returns the codes of each byte.
func (c *Column) digitTable() *digitTable {
	if t := c.digits.Load(); t != nil {
		return t
	}
	t := new(digitTable)
	k := digitsIn(c.width)
	for b := range t {
		rest := uint64(b)
		for i := range k {
			t[b] |= (uint64(c.fixed) + rest%uint64(c.width)) & 0xff << (8 * i)
			rest /= uint64(c.width)
		}
	}
	c.digits.Store(t)
	return t
}

// through sets to to what a table has for the codes of each byte.
func (t *digitTable) through(to *digitTable, table *[256]uint8, k int) {
	for b, codes := range t {
		v := uint64(0)
		for i := range k {
			v |= uint64(table[uint8(codes>>(8*i))]) << (8 * i)
		}
		to[b] = v
	}
}

// readDigits fills dst with what a table has for the rows from lo on, k in a byte.
func readDigits[T code](dst []T, data []uint8, table *digitTable, k, lo int) {
	if len(dst) == 0 {
		return
	}
	data = data[lo/k : (lo+len(dst)+k-1)/k]
	at := 0
	if skip := lo % k; skip > 0 {
		at = setDigits(dst, table[data[0]]>>(8*skip), k-skip)
		data = data[1:]
	}
	if bytes, ok := any(dst[at:]).([]uint8); ok && k <= 4 {
		n := joinDigits(bytes, data, table, k)
		at += n * k
		data = data[n:]
	}
	if len(dst)-at >= 8 {
		// Eight entries are set at a time; the ones after the k-th are set again.
		n := min((len(dst)-at-8)/k+1, len(data))
		base, step := unsafe.Pointer(&dst[at]), uintptr(k)*unsafe.Sizeof(dst[0])
		for i, b := range data[:n] {
			v, p := table[b], unsafe.Add(base, uintptr(i)*step)
			switch unsafe.Sizeof(dst[0]) {
			case 1:
				*(*uint64)(p) = v
			case 2:
				*(*[4]uint16)(p) = [4]uint16{uint16(v & 0xff), uint16(v >> 8 & 0xff), uint16(v >> 16 & 0xff), uint16(v >> 24 & 0xff)}
				*(*[4]uint16)(unsafe.Add(p, 8)) = [4]uint16{uint16(v >> 32 & 0xff), uint16(v >> 40 & 0xff), uint16(v >> 48 & 0xff), uint16(v >> 56)}
			case 4:
				*(*[4]uint32)(p) = [4]uint32{uint32(v & 0xff), uint32(v >> 8 & 0xff), uint32(v >> 16 & 0xff), uint32(v >> 24 & 0xff)}
				if k > 4 {
					*(*[4]uint32)(unsafe.Add(p, 16)) = [4]uint32{uint32(v >> 32 & 0xff), uint32(v >> 40 & 0xff), uint32(v >> 48 & 0xff), uint32(v >> 56)}
				}
			}
		}
		at += n * k
		data = data[n:]
	}
	for _, b := range data {
		at += setDigits(dst[at:], table[b], k)
	}
}

// joinDigits does what readDigits does for the digits of some bytes, which it returns: those of
// several bytes are put together and set at a time.
func joinDigits(dst, data []uint8, table *digitTable, k int) (n int) {
	if k == 2 {
		for ; n+4 <= len(data) && 2*n+8 <= len(dst); n += 4 {
			b := data[n:][:4]
			v := table[b[0]] | table[b[1]]<<16 | table[b[2]]<<32 | table[b[3]]<<48
			binary.LittleEndian.PutUint64(dst[2*n:], v)
		}
		return n
	}
	// The entries after the digits of two bytes are set again.
	for ; n+2 <= len(data) && k*n+8 <= len(dst); n += 2 {
		b := data[n:][:2]
		binary.LittleEndian.PutUint64(dst[k*n:], table[b[0]]|table[b[1]]<<(8*k&63))
	}
	return n
}

// setDigits sets up to n entries to the bytes of v and returns how many it has set.
func setDigits[T code](dst []T, v uint64, n int) int {
	n = min(n, len(dst))
	for i := range dst[:n] {
		dst[i] = T(v & 0xff)
		v >>= 8
	}
	return n
}

// writeDigits writes codes as digits, from the least one on.
func writeDigits(o *output, m *meta, codes []uint32, least, base int) {
	m.fixed, m.width = uint32(least), base
	k := digitsIn(base)
	off := o.begin()
	fill := 0
	for len(codes) > 0 {
		n := min(k, len(codes))
		b := uint32(0)
		for i := n - 1; i >= 0; i-- {
			b = b*uint32(base) + codes[i] - m.fixed
		}
		codes = codes[n:]
		if fill == len(o.buf) {
			o.bytes(o.buf)
			fill = 0
		}
		o.buf[fill] = uint8(b)
		fill++
	}
	o.bytes(o.buf[:fill])
	m.data = o.since(off)
}
