package exec

import (
	"math"
	"math/bits"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// A segmentationFold is the fold of a segmentation. It goes over the rows of a view
// twice: once to find the cell of each row, once to measure.
type segmentationFold struct {
	*segmentation
	w        *worker
	grid     *grid
	values   *dictionary
	calendar *calendar // nil if rows are not grouped by time
	user     uint32    // the number of the user, from 1
}

// outside is the cell of rows that do not count.
const outside = math.MaxUint32

func (s *segmentationFold) shard(views []*view) error {
	s.values.open(views)
	switch {
	case s.simple(views):
		return s.count(views)
	case s.grid.measure == query.Users && s.grid.counted() && len(s.by) == 0 && s.calendar == nil:
		return s.countUsers(views)
	}
	for _, v := range views {
		s.addGroups(v)
	}
	if err := s.grid.grow(); err != nil {
		return err
	}
	for _, v := range views {
		s.place(v)
		if err := s.grid.grow(); err != nil {
			return err
		}
		if !s.grid.byUser {
			if err := s.measure(v, 0, v.rows()); err != nil {
				return err
			}
		}
	}
	if s.grid.byUser {
		u := &s.w.users
		u.open(views)
		for u.next() {
			s.user++
			for i := range u.parts {
				p := &u.parts[i]
				if err := s.measure(p.view, p.lo, p.hi); err != nil {
					return err
				}
			}
		}
	}
	return s.values.err
}

// countUsers counts the users who have any row.
func (s *segmentationFold) countUsers(views []*view) error {
	cell := s.group([3]int32{})
	if err := s.grid.grow(); err != nil {
		return err
	}
	u := &s.w.users
	u.open(views)
	for u.next() {
		for i := range u.parts {
			if u.parts[i].some(0xff) {
				s.grid.counts[cell]++
				break
			}
		}
	}
	return nil
}

// simple reports whether rows can be counted in one pass: there is nothing to
// measure, and at most one property with few values in every view.
func (s *segmentationFold) simple(views []*view) bool {
	if s.grid.measure != query.Count || s.grid.byUser || s.grid.sparse != nil || len(s.by) > 1 {
		return false
	}
	values := 1
	for _, v := range views {
		for _, k := range s.by {
			c := &v.codes[k]
			if c.col != nil && c.c8 == nil {
				return false
			}
			if c.col != nil {
				values += c.col.Codes()
			}
		}
	}
	return s.grid.dense(2 * (s.grid.groups + values) * s.grid.buckets) // with the cells of odd
}

// count counts the rows of a shard.
func (s *segmentationFold) count(views []*view) error {
	for _, v := range views {
		masks := v.mask8
		var bases [256]uint32 // by code: the first cell of its group
		codes := []uint8(nil)
		if len(s.by) == 0 {
			bases[0] = s.group([3]int32{}) * uint32(s.grid.buckets)
		} else if c := &v.codes[s.by[0]]; c.col == nil {
			bases[0] = s.group([3]int32{}) * uint32(s.grid.buckets)
		} else {
			for code := range c.col.Codes() {
				bases[code] = s.group([3]int32{s.values.code(c, s.by[0], uint32(code))}) * uint32(s.grid.buckets)
			}
			codes = c.c8[:len(masks)]
		}
		if err := s.grid.grow(); err != nil {
			return err
		}
		counts := s.grid.counts
		if s.calendar == nil && codes == nil {
			n := int64(0)
			for _, m := range masks {
				n += int64(m)
			}
			counts[bases[0]] += n // the only matcher has bit 0
			continue
		}
		if codes == nil {
			codes = s.w.arena.bytes(len(masks))
			paint(codes, 0)
		}
		if s.calendar == nil {
			for i, m := range masks {
				counts[bases[codes[i]]] += int64(m)
			}
			continue
		}
		r := v.bucketIndex
		if r == nil {
			for i, m := range masks {
				if m != 0 {
					counts[bases[codes[i]]+uint32(s.calendar.find(v.time(i)))]++
				}
			}
			continue
		}
		// Without branches for rows, which would be mispredicted whenever a session begins. Rows
		// of one cell often follow each other, so every second row is counted in odd:
		// otherwise each would wait for the one before.
		s.grid.odd = extend(s.grid.odd, len(counts))
		odd, times := s.grid.odd, v.times[:len(masks)]
		codes = codes[:len(masks)]
		i := 0
		for ; i+8 <= len(masks); i += 8 {
			if load(masks, i) == 0 {
				s.w.cost.empty++
				continue
			}
			m, c, t := (*[8]uint8)(masks[i:]), (*[8]uint8)(codes[i:]), (*[8]uint32)(times[i:])
			counts[bases[c[0]]+r.find(t[0])] += int64(m[0])
			odd[bases[c[1]]+r.find(t[1])] += int64(m[1])
			counts[bases[c[2]]+r.find(t[2])] += int64(m[2])
			odd[bases[c[3]]+r.find(t[3])] += int64(m[3])
			counts[bases[c[4]]+r.find(t[4])] += int64(m[4])
			odd[bases[c[5]]+r.find(t[5])] += int64(m[5])
			counts[bases[c[6]]+r.find(t[6])] += int64(m[6])
			odd[bases[c[7]]+r.find(t[7])] += int64(m[7])
		}
		for ; i < len(masks); i++ {
			counts[bases[codes[i]]+r.find(times[i])] += int64(masks[i])
		}
	}
	return s.values.err
}

// addGroups finds the groups of the rows of a view.
func (s *segmentationFold) addGroups(v *view) {
	v.cells = s.w.arena.ints(v.rows())
	masks := v.mask8[:len(v.cells)]
	switch {
	case len(s.by) == 0:
		group := s.group([3]int32{})
		for i, m := range masks {
			v.cells[i] = outside
			if m != 0 {
				v.cells[i] = group
			}
		}
	case len(s.by) == 1 && v.codes[s.by[0]].c8 != nil:
		// The groups of all codes together: there are few.
		c := &v.codes[s.by[0]]
		var groups [256]uint32
		for code := range c.col.Codes() {
			groups[code] = s.group([3]int32{s.values.code(c, s.by[0], uint32(code))})
		}
		codes := c.c8[:len(masks)]
		for i, m := range masks {
			g := groups[codes[i]]
			if m == 0 {
				g = outside
			}
			v.cells[i] = g
		}
	case len(s.by) == 1 && v.codes[s.by[0]].remap != nil:
		for i := range v.cells {
			v.cells[i] = outside
		}
		switch c := &v.codes[s.by[0]]; {
		case c.c16 != nil:
			groupsOf(s, v.cells, v.mask8, c, c.c16)
		default:
			groupsOf(s, v.cells, v.mask8, c, c.c32)
		}
	default:
		last, group := [3]int32{-1}, uint32(0)
		for i, m := range masks {
			v.cells[i] = outside
			if m == 0 {
				continue
			}
			var key [3]int32
			for k, column := range s.by {
				key[k] = s.values.id(v, column, i)
			}
			if key != last {
				last, group = key, s.group(key)
			}
			v.cells[i] = group
		}
	}
}

// groupsOf finds the groups of rows by the one property. Rows that do not count are
// skipped eight at a time; dst has outside for them.
func groupsOf[C uint16 | uint32](s *segmentationFold, dst []uint32, masks []uint8, c *codes, column []C) {
	column = column[:len(dst)]
	for i := 0; i < len(dst); i += 8 {
		word := load(masks, i)
		for ; word != 0; word &= word - 1 { // the only matcher has bit 0
			row := i + bits.TrailingZeros64(word)>>3
			if row >= len(dst) {
				break
			}
			code := uint32(column[row])
			if id := c.remap[code] - 1; s.grid.direct {
				dst[row] = uint32(id)
				continue
			} else if id >= 0 && int(id) < len(s.grid.single) && s.grid.single[id] > 0 {
				dst[row] = uint32(s.grid.single[id] - 1)
				continue
			}
			dst[row] = s.group([3]int32{s.values.code(c, s.by[0], code)})
		}
	}
}

// group returns the number of a tuple of values.
func (s *segmentationFold) group(key [3]int32) uint32 {
	if group, ok := s.grid.find(key); ok {
		return group
	}
	if s.chosen == nil {
		return s.grid.add(key)
	}
	group := s.chosenGroup(s.values, key)
	s.grid.name(key, group)
	return group
}

// place turns the groups of the rows of a view into cells.
func (s *segmentationFold) place(v *view) {
	if s.calendar == nil {
		if s.grid.sparse != nil {
			for i, group := range v.cells {
				if group != outside {
					v.cells[i] = s.grid.at(group, 0)
				}
			}
		}
		return
	}
	times := v.times[:len(v.cells)]
	for i, group := range v.cells {
		if group == outside {
			continue
		}
		var bucket uint32
		if v.bucketIndex != nil {
			bucket = v.bucketIndex.find(times[i])
		} else {
			bucket = uint32(s.calendar.find(v.time(i)))
		}
		v.cells[i] = s.grid.at(group, bucket)
	}
}

// measure adds rows to their cells.
func (s *segmentationFold) measure(v *view, lo, hi int) error {
	g := s.grid
	if g.counted() {
		if counts := g.counts; g.measure == query.Count {
			for _, at := range v.cells[lo:hi] {
				if at != outside {
					counts[at]++
				}
			}
			return nil
		}
		counts, last := g.counts, g.last[:len(g.counts)]
		for _, at := range v.cells[lo:hi] {
			if at != outside && last[at] != s.user {
				last[at] = s.user
				counts[at]++
			}
		}
		return nil
	}
	kind := g.measure
	var grown int64
	for row := lo; row < hi; row++ {
		at := v.cells[row]
		if at == outside {
			continue
		}
		c := &g.cells[at]
		if g.byUser && c.user != s.user {
			c.squares += c.part * c.part
			c.part, c.user = 0, s.user
			if kind == query.Users {
				c.rows++
				c.part = 1
			}
		}
		if kind == query.Users {
			continue
		}
		c.rows++
		if kind == query.Count {
			c.part++
			continue
		}
		i, f, ok := v.numbers.at(&v.codes[s.value], row)
		if !ok {
			continue
		}
		c.n++
		switch kind {
		case query.Sum, query.Avg:
			c.part += f
			c.sum(i, f)
		case query.Min:
			if c.n == 1 || s.less(i, f, c) {
				c.i, c.f = i, f
			}
		case query.Max:
			if c.n == 1 || s.more(i, f, c) {
				c.i, c.f = i, f
			}
		case query.Percentile:
			grown += g.quantiles[at].add(s.key(i, f))
		}
	}
	return g.held.take(grown)
}

// join adds the grid to the grid of the kernel. The first one becomes it.
func (s *segmentationFold) join() error {
	all, g := s.segmentation, s.grid
	g.even()
	if !g.counted() {
		for at := range g.cells {
			c := &g.cells[at]
			c.squares += c.part * c.part
			c.part = 0
		}
	}
	if all.grid == nil {
		all.grid = g
		if all.chosen == nil {
			all.values.close()
			all.values = s.values
		} else {
			s.values.close()
		}
		return all.values.err
	}
	var known []uint32 // groups in the numbers of all workers; nil if these are the same
	if all.chosen == nil && !g.direct {
		known = make([]uint32, g.groups)
		for group := range known {
			known[group] = s.translate(g.keys[group])
		}
	}
	if err := all.grid.grow(); err != nil {
		return err
	}
	for at := range g.size() {
		if g.rows(at) == 0 {
			continue
		}
		group, bucket := g.split(at)
		if known != nil {
			group = known[group]
		}
		to := all.grid.at(group, bucket)
		if all.grid.sparse != nil {
			if err := all.grid.grow(); err != nil {
				return err
			}
		}
		switch {
		case g.counted():
			all.grid.counts[to] += g.counts[at]
		default:
			s.add(&all.grid.cells[to], &g.cells[at])
		}
		if g.quantiles != nil {
			all.grid.quantiles[to].join(&g.quantiles[at])
		}
	}
	g.release()
	s.values.close()
	return all.values.err
}

// translate returns the group of all workers that has a key of this worker.
func (s *segmentationFold) translate(key [3]int32) uint32 {
	all := s.segmentation
	for k, column := range s.by {
		key[k], _ = s.values.translate(column, key[k], all.values, true)
	}
	if group, ok := all.grid.find(key); ok {
		return group
	}
	return all.grid.add(key)
}
