package parquet

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

var errPage = errors.New("a page ends too early")

// A hybrid reads the encoding of levels and dictionary indexes: runs of one value and
// groups of bit-packed values.
type hybrid struct {
	b     []byte
	width int // bits of a value, 0 to 32

	run   int    // values left of the current run or group
	value uint32 // of the run
	group []byte // of bit-packed values; nil in a run
	bit   int    // where the next one starts in group
}

func (h *hybrid) read(dst []uint32) error {
	if h.width == 0 { // some writers leave such runs out altogether
		clear(dst)
		return nil
	}
	for len(dst) > 0 {
		if h.run == 0 {
			if err := h.head(); err != nil {
				return err
			}
			continue
		}
		n := min(h.run, len(dst))
		if h.group == nil {
			for i := range dst[:n] {
				dst[i] = h.value
			}
		} else {
			h.unpack(dst[:n])
		}
		h.run -= n
		dst = dst[n:]
	}
	return nil
}

func (h *hybrid) head() error {
	v, n := binary.Uvarint(h.b)
	if n <= 0 {
		return errPage
	}
	h.b = h.b[n:]
	count := int(min(v>>1, 1<<40))
	if v&1 == 0 {
		size := (h.width + 7) / 8
		if len(h.b) < size {
			return errPage
		}
		var le [4]byte
		copy(le[:], h.b[:size])
		h.value, h.group, h.run = binary.LittleEndian.Uint32(le[:]), nil, count
		h.b = h.b[size:]
		return nil
	}
	// The last group may be cut off after its last value.
	have := min(count*h.width, len(h.b))
	h.group, h.bit, h.run = h.b[:have:have], 0, min(count*8, have*8/h.width)
	h.b = h.b[have:]
	if h.run == 0 && count > 0 {
		return errPage
	}
	return nil
}

func (h *hybrid) unpack(dst []uint32) {
	mask := uint64(1)<<h.width - 1
	group, bit, width := h.group, h.bit, h.width
	for i := range dst {
		at := bit >> 3
		var word uint64
		if at+8 <= len(group) {
			word = binary.LittleEndian.Uint64(group[at:])
		} else {
			for k, c := range group[at:] {
				word |= uint64(c) << (8 * k)
			}
		}
		dst[i] = uint32(word >> (bit & 7) & mask)
		bit += width
	}
	h.bit = bit
}

// deltas reads DELTA_BINARY_PACKED integers, at most limit of them, and returns the
// rest of b. 32-bit integers wrap as 64-bit ones; the caller truncates them.
func deltas(b []byte, limit int) (values []int64, rest []byte, err error) {
	var head [4]uint64
	for i := range head {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, nil, errPage
		}
		head[i], b = v, b[n:]
	}
	block, minis, total := head[0], head[1], head[2]
	if total > uint64(limit) || block == 0 || block > 1<<20 || minis == 0 || minis > block || block/minis%8 != 0 {
		return nil, nil, errors.New("a page of delta encoding is damaged")
	}
	if total == 0 {
		return nil, b, nil
	}
	mini := int(block / minis)
	last := zigzag(head[3])
	values = append(values, last)
	for uint64(len(values)) < total {
		v, n := binary.Uvarint(b)
		if n <= 0 || len(b)-n < int(minis) {
			return nil, nil, errPage
		}
		least := zigzag(v)
		widths := b[n : n+int(minis)]
		b = b[n+int(minis):]
		for _, width := range widths {
			left := int(total) - len(values)
			if left == 0 {
				break // the blocks after the last value have no bytes
			}
			size := mini / 8 * int(width)
			if width > 64 || len(b) < (min(left, mini)*int(width)+7)/8 {
				return nil, nil, errPage
			}
			packed := b[:min(size, len(b))]
			b = b[len(packed):]
			for i := range min(left, mini) {
				last += least + int64(bitsAt(packed, i*int(width), int(width)))
				values = append(values, last)
			}
		}
	}
	return values, b, nil
}

func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// bitsAt returns width bits of b from a bit on, the lowest first.
func bitsAt(b []byte, bit, width int) uint64 {
	at, shift := bit>>3, bit&7
	var word [9]byte
	copy(word[:], b[min(at, len(b)):])
	v := binary.LittleEndian.Uint64(word[:]) >> shift
	if shift > 0 {
		v |= uint64(word[8]) << (64 - shift)
	}
	if width == 64 {
		return v
	}
	return v & (1<<width - 1)
}

// widthOf returns the bits that hold values up to a bound.
func widthOf(bound int) int { return bits.Len(uint(bound)) }
