package segment

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"
)

// Times as gaps: for each row how much later it is than the row before it. The gap of a
// user's first row, to the last row of the user before, may be negative and is larger
// than others, so that it is divided: its low bits lie where the other gaps are, the
// rest is stored for each user.
//
// Gaps are packed in blocks of eight with one width, so that a block of width w takes w
// bytes. Widths are half a byte each. A group of 64 blocks has a mark: where its gaps
// begin, and the offset of the row before its first one.
const (
	gapBlock  = 8
	gapGroup  = 512                     // rows, of 64 blocks
	gapBytes  = gapGroup / gapBlock / 2 // of the widths of a group
	gapWidths = 16                      // how many widths there can be
)

type gaps struct {
	rows, users int
	bits        int64 // of the gap of a first row, as a signed number
	low         int   // the least width
	restAt      span
	widthAt     span
	gapAt       span
	startAt     span
	markAt      span

	rests  []byte
	widths []byte
	data   []byte
	starts []uint64 // by group, and the end
	marks  []uint32 // by group
}

func (g *gaps) read(c *cursor, s *Segment) {
	g.rows, g.users = s.rows, s.users
	groups := int64(gapGroups(g.rows))
	g.bits = int64(c.uint(32))
	g.low = int(c.uint(32 - gapWidths + 1))
	g.restAt = c.span(s.body, 1, packedBytes(int64(s.users), g.restBits()), 0)
	g.widthAt = c.span(s.body, groups, gapBytes, 0)
	g.gapAt = c.anySpan(s.body)
	g.startAt = c.span(s.body, groups+1, 8, 0)
	g.markAt = c.span(s.body, groups, 4, 0)
	if c.bad || g.gapAt.len < slack || g.bits == 0 {
		c.bad = true
		return
	}
	g.rests = viewOf[uint8](s, g.restAt)
	g.widths = viewOf[uint8](s, g.widthAt)
	g.data = viewOf[uint8](s, g.gapAt)
	g.starts = viewOf[uint64](s, g.startAt)
	g.marks = viewOf[uint32](s, g.markAt)
	for _, p := range []span{g.restAt, g.widthAt, g.gapAt, g.startAt, g.markAt} {
		s.name1(nameTimes, p)
	}
}

func gapGroups(rows int) int { return (rows + gapGroup - 1) / gapGroup }

// restBits returns the bits of a first row's gap that may not lie with the others.
func (g *gaps) restBits() int64 { return max(g.bits-int64(g.low), 0) }

// prepare checks the pages of the groups of rows [lo,hi), and that they lie where they
// should.
func (g *gaps) prepare(s *Segment, lo, hi int) (bytes int64, err error) {
	if lo >= hi {
		return 0, nil
	}
	from, to := lo/gapGroup, gapGroups(hi)
	userLo, userHi, err := s.checkUsersOf(from*gapGroup, hi, nameTimes)
	if err != nil {
		return 0, err
	}
	rests := packedSpan(g.restAt, userLo, userHi, g.restBits())
	for _, p := range []span{rests, g.startAt.part(from, to+1, 8), g.markAt.part(from, to, 4), g.widthAt.part(from, to, gapBytes)} {
		if err := s.check(p, nameTimes); err != nil {
			return 0, err
		}
	}
	limit := uint64(len(g.data) - slack)
	for k := from; k < to; k++ {
		if g.starts[k] > limit || g.starts[k+1] != g.starts[k]+g.length(k) || g.starts[k+1] > limit {
			return 0, s.damage(nameTimes, g.startAt.part(k, k+2, 8), "a group of gaps does not end where the next one begins")
		}
	}
	at := span{g.gapAt.off + int64(g.starts[from]), int64(g.starts[to]-g.starts[from]) + slack}
	share := (at.len - slack + int64(to-from)*(12+gapBytes)) * int64(hi-lo) / int64(min(to*gapGroup, g.rows)-from*gapGroup)
	return rests.len + share, s.check(at, nameTimes)
}

// length returns the bytes of the gaps of a group: the sum of its widths.
func (g *gaps) length(k int) uint64 {
	const low = 0x0f0f0f0f0f0f0f0f
	sum := uint64(0) // of bytes; at most 8*15 in each
	for w := g.widths[k*gapBytes:][:gapBytes]; len(w) > 0; w = w[8:] {
		v := binary.LittleEndian.Uint64(w)
		sum += v&low + v>>4&low
	}
	sum = sum&0x00ff00ff00ff00ff + sum>>8&0x00ff00ff00ff00ff
	return sum*0x0001000100010001>>48 + uint64(g.low)*gapGroup/gapBlock
}

// at returns the offset of a row.
func (g *gaps) at(s *Segment, row int) uint32 {
	var one [1]uint32
	g.readRows(one[:], s, row)
	return one[0]
}

// readRows fills dst with the offsets of the rows from lo on.
func (g *gaps) readRows(dst []uint32, s *Segment, lo int) {
	if len(dst) == 0 {
		return
	}
	k := lo / gapGroup
	user := s.userOf(k * gapGroup)
	if s.FirstRow(user) < k*gapGroup {
		user++
	}
	var part [gapGroup]uint32 // of which not all rows are asked for
	for row, hi := k*gapGroup, lo+len(dst); row < hi; row += gapGroup {
		if row >= lo && hi-row >= gapGroup {
			user = g.group((*[gapGroup]uint32)(dst[row-lo:]), s, k, user, gapGroup)
		} else {
			end := min(hi-row, gapGroup)
			user = g.group(&part, s, k, user, end)
			copy(dst[max(row-lo, 0):], part[max(lo-row, 0):end])
		}
		k++
	}
}

// group sets dst to the offsets of a group's first n rows or some more. user is the first
// one whose rows begin in the group; it returns the same for the next group.
func (g *gaps) group(dst *[gapGroup]uint32, s *Segment, k, user, n int) int {
	clear(dst[:])
	at := g.starts[k]
	if size := uint64(len(g.data)); at > size || at+g.length(k)+slack > size {
		return user // was not prepared
	}
	var widths [gapGroup / gapBlock]uint8
	for i := range gapBytes / 4 {
		x := uint64(binary.LittleEndian.Uint32(g.widths[k*gapBytes+4*i:]))
		x = (x | x<<16) & 0x0000ffff0000ffff
		x = (x | x<<8) & 0x00ff00ff00ff00ff
		x = (x|x<<4)&0x0f0f0f0f0f0f0f0f + uint64(g.low)*0x0101010101010101
		binary.LittleEndian.PutUint64(widths[8*i:], x)
	}
	// What the rest of a first row adds to its gap, a signed number that is wider than any block.
	lo, shift, rest := k*gapGroup, uint64(32-g.bits)&31, g.restBits()
	for ; user < g.users; user++ {
		i := uint(s.FirstRow(user) - lo)
		if i >= uint(n) {
			break
		}
		i &= gapGroup - 1
		v := uint32(uint64(unpackOne(g.rests, user, rest)) << (widths[i/gapBlock] & 63))
		dst[i] = uint32(int32(v<<shift) >> shift)
	}
	sum(dst, unsafe.Add(unsafe.Pointer(unsafe.SliceData(g.data)), at), &widths, g.marks[k])
	return user
}

// gapMasks have the low bits of each width.
var gapMasks = func() (m [64]uint32) {
	for w := range m {
		m[w] = uint32(uint64(1)<<w - 1)
	}
	return m
}()

// sum adds to each entry of dst those before it, their gaps and a mark. Gaps are unpacked from
// the bytes at p, a block of each width; up to eight bytes behind them may be loaded.
func sum(dst *[gapGroup]uint32, p unsafe.Pointer, widths *[gapGroup / gapBlock]uint8, mark uint32) {
	for i := range widths {
		w := uint64(widths[i]) & 63
		d := (*[gapBlock]uint32)(dst[i*gapBlock:])
		m := gapMasks[w]
		if w == 31 { // pairs may take nine bytes
			for j := range d {
				bit := uint64(j) * w
				mark += d[j] + uint32(*(*uint64)(unsafe.Add(p, bit>>3))>>(bit&7))&m
				d[j] = mark
			}
			p = unsafe.Add(p, w)
			continue
		}
		b1, b2, b3 := 2*w, 4*w, 6*w // a pair begins at an even bit
		v0 := *(*uint64)(p)
		v1 := *(*uint64)(unsafe.Add(p, b1>>3)) >> (b1 & 7)
		v2 := *(*uint64)(unsafe.Add(p, b2>>3)) >> (b2 & 7)
		v3 := *(*uint64)(unsafe.Add(p, b3>>3)) >> (b3 & 7)
		p = unsafe.Add(p, w)
		a0 := d[0] + uint32(v0)&m
		a1 := a0 + d[1] + uint32(v0>>w)&m
		a2 := d[2] + uint32(v1)&m
		a3 := a2 + d[3] + uint32(v1>>w)&m
		a4 := d[4] + uint32(v2)&m
		a5 := a4 + d[5] + uint32(v2>>w)&m
		a6 := d[6] + uint32(v3)&m
		a7 := a6 + d[7] + uint32(v3>>w)&m
		t1 := mark + a1
		t3 := t1 + a3
		t5 := t3 + a5
		d[0], d[1], d[2], d[3] = mark+a0, t1, t1+a2, t3
		mark = t5 + a7
		d[4], d[5], d[6], d[7] = t3+a4, t5, t5+a6, mark
	}
}

// A gapShape is what times would be as gaps.
type gapShape struct {
	low   int   // the least width
	bits  int64 // of the gap of a first row
	bytes int64 // of all sections
}

// measureGaps finds the least width that makes gaps small. width is the width of an offset.
func measureGaps(offsets, rowStart []uint32, width int64) gapShape {
	var blocks [33]int64
	top := 0
	eachBlock(offsets, rowStart, func(_ *[gapBlock]uint32, _ uint8, w int) {
		top = max(top, w)
		blocks[w]++
	})
	users, groups := int64(len(rowStart)-1), int64(gapGroups(len(offsets)))
	s := gapShape{bits: min(width+1, 32), bytes: math.MaxInt64}
	for low := max(0, top-gapWidths+1); low <= 32-gapWidths+1; low++ {
		bytes := packedBytes(users, max(s.bits-int64(low), 0)) + groups*(gapBytes+12) + 8 + slack
		for w, n := range blocks {
			bytes += n * int64(max(w, low))
		}
		if bytes < s.bytes {
			s.low, s.bytes = low, bytes
		}
	}
	return s
}

// eachBlock calls f for the gaps of eight rows, with a bit for each first row of a user
// and the width of the others. After the last row the gaps are zero.
func eachBlock(offsets, rowStart []uint32, f func(block *[gapBlock]uint32, first uint8, width int)) {
	var block [gapBlock]uint32
	user, last := 0, uint32(0)
	for lo := 0; lo < len(offsets); lo += gapBlock {
		first, all := uint8(0), uint32(0)
		for i, off := range offsets[lo:min(lo+gapBlock, len(offsets))] {
			block[i] = off - last
			last = off
			if lo+i == int(rowStart[user]) {
				first |= 1 << i
				user++
			} else {
				all |= block[i]
			}
		}
		clear(block[min(len(offsets)-lo, gapBlock):])
		f(&block, first, bits.Len32(all))
	}
}

// writeGaps writes times as gaps, and the rest of the record.
func writeGaps(o *output, offsets, rowStart []uint32, s gapShape, r *record) {
	groups := gapGroups(len(offsets))
	rests := make([]uint32, 0, len(rowStart)-1)
	widths := make([]byte, groups*gapBytes)
	starts := make([]uint64, 0, groups+1)
	marks := make([]uint32, groups)
	at, n := uint64(0), 0
	eachBlock(offsets, rowStart, func(block *[gapBlock]uint32, first uint8, w int) {
		w = max(w, s.low)
		for ; first != 0; first &= first - 1 {
			gap := uint64(block[bits.TrailingZeros8(first)]) & (1<<s.bits - 1)
			rests = append(rests, uint32(gap>>w))
		}
		if n%(gapGroup/gapBlock) == 0 {
			starts = append(starts, at)
		}
		widths[n>>1] |= byte(w-s.low) << (n & 1 * 4)
		at += uint64(w)
		n++
	})
	at += uint64(s.low) * uint64(groups*gapGroup/gapBlock-n) // the blocks after the last row
	starts = append(starts, at)
	for k := 1; k < groups; k++ {
		marks[k] = offsets[k*gapGroup-1]
	}
	r.uint(uint64(s.bits))
	r.uint(uint64(s.low))
	r.span(pack(o, rests, max(s.bits-int64(s.low), 0)))
	r.span(o.section(widths))
	off := o.begin()
	p := newPacker(o, 0)
	eachBlock(offsets, rowStart, func(block *[gapBlock]uint32, _ uint8, w int) {
		p.bits = int64(max(w, s.low))
		for _, gap := range block {
			p.put(uint64(gap) & (1<<p.bits - 1))
		}
	})
	p.bits = 8
	for range int64(at) - p.written() {
		p.put(0)
	}
	p.end()
	r.span(o.since(off))
	r.span(o.section(bytesOf(starts)))
	r.span(o.section(bytesOf(marks)))
}
