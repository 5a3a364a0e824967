package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A shape says what the rows of a statement mean.
type shape struct {
	kind    shapeKind
	steps   int  // of a funnel
	grouped bool // rows of a funnel are groups
}

type shapeKind uint8

const (
	funnelShape shapeKind = iota
	retentionShape
	segmentShape
	cohortShape
	pathsShape
)

// Answer reads the rows that the statement gave as the answer of the query. Values
// are what drivers and JSON decoders make of SQL: nil, bool, integers, floats,
// json.Number, *big.Int, time.Time, strings (of numbers and dates too), and []any
// of these. Numbers of a sample are scaled to the whole here.
func (s *Statement) Answer(rows [][]any) (*query.Answer, error) {
	a := &query.Answer{Stats: query.Stats{Sample: share(s.query), Warnings: slices.Clone(s.Warnings)}}
	r := &reader{sample: share(s.query)}
	switch s.shape.kind {
	case funnelShape:
		a.Funnel = s.funnelAnswer(r, rows)
	case retentionShape:
		a.Retention = s.retentionAnswer(r, rows)
	case segmentShape:
		a.Segment = s.segmentAnswer(r, rows)
	case cohortShape:
		a.Cohort = &query.CohortAnswer{Name: s.query.Name}
		for _, row := range rows {
			a.Cohort.Users = r.users(r.at(row, 0))
		}
	case pathsShape:
		a.Paths = pathsAnswer(r, rows)
	}
	if r.err != nil {
		return nil, r.err
	}
	return a, nil
}

func (s *Statement) funnelAnswer(r *reader, rows [][]any) *query.FunnelAnswer {
	f := s.query.Funnel
	steps := func(row []any, from int) []query.FunnelStep {
		list := make([]query.FunnelStep, s.shape.steps)
		for k := range list {
			list[k].Event = strings.Join(f.Steps[k].Events, "|")
			if row != nil {
				list[k].Users = r.users(r.at(row, from+k))
			}
		}
		return list
	}
	a := &query.FunnelAnswer{Steps: steps(nil, 0), By: f.By}
	t := s.schema.Type(f.By)
	for _, row := range rows {
		switch {
		case !s.shape.grouped:
			a.Steps = steps(row, 0)
		case r.integer(r.at(row, 0)) == 1:
			a.Steps = steps(row, 2)
		default:
			a.Groups = append(a.Groups, query.FunnelGroup{Value: r.value(r.at(row, 1), t), Steps: steps(row, 2)})
		}
	}
	slices.SortStableFunc(a.Groups, func(x, y query.FunnelGroup) int {
		return cmp.Or(cmp.Compare(y.Steps[0].Users.N, x.Steps[0].Users.N), compareValues(x.Value, y.Value))
	})
	return a
}

func (s *Statement) retentionAnswer(r *reader, rows [][]any) *query.RetentionAnswer {
	a := &query.RetentionAnswer{}
	for _, row := range rows {
		start := r.date(r.at(row, 0))
		if n := len(a.Cohorts); n == 0 || a.Cohorts[n-1].Start != start {
			a.Cohorts = append(a.Cohorts, query.RetentionCohort{
				Start: start, Size: r.users(r.at(row, 1)), Periods: make([]query.Number, s.query.Retention.Periods),
			})
		}
		c := &a.Cohorts[len(a.Cohorts)-1]
		k := r.integer(r.at(row, 2))
		if k < 0 || k >= int64(len(c.Periods)) {
			r.fail(fmt.Errorf("period %d of %d", k, len(c.Periods)))
			break
		}
		c.Periods[k] = r.users(r.at(row, 3))
	}
	return a
}

func pathsAnswer(r *reader, rows [][]any) *query.PathsAnswer {
	a := &query.PathsAnswer{}
	for _, row := range rows {
		list, ok := r.at(row, 0).([]any)
		if !ok {
			r.fail(fmt.Errorf("a path is %T, want a list", r.at(row, 0)))
			break
		}
		path := make([]string, len(list))
		for i, name := range list {
			path[i] = r.text(name)
		}
		a.Paths = append(a.Paths, query.Path{Path: path, Users: r.users(r.at(row, 1))})
	}
	return a
}

// A segmentLine is a row with the number of its bucket, by which rows are ordered
// and filled.
type segmentLine struct {
	bucket int64
	row    query.SegmentRow
}

func (s *Statement) segmentAnswer(r *reader, rows [][]any) *query.SegmentAnswer {
	q := s.query.Segment
	a := &query.SegmentAnswer{Bucketed: q.Bucket != query.NoUnit, By: q.By}
	var lines []segmentLine
	for _, row := range rows {
		var l segmentLine
		column := 0
		if a.Bucketed {
			if q.Bucket >= query.Day {
				l.bucket = bucketOf(q.Bucket, r.date(r.at(row, 0)), r)
			} else {
				l.bucket = r.integer(r.at(row, 0))
			}
			column++
		}
		for _, property := range q.By {
			l.row.Group = append(l.row.Group, r.value(r.at(row, column), s.schema.Type(property)))
			column++
		}
		l.row.Value = r.measured(row[min(column, len(row)):], q.Measure.Kind, s.schema.Type(q.Measure.Property))
		lines = append(lines, l)
	}
	if q.Fill && a.Bucketed {
		lines = filled(lines, q.Measure.Kind)
	}
	slices.SortStableFunc(lines, func(x, y segmentLine) int {
		return cmp.Or(
			cmp.Compare(x.bucket, y.bucket),
			compareMeasured(y.row.Value, x.row.Value),
			slices.CompareFunc(x.row.Group, y.row.Group, compareValues),
		)
	})
	for _, l := range lines {
		if a.Bucketed {
			l.row.Bucket = s.label(q, l.bucket)
		}
		a.Rows = append(a.Rows, l.row)
	}
	return a
}

// bucketOf returns the number of the day, week or month that a date begins.
func bucketOf(u query.Unit, date string, r *reader) int64 {
	t, err := time.Parse(time.DateOnly, date)
	if err != nil {
		r.fail(err)
		return 0
	}
	days := t.Unix() / 86400 // exact: t is midnight
	switch u {
	case query.Week:
		return (days + 3) / 7 // exact: t is a Monday
	case query.Month:
		return int64(t.Year())*12 + int64(t.Month()) - 1
	}
	return days
}

// label names a bucket by its start.
func (s *Statement) label(q *query.Segment, n int64) string {
	switch q.Bucket {
	case query.Month:
		return time.Date(0, 1+time.Month(n), 1, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	case query.Week:
		return time.Unix((n*7-3)*86400, 0).UTC().Format(time.DateOnly)
	case query.Day:
		return time.Unix(n*86400, 0).UTC().Format(time.DateOnly)
	}
	zone := q.Zone
	if zone == nil {
		zone = time.UTC
	}
	shift := (&compiler{}).shift(q.Bucket, zone)
	return time.UnixMilli(n*clockMillis(q.Bucket) - shift).In(zone).Format(time.RFC3339)
}

// filled adds to each bucket from the first to the last the groups that it lacks.
func filled(lines []segmentLine, kind query.MeasureKind) []segmentLine {
	if len(lines) == 0 {
		return nil
	}
	groups, have := map[string][]event.Value{}, map[string]bool{}
	key := func(bucket int64, group []event.Value) string { return fmt.Sprintf("%d %q", bucket, group) }
	low, high := lines[0].bucket, lines[0].bucket
	for _, l := range lines {
		low, high = min(low, l.bucket), max(high, l.bucket)
		groups[key(0, l.row.Group)] = l.row.Group
		have[key(l.bucket, l.row.Group)] = true
	}
	var empty query.Measured
	if kind <= query.Users {
		empty.Type = event.Int
	}
	for bucket := low; bucket <= high; bucket++ {
		for _, group := range groups {
			if !have[key(bucket, group)] {
				lines = append(lines, segmentLine{bucket, query.SegmentRow{Group: group, Value: empty}})
			}
		}
	}
	return lines
}

// compareValues orders values of one property: the missing one, then by value.
func compareValues(a, b event.Value) int {
	switch {
	case a.Missing() || b.Missing():
		return cmp.Compare(len(a.String()), 0) - cmp.Compare(len(b.String()), 0)
	case a.Type() == event.String:
		return strings.Compare(a.Text(), b.Text())
	case a.Type() == event.Float:
		return cmp.Compare(a.Float(), b.Float())
	case a.Type() == event.Bool:
		return strings.Compare(a.String(), b.String())
	}
	return cmp.Compare(a.Int(), b.Int())
}

// compareMeasured orders what was measured, null first.
func compareMeasured(a, b query.Measured) int {
	amount := func(m query.Measured) float64 {
		switch m.Type {
		case event.Int:
			return float64(m.Int)
		case event.Float:
			return m.Float
		}
		return math.Inf(-1)
	}
	if a.Type == event.Int && b.Type == event.Int {
		return cmp.Compare(a.Int, b.Int)
	}
	return cmp.Compare(amount(a), amount(b))
}

// A reader reads values of rows. The first error stays.
type reader struct {
	sample float64
	err    error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) at(row []any, i int) any {
	if i >= len(row) {
		r.fail(fmt.Errorf("a row of %d columns, want %d or more", len(row), i+1))
		return nil
	}
	return row[i]
}

// integer reads a whole number that fits 64 bits.
func (r *reader) integer(v any) int64 {
	i, ok := whole(v)
	if !ok || !i.IsInt64() {
		r.fail(fmt.Errorf("%v (%T) is not an integer", v, v))
		return 0
	}
	return i.Int64()
}

// whole returns a value as a whole number, if it is one.
func whole(v any) (*big.Int, bool) {
	switch v := v.(type) {
	case int64:
		return big.NewInt(v), true
	case int:
		return big.NewInt(int64(v)), true
	case int32:
		return big.NewInt(int64(v)), true
	case uint8:
		return big.NewInt(int64(v)), true
	case uint16:
		return big.NewInt(int64(v)), true
	case uint32:
		return big.NewInt(int64(v)), true
	case uint64:
		return new(big.Int).SetUint64(v), true
	case *big.Int:
		return v, true
	case json.Number:
		return new(big.Int).SetString(v.String(), 10)
	case string:
		return new(big.Int).SetString(v, 10)
	case float64:
		if v != math.Trunc(v) || math.IsInf(v, 0) {
			return nil, false
		}
		i, _ := big.NewFloat(v).Int(nil)
		return i, true
	}
	return nil, false
}

func (r *reader) float(v any) float64 {
	var f float64
	var err error
	switch v := v.(type) {
	case float64:
		f = v
	case float32:
		f = float64(v)
	case json.Number:
		f, err = v.Float64()
	case string:
		f, err = strconv.ParseFloat(v, 64)
	default:
		i, ok := whole(v)
		if !ok {
			err = errors.New("no number")
		} else {
			f, _ = new(big.Float).SetInt(i).Float64()
		}
	}
	if err != nil {
		r.fail(fmt.Errorf("%v (%T): %w", v, v, err))
	}
	return f
}

func (r *reader) text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	r.fail(fmt.Errorf("%v (%T) is not text", v, v))
	return ""
}

// date reads a day as 2026-01-05.
func (r *reader) date(v any) string {
	if t, ok := v.(time.Time); ok {
		return t.Format(time.DateOnly)
	}
	day, _, _ := strings.Cut(r.text(v), " ")
	return day
}

// value reads a value of a property.
func (r *reader) value(v any, t event.Type) event.Value {
	if v == nil {
		return event.Value{}
	}
	switch t {
	case event.Int:
		return event.IntOf(r.integer(v))
	case event.Float:
		return event.FloatOf(r.float(v))
	case event.Bool:
		switch v := v.(type) {
		case bool:
			return event.BoolOf(v)
		case string:
			return event.BoolOf(v == "true" || v == "1")
		}
		return event.BoolOf(r.integer(v) != 0)
	}
	return event.StringOf(r.text(v))
}

// users reads a count of users.
func (r *reader) users(v any) query.Number {
	n := r.integer(v)
	return query.ScaleCount(n, float64(n), r.sample)
}

// measured reads a measure of a property of a type, and the squares next to it if
// it is to be scaled.
func (r *reader) measured(row []any, kind query.MeasureKind, t event.Type) query.Measured {
	v := r.at(row, 0)
	if v == nil {
		return query.Measured{}
	}
	squares := func() float64 {
		if kind == query.Users {
			return r.float(v)
		}
		if s := r.at(row, 1); s != nil {
			return r.float(s)
		}
		return 0
	}
	switch {
	case kind == query.Count || kind == query.Users:
		var spread float64
		if r.sample < 1 {
			spread = squares()
		}
		n := query.ScaleCount(r.integer(v), spread, r.sample)
		return query.Measured{Type: event.Int, Int: n.N, Low: float64(n.Low), High: float64(n.High), Sampled: n.Sampled}
	case kind == query.Sum && r.sample < 1:
		m := query.Measured{Type: event.Float, Sampled: true}
		m.Float, m.Low, m.High = query.ScaleSum(r.float(v), squares(), r.sample)
		if t == event.Int {
			m.Type, m.Int, m.Float = event.Int, int64(math.Round(m.Float)), 0
		}
		return m
	case kind == query.Avg || t == event.Float:
		f := r.float(v)
		if math.IsNaN(f) {
			return query.Measured{} // ClickHouse: of no values
		}
		return query.Measured{Type: event.Float, Float: f}
	}
	if i, ok := whole(v); ok && i.IsInt64() {
		return query.Measured{Type: event.Int, Int: i.Int64()}
	}
	return query.Measured{Type: event.Float, Float: r.float(v)}
}
