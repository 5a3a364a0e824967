package dialect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// onceFunnel is strict_once where an event can be two steps: a chain must not use it
// twice. Only events of one time can be used twice, so a chain keeps the events of its last
// time in used. Of the chains that ended before that time, the one that began last is
// the best.
func (c *compiler) onceFunnel(f *query.Funnel, m query.Modes) *selection {
	if c.dialect != DuckDB {
		c.unsupported("strict_once with exclusions, a break-down or times, where an event can be two steps,")
		return &selection{}
	}
	s := c.entries(f, m)
	s.with[len(s.with)-1].kept = true // ids and places must be the same wherever they are used
	s.keep("chains_1", &selection{
		columns: []string{"*", "ms AS began", "[id] AS used"}, from: "ordered", where: []cond{is("step = 1")},
	})
	for k := 2; k <= len(f.Steps); k++ {
		keys := strings.Split(c.parts(f)+era(f, k-1), ", ")
		on := make([]string, len(keys))
		for i, key := range keys {
			on[i] = "e." + key + " = s." + key
		}
		same := strings.Join(on, " AND ")
		s.let(fmt.Sprintf("entries_%d", k), &selection{
			columns: []string{"*"}, from: "ordered", where: []cond{is(fmt.Sprintf("step = %d", k))},
		})
		s.let(fmt.Sprintf("best_%d", k-1), &selection{
			columns: append(slices.Clone(keys), "ms", "max(began) AS began"),
			from:    fmt.Sprintf("chains_%d", k-1), groupBy: append(slices.Clone(keys), "ms"),
		})
		var limit []cond
		if !f.NoLimit {
			limit = append(limit, is(fmt.Sprintf("e.ms - s.began <= %d", window(f))))
		}
		later := &selection{
			columns: []string{"e.*", "s.began", "[e.id] AS used"}, from: fmt.Sprintf("entries_%d AS e", k),
			joins: []string{fmt.Sprintf("ASOF JOIN best_%d AS s ON %s AND e.ms > s.ms", k-1, same)}, where: limit,
		}
		tied := &selection{
			columns: []string{"e.*", "s.began", "list_sort(list_append(s.used, e.id)) AS used"}, from: fmt.Sprintf("entries_%d AS e", k),
			joins: []string{fmt.Sprintf("JOIN chains_%d AS s ON %s AND e.ms = s.ms AND NOT list_contains(s.used, e.id)", k-1, same)}, where: limit,
		}
		// Of chains that used the same events one is enough, so few are kept.
		s.keep(fmt.Sprintf("chains_%d", k), &selection{
			columns: []string{"* EXCLUDE (began)", "max(began) AS began"},
			sub:     &selection{union: []*selection{later, tied}}, groupBy: []string{"ALL"},
		})
	}
	columns := []string{"o.*"}
	var joins []string
	for k := 1; k <= len(f.Steps); k++ {
		columns = append(columns, fmt.Sprintf("r%d.began AS began_%d", k, k))
		joins = append(joins, fmt.Sprintf("LEFT JOIN (SELECT %s, pos, max(began) AS began FROM chains_%d GROUP BY ALL) AS r%d USING (%s, pos)", c.parts(f), k, k, c.parts(f)))
	}
	s.let("chains", &selection{columns: columns, from: "ordered AS o", joins: joins})
	stops := c.scanned(s, f, m, "chains")
	return c.concluded(s, f, m, stops)
}

// walks finds the winning chain where an event can be two steps: it follows every chain
// from each start, and of those that used the same events by the same time it keeps the
// one with the smallest times. It returns the name of the entries with t_k.
func (c *compiler) walks(s *selection, f *query.Funnel, seen cond, where []cond) string {
	keys := c.partColumns(f)
	s.keep("seen", &selection{columns: []string{"*"}, from: "levels", where: append(slices.Clone(where), seen)})
	ends := &selection{}
	for k := range len(f.Steps) {
		name := fmt.Sprintf("walks_%d", k+1)
		walk := &selection{columns: []string{"*", "[ms] AS moments", "[id] AS used"}, from: "seen", where: []cond{is("step = 1")}}
		if k > 0 {
			var on []string
			for _, key := range strings.Split(c.parts(f)+era(f, k), ", ") {
				on = append(on, "e."+key+" = w."+key)
			}
			walk = &selection{
				columns: []string{
					"e.*", "list_append(w.moments, e.ms) AS moments",
					"CASE WHEN e.ms > w.ms THEN [e.id] ELSE list_sort(list_append(w.used, e.id)) END AS used",
				},
				from:  "seen AS e",
				joins: []string{fmt.Sprintf("JOIN walks_%d AS w ON %s", k, strings.Join(on, " AND "))},
				where: []cond{is(fmt.Sprintf("e.step = %d", k+1)), is("(e.ms > w.ms OR (e.ms = w.ms AND NOT list_contains(w.used, e.id)))")},
			}
			if !f.NoLimit {
				walk.where = append(walk.where, is(fmt.Sprintf("e.ms - w.moments[1] <= %d", window(f))))
			}
		}
		// All that a chain can still reach depends on these: its end, what it used there, its start.
		s.keep(name, &selection{
			columns: []string{"* EXCLUDE (moments)", "min(moments) AS moments"}, sub: &selection{columns: []string{"*", "moments[1] AS began"}, sub: walk}, groupBy: []string{"ALL"},
		})
		ends.union = append(ends.union, &selection{
			columns: append(slices.Clone(keys), "moments"), from: name, where: []cond{is(fmt.Sprintf("level = %d", k+1))},
		})
	}
	s.let("won", &selection{columns: append(slices.Clone(keys), "min(moments) AS moments"), sub: ends, groupBy: keys})
	columns := []string{"levels.*"}
	for k := range len(f.Steps) {
		columns = append(columns, fmt.Sprintf("won.moments[%d] AS t_%d", k+1, k+1))
	}
	s.let("timed", &selection{columns: columns, from: "levels JOIN won USING (" + strings.Join(keys, ", ") + ")", where: where})
	return "timed"
}
