package exec

import (
	"math"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// A segmentationFold is the fold of a segmentation. It goes over the rows of a view
// twice: once to find the cell of each row, once to measure.
type segmentationFold struct {
	*segmentation
	w      *worker
	values *dictionary
	tuples map[[3]int32]uint32 // numbers of the values of by -> group
	single []uint32            // instead, of one property: by number, group+1
	keys   [][3]int32          // by group
	byUser bool
	user   uint32 // the number of the user, from 1

	counts    []int64 // by cell, for Count without a sample
	odd       []int64 // as counts, and to be added to them
	cells     []cell  // by cell, else
	quantiles []quantiles
	held      int64 // bytes of these that were accounted for

	// Cells are numbered by group and bucket while there are few of them. If there are
	// many, most could be empty, and they are numbered in the order of appearance.
	sparse map[uint64]uint32 // group<<32 | bucket -> cell
	places []uint64          // by cell: group<<32 | bucket
}

// maxDense is the number of cells up to which all cells of a worker have a number.
const maxDense = 1 << 18

// outside is the cell of rows that do not count.
const outside = math.MaxUint32

func (s *segmentationFold) shard(views []*view) error {
	s.values.open(views)
	if s.simple(views) {
		return s.count(views)
	}
	for _, v := range views {
		s.addGroups(v)
	}
	if s.sparse == nil && len(s.keys)*s.buckets > maxDense {
		s.makeSparse()
	}
	for _, v := range views {
		s.place(v)
		if err := s.grow(); err != nil {
			return err
		}
		if !s.byUser {
			if err := s.measure(v, 0, v.rows()); err != nil {
				return err
			}
		}
	}
	if s.byUser {
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

// simple reports whether rows can be counted in one pass: there is nothing to
// measure, and at most one property with few values in every view.
func (s *segmentationFold) simple(views []*view) bool {
	if s.measured() || s.sparse != nil || len(s.by) > 1 {
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
	return (len(s.keys)+values)*s.buckets <= maxDense
}

// count counts the rows of a shard.
func (s *segmentationFold) count(views []*view) error {
	for _, v := range views {
		masks := v.mask8
		var bases [256]uint32 // by code: the first cell of its group
		codes := []uint8(nil)
		if len(s.by) == 0 {
			bases[0] = s.group([3]int32{}) * uint32(s.buckets)
		} else if c := &v.codes[s.by[0]]; c.col == nil {
			bases[0] = s.group([3]int32{}) * uint32(s.buckets)
		} else {
			for code := range c.col.Codes() {
				bases[code] = s.group([3]int32{s.values.code(c, s.by[0], uint32(code))}) * uint32(s.buckets)
			}
			codes = c.c8[:len(masks)]
		}
		if err := s.grow(); err != nil {
			return err
		}
		counts := s.counts
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
		// Without branches, which would be mispredicted whenever a session begins. Rows
		// of one cell often follow each other, so every second row is counted in odd:
		// otherwise each would wait for the one before.
		odd, times := s.odd, v.times[:len(masks)]
		codes = codes[:len(masks)]
		i := 0
		for ; i+1 < len(masks); i += 2 {
			counts[bases[codes[i]]+r.find(times[i])] += int64(masks[i])
			odd[bases[codes[i+1]]+r.find(times[i+1])] += int64(masks[i+1])
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

// place turns the groups of the rows of a view into cells.
func (s *segmentationFold) place(v *view) {
	if s.calendar == nil {
		if s.sparse != nil {
			for i, group := range v.cells {
				if group != outside {
					v.cells[i] = s.number(uint64(group) << 32)
				}
			}
		}
		return
	}
	times, buckets := v.times[:len(v.cells)], uint32(s.buckets)
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
		if s.sparse == nil {
			v.cells[i] = group*buckets + bucket
		} else {
			v.cells[i] = s.number(uint64(group)<<32 | uint64(bucket))
		}
	}
}

// number returns the number of a cell, a new one if it has none yet.
func (s *segmentationFold) number(place uint64) uint32 {
	at, ok := s.sparse[place]
	if !ok {
		at = uint32(len(s.places))
		s.sparse[place] = at
		s.places = append(s.places, place)
	}
	return at
}

// makeSparse changes from numbers for all cells to numbers for cells that exist.
func (s *segmentationFold) makeSparse() {
	s.even()
	s.sparse = make(map[uint64]uint32)
	counts, cells, quantiles := s.counts, s.cells, s.quantiles
	s.counts, s.cells, s.quantiles = nil, nil, nil
	for at := range max(len(counts), len(cells)) {
		if counts != nil && counts[at] == 0 || cells != nil && cells[at].rows == 0 {
			continue
		}
		s.number(uint64(at/s.buckets)<<32 | uint64(at%s.buckets))
		if counts != nil {
			s.counts = append(s.counts, counts[at])
		} else {
			s.cells = append(s.cells, cells[at])
		}
		if quantiles != nil {
			s.quantiles = append(s.quantiles, quantiles[at])
		}
	}
}

// even adds odd to counts.
func (s *segmentationFold) even() {
	for at, n := range s.odd {
		s.counts[at] += n
	}
	s.odd = nil
}

// split returns the group and the bucket of a cell.
func (s *segmentationFold) split(at int) (group, bucket int) {
	if s.sparse == nil {
		return at / s.buckets, at % s.buckets
	}
	return int(s.places[at] >> 32), int(s.places[at] & math.MaxUint32)
}

// group returns the number of a tuple of values.
func (s *segmentationFold) group(key [3]int32) uint32 {
	if len(s.by) == 1 {
		// Numbers of one dictionary are dense: no map is needed.
		for int(key[0]) >= len(s.single) {
			s.single = append(s.single, 0)
		}
		if g := s.single[key[0]]; g > 0 {
			return g - 1
		}
	} else if g, ok := s.tuples[key]; ok {
		return g
	}
	g := uint32(len(s.keys))
	if len(s.by) == 1 {
		s.single[key[0]] = g + 1
	} else {
		s.tuples[key] = g
	}
	s.keys = append(s.keys, key)
	s.values.take(64) // of the map, which is at most half full, and the list
	return g
}

// grow makes room for the cells that have a number.
func (s *segmentationFold) grow() error {
	n, size := len(s.keys)*s.buckets, int64(16)
	if s.measured() {
		size = int64(unsafe.Sizeof(cell{}))
	}
	if s.q.Measure.Kind == query.Percentile {
		size += int64(unsafe.Sizeof(quantiles{}))
	}
	if s.sparse != nil {
		n = len(s.places)
		size += 40 // of the map and the places
	}
	if n >= outside {
		return &MemoryError{s.w.held.limit}
	}
	if !s.measured() {
		s.counts = extend(s.counts, n)
		s.odd = extend(s.odd, n)
	} else {
		s.cells = extend(s.cells, n)
	}
	if s.q.Measure.Kind == query.Percentile {
		s.quantiles = extend(s.quantiles, n)
	}
	if held := int64(max(cap(s.counts), cap(s.cells))) * size; held > s.held {
		grown := held - s.held
		s.held = held
		return s.w.held.take(grown)
	}
	return nil
}

// extend makes a slice n long, if it is shorter.
func extend[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(s, make([]T, n-len(s))...)
}

// measured reports whether cells are needed, and not counts alone.
func (s *segmentationFold) measured() bool { return s.byUser || s.q.Measure.Kind != query.Count }

// measure adds rows to their cells.
func (s *segmentationFold) measure(v *view, lo, hi int) error {
	if !s.measured() {
		counts := s.counts
		for _, at := range v.cells[lo:hi] {
			if at != outside {
				counts[at]++
			}
		}
		return nil
	}
	kind := s.q.Measure.Kind
	var grown int64
	for row := lo; row < hi; row++ {
		at := v.cells[row]
		if at == outside {
			continue
		}
		c := &s.cells[at]
		if s.byUser && c.user != s.user {
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
			grown += s.quantiles[at].add(s.key(i, f))
		}
	}
	return s.w.held.take(grown)
}

func (s *segmentationFold) join() error {
	s.even()
	all := s.segmentation
	if len(all.totals) == 0 {
		n := min(len(s.keys)*s.buckets, max(len(s.counts), len(s.cells)))
		all.totals, all.cells = make(map[place]int32, n), make([]cell, 0, n)
	}
	known := make([][3]int32, len(s.keys)) // groups in the numbers of all workers
	for g := range known {
		known[g] = s.translate(g)
	}
	for at := range max(len(s.counts), len(s.cells)) {
		c := cell{}
		if s.measured() {
			c = s.cells[at]
			c.squares += c.part * c.part
		} else {
			c.rows = s.counts[at]
		}
		if c.rows == 0 {
			continue
		}
		group, bucket := s.split(at)
		to := all.total(place{known[group], int32(bucket)})
		s.add(&all.cells[to], &c)
		if s.quantiles != nil {
			all.quantiles[to].join(&s.quantiles[at])
		}
	}
	s.counts, s.cells, s.quantiles, s.sparse, s.places, s.tuples, s.keys = nil, nil, nil, nil, nil, nil, nil
	s.values.close()
	s.w.held.give(s.held)
	return all.values.err
}

// translate returns a group in the numbers of all workers.
func (s *segmentationFold) translate(group int) (numbers [3]int32) {
	for k := range s.by {
		numbers[k] = s.segmentation.values.number(s.values.value(s.keys[group][k]))
	}
	return numbers
}
