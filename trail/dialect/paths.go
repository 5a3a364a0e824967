package dialect

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// paths numbers the events of each user, beginning with the anchor: forwards from the
// first anchor, or backwards from the last. Then it drops repeats, and what comes
// after a pause. Columns of the answer: path (a
// list), users.
func (c *compiler) paths(q *query.Paths) *selection {
	c.read = pathsAnswer
	anchor, at := c.derived("anchor"), c.derived("ms")
	direction, sort := "", "arraySort"
	if q.Previous {
		direction, sort = " DESC", "arrayReverseSort"
	}
	var s selection
	s.with = []named{
		{name: "trails", is: &selection{
			columns: []string{"user", c.millis("time") + " AS " + at, "event", c.flag(c.match(q.Anchor)) + " AS " + anchor},
			from:    table, where: []cond{c.filter(q.Where), c.bounds(q.Bounds), c.sample()},
		}},
		{name: "placed", is: &selection{
			columns: []string{"user", at + " AS ms", c.pick("toString(event)", "event::VARCHAR") + " AS event", anchor + " AS anchor", "row_number() OVER trail AS place"},
			from:    "trails", window: []string{fmt.Sprintf("trail AS (PARTITION BY user ORDER BY %s%s, event%s)", at, direction, direction)},
		}},
		{name: "anchored", is: &selection{
			columns: []string{"*", "min(CASE WHEN anchor = 1 THEN place END) OVER (PARTITION BY user) AS first"}, from: "placed",
		}},
	}
	const trail = "trail AS (PARTITION BY user ORDER BY place ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING)"
	changed := "CASE WHEN place = first OR max(event) OVER trail != event THEN 1 ELSE 0 END AS changed"
	s.let("steps", &selection{
		columns: []string{"user", "place", "event", changed, c.pause(q) + " AS paused"},
		from:    "anchored", where: []cond{is("place >= first")}, window: []string{trail},
	})
	s.let("numbered", &selection{
		columns: []string{"user", "place", "event", "changed", "sum(changed) OVER so_far AS step", "sum(paused) OVER so_far AS pauses"},
		from:    "steps", window: []string{"so_far AS (PARTITION BY user ORDER BY place ROWS UNBOUNDED PRECEDING)"},
	})
	walked := &selection{
		from:    "numbered",
		where:   []cond{is("changed = 1"), is("pauses = 0"), is("step <= " + strconv.Itoa(q.Steps+1))},
		groupBy: []string{"user"},
	}
	walked.columns = []string{"user", c.pick("arrayMap(x -> x.2, "+sort+"(x -> x.1, groupArray((step, event))))", "list(event ORDER BY step"+direction+")") + " AS path"}
	s.let("walked", walked)
	top := selection{
		columns: []string{"path", "count(*) AS users"}, from: "walked",
		groupBy: []string{"path"}, orderBy: []string{"users DESC", "path"}, limit: cmp.Or(q.Top, 20),
	}
	if u := c.query.Users; u != nil {
		c.read = usersAnswer
		path := c.texts(u.Path)
		s.let("top", &top)
		s.columns, s.from = []string{"user"}, "walked"
		s.where = []cond{is("path = [" + path[1:len(path)-1] + "]"), is("path IN (SELECT path FROM top)")}
		return &s
	}
	top.with = s.with
	return &top
}

// flag returns a condition as 1 or 0.
func (c *compiler) flag(condition cond) string {
	return "CASE WHEN " + condition.String() + " THEN 1 ELSE 0 END"
}

// pause returns 1 for an event that comes after a longer pause than allowed.
func (c *compiler) pause(q *query.Paths) string {
	if q.Gap <= 0 {
		return "0"
	}
	return fmt.Sprintf("CASE WHEN place > first AND abs(ms - max(ms) OVER trail) > %d THEN 1 ELSE 0 END", q.Gap.Milliseconds())
}

func pathsAnswer(_ *Statement, r *reader, rows [][]any, answer *query.Answer) {
	a := &query.PathsAnswer{}
	for _, row := range rows {
		list, ok := r.at(row, 0).([]any)
		if !ok {
			r.fail(fmt.Errorf("a path is %T, want a list", r.at(row, 0)))
			break
		}
		path := make([]string, len(list))
		for i, name := range list {
			path[i] = r.text(name)
		}
		a.Paths = append(a.Paths, query.Path{Path: path, Users: r.users(r.at(row, 1))})
	}
	answer.Paths = a
}
