package exec

import (
	"math/bits"
	"slices"
	"sort"
)

// sameUser finds the winning chain of a user whose steps must have the same value.
//
// Only values that have an event of a step after the first can reach level 2, and
// mostly few do. So their events alone are collected, by value; of the others the
// first event that begins a chain is enough.
//
// The values of a user whose rows are in one view are compared by their codes.
func (f *funnelFold) sameUser(parts []part, ordered bool) {
	f.keys.open(slices.ContainsFunc(parts, func(p part) bool { return p.view != parts[0].view }))
	f.entries, f.ranges, f.others = f.entries[:0], f.ranges[:0], f.others[:0]
	first := f.stepMask & 1
	if f.q.AnyOrder {
		first = f.stepMask
	}
	for i := range parts {
		f.ranges = append(f.ranges, f.addKeys(parts, i, first))
	}
	if len(f.keys.list) > 0 {
		f.narrow(parts, ordered)
		for i := range parts {
			if r := f.ranges[i]; r.lo < r.hi {
				f.hits(&parts[i], r, first)
			}
		}
		if len(f.entries) > 0 && f.keys.choose(f.q.AnyOrder) {
			f.sift(parts, first)
			f.followAll(parts)
		}
	}
	if f.best.level < 2 || f.trend != nil {
		f.begin(parts)
	}
}

// A rowRange is the rows from lo on that come before hi.
type rowRange struct{ lo, hi int }

// A place is a row of a part.
type place struct{ part, row int }

// take adds a row behind the others.
func (r *rowRange) take(row int) {
	if r.hi == 0 {
		r.lo = row
	}
	r.hi = row + 1
}

// addKeys puts the values of a part into the table that have an event of a later step:
// of step 2, or, in any order, of another step than the first. It returns a range from
// the first such event to the last one. The rows that do not match first alone are noted
// for sift.
func (f *funnelFold) addKeys(parts []part, i int, first uint64) (found rowRange) {
	p := &parts[i]
	later := f.stepMask & 2
	if f.q.AnyOrder {
		later = f.stepMask &^ 1
	}
	if p.mask8 == nil {
		for r := p.lo; r < p.hi; r++ {
			m := p.mask(r)
			if m&^first != 0 {
				f.others = append(f.others, place{i, r})
			}
			if m&later != 0 {
				f.keys.add(f.key(p, r), m)
				found.take(r)
			}
		}
		return found
	}
	eight := (later | ^first&0xff) * ones
	for at := p.lo; at < p.hi; at += 8 {
		for word := load(p.mask8, at) & eight; word != 0; {
			n := bits.TrailingZeros64(word) >> 3
			if at+n >= p.hi {
				break
			}
			m := uint64(p.mask8[at+n])
			if m&^first != 0 {
				f.others = append(f.others, place{i, at + n})
			}
			if m&later != 0 {
				f.keys.add(f.key(p, at+n), m)
				found.take(at + n)
			}
			word &^= 0xff << (8 * n)
		}
	}
	return found
}

// narrow turns the ranges of step 2 into the ranges of the events of step 1 that can begin
// a chain to one of them: no later, and within the window. With strict_order and in any
// order, and where the rows are not by time, they are all rows.
func (f *funnelFold) narrow(parts []part, ordered bool) {
	const few = 16                // rows that are read sooner than left out
	next, some := int64(0), false // the first event of step 2 in the parts behind
	for i := len(parts) - 1; i >= 0; i-- {
		p, r := &parts[i], &f.ranges[i]
		if !ordered || f.q.AnyOrder || f.orderMask != 0 {
			*r = rowRange{p.lo, p.hi}
			continue
		}
		reaches := some && within(p.time(p.hi-1), next, f.window)
		if r.hi > 0 {
			for ; r.hi < p.hi && p.times[r.hi] == p.times[r.hi-1]; r.hi++ {
			}
			next, some = p.time(r.lo), true
		}
		if reaches {
			r.hi = p.hi
		}
		if r.lo = p.lo; r.hi-r.lo <= few {
			continue
		}
		r.lo += sort.Search(r.hi-r.lo, func(i int) bool {
			t := p.time(p.lo + i)
			return t >= next || within(t, next, f.window)
		})
	}
}

// hits marks the rows of a range of a part that match some matchers and whose value may
// be in the filter of the table.
func (f *funnelFold) hits(p *part, rows rowRange, matchers uint64) {
	c := &p.codes[f.same]
	if c.col == nil {
		return
	}
	n := numbers{}
	direct := p.mask8 != nil && c.raw == nil
	if f.keys.several {
		n = c.numbers
		direct = direct && n.ids != nil
	}
	filter := &f.keys.filter
	switch {
	case direct && c.c8 != nil:
		hitCodes(filter, p, rows, c.c8, n, uint8(matchers), f.markRow)
	case direct && c.c16 != nil:
		hitCodes(filter, p, rows, c.c16, n, uint8(matchers), f.markRow)
	case direct:
		hitCodes(filter, p, rows, c.c32, n, uint8(matchers), f.markRow)
	default:
		for r := rows.lo; r < rows.hi; r++ {
			if p.mask(r)&matchers != 0 {
				f.mark(p, r)
			}
		}
	}
}

// hitCodes is hits for a column with codes, which are the keys if there are no numbers.
// Which events are step 1 cannot be foreseen, so only the few values that are in the filter
// cause a branch.
func hitCodes[T uint8 | uint16 | uint32](filter *[filterBytes]uint8, p *part, rows rowRange, all []T, n numbers, matchers uint8, hit func(p *part, row int)) {
	masks, codes := p.mask8[rows.lo:rows.hi], all[rows.lo:rows.hi]
	codes = codes[:len(masks)]
	if n.ids == nil {
		for i, code := range codes {
			m, key := masks[i]&matchers, uint32(code)
			if filter[key>>3&(filterBytes-1)]>>(key&7)&((m|-m)>>7) != 0 {
				hit(p, rows.lo+i)
			}
		}
		return
	}
	for i, code := range codes {
		m, key := masks[i]&matchers, n.key(uint32(code))
		if filter[key>>3&(filterBytes-1)]>>(key&7)&((m|-m)>>7) != 0 {
			hit(p, rows.lo+i)
		}
	}
}

// mark makes an entry of a row whose value is in the table.
func (f *funnelFold) mark(p *part, row int) {
	if s := f.keys.find(f.key(p, row)); s != nil {
		m := p.mask(row)
		s.mask |= m
		f.entries = append(f.entries, entry{t: p.time(row), mask: m, key: s.at})
	}
}

// followAll follows the events of each value that was sifted.
func (f *funnelFold) followAll(parts []part) {
	for lo := 0; lo < len(f.sorted); {
		hi := lo + 1
		for hi < len(f.sorted) && f.sorted[hi].key == f.sorted[lo].key {
			hi++
		}
		byTime(f.sorted[lo:hi])
		f.chain.addTrail(f.funnel, f.sorted[lo:hi])
		f.follow(parts, f.keys.list[f.sorted[lo].key])
		if !f.wins() && f.trend == nil && f.best.level == f.steps {
			return
		}
		lo = hi
	}
}

// begin takes the events that begin a chain, for the values that can only reach level 1.
func (f *funnelFold) begin(parts []part) {
	begins := uint64(1)
	if f.q.AnyOrder {
		begins = f.stepMask
	}
	first, found := int64(0), false
	for i := range parts {
		p := &parts[i]
		for r := p.lo; r < p.hi; r++ {
			if p.mask(r)&begins == 0 || !f.valued(p, r) {
				continue
			}
			if f.trend == nil && !f.wins() {
				f.best.level = max(f.best.level, 1)
				return
			}
			t := p.time(r)
			if !found || t < first {
				first, found = t, true
			}
			if f.trend == nil {
				break
			}
			f.reach(t, 1)
		}
	}
	switch {
	case !found || f.best.level > 1:
	case !f.wins():
		f.best.level = 1
	default:
		f.better(parts, 1, []int64{first}, 0)
	}
}

// sift adds the entries of the chosen values. Entries that match first and lie in the ranges
// have been added before; other ones are added only if they match a later step as well. It
// sorts all by value, and then by time.
func (f *funnelFold) sift(parts []part, first uint64) {
	counts := f.keys.counts
	for i := range f.entries {
		if e := &f.entries[i]; counts[e.key] >= 0 {
			counts[e.key]++
		}
	}
	for _, o := range f.others {
		p, rows := &parts[o.part], f.ranges[o.part]
		m := p.mask(o.row)
		if m&first != 0 && o.row >= rows.lo && o.row < rows.hi {
			continue
		}
		if s := f.keys.find(f.key(p, o.row)); s != nil && counts[s.at] >= 0 {
			f.entries = append(f.entries, entry{t: p.time(o.row), mask: m, key: s.at})
			counts[s.at]++
		}
	}
	n := int32(0)
	for i, count := range counts {
		if count >= 0 {
			counts[i] = n
			n += count
		}
	}
	f.sorted = slices.Grow(f.sorted[:0], int(n))[:n]
	for _, e := range f.entries {
		if at := counts[e.key]; at >= 0 {
			f.sorted[at] = e
			counts[e.key]++
		}
	}
}

// key returns what stands for the value of same in a row, 0 for the missing one: its code,
// or, of a user in several views, its number plus one, in the lexicon, or if there is
// none, in the dictionary.
func (f *funnelFold) key(p *part, row int) uint32 {
	c := &p.codes[f.same]
	if c.col == nil {
		return 0
	}
	if c.raw == nil {
		code := c.at(row)
		if !f.keys.several || code == 0 {
			return code
		}
		if c.numbers.ids != nil {
			return c.numbers.key(code)
		}
		if c.remap != nil && c.remap[code] > 0 {
			return uint32(c.remap[code])
		}
	}
	if id := f.values.id(p.view, f.same, row); id > 0 {
		return uint32(id + 1)
	}
	return 0
}

// valued reports whether a row has a value of same.
func (f *funnelFold) valued(p *part, row int) bool {
	c := &p.codes[f.same]
	if c.col != nil && c.raw == nil {
		return c.at(row) != 0
	}
	return f.key(p, row) != 0
}

// has reports whether a row has a value of same; a key of 0 stands for any.
func (f *funnelFold) has(p *part, row int, key uint32) bool {
	k := f.key(p, row)
	return k != 0 && (key == 0 || k == key)
}

// A keyTable numbers the keys of one user, with open addressing.
type keyTable struct {
	several bool               // keys are numbers of values and one, not codes
	few     []keySlot          // slots for most users
	slots   []keySlot          // a power of two, at most a quarter of them used
	list    []uint32           // keys by number
	counts  []int32            // of entries, by number; -1 if the key was not chosen
	filter  [filterBytes]uint8 // a bit for each key, by its lowest bits
}

// filterBytes is long enough that most users have few keys with equal bits.
const filterBytes = 1 << 10

// A keySlot is a key, its number, and the matchers of its events; key 0 is free.
type keySlot struct {
	key  uint32
	at   int32
	mask uint64
}

// open begins with a user.
func (k *keyTable) open(several bool) {
	if k.several = several; k.few == nil {
		k.few = make([]keySlot, 256)
		k.slots = k.few
	}
	if len(k.slots) > len(k.few) { // a large table would not stay in the cache
		k.slots = k.few
		clear(k.slots)
	}
	for _, key := range slices.Backward(k.list) { // so that a key is found until it is cleared
		if i := k.place(key); k.slots[i].key != 0 {
			k.slots[i] = keySlot{}
		}
		k.filter[key>>3&(filterBytes-1)] = 0
	}
	k.list, k.counts = k.list[:0], k.counts[:0]
}

// place returns the slot of a key, or that in which it would be.
func (k *keyTable) place(key uint32) int {
	mask := len(k.slots) - 1
	i := int(key*0x9e3779b1>>8) & mask
	for k.slots[i].key != 0 && k.slots[i].key != key {
		i = (i + 1) & mask
	}
	return i
}

// add gives a key a number, if it has none, and notes matchers of an event of it. Key 0
// gets none.
func (k *keyTable) add(key uint32, mask uint64) {
	i := k.place(key)
	if k.slots[i].key == key {
		if key != 0 {
			k.slots[i].mask |= mask
		}
		return
	}
	k.slots[i] = keySlot{key: key, at: int32(len(k.list)), mask: mask}
	k.filter[key>>3&(filterBytes-1)] |= 1 << (key & 7)
	k.list = append(k.list, key)
	if 4*len(k.list) <= len(k.slots) {
		return
	}
	old := k.slots
	k.slots = make([]keySlot, 4*len(old))
	for _, slot := range old {
		if slot.key != 0 {
			k.slots[k.place(slot.key)] = slot
		}
	}
}

// choose chooses the keys that can reach level 2. It reports whether there is one.
func (k *keyTable) choose(anyOrder bool) (some bool) {
	for _, key := range k.list {
		mask, n := k.slots[k.place(key)].mask, int32(-1)
		if mask&3 == 3 || anyOrder && mask&(mask-1) != 0 {
			n, some = 0, true
		}
		k.counts = append(k.counts, n)
	}
	return some
}

// find returns the slot of a key, nil if it has none.
func (k *keyTable) find(key uint32) *keySlot {
	if s := &k.slots[k.place(key)]; key != 0 && s.key == key {
		return s
	}
	return nil
}
