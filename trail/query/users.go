package query

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
)

// A Selection selects one number of an answer. Fields for other kinds are zero.
type Selection struct {
	// Of a funnel: the users who reached a step, from 1; with Dropped, the users who
	// reached no step after it. With Bucket, only users in a bucket of the trend.
	Step    int
	Dropped bool

	// Of a retention: the label of a cohort as the answer has it, and a period from 0;
	// without HasPeriod all users of the cohort.
	Cohort    string
	Period    int
	HasPeriod bool

	// Of a segment: the users with an event in a row. A label as the answer has it;
	// "" for all buckets.
	Bucket string

	// Of a funnel or segment with By: the values of a group, one for each By, the empty
	// text for the missing one; nil for all groups. Other is the group of the rest.
	Group []Literal
	Other bool

	// Of paths: the users with this path, anchor included.
	Path []string

	Pos Pos
}

// set returns the keys of the fields that are not zero.
func (s *Selection) set() []string {
	var keys []string
	for _, f := range []struct {
		key string
		is  bool
	}{
		{"step", s.Step != 0}, {"dropped", s.Dropped}, {"group", s.Group != nil}, {"other", s.Other}, {"bucket", s.Bucket != ""},
		{"cohort", s.Cohort != ""}, {"period", s.HasPeriod || s.Period != 0}, {"path", s.Path != nil},
	} {
		if f.is {
			keys = append(keys, f.key)
		}
	}
	return keys
}

const usersPrefix = "users." // of places and bad keys

// users reads the selection of users of a kind.
func (p *parser) users(n *doctree.Node, k kind, q *Query) {
	names, example := k.selects()
	if names == nil {
		p.report(p.places["users"], "leave users out", "a %s answers its users already", k.name())
		return
	}
	if n.Kind != doctree.Map {
		p.report(Pos(n.Pos), "its keys are "+list(names)+", such as users: "+example, "users must be a map, got %s", shape(n))
		return
	}
	s := &Selection{Pos: p.places["users"]}
	q.Users = s
	read := map[string]func(n *doctree.Node){
		"step":    func(n *doctree.Node) { p.step(n, q.Funnel, &s.Step) },
		"dropped": func(n *doctree.Node) { p.boolean(n, "dropped", &s.Dropped) },
		"group":   func(n *doctree.Node) { p.group(n, &s.Group) },
		"other":   func(n *doctree.Node) { p.boolean(n, "other", &s.Other) },
		"bucket":  func(n *doctree.Node) { p.text(n, "bucket", &s.Bucket) },
		"cohort":  func(n *doctree.Node) { p.text(n, "cohort", &s.Cohort) },
		"period": func(n *doctree.Node) {
			before := len(p.errs)
			p.counted(n, "period", 0, maxPeriods-1, &s.Period)
			s.HasPeriod = len(p.errs) == before
		},
		"path": func(n *doctree.Node) { p.texts(n, "path", &s.Path) },
	}
	var keys []key
	for _, name := range names {
		keys = append(keys, key{name, func(n *doctree.Node) {
			before := len(p.errs)
			read[name](n)
			p.bad[usersPrefix+name] = len(p.errs) > before
		}})
	}
	own := &doctree.Node{Kind: doctree.Map, Pos: n.Pos}
	for _, f := range n.Fields {
		if _, known := read[f.Name]; known && !slices.Contains(names, f.Name) {
			p.report(Pos(f.Pos), usersHint(k), "users of a %s are not selected by %s", k.name(), f.Name)
			p.errs[len(p.errs)-1].UnknownKey = f.Name
			continue
		}
		if slices.Contains(q.by(), f.Name) && !slices.Contains(names, f.Name) {
			p.report(Pos(f.Pos), "write group: in its place, with the value of "+strings.Join(q.by(), ", of "), "unknown key %s in users", quote(f.Name))
			continue
		}
		p.places[usersPrefix+f.Name] = Pos(f.Value.Pos)
		p.bad[usersPrefix+f.Name] = f.Value.Wrong
		own.Fields = append(own.Fields, f)
	}
	p.keys(own, "users", keys)
}

// by returns the properties of the groups of a query.
func (q *Query) by() []string {
	switch {
	case q.Funnel != nil:
		return q.Funnel.By
	case q.Segment != nil:
		return q.Segment.By
	}
	return nil
}

// step reads the number of a step of a funnel.
func (p *parser) step(n *doctree.Node, f *Funnel, to *int) {
	if n.Kind != doctree.String {
		p.counted(n, "step", 1, maxSteps, to)
		return
	}
	hint := "write its number, from 1"
	if i := slices.IndexFunc(f.Steps, func(m Match) bool { return slices.Contains(m.Events, n.Text) }); i >= 0 {
		hint = fmt.Sprintf("write step: %d", i+1)
	}
	p.report(Pos(n.Pos), hint, "step must be the number of a step, got %s", quote(n.Text))
}

// group reads the values of a group: one, or a list of them.
func (p *parser) group(n *doctree.Node, to *[]Literal) {
	*to = []Literal{}
	if n.Kind == doctree.Map {
		p.report(Pos(n.Pos), "write the values alone, in the order of by: group: [KR, mobile]", "group must be a value or a list of them, got a map")
		return
	}
	p.list(n, func(n *doctree.Node, _ int) {
		if p.isLiteral(n, "group") {
			*to = append(*to, literal(n))
		}
	})
}

func usersHint(k kind) string {
	names, _ := k.selects()
	return fmt.Sprintf("users of a %s are selected by %s", k.name(), list(names))
}

func (c *checker) users(q *Query) {
	k, ok := q.kind(), true
	names, _ := k.selects()
	for _, key := range q.Users.set() {
		if !slices.Contains(names, key) {
			hint := usersHint(k)
			if names == nil {
				hint = "leave users out"
			}
			c.selection(q, key, hint, "users of a %s are not selected by %s", k.name(), key)
			ok = false
		}
	}
	if names == nil {
		c.problem("users", "leave users out", "a %s answers its users already", k.name())
		return
	}
	if ok {
		k.selected(c, q)
	}
}

// selection reports what is wrong with a key of a selection, unless it was reported.
func (c *checker) selection(q *Query, key, hint, format string, args ...any) {
	if c.bad[usersPrefix+key] {
		return
	}
	at, ok := c.places[usersPrefix+key]
	if !ok {
		at = q.Users.Pos
	}
	c.report(at, hint, format, args...)
}

func (c *checker) selectedGroup(q *Query, by []string, other bool) {
	s := q.Users
	switch {
	case (s.Group != nil || s.Other) && len(by) == 0:
		key := "group"
		if s.Group == nil {
			key = "other"
		}
		c.selection(q, key, "without by there are no groups", "users: %s without by", key)
	case s.Group != nil && s.Other:
		c.selection(q, "other", "leave one of the two out", "users: group and other")
	case s.Other && !other:
		c.selection(q, "other", "write other: true next to by as well", "users: other, but the answer has no group of the rest")
	case s.Group != nil && len(s.Group) != len(by):
		c.selection(q, "group", "write one value for each of "+strings.Join(by, ", ")+`, "" for a missing one`, "users: group needs %d values, got %d", len(by), len(s.Group))
	}
	for i, l := range s.Group {
		if l.Text == "" && !l.Value.Missing() {
			s.Group = slices.Clone(s.Group)
			s.Group[i].Text = l.Value.String()
		}
	}
}

// label checks the label of a bucket or a cohort.
func (c *checker) label(q *Query, key, label string, unit Unit) {
	if unit >= Day {
		if _, err := time.Parse(time.DateOnly, label); err != nil {
			c.selection(q, key, "write the label that the answer has, such as 2026-01-05", "users: %s must be a date, got %s", key, quote(label))
		}
		return
	}
	if _, err := time.Parse(time.RFC3339, label); err != nil {
		c.selection(q, key, "write the label that the answer has, such as 2026-01-05T10:00:00Z", "users: %s must be a time, got %s", key, quote(label))
	}
}

func (c *checker) selectedBucket(q *Query, unit Unit) {
	switch label := q.Users.Bucket; {
	case label == "":
	case unit == NoUnit && q.Funnel != nil && len(q.Funnel.By) > 0:
		c.selection(q, "bucket", "leave it out; a funnel has by or bucket, not both", "users: bucket, but the answer has no buckets")
	case unit == NoUnit:
		c.selection(q, "bucket", "write bucket: day in the "+q.kind().name()+" as well", "users: bucket, but the answer has no buckets")
	case unit <= Month:
		c.label(q, "bucket", label, unit)
	}
}
