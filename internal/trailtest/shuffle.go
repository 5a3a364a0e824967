package trailtest

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// Shuffled yields the rows of a generator in the order in which they arrive, rows of
// one time, or all if none is late, in a random order, which the seed decides. It holds
// all of them, in some 30 to 60 bytes each, and each value once.
func Shuffled(g Generator, seed uint64) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		var (
			packed []byte
			starts []uint64
			users  values[string]
			names  values[string]
			fields = make([]values[event.Value], len(g.Schema()))
			late   bool
		)
		for row := range g.Rows() {
			starts = append(starts, uint64(len(packed)))
			late = late || row.Late != 0
			packed = binary.LittleEndian.AppendUint64(packed, uint64(row.Time+row.Late))
			packed = binary.AppendUvarint(packed, users.number(row.User, strings.Clone))
			packed = binary.AppendVarint(packed, row.Time)
			packed = binary.AppendUvarint(packed, names.number(row.Name, strings.Clone))
			for i, v := range row.Values {
				packed = binary.AppendUvarint(packed, fields[i].number(v, func(v event.Value) event.Value { return v }))
			}
		}
		s := newSource(seed, 0)
		for i := len(starts) - 1; i > 0; i-- { // Fisher and Yates
			j := s.below(uint64(i + 1))
			starts[i], starts[j] = starts[j], starts[i]
		}
		if late {
			sortByArrival(starts, packed)
		}
		row := &Row{Values: make([]event.Value, len(fields))}
		for _, at := range starts {
			arrives := binary.LittleEndian.Uint64(packed[at:])
			rest := packed[at+8:]
			next := func() uint64 {
				v, n := binary.Uvarint(rest)
				rest = rest[n:]
				return v
			}
			row.User = users.list[next()]
			millis, n := binary.Varint(rest)
			row.Time, rest = millis, rest[n:]
			row.Late = int64(arrives) - millis
			row.Name = names.list[next()]
			for i := range fields {
				row.Values[i] = fields[i].list[next()]
			}
			if !yield(row) {
				return
			}
		}
	}
}

// sortByArrival sorts rows by the time at their start, and keeps the order of rows of one time.
func sortByArrival(starts []uint64, packed []byte) {
	type arrived struct{ at, place, start uint64 }
	all := make([]arrived, len(starts))
	for i, start := range starts {
		all[i] = arrived{binary.LittleEndian.Uint64(packed[start:]), uint64(i), start}
	}
	slices.SortFunc(all, func(a, b arrived) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.place, b.place))
	})
	for i := range all {
		starts[i] = all[i].start
	}
}

// values are different values, with numbers in order of appearance.
type values[T comparable] struct {
	list    []T
	numbers map[T]uint64
	last    uint64 // the number that was asked for before; many repeat
}

func (v *values[T]) number(value T, clone func(T) T) uint64 {
	if len(v.list) > 0 && v.list[v.last] == value {
		return v.last
	}
	if n, ok := v.numbers[value]; ok {
		v.last = n
		return n
	}
	if v.numbers == nil {
		v.numbers = make(map[T]uint64)
	}
	n := uint64(len(v.list))
	value = clone(value)
	v.list = append(v.list, value)
	v.numbers[value], v.last = n, n
	return n
}
