package segment

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/klauspost/compress/s2"
)

// An idKind is a way to store the ids of users.
type idKind uint8

const (
	idNumbers idKind = iota // a common prefix and packed decimal numbers
	idBlocks                // blocks of strings with their lengths
	idS2                    // the same, each block compressed with S2
	idEnd
)

// idBlock is the number of ids in a block. Finding one reads half a block on average.
const idBlock = 128

// An idIndex has the ids of the users by ordinal.
type idIndex struct {
	kind    idKind
	prefix  string
	bits    int64  // of a number, at most 56
	base    uint64 // of the numbers
	offsets span   // of the blocks, eight bytes each
	data    span
}

// An idOpened is a decompressed block of idS2. The segment keeps the last one, for
// callers that read one id after another.
type idOpened struct {
	number int
	text   []byte
}

func (x *idIndex) read(c *cursor, body int64, users int) {
	x.kind = idKind(c.uint(uint64(idEnd - 1)))
	if x.kind == idNumbers {
		x.prefix = c.text()
		x.bits = int64(c.uint(56))
		x.base = c.uint(1<<64 - 1)
		x.data = c.span(body, 1, packedBytes(int64(users), x.bits), 0)
		return
	}
	x.offsets = c.span(body, int64(users+idBlock-1)/idBlock+1, 8, 0)
	x.data = c.anySpan(body)
}

func (x *idIndex) append(dst []byte, s *Segment, ord int) ([]byte, error) {
	if x.kind == idNumbers {
		p := packedSpan(x.data, ord, ord+1, x.bits)
		if err := s.check(p, nameIDs); err != nil {
			return dst, err
		}
		return strconv.AppendUint(append(dst, x.prefix...), x.number(s, ord), 10), nil
	}
	text, err := x.block(s, ord/idBlock)
	if err != nil {
		return dst, err
	}
	for i := ord % idBlock; ; i-- {
		n, used := binary.Uvarint(text)
		if used <= 0 || n > uint64(len(text)-used) {
			return dst, s.damage(nameIDs, x.data, "a block is shorter than its ids")
		}
		if i == 0 {
			return append(dst, text[used:][:n]...), nil
		}
		text = text[used+int(n):]
	}
}

// number returns the number of a user whose page was checked.
func (x *idIndex) number(s *Segment, ord int) uint64 {
	bit := uint64(ord) * uint64(x.bits)
	word := binary.LittleEndian.Uint64(s.image[uint64(x.data.off)+bit>>3:])
	return x.base + word>>(bit&7)&(1<<x.bits-1)
}

// block returns a block of ids, which belongs to the segment or the cache.
func (x *idIndex) block(s *Segment, n int) ([]byte, error) {
	if err := s.check(x.offsets.part(n, n+2, 8), nameIDs); err != nil {
		return nil, err
	}
	blocks := viewOf[uint64](s, x.offsets)
	from, to := blocks[n], blocks[n+1]
	if from > to || to > uint64(x.data.len) {
		return nil, s.damage(nameIDs, x.offsets, "blocks are out of order")
	}
	at := span{x.data.off + int64(from), int64(to - from)}
	if err := s.check(at, nameIDs); err != nil {
		return nil, err
	}
	b := s.image[at.off:][:at.len]
	if x.kind == idBlocks {
		return b, nil
	}
	if o := s.opened.Load(); o != nil && o.number == n {
		return o.text, nil
	}
	length, err := s2.DecodedLen(b)
	if err != nil || length > maxOpened {
		return nil, s.damage(nameIDs, at, "a block does not tell its length")
	}
	text, err := s2.Decode(nil, b)
	if err != nil {
		return nil, s.damage(nameIDs, at, fmt.Sprintf("a block does not open: %v", err))
	}
	s.opened.Store(&idOpened{n, text})
	return text, nil
}

// maxOpened bounds the decompressed size that a block may claim.
const maxOpened = 64 << 20

// decimal splits an id into a prefix and the number that its last digits are. It is
// not ok without digits, or if the number would be written differently.
func decimal(id []byte) (prefix []byte, n uint64, ok bool) {
	i := len(id)
	for i > 0 && id[i-1] >= '0' && id[i-1] <= '9' {
		i--
	}
	for i < len(id)-1 && id[i] == '0' { // leading zeros belong to the prefix
		i++
	}
	for _, c := range id[i:] {
		high, low := bits.Mul64(n, 10)
		sum, carry := bits.Add64(low, uint64(c-'0'), 0)
		if high+carry != 0 {
			return nil, 0, false
		}
		n = sum
	}
	return id[:i], n, i < len(id)
}

// writeIDs writes the ids of n users in their order. at appends the id of a user to
// dst; it may be called several times for each.
func writeIDs(o *output, n int, at func(dst []byte, ord int) ([]byte, error)) (idIndex, error) {
	x, ok, err := numbered(n, at)
	if err != nil {
		return idIndex{}, err
	}
	if !ok {
		return writeIDBlocks(o, n, at)
	}
	off := o.begin()
	p := newPacker(o, x.bits)
	var id []byte
	for ord := range n {
		if id, err = at(id[:0], ord); err != nil {
			return idIndex{}, err
		}
		_, num, _ := decimal(id)
		p.put(num - x.base)
	}
	p.end()
	x.data = o.since(off)
	return x, nil
}

// numbered reports whether all ids are one prefix and a number, and returns them.
func numbered(n int, at func(dst []byte, ord int) ([]byte, error)) (x idIndex, ok bool, err error) {
	x = idIndex{kind: idNumbers, base: 1<<64 - 1}
	top := uint64(0)
	var id []byte
	for ord := range n {
		if id, err = at(id[:0], ord); err != nil {
			return x, false, err
		}
		prefix, num, ok := decimal(id)
		if ord == 0 {
			x.prefix = string(prefix)
		}
		if !ok || string(prefix) != x.prefix {
			return x, false, nil
		}
		x.base, top = min(x.base, num), max(top, num)
	}
	if n == 0 {
		x.base = 0
	}
	x.bits = int64(bits.Len64(top - x.base))
	return x, x.bits <= 56, nil
}

// writeIDBlocks writes ids as blocks, compressed if that takes a tenth off the
// first one.
func writeIDBlocks(o *output, n int, at func(dst []byte, ord int) ([]byte, error)) (idIndex, error) {
	x := idIndex{kind: idBlocks}
	offsets := make([]uint64, 1, n/idBlock+2)
	var id, text, small []byte
	var err error
	off := o.begin()
	for ord := 0; ord < n; ord += idBlock {
		text = text[:0]
		for i := ord; i < min(ord+idBlock, n); i++ {
			if id, err = at(id[:0], i); err != nil {
				return x, err
			}
			text = binary.AppendUvarint(text, uint64(len(id)))
			text = append(text, id...)
		}
		b := text
		if ord == 0 || x.kind == idS2 {
			small = s2.EncodeBetter(small[:cap(small)], text)
			if ord == 0 && len(small) < len(text)*9/10 {
				x.kind = idS2
			}
			if x.kind == idS2 {
				b = small
			}
		}
		o.bytes(b)
		offsets = append(offsets, uint64(o.off-off))
	}
	x.data = o.since(off)
	x.offsets = o.section(bytesOf(offsets))
	return x, nil
}

func (x *idIndex) record(r *record) {
	r.uint(uint64(x.kind))
	if x.kind == idNumbers {
		r.text(x.prefix)
		r.uint(uint64(x.bits))
		r.uint(x.base)
		r.span(x.data)
		return
	}
	r.span(x.offsets)
	r.span(x.data)
}
