package trailtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A win is the level that a user, or one value of Same of a user, has reached.
type win struct {
	level int
	first int64       // time of the first event of the winning chain
	value event.Value // of By, at that event
}

// better orders wins: the longest, then the earliest, then the smallest value.
func better(a, b win) int {
	return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(a.first, b.first), compareValues(a.value, b.value))
}

func (t *table) funnel(f *query.Funnel) *query.FunnelAnswer {
	var steps, excludes []predicate
	for _, m := range f.Steps {
		steps = append(steps, t.match(m))
	}
	for _, x := range f.Exclude {
		excludes = append(excludes, t.match(x.Match))
	}
	if f.Modes.AllowReentry && !f.Modes.StrictOrder {
		t.fail("allow_reentry goes with strict_order alone")
	}
	if f.AnyOrder && (f.Modes != query.Modes{} || len(f.Exclude) > 0) {
		t.fail("order any goes without modes and exclusions")
	}
	reached := make([]int, len(steps))
	groups := map[event.Value][]int{}
	for _, rows := range t.users {
		var wins []win
		for _, part := range partition(bounded(rows, f.Bounds), f.Same) {
			if f.AnyOrder {
				wins = append(wins, anyOrder(f, steps, part))
			} else {
				wins = append(wins, inOrder(f, steps, excludes, part))
			}
		}
		if len(wins) == 0 {
			continue
		}
		best := slices.MinFunc(wins, better)
		if best.level == 0 {
			continue
		}
		if groups[best.value] == nil {
			groups[best.value] = make([]int, len(steps))
		}
		for k := range best.level {
			reached[k]++
			groups[best.value][k]++
		}
	}
	answer := &query.FunnelAnswer{Steps: funnelSteps(f, reached), By: f.By}
	if len(f.By) == 0 {
		return answer
	}
	for v, counts := range groups {
		answer.Groups = append(answer.Groups, query.FunnelGroup{Values: []event.Value{v}, Steps: funnelSteps(f, counts)})
	}
	slices.SortFunc(answer.Groups, func(a, b query.FunnelGroup) int {
		return cmp.Or(cmp.Compare(b.Steps[0].Users.N, a.Steps[0].Users.N), slices.CompareFunc(a.Values, b.Values, compareValues))
	})
	limit := cmp.Or(f.Limit, 1000)
	answer.Groups = answer.Groups[:min(limit, len(answer.Groups))]
	return answer
}

func funnelSteps(f *query.Funnel, counts []int) []query.FunnelStep {
	steps := make([]query.FunnelStep, len(counts))
	for k, n := range counts {
		steps[k] = query.FunnelStep{Event: strings.Join(f.Steps[k].Events, "|"), Users: number(n)}
	}
	return steps
}

// partition splits rows by the value of a property; those without one take no part.
// Without a property all rows are one part.
func partition(rows []row, property string) [][]row {
	if property == "" {
		return [][]row{rows}
	}
	parts := map[event.Value][]row{}
	for _, r := range rows {
		if v := r.values[property]; !v.Missing() {
			parts[v] = append(parts[v], r)
		}
	}
	return slices.Collect(maps.Values(parts))
}

func inOrder(f *query.Funnel, steps, excludes []predicate, rows []row) win {
	var entries []entry
	for i, r := range inTieOrder(steps, rows) {
		for x, excluded := range excludes {
			if excluded(r) {
				entries = append(entries, entry{time: r.time, step: exclusion, event: i, after: f.Exclude[x].After, upto: f.Exclude[x].Before})
			}
		}
		for k, is := range steps {
			if is(r) {
				entries = append(entries, entry{time: r.time, step: k + 1, event: i})
			}
		}
		if mask(steps, r) == 0 && f.Modes.StrictOrder {
			entries = append(entries, entry{time: r.time, step: other, event: i})
		}
	}
	sortEntries(entries)
	s := search{steps: len(steps), window: f.Within.Milliseconds(), noLimit: f.NoLimit, modes: f.Modes}
	level, seen := s.level(entries)
	if level == 0 {
		return win{}
	}
	w := win{level: level}
	if len(f.By) > 0 {
		w.first, _ = s.earliest(entries[:seen], level) // there is one: level found it
		w.value = smallest(rows, f.By[0], func(r row) bool { return r.time == w.first && steps[0](r) })
	}
	return w
}

// mask has bit k-1 set if a row matches step k.
func mask(steps []predicate, r row) uint64 {
	var m uint64
	for k, is := range steps {
		m |= uint64(boolInt(is(r))) << k
	}
	return m
}

// inTieOrder returns rows by time, and those of one time by their masks. The order of
// one time matters only with strict_deduplication and strict_once together: there
// windowFunnel takes events of one step in the order of arrival, and the first one that
// makes a chain excludes the others. A store does not keep that order, so here the event
// that matches fewer late steps comes first.
func inTieOrder(steps []predicate, rows []row) []row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(mask(steps, a), mask(steps, b)))
	})
	return rows
}

// smallest returns the smallest value of a property among rows that pass.
func smallest(rows []row, property string, pass predicate) event.Value {
	var values []event.Value
	for _, r := range rows {
		if pass(r) {
			values = append(values, r.values[property])
		}
	}
	if len(values) == 0 {
		return event.Value{}
	}
	return slices.MinFunc(values, compareValues)
}

// anyOrder counts the distinct steps that lie in one window. The winner begins
// with the earliest event from which a window has the most.
func anyOrder(f *query.Funnel, steps []predicate, rows []row) win {
	isStep := func(r row) bool {
		return slices.ContainsFunc(steps, func(is predicate) bool { return is(r) })
	}
	s := search{window: f.Within.Milliseconds(), noLimit: f.NoLimit}
	var best win
	for _, first := range rows {
		if !isStep(first) {
			continue
		}
		level := 0
		for _, is := range steps {
			if slices.ContainsFunc(rows, func(r row) bool {
				return r.time >= first.time && s.inWindow(first.time, r.time) && is(r)
			}) {
				level++
			}
		}
		if level > best.level {
			best = win{level: level, first: first.time}
		}
	}
	if len(f.By) > 0 && best.level > 0 {
		best.value = smallest(rows, f.By[0], func(r row) bool { return r.time == best.first && isStep(r) })
	}
	return best
}

func equalFunnel(a, b *query.FunnelAnswer, _ float64) error {
	err := first(
		equalSteps("", a.Steps, b.Steps),
		differ("by", strings.Join(a.By, ", "), strings.Join(b.By, ", ")),
	)
	if err != nil {
		return err
	}
	for i := range min(len(a.Groups), len(b.Groups)) {
		x, y := a.Groups[i], b.Groups[i]
		where := fmt.Sprintf("group %d (%s)", i+1, quoted(x.Values[0]))
		if err := first(equalValue(where, x.Values[0], y.Values[0]), equalSteps(where+", ", x.Steps, y.Steps)); err != nil {
			return err
		}
	}
	return differ("number of groups", len(a.Groups), len(b.Groups))
}

func equalSteps(where string, a, b []query.FunnelStep) error {
	if err := differ(where+"number of steps", len(a), len(b)); err != nil {
		return err
	}
	for i := range a {
		at := fmt.Sprintf("%sstep %d", where, i+1)
		if err := first(differ(at, a[i].Event, b[i].Event), differ(at+" ("+a[i].Event+"), users", a[i].Users, b[i].Users)); err != nil {
			return err
		}
	}
	return nil
}

func (d *caseGenerator) funnel() *query.Funnel {
	f := &query.Funnel{Within: d.window(), Bounds: d.bounds(), Limit: 1000}
	if d.chance(0.2) || f.Within == 0 {
		f.Within, f.NoLimit = 0, true
	}
	steps := 1 + d.low(5)
	if d.dense {
		steps = 2 + d.IntN(4)
	}
	for range steps {
		f.Steps = append(f.Steps, d.match(true))
	}
	if d.chance(0.02) { // as many as there can be
		for len(f.Steps) < 32 {
			f.Steps = append(f.Steps, d.match(true))
		}
	}
	switch {
	case d.chance(0.2):
		f.AnyOrder = true
	case d.dense || d.chance(0.6):
		f.Modes.StrictDeduplication = d.chance(0.3)
		f.Modes.StrictOrder = d.chance(0.4)
		f.Modes.StrictIncrease = d.chance(0.4)
		f.Modes.StrictOnce = d.chance(0.4) && len(f.Steps) < 10
		f.Modes.AllowReentry = f.Modes.StrictOrder && d.chance(0.4)
	}
	if !f.AnyOrder && len(f.Steps) > 1 && d.chance(0.3) {
		for range 1 + d.low(2) {
			after := 1 + d.IntN(len(f.Steps)-1)
			f.Exclude = append(f.Exclude, query.Exclude{Match: d.match(true), After: after, Before: after + 1 + d.IntN(len(f.Steps)-after)})
		}
	}
	if d.chance(0.2) {
		f.Same = d.property()
	}
	if d.chance(0.4) {
		f.By = []string{d.property()}
		if d.chance(0.2) {
			f.Limit = 1 + d.IntN(3)
		}
	}
	return f
}
