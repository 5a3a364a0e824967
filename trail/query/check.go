package query

import (
	"cmp"
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

// The bounds that kinds share. The bounds of filters keep a query from taking the stack.
const (
	maxFilter   = 32     // levels of a filter
	maxName     = 200    // bytes of a cohort's name
	maxTests    = 10_000 // tests of all filters; one for all steps counts for each
	maxDids     = 64     // of a cohort, and exclusions of a funnel
	maxPattern  = 1000   // bytes of an expression, which takes time to compile
	maxPatterns = 20_000 // bytes of all different expressions
)

const zoneHint = "write a name of the time zone database such as UTC or Asia/Seoul"

// Check checks a query that was built in Go, and fills in its defaults. Parse has done
// both. The error is Errors. A second call changes nothing, so that a query that was
// checked can be shared.
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

	tests    int              // tests so far
	patterns map[string]error // expressions, and the errors of compiling them
	bytes    int              // of the expressions
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

func (c *checker) between(key string, n, low, high int) {
	if n < low || n > high {
		c.problem(key, "", "%s must be from %d to %d, got %d", key, low, high, n)
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
	found := 0
	for _, k := range kinds() {
		if k.of(q) {
			found++
		}
	}
	if found != 1 {
		c.problem("", "", "a query must be one of %s, got %d", list(kindNames()), found)
		return
	}
	if q.Name != "" && (!utf8.ValidString(q.Name) || strings.ContainsFunc(q.Name, unicode.IsControl)) {
		c.problem("name", "", "the name %s has characters that cannot be shown", quote(q.Name))
	} else if q.Name != "" && (len(q.Name) > maxName || blank(q.Name)) {
		c.problem("name", "", "the name %s is empty or longer than %d bytes", quote(q.Name), maxName)
	}
	if q.Sample < 0 || q.Sample > 1 || math.IsNaN(q.Sample) {
		c.problem("sample", "write 0.1 for a tenth of the users", "sample must be a number above 0, up to 1, got %v", q.Sample)
	}
	fill(&q.Sample, 1)
	q.kind().check(c, q)
	if q.Users != nil && !c.bad["users"] {
		c.users(q)
	}
}

// missing reports a match that needs an event.
func (c *checker) missing(key string, at Pos, what string) {
	if c.bad[key] {
		return
	}
	c.report(at, "", "%s needs the name of an event", what)
}

// duration checks a duration that is not 0.
func (c *checker) duration(key string, d time.Duration) {
	switch {
	case d < 0:
		c.problem(key, "", "%s must be longer than 0, got %s", key, d)
	case d%time.Millisecond != 0:
		c.problem(key, "times are kept in milliseconds", "%s must be whole milliseconds, got %s", key, d)
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
	fill(zone, time.UTC)
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

// by checks the properties of groups, which what stands for in a message. taken are the
// keys of the answer that cannot be properties.
func (c *checker) by(names []string, what string, taken []string, other bool) {
	if len(names) > maxBy {
		c.problem("by", "", "by must be up to %d properties, got %d", maxBy, len(names))
	}
	for i, name := range names {
		if name == "" {
			c.problem("by", "", "by: a property has no name")
		}
		c.property("by", name)
		if slices.Contains(names[:i], name) {
			c.problem("by", "", "by has %q twice", name)
		}
		if slices.Contains(taken, name) {
			c.problem("by", "rename its column in the file before importing it; a where can test it", "%s cannot be by %q, which is a key of the answer", what, name)
		}
		if other && name == "other" {
			c.problem("by", "leave other: true out, or rename the column in the file before importing it", "%s cannot be by %q next to other: true, which is a key of the answer", what, name)
		}
	}
}

// needsBy reports a key that is set, but has no meaning without by.
func (c *checker) needsBy(by []string, key string, set bool, hint string) {
	if len(by) > 0 || c.bad["by"] {
		return
	}
	// A default that is written is a mistake too, but false is not.
	if _, written := c.places[key]; set || written && key != "other" {
		c.problem(key, hint, "%s without by", key)
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
		c.problem("where", "", "%s: a filter must be one of all, any and a test, got %d", what, set)
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

// arity returns how many literals an operator takes, -1 for any number.
func (o Op) arity() int {
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
		c.report(t.Pos, "", "a test needs the name of a property or of a cohort")
		return false
	}
	if n := t.Op.arity(); n >= 0 && n != len(t.Literals) {
		c.report(t.Pos, "", "%s: %s needs %d values, got %d", t.Property, t.Op, n, len(t.Literals))
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
			c.report(at, `"" is the missing value; exists passes all others`, "%s: %s needs a value that is not empty", t.Property, t.Op)
			ok = false
			continue
		}
		if t.Op != Matches && t.Op != NotMatches {
			continue
		}
		if re2, err := c.pattern(cmp.Or(l.Text, l.Value.String())); err != nil {
			hint := ""
			if re2 {
				hint = t.Op.String() + " takes an RE2 expression; there are no look-arounds and no back-references"
			}
			c.report(at, hint, "%s: %v", t.Property, err)
			ok = false
		}
	}
	return ok
}

// pattern compiles an expression, unless it was compiled before. re2 says that an error
// is of the expression itself.
func (c *checker) pattern(text string) (re2 bool, err error) {
	if err, done := c.patterns[text]; done {
		return true, err
	}
	if len(text) > maxPattern {
		return false, fmt.Errorf("the expression has %d bytes, more than %d", len(text), maxPattern)
	}
	if c.bytes += len(text); c.bytes > maxPatterns {
		return false, fmt.Errorf("the expressions have more than %d bytes", maxPatterns)
	}
	var syntax *syntax.Error
	if _, err = regexp.Compile(text); errors.As(err, &syntax) {
		err = fmt.Errorf("%s: `%s`", syntax.Code, syntax.Expr)
	}
	if c.patterns == nil {
		c.patterns = make(map[string]error)
	}
	c.patterns[text] = err
	return true, err
}
