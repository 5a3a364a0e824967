package trailtest

import (
	"cmp"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// usersOf returns the users behind the number that a query selects. A number that the
// answer does not have has no users: one of a group beyond the limit, too, or of a path
// beyond the top.
func (t *table) usersOf(k kind, q *query.Query) *query.CohortAnswer {
	for _, key := range keysOf(q.Users) {
		t.require(slices.Contains(k.keys, key), "users of a %s have no %s", k.name, key)
	}
	if t.err != nil {
		return nil
	}
	answer := &query.CohortAnswer{Found: []query.User{}}
	for _, hash := range k.users(t, q) {
		answer.Found = append(answer.Found, query.User{Hash: hash})
	}
	slices.SortFunc(answer.Found, func(a, b query.User) int { return cmp.Compare(a.Hash, b.Hash) })
	answer.Users = number(len(answer.Found))
	return answer
}

// keysOf returns the keys that a selection has.
func keysOf(s *query.Selection) []string {
	var keys []string
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"step", s.Step != 0},
		{"dropped", s.Dropped},
		{"cohort", s.Cohort != ""},
		{"period", s.HasPeriod},
		{"bucket", s.Bucket != ""},
		{"group", len(s.Group) > 0},
		{"other", s.Other},
		{"path", len(s.Path) > 0},
	} {
		if k.set {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// checkGroup fails if the answer, by these properties and with or without the group of
// the rest, cannot have the selected group.
func (t *table) checkGroup(s *query.Selection, by []string, other bool) {
	t.require(!s.Other || other, "the query does not ask for the other groups")
	t.require(!s.Other || len(s.Group) == 0, "a group is not one of the others")
	if len(s.Group) == 0 {
		return
	}
	t.require(len(s.Group) == len(by), "a group has %d values, got %d", len(by), len(s.Group))
	for i := range min(len(s.Group), len(by)) {
		typ := t.schema.Type(by[i])
		err := sensible(&query.Test{Property: by[i], Op: query.Eq, Literals: s.Group[i : i+1]}, typ)
		t.require(err == nil, "property %q, a %s: %w", by[i], typ, err)
	}
}

// isGroup reports whether values equal the values of a selected group, which has as many,
// compared as by eq.
func isGroup(values []event.Value, group []query.Literal) bool {
	for i, v := range values {
		if !equalsAny(v, group[i:i+1]) {
			return false
		}
	}
	return true
}
