package exec

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A group is the numbers that a dictionary has for the values of up to three properties.
type group [3]int32

// A tally has the users of a funnel by level, and how long they took: of all, and of
// each group. Its dictionary accounts for its memory.
type tally struct {
	steps  int
	width  int     // of the groups: properties
	bounds []int64 // of times; nil without them
	values *dictionary

	reached []int64 // of all users, by level-1
	all     []took  // of all users, by step-2; nil without times

	groups map[group]int32
	single []int32 // instead, of one property: by number, group+1
	keys   []group
	counts []int64 // by group and level-1
	took   []took  // by group and step-2; nil without times
}

func newTally(f *funnel, p *plan) *tally {
	t := &tally{steps: f.steps, width: len(f.by), values: newDictionary(p), reached: make([]int64, f.steps)}
	if f.q.Times != query.NoTimes {
		t.bounds = timeBounds()
		t.all = make([]took, f.steps-1)
	}
	if t.width > 1 {
		t.groups = make(map[group]int32)
	}
	return t
}

// at returns the place of a group, a new one if it has none yet.
func (t *tally) at(g group) int {
	if t.width == 1 {
		for int(g[0]) >= len(t.single) {
			t.single = append(t.single, 0)
		}
		if i := t.single[g[0]]; i > 0 {
			return int(i - 1)
		}
	} else if i, ok := t.groups[g]; ok {
		return int(i)
	}
	i := len(t.keys)
	if t.width == 1 {
		t.single[g[0]] = int32(i + 1)
	} else {
		t.groups[g] = int32(i)
	}
	t.keys = append(t.keys, g)
	t.counts = append(t.counts, make([]int64, t.steps)...)
	bytes := 80 + 16*int64(t.steps)
	if t.bounds != nil {
		t.took = append(t.took, make([]took, t.steps-1)...)
		bytes += 2 * int64(t.steps) * int64(unsafe.Sizeof(took{}))
	}
	t.values.take(bytes)
	return i
}

// add counts a user. The times are the ones of the steps of the winning chain, if the
// query asks for them.
func (t *tally) add(level int, g group, times []int64, of query.TimesOf) {
	t.reached[level-1]++
	i := 0
	if t.width > 0 {
		i = t.at(g)
		t.counts[i*t.steps+level-1]++
	}
	if t.bounds == nil {
		return
	}
	for k := 1; k < level; k++ {
		ms := times[k] - times[0]
		if of == query.FromPrevious {
			ms = times[k] - times[k-1]
		}
		grown := t.all[k-1].add(ms, t.bounds)
		if t.width > 0 {
			grown += t.took[i*(t.steps-1)+k-1].add(ms, t.bounds)
		}
		if grown != 0 {
			t.values.take(grown)
		}
	}
}

// join adds what another tally has, and returns its memory.
func (t *tally) join(o *tally) error {
	for i, n := range o.reached {
		t.reached[i] += n
	}
	for i := range o.all {
		t.values.take(t.all[i].join(&o.all[i]))
	}
	for at, g := range o.keys {
		var known group
		for i := range t.width {
			known[i] = t.values.number(o.values.value(g[i]))
		}
		to := t.at(known)
		for k := range t.steps {
			t.counts[to*t.steps+k] += o.counts[at*t.steps+k]
		}
		for k := range len(o.all) {
			t.values.take(t.took[to*(t.steps-1)+k].join(&o.took[at*(t.steps-1)+k]))
		}
	}
	o.keys, o.counts, o.took, o.all, o.groups, o.single = nil, nil, nil, nil, nil, nil
	o.values.close()
	return t.values.err
}

// answer returns the groups: the ones with the most users, then the others as one.
func (t *tally) answer(f *funnel, p *plan) ([]query.FunnelGroup, error) {
	type ranked struct {
		values []event.Value
		users  int64
		at     int
	}
	if t.width == 0 || len(t.keys) == 0 {
		return nil, nil
	}
	if err := p.held.take(int64(len(t.keys)) * int64(unsafe.Sizeof(ranked{})+uintptr(t.width)*unsafe.Sizeof(event.Value{}))); err != nil {
		return nil, err
	}
	groups, values := make([]ranked, len(t.keys)), make([]event.Value, len(t.keys)*t.width)
	for at, key := range t.keys {
		g := &groups[at]
		g.at = at
		g.values, values = values[:t.width:t.width], values[t.width:]
		for i := range t.width {
			g.values[i] = t.values.value(key[i])
		}
		for _, n := range t.counts[at*t.steps : (at+1)*t.steps] {
			g.users += n
		}
	}
	slices.SortFunc(groups, func(x, y ranked) int {
		if c := cmp.Compare(y.users, x.users); c != 0 {
			return c
		}
		return slices.CompareFunc(x.values, y.values, event.Compare)
	})
	shown := len(groups)
	if limit := f.q.Limit; limit > 0 {
		shown = min(shown, limit)
	}
	if err := p.held.take(int64(shown+1) * int64(f.steps) * int64(unsafe.Sizeof(query.FunnelStep{}))); err != nil {
		return nil, err
	}
	answer := make([]query.FunnelGroup, 0, shown+1)
	for _, g := range groups[:shown] {
		answer = append(answer, query.FunnelGroup{Values: g.values, Steps: f.answerSteps(p, t.counts[g.at*t.steps:][:t.steps], t.times(g.at))})
	}
	if !f.q.Other || shown == len(groups) {
		return answer, nil
	}
	rest := make([]int64, t.steps)
	var times []took
	if t.bounds != nil {
		times = make([]took, t.steps-1)
	}
	for _, g := range groups[shown:] {
		for k, n := range t.counts[g.at*t.steps:][:t.steps] {
			rest[k] += n
		}
		for k := range times {
			t.values.take(times[k].join(&t.times(g.at)[k]))
		}
	}
	return append(answer, query.FunnelGroup{Other: true, Steps: f.answerSteps(p, rest, times)}), t.values.err
}

// times returns the times of a group, nil without them.
func (t *tally) times(at int) []took {
	if t.bounds == nil {
		return nil
	}
	return t.took[at*(t.steps-1):][:t.steps-1]
}
