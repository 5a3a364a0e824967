package segment

import (
	"encoding/binary"
	"math/bits"
)

// BlockRows is the number of rows of a block, the unit of summaries: block b has the
// rows from b*BlockRows on.
const BlockRows = 4096

// A blockKind is what the summaries of a column hold.
type blockKind uint8

const (
	blocksNone  blockKind = iota
	blocksSets            // which codes occur
	blocksSpans           // the least and the greatest code
)

// maxOccurs is the largest number of codes of a column with sets.
const maxOccurs = 64

// A summary has the summaries of a column.
type summary struct {
	kind  blockKind
	width int // bytes of a set, or of the two codes of a span
	at    span
}

func blocksOf(rows int) int { return (rows + BlockRows - 1) / BlockRows }

// PrepareBlocks checks the pages of the summaries of the blocks that rows [lo,hi) lie
// in, and returns their bytes. Occurs and Span may be called for these blocks from then
// on. A column without summaries takes no bytes.
func (c *Column) PrepareBlocks(lo, hi int) (bytes int64, err error) {
	if c.summary.kind == blocksNone || lo >= hi {
		return 0, nil
	}
	p := c.summary.at.part(lo/BlockRows, blocksOf(hi), int64(c.summary.width))
	return p.len, c.s.check(p, nameBlocks)
}

// Occurs returns which codes the rows of a block have, of a column with at most 64
// codes: bit c for code c, so bit 0 is set if a row has no value. It is not ok if the
// column has no such summary; then any code may occur.
func (c *Column) Occurs(block int) (set uint64, ok bool) {
	if c.summary.kind != blocksSets {
		return 0, false
	}
	return c.summary.number(c.s, block, c.summary.width), true
}

// Span returns the least and the greatest code of the rows of a block, 0 for the
// missing value included, of a column with more than 64 codes. It is not ok if the
// column has no such summary; then any code may occur.
func (c *Column) Span(block int) (lo, hi uint32, ok bool) {
	if c.summary.kind != blocksSpans {
		return 0, 0, false
	}
	half := c.summary.width / 2
	return uint32(c.summary.number(c.s, 2*block, half)), uint32(c.summary.number(c.s, 2*block+1, half)), true
}

// number returns the i-th number of some bytes.
func (x *summary) number(s *Segment, i, bytes int) uint64 {
	b := s.image[x.at.off+int64(i*bytes):][:bytes]
	switch bytes {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// A columnBlocks is the summaries of a column that is being written.
type columnBlocks struct {
	column int // its number among the columns
	summary
}

// summarize writes the summaries of a column if they can leave out blocks.
func (w *imageWriter) summarize(m *meta, codes []uint32) {
	if len(codes) < 2*BlockRows || m.enc == encConstant {
		return
	}
	b := columnBlocks{column: len(w.columns) - 1}
	n := blocksOf(len(codes))
	var spans []uint32
	if m.codes <= maxOccurs {
		sets, worth := setsOf(codes, n)
		if !worth {
			return
		}
		b.kind, b.width = blocksSets, setWidth(m.codes)
		b.at = w.o.section(narrowSets(sets, b.width))
	} else {
		var worth bool
		if spans, worth = spansOf(codes, n, m.codes); !worth {
			return
		}
		b.kind, b.width = blocksSpans, 2*codeWidth(m.codes)
		b.at = narrow(w.o, spans, b.width/2)
	}
	w.blocks = append(w.blocks, b)
}

// setsOf returns the codes of each block. They are worth their bytes if one in sixteen
// of the codes that there are is missing in a block.
func setsOf(codes []uint32, n int) (sets []uint64, worth bool) {
	sets = make([]uint64, n)
	all, have := uint64(0), 0
	for i := range sets {
		set := uint64(0)
		for _, c := range codes[i*BlockRows : min((i+1)*BlockRows, len(codes))] {
			set |= 1 << (c & 63)
		}
		sets[i] = set
		all |= set
		have += bits.OnesCount64(set)
	}
	return sets, have*16 <= n*bits.OnesCount64(all)*15
}

func narrowSets(sets []uint64, width int) []byte {
	b := make([]byte, 0, len(sets)*width+8)
	for i, set := range sets {
		b = binary.LittleEndian.AppendUint64(b[:i*width], set)
	}
	return b[:len(sets)*width]
}

// spansOf returns the least and the greatest code of each block. They are worth their
// bytes if they leave out a quarter of the codes.
func spansOf(codes []uint32, n, all int) (spans []uint32, worth bool) {
	spans = make([]uint32, 0, 2*n)
	within := 0.0
	for i := range n {
		lo, hi := ^uint32(0), uint32(0)
		for _, c := range codes[i*BlockRows : min((i+1)*BlockRows, len(codes))] {
			lo, hi = min(lo, c), max(hi, c)
		}
		spans = append(spans, lo, hi)
		within += float64(hi-lo) + 1
	}
	return spans, within <= 0.75*float64(n)*float64(all)
}

// blocksRecord returns the record of all summaries, nil if there are none.
func (w *imageWriter) blocksRecord() record {
	if len(w.blocks) == 0 {
		return nil
	}
	var r record
	r.uint(BlockRows)
	r.uint(uint64(len(w.blocks)))
	for _, b := range w.blocks {
		r.uint(uint64(b.column))
		r.uint(uint64(b.kind))
		r.uint(uint64(b.width))
		r.span(b.at)
	}
	return r
}

// readBlocks reads the record of summaries. Blocks of another size, and kinds that a
// later version may write, are skipped.
func (s *Segment) readBlocks(c *cursor) {
	if c.uint(1<<62) != BlockRows || c.bad {
		return
	}
	for range c.uint(1 << 20) {
		b := columnBlocks{column: int(c.uint(1 << 20))}
		kind := c.uint(255)
		b.width = int(c.uint(255))
		b.at = c.anySpan(s.body)
		if c.bad {
			return
		}
		if b.kind = blockKind(kind); b.kind != blocksSets && b.kind != blocksSpans {
			continue
		}
		c.bad = b.at.len != int64(blocksOf(s.rows))*int64(b.width)
		s.blocks = append(s.blocks, b)
		s.name1(nameBlocks, b.at)
	}
}

// giveBlocks gives the summaries to their columns. It is not ok if one does not fit.
func (s *Segment) giveBlocks() (ok bool) {
	for _, b := range s.blocks {
		if b.column >= len(s.all) {
			return false
		}
		c := s.all[b.column]
		want := 2 * codeWidth(c.codes)
		if b.kind == blocksSets {
			want = setWidth(c.codes)
		}
		if c.summary.kind != blocksNone || b.width != want || c.codes == 0 || (c.codes <= maxOccurs) != (b.kind == blocksSets) {
			return false
		}
		c.summary = b.summary
	}
	s.blocks = nil
	return true
}

// blocks checks summaries against the codes.
func (v *verifier) blocks(c *Column) {
	if c.summary.kind == blocksNone {
		return
	}
	var codes []uint32
	for b := range blocksOf(c.rows) {
		codes = c.Read32(codes, b*BlockRows, min((b+1)*BlockRows, c.rows))
		same := false
		if c.summary.kind == blocksSets {
			sets, _ := setsOf(codes, 1)
			got, _ := c.Occurs(b)
			same = got == sets[0]
		} else {
			spans, _ := spansOf(codes, 1, c.codes)
			lo, hi, _ := c.Span(b)
			same = lo == spans[0] && hi == spans[1]
		}
		if !same {
			v.fail(nameBlocks, c.summary.at.part(b, b+1, int64(c.summary.width)), "the summary of block %d of %s does not match its codes", b, c.section())
			return
		}
	}
}
