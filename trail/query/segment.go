package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/trail/event"
)

const maxBy = 3 // properties

type segmentKind struct{}

func (segmentKind) name() string           { return "segment" }
func (segmentKind) of(q *Query) bool       { return q.Segment != nil }
func (segmentKind) answers(a *Answer) bool { return a.Segment != nil }
func (segmentKind) reach(q *Query) Bounds  { return q.Segment.Bounds }

// A Segment is a measure of events by time and by properties.
type Segment struct {
	Match
	Bucket  Unit     // NoUnit puts all in one
	By      []string // up to 3 properties
	Measure Measure
	Limit   int  // groups that are answered, up to a million: the ones with the most events in all buckets, then by values; 0 for all
	Other   bool // the groups beyond Limit are answered as one
	Fill    bool // buckets without events are answered too, between the first and the last
	Zone    *time.Location
	Bounds
}

// A Measure is what a segment answers for a group.
type Measure struct {
	Kind       MeasureKind
	Property   string // of all but Count and Users
	Percentile int    // 1 to 99, of Percentile
}

// A MeasureKind is a way to measure a group of events.
type MeasureKind uint8

// The measures.
const (
	Count MeasureKind = iota // events
	Users                    // distinct users
	Sum
	Avg
	Min
	Max
	Percentile
)

// A SegmentAnswer has one row for each group: by bucket, then value descending
// (null last), then group; Other comes last in its bucket.
type SegmentAnswer struct {
	Bucketed bool // rows have a bucket
	By       []string
	Rows     []SegmentRow
}

// A SegmentRow is the measure of one group.
type SegmentRow struct {
	Bucket string        // 2026-01-05, or RFC 3339 for hours and minutes; "" unless Bucketed
	Group  []event.Value // one for each By; nil of Other
	Other  bool          // of the groups beyond Limit
	Value  Measured
}

// Measured is what a measure gave: an integer (counts, and sums, minima, maxima
// and percentiles of integers), a number, or null (Type is Unknown).
type Measured struct {
	Type      event.Type // Unknown, Int or Float
	Int       int64
	Float     float64
	Low, High float64 // as for Number
	Sampled   bool    // Low and High are set: counts, users and sums of a sample
}

var measureNames = [...]string{"count", "users", "sum", "avg", "min", "max"}

// String returns the measure as documents write it: count, sum(price), p95(price).
func (m Measure) String() string {
	switch {
	case m.Kind <= Users:
		return measureNames[m.Kind]
	case m.Kind < Percentile:
		return measureNames[m.Kind] + "(" + m.Property + ")"
	case m.Kind == Percentile:
		return "p" + strconv.Itoa(m.Percentile) + "(" + m.Property + ")"
	}
	return fmt.Sprintf("MeasureKind(%d)", uint8(m.Kind))
}

const measureHint = "write count, users, sum(price), avg(price), min(price), max(price) or a percentile such as p50(price)"

func measureOf(s string) (m Measure, hint string, err error) {
	name, property, has := strings.Cut(s, "(")
	if has && !strings.HasSuffix(property, ")") {
		return m, measureHint, fmt.Errorf("measure %s has no closing )", quote(s))
	}
	property = strings.TrimSuffix(property, ")")
	i := slices.Index(measureNames[:], name)
	known := i >= 0
	m.Kind = MeasureKind(max(i, 0))
	if digits, ok := strings.CutPrefix(name, "p"); ok && !known && digits != "" && strings.Trim(digits, "0123456789.") == "" {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 || n > 99 {
			return m, "min and max are the ends; p50 is the median", fmt.Errorf("%s is not a percentile: whole ones from p1 to p99", name)
		}
		m.Kind, m.Percentile, known = Percentile, n, true
	}
	switch {
	case !known:
		hint := measureHint
		switch near, ok := spell.Nearest(name, measureNames[:]); {
		case name == "median":
			hint = "write p50(" + property + ")"
		case name == "mean":
			hint = "write avg(" + property + ")"
		case name == "uniq" || name == "unique" || name == "distinct":
			hint = "write users"
		case ok:
			hint = "did you mean " + near + "?"
		}
		return m, hint, fmt.Errorf("unknown measure %s", quote(s))
	case m.Kind <= Users && has:
		return m, "to count what has a property write where: {" + property + ": exists}", fmt.Errorf("%s takes no property", name)
	case m.Kind > Users && property == "":
		return m, "write " + name + "(price)", fmt.Errorf("%s needs a property", name)
	}
	m.Property = property
	return m, "", nil
}

func (segmentKind) read(p *parser, n *doctree.Node, q *Query) {
	s := new(Segment)
	q.Segment = s
	s.Pos = Pos(n.Pos)
	p.keys(n, "segment", p.placed(n, append([]key{
		{"event", func(n *doctree.Node) { p.texts(n, "event", &s.Events) }},
		{"where", func(n *doctree.Node) { s.Where = p.filter(n) }},
		{"bucket", func(n *doctree.Node) {
			p.bucket(n, &s.Bucket)
		}},
		{"by", func(n *doctree.Node) {
			if n.Kind == doctree.List && len(n.Items) == 0 {
				return
			}
			p.texts(n, "by", &s.By)
		}},
		{"measure", func(n *doctree.Node) {
			var text string
			if p.text(n, "measure", &text); text == "" {
				return
			}
			m, hint, err := measureOf(text)
			if err != nil {
				p.report(Pos(n.Pos), hint, "%v", err)
			}
			s.Measure = m
		}},
		{"limit", func(n *doctree.Node) { p.counted(n, "limit", 1, maxGroups, &s.Limit) }},
		{"other", func(n *doctree.Node) { p.boolean(n, "other", &s.Other) }},
		{"fill", func(n *doctree.Node) { p.boolean(n, "fill", &s.Fill) }},
		{"timezone", func(n *doctree.Node) { p.zone(n, &s.Zone) }},
	}, p.bounds(&s.Bounds)...)))
}

func (segmentKind) check(c *checker, q *Query) {
	s := q.Segment
	c.match(&s.Match, "segment")
	if s.Bucket > Month {
		c.problem("bucket", "", "bucket: no such unit: %s", s.Bucket)
	}
	c.by(s.By, "rows", []string{"bucket", "value", "ci"}, s.Other)
	c.needsBy(s.By, "limit", s.Limit != 0, "limit bounds the groups of by")
	c.needsBy(s.By, "other", s.Other, "other is the groups of by beyond limit")
	if s.Limit != 0 {
		c.between("limit", s.Limit, 1, maxGroups)
	} else if s.Other && len(s.By) > 0 && !c.bad["limit"] {
		c.problem("other", "write limit: 10, or leave other out", "other without limit: no groups are beyond it")
	}
	m := s.Measure
	switch {
	case m.Kind > Percentile:
		c.problem("measure", measureHint, "no such measure: %s", m)
	case m.Kind > Users && m.Property == "":
		c.problem("measure", "", "the measure needs a property")
	case m.Kind <= Users && m.Property != "":
		c.problem("measure", "", "%s takes no property", m)
	case m.Kind == Percentile && (m.Percentile < 1 || m.Percentile > 99):
		c.problem("measure", "", "percentiles are 1 to 99, got %d", m.Percentile)
	case m.Kind != Percentile && m.Percentile != 0:
		c.problem("measure", "", "%s takes no percentile", m)
	}
	if s.Fill && s.Bucket == NoUnit {
		c.problem("fill", "write bucket: day", "fill needs a bucket")
	}
	c.zone(&s.Zone)
	c.bounds(s.Bounds)
}

func (segmentKind) selects() (keys []string, example string) {
	return []string{"bucket", "group", "other"}, "{group: KR}"
}

func (segmentKind) selected(c *checker, q *Query) {
	s := q.Segment
	c.selectedGroup(q, s.By, s.Other)
	c.selectedBucket(q, s.Bucket)
}

func (segmentKind) write(w answerWriter, answer *Answer) {
	s := answer.Segment
	writeObjects(w, "rows", s.Rows, func(row SegmentRow) {
		if s.Bucketed {
			w.text("bucket", row.Bucket)
		}
		w.group(s.By, row.Group, row.Other)
		w.measured(row.Value)
	})
}

func (w answerWriter) measured(m Measured) {
	w.Key("value")
	switch m.Type {
	case event.Int:
		w.Int(m.Int)
	case event.Float:
		w.Float(m.Float)
	default:
		w.Null()
	}
	if m.Sampled {
		writeList(w, "ci", []float64{m.Low, m.High}, w.Float)
	}
}

type segmentJSON struct {
	Rows *[]json.RawMessage `json:"rows"`
}

func (segmentKind) unmarshal(in *answerJSON, a *Answer) error {
	if in.Rows == nil {
		return nil
	}
	out := &SegmentAnswer{}
	a.Segment = out
	names := make([][]string, len(*in.Rows))
	for i, text := range *in.Rows {
		keys, values, err := inOrder(text)
		if err != nil {
			return err
		}
		row := SegmentRow{}
		n := len(keys)
		if n > 1 && keys[n-1] == "ci" && keys[n-2] == "value" {
			row.Value.Sampled = true
			var ci [2]float64
			if err := json.Unmarshal(values[n-1], &ci); err != nil {
				return err
			}
			row.Value.Low, row.Value.High = ci[0], ci[1]
			n--
		}
		if n == 0 || keys[n-1] != "value" {
			return errors.New("a row must have a value, after the properties")
		}
		v, err := valueOf(values[n-1])
		if err != nil || v.Type() == event.String || v.Type() == event.Bool {
			return fmt.Errorf("the value of a row is %s", values[n-1])
		}
		switch row.Value.Type = v.Type(); v.Type() {
		case event.Int:
			row.Value.Int = v.Int()
		case event.Float:
			row.Value.Float = v.Float()
		}
		keys, values = keys[:n-1], values[:n-1]
		bucketed := len(keys) > 0 && keys[0] == "bucket"
		if bucketed {
			if err := json.Unmarshal(values[0], &row.Bucket); err != nil {
				return err
			}
			keys, values = keys[1:], values[1:]
		}
		if i == 0 {
			out.Bucketed = bucketed
		}
		if bucketed != out.Bucketed {
			return errors.New("rows with and without a bucket")
		}
		names[i] = keys
		for _, text := range values {
			v, err := valueOf(text)
			if err != nil {
				return err
			}
			row.Group = append(row.Group, v)
		}
		out.Rows = append(out.Rows, row)
	}
	var err error
	out.By, err = groupKeys(names, func(i int) (*[]event.Value, *bool) { return &out.Rows[i].Group, &out.Rows[i].Other })
	return err
}
