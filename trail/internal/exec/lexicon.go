package exec

import (
	"cmp"
	"slices"
	"strings"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A lexicon numbers all values of a column of the plan, in their order, before any row
// is read: 0 is the missing value. The dictionaries of the segments are in order,
// so it merges them. All workers read it, so that the tables by code exist once, and
// what workers have found need not be translated.
type lexicon struct {
	plan   *plan
	column int
	typ    event.Type
	ids    map[*segment.Column][]int32 // by code: number+1
	first  []term                      // by number: where its value is
}

// A term is a code of a source.
type term struct {
	source int32
	code   uint32
}

// newLexicon merges the dictionaries of a column. It returns nil where that would not
// pay: if none of them has at least some codes, for values that are not in dictionaries,
// and for dictionaries that are large for the rows that are read or for the budget.
func (p *plan) newLexicon(column, least int) (*lexicon, error) {
	codes, most := 0, 0
	for _, src := range p.sources {
		if col := src.columns[column]; col != nil {
			if col.Codes() == 0 || col.Type() != p.types[column] && p.types[column] != event.Float {
				return nil, nil
			}
			codes, most = codes+col.Codes(), max(most, col.Codes())
		}
	}
	size := 4*int64(codes) + 2*int64(unsafe.Sizeof(term{}))*int64(most) // if half of the values are in the largest
	if most < least || float64(codes) > float64(p.rows)*p.share/4 || size > p.held.limit/8*5 {
		return nil, nil
	}
	l := &lexicon{plan: p, column: column, typ: p.types[column], ids: make(map[*segment.Column][]int32), first: make([]term, 1, most)}
	switch l.typ {
	case event.Int:
		merge(l, p.sources, event.Value.Int)
	case event.Float:
		merge(l, p.sources, event.Value.Float)
	case event.String:
		merge(l, p.sources, event.Value.Text)
	default:
		return nil, nil
	}
	return l, p.held.take(4*int64(codes) + int64(unsafe.Sizeof(term{}))*int64(cap(l.first)))
}

// merge numbers the values of the sources, which of turns into what they are ordered
// by.
func merge[T cmp.Ordered](l *lexicon, sources []*source, of func(event.Value) T) {
	type head struct {
		low    T
		col    *segment.Column
		ids    []int32
		source int32
		code   uint32
	}
	read := func(h *head) T {
		v, _ := h.col.Value(h.code).As(l.typ)
		return of(v)
	}
	var heads []head
	for i, src := range sources {
		col := src.columns[l.column]
		if col == nil {
			continue
		}
		ids := make([]int32, col.Codes())
		ids[0] = 1
		l.ids[col] = ids
		if len(ids) > 1 {
			h := head{col: col, ids: ids, source: int32(i), code: 1}
			h.low = read(&h)
			heads = append(heads, h)
		}
	}
	for len(heads) > 0 {
		low, at := heads[0].low, 0
		for i := range heads[1:] {
			if heads[i+1].low < low {
				low, at = heads[i+1].low, i+1
			}
		}
		l.first = append(l.first, term{heads[at].source, heads[at].code})
		ended := false
		for i := range heads {
			// Integers that have become numbers may be equal.
			for h := &heads[i]; h.low == low && int(h.code) < len(h.ids); {
				h.ids[h.code] = int32(len(l.first))
				if h.code++; int(h.code) < len(h.ids) {
					h.low = read(h)
				} else {
					ended = true
				}
			}
		}
		if ended {
			heads = slices.DeleteFunc(heads, func(h head) bool { return int(h.code) == len(h.ids) })
		}
	}
}

// value returns the value with a number. It is a copy: the map of the file may be gone
// when the answer is read.
func (l *lexicon) value(id int32) event.Value {
	if id == 0 {
		return event.Value{}
	}
	t := l.first[id]
	v, _ := l.plan.sources[t.source].columns[l.column].Value(t.code).As(l.typ)
	if v.Type() == event.String {
		return event.StringOf(strings.Clone(v.Text()))
	}
	return v
}

// numbers has the numbers of the values of a column of a source.
type numbers struct {
	ids []int32 // by code: number+1; nil if the column is not in the lexicon

	// Most dictionaries lack few values of the others, so that from code to code the
	// number grows by one, too. near has, for codes that differ in their lowest bits
	// alone, what is to be added to each; 0 if it is not the same for all. It is
	// small enough to stay in the cache.
	near []int32
}

// nearBits are the codes of an entry of near, as a power of two.
const nearBits = 6

// newNumbers makes near.
func newNumbers(ids []int32) numbers {
	n := numbers{ids: ids, near: make([]int32, (len(ids)-1)>>nearBits+1)}
	for i := range n.near {
		lo := i << nearBits
		add := ids[lo] - int32(lo)
		for code, id := range ids[lo:min(lo+1<<nearBits, len(ids))] {
			if id-int32(lo+code) != add {
				add = 0
				break
			}
		}
		n.near[i] = add
	}
	return n
}

// key returns the number of a code and one.
func (n *numbers) key(code uint32) uint32 {
	if add := n.near[code>>nearBits]; add != 0 {
		return code + uint32(add)
	}
	return uint32(n.ids[code])
}
