package trailtest

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// An accumulator is what a segment gathers of one group in one bucket.
type accumulator struct {
	place
	events int
	users  map[string]bool
	values []event.Value // of the measured property, without missing ones
}

// A place is where an event counts in a segment: a row of the answer.
type place struct {
	bucket int64
	group  []event.Value // nil of other
	other  bool          // one of the groups beyond the limit
}

func (p place) key() string { return fmt.Sprintf("%d %v %q", p.bucket, p.other, p.group) }

// A placed is an event that a segment means. Events of groups that are not answered
// have no place.
type placed struct {
	row
	place
	dropped bool
}

func (t *table) segment(s *query.Segment) *query.SegmentAnswer {
	if s.Measure.Kind != query.Count && s.Measure.Kind != query.Users {
		switch typ := t.schema.Type(s.Measure.Property); typ {
		case event.String, event.Bool:
			t.fail("property %q is a %s, which cannot be measured", s.Measure.Property, typ)
		}
	}
	events := t.placed(s)
	if t.err != nil {
		return nil
	}
	rows := map[string]*accumulator{}
	for _, e := range events {
		if e.dropped {
			continue
		}
		a := rows[e.key()]
		if a == nil {
			a = &accumulator{place: e.place, users: map[string]bool{}}
			rows[e.key()] = a
		}
		a.events++
		a.users[e.user] = true
		if v := e.values[s.Measure.Property]; !v.Missing() {
			a.values = append(a.values, v)
		}
	}
	if s.Fill && s.Bucket != query.NoUnit {
		fill(rows, events)
	}
	if s.Bucket == query.NoUnit && len(s.By) == 0 && len(rows) == 0 {
		rows[""] = &accumulator{}
	}
	return segmentAnswer(s, rows)
}

// segmentUsers returns the users with an event in a row, or in any of the rows.
func (t *table) segmentUsers(s *query.Segment, sel *query.Selection) []uint64 {
	t.require(sel.Bucket == "" || s.Bucket != query.NoUnit, "the segment has no buckets")
	t.checkGroup(sel, s.By, s.Other)
	events := t.placed(s)
	if t.err != nil {
		return nil
	}
	users := map[uint64]bool{}
	for _, e := range events {
		switch {
		case sel.Bucket != "" && sel.Bucket != periodLabel(s.Bucket, e.bucket, cmp.Or(s.Zone, time.UTC)),
			sel.Other && !e.other,
			len(sel.Group) > 0 && (e.dropped || e.other || !isGroup(e.group, sel.Group)):
		default:
			users[e.hash] = true
		}
	}
	return slices.Collect(maps.Keys(users))
}

// placed returns the events that a segment means, and where they count: in the groups
// with the most events, as many as the limit allows, or in the group of all others. Of groups
// with equally many events the one with the smaller values comes first.
func (t *table) placed(s *query.Segment) []placed {
	t.require(len(s.By) > 0 || s.Limit == 0 && !s.Other, "a limit of groups and the others go with by")
	is := t.match(s.Match)
	var events []placed
	groups := map[string][]placed{}
	for _, rows := range t.users {
		for _, r := range bounded(rows, s.Bounds) {
			if !is(r) {
				continue
			}
			e := placed{row: r}
			if s.Bucket != query.NoUnit {
				e.bucket = periodOf(s.Bucket, r.time, cmp.Or(s.Zone, time.UTC))
			}
			for _, p := range s.By {
				e.group = append(e.group, r.values[p])
			}
			events = append(events, e)
			key := fmt.Sprintf("%q", e.group)
			groups[key] = append(groups[key], e)
		}
	}
	if s.Limit == 0 || len(groups) <= s.Limit {
		return events
	}
	inOrder := slices.SortedFunc(maps.Values(groups), func(a, b []placed) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), slices.CompareFunc(a[0].group, b[0].group, compareValues))
	})
	events = slices.Concat(inOrder[:s.Limit]...)
	for _, e := range slices.Concat(inOrder[s.Limit:]...) {
		e.place = place{bucket: e.bucket, other: s.Other}
		e.dropped = !s.Other
		events = append(events, e)
	}
	return events
}

// fill adds an empty row for each group in each bucket, from the first bucket that has
// events to the last, also if these events are of groups that are not answered.
func fill(rows map[string]*accumulator, events []placed) {
	if len(events) == 0 {
		return
	}
	var buckets []int64
	groups := map[string]place{}
	for _, e := range events {
		buckets = append(buckets, e.bucket)
		if !e.dropped {
			groups[fmt.Sprintf("%v %q", e.other, e.group)] = e.place
		}
	}
	for n := slices.Min(buckets); n <= slices.Max(buckets); n++ {
		for _, p := range groups {
			p.bucket = n
			if rows[p.key()] == nil {
				rows[p.key()] = &accumulator{place: p}
			}
		}
	}
}

func segmentAnswer(s *query.Segment, groups map[string]*accumulator) *query.SegmentAnswer {
	type bucketRow struct {
		bucket int64
		row    query.SegmentRow
	}
	var ordered []bucketRow
	for _, b := range groups {
		label := ""
		if s.Bucket != query.NoUnit {
			label = periodLabel(s.Bucket, b.bucket, cmp.Or(s.Zone, time.UTC))
		}
		ordered = append(ordered, bucketRow{b.bucket, query.SegmentRow{Bucket: label, Group: b.group, Other: b.other, Value: measure(s.Measure, b)}})
	}
	slices.SortFunc(ordered, func(a, b bucketRow) int {
		return cmp.Or(
			cmp.Compare(a.bucket, b.bucket),
			cmp.Compare(boolInt(a.row.Other), boolInt(b.row.Other)),
			compareMeasured(b.row.Value, a.row.Value),
			slices.CompareFunc(a.row.Group, b.row.Group, compareValues),
		)
	})
	answer := &query.SegmentAnswer{Bucketed: s.Bucket != query.NoUnit, By: s.By}
	for _, l := range ordered {
		answer.Rows = append(answer.Rows, l.row)
	}
	return answer
}

func measure(m query.Measure, b *accumulator) query.Measured {
	switch m.Kind {
	case query.Count:
		return query.Measured{Type: event.Int, Int: int64(b.events)}
	case query.Users:
		return query.Measured{Type: event.Int, Int: int64(len(b.users))}
	}
	n := len(b.values)
	if n == 0 {
		return query.Measured{}
	}
	slices.SortFunc(b.values, compareValues)
	switch m.Kind {
	case query.Sum:
		return sum(b.values)
	case query.Avg:
		total := sum(b.values)
		if total.Type == event.Int {
			total.Float = float64(total.Int)
		}
		return query.Measured{Type: event.Float, Float: total.Float / float64(n)}
	case query.Min:
		return measured(b.values[0])
	case query.Max:
		return measured(b.values[n-1])
	}
	return measured(b.values[nearestRank(m.Percentile, n)-1])
}

// nearestRank returns the rank from 1 of a percentile of n values: p/100*n, rounded up.
// The value of that rank is the smallest one that is not less than that share of them.
func nearestRank(percentile, n int) int { return (percentile*n + 99) / 100 }

// sum adds integers exactly, and gives a number if the sum fits no int64.
func sum(values []event.Value) query.Measured {
	const exact = 2200 // bits, more than lie between the largest number and the smallest
	if values[0].Type() == event.Float {
		total := new(big.Float).SetPrec(exact)
		for _, v := range values {
			total.Add(total, big.NewFloat(v.Float()))
		}
		f, _ := total.Float64()
		return query.Measured{Type: event.Float, Float: f}
	}
	total := new(big.Int)
	for _, v := range values {
		total.Add(total, big.NewInt(v.Int()))
	}
	if total.IsInt64() {
		return query.Measured{Type: event.Int, Int: total.Int64()}
	}
	f, _ := new(big.Float).SetInt(total).Float64()
	return query.Measured{Type: event.Float, Float: f}
}

func measured(v event.Value) query.Measured {
	if v.Type() == event.Int {
		return query.Measured{Type: event.Int, Int: v.Int()}
	}
	return query.Measured{Type: event.Float, Float: v.Float()}
}

// compareMeasured orders what was measured by value, null first.
func compareMeasured(a, b query.Measured) int {
	if a.Type == event.Unknown || b.Type == event.Unknown {
		return boolInt(a.Type != event.Unknown) - boolInt(b.Type != event.Unknown)
	}
	if a.Type == event.Int && b.Type == event.Int {
		return cmp.Compare(a.Int, b.Int)
	}
	return cmp.Compare(amount(a), amount(b))
}

// amount returns what was measured as a number.
func amount(m query.Measured) float64 {
	if m.Type == event.Int {
		return float64(m.Int)
	}
	return m.Float
}

func (d *caseGenerator) segment() *query.Segment {
	s := &query.Segment{Match: d.match(d.chance(0.7)), Zone: d.zone(), Bounds: d.bounds()}
	if d.chance(0.7) {
		s.Bucket = d.bucket()
		// As fill makes a row for each bucket and group, there must not be too many.
		s.Fill = d.chance(0.3) && d.buckets(s.Bucket) < 1000
	}
	if s.By = d.by(d.low(4)); len(s.By) > 0 && d.chance(0.3) {
		s.Limit, s.Other = 1+d.low(5), d.chance(0.6)
	}
	var numeric []string
	for _, f := range d.Schema {
		if f.Type == event.Int || f.Type == event.Float {
			numeric = append(numeric, f.Name)
		}
	}
	s.Measure.Kind = pick(d, []query.MeasureKind{query.Count, query.Users})
	if len(numeric) > 0 && d.chance(0.6) {
		s.Measure.Kind = pick(d, []query.MeasureKind{query.Sum, query.Avg, query.Min, query.Max, query.Percentile})
		s.Measure.Property = pick(d, numeric)
		if s.Measure.Kind == query.Percentile {
			s.Measure.Percentile = pick(d, []int{1, 25, 50, 75, 90, 95, 99})
		}
	}
	return s
}
