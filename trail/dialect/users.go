package dialect

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// Users behind a number are rows of one column, the id.

// reachedLevel returns the condition that a user with a level is selected.
func (c *compiler) reachedLevel(level string) cond {
	u := c.query.Users
	sign := ">="
	if u.Dropped {
		sign = "="
	}
	return is(fmt.Sprintf("%s %s %d", level, sign, u.Step))
}

// chosen returns the condition that a group is selected, whose values are in columns and
// whose place among all is nth.
func (c *compiler) chosen(by, columns []string, nth string, limit int) cond {
	u := c.query.Users
	switch {
	case u.Other:
		return is(fmt.Sprintf("%s > %d", nth, limit))
	case u.Group == nil:
		return always
	}
	inside := always
	if limit > 0 {
		inside = is(fmt.Sprintf("%s <= %d", nth, limit))
	}
	return all(inside, c.isGroup(by, columns))
}

// isGroup returns the condition that columns have the values of the selected group.
func (c *compiler) isGroup(by, columns []string) cond {
	parts := make([]cond, len(by))
	for i, property := range by {
		_, t, ok := c.column(property)
		l := c.query.Users.Group[i]
		v, err := literal(l, t)
		switch {
		case err != nil:
			c.fail(&LiteralError{Property: property, Type: t, Literal: l.Text, Pos: l.Pos})
		case !ok:
			parts[i] = ofMissing(query.Eq, []event.Value{v})
		case t == event.String:
			parts[i] = c.textTest(columns[i], query.Eq, []event.Value{v})
		default:
			parts[i] = c.numberTest(columns[i], t, query.Eq, []event.Value{v})
		}
	}
	return all(parts...)
}

func usersAnswer(s *Statement, r *reader, rows [][]any, answer *query.Answer) {
	a := &query.CohortAnswer{Name: s.query.Name, Users: r.users(int64(len(rows)))}
	for _, row := range rows {
		id := r.text(r.at(row, 0))
		a.Found = append(a.Found, query.User{Hash: event.Hash(id), ID: id})
	}
	slices.SortFunc(a.Found, func(x, y query.User) int {
		return cmp.Or(cmp.Compare(x.Hash, y.Hash), cmp.Compare(x.ID, y.ID))
	})
	answer.Cohort = a
}
