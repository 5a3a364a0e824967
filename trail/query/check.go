package query

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// The bounds of queries. Those of filters keep a query from taking the stack.
const (
	maxSteps    = 32        // of a funnel; levels are bits of 32
	maxPeriods  = 366       // of a retention
	maxBy       = 3         // properties of a segment
	maxPath     = 7         // events beside the anchor of a path
	maxTop      = 10_000    // paths that are answered
	maxGroups   = 1_000_000 // groups of a funnel that are answered
	maxFilter   = 32        // levels of a filter
	maxCohort   = 200       // bytes of a cohort's name
	maxTests    = 10_000    // tests of all filters; one for all steps counts for each
	maxDids     = 64        // of a cohort, and exclusions of a funnel
	maxPattern  = 1000      // bytes of an expression, which takes time to compile
	maxPatterns = 20_000    // bytes of all different expressions
)

// The defaults of queries.
const (
	defaultLimit = 1000
	defaultTop   = 20
	defaultPath  = 4
)

const zoneHint = "write a name of the time zone database such as UTC or Asia/Seoul"

// Check says whether a query makes sense that was built in Go, and fills in its
// defaults; Parse has done so. The error is Errors. Check changes nothing in a
// query that it has been called on before, so that such a query can be shared.
func (q *Query) Check() error {
	var errs Errors
	c := &checker{report: func(at Pos, hint, format string, args ...any) {
		errs = append(errs, &Error{Pos: at, Msg: fmt.Sprintf(format, args...), Hint: hint})
	}}
	c.query(q)
	return errs.err()
}

// A checker gathers what is wrong with a query.
type checker struct {
	places map[string]Pos  // of keys, "" for the kind; nil for a query built in Go
	bad    map[string]bool // keys that were reported already

	tests    int              // how many there were
	patterns map[string]error // what came of compiling expressions
	bytes    int              // of these
	report   func(at Pos, hint, format string, args ...any)
}

// problem reports what is wrong with a key, unless it was reported.
func (c *checker) problem(key, hint, format string, args ...any) {
	if c.bad[key] {
		return
	}
	at, ok := c.places[key]
	if !ok {
		at = c.places[""]
	}
	c.report(at, hint, format, args...)
}

// between checks a number.
func (c *checker) between(key string, n, low, high int) {
	if n < low || n > high {
		c.problem(key, "", "%s wants %d to %d, got %d", key, low, high, n)
	}
}

// fill sets a default where there is the zero value.
func fill[T comparable](to *T, value T) {
	var zero T
	if *to == zero {
		*to = value
	}
}

func (c *checker) query(q *Query) {
	kinds := 0
	for _, set := range []bool{q.Funnel != nil, q.Retention != nil, q.Segment != nil, q.Cohort != nil, q.Paths != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		c.problem("", "", "a query wants one of %s, got %d", list(kindNames()), kinds)
		return
	}
	if q.Name != "" && (!utf8.ValidString(q.Name) || strings.ContainsFunc(q.Name, unicode.IsControl)) {
		c.problem("name", "", "the name %s has characters that cannot be shown", quote(q.Name))
	} else if q.Name != "" && (len(q.Name) > maxCohort || blank(q.Name)) {
		c.problem("name", "", "the name %s is empty or longer than %d bytes", quote(q.Name), maxCohort)
	}
	if q.Sample < 0 || q.Sample > 1 || math.IsNaN(q.Sample) {
		c.problem("sample", "write 0.1 for a tenth of the users", "sample wants a number above 0, up to 1, got %v", q.Sample)
	}
	fill(&q.Sample, 1)
	switch {
	case q.Funnel != nil:
		c.funnel(q.Funnel)
	case q.Retention != nil:
		c.retention(q.Retention)
	case q.Segment != nil:
		c.segment(q.Segment)
	case q.Cohort != nil:
		c.cohort(q.Cohort)
	default:
		c.paths(q.Paths)
	}
}

func (c *checker) funnel(f *Funnel) {
	if len(f.Steps) < 1 || len(f.Steps) > maxSteps {
		c.problem("steps", "", "a funnel wants 1 to %d steps, got %d", maxSteps, len(f.Steps))
	}
	for i := range f.Steps {
		m := &f.Steps[i]
		if len(m.Events) == 0 {
			c.missing("steps", m.Pos, ordinal("step", i+1))
		}
		c.match(m, ordinal("step", i+1))
	}
	if f.Within == 0 && !f.NoLimit {
		f.NoLimit = true
	} else if f.Within != 0 {
		c.duration("within", f.Within)
		if f.NoLimit {
			c.problem("within", "", "a window of %s and no window", formatDuration(f.Within))
		}
	}
	if f.Modes.AllowReentry && !f.Modes.StrictOrder { // as ClickHouse 26.9 has it
		c.problem("mode", "write mode: [strict_order, allow_reentry]", "allow_reentry wants strict_order beside it")
	}
	if f.AnyOrder && f.Modes != (Modes{}) {
		c.problem("mode", "leave one of the two out", "order: any has no modes")
	}
	if f.AnyOrder && len(f.Exclude) > 0 {
		c.problem("exclude", "leave one of the two out", "order: any has nothing between its steps to exclude")
	}
	if len(f.Exclude) > maxDids {
		c.problem("exclude", "", "a funnel has up to %d exclusions, got %d", maxDids, len(f.Exclude))
	}
	for i := range f.Exclude {
		c.exclude(&f.Exclude[i], ordinal("exclude", i+1), len(f.Steps))
	}
	c.property("same", f.Same)
	c.property("by", f.By)
	if f.By == "steps" {
		c.problem("by", "a segment can group by it", "groups cannot be by %q, which is a key of the answer", f.By)
	}
	if f.By == "" && !c.bad["by"] && f.Limit != 0 && f.Limit != defaultLimit {
		c.problem("limit", "limit bounds the groups of by", "limit without by")
	}
	fill(&f.Limit, defaultLimit)
	c.between("limit", f.Limit, 1, maxGroups)
	c.bounds(f.Bounds)
}

// missing reports a match without an event where there must be one.
func (c *checker) missing(key string, at Pos, what string) {
	if c.bad[key] {
		return
	}
	c.report(at, "", "%s wants the name of an event", what)
}

func (c *checker) exclude(x *Exclude, what string, steps int) {
	if len(x.Events) == 0 && x.Where == nil {
		c.missing("exclude", x.Pos, what)
	}
	if x.After == 0 && x.Before == 0 {
		x.After, x.Before = 1, max(steps, 1)
	}
	if (x.After < 1 || x.Before > steps || x.After >= x.Before) && !c.bad["exclude"] && !c.bad["steps"] {
		hint := fmt.Sprintf("the steps are 1 to %d; the first must be less than the second", steps)
		if steps < 2 {
			hint = "there is nothing between the steps of a funnel that has one"
		}
		c.report(x.Pos, hint, "%s: no such steps: between %d and %d", what, x.After, x.Before)
	}
	c.match(&x.Match, what)
}

func (c *checker) retention(r *Retention) {
	c.match(&r.Start, "start")
	c.match(&r.Return, "return")
	switch {
	case r.Every.Unit > Month:
		c.problem("every", "", "every: no such unit: %s", r.Every.Unit)
	case r.Every == Every{}:
		c.problem("every", "write every: week, or every: 168h", "a retention wants every, the length of a period")
	case r.Every.Unit != NoUnit && r.Every.Elapsed != 0:
		c.problem("every", "", "every is a duration and a unit")
	case r.Every.Unit == NoUnit:
		c.duration("every", r.Every.Elapsed)
	}
	if r.Periods == 0 {
		c.problem("periods", "write periods: 8", "a retention wants periods, 1 to %d", maxPeriods)
	} else {
		c.between("periods", r.Periods, 1, maxPeriods)
	}
	fill(&r.Cohort, cohortOf(r.Every))
	if r.Cohort < Day || r.Cohort > Month {
		c.problem("cohort", "write day, week or month", "cohort: no such unit: %s", r.Cohort)
	}
	c.zone(&r.Zone)
	c.bounds(r.Bounds)
}

// cohortOf returns the unit of cohorts that goes with the periods.
func cohortOf(e Every) Unit {
	const week = 7 * 24 * time.Hour
	if e.Unit == Week || e.Unit == Month {
		return e.Unit
	}
	if e.Unit == NoUnit && e.Elapsed > 0 && e.Elapsed%week == 0 {
		return Week
	}
	return Day
}

func (c *checker) segment(s *Segment) {
	c.match(&s.Match, "segment")
	if s.Bucket > Month {
		c.problem("bucket", "", "bucket: no such unit: %s", s.Bucket)
	}
	if len(s.By) > maxBy {
		c.problem("by", "", "by wants up to %d properties, got %d", maxBy, len(s.By))
	}
	for i, name := range s.By {
		if name == "" {
			c.problem("by", "", "by: a property has no name")
		}
		if slices.Contains(s.By[:i], name) {
			c.problem("by", "", "by has %q twice", name)
		}
		if slices.Contains([]string{"bucket", "value", "ci"}, name) {
			c.problem("by", "rename its column in the file before importing it; a where can test it", "rows cannot be by %q, which is a key of the answer", name)
		}
		c.property("by", name)
	}
	m := s.Measure
	switch {
	case m.Kind > Percentile:
		c.problem("measure", measureHint, "no such measure: %s", m)
	case m.Kind > Users && m.Property == "":
		c.problem("measure", "", "the measure wants a property")
	case m.Kind <= Users && m.Property != "":
		c.problem("measure", "", "%s takes no property", m)
	case m.Kind == Percentile && (m.Percentile < 1 || m.Percentile > 99):
		c.problem("measure", "", "percentiles are 1 to 99, got %d", m.Percentile)
	case m.Kind != Percentile && m.Percentile != 0:
		c.problem("measure", "", "%s takes no percentile", m)
	}
	if s.Fill && s.Bucket == NoUnit {
		c.problem("fill", "write bucket: day", "fill wants a bucket")
	}
	c.zone(&s.Zone)
	c.bounds(s.Bounds)
}

func (c *checker) cohort(h *Cohort) {
	if len(h.Did) == 0 {
		hint := "write did: purchase"
		if len(h.DidNot) > 0 {
			hint = "for all but some users write did: {} beside did_not: any event at all"
		}
		c.problem("did", hint, "a cohort wants at least one did")
	}
	if n := len(h.Did) + len(h.DidNot); n > maxDids {
		c.problem("did", "", "a cohort has up to %d of did and did_not, got %d", maxDids, n)
	}
	dids := func(key string, list []Did) {
		for i := range list {
			d := &list[i]
			fill(&d.AtLeast, 1)
			if d.AtLeast < 1 || d.AtMost < 0 {
				c.problem(key, "who did something no times is found with did_not", "%s: times want to be 1 or more", key)
			} else if d.AtMost != 0 && d.AtMost < d.AtLeast && !c.bad[key] {
				c.report(d.Pos, "", "%s: at least %d times and at most %d", key, d.AtLeast, d.AtMost)
			}
			c.match(&d.Match, key)
		}
	}
	dids("did", h.Did)
	dids("did_not", h.DidNot)
	c.bounds(h.Bounds)
}

func (c *checker) paths(a *Paths) {
	c.match(&a.Anchor, "anchor")
	fill(&a.Steps, defaultPath)
	c.between("steps", a.Steps, 1, maxPath)
	if a.Gap != 0 {
		c.duration("gap", a.Gap)
	}
	fill(&a.Top, defaultTop)
	c.between("top", a.Top, 1, maxTop)
	c.filter(&a.Where, "paths")
	c.bounds(a.Bounds)
}

// duration checks a duration that is not 0.
func (c *checker) duration(key string, d time.Duration) {
	switch {
	case d < 0:
		c.problem(key, "", "%s wants more than nothing, got %s", key, d)
	case d%time.Millisecond != 0:
		c.problem(key, "times are kept in milliseconds", "%s wants whole milliseconds, got %s", key, d)
	case d > maxDuration:
		c.problem(key, "", "%s is more than a hundred years", key)
	}
}

func (c *checker) bounds(b Bounds) {
	for _, x := range []struct {
		key string
		at  int64
		has bool
	}{{"from", b.From, b.HasFrom}, {"to", b.To, b.HasTo}} {
		if x.has && (x.at < event.MinTime || x.at > event.MaxTime) {
			c.problem(x.key, "", "%s is not between the years 1 and 9999", x.key)
			return
		}
	}
	if b.HasFrom && b.HasTo && b.From >= b.To {
		c.problem("to", "from is included, to is not", "to, %s, is not after from, %s", formatTime(b.To), formatTime(b.From))
	}
}

func (c *checker) zone(zone **time.Location) {
	if *zone == nil {
		*zone = time.UTC
	}
	if name := (*zone).String(); name != "UTC" {
		if _, err := zoneOf(name); err != nil {
			c.problem("timezone", zoneHint, "timezone: %v", err)
		}
	}
}

// property checks the name of a property, which may be none.
func (c *checker) property(key, name string) {
	if name != "" && blank(name) {
		c.problem(key, "", "%s: a property has no name", key)
	}
}

// match checks the names and the filter of a match.
func (c *checker) match(m *Match, what string) {
	for _, name := range m.Events {
		if name == "" {
			c.report(m.Pos, "", "%s: an event has no name", what)
		}
	}
	c.filter(&m.Where, what)
}

// filter checks a filter, and makes it simple.
func (c *checker) filter(f **Filter, what string) {
	if *f == nil || !c.tree(**f, what, 1) {
		return
	}
	if !simple(**f) {
		made := simplify(**f)
		*f = &made
	}
	if (*f).All != nil && len((*f).All) == 0 {
		*f = nil
	}
}

// tree checks one level of a filter and what is below it.
func (c *checker) tree(f Filter, what string, level int) bool {
	if level > maxFilter {
		c.problem("where", "", "%s: the filter nests deeper than %d levels", what, maxFilter)
		return false
	}
	set := 0
	for _, is := range []bool{f.All != nil, f.Any != nil, f.Test != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		c.problem("where", "", "%s: a filter wants one of all, any and a test, got %d", what, set)
		return false
	}
	ok := true
	for _, part := range f.All {
		ok = c.tree(part, what, level+1) && ok
	}
	for _, part := range f.Any {
		ok = c.tree(part, what, level+1) && ok
	}
	if f.Test != nil {
		ok = c.test(f.Test)
	}
	return ok
}

// wants returns how many literals an operator wants, -1 for any number.
func (o Op) wants() int {
	switch o {
	case Exists, Missing, InCohort, NotInCohort:
		return 0
	case In, NotIn:
		return -1
	case Between:
		return 2
	}
	return 1
}

func (c *checker) test(t *Test) bool {
	if t.Op > NotInCohort {
		c.report(t.Pos, "", "%s: no such operator: %s", t.Property, t.Op)
		return false
	}
	if t.Property == "" {
		c.report(t.Pos, "", "a test wants the name of a property or of a cohort")
		return false
	}
	if n := t.Op.wants(); n >= 0 && n != len(t.Literals) {
		c.report(t.Pos, "", "%s: %s wants %d values, got %d", t.Property, t.Op, n, len(t.Literals))
		return false
	}
	if c.tests++; c.tests > maxTests {
		if c.tests == maxTests+1 {
			c.report(t.Pos, "ask for one of many values with in, or keep a cohort", "the filters have more than %d tests", maxTests)
		}
		return false
	}
	ok := true
	for _, l := range t.Literals {
		at := l.Pos
		if at == (Pos{}) {
			at = t.Pos
		}
		if t.Op >= Contains && l.Text == "" && l.Value.Missing() {
			c.report(at, `"" is the missing value; exists passes all others`, "%s: %s wants a value that is not empty", t.Property, t.Op)
			ok = false
			continue
		}
		if t.Op != Matches {
			continue
		}
		text := l.Text
		if text == "" {
			text = l.Value.String()
		}
		if hint, err := c.pattern(text); err != nil {
			c.report(at, hint, "%s: %v", t.Property, err)
			ok = false
		}
	}
	return ok
}

// pattern compiles an expression, each once.
func (c *checker) pattern(text string) (hint string, err error) {
	const re2 = "matches takes an RE2 expression; there are no look-arounds and no back-references"
	if err, done := c.patterns[text]; done {
		return re2, err
	}
	if len(text) > maxPattern {
		return "", fmt.Errorf("the expression has %d bytes, more than %d", len(text), maxPattern)
	}
	if c.bytes += len(text); c.bytes > maxPatterns {
		return "", fmt.Errorf("the expressions have more than %d bytes", maxPatterns)
	}
	var syntax *syntax.Error
	if _, err = regexp.Compile(text); errors.As(err, &syntax) {
		err = fmt.Errorf("%s: `%s`", syntax.Code, syntax.Expr)
	}
	if c.patterns == nil {
		c.patterns = make(map[string]error)
	}
	c.patterns[text] = err
	return re2, err
}
