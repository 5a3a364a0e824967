package exec

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A funnelFold is the fold of funnels that a scan of masks is not enough for. It makes
// moments of the events of a user, and follows them.
type funnelFold struct {
	*funnel
	w       *worker
	tally   *tally
	lister  *lister     // of the users that are asked for; else nil
	values  *dictionary // of by and same; the same as in tally
	buckets []int64
	chain   chain
	entries []entry
	keys    keyTable   // of same
	sorted  []entry    // scratch of same
	ranges  []rowRange // scratch of same: by part
	others  []place    // scratch of same: rows that are not step 1 alone
	markRow func(p *part, row int)
	held    int64 // bytes of entries that were accounted for

	best    win
	reached []reached // of a trend: by bucket of the user
	levels  []uint8   // of a trend: by moment
}

// An entry is an event of a user that counts in the funnel.
type entry struct {
	t    int64
	mask uint64 // of matchers
	key  int32  // of same: its place in the table of keys
}

// A win is the winning chain of a user.
type win struct {
	level int
	group group
	times []int64 // of its steps; of any order of the first event alone
}

func (f *funnelFold) shard(views []*view) error {
	f.values.open(views)
	if f.numbers != nil {
		for _, v := range views {
			c := &v.codes[f.same]
			c.numbers = f.numbers[c.col]
		}
	}
	u := &f.w.users
	u.open(views)
	for u.next() {
		if u.selective && !u.relevant() {
			continue
		}
		if err := f.user(u.parts, f.ordered(u.parts)); err != nil {
			return err
		}
	}
	return f.values.err
}

// ordered reports whether the rows of the parts, one part after the other, are by time.
func (f *funnelFold) ordered(parts []part) bool {
	return len(parts) == 1 || !f.w.overlap || inOrder(parts)
}

// user follows the events of a user.
func (f *funnelFold) user(parts []part, ordered bool) error {
	f.best.level, f.best.times = 0, f.best.times[:0]
	f.reached = f.reached[:0]
	switch {
	case f.same >= 0:
		f.sameUser(parts, ordered)
	case ordered && f.q.AnyOrder && !f.wins() && f.w.width == 8:
		f.best.level = f.anyLevel(parts)
	case ordered && !f.modes.StrictOnce:
		f.chain.addParts(f.funnel, parts, math.MinInt64, math.MaxInt64)
		f.follow(parts, 0)
	default:
		f.collect(parts)
		f.chain.addTrail(f.funnel, f.entries)
		f.follow(parts, 0)
	}
	if err := f.count(parts); err != nil {
		return err
	}
	grown := f.chain.grown()
	held := int64(cap(f.entries)+cap(f.sorted))*int64(unsafe.Sizeof(entry{})) + int64(len(f.keys.slots))*int64(unsafe.Sizeof(keySlot{})) +
		int64(cap(f.others))*int64(unsafe.Sizeof(place{}))
	if held > f.held {
		grown += held - f.held
		f.held = held
	}
	return f.w.held.take(grown)
}

// anyLevel returns the largest number of different steps within one window: of the steps
// up to a time, those whose last event is near enough.
func (f *funnelFold) anyLevel(parts []part) (level int) {
	var last [8]int64
	var seen uint8
	for i := range parts {
		p := &parts[i]
		masks := p.mask8[p.lo:p.hi]
		for r, m := range masks {
			if m == 0 {
				continue
			}
			t := p.time(p.lo + r)
			seen |= m
			for ; m != 0; m &= m - 1 {
				last[bits.TrailingZeros8(m)] = t
			}
			if bits.OnesCount8(seen) <= level {
				continue
			}
			near := 0
			for s := seen; s != 0; s &= s - 1 {
				near += btoi(within(last[bits.TrailingZeros8(s)], t, f.window))
			}
			if level = max(level, near); level == f.steps {
				return level
			}
		}
	}
	return level
}

// addParts adds the events of parts whose rows are by time, from a time to another.
func (c *chain) addParts(f *funnel, parts []part, from, to int64) {
	c.moments, c.trail = c.moments[:0], nil
	for i := range parts {
		p := &parts[i]
		r := p.lo
		if from != math.MinInt64 {
			r += sort.Search(p.hi-p.lo, func(i int) bool { return p.time(p.lo+i) >= from })
		}
		for ; r < p.hi; r++ {
			m := p.mask(r)
			if m == 0 {
				continue
			}
			t := p.time(r)
			if t > to {
				return
			}
			c.add(f, t, m)
		}
	}
}

// collect gathers the entries of a user by time.
func (f *funnelFold) collect(parts []part) {
	f.entries = f.entries[:0]
	for i := range parts {
		p := &parts[i]
		for r := p.lo; r < p.hi; r++ {
			if m := p.mask(r); m != 0 {
				f.entries = append(f.entries, entry{t: p.time(r), mask: m})
			}
		}
	}
	byTime(f.entries)
}

// byTime sorts entries, which mostly are sorted.
func byTime(entries []entry) {
	order := func(a, b entry) int { return cmp.Compare(a.t, b.t) }
	if !slices.IsSortedFunc(entries, order) {
		slices.SortStableFunc(entries, order)
	}
}

// follow finds the winning chain of the moments, which have a value of same or are all,
// and makes it the chain of the user if it is better.
func (f *funnelFold) follow(parts []part, key uint32) {
	c := &f.chain
	if len(c.moments) == 0 {
		return
	}
	if f.q.AnyOrder {
		level, start := c.anyOrder(f.funnel)
		if level < max(f.best.level, 1) {
			return
		}
		if !f.wins() {
			f.best.level = level
			return
		}
		c.times[0] = start
		f.better(parts, level, c.times[:1], key)
		return
	}
	level := c.level(f.funnel, 0, math.MaxInt64)
	switch {
	case level < max(f.best.level, 1):
	case !f.wins():
		f.best.level = level
	default:
		f.better(parts, level, c.winner(f.funnel, level), key)
	}
	if f.trend != nil && level > 0 {
		f.trends(level)
	}
}

// better makes a chain the chain of the user if it wins.
func (f *funnelFold) better(parts []part, level int, times []int64, key uint32) {
	order := cmp.Or(cmp.Compare(f.best.level, level), slices.Compare(times, f.best.times))
	if order > 0 {
		return
	}
	group := f.groupOf(parts, level, times, key)
	if order == 0 && f.compare(group, f.best.group) >= 0 {
		return
	}
	f.best.level, f.best.group = level, group
	f.best.times = append(f.best.times[:0], times...)
}

// byStep returns the step whose event has the values of by.
func (f *funnel) byStep(level int) int {
	switch f.q.ByStep {
	case 0:
		return 1
	case query.LastStep:
		return level
	}
	return int(f.q.ByStep)
}

// groupOf returns the group of a chain: the smallest one of the events that can be the
// step of by.
func (f *funnelFold) groupOf(parts []part, level int, times []int64, key uint32) (smallest group) {
	step := f.byStep(level)
	if len(f.by) == 0 || step > level {
		return group{}
	}
	mask := uint64(1) << (step - 1)
	if f.q.AnyOrder {
		mask = f.stepMask
	}
	return f.groupAt(parts, times[step-1], mask, key)
}

// groupAt returns the smallest group of the events at a time that match one of some
// steps, and of same have a value.
func (f *funnelFold) groupAt(parts []part, t int64, mask uint64, key uint32) (smallest group) {
	found := false
	for i := range parts {
		p := &parts[i]
		if t < p.base || (t-p.base)%p.unit != 0 {
			continue
		}
		at := (t - p.base) / p.unit
		times := p.times[p.lo:p.hi]
		r := sort.Search(len(times), func(i int) bool { return int64(times[i]) >= at })
		for ; r < len(times) && int64(times[r]) == at; r++ {
			row := p.lo + r
			if p.mask(row)&mask == 0 || f.same >= 0 && !f.has(p, row, key) {
				continue
			}
			if g := f.group(p, row); !found || f.compare(g, smallest) < 0 {
				smallest, found = g, true
			}
		}
	}
	return smallest
}

// group returns the values of by in a row.
func (f *funnelFold) group(p *part, row int) (g group) {
	for i, column := range f.by {
		g[i] = f.values.id(p.view, column, row)
	}
	return g
}

// compare orders groups by their values.
func (f *funnelFold) compare(a, b group) int {
	if a == b {
		return 0
	}
	for i := range f.by {
		if a[i] == b[i] {
			continue
		}
		if c := event.Compare(f.values.value(a[i]), f.values.value(b[i])); c != 0 {
			return c
		}
	}
	return 0
}

// count counts the user whose winning chain was found, or lists the user.
func (f *funnelFold) count(parts []part) error {
	if f.trend != nil {
		f.countTrend()
	}
	switch {
	case f.best.level == 0:
	case f.lister == nil:
		f.tally.add(f.best.level, f.best.group, f.best.times, f.q.Times)
	case f.lister.chosen(f.best.group):
		want := f.picked.selection
		if f.best.level == want.Step || f.best.level > want.Step && !want.Dropped {
			return f.lister.add(&parts[0])
		}
	}
	return nil
}

func (f *funnelFold) join() error {
	for i, n := range f.buckets {
		f.funnel.buckets[i] += n
	}
	if f.lister != nil {
		f.lister.join()
	}
	return f.funnel.tally.join(f.tally)
}
