package exec

import (
	"math/bits"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// sameUser finds the winning chain of a user whose steps must have the same value.
//
// Only values that have an event of a step after the first can reach level 2, and
// mostly few do. So their events alone are collected, by value; of the others the
// first event that begins a chain is enough.
//
// The values of a user whose rows are in one view are told apart by their codes.
func (f *funnelFold) sameUser(parts []part, ordered bool) {
	f.keys.open(slices.ContainsFunc(parts, func(p part) bool { return p.view != parts[0].view }))
	for i := range parts {
		f.addKeys(&parts[i])
	}
	if len(f.keys.list) > 0 {
		first := f.stepMask & 1
		if f.q.AnyOrder {
			first = f.stepMask
		}
		for i := range parts {
			f.mark(&parts[i], first)
		}
		if f.keys.choose(f.q.AnyOrder) {
			f.sift(parts, ordered)
			f.followAll(parts)
		}
	}
	if f.best.level < 2 || f.trend != nil {
		f.begin(parts)
	}
}

// addKeys puts the values of a part into the table that have an event of a later step:
// of step 2, or, in any order, of another step than the first.
func (f *funnelFold) addKeys(p *part) {
	later := f.stepMask & 2
	if f.q.AnyOrder {
		later = f.stepMask &^ 1
	}
	if p.mask8 == nil {
		for r := p.lo; r < p.hi; r++ {
			if m := p.mask(r); m&later != 0 {
				f.keys.add(f.key(p, r), m)
			}
		}
		return
	}
	eight := later * ones
	for at := p.lo; at < p.hi; at += 8 {
		for word := load(p.mask8, at) & eight; word != 0; {
			n := bits.TrailingZeros64(word) >> 3
			if at+n >= p.hi {
				break
			}
			f.keys.add(f.key(p, at+n), uint64(p.mask8[at+n]))
			word &^= 0xff << (8 * n)
		}
	}
}

// mark notes which of some matchers the values in the table have in a part.
func (f *funnelFold) mark(p *part, matchers uint64) {
	c := &p.codes[f.same]
	direct := p.mask8 != nil && c.raw == nil && (!f.keys.several || c.remap != nil)
	switch {
	case c.col == nil:
	case direct && c.c8 != nil:
		markCodes(f, p, c, c.c8, matchers)
	case direct && c.c16 != nil:
		markCodes(f, p, c, c.c16, matchers)
	case direct:
		markCodes(f, p, c, c.c32, matchers)
	default:
		for r := p.lo; r < p.hi; r++ {
			if m := p.mask(r) & matchers; m != 0 {
				f.keys.mark(f.key(p, r), m)
			}
		}
	}
}

// markCodes is mark for a column with codes. Which events are step 1 cannot be foreseen,
// so nothing depends on that but for the few values that are in the table, by a filter,
// or have not been met yet.
func markCodes[T uint8 | uint16 | uint32](f *funnelFold, p *part, c *codes, all []T, matchers uint64) {
	masks, codes := p.mask8[p.lo:p.hi], all[p.lo:p.hi]
	codes = codes[:len(masks)]
	filter := &f.keys.filter
	if !f.keys.several {
		for i, code := range codes {
			m, key := masks[i]&uint8(matchers), uint32(code)
			if filter[key>>3&(filterBytes-1)]>>(key&7)&((m|-m)>>7) != 0 {
				f.keys.mark(key, uint64(m))
			}
		}
		return
	}
	remap := c.remap
	filter[0] |= 1 // values that have not been met
	for i, code := range codes {
		m := masks[i] & uint8(matchers)
		key := uint32(remap[code])
		if filter[key>>3&(filterBytes-1)]>>(key&7)&((m|-m)>>7) != 0 {
			f.keys.mark(f.key(p, p.lo+i), uint64(m))
		}
	}
}

// followAll follows the events of each value that was sifted.
func (f *funnelFold) followAll(parts []part) {
	for lo := 0; lo < len(f.sorted); {
		hi := lo + 1
		for hi < len(f.sorted) && f.sorted[hi].key == f.sorted[lo].key {
			hi++
		}
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
			if p.mask(r)&begins == 0 || f.key(p, r) == 0 {
				continue
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

// sift collects the entries of the values that were chosen: by value, and then by time.
func (f *funnelFold) sift(parts []part, ordered bool) {
	f.entries = f.entries[:0]
	for i := range parts {
		p := &parts[i]
		for r := p.lo; r < p.hi; r++ {
			m := p.mask(r)
			if m == 0 {
				continue
			}
			if at := f.keys.find(f.key(p, r)); at >= 0 && f.keys.counts[at] >= 0 {
				f.entries = append(f.entries, entry{t: p.time(r), mask: m, key: at})
				f.keys.counts[at]++
			}
		}
	}
	if !ordered {
		byTime(f.entries)
	}
	f.sorted = slices.Grow(f.sorted[:0], len(f.entries))[:len(f.entries)]
	at := int32(0)
	for i, n := range f.keys.counts {
		f.keys.counts[i] = at
		at += max(n, 0)
	}
	for _, e := range f.entries {
		f.sorted[f.keys.counts[e.key]] = e
		f.keys.counts[e.key]++
	}
}

// key returns what stands for the value of same in a row, 0 for the missing one: its code,
// or, of a user in several views, its number in the dictionary and one.
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
		if c.remap != nil && c.remap[code] > 0 {
			return uint32(c.remap[code])
		}
	}
	if id := f.values.id(p.view, f.same, row); id > 0 {
		return uint32(id + 1)
	}
	return 0
}

// has reports whether a row has a value of same; a key of 0 stands for any.
func (f *funnelFold) has(p *part, row int, key uint32) bool {
	k := f.key(p, row)
	return k != 0 && (key == 0 || k == key)
}

// A keyTable numbers the keys of one user, with open addressing.
type keyTable struct {
	several bool               // keys are numbers of the dictionary and one, not codes
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
	k.filter[0] = 0
	k.list = k.list[:0]
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

// mark notes matchers of an event of a key, if the key has a number.
func (k *keyTable) mark(key uint32, mask uint64) {
	if i := k.place(key); k.slots[i].key != 0 {
		k.slots[i].mask |= mask
	}
}

// choose chooses the keys that can reach level 2. It reports whether there is one.
func (k *keyTable) choose(anyOrder bool) (some bool) {
	k.counts = k.counts[:0]
	for _, key := range k.list {
		mask, n := k.slots[k.place(key)].mask, int32(-1)
		if mask&3 == 3 || anyOrder && mask&(mask-1) != 0 {
			n, some = 0, true
		}
		k.counts = append(k.counts, n)
	}
	return some
}

// find returns the number of a key, -1 if it has none.
func (k *keyTable) find(key uint32) int32 {
	if s := k.slots[k.place(key)]; s.key == key && key != 0 {
		return s.at
	}
	return -1
}

// mergeKeys numbers the values of same in all sources, by their sorted dictionaries, so
// that workers need not look up each value. It does not if there are many sources, or
// so many values that a query would rather look up those that it meets.
func (f *funnel) mergeKeys(p *plan) error {
	const (
		sources = 16
		perRow  = 16
	)
	if f.same < 0 || len(p.sources) < 2 || len(p.sources) > sources || slices.Contains(f.by, f.same) {
		return nil
	}
	var cols []*segment.Column
	codes := 0
	for _, s := range p.sources {
		col := s.columns[f.same]
		if col == nil {
			continue
		}
		if col.Codes() == 0 || col.Codes() > maxRemap || col.Type() != p.types[f.same] {
			return nil
		}
		cols = append(cols, col)
		codes += col.Codes()
	}
	if int64(codes)*perRow > p.rows {
		return nil
	}
	f.keys = make(map[*segment.Column][]int32, len(cols))
	next, heads := make([]uint32, len(cols)), make([]event.Value, len(cols))
	for i, col := range cols {
		f.keys[col] = make([]int32, col.Codes())
		f.keys[col][0] = 1
		next[i] = 1
		if col.Codes() > 1 {
			heads[i] = col.Value(1)
		}
	}
	for number := int32(2); ; number++ {
		least := -1
		var equal [sources]int8 // how a head compares to the least one
		for i, col := range cols {
			if int(next[i]) == col.Codes() {
				equal[i] = 1
				continue
			}
			if least >= 0 {
				if c := compare(heads[i], heads[least]); c >= 0 {
					equal[i] = int8(min(c, 1))
					continue
				}
			}
			least = i
			for j := range i {
				equal[j] = 1
			}
			equal[i] = 0
		}
		if least < 0 {
			return p.held.take(4 * int64(codes))
		}
		for i, col := range cols {
			if equal[i] != 0 {
				continue
			}
			f.keys[col][next[i]] = number
			if next[i]++; int(next[i]) < col.Codes() {
				heads[i] = col.Value(next[i])
			}
		}
	}
}
