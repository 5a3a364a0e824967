package exec

import (
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
	later := f.stepMask & 2
	if f.q.AnyOrder {
		later = f.stepMask &^ 1
	}
	f.keys.open(slices.ContainsFunc(parts, func(p part) bool { return p.view != parts[0].view }))
	for i := range parts {
		p := &parts[i]
		for r := p.lo; r < p.hi; r++ {
			if p.mask(r)&later != 0 {
				if key := f.key(p, r); key != 0 {
					f.keys.add(key)
				}
			}
		}
	}
	if len(f.keys.list) > 0 {
		f.sift(parts, ordered)
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
	if f.best.level < 2 || f.trend != nil {
		f.begin(parts)
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

// sift collects the entries of the values in the table: by value, and then by time.
func (f *funnelFold) sift(parts []part, ordered bool) {
	f.entries = f.entries[:0]
	for i := range parts {
		p := &parts[i]
		for r := p.lo; r < p.hi; r++ {
			m := p.mask(r)
			if m == 0 {
				continue
			}
			if at := f.keys.find(f.key(p, r)); at >= 0 {
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
		at += n
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
	counts  []int32   // of entries, by number
}

// A keySlot is a key and its number; key 0 is free.
type keySlot struct {
	key uint32
	at  int32
}

// open begins with a user.
func (k *keyTable) open(several bool) {
	if k.several = several; k.slots == nil {
		k.slots = make([]keySlot, 64)
	}
	for _, key := range slices.Backward(k.list) { // so that a key is found until it is cleared
		k.slots[k.place(key)] = keySlot{}
	}
	k.list, k.counts = k.list[:0], k.counts[:0]
}

// place returns the slot of a key, or that in which it would be.
func (k *keyTable) place(key uint32) int {
	mask := len(k.slots) - 1
	i := int(key*0x9e3779b1>>7) & mask
	for k.slots[i].key != 0 && k.slots[i].key != key {
		i = (i + 1) & mask
	}
	return i
}

// add gives a key a number, if it has none.
func (k *keyTable) add(key uint32) {
	i := k.place(key)
	if k.slots[i].key == key {
		return
	}
	k.slots[i] = keySlot{key, int32(len(k.list))}
	k.list, k.counts = append(k.list, key), append(k.counts, 0)
	if 4*len(k.list) <= len(k.slots) {
		return
	}
	k.slots = make([]keySlot, 4*len(k.slots))
	for n, key := range k.list {
		k.slots[k.place(key)] = keySlot{key, int32(n)}
	}
}

// find returns the number of a key, -1 if it has none.
func (k *keyTable) find(key uint32) int32 {
	if key == 0 {
		return -1
	}
	if s := k.slots[k.place(key)]; s.key == key {
		return s.at
	}
	return -1
}
