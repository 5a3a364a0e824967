package trailtest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/query"
)

func (t *table) paths(p *query.Paths) *query.PathsAnswer {
	anchors, where := t.match(p.Anchor), t.filter(p.Where)
	counts, walked := map[string]int{}, map[string][]string{}
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
		walked[key] = path
		counts[key]++
	}
	answer := &query.PathsAnswer{}
	for key, n := range counts {
		answer.Paths = append(answer.Paths, query.Path{Path: walked[key], Users: number(n)})
	}
	slices.SortFunc(answer.Paths, func(a, b query.Path) int {
		return cmp.Or(cmp.Compare(b.Users.N, a.Users.N), slices.Compare(a.Path, b.Path))
	})
	answer.Paths = answer.Paths[:min(cmp.Or(p.Top, 20), len(answer.Paths))]
	return answer
}

func equalPaths(a, b *query.PathsAnswer, _ float64) error {
	for i := range min(len(a.Paths), len(b.Paths)) {
		where := fmt.Sprintf("path %d", i+1)
		x, y := a.Paths[i], b.Paths[i]
		if err := first(differ(where, fmt.Sprintf("%q", x.Path), fmt.Sprintf("%q", y.Path)), differ(fmt.Sprintf("%s %q, users", where, x.Path), x.Users, y.Users)); err != nil {
			return err
		}
	}
	return differ("number of paths", len(a.Paths), len(b.Paths))
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
