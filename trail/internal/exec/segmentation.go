package exec

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A segmentation measures events by time and by properties. With a limit of groups it
// goes over the rows twice: the first time it counts the events of each group, the
// second time it measures the groups that were chosen, and the others as one.
type segmentation struct {
	q        *query.Segment
	typ      event.Type // of the property that is measured
	by       []int      // columns
	value    int        // column of the property that is measured, -1 for none
	calendar *calendar  // nil without buckets
	buckets  int        // 1 without

	lexicons []*lexicon  // by column; nil for none
	values   *dictionary // of by
	grid     *grid       // of all workers; nil until the first is joined
	ranking  bool        // groups are counted, to choose among them
	chosen   *grid       // the groups that were chosen; nil for all. The others are the group after them
}

func (b *builder) segmentation(q *query.Segment) (kernel, error) {
	s := &segmentation{q: q, value: -1, buckets: 1, ranking: q.Limit > 0}
	lo, hi := b.bounds(q.Bounds)
	b.match(q.Match, lo, hi)
	for _, name := range q.By {
		s.by = append(s.by, b.column(name))
	}
	if name := q.Measure.Property; name != "" {
		s.value = b.column(name)
		s.typ = b.in.Schema.Type(name)
		if s.typ == event.String || s.typ == event.Bool {
			return nil, errorAt(q.Pos, "measure an integer or a number, or use count or users", "%s is %s, which cannot be measured", name, typeName(s.typ))
		}
	}
	return s, nil
}

// settle makes the calendar, and for each source what turns its times into
// buckets and its codes into numbers.
func (s *segmentation) settle(p *plan) (err error) {
	s.lexicons = make([]*lexicon, len(p.columns))
	for _, column := range s.by {
		if s.lexicons[column], err = p.newLexicon(column, 1<<8+1); err != nil {
			return err
		}
	}
	s.values = s.newDictionary(p)
	m := p.matchers[0]
	if s.q.Bucket != query.NoUnit {
		spans := p.spans(m.lo, m.hi)
		if n := len(spans); n > 1 && s.q.Fill {
			for _, other := range spans {
				spans[0].last = max(spans[0].last, other.last)
			}
			spans = spans[:1]
		}
		if s.calendar, err = newCalendar(spans, s.q.Bucket, s.q.Zone, 0, p.held); err != nil {
			return err
		}
		s.buckets = s.calendar.units()
	}
	for _, src := range p.sources {
		if s.calendar != nil {
			base, unit := src.times.Base(), src.times.Unit()
			if src.bucketIndex, err = s.calendar.index(base, unit, uint32((src.seg.MaxTime()-base)/unit), src.seg.Rows(), p.held); err != nil {
				return err
			}
		}
		if s.value >= 0 {
			if src.numbers, err = newNumberTable(src.columns[s.value], p.held); err != nil {
				return err
			}
		}
	}
	return nil
}

// newDictionary returns a dictionary that knows the lexicons.
func (s *segmentation) newDictionary(p *plan) *dictionary {
	d := newDictionary(p)
	d.lexicons = s.lexicons
	return d
}

func (s *segmentation) explain() string {
	text := fmt.Sprintf("segmentation into %d buckets by %d properties", s.buckets, len(s.by))
	if s.q.Limit > 0 {
		text += fmt.Sprintf(", after the %d groups with the most events were found", s.q.Limit)
	}
	return text
}

func (s *segmentation) need() need {
	return need{times: s.calendar != nil && !s.ranking, columns: len(s.by) > 0 || s.value >= 0}
}

func (s *segmentation) fork(w *worker) fold {
	f := &segmentationFold{segmentation: s, w: w, values: s.newDictionary(w.plan)}
	if s.ranking {
		f.grid = newGrid(w.plan, query.Count, len(s.by), 1)
		f.grid.byUser, f.grid.sampled = false, false
	} else {
		f.grid, f.calendar = newGrid(w.plan, s.q.Measure.Kind, len(s.by), s.buckets), s.calendar
	}
	if s.chosen != nil {
		f.grid.groups = s.chosen.groups + 1
	} else if len(s.by) == 1 && s.lexicons[s.by[0]] != nil {
		f.grid.direct, f.grid.groups = true, len(s.lexicons[s.by[0]].first)
	}
	return f
}

// again chooses groups after the first time, and reports whether the rows must be gone
// over again.
func (s *segmentation) again(p *plan) (bool, error) {
	if !s.ranking {
		return false, nil
	}
	s.ranking = false
	counts := s.grid
	if counts == nil {
		return false, nil // no row at all
	}
	best, total := s.largest(counts)
	s.chosen = newGrid(p, query.Count, len(s.by), 1)
	for _, cell := range best {
		group, _ := counts.split(int(cell))
		s.chosen.add(counts.key(group))
	}
	s.grid = nil
	if s.q.Measure.Kind == query.Count && s.calendar == nil && p.share == 1 {
		// That was all.
		s.grid = newGrid(p, query.Count, len(s.by), 1)
		s.grid.groups = len(best) + 1
		for _, cell := range best {
			s.grid.counts = append(s.grid.counts, counts.counts[cell])
			total -= counts.counts[cell]
		}
		s.grid.counts = append(s.grid.counts, total)
	}
	counts.release()
	return s.grid == nil, s.chosen.account()
}

// largest returns the cells with the most events, as many as the limit, and the events
// of all.
func (s *segmentation) largest(g *grid) (best []uint32, total int64) {
	compare := func(x, y uint32) int {
		if c := cmp.Compare(g.counts[y], g.counts[x]); c != 0 {
			return c
		}
		a, _ := g.split(int(x))
		b, _ := g.split(int(y))
		return s.compareKeys(g.key(a), g.key(b))
	}
	least := int64(1) // what a cell must have to be among the best
	for cell, n := range g.counts {
		total += n
		if n < least {
			continue
		}
		if best = append(best, uint32(cell)); len(best) > 2*s.q.Limit+1000 {
			slices.SortFunc(best, compare)
			best = best[:s.q.Limit]
			least = g.counts[best[s.q.Limit-1]]
		}
	}
	slices.SortFunc(best, compare)
	return best[:min(s.q.Limit, len(best))], total
}

// chosenGroup returns the group of values that another dictionary has numbered among
// those that were chosen.
func (s *segmentation) chosenGroup(from *dictionary, key [3]int32) uint32 {
	for k, column := range s.by {
		var ok bool
		if key[k], ok = from.translate(column, key[k], s.values, false); !ok {
			return uint32(s.chosen.groups)
		}
	}
	if group, ok := s.chosen.find(key); ok {
		return group
	}
	return uint32(s.chosen.groups)
}

// compareKeys orders groups by their values.
func (s *segmentation) compareKeys(x, y [3]int32) int {
	for k, column := range s.by {
		c := 0
		if s.lexicons[column] != nil {
			c = cmp.Compare(x[k], y[k]) // numbers are in the order of the values
		} else if x[k] != y[k] {
			c = event.Compare(s.values.value(x[k]), s.values.value(y[k]))
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// keyOf returns the values of a group.
func (s *segmentation) keyOf(group uint32) [3]int32 {
	if s.chosen != nil {
		return s.chosen.key(group)
	}
	return s.grid.key(group)
}

// isOther reports whether a group stands for all groups that were not chosen.
func (s *segmentation) isOther(group uint32) bool {
	return s.chosen != nil && int(group) == s.chosen.groups
}

// An answerRow is a row of an answer in the making.
type answerRow struct {
	group, bucket uint32
	cell          int32   // -1 if there is none: no event
	order         float64 // the measure, as near as a float can be to it; -Inf for null
}

// rows returns the rows of the answer in order.
func (s *segmentation) rows(p *plan) []answerRow {
	g := s.grid
	n := 0
	for at := range g.size() {
		n += btoi(g.rows(at) > 0)
	}
	var rows []answerRow
	switch {
	case s.q.Fill && s.calendar != nil:
		rows = s.filled()
	case n == 0 && s.calendar == nil && len(s.by) == 0:
		rows = []answerRow{{cell: -1}} // the only row is answered even if no event is in it
	default:
		rows = make([]answerRow, 0, n)
		for at := range g.size() {
			if g.rows(at) > 0 {
				group, bucket := g.split(at)
				rows = append(rows, answerRow{group: group, bucket: bucket, cell: int32(at)})
			}
		}
	}
	if s.chosen != nil && !s.q.Other {
		rows = slices.DeleteFunc(rows, func(l answerRow) bool { return s.isOther(l.group) })
	}
	for i := range rows {
		l := &rows[i]
		l.order = math.Inf(-1)
		if m := s.result(p, l.cell); m.Type != event.Unknown {
			l.order = float(m)
		}
	}
	slices.SortFunc(rows, func(x, y answerRow) int {
		// One after the other: cmp.Or would compare the groups each time.
		if c := cmp.Compare(x.bucket, y.bucket); c != 0 {
			return c
		}
		if other := s.isOther(x.group); other != s.isOther(y.group) {
			return btoi(other) - btoi(!other)
		}
		if c := cmp.Compare(y.order, x.order); c != 0 {
			return c
		}
		if math.Abs(x.order) >= 1<<53 {
			if c := compareMeasured(s.result(p, y.cell), s.result(p, x.cell)); c != 0 {
				return c
			}
		}
		if x.group == y.group {
			return 0
		}
		return s.compareKeys(s.keyOf(x.group), s.keyOf(y.group))
	})
	return rows
}

// filled returns a row for each bucket between the first and the last one, of each
// group.
func (s *segmentation) filled() (rows []answerRow) {
	g := s.grid
	first, last := uint32(math.MaxUint32), uint32(0)
	cells := make(map[[2]uint32]int32)
	groups := make(map[uint32]bool)
	for at := range g.size() {
		if g.rows(at) == 0 {
			continue
		}
		group, bucket := g.split(at)
		first, last = min(first, bucket), max(last, bucket)
		groups[group], cells[[2]uint32{group, bucket}] = true, int32(at)
	}
	const perCell = 48 // of the map
	s.values.take(perCell*int64(len(cells)) + int64(unsafe.Sizeof(answerRow{}))*int64(len(groups))*max(0, int64(last)-int64(first)+1))
	if s.values.err != nil {
		return nil
	}
	for group := range groups {
		for bucket := first; bucket <= last; bucket++ {
			l := answerRow{group: group, bucket: bucket, cell: -1}
			if at, ok := cells[[2]uint32{group, bucket}]; ok {
				l.cell = at
			}
			rows = append(rows, l)
		}
	}
	return rows
}

func (s *segmentation) answer(p *plan) (*query.Answer, error) {
	if s.grid == nil {
		s.grid = newGrid(p, s.q.Measure.Kind, len(s.by), s.buckets)
	}
	rows := s.rows(p)
	rowOf := make([]int32, s.grid.groups+1) // by group: the number of its first row, whose values the others share
	s.values.take(int64(len(rows))*int64(unsafe.Sizeof(query.SegmentRow{})+unsafe.Sizeof(answerRow{})) + 4*int64(len(rowOf)))
	if s.values.err != nil {
		return nil, s.values.err
	}
	a := &query.SegmentAnswer{Bucketed: s.calendar != nil, By: s.q.By, Rows: make([]query.SegmentRow, len(rows))}
	label, labeled := "", uint32(math.MaxUint32)
	for i, l := range rows {
		r := &a.Rows[i]
		r.Value, r.Other = s.result(p, l.cell), s.isOther(l.group)
		if s.calendar != nil {
			if l.bucket != labeled {
				label, labeled = s.calendar.label(int(l.bucket)), l.bucket
			}
			r.Bucket = label
		}
		switch first := rowOf[l.group]; {
		case r.Other:
		case first > 0:
			r.Group = a.Rows[first-1].Group
		default:
			rowOf[l.group] = int32(i) + 1
			r.Group = make([]event.Value, len(s.by))
			size := int64(unsafe.Sizeof(event.Value{})) * int64(len(s.by))
			for k, column := range s.by {
				r.Group[k] = s.values.valueOf(column, s.keyOf(l.group)[k])
				size += int64(len(r.Group[k].Text()))
			}
			s.values.take(size)
		}
	}
	return &query.Answer{Segment: a}, s.values.err
}

// result returns the measure of a cell.
func (s *segmentation) result(p *plan, at int32) query.Measured {
	c, kind := &cell{}, s.q.Measure.Kind
	switch {
	case at < 0:
	case s.grid.counted():
		c.rows = s.grid.counts[at]
	default:
		c = &s.grid.cells[at]
	}
	if kind == query.Count || kind == query.Users {
		n := query.ScaleCount(c.rows, c.squares, p.share)
		return query.Measured{Type: event.Int, Int: n.N, Low: float64(n.Low), High: float64(n.High), Sampled: n.Sampled}
	}
	if c.n == 0 {
		return query.Measured{}
	}
	integers := s.typ == event.Int
	switch kind {
	case query.Sum:
		sum, low, high := query.ScaleSum(c.total(), c.squares, p.share)
		m := query.Measured{Type: event.Float, Float: sum}
		if p.share < 1 {
			m.Low, m.High, m.Sampled = low, high, true
		}
		if exact := c.whole(); integers && !m.Sampled && exact.IsInt64() {
			m.Type, m.Int, m.Float = event.Int, exact.Int64(), 0
		} else if integers && m.Sampled {
			m.Type, m.Int, m.Float = event.Int, int64(math.Round(sum)), 0
		}
		return m
	case query.Avg:
		mean := c.total() / float64(c.n)
		if integers {
			mean, _ = new(big.Rat).SetFrac(c.whole(), big.NewInt(c.n)).Float64()
		}
		return query.Measured{Type: event.Float, Float: mean}
	case query.Percentile:
		rank := (c.n*int64(s.q.Measure.Percentile) + 99) / 100
		return s.unkey(s.grid.quantiles[at].at(rank))
	}
	if integers {
		return query.Measured{Type: event.Int, Int: c.i}
	}
	return query.Measured{Type: event.Float, Float: c.f}
}

// compareMeasured orders measures, null first.
func compareMeasured(a, b query.Measured) int {
	switch {
	case a.Type == event.Unknown || b.Type == event.Unknown:
		return cmp.Compare(btoi(a.Type != event.Unknown), btoi(b.Type != event.Unknown))
	case a.Type == event.Int && b.Type == event.Int:
		return cmp.Compare(a.Int, b.Int)
	}
	return cmp.Compare(float(a), float(b))
}

func float(m query.Measured) float64 {
	if m.Type == event.Int {
		return float64(m.Int)
	}
	return m.Float
}
