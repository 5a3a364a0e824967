package exec

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A funnel counts users by the highest step that they reached.
//
// Its matchers are the steps, then the exclusions, then, for strict_order, every
// event.
type funnel struct {
	q      *query.Funnel
	steps  int
	window int64 // in milliseconds, inclusive; math.MaxInt64 for none
	order  int   // matcher of every event, of strict_order; else -1
	by     int   // column, -1 for none
	same   int   // column, -1 for none

	reached []int64           // users by level-1
	values  *dictionary       // of by
	groups  map[int32][]int64 // by value: users by level-1
}

func (b *builder) funnel(q *query.Funnel) kernel {
	f := &funnel{q: q, steps: len(q.Steps), window: q.Within.Milliseconds(), order: -1, by: -1, same: -1,
		reached: make([]int64, len(q.Steps))}
	if q.NoLimit {
		f.window = math.MaxInt64
	}
	lo, hi := b.bounds(q.Bounds)
	for i, s := range q.Steps {
		b.match(s, lo, hi)
		if i > 0 && slices.Equal(q.Steps[i-1].Events, s.Events) && b.matchers[i-1].where == b.matchers[i].where && !q.AnyOrder && !q.Modes.StrictOnce && !q.Modes.StrictIncrease {
			b.warn("steps %d and %d are the same, so that one event is enough for both; with mode: [strict_once] each needs its own", i, i+1)
		}
	}
	for _, x := range q.Exclude {
		b.match(x.Match, lo, hi)
	}
	if q.Modes.StrictOrder {
		f.order = len(b.matchers)
		b.match(query.Match{}, lo, hi)
	}
	if len(q.By) > 0 {
		f.by = b.column(q.By[0])
	}
	if q.Same != "" {
		f.same = b.column(q.Same)
	}
	return f
}

// fast reports whether the levels can be found by scanning masks, without collecting
// the events of a user.
func (f *funnel) fast() bool {
	modes := f.q.Modes
	modes.StrictIncrease = false
	return modes == query.Modes{} && !f.q.AnyOrder && len(f.q.Exclude) == 0 && f.same < 0 && f.steps <= 8
}

func (f *funnel) explain() string {
	if f.fast() {
		return fmt.Sprintf("funnel of %d steps: scan of masks that keeps the latest chain of each level", f.steps)
	}
	return fmt.Sprintf("funnel of %d steps: the events of each user that match are collected, then followed", f.steps)
}

func (f *funnel) settle(p *plan) error {
	f.values, f.groups = newDictionary(p), make(map[int32][]int64)
	return nil
}

func (f *funnel) need() need {
	required := uint64(1) // step 1
	if f.q.AnyOrder {
		required = 1<<f.steps - 1
	}
	return need{times: true, columns: f.by >= 0 || f.same >= 0, required: required}
}

func (f *funnel) fork(w *worker) fold {
	fold := &funnelFold{funnel: f, w: w, reached: make([]int64, f.steps), values: newDictionary(w.plan), groups: make(map[int32][]int64)}
	if f.fast() {
		return &funnelScan{funnelFold: fold}
	}
	return fold
}

func (f *funnel) answer(p *plan) (*query.Answer, error) {
	a := &query.FunnelAnswer{Steps: f.answerSteps(p, f.reached), By: f.q.By}
	type group struct {
		value   event.Value
		users   int64
		reached []int64
	}
	groups := make([]group, 0, len(f.groups))
	for v, reached := range f.groups {
		g := group{f.values.value(v), 0, reached}
		for _, n := range reached {
			g.users += n
		}
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(x, y group) int {
		return cmp.Or(cmp.Compare(y.users, x.users), compareValues(x.value, y.value))
	})
	if limit := f.q.Limit; limit > 0 && len(groups) > limit {
		groups = groups[:limit]
	}
	if err := p.held.take(int64(len(groups)) * int64(f.steps) * int64(unsafe.Sizeof(query.FunnelStep{}))); err != nil {
		return nil, err
	}
	for _, g := range groups {
		a.Groups = append(a.Groups, query.FunnelGroup{Values: []event.Value{g.value}, Steps: f.answerSteps(p, g.reached)})
	}
	return &query.Answer{Funnel: a}, nil
}

// answerSteps makes counts by level cumulative: users who reached a step have reached
// the steps before.
func (f *funnel) answerSteps(p *plan, reached []int64) []query.FunnelStep {
	steps := make([]query.FunnelStep, f.steps)
	var users int64
	for k := f.steps - 1; k >= 0; k-- {
		users += reached[k]
		steps[k] = query.FunnelStep{Event: strings.Join(f.q.Steps[k].Events, "|"), Users: p.users(users)}
	}
	return steps
}

// within reports whether t is at most window after first, without overflow.
func within(first, t, window int64) bool { return uint64(t)-uint64(first) <= uint64(window) }

// A funnelFold is the fold of all other funnels. It collects the events of a user.
type funnelFold struct {
	*funnel
	w       *worker
	reached []int64
	groups  map[int32][]int64 // by value in values
	values  *dictionary       // of by and same
	chain   chain
	entries []entry
	held    int // entries that were accounted for
}

// An entry is an event of a user that the funnel looks at.
type entry struct {
	t    int64
	mask uint64 // of matchers
	key  int32  // of same
	part int32
	row  int32
}

func (f *funnelFold) shard(views []*view) error {
	f.values.open(views)
	u := &f.w.users
	u.open(views)
	for u.next() {
		if u.selective && !u.relevant() {
			continue
		}
		if err := f.collect(u.parts); err != nil {
			return err
		}
		if len(f.entries) > 0 {
			f.user(u.parts)
		}
	}
	return f.values.err
}

// collect gathers the entries of a user in order of key and time.
func (f *funnelFold) collect(parts []part) error {
	f.entries = f.entries[:0]
	sorted := true
	for i := range parts {
		p := &parts[i]
		for r := p.lo; r < p.hi; r++ {
			m := p.mask(r)
			if m == 0 {
				continue
			}
			e := entry{t: p.time(r), mask: m, part: int32(i), row: int32(r)}
			if f.same >= 0 {
				if e.key = f.values.id(p.view, f.same, r); e.key == 0 {
					continue // missing takes no part
				}
			}
			if n := len(f.entries); n > 0 && (f.entries[n-1].key > e.key || f.entries[n-1].key == e.key && f.entries[n-1].t > e.t) {
				sorted = false
			}
			f.entries = append(f.entries, e)
		}
	}
	if !sorted {
		slices.SortStableFunc(f.entries, func(a, b entry) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.t, b.t)) })
	}
	if grown := cap(f.entries) - f.held; grown > 0 {
		f.held += grown
		return f.w.held.take(int64(grown) * int64(unsafe.Sizeof(entry{})))
	}
	return nil
}

// user finds the level of the user whose entries were collected, and the group.
func (f *funnelFold) user(parts []part) {
	best, bestStart, bestValue := 0, int64(0), int32(0)
	for lo := 0; lo < len(f.entries); {
		hi := lo + 1
		for hi < len(f.entries) && f.entries[hi].key == f.entries[lo].key {
			hi++
		}
		trail := f.entries[lo:hi]
		lo = hi
		var level int
		if f.q.AnyOrder {
			level = f.chain.anyOrder(f.funnel, trail)
		} else {
			level = f.chain.run(f.funnel, trail)
		}
		if level == 0 || level < best {
			continue
		}
		if f.by < 0 {
			best = level
			continue
		}
		start := f.chain.start(f.funnel, level)
		if level == best && start > bestStart {
			continue
		}
		value := f.valueAt(parts, trail, start)
		if level == best && start == bestStart && compareValues(f.values.value(value), f.values.value(bestValue)) >= 0 {
			continue
		}
		best, bestStart, bestValue = level, start, value
	}
	if best > 0 {
		f.count(best, bestValue)
	}
}

// count counts a user of a group.
func (f *funnelFold) count(level int, group int32) {
	f.reached[level-1]++
	if f.by < 0 {
		return
	}
	g := f.groups[group]
	if g == nil {
		g = make([]int64, f.steps)
		f.groups[group] = g
		f.values.take(8*int64(f.steps) + 80)
	}
	g[level-1]++
}

// valueAt returns the smallest value of by among the events at a time that may
// begin a chain.
func (f *funnelFold) valueAt(parts []part, trail []entry, start int64) int32 {
	begins := uint64(1)
	if f.q.AnyOrder {
		begins = 1<<f.steps - 1
	}
	i, _ := slices.BinarySearchFunc(trail, start, func(e entry, t int64) int { return cmp.Compare(e.t, t) })
	smallest := int32(-1)
	for ; i < len(trail) && trail[i].t == start; i++ {
		if trail[i].mask&begins == 0 {
			continue
		}
		id := f.values.id(parts[trail[i].part].view, f.by, int(trail[i].row))
		if smallest < 0 || compareValues(f.values.value(id), f.values.value(smallest)) < 0 {
			smallest = id
		}
	}
	return smallest
}

func (f *funnelFold) join() error {
	for i, n := range f.reached {
		f.funnel.reached[i] += n
	}
	all := f.funnel
	for id, reached := range f.groups {
		v := all.values.number(f.values.value(id))
		g := all.groups[v]
		if g == nil {
			all.groups[v] = reached
			all.values.take(8*int64(f.steps) + 120) // of the map, and of the list to sort
			continue
		}
		for i, n := range reached {
			g[i] += n
		}
	}
	f.values.close()
	return all.values.err
}
