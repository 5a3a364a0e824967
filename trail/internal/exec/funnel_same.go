package exec

import (
	"math/bits"
	"slices"
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
		for i := range parts {
			f.mark(&parts[i])
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
			if p.mask(r)&later != 0 {
				f.keys.add(f.key(p, r))
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
			f.keys.add(f.key(p, at+n))
			word &^= 0xff << (8 * n)
		}
	}
}

// mark notes which steps the values in the table have in a part.
func (f *funnelFold) mark(p *part) {
	c := &p.codes[f.same]
	switch {
	case p.mask8 == nil || c.c16 == nil || f.keys.several && c.remap == nil:
	case f.keys.several:
		codes := c.c16[p.lo:p.hi]
		for i, m := range p.mask8[p.lo:p.hi] {
			if m == 0 {
				continue
			}
			key := c.remap[codes[i]] - 1
			if key < 0 {
				key = f.values.code(c, f.same, uint32(codes[i]))
			}
			f.keys.mark(uint32(key), uint64(m))
		}
		return
	default:
		codes := c.c16[p.lo:p.hi]
		for i, m := range p.mask8[p.lo:p.hi] {
			if m != 0 {
				f.keys.mark(uint32(codes[i]), uint64(m))
			}
		}
		return
	}
	for r := p.lo; r < p.hi; r++ {
		if m := p.mask(r); m != 0 {
			f.keys.mark(f.key(p, r), m)
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

// key returns what stands for the value of same in a row, 0 for the missing one.
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
			return uint32(c.remap[code] - 1)
		}
	}
	return uint32(f.values.id(p.view, f.same, row))
}

// has reports whether a row has a value of same; a key of 0 stands for any.
func (f *funnelFold) has(p *part, row int, key uint32) bool {
	k := f.key(p, row)
	return k != 0 && (key == 0 || k == key)
}

// A keyTable numbers the keys of one user, with open addressing.
type keyTable struct {
	several bool      // keys are numbers of the dictionary, not codes
	slots   []keySlot // a power of two, at most a quarter of them used
	list    []uint32  // keys by number
	counts  []int32   // of entries, by number; -1 if the key was not chosen
}

// A keySlot is a key, its number, and the matchers of its events; key 0 is free.
type keySlot struct {
	key  uint32
	at   int32
	mask uint64
}

// open begins with a user.
func (k *keyTable) open(several bool) {
	if k.several = several; k.slots == nil {
		k.slots = make([]keySlot, 64)
	}
	for _, key := range slices.Backward(k.list) { // so that a key is found until it is cleared
		k.slots[k.place(key)] = keySlot{}
	}
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

// add gives a key a number, if it has none; key 0 gets none.
func (k *keyTable) add(key uint32) {
	i := k.place(key)
	if k.slots[i].key == key {
		return
	}
	k.slots[i] = keySlot{key: key, at: int32(len(k.list))}
	k.list = append(k.list, key)
	if 4*len(k.list) <= len(k.slots) {
		return
	}
	k.slots = make([]keySlot, 4*len(k.slots))
	for n, key := range k.list {
		k.slots[k.place(key)] = keySlot{key: key, at: int32(n)}
	}
}

// mark notes matchers of an event of a key, if the key has a number.
func (k *keyTable) mark(key uint32, mask uint64) {
	i := int(key*0x9e3779b1>>8) & (len(k.slots) - 1)
	if k.slots[i].key == 0 {
		return // most keys
	}
	if i = k.place(key); k.slots[i].key != 0 {
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
