package trailtest

import (
	"fmt"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

func (d *caseGenerator) query() *query.Query {
	n := d.IntN(10)
	if d.dense && d.chance(0.7) {
		n = 0
	}
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			q := &query.Query{}
			if k.draw(d, q); q.Cohort != nil {
				q.Name = "drawn"
			} else if d.chance(0.2) && (!d.large || Quick(&d.Case, q)) {
				q.Users = d.selection(q)
			}
			return q
		}
	}
	panic("trailtest: the weights of the kinds sum to less than 10")
}

// selection draws a number of the answer to a query, now and then one that it does not
// have.
func (d *caseGenerator) selection(q *query.Query) *query.Selection {
	answer, err := Answer(d.Events, d.Schema, q, d.Cohorts)
	if err != nil {
		panic("trailtest: a query was drawn that has no answer: " + err.Error())
	}
	has := func(n int) bool { return n > 0 && d.chance(0.95) }
	s := &query.Selection{}
	switch {
	case q.Funnel != nil:
		a := answer.Funnel
		s.Step, s.Dropped = 1+d.low(len(a.Steps)), d.chance(0.4)
		switch {
		case q.Funnel.Bucket != query.NoUnit && d.chance(0.7):
			if s.Bucket = monday(q.Funnel.Bucket); has(len(a.Trend)) {
				s.Bucket = pick(d, a.Trend).Bucket
			}
		case len(q.Funnel.By) > 0 && d.chance(0.7):
			g := query.FunnelGroup{Values: make([]event.Value, len(q.Funnel.By))}
			if has(len(a.Groups)) {
				g = pick(d, a.Groups)
			}
			s.Group, s.Other = d.group(g.Values), g.Other
		}
	case q.Retention != nil:
		if s.Cohort = monday(query.Day); has(len(answer.Retention.Cohorts)) {
			s.Cohort = pick(d, answer.Retention.Cohorts).Start
		}
		if s.HasPeriod = d.chance(0.7); s.HasPeriod {
			s.Period = d.low(q.Retention.Periods)
		}
	case q.Segment != nil:
		row := query.SegmentRow{Bucket: monday(q.Segment.Bucket), Group: make([]event.Value, len(q.Segment.By))}
		if has(len(answer.Segment.Rows)) {
			row = pick(d, answer.Segment.Rows)
		}
		if q.Segment.Bucket != query.NoUnit && d.chance(0.7) {
			s.Bucket = row.Bucket
		}
		if len(q.Segment.By) > 0 && d.chance(0.7) {
			s.Group, s.Other = d.group(row.Group), row.Other
		}
	case q.Paths != nil:
		if has(len(answer.Paths.Paths)) {
			s.Path = pick(d, answer.Paths.Paths).Path
			break
		}
		s.Path = []string{"never done"}
		if len(q.Paths.Anchor.Events) > 0 {
			s.Path = q.Paths.Anchor.Events[:1]
		}
	}
	return s
}

// monday returns a label such as answers have, of a Monday.
func monday(unit query.Unit) string {
	if unit == query.Minute || unit == query.Hour {
		return "2026-01-05T00:00:00Z"
	}
	return "2026-01-05"
}

// group returns the values of a group as a document may have them.
func (d *caseGenerator) group(values []event.Value) []query.Literal {
	var group []query.Literal
	for _, v := range values {
		l := query.Literal{Value: v, Text: v.String()}
		if !v.Missing() && d.chance(0.2) { // in quotes
			l.Value = event.StringOf(l.Text)
		}
		group = append(group, l)
	}
	return group
}

// by draws up to so many properties.
func (d *caseGenerator) by(most int) []string {
	var by []string
	for range most {
		if p := d.property(); !slices.Contains(by, p) {
			by = append(by, p)
		}
	}
	return by
}

// match draws which events are meant; named ones have at least one name.
func (d *caseGenerator) match(named bool) query.Match {
	var m query.Match
	if named {
		m.Events = []string{d.names[d.low(len(d.names))]}
		if d.chance(0.2) {
			if name := pick(d, d.names); name != m.Events[0] {
				m.Events = append(m.Events, name)
			}
		}
		if d.chance(0.02) {
			m.Events = []string{"never done"}
		}
	}
	if d.chance(0.3) || (d.dense || d.large) && d.chance(0.5) {
		m.Where = d.filter(2)
	}
	return m
}

// window returns a length of time; often exactly the one between two events.
func (d *caseGenerator) window() time.Duration {
	millis := d.Int64N(d.span) + 1
	if len(d.times) > 1 && d.chance(0.5) {
		a, b := pick(d, d.times), pick(d, d.times)
		millis = max(a-b, b-a)
	}
	return time.Duration(millis/pick(d, []int64{1, 1, 4, 30})) * time.Millisecond
}

// bounds returns bounds, often at the time of an event.
func (d *caseGenerator) bounds() query.Bounds {
	var b query.Bounds
	at := func() int64 {
		if len(d.times) > 0 && d.chance(0.5) {
			return pick(d, d.times)
		}
		return d.from + d.Int64N(d.span)
	}
	if d.chance(0.2) {
		b.HasFrom, b.From = true, at()
	}
	if d.chance(0.2) {
		b.HasTo, b.To = true, at()
		if b.HasFrom && b.To <= b.From {
			b.From, b.To = b.To, b.From+1
		}
	}
	return b
}

func (d *caseGenerator) zone() *time.Location {
	name := pick(d, []string{"UTC", "UTC", "Asia/Seoul", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Sao_Paulo", "Pacific/Auckland"})
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC // a machine without time zones tests the rest
	}
	return zone
}

// unit returns one of the units; a week may begin on Sunday.
func (d *caseGenerator) unit(units ...query.Unit) query.Unit {
	u := pick(d, units)
	if u == query.Week && d.chance(0.5) {
		u = query.WeekSunday
	}
	return u
}

// bucket returns a unit of the calendar, the day more often.
func (d *caseGenerator) bucket() query.Unit {
	return d.unit(query.Minute, query.Hour, query.Day, query.Day, query.Week, query.Month)
}

// buckets returns about how many buckets of a unit the events span.
func (d *caseGenerator) buckets(unit query.Unit) int64 {
	length := int64(day)
	if unit < query.Day {
		length = unitMillis(unit)
	}
	if len(d.times) == 0 {
		return 0
	}
	return (slices.Max(d.times)-slices.Min(d.times))/length + 1
}

// property returns the name of a property, now and then one that is not there.
func (d *caseGenerator) property() string {
	if d.chance(0.03) {
		return "not there"
	}
	return pick(d, d.Schema).Name
}

// filter draws a tree of tests of a depth.
func (d *caseGenerator) filter(depth int) *query.Filter {
	var f query.Filter
	switch {
	case depth > 0 && d.chance(0.25):
		f.All = []query.Filter{}
		for range 1 + d.IntN(3) {
			f.All = append(f.All, *d.filter(depth - 1))
		}
	case depth > 0 && d.chance(0.25):
		f.Any = []query.Filter{}
		for range d.IntN(4) {
			f.Any = append(f.Any, *d.filter(depth - 1))
		}
	default:
		f.Test = d.test()
	}
	return &f
}

func (d *caseGenerator) test() *query.Test {
	if d.chance(0.08) {
		return &query.Test{Property: pick(d, []string{"loyal", "some"}), Op: pick(d, []query.Op{query.InCohort, query.NotInCohort})}
	}
	if d.chance(0.03) {
		x := &query.Test{Property: "not there", Op: pick(d, []query.Op{query.Exists, query.Missing, query.Eq, query.NotIn})}
		if x.Op >= query.Eq {
			x.Literals = []query.Literal{{Value: event.IntOf(1), Text: "1"}}
		}
		return x
	}
	f := pick(d, d.fields)
	return d.testOf(f, pick(d, opsOf(f.Type)))
}

// opsOf returns the operators that fit a type.
func opsOf(t event.Type) []query.Op {
	ops := []query.Op{query.Exists, query.Missing, query.Eq, query.Ne, query.In, query.NotIn}
	if t != event.Bool {
		ops = append(ops, query.Gt, query.Gte, query.Lt, query.Lte, query.Between)
	}
	if t == event.String {
		ops = append(ops, query.Contains, query.Prefix, query.Suffix, query.Matches, query.NotContains, query.NotMatches)
	}
	return ops
}

// testOf draws the literals of a test.
func (d *caseGenerator) testOf(f fieldPlan, op query.Op) *query.Test {
	x := &query.Test{Property: f.Name, Op: op}
	want := 1
	switch x.Op {
	case query.Exists, query.Missing:
		want = 0
	case query.In, query.NotIn:
		want = d.IntN(5)
	case query.Between:
		want = 2
	}
	equality := x.Op == query.Eq || x.Op == query.Ne || x.Op == query.In || x.Op == query.NotIn
	for range want {
		switch {
		case equality && d.chance(0.08):
			x.Literals = append(x.Literals, query.Literal{})
		case x.Op >= query.Contains && x.Op <= query.NotMatches:
			x.Literals = append(x.Literals, d.part(x.Op, f))
		default:
			x.Literals = append(x.Literals, d.literal(f))
		}
	}
	return x
}

// literal returns a value to compare a property with, written in one of the ways
// that its type takes.
func (d *caseGenerator) literal(f fieldPlan) query.Literal {
	v := pick(d, f.pool)
	if d.chance(0.2) {
		v = d.value(f.Type, len(f.pool))
	}
	switch f.Type {
	case event.Int:
		if d.chance(0.15) {
			v = event.FloatOf(float64(d.IntN(40))/4 - 1) // 2.5, also 2 written as 2.0
		}
	case event.Float:
		if n := int64(v.Float()); d.chance(0.3) && n < 1e15 {
			v = event.IntOf(n)
		}
	}
	l := query.Literal{Value: v, Text: v.String()}
	if d.chance(0.2) { // in quotes
		l.Value = event.StringOf(l.Text)
	} else if f.Type == event.String && regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(l.Text) {
		var n int64
		if _, err := fmt.Sscan(l.Text, &n); err == nil {
			l.Value = event.IntOf(n) // without quotes: a number to the parser
		}
	}
	return l
}

// part returns what a string may contain, or an expression for it.
func (d *caseGenerator) part(op query.Op, f fieldPlan) query.Literal {
	runes := []rune(pick(d, f.pool).Text())
	from := d.IntN(len(runes))
	to := from + 1 + d.IntN(len(runes)-from)
	switch {
	case op == query.Prefix && d.chance(0.8):
		from = 0
		to = max(to, 1)
	case op == query.Suffix && d.chance(0.8):
		to = len(runes)
	}
	text := string(runes[from:to])
	if op == query.Matches || op == query.NotMatches {
		text = regexp.QuoteMeta(text)
		switch d.IntN(5) {
		case 0:
			text = "^" + text
		case 1:
			text += "$"
		case 2:
			text = "[a-c]" + text + "?"
		case 3:
			text = "(?i)" + text
		}
	}
	if !utf8.ValidString(text) {
		text = "a"
	}
	return query.Literal{Value: event.StringOf(text), Text: text}
}
