package exec

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// Explain says in words how a query would be run, without running it: what each
// filter became, which segments are read, and of which columns.
func Explain(in Input, q *query.Query) (text string, err error) {
	err = guard(in, func() error {
		b := newBuilder(in, Options{}, q.Sample)
		k, err := b.kernel(q)
		if err != nil {
			return err
		}
		if err := b.finish(context.Background(), k); err != nil {
			return err
		}
		text = b.explain(q, k)
		return nil
	})
	return text, err
}

func (b *builder) explain(q *query.Query, k kernel) string {
	var out strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "%-9s "+format+"\n", append([]any{name}, args...)...)
	}
	line("kernel", "%s", k.explain())
	for _, part := range options(q) {
		line(part.name, "%s", part.text)
	}
	share := "all users"
	if b.share < 1 {
		share = fmt.Sprintf("the first %g %% of the hashes of users, one range of each segment", 100*b.share)
	}
	line("users", "%s, in %d shards", share, b.shards)
	for i := range b.matchers {
		line(fmt.Sprintf("match %d", i+1), "%s", b.describe(i))
	}
	line("columns", "%s", strings.Join(b.reads(k), ", "))
	line("segments", "%d of %d are read: %d rows", len(b.sources), len(b.sources)+b.skipped, b.rows)
	for _, s := range b.sources {
		line("", "%s: %d rows of %d users, %s to %s%s", s.seg.Name(), s.seg.Rows(), s.seg.Users(),
			event.Time(s.seg.MinTime()).Format("2006-01-02T15:04:05Z"), event.Time(s.seg.MaxTime()).Format("2006-01-02T15:04:05Z"), b.extras(s))
	}
	if b.overlap {
		line("", "some overlap in time: the events of a user are merged")
	}
	for _, w := range b.warnings {
		line("warning", "%s", w)
	}
	return out.String()
}

// An explained is a line of an explanation: an option, and its value in words.
type explained struct{ name, text string }

// options returns what a query asks for besides its kind, in the order of explanations.
func options(q *query.Query) (lines []explained) {
	add := func(name, text string) { lines = append(lines, explained{name, text}) }
	groups := func(by []string, of string, limit int, other bool) {
		if len(by) == 0 {
			return
		}
		text := "by " + strings.Join(by, ", ") + of
		if limit > 0 {
			text += fmt.Sprintf("; up to %d", limit)
		}
		if other {
			text += ", and the others as one"
		}
		add("groups", text)
	}
	switch {
	case q.Funnel != nil:
		f := q.Funnel
		of := fmt.Sprintf(" at step %d", max(f.ByStep, 1))
		if f.ByStep == query.LastStep {
			of = " at the last step reached"
		}
		if f.AnyOrder {
			of = " at the first event"
		}
		groups(f.By, of, f.Limit, f.Other)
		switch f.Times {
		case query.FromPrevious:
			add("times", "since the step before: median, p90, histogram")
		case query.FromFirst:
			add("times", "since step 1: median, p90, histogram")
		case query.NoTimes:
		}
		if f.Bucket != query.NoUnit {
			add("trend", fmt.Sprintf("by the %s of step 1, %s", f.Bucket, f.Zone))
		}
	case q.Segment != nil:
		groups(q.Segment.By, "", q.Segment.Limit, q.Segment.Other)
		if q.Segment.Bucket != query.NoUnit {
			add("buckets", fmt.Sprintf("by %s, %s", q.Segment.Bucket, q.Segment.Zone))
		}
	}
	if s := q.Users; s != nil {
		add("number", "the users behind "+numberText(q))
	}
	return lines
}

// numberText names the number of an answer whose users are wanted.
func numberText(q *query.Query) string {
	s := q.Users
	var parts []string
	switch {
	case q.Funnel != nil:
		text := fmt.Sprintf("step %d", s.Step)
		if s.Dropped {
			text += " who reached no later step"
		}
		parts = append(parts, text)
	case q.Retention != nil:
		parts = append(parts, "cohort "+s.Cohort)
		if s.HasPeriod {
			parts = append(parts, fmt.Sprintf("period %d", s.Period))
		}
	case q.Segment != nil:
		parts = append(parts, "the matching events")
	case q.Paths != nil:
		parts = append(parts, "the path "+strings.Join(s.Path, ", "))
	}
	if len(s.Group) > 0 {
		values := make([]string, len(s.Group))
		for i, l := range s.Group {
			if values[i] = l.Text; l.Value.Missing() {
				values[i] = "(missing)"
			}
		}
		parts = append(parts, "group "+strings.Join(values, ", "))
	}
	if s.Other {
		parts = append(parts, "the other groups")
	}
	if s.Bucket != "" {
		parts = append(parts, "bucket "+s.Bucket)
	}
	return strings.Join(parts, "; ")
}

// describe says what a matcher means.
func (b *builder) describe(i int) string {
	m := &b.matchers[i]
	what := "any event"
	if len(m.events) > 0 {
		what = strings.Join(m.events, " or ")
	}
	if m.where != nil {
		what += " where " + b.conditionText(m.where)
	}
	if m.lo != math.MinInt64 {
		what += " from " + event.Time(m.lo).Format("2006-01-02T15:04:05Z")
	}
	if m.hi != math.MaxInt64 {
		what += " to " + event.Time(m.hi).Format("2006-01-02T15:04:05Z")
	}
	return what
}

// conditionText says what a condition became.
func (b *builder) conditionText(c *condition) string {
	if c.test != nil {
		return b.testText(c.test)
	}
	list, word := c.all, " and "
	if list == nil {
		list, word = c.any, " or "
	}
	var parts []string
	for i := range list {
		parts = append(parts, b.conditionText(list[i]))
	}
	return "(" + strings.Join(parts, word) + ")"
}

// testText says what a test became in the first segment where it is not the same
// for all rows.
func (b *builder) testText(t *test) string {
	text := strings.TrimSpace(fmt.Sprintf("%s %s", t.property, t.op))
	if t.op == query.InCohort || t.op == query.NotInCohort {
		return fmt.Sprintf("%s [%d sorted hashes of users]", text, len(t.users))
	}
	for _, s := range b.sources {
		l, err := b.leaf(t, s.seg)
		switch {
		case err != nil || l.column == nil:
			continue
		case l.column.Codes() == 0:
			return text + " [compared by value]"
		case t.op == query.Exists:
			return text + " [code is not 0]"
		case t.op == query.Missing:
			return text + " [code is 0]"
		case l.table != nil:
			return fmt.Sprintf("%s [%d of %d codes]", text, len(l.table)-bytes.Count(l.table, []byte{0}), len(l.table))
		case l.set != nil:
			return fmt.Sprintf("%s [%d codes of %d]", text, len(l.set), l.column.Codes())
		default:
			return fmt.Sprintf("%s [codes %d to %d of %d]", text, l.lo, l.hi, l.column.Codes())
		}
	}
	return text + " [the same for all rows]"
}

// reads lists the columns that are read.
func (b *builder) reads(k kernel) []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	n := k.need()
	for _, s := range b.sources {
		if n.times || len(s.cut) > 0 {
			add("time")
		}
		if !s.every {
			add("event")
		}
		for _, f := range s.wheres {
			for _, l := range f.leaves {
				add(l.column.Name())
			}
		}
	}
	for _, name := range b.columns {
		if name == eventName {
			name = "event"
		}
		add(name)
	}
	if len(names) == 0 {
		return []string{"none"}
	}
	return names
}

// extras says what is special about a source.
func (b *builder) extras(s *source) string {
	var extra []string
	if len(s.cut) > 0 {
		extra = append(extra, "times are compared")
	}
	if len(s.dropped) > 0 {
		extra = append(extra, fmt.Sprintf("%d users are deleted", len(s.dropped)))
	}
	if len(extra) == 0 {
		return ""
	}
	return " (" + strings.Join(extra, ", ") + ")"
}
