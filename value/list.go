package value

import (
	"fmt"
	"iter"
	"math"
	"unsafe"
)

// List returns a list of the elements. It takes ownership: the caller must not
// change the slice afterwards.
func List(elems ...Value) Value {
	size, depth := valueSize, uint16(0)
	for i := range elems {
		size += elems[i].Size()
		depth = max(depth, elems[i].meta.depth())
	}
	if depth >= MaxDepth {
		return errTooDeep()
	}
	return Value{
		ptr:  unsafe.Pointer(unsafe.SliceData(elems)),
		num:  uint64(len(elems)),
		meta: makeMeta(KindList, depth+1, uint32(min(size, math.MaxUint32))),
	}
}

func errTooDeep() Value {
	return Error(fmt.Errorf("value nests deeper than %d levels", MaxDepth))
}

// elems returns the elements of a list; v must be one.
func (v Value) elems() []Value {
	if v.meta&lazyList != 0 {
		return (*jsonList)(v.ptr).load()
	}
	return unsafe.Slice((*Value)(v.ptr), int(v.num))
}

// Len returns the number of elements of a list, fields of a map, or bytes of a
// string or binary; 0 for all else.
func (v Value) Len() int {
	switch v.meta.kind() {
	case KindString, KindBinary, KindList:
		return int(v.num)
	case KindMap:
		m := (*mapData)(v.ptr)
		if o := m.demanded(); o != nil {
			return len(o.fields)
		}
		return len(m.load())
	}
	return 0
}

// At returns element i of a list. It is null if v is not a list or has no such
// element.
func (v Value) At(i int) Value {
	if v.meta.kind() != KindList || i < 0 || i >= int(v.num) {
		return Value{}
	}
	return v.elems()[i]
}

// Elems iterates over the elements of a list in order; over nothing if v is not
// a list.
func (v Value) Elems() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.meta.kind() != KindList {
			return
		}
		for i, e := range v.elems() {
			if !yield(i, e) {
				return
			}
		}
	}
}

// Append returns a list of v's elements followed by more. A v that is not a
// list counts as an empty one.
func (v Value) Append(more ...Value) Value {
	if v.meta.kind() != KindList {
		return List(append([]Value(nil), more...)...)
	}
	elems := make([]Value, 0, int(v.num)+len(more))
	return List(append(append(elems, v.elems()...), more...)...)
}
