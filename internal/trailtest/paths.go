package trailtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/query"
)

func (t *table) paths(p *query.Paths) *query.PathsAnswer {
	answer := &query.PathsAnswer{}
	for _, w := range t.walks(p) {
		answer.Paths = append(answer.Paths, query.Path{Path: w.path, Users: number(len(w.users))})
	}
	return answer
}

// pathsUsers returns the users of a path that is answered.
func (t *table) pathsUsers(p *query.Paths, s *query.Selection) []uint64 {
	t.require(len(s.Path) > 0, "users of paths need a path")
	for _, w := range t.walks(p) {
		if slices.Equal(w.path, s.Path) {
			return w.users
		}
	}
	return nil
}

// A walk is a path and the users who went it.
type walk struct {
	path  []string
	users []uint64
}

// walks returns the paths that are answered, in order.
func (t *table) walks(p *query.Paths) []*walk {
	anchors, where := t.match(p.Anchor), t.filter(p.Where)
	byPath := map[string]*walk{}
	for _, rows := range t.users {
		rows = slices.DeleteFunc(bounded(rows, p.Bounds), func(r row) bool { return !where(r) })
		if p.Previous {
			slices.Reverse(rows) // then the last anchor comes first, and paths lead away from it
		}
		at := slices.IndexFunc(rows, anchors)
		if at < 0 {
			continue
		}
		path := []string{rows[at].name}
		for i := at + 1; i < len(rows) && len(path) <= p.Steps; i++ {
			pause := max(rows[i].time-rows[i-1].time, rows[i-1].time-rows[i].time)
			if p.Gap > 0 && pause > p.Gap.Milliseconds() {
				break
			}
			if rows[i].name != path[len(path)-1] {
				path = append(path, rows[i].name)
			}
		}
		if p.Previous {
			slices.Reverse(path)
		}
		key := fmt.Sprintf("%q", path)
		if byPath[key] == nil {
			byPath[key] = &walk{path: path}
		}
		byPath[key].users = append(byPath[key].users, rows[at].hash)
	}
	walks := slices.SortedFunc(maps.Values(byPath), func(a, b *walk) int {
		return cmp.Or(cmp.Compare(len(b.users), len(a.users)), slices.Compare(a.path, b.path))
	})
	return walks[:min(cmp.Or(p.Top, 20), len(walks))]
}

func (d *caseGenerator) paths() *query.Paths {
	p := &query.Paths{Anchor: d.match(d.chance(0.9)), Previous: d.chance(0.4), Steps: 1 + d.IntN(7), Top: pick(d, []int{1, 3, 20, 1000}), Bounds: d.bounds()}
	if d.chance(0.5) {
		p.Gap = d.window()
	}
	if d.chance(0.3) {
		p.Where = d.filter(2)
	}
	return p
}
