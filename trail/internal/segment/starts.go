package segment

// The first rows of users are four bytes for each user, or halves: two bytes for each,
// which are added to the base of a block of 128 users. Segments in which a block has more
// than 65,535 rows before its last user have no halves.
const (
	startBlock = 128
	startBits  = 7
)

// rowStarts are the first rows of all users, and the number of rows.
type rowStarts struct {
	at     span // of plain or halves
	baseAt span

	plain  []uint32 // nil if there are halves
	bases  []uint32
	halves []uint16
}

func (x *rowStarts) parse(c *cursor, s *Segment, inHalves bool) {
	n := int64(s.users) + 1
	if !inHalves {
		if x.at = c.span(s.body, n, 4, 0); !c.bad {
			x.plain = viewOf[uint32](s, x.at)
		}
		return
	}
	x.baseAt = c.span(s.body, (n+startBlock-1)/startBlock, 4, 0)
	x.at = c.span(s.body, n, 2, 0)
	if !c.bad {
		x.bases, x.halves = viewOf[uint32](s, x.baseAt), viewOf[uint16](s, x.at)
	}
}

// row returns the first row of a user whose pages were checked.
func (x *rowStarts) row(user int) int {
	if x.plain != nil {
		return int(x.plain[user])
	}
	return int(x.bases[user>>startBits]) + int(x.halves[user])
}

// width returns the bytes of a user, without the base.
func (x *rowStarts) width() int64 {
	if x.plain != nil {
		return 4
	}
	return 2
}

// place returns where the first row of a user lies.
func (x *rowStarts) place(user int) span { return x.at.part(user, user+1, x.width()) }

// check checks the pages of users [lo,hi).
func (x *rowStarts) check(s *Segment, lo, hi int, who string) error {
	if x.plain == nil {
		if err := s.check(x.baseAt.part(lo>>startBits, (hi-1)>>startBits+1, 4), who); err != nil {
			return err
		}
	}
	return s.check(x.at.part(lo, hi, x.width()), who)
}

// read returns the first rows of users [lo,hi).
func (x *rowStarts) read(dst []uint32, lo, hi int) []uint32 {
	if x.plain != nil {
		return x.plain[lo:hi:hi]
	}
	dst = sized(dst, hi-lo)
	for at := lo; at < hi; {
		end := min(at|(startBlock-1)+1, hi)
		base := x.bases[at>>startBits]
		out := dst[at-lo:][:end-at]
		for i, half := range x.halves[at:end] {
			out[i] = base + uint32(half)
		}
		at = end
	}
	return dst
}

// write writes the first rows in the way that is smaller: bases take a section of their
// own, which begins on a multiple of 64.
func (x *rowStarts) write(o *output, rowStart []uint32) {
	bases := make([]uint32, 0, len(rowStart)/startBlock+1)
	halved := len(rowStart) > startBlock
	for lo := 0; lo < len(rowStart) && halved; lo += startBlock {
		last := min(lo+startBlock, len(rowStart)) - 1
		halved = rowStart[last]-rowStart[lo] < 1<<16
		bases = append(bases, rowStart[lo])
	}
	if !halved {
		x.at = o.section(bytesOf(rowStart))
		return
	}
	halves := make([]uint16, len(rowStart))
	for u, row := range rowStart {
		halves[u] = uint16(row - bases[u>>startBits])
	}
	x.baseAt = o.section(bytesOf(bases))
	x.at = o.section(bytesOf(halves))
}

// record adds the places to the record of users and returns its kind.
func (x *rowStarts) record(r *record) (tag byte) {
	if x.baseAt.len == 0 {
		r.span(x.at)
		return tagUsers
	}
	r.span(x.baseAt)
	r.span(x.at)
	return tagHalves
}
