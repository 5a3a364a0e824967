// Package trailtest supports tests of trail: a naive reference that answers every
// query, random cases, and generators of large data sets.
//
// Read Answer and filter.go, and the file of one kind of query. Draw makes random cases,
// Equal compares answers, and Ecom, GitHub and Hits make big data.
//
// Answer is written to be obviously right: it goes through events one by one, with
// maps and sorts, and shares no code with the engine, which it must not know. The
// level of a funnel equals windowFunnel of ClickHouse 26.9 in every mode;
// testdata/windowfunnel.txt holds cases answered by ClickHouse itself.
package trailtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A kind is a kind of query: how it is answered and drawn.
type kind struct {
	name   string
	keys   []string // of the selections of its users
	weight int      // how many of 10 queries that are drawn are of the kind
	of     func(*query.Query) bool
	answer func(*table, *query.Query, *query.Answer)
	users  func(*table, *query.Query) []uint64 // behind the number that Users of the query selects
	draw   func(*caseGenerator, *query.Query)
}

// newKind makes a kind of the fields of queries and answers that it has.
func newKind[Q, A any](name string, weight int, keys []string, q func(*query.Query) **Q, a func(*query.Answer) **A,
	answer func(*table, *Q) *A, users func(*table, *Q, *query.Selection) []uint64, draw func(*caseGenerator) *Q,
) kind {
	return kind{
		name: name, weight: weight, keys: keys,
		of:     func(in *query.Query) bool { return *q(in) != nil },
		answer: func(t *table, in *query.Query, out *query.Answer) { *a(out) = answer(t, *q(in)) },
		users:  func(t *table, in *query.Query) []uint64 { return users(t, *q(in), in.Users) },
		draw:   func(d *caseGenerator, to *query.Query) { *q(to) = draw(d) },
	}
}

var kinds = []kind{
	newKind("funnel", 4, []string{"step", "dropped", "bucket", "group", "other"}, func(q *query.Query) **query.Funnel { return &q.Funnel },
		func(a *query.Answer) **query.FunnelAnswer { return &a.Funnel }, (*table).funnel, (*table).funnelUsers, (*caseGenerator).funnel),
	newKind("retention", 2, []string{"cohort", "period"}, func(q *query.Query) **query.Retention { return &q.Retention },
		func(a *query.Answer) **query.RetentionAnswer { return &a.Retention }, (*table).retention, (*table).retentionUsers, (*caseGenerator).retention),
	newKind("segment", 2, []string{"bucket", "group", "other"}, func(q *query.Query) **query.Segment { return &q.Segment },
		func(a *query.Answer) **query.SegmentAnswer { return &a.Segment }, (*table).segment, (*table).segmentUsers, (*caseGenerator).segment),
	newKind("cohort", 1, nil, func(q *query.Query) **query.Cohort { return &q.Cohort },
		func(a *query.Answer) **query.CohortAnswer { return &a.Cohort }, (*table).cohort, (*table).cohortUsers, (*caseGenerator).cohort),
	newKind("paths", 1, []string{"path"}, func(q *query.Query) **query.Paths { return &q.Paths },
		func(a *query.Answer) **query.PathsAnswer { return &a.Paths }, (*table).paths, (*table).pathsUsers, (*caseGenerator).paths),
}

// A row is an event as the reference sees it, its values in the types of the
// schema.
type row struct {
	user   string
	hash   uint64
	time   int64 // milliseconds since 1970 UTC
	name   string
	values map[string]event.Value // without missing ones
}

// A table is the input of a query.
type table struct {
	schema  event.Schema
	cohorts map[string][]uint64 // hashes of users, in any order
	users   [][]row             // one of each user, in order of time, then name; users in order of their first event given
	err     error               // the first one
}

func (t *table) fail(format string, args ...any) { t.err = cmp.Or(t.err, fmt.Errorf(format, args...)) }

// require fails unless something is so.
func (t *table) require(ok bool, format string, args ...any) {
	if !ok {
		t.fail(format, args...)
	}
}

// Answer answers a query the naive way. Events may come in any order; of those
// that are equal in user, time and a non-empty id the first counts. Values must fit
// the schema, integers also as numbers. Cohorts are the kept ones, by name, as
// hashes of their users.
//
// Stats are left empty, warnings too, and Sample must be 0 or 1. A cohort always
// comes with the users found, but without their ids; so does the answer to a query
// that selects users.
func Answer(events []event.Event, schema event.Schema, q *query.Query, cohorts map[string][]uint64) (*query.Answer, error) {
	if q.Sample != 0 && q.Sample != 1 {
		return nil, errors.New("the reference takes no samples")
	}
	t, err := newTable(events, schema, cohorts)
	if err != nil {
		return nil, err
	}
	for _, k := range kinds {
		if k.of(q) {
			answer := &query.Answer{}
			if q.Users == nil {
				k.answer(t, q, answer)
			} else {
				answer.Cohort = t.usersOf(k, q)
			}
			if t.err != nil {
				return nil, t.err
			}
			if answer.Cohort != nil {
				answer.Cohort.Name = q.Name
			}
			return answer, nil
		}
	}
	return nil, errors.New("the query asks nothing")
}

func newTable(events []event.Event, schema event.Schema, cohorts map[string][]uint64) (*table, error) {
	type key struct {
		user string
		time int64
		id   string
	}
	seen := map[key]bool{}
	index := map[string]int{}
	t := &table{schema: schema, cohorts: cohorts}
	for i, e := range events {
		if e.ID != "" {
			k := key{e.User, e.Time, e.ID}
			if seen[k] {
				continue
			}
			seen[k] = true
		}
		r := row{user: e.User, hash: event.Hash(e.User), time: e.Time, name: e.Name, values: map[string]event.Value{}}
		for _, p := range e.Properties {
			v, ok := p.Value.As(schema.Type(p.Name))
			if !ok {
				return nil, fmt.Errorf("event %d: property %q is of type %s, got %s", i, p.Name, schema.Type(p.Name), p.Value.Type())
			}
			delete(r.values, p.Name) // the last of a name counts, also if it is missing
			if !v.Missing() {
				r.values[p.Name] = v
			}
		}
		u, ok := index[e.User]
		if !ok {
			u = len(t.users)
			index[e.User] = u
			t.users = append(t.users, nil)
		}
		t.users[u] = append(t.users[u], r)
	}
	for _, rows := range t.users {
		slices.SortStableFunc(rows, func(a, b row) int {
			return cmp.Or(cmp.Compare(a.time, b.time), strings.Compare(a.name, b.name))
		})
	}
	return t, nil
}

// within reports whether a time is inside of bounds.
func within(b query.Bounds, time int64) bool {
	return (!b.HasFrom || time >= b.From) && (!b.HasTo || time < b.To)
}

// bounded returns the rows that are inside of bounds.
func bounded(rows []row, b query.Bounds) []row {
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !within(b, r.time) })
}

// compareValues orders values as answers list them: the missing one first, then
// by value. Both are of one property.
func compareValues(a, b event.Value) int {
	switch {
	case a.Missing() || b.Missing():
		return boolInt(!a.Missing()) - boolInt(!b.Missing())
	case a.Type() == event.String:
		return strings.Compare(a.Text(), b.Text())
	case a.Type() == event.Int:
		return cmp.Compare(a.Int(), b.Int())
	case a.Type() == event.Float:
		return cmp.Compare(a.Float(), b.Float())
	}
	return boolInt(a.Bool()) - boolInt(b.Bool())
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func number(n int) query.Number { return query.Number{N: int64(n)} }
