package exec

import (
	"cmp"
	"slices"
)

const (
	// exactValues is the number of values up to which a quantile is exact.
	exactValues = 1 << 20

	// compactValues is how many values of one weight are kept beyond that. Each
	// halving of them moves ranks by at most half their weight, and there are at
	// most as many halvings of a weight w as N / (w * compactValues): with L
	// weights the rank is right within L / compactValues, 0.13 % for 2^35 values.
	compactValues = 1 << 14
)

// A quantiles keeps numbers, as ordered keys, to find the value at a rank. It keeps
// all numbers up to exactValues, and then fewer, with weights. This is a deterministic
// relative of the KLL sketch, after Manku, Rajagopalan and Lindsay (1998).
type quantiles struct {
	n      int64
	levels [][]uint64 // by weight 1<<i, unsorted
	odd    bool       // which half is kept next
}

// add adds a key; it returns by how many bytes the memory grew.
func (q *quantiles) add(key uint64) int64 {
	q.n++
	if len(q.levels) == 0 {
		q.levels = make([][]uint64, 1)
	}
	had := cap(q.levels[0])
	q.levels[0] = append(q.levels[0], key)
	grown := int64(cap(q.levels[0])-had) * 8
	limit := compactValues
	if len(q.levels) == 1 {
		limit = exactValues + 1
	}
	if len(q.levels[0]) >= limit {
		grown += q.compact()
	}
	return grown
}

// compact halves the levels that are full; it returns by how much the memory grew.
func (q *quantiles) compact() (grown int64) {
	for i := 0; i < len(q.levels); i++ {
		if len(q.levels[i]) < compactValues {
			continue
		}
		full := q.levels[i]
		slices.Sort(full)
		if i+1 == len(q.levels) {
			q.levels = append(q.levels, nil)
		}
		keep := full[:0:0]
		if len(full)%2 == 1 {
			keep = append(keep, full[len(full)-1]) // has no partner
			full = full[:len(full)-1]
		}
		at := btoi(q.odd)
		q.odd = !q.odd
		for ; at < len(full); at += 2 {
			q.levels[i+1] = append(q.levels[i+1], full[at])
		}
		grown -= int64(cap(full)) * 8
		grown += int64(cap(q.levels[i+1])) * 8
		q.levels[i] = keep
	}
	return grown
}

// join adds what another has.
func (q *quantiles) join(o *quantiles) {
	q.n += o.n
	for i, keys := range o.levels {
		for len(q.levels) <= i {
			q.levels = append(q.levels, nil)
		}
		q.levels[i] = append(q.levels[i], keys...)
	}
	if q.n > exactValues {
		q.compact()
	}
}

// at returns the key at a rank from 1.
func (q *quantiles) at(rank int64) uint64 {
	type weighted struct {
		key    uint64
		weight int64
	}
	var all []weighted
	if len(q.levels) == 1 {
		slices.Sort(q.levels[0])
		return q.levels[0][rank-1]
	}
	for i, keys := range q.levels {
		for _, k := range keys {
			all = append(all, weighted{k, 1 << i})
		}
	}
	slices.SortFunc(all, func(a, b weighted) int { return cmp.Compare(a.key, b.key) })
	var sum int64
	for _, w := range all {
		if sum += w.weight; sum >= rank {
			return w.key
		}
	}
	return all[len(all)-1].key
}

// bytes returns how much memory the numbers take.
func (q *quantiles) bytes() (n int64) {
	for _, keys := range q.levels {
		n += int64(cap(keys)) * 8
	}
	return n
}
