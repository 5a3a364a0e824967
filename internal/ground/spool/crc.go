package spool

import (
	"hash/crc32"
	"io"
)

// block is the distance of the sums in a prefixSums. A query sums two blocks.
const block = 4096

// prefixSums computes the checksum of any range of a file without reading all of it.
// The search for the next record after damage needs one at every place that looks like
// a header. Without this, a damaged record of 64 KiB whose payload consists of headers
// with the length of a segment took 100 s.
type prefixSums struct {
	r    io.ReaderAt
	size int64
	at   []uint32 // at[i] is the sum of the first i blocks
	buf  [block]byte
}

func newPrefixSums(r io.ReaderAt, size int64) *prefixSums {
	p := &prefixSums{r: r, size: size, at: make([]uint32, 1, size/block+2)}
	sum := uint32(0)
	for off := int64(0); off < size; off += block {
		sum = crc32.Update(sum, castagnoli, p.read(off, min(block, size-off)))
		p.at = append(p.at, sum)
	}
	return p
}

// read returns n bytes from off. Bytes that cannot be read are zeros, as in a
// tolerantReader.
func (p *prefixSums) read(off, n int64) []byte {
	b := p.buf[:n]
	if got, err := p.r.ReadAt(b, off); err != nil && int64(got) < n {
		clear(b)
	}
	return b
}

// until returns the sum of everything before end.
func (p *prefixSums) until(end int64) uint32 {
	i := end / block
	return crc32.Update(p.at[i], castagnoli, p.read(i*block, end-i*block))
}

// between returns the checksum of [from, to).
func (p *prefixSums) between(from, to int64) uint32 {
	// The sum of a followed by b is the sum of a, moved by the length of b, plus the
	// sum of b. So the sum of b is the difference.
	return p.until(to) ^ moved(p.until(from), uint64(to-from))
}

// moved multiplies a checksum by x to the power of 8n modulo the polynomial, as if n
// zero bytes followed. Bits are in the order of the checksum: the highest is the
// coefficient of x to the power of 0.
func moved(sum uint32, n uint64) uint32 {
	power := uint32(1) << (31 - 8) // x^8
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			sum = multiply(power, sum)
		}
		power = multiply(power, power)
	}
	return sum
}

func multiply(a, b uint32) uint32 {
	var product uint32
	for bit := uint32(1) << 31; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			product ^= b
		}
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return product
}
