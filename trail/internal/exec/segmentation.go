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

// A segmentation measures events by time and by properties.
type segmentation struct {
	q        *query.Segment
	typ      event.Type // of the property that is measured
	by       []int      // columns
	value    int        // column of the property that is measured, -1 for none
	calendar *calendar  // nil without buckets
	buckets  int        // 1 without

	values    *dictionary // of by
	totals    map[place]int32
	cells     []cell      // by the number that totals has
	quantiles []quantiles // of Percentile; nil for others
}

// A place is a bucket of a group.
type place struct {
	group  [3]int32 // numbers of the values of by
	bucket int32
}

func (b *builder) segmentation(q *query.Segment) (kernel, error) {
	s := &segmentation{q: q, value: -1, buckets: 1, totals: make(map[place]int32)}
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
	s.values = newDictionary(p)
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

func (s *segmentation) explain() string {
	return fmt.Sprintf("segmentation into %d buckets by %d properties", s.buckets, len(s.by))
}

func (s *segmentation) need() need {
	return need{times: s.calendar != nil, columns: len(s.by) > 0 || s.value >= 0}
}

func (s *segmentation) fork(w *worker) fold {
	return &segmentationFold{
		segmentation: s, w: w,
		values: newDictionary(w.plan), tuples: make(map[[3]int32]uint32),
		byUser: s.q.Measure.Kind == query.Users || w.share < 1 && s.q.Measure.Kind <= query.Sum, // those are scaled to the whole
	}
}

// total returns the cell of all workers of a place.
func (s *segmentation) total(at place) int32 {
	i, ok := s.totals[at]
	if ok {
		return i
	}
	i = int32(len(s.cells))
	s.totals[at] = i
	s.cells = append(s.cells, cell{})
	s.values.take(40 + int64(unsafe.Sizeof(cell{})))
	if s.q.Measure.Kind == query.Percentile {
		s.quantiles = append(s.quantiles, quantiles{})
		s.values.take(int64(unsafe.Sizeof(quantiles{})))
	}
	return i
}

func (s *segmentation) answer(p *plan) (*query.Answer, error) {
	a := &query.SegmentAnswer{Bucketed: s.calendar != nil, By: s.q.By}
	if s.q.Fill && s.calendar != nil {
		s.fill()
	}
	if s.calendar == nil && len(s.by) == 0 {
		s.total(place{}) // the only row is answered even if no event is in it
	}
	type row struct {
		bucket int32
		query.SegmentRow
	}
	s.values.take(int64(len(s.totals)) * int64(2*unsafe.Sizeof(row{})+uintptr(len(s.by))*unsafe.Sizeof(event.Value{})))
	if s.values.err != nil {
		return nil, s.values.err
	}
	rows, values := make([]row, 0, len(s.totals)), make([]event.Value, len(s.totals)*len(s.by))
	for at, i := range s.totals {
		r := row{at.bucket, query.SegmentRow{Value: s.result(p, i)}}
		r.Group, values = values[:len(s.by):len(s.by)], values[len(s.by):]
		for k := range s.by {
			r.Group[k] = s.values.value(at.group[k])
		}
		if s.calendar != nil {
			r.Bucket = s.calendar.label(int(at.bucket))
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(x, y row) int {
		// One after the other: cmp.Or would compare the groups each time.
		if c := cmp.Compare(x.bucket, y.bucket); c != 0 {
			return c
		}
		if c := compareMeasured(y.Value, x.Value); c != 0 {
			return c
		}
		return slices.CompareFunc(x.Group, y.Group, compareValues)
	})
	a.Rows = make([]query.SegmentRow, len(rows))
	for i := range rows {
		a.Rows[i] = rows[i].SegmentRow
	}
	return &query.Answer{Segment: a}, nil
}

// fill adds the buckets without events, of each group between the first and the
// last bucket of all.
func (s *segmentation) fill() {
	first, last := int32(math.MaxInt32), int32(-1)
	groups := make(map[[3]int32]bool)
	for at := range s.totals {
		first, last = min(first, at.bucket), max(last, at.bucket)
		groups[at.group] = true
	}
	for group := range groups {
		for b := first; b <= last && s.values.err == nil; b++ {
			s.total(place{group, b})
		}
	}
}

// result returns the measure of a cell.
func (s *segmentation) result(p *plan, at int32) query.Measured {
	c := &s.cells[at]
	kind := s.q.Measure.Kind
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
		return s.unkey(s.quantiles[at].at(rank))
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
