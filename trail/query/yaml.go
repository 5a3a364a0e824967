package query

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// YAML returns the query as a document in its canonical form, without what is
// the default: Parse reads the same query from it, but for places. The query is
// one that Parse or Check has passed. The error is text that is not UTF-8, which no
// document can have.
func (q *Query) YAML() ([]byte, error) {
	w := &writer{}
	if q.Name != "" {
		w.line(0, "name", w.scalar(q.Name))
	}
	switch {
	case q.Funnel != nil:
		w.funnel(q.Funnel)
	case q.Retention != nil:
		w.retention(q.Retention)
	case q.Segment != nil:
		w.segment(q.Segment)
	case q.Cohort != nil:
		w.cohort(q.Cohort)
	case q.Paths != nil:
		w.paths(q.Paths)
	default:
		return nil, errors.New("the query is none of " + list(kindNames()))
	}
	if q.Sample != 0 && q.Sample != 1 {
		w.line(0, "sample", strconv.FormatFloat(q.Sample, 'g', -1, 64))
	}
	if w.invalid != "" {
		return nil, fmt.Errorf("%s is not UTF-8, which a document is", quote(w.invalid))
	}
	return []byte(w.b.String()), nil
}

// A writer makes a document: the first two levels are blocks, what is deeper
// stands in brackets.
type writer struct {
	b       strings.Builder
	common  int    // parts of every filter that stand at the top
	invalid string // the first text that was not UTF-8
}

// parts returns what a match's filter wants all of.
func (m *Match) parts() []Filter {
	if m.Where == nil {
		return nil
	}
	if f := simplify(*m.Where); f.All == nil {
		return []Filter{f}
	} else {
		return f.All
	}
}

// share writes what all filters of several matches begin with.
func (w *writer) share(matches []*Match) {
	if len(matches) < 2 {
		return
	}
	first := matches[0].parts()
	n := len(first)
	for _, m := range matches[1:] {
		parts := m.parts()
		n = min(n, len(parts))
		for i := range n {
			a, b := first[i], parts[i]
			if (a.Test == nil || a.Test != b.Test) && w.where(a) != w.where(b) {
				n = i
				break
			}
		}
	}
	if n > 0 {
		w.line(1, "where", w.where(Filter{All: first[:n]}))
		w.common = n
	}
}

// line writes an entry of a block; a value of "" opens one.
func (w *writer) line(indent int, key, value string) {
	w.b.WriteString(strings.Repeat("  ", indent) + key + ":")
	if value != "" {
		w.b.WriteString(" " + value)
	}
	w.b.WriteByte('\n')
}

func (w *writer) funnel(f *Funnel) {
	w.line(0, "funnel", "")
	var matches []*Match
	for i := range f.Steps {
		matches = append(matches, &f.Steps[i])
	}
	for i := range f.Exclude {
		matches = append(matches, &f.Exclude[i].Match)
	}
	w.share(matches)
	w.line(1, "steps", "")
	for i := range f.Steps {
		w.b.WriteString("    - " + w.match(&f.Steps[i]) + "\n")
	}
	if !f.NoLimit {
		w.line(1, "within", formatDuration(f.Within))
	}
	if names := f.Modes.Names(); len(names) > 0 {
		w.line(1, "mode", w.flow(names))
	}
	if f.AnyOrder {
		w.line(1, "order", "any")
	}
	if len(f.Exclude) > 0 {
		w.line(1, "exclude", "")
	}
	for i := range f.Exclude {
		x := &f.Exclude[i]
		w.b.WriteString("    - " + w.match(&x.Match, fmt.Sprintf("between: [%d, %d]", x.After, x.Before)) + "\n")
	}
	w.property("same", f.Same)
	w.property("by", f.By)
	if f.By != "" && f.Limit != 0 && f.Limit != defaultLimit {
		w.line(1, "limit", strconv.Itoa(f.Limit))
	}
	w.bounds(f.Bounds)
}

func (w *writer) retention(r *Retention) {
	w.line(0, "retention", "")
	w.share([]*Match{&r.Start, &r.Return})
	w.line(1, "start", w.match(&r.Start))
	w.line(1, "return", w.match(&r.Return))
	if r.Every.Unit != NoUnit {
		w.line(1, "every", r.Every.Unit.String())
	} else {
		w.line(1, "every", formatDuration(r.Every.Elapsed))
	}
	w.line(1, "periods", strconv.Itoa(r.Periods))
	if r.Cohort != NoUnit && r.Cohort != cohortOf(r.Every) {
		w.line(1, "cohort", r.Cohort.String())
	}
	if r.Unbounded {
		w.line(1, "unbounded", "true")
	}
	w.zone(r.Zone)
	w.bounds(r.Bounds)
}

func (w *writer) segment(s *Segment) {
	before := w.b.Len()
	w.line(0, "segment", "")
	opened := w.b.Len()
	switch len(s.Events) {
	case 0:
	case 1:
		w.line(1, "event", w.scalar(s.Events[0]))
	default:
		w.line(1, "event", w.flow(s.Events))
	}
	w.filter(s.Where)
	if s.Bucket != NoUnit {
		w.line(1, "bucket", s.Bucket.String())
	}
	if len(s.By) > 0 {
		w.line(1, "by", w.flow(s.By))
	}
	if s.Measure != (Measure{}) {
		w.line(1, "measure", w.scalar(s.Measure.String()))
	}
	if s.Fill {
		w.line(1, "fill", "true")
	}
	w.zone(s.Zone)
	w.bounds(s.Bounds)
	if w.b.Len() == opened { // all events of all time
		text := w.b.String()[:before]
		w.b.Reset()
		w.b.WriteString(text)
		w.line(0, "segment", "{}")
	}
}

func (w *writer) cohort(c *Cohort) {
	w.line(0, "cohort", "")
	var matches []*Match
	for _, list := range [][]Did{c.Did, c.DidNot} {
		for i := range list {
			matches = append(matches, &list[i].Match)
		}
	}
	w.share(matches)
	for _, part := range []struct {
		key  string
		list []Did
	}{{"did", c.Did}, {"did_not", c.DidNot}} {
		if len(part.list) > 0 {
			w.line(1, part.key, "")
		}
		for i := range part.list {
			d := &part.list[i]
			var times []string
			switch {
			case d.AtLeast == d.AtMost && d.AtMost > 0:
				times = []string{"times: " + strconv.Itoa(d.AtMost)}
			case d.AtLeast > 1 && d.AtMost > 0:
				times = []string{fmt.Sprintf("times: {at_least: %d, at_most: %d}", d.AtLeast, d.AtMost)}
			case d.AtLeast > 1:
				times = []string{fmt.Sprintf("times: {at_least: %d}", d.AtLeast)}
			case d.AtMost > 0:
				times = []string{fmt.Sprintf("times: {at_most: %d}", d.AtMost)}
			}
			w.b.WriteString("    - " + w.match(&d.Match, times...) + "\n")
		}
	}
	w.bounds(c.Bounds)
}

func (w *writer) paths(a *Paths) {
	w.line(0, "paths", "")
	w.line(1, "anchor", w.match(&a.Anchor))
	if a.Previous {
		w.line(1, "direction", "previous")
	}
	if a.Steps != 0 && a.Steps != defaultPath {
		w.line(1, "steps", strconv.Itoa(a.Steps))
	}
	if a.Gap != 0 {
		w.line(1, "gap", formatDuration(a.Gap))
	}
	if a.Top != 0 && a.Top != defaultTop {
		w.line(1, "top", strconv.Itoa(a.Top))
	}
	w.filter(a.Where)
	w.bounds(a.Bounds)
}

func (w *writer) property(key, name string) {
	if name != "" {
		w.line(1, key, w.scalar(name))
	}
}

func (w *writer) bounds(b Bounds) {
	if b.HasFrom {
		w.line(1, "from", formatTime(b.From))
	}
	if b.HasTo {
		w.line(1, "to", formatTime(b.To))
	}
}

func (w *writer) zone(zone *time.Location) {
	if zone != nil && zone.String() != "UTC" {
		w.line(1, "timezone", w.scalar(zone.String()))
	}
}

func (w *writer) filter(f *Filter) {
	if f != nil {
		w.line(1, "where", w.where(simplify(*f)))
	}
}

// match writes a match as shortly as it can be read, with more entries in it.
func (w *writer) match(m *Match, more ...string) string {
	parts := m.parts()
	parts = parts[min(w.common, len(parts)):]
	if len(m.Events) == 1 && len(parts) == 0 && len(more) == 0 {
		return w.scalar(m.Events[0])
	}
	var entries []string
	switch {
	case len(m.Events) == 1:
		entries = []string{"event: " + w.scalar(m.Events[0])}
	case len(m.Events) > 1:
		entries = []string{"event: " + w.flow(m.Events)}
	}
	if len(parts) > 0 {
		entries = append(entries, "where: "+w.where(Filter{All: parts}))
	}
	return "{" + strings.Join(append(entries, more...), ", ") + "}"
}

// flow writes a list of names.
func (w *writer) flow(names []string) string {
	made := make([]string, len(names))
	for i, name := range names {
		made[i] = w.scalar(name)
	}
	return "[" + strings.Join(made, ", ") + "]"
}

// where writes a simple filter: as a map if no key comes twice, else as a list of maps.
func (w *writer) where(f Filter) string {
	parts := []Filter{f}
	if f.All != nil {
		parts = f.All
	}
	var entries []string
	seen := map[string]bool{}
	for i := 0; i < len(parts); i++ {
		part := parts[i]
		if part.Any != nil {
			if seen["any"] {
				return w.whereList(parts)
			}
			seen["any"] = true
			entries = append(entries, "any: "+w.whereList(part.Any))
			continue
		}
		t := part.Test
		key, named := t.key()
		if seen[key] || named {
			return w.whereList(parts)
		}
		seen[key] = true
		if t.Op == Exists || t.Op == Missing || t.Op == InCohort || t.Op == NotInCohort || t.Op == Eq && !special(t.Literals[0].Text) {
			entries = append(entries, w.scalar(key)+": "+w.operand(t))
			continue
		}
		// Tests of one property that follow each other share a map.
		ops, used := []string{w.op(t)}, map[Op]bool{t.Op: true}
		for ; i+1 < len(parts); i++ {
			next := parts[i+1].Test
			if next == nil || next.Property != t.Property || used[next.Op] || next.Op == InCohort || next.Op == NotInCohort {
				break
			}
			used[next.Op] = true
			ops = append(ops, w.op(next))
		}
		entries = append(entries, w.scalar(key)+": {"+strings.Join(ops, ", ")+"}")
	}
	return "{" + strings.Join(entries, ", ") + "}"
}

// whereList writes the members of a list.
func (w *writer) whereList(parts []Filter) string {
	made := make([]string, len(parts))
	for i, part := range parts {
		made[i] = w.where1(part)
	}
	return "[" + strings.Join(made, ", ") + "]"
}

// where1 writes a member of a list.
func (w *writer) where1(part Filter) string {
	if part.Test == nil {
		if s := w.where(part); strings.HasPrefix(s, "{") {
			return s
		}
		return "{all: " + w.whereList(part.All) + "}"
	}
	if _, named := part.Test.key(); named {
		return "{property: " + w.scalar(part.Test.Property) + ", " + w.op(part.Test) + "}"
	}
	return w.where(part)
}

// key returns the key of a test in a map, and whether it cannot stand in one
// since its property has the name of something else.
func (t *Test) key() (key string, named bool) {
	if t.Op == InCohort || t.Op == NotInCohort {
		return "cohort", false
	}
	switch t.Property {
	case "all", "any", "cohort", "property":
		return t.Property, true
	}
	return t.Property, false
}

// special tells whether text behind a property is not the value to be equal to.
func special(text string) bool { return text == "exists" || text == "missing" }

// operand writes a test that needs no operator.
func (w *writer) operand(t *Test) string {
	switch t.Op {
	case Eq:
		return w.literal(t.Literals[0])
	case InCohort:
		return w.scalar(t.Property)
	case NotInCohort:
		return "{ne: " + w.scalar(t.Property) + "}"
	}
	return t.Op.String()
}

// op writes an operator and what it compares with.
func (w *writer) op(t *Test) string {
	switch n := t.Op.wants(); n {
	case 0:
		return t.Op.String() + ": true"
	case 1:
		return t.Op.String() + ": " + w.literal(t.Literals[0])
	}
	made := make([]string, len(t.Literals))
	for i, l := range t.Literals {
		made[i] = w.literal(l)
	}
	return t.Op.String() + ": [" + strings.Join(made, ", ") + "]"
}

// literal writes a literal: as it was written if that is read the same, since its
// text counts where the property is a string.
func (w *writer) literal(l Literal) string {
	if l.Value.Missing() {
		return `""`
	}
	if v, kind := plainValue(l.Text); number(l) && kind == scalar && v == l.Value {
		return l.Text
	}
	if v, kind := plainValue(l.Text); kind == scalar && v == l.Value {
		return w.scalarLike(l.Text, false)
	}
	return w.scalar(l.Text)
}

// scalar writes text.
func (w *writer) scalar(s string) string { return w.scalarLike(s, true) }

// plain is text that needs no quotes in brackets, whatever its place.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./()+-]*$`)

// scalarLike writes text, with quotes if it would be read as something else. If
// it is no text but a boolean, asText is false.
func (w *writer) scalarLike(s string, asText bool) string {
	if !utf8.ValidString(s) && w.invalid == "" {
		w.invalid = s
	}
	if v, kind := plainValue(s); plain.MatchString(s) && (!asText || kind == scalar && v.Text() == s) {
		return s
	}
	// JSON leaves characters as they are that a YAML document may not have.
	var b strings.Builder
	for _, c := range jsonText(s) {
		if c >= 0x7f && c < 0xa0 || c == 0xfeff || c == 0xfffe || c == 0xffff {
			fmt.Fprintf(&b, `\u%04x`, c)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}
