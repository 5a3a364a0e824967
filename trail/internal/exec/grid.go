package exec

import (
	"math"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// A grid has the groups that were met, and what was measured of each in each bucket.
type grid struct {
	measure query.MeasureKind
	byUser  bool // of a measure by user and not by row
	sampled bool
	buckets int
	held    *budget
	room    int64 // bytes that all cells may take to have a number each

	groups int                // how many there are
	direct bool               // the group is the number of the value, of one property with a lexicon
	keys   [][3]int32         // by group: numbers of the values of by; nil if direct
	tuples map[[3]int32]int32 // numbers of the values of by -> group+1
	single []int32            // instead, of one property: by number, group+1

	// Counts and users take a number each.
	counts []int64  // by cell, of Count and Users without a sample
	odd    []int64  // as counts, and to be added to them; may be nil
	last   []uint32 // by cell, of Users: the last user who was counted

	cells     []cell      // by cell, else
	quantiles []quantiles // of Percentile

	// Cells are numbered by group and bucket while there are few of them. If there are
	// many, most could be empty, and they are numbered in the order of appearance.
	sparse map[uint64]uint32 // group<<32 | bucket -> cell
	places []uint64          // by cell: group<<32 | bucket

	taken int64 // bytes of the budget, for cells
}

// alwaysDense is the number of cells that have a number each whatever the budget is.
const alwaysDense = 1 << 12

func newGrid(p *plan, measure query.MeasureKind, by, buckets int) *grid {
	g := &grid{
		measure: measure, buckets: buckets, held: p.held, sampled: p.share < 1,
		byUser: measure == query.Users || p.share < 1 && measure <= query.Sum, // counts and sums are scaled to the whole
		room:   p.held.limit / int64(2*p.opt.Workers),
	}
	if by > 1 {
		g.tuples = make(map[[3]int32]int32)
	}
	return g
}

// counted reports whether a number for each cell is enough.
func (g *grid) counted() bool { return g.measure <= query.Users && !g.sampled }

// find returns the group of a tuple of values; it is not ok if there is none yet.
func (g *grid) find(key [3]int32) (group uint32, ok bool) {
	var at int32
	if g.direct {
		return uint32(key[0]), true
	} else if g.tuples != nil {
		at = g.tuples[key]
	} else if int(key[0]) < len(g.single) {
		// Numbers of one dictionary are dense: no map is needed.
		at = g.single[key[0]]
	}
	return uint32(at - 1), at > 0
}

// name gives a tuple of values a group.
func (g *grid) name(key [3]int32, group uint32) {
	if g.tuples != nil {
		g.tuples[key] = int32(group) + 1
		return
	}
	g.single = extend(g.single, int(key[0])+1)
	g.single[key[0]] = int32(group) + 1
}

// add gives a tuple of values a new group.
func (g *grid) add(key [3]int32) uint32 {
	group := uint32(g.groups)
	g.groups++
	g.keys = append(g.keys, key)
	g.name(key, group)
	return group
}

// key returns the numbers of the values of a group.
func (g *grid) key(group uint32) [3]int32 {
	if g.direct {
		return [3]int32{int32(group)}
	}
	return g.keys[group]
}

// groupBytes is about what a group takes in a grid: in the list and the table, or in
// the map, which is at most half full.
func (g *grid) groupBytes() int64 {
	switch {
	case g.direct:
		return 0
	case g.tuples != nil:
		return 64
	}
	return 24
}

// cellBytes returns what a cell takes.
func (g *grid) cellBytes() int64 {
	size := int64(unsafe.Sizeof(cell{}))
	switch {
	case g.counted() && g.measure == query.Users:
		size = 12
	case g.counted():
		size = 8
	case g.measure == query.Percentile:
		size += int64(unsafe.Sizeof(quantiles{}))
	}
	if g.sparse != nil {
		size += 48 // of the map and the places
	}
	return size
}

// dense reports whether so many cells can have a number each.
func (g *grid) dense(n int) bool { return n <= alwaysDense || int64(n)*g.cellBytes() <= g.room }

// grow makes room for the cells that have a number, and for the cells of new groups.
func (g *grid) grow() error {
	n := g.groups * g.buckets
	if g.sparse == nil && !g.dense(n) {
		g.makeSparse()
	}
	if g.sparse != nil {
		n = len(g.places)
	}
	if n >= outside {
		return &MemoryError{g.held.limit}
	}
	switch {
	case !g.counted():
		g.cells = extend(g.cells, n)
		if g.measure == query.Percentile {
			g.quantiles = extend(g.quantiles, n)
		}
	case g.measure == query.Users:
		g.last = extend(g.last, n)
		fallthrough
	default:
		g.counts = extend(g.counts, n)
	}
	return g.account()
}

// account takes from the budget what the grid has grown by.
func (g *grid) account() error {
	held := int64(max(cap(g.counts), cap(g.cells)))*g.cellBytes() + int64(cap(g.odd))*8 + int64(g.groups)*g.groupBytes()
	grown := held - g.taken
	if grown <= 0 {
		return nil
	}
	g.taken = held
	return g.held.take(grown)
}

// extend makes a slice n long, if it is shorter.
func extend[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(s, make([]T, n-len(s))...)
}

// at returns the number of a cell. There may be no room for it yet.
func (g *grid) at(group, bucket uint32) uint32 {
	if g.sparse == nil {
		return group*uint32(g.buckets) + bucket
	}
	place := uint64(group)<<32 | uint64(bucket)
	at, ok := g.sparse[place]
	if !ok {
		at = uint32(len(g.places))
		g.sparse[place] = at
		g.places = append(g.places, place)
	}
	return at
}

func (g *grid) split(at int) (group, bucket uint32) {
	if g.sparse == nil {
		return uint32(at / g.buckets), uint32(at % g.buckets)
	}
	return uint32(g.places[at] >> 32), uint32(g.places[at] & math.MaxUint32)
}

// size returns how many cells have room.
func (g *grid) size() int { return max(len(g.counts), len(g.cells)) }

// rows returns how many rows, or users, a cell has.
func (g *grid) rows(at int) int64 {
	if g.counted() {
		return g.counts[at]
	}
	return g.cells[at].rows
}

// makeSparse changes from numbers for all cells to numbers for cells that exist.
func (g *grid) makeSparse() {
	g.even()
	old := *g
	g.sparse = make(map[uint64]uint32)
	g.counts, g.last, g.cells, g.quantiles = nil, nil, nil, nil
	for at := range old.size() {
		if old.rows(at) == 0 {
			continue
		}
		g.at(old.split(at))
		if g.counted() {
			g.counts = append(g.counts, old.counts[at])
		} else {
			g.cells = append(g.cells, old.cells[at])
		}
		if old.last != nil {
			g.last = append(g.last, old.last[at])
		}
		if old.quantiles != nil {
			g.quantiles = append(g.quantiles, old.quantiles[at])
		}
	}
}

// even adds odd to counts.
func (g *grid) even() {
	for at, n := range g.odd {
		g.counts[at] += n
	}
	g.odd = nil
}

// release returns the memory of the cells to the budget. The grid must not be used
// after.
func (g *grid) release() {
	g.held.give(g.taken)
	*g = grid{}
}
