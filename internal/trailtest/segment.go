package trailtest

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// An accumulator is what a segment gathers of one group in one bucket.
type accumulator struct {
	bucket int64
	group  []event.Value
	events int
	users  map[string]bool
	values []event.Value // of the measured property, without missing ones
}

func (t *table) segment(s *query.Segment) *query.SegmentAnswer {
	is := t.match(s.Match)
	if s.Measure.Kind != query.Count && s.Measure.Kind != query.Users {
		switch typ := t.schema.Type(s.Measure.Property); typ {
		case event.String, event.Bool:
			t.fail("property %q is a %s, which cannot be measured", s.Measure.Property, typ)
			return nil
		}
	}
	zone := cmp.Or(s.Zone, time.UTC)
	groups := map[string]*accumulator{}
	for _, rows := range t.users {
		for _, r := range bounded(rows, s.Bounds) {
			if !is(r) {
				continue
			}
			b := accumulator{users: map[string]bool{}}
			if s.Bucket != query.NoUnit {
				b.bucket = periodOf(s.Bucket, r.time, zone)
			}
			for _, p := range s.By {
				b.group = append(b.group, r.values[p])
			}
			key := fmt.Sprintf("%d %q", b.bucket, b.group)
			if groups[key] == nil {
				groups[key] = &b
			}
			g := groups[key]
			g.events++
			g.users[r.user] = true
			if v := r.values[s.Measure.Property]; !v.Missing() {
				g.values = append(g.values, v)
			}
		}
	}
	if s.Fill && s.Bucket != query.NoUnit {
		fill(groups)
	}
	if s.Bucket == query.NoUnit && len(s.By) == 0 && len(groups) == 0 {
		groups[""] = &accumulator{}
	}
	return segmentAnswer(s, groups)
}

// fill adds an empty accumulator for each group in each bucket, from the first bucket
// that has events to the last.
func fill(all map[string]*accumulator) {
	if len(all) == 0 {
		return
	}
	var buckets []int64
	groups := map[string][]event.Value{}
	for _, b := range all {
		buckets = append(buckets, b.bucket)
		groups[fmt.Sprintf("%q", b.group)] = b.group
	}
	for n := slices.Min(buckets); n <= slices.Max(buckets); n++ {
		for g, values := range groups {
			key := fmt.Sprintf("%d %s", n, g)
			if all[key] == nil {
				all[key] = &accumulator{bucket: n, group: values}
			}
		}
	}
}

func segmentAnswer(s *query.Segment, groups map[string]*accumulator) *query.SegmentAnswer {
	type line struct {
		bucket int64
		row    query.SegmentRow
	}
	var lines []line
	for _, b := range groups {
		label := ""
		if s.Bucket != query.NoUnit {
			label = periodLabel(s.Bucket, b.bucket, cmp.Or(s.Zone, time.UTC))
		}
		lines = append(lines, line{b.bucket, query.SegmentRow{Bucket: label, Group: b.group, Value: measure(s.Measure, b)}})
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(
			cmp.Compare(a.bucket, b.bucket),
			compareMeasured(b.row.Value, a.row.Value),
			slices.CompareFunc(a.row.Group, b.row.Group, compareValues),
		)
	})
	answer := &query.SegmentAnswer{Bucketed: s.Bucket != query.NoUnit, By: s.By}
	for _, l := range lines {
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
	rank := (m.Percentile*n + 99) / 100 // nearest rank: the p/100*n th, rounded up
	return measured(b.values[rank-1])
}

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

func equalSegment(a, b *query.SegmentAnswer, tolerance float64) error {
	if err := first(differ("bucketed", a.Bucketed, b.Bucketed), differ("by", a.By, b.By)); err != nil {
		return err
	}
	// Sums of floats depend on the order of adding, so rows whose values are nearly
	// equal may have changed places; within a bucket they are put in order of group.
	x, y := settled(a.Rows, tolerance), settled(b.Rows, tolerance)
	for i := range min(len(x), len(y)) {
		where := fmt.Sprintf("row %d (%s%s)", i+1, x[i].Bucket, groupName(x[i].Group))
		if err := differ(where+", bucket", x[i].Bucket, y[i].Bucket); err != nil {
			return err
		}
		if err := differ(where+", properties", len(x[i].Group), len(y[i].Group)); err != nil {
			return err
		}
		for k := range x[i].Group {
			if err := equalValue(where+", group", x[i].Group[k], y[i].Group[k]); err != nil {
				return err
			}
		}
		if err := equalMeasured(where+", value", x[i].Value, y[i].Value, tolerance); err != nil {
			return err
		}
	}
	return differ("number of rows", len(a.Rows), len(b.Rows))
}

// settled returns rows in which runs of nearly equal numbers are in order of
// group.
func settled(rows []query.SegmentRow, tolerance float64) []query.SegmentRow {
	rows = slices.Clone(rows)
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && rows[to].Bucket == rows[from].Bucket &&
			rows[to].Value.Type == event.Float && rows[from].Value.Type == event.Float &&
			near(rows[to-1].Value.Float, rows[to].Value.Float, tolerance) {
			to++
		}
		slices.SortStableFunc(rows[from:to], func(a, b query.SegmentRow) int {
			return slices.CompareFunc(a.Group, b.Group, compareValues)
		})
		from = to
	}
	return rows
}

func equalMeasured(what string, a, b query.Measured, tolerance float64) error {
	same := a.Type == b.Type && a.Sampled == b.Sampled && a.Int == b.Int &&
		near(a.Float, b.Float, tolerance) && near(a.Low, b.Low, tolerance) && near(a.High, b.High, tolerance)
	if same {
		return nil
	}
	return fmt.Errorf("%s: %s, and %s", what, measuredName(a), measuredName(b))
}

func measuredName(m query.Measured) string {
	name := "null"
	switch m.Type {
	case event.Int:
		name = fmt.Sprintf("integer %d", m.Int)
	case event.Float:
		name = fmt.Sprintf("number %v", m.Float)
	}
	if m.Sampled {
		name += fmt.Sprintf(" [%v, %v]", m.Low, m.High)
	}
	return name
}

func (d *caseGenerator) segment() *query.Segment {
	s := &query.Segment{Match: d.match(d.chance(0.7)), Zone: d.zone(), Bounds: d.bounds()}
	if d.chance(0.7) {
		s.Bucket = pick(d, []query.Unit{query.Minute, query.Hour, query.Day, query.Day, query.Week, query.Month})
		// As fill makes a row for each bucket and group, it is left to long buckets.
		s.Fill = d.chance(0.3) && (s.Bucket >= query.Day || d.span <= day)
	}
	for range d.low(4) {
		p := d.property()
		if !slices.Contains(s.By, p) {
			s.By = append(s.By, p)
		}
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
