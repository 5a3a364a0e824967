package segment

import "sort"

// stripe is a number of rows. The encoding user-sparse has a code for each user, which most
// of the user's rows have, and the exceptions: for each, its place in its stripe in two
// bytes. The index has the number of exceptions before each stripe.
const stripe = 1 << 16

// patches finds the code that most rows of each user have. It returns how many rows have
// another one.
func patches(codes, rowStart []uint32) (each []uint32, exceptions int) {
	each = make([]uint32, len(rowStart)-1)
	for u := range each {
		rows := codes[rowStart[u]:rowStart[u+1]]
		votes, common := 0, uint32(0)
		for _, c := range rows {
			switch {
			case votes == 0:
				common, votes = c, 1
			case c == common:
				votes++
			default:
				votes--
			}
		}
		for _, c := range rows {
			exceptions += int(other(c, common))
		}
		each[u] = common
	}
	return each, exceptions
}

func writeUserSparse(o *output, m *meta, codes, rowStart, each []uint32, exceptions int) {
	m.count = exceptions
	rows := make([]uint16, 0, exceptions)
	others := make([]uint32, 0, exceptions)
	index := make([]uint32, 0, len(codes)/stripe+2)
	for u, common := range each {
		for row := int(rowStart[u]); row < int(rowStart[u+1]); row++ {
			if row%stripe == 0 {
				index = append(index, uint32(len(rows)))
			}
			if c := codes[row]; c != common {
				rows = append(rows, uint16(row))
				others = append(others, c)
			}
		}
	}
	index = append(index, uint32(len(rows)))
	m.data = narrow(o, each, m.width)
	m.places = o.section(bytesOf(rows))
	m.index = o.section(bytesOf(index))
	m.others = narrow(o, others, m.width)
}

// checkUserSparse checks the users of rows [lo,hi), and the exceptions of the stripes that
// the rows lie in.
func (c *Column) checkUserSparse(lo, hi int) (int64, error) {
	userLo, userHi, err := c.s.checkUsersOf(lo, hi, c.who)
	if err != nil {
		return 0, err
	}
	n, err := c.checkData(userLo, userHi, int64(c.width))
	if err != nil {
		return 0, err
	}
	first, last := lo/stripe, (hi-1)/stripe+1
	index := c.meta.index.part(first, last+1, 4)
	if err := c.s.check(index, c.who); err != nil {
		return 0, err
	}
	for i := first; i < last; i++ {
		if c.ranks[i] > c.ranks[i+1] || int(c.ranks[i+1]) > c.count {
			return 0, c.s.damage(c.who, index, "exceptions are out of order")
		}
	}
	from, to := int(c.ranks[first]), int(c.ranks[last])
	if err := c.s.check(c.meta.places.part(from, to, 2), c.who); err != nil {
		return 0, err
	}
	share := int64(to-from) * int64(hi-lo) / (int64(last-first) * stripe)
	return n + share*int64(2+c.width), c.s.check(c.others.part(from, to, int64(c.width)), c.who)
}

// patch sets the exceptions of the rows from lo on, or what a table has for them.
func patch[D, S code](c *Column, dst []D, others []S, table *[256]uint8, lo int) {
	if len(dst) == 0 {
		return // nothing was checked
	}
	hi := lo + len(dst)
	for i := lo / stripe; i*stripe < hi; i++ {
		from, to := int(c.ranks[i]), int(c.ranks[i+1])
		rows, codes := c.low16[from:to], others[from:to]
		skip := 0
		if i*stripe < lo {
			skip = sort.Search(len(rows), func(j int) bool { return i*stripe+int(rows[j]) >= lo })
		}
		rows, codes = rows[skip:], codes[skip:]
		base := i*stripe - lo
		for j, low := range rows {
			at := base + int(low)
			if uint(at) >= uint(len(dst)) {
				break
			}
			dst[at] = through[D](codes[j], table)
		}
	}
}
