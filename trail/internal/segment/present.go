package segment

import (
	"math/bits"
	"unsafe"
)

// Present: each row has a bit, set if it has a value; the codes of the rows that do
// lie packed one after another, less one. Every 1024th row has a rank: how many values
// lie before it.

// rank returns how many values lie before a row. The bits of its block must have been
// checked.
func (c *Column) rank(row int) int {
	n := int(c.ranks[row/runBlock])
	for _, word := range c.bits[row/runBlock*(runBlock/64) : row/64] {
		n += bits.OnesCount64(word)
	}
	return n + bits.OnesCount64(c.bits[row/64]&(1<<(row&63)-1))
}

// valuesIn returns how many of the rows [lo,hi) have a value.
func (c *Column) valuesIn(lo, hi int) int {
	n := -bits.OnesCount64(c.bits[lo/64] & (1<<(lo&63) - 1))
	for _, word := range c.bits[lo/64 : hi/64] {
		n += bits.OnesCount64(word)
	}
	if hi&63 != 0 {
		n += bits.OnesCount64(c.bits[hi/64] & (1<<(hi&63) - 1))
	}
	return n
}

// checkPresent checks the bits of rows [lo,hi) from where their rank is counted, and the
// codes of those that have a value.
func (c *Column) checkPresent(lo, hi int) (int64, error) {
	block := lo / runBlock
	index := c.meta.index.part(block, block+1, 4)
	if err := c.s.check(index, c.who); err != nil {
		return 0, err
	}
	words := c.meta.places.part(block*(runBlock/64), (hi+63)/64, 8)
	if err := c.s.check(words, c.who); err != nil {
		return 0, err
	}
	from := c.rank(lo)
	to := from + c.valuesIn(lo, hi)
	if to > c.count {
		return 0, c.s.damage(c.who, words, "more rows have values than there are values")
	}
	p := packedSpan(c.meta.data, from, to, int64(c.width))
	return p.len + int64(hi-lo+7)/8, c.s.check(p, c.who)
}

// readPresent fills dst with the codes of the rows from lo on.
func readPresent[T code](c *Column, dst []T, lo int) {
	if len(dst) == 0 {
		return
	}
	var some [64]T
	at := c.rank(lo)
	row, hi := lo, lo+len(dst)
	for row < hi {
		end := min(row|63+1, hi)
		word := c.bits[row/64] >> (row & 63)
		out := dst[row-lo : end-lo]
		if end&63 != 0 {
			word &= 1<<len(out) - 1
		}
		n := bits.OnesCount64(word)
		if n == len(out) {
			unpack(out, c.packed, at, int64(c.width))
			for i := range out {
				out[i]++
			}
		} else {
			clear(out)
			unpack(some[:n], c.packed, at, int64(c.width))
			for i := 0; word != 0; word &= word - 1 {
				out[bits.TrailingZeros64(word)] = some[i&63] + 1
				i++
			}
		}
		at += n
		row = end
	}
}

// KeepsPresence reports whether the column has a bit for each row, set if the row has a
// value: only then Presence may be called.
func (c *Column) KeepsPresence() bool { return c.enc == encPresent }

// PreparePresence checks the bits of rows [lo,hi), and returns their bytes. Presence may be
// called for these rows from then on. The values are not checked.
func (c *Column) PreparePresence(lo, hi int) (bytes int64, err error) {
	words := c.meta.places.part(lo/64, (hi+63)/64, 8)
	return words.len, c.s.check(words, c.who)
}

// Presence sets dst to 0xff for the rows of [lo,hi) that have a value, and to 0 for
// the others; without, it is the other way round. dst must have a byte for each row.
func (c *Column) Presence(dst []uint8, without bool, lo, hi int) {
	flip := uint64(0)
	if without {
		flip = ^flip
	}
	for row := lo; row < hi; {
		end := min(row|63+1, hi)
		word := (c.bits[row/64] ^ flip) >> (row & 63)
		out := dst[row-lo : end-lo]
		if len(out) == 64 {
			to := (*[8]uint64)(unsafe.Pointer(unsafe.SliceData(out)))
			for i := range to {
				to[i] = spreadBits[uint8(word>>(8*i))]
			}
		} else {
			for i := range out {
				out[i] = -uint8(word >> i & 1)
			}
		}
		row = end
	}
}

// spreadBits has a byte of 0xff for each bit that is set in a byte.
var spreadBits = func() (table [256]uint64) {
	for b := range table {
		for i := range 8 {
			table[b] |= 0xff * uint64(b>>i&1) << (8 * i)
		}
	}
	return table
}()

func presentBytes(rows, missing, codes int) float64 {
	return float64(rows)/8 + float64(rows)*4/runBlock + float64((rows-missing)*bits.Len(uint(codes-2)))/8 + slack
}

func writePresent(o *output, m *meta, codes []uint32) {
	words := make([]uint64, (len(codes)+63)/64)
	ranks := make([]uint32, 0, len(codes)/runBlock+1)
	values := make([]uint32, 0, len(codes))
	for i, c := range codes {
		if i%runBlock == 0 {
			ranks = append(ranks, uint32(len(values)))
		}
		if c != 0 {
			words[i/64] |= 1 << (i & 63)
			values = append(values, c-1)
		}
	}
	m.width, m.count = bits.Len(uint(m.codes-2)), len(values)
	m.places = o.section(bytesOf(words))
	m.index = o.section(bytesOf(ranks))
	m.data = pack(o, values, int64(m.width))
}
