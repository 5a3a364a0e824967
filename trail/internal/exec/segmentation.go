package exec

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
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

	groups map[[3]event.Value]map[int]*total // by bucket
}

func (b *builder) segmentation(q *query.Segment) (kernel, error) {
	s := &segmentation{q: q, value: -1, buckets: 1, groups: make(map[[3]event.Value]map[int]*total)}
	lo, hi := b.bounds(q.Bounds)
	if err := b.match(q.Match, lo, hi); err != nil {
		return nil, err
	}
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
	if q.Bucket == query.NoUnit {
		return s, nil
	}
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, src := range b.in.Sources {
		first, last = min(first, src.Segment.MinTime()), max(last, src.Segment.MaxTime())
	}
	first, last = max(first, lo), min(last, hi-1)
	if first > last {
		first, last = 0, 0
	}
	var err error
	if s.calendar, err = newCalendar(first, last, q.Bucket, q.Zone, 0); err != nil {
		return nil, err
	}
	s.buckets = s.calendar.units()
	return s, nil
}

func (s *segmentation) explain() string {
	return fmt.Sprintf("segmentation into %d buckets by %d properties", s.buckets, len(s.by))
}

func (s *segmentation) need() need {
	return need{times: s.calendar != nil, columns: len(s.by) > 0 || s.value >= 0}
}

func (s *segmentation) fork(w *worker) fold {
	return &segmentFold{
		segmentation: s, w: w,
		values: newDictionary(w), rulers: make(map[*source]*ruler), tuples: make(map[[3]int32]uint32),
		byUser: s.q.Measure.Kind == query.Users || w.share < 1 && s.scaled(),
	}
}

// scaled tells whether the measure of a sample is scaled to the whole.
func (s *segmentation) scaled() bool {
	switch s.q.Measure.Kind {
	case query.Count, query.Users, query.Sum:
		return true
	}
	return false
}

// A cell is what is known of a bucket of a group.
type cell struct {
	rows    int64   // or users, for Users
	n       int64   // those that have a value of the property that is measured
	i       int64   // Min and Max of integers, the low half of Sum
	high    int64   // the high half of Sum
	f       float64 // Sum, Min and Max of numbers
	lost    float64 // what adding to f has rounded away
	user    uint32  // the last user, if cells are kept by user
	part    float64 // of the last user
	squares float64 // of what the users before him contributed
}

// A total is a cell of all workers.
type total struct {
	cell
	quantiles quantiles // of Percentile
}

// A segmentFold is the fold of a segmentation. It goes over the rows of a view
// twice: once to find the cell of each row, once to measure.
type segmentFold struct {
	*segmentation
	w      *worker
	values *dictionary
	rulers map[*source]*ruler
	tuples map[[3]int32]uint32 // numbers of the values of by -> group
	keys   [][3]int32          // by group
	byUser bool
	user   uint32 // the number of the user, from 1

	counts    []int64 // by cell, for Count without a sample
	odd       []int64 // as counts, and to be added to them
	cells     []cell  // by cell, else
	quantiles []quantiles
	held      int64 // bytes of these that were accounted for
	numbers   numbers

	// Cells are numbered by group and bucket, as long as they are not too many,
	// since most could be empty then; from there on as they appear.
	sparse map[uint64]uint32 // group<<32 | bucket -> cell
	places []uint64          // by cell: group<<32 | bucket
}

// maxDense is up to how many cells all of a worker's have a number.
const maxDense = 1 << 18

// outside is the cell of rows that do not count.
const outside = math.MaxUint32

func (s *segmentFold) shard(views []*view) error {
	s.values.open(views)
	if s.simple(views) {
		return s.count(views)
	}
	for _, v := range views {
		s.tell(v)
		if s.value >= 0 {
			if err := s.numbers.open(&v.codes[s.value], s.w.held); err != nil {
				return err
			}
		}
	}
	if s.sparse == nil && len(s.keys)*s.buckets > maxDense {
		s.scatter()
	}
	for _, v := range views {
		if err := s.place(v); err != nil {
			return err
		}
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

// simple tells whether rows can be counted in one pass: there is nothing to
// measure, and at most one property with few values in every view.
func (s *segmentFold) simple(views []*view) bool {
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
func (s *segmentFold) count(views []*view) error {
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
		r, err := s.ruler(v)
		if err != nil {
			return err
		}
		if codes == nil {
			codes = s.w.arena.bytes(len(masks))
			paint(codes, 0)
		}
		if r == nil {
			for i, m := range masks {
				counts[bases[codes[i]]] += int64(m)
			}
			continue
		}
		// No branches: which rows pass changes with every session, and would be
		// mispredicted as often. Rows of one cell follow on each other, so every
		// other row is counted elsewhere, or each would wait for the one before.
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

// tell finds the groups of the rows of a view.
func (s *segmentFold) tell(v *view) {
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
		// The groups of all codes at once: there are few.
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
func (s *segmentFold) place(v *view) error {
	if s.calendar == nil {
		if s.sparse != nil {
			for i, group := range v.cells {
				if group != outside {
					v.cells[i] = s.number(uint64(group) << 32)
				}
			}
		}
		return nil
	}
	r, err := s.ruler(v)
	if err != nil {
		return err
	}
	times, buckets := v.times[:len(v.cells)], uint32(s.buckets)
	for i, group := range v.cells {
		if group == outside {
			continue
		}
		if bucket := r.find(times[i]); s.sparse == nil {
			v.cells[i] = group*buckets + bucket
		} else {
			v.cells[i] = s.number(uint64(group)<<32 | uint64(bucket))
		}
	}
	return nil
}

// ruler returns the ruler of a view, nil without buckets.
func (s *segmentFold) ruler(v *view) (r *ruler, err error) {
	if s.calendar == nil {
		return nil, nil
	}
	if r = s.rulers[v.source]; r == nil {
		if r, err = s.calendar.ruler(v.base, v.unit, uint32((v.seg.MaxTime()-v.base)/v.unit)); err != nil {
			return nil, err
		}
		s.rulers[v.source] = r
	}
	return r, nil
}

// number returns the number of a cell, a new one if it has none yet.
func (s *segmentFold) number(place uint64) uint32 {
	at, ok := s.sparse[place]
	if !ok {
		at = uint32(len(s.places))
		s.sparse[place] = at
		s.places = append(s.places, place)
	}
	return at
}

// scatter goes over from cells that all have a number to those that are there.
func (s *segmentFold) scatter() {
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
func (s *segmentFold) even() {
	for at, n := range s.odd {
		s.counts[at] += n
	}
	s.odd = nil
}

// split returns the group and the bucket of a cell.
func (s *segmentFold) split(at int) (group, bucket int) {
	if s.sparse == nil {
		return at / s.buckets, at % s.buckets
	}
	return int(s.places[at] >> 32), int(s.places[at] & math.MaxUint32)
}

// group returns the number of a tuple of values.
func (s *segmentFold) group(key [3]int32) uint32 {
	if g, ok := s.tuples[key]; ok {
		return g
	}
	g := uint32(len(s.keys))
	s.tuples[key] = g
	s.keys = append(s.keys, key)
	return g
}

// grow makes room for the cells that have a number.
func (s *segmentFold) grow() error {
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

// measured tells whether cells are needed, and not counts alone.
func (s *segmentFold) measured() bool { return s.byUser || s.q.Measure.Kind != query.Count }

// measure adds rows to their cells.
func (s *segmentFold) measure(v *view, lo, hi int) error {
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
		i, f, ok := s.numbers.at(&v.codes[s.value], row)
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

// sum adds a value. Integers are added in 128 bits, and numbers with the error of
// each addition kept (Neumaier 1974), so that the order of the rows, which depends
// on the segments, does not show.
func (c *cell) sum(i int64, f float64) {
	c.addWhole(i, i>>63)
	c.addFloat(f)
}

func (c *cell) addWhole(low, high int64) {
	sum, carry := bits.Add64(uint64(c.i), uint64(low), 0)
	c.i, c.high = int64(sum), c.high+high+int64(carry)
}

func (c *cell) addFloat(f float64) {
	sum := c.f + f
	if math.Abs(c.f) >= math.Abs(f) {
		c.lost += c.f - sum + f
	} else {
		c.lost += f - sum + c.f
	}
	c.f = sum
}

// whole returns the sum of integers.
func (c *cell) whole() *big.Int {
	n := big.NewInt(c.high)
	return n.Lsh(n, 64).Add(n, new(big.Int).SetUint64(uint64(c.i)))
}

// total returns the sum of numbers.
func (c *cell) total() float64 { return c.f + c.lost }

func (s *segmentFold) less(i int64, f float64, c *cell) bool {
	if s.typ == event.Int {
		return i < c.i
	}
	return f < c.f
}

func (s *segmentFold) more(i int64, f float64, c *cell) bool {
	if s.typ == event.Int {
		return i > c.i
	}
	return f > c.f
}

// key returns a number as a key that keeps its order.
func (s *segmentation) key(i int64, f float64) uint64 {
	if s.typ == event.Int {
		return uint64(i) ^ 1<<63
	}
	order := math.Float64bits(f)
	if order>>63 != 0 {
		return ^order
	}
	return order | 1<<63
}

// unkey is the inverse of key.
func (s *segmentation) unkey(key uint64) query.Measured {
	if s.typ == event.Int {
		return query.Measured{Type: event.Int, Int: int64(key ^ 1<<63)}
	}
	if key>>63 != 0 {
		key &^= 1 << 63
	} else {
		key = ^key
	}
	return query.Measured{Type: event.Float, Float: math.Float64frombits(key)}
}

func (s *segmentFold) join() error {
	s.even()
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
		to, err := s.segmentation.cell(s.valuesOf(group), bucket, s.w.held)
		if err != nil {
			return err
		}
		s.add(&to.cell, &c)
		if s.quantiles != nil {
			to.quantiles.join(&s.quantiles[at])
		}
	}
	s.counts, s.cells, s.quantiles = nil, nil, nil
	return nil
}

// valuesOf returns the values of a group.
func (s *segmentFold) valuesOf(group int) (values [3]event.Value) {
	for k := range s.by {
		values[k] = s.values.value(s.keys[group][k])
	}
	return values
}

// cell returns what all workers know of a cell.
func (s *segmentation) cell(values [3]event.Value, bucket int, held *budget) (*total, error) {
	g := s.groups[values]
	if g == nil {
		g = make(map[int]*total)
		s.groups[values] = g
	}
	to := g[bucket]
	if to == nil {
		to = &total{}
		g[bucket] = to
		return to, held.take(int64(unsafe.Sizeof(total{})) + 48)
	}
	return to, nil
}

// add adds a cell of one worker to that of all.
func (s *segmentFold) add(to, c *cell) {
	to.rows += c.rows
	to.squares += c.squares
	if c.n == 0 {
		return
	}
	switch kind := s.q.Measure.Kind; {
	case kind == query.Min && (to.n == 0 || s.less(c.i, c.f, to)), kind == query.Max && (to.n == 0 || s.more(c.i, c.f, to)):
		to.i, to.f = c.i, c.f
	case kind == query.Sum || kind == query.Avg:
		to.addWhole(c.i, c.high)
		to.addFloat(c.f)
		to.lost += c.lost
	}
	to.n += c.n
}

func (s *segmentation) answer(p *plan) (*query.Answer, error) {
	a := &query.SegmentAnswer{Bucketed: s.calendar != nil, By: s.q.By}
	if s.q.Fill && s.calendar != nil {
		if err := s.fill(p.held); err != nil {
			return nil, err
		}
	}
	if s.calendar == nil && len(s.by) == 0 {
		// The only row is answered even if no event is in it.
		if _, err := s.cell([3]event.Value{}, 0, p.held); err != nil {
			return nil, err
		}
	}
	type place struct {
		bucket int
		row    query.SegmentRow
	}
	var rows []place
	for values, buckets := range s.groups {
		for bucket, c := range buckets {
			row := query.SegmentRow{Group: slices.Clone(values[:len(s.by)]), Value: s.result(p, c)}
			if s.calendar != nil {
				row.Bucket = s.calendar.label(bucket)
			}
			rows = append(rows, place{bucket, row})
		}
	}
	slices.SortFunc(rows, func(x, y place) int {
		return cmp.Or(
			cmp.Compare(x.bucket, y.bucket),
			-compareMeasured(x.row.Value, y.row.Value),
			slices.CompareFunc(x.row.Group, y.row.Group, compareValues))
	})
	for _, r := range rows {
		a.Rows = append(a.Rows, r.row)
	}
	return &query.Answer{Segment: a}, nil
}

// fill adds the buckets without events, of each group between the first and the
// last bucket of all.
func (s *segmentation) fill(held *budget) error {
	first, last := s.buckets, -1
	for _, buckets := range s.groups {
		for b := range buckets {
			first, last = min(first, b), max(last, b)
		}
	}
	for values := range s.groups {
		for b := first; b <= last; b++ {
			if _, err := s.cell(values, b, held); err != nil {
				return err
			}
		}
	}
	return nil
}

// result returns the measure of a cell.
func (s *segmentation) result(p *plan, c *total) query.Measured {
	kind := s.q.Measure.Kind
	if kind == query.Count || kind == query.Users {
		n := p.spread(c.rows, c.squares)
		return query.Measured{Type: event.Int, Int: n.N, Low: float64(n.Low), High: float64(n.High), Sampled: n.Sampled}
	}
	if c.n == 0 {
		return query.Measured{}
	}
	integers := s.typ == event.Int
	switch kind {
	case query.Sum:
		sum, low, high := p.interval(c.total(), c.squares)
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
		return s.unkey(c.quantiles.at(rank))
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

// Numbers reads the property that is measured.
type numbers struct {
	tables map[*segment.Column]*numberTable
}

// A numberTable has the numbers of a column's codes, so that they are decoded
// once and not for every row.
type numberTable struct {
	ints   []int64
	floats []float64
}

// open makes sure that there is a table for the column of a view, if it is to
// have one.
func (n *numbers) open(c *codes, held *budget) error {
	if c.col == nil || c.col.Codes() == 0 || c.col.Codes() > maxRemap {
		return nil
	}
	if n.tables == nil {
		n.tables = make(map[*segment.Column]*numberTable)
	}
	if c.numbers = n.tables[c.col]; c.numbers != nil {
		return nil
	}
	k := c.col.Codes()
	t := &numberTable{ints: make([]int64, k), floats: make([]float64, k)}
	for code := 1; code < k; code++ {
		v := c.col.Value(uint32(code))
		t.ints[code], t.floats[code] = v.Int(), v.Float()
	}
	n.tables[c.col], c.numbers = t, t
	return held.take(16 * int64(k))
}

// at returns the number in a row, as an integer if the property is one; it is not
// ok if there is none.
func (n *numbers) at(c *codes, row int) (i int64, f float64, ok bool) {
	if c.col == nil {
		return 0, 0, false
	}
	if c.raw != nil {
		v, ok := rawValue(c.col.Type(), c.raw[row])
		return v.Int(), v.Float(), ok
	}
	code := c.at(row)
	if c.numbers != nil {
		return c.numbers.ints[code], c.numbers.floats[code], code != 0
	}
	v := c.col.Value(code)
	return v.Int(), v.Float(), code != 0
}
