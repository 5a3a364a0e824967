package value

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"unsafe"
)

// Equal reports whether v and w are the same to a user: numbers by value, so
// that 1 and 1.0 are equal; times by instant; maps whatever the order of their
// fields; errors by message (see [Value.String]). NaN is equal to itself.
func (v Value) Equal(w Value) bool {
	k := v.meta.kind()
	if k != w.meta.kind() {
		return isNumber(k) && isNumber(w.meta.kind()) && compareNumbers(v, w) == 0
	}
	switch k {
	case KindNull:
		return true
	case KindBool, KindInt, KindUint, KindDuration:
		return v.num == w.num
	case KindFloat:
		return compareNumbers(v, w) == 0
	case KindTime:
		return v.num == w.num && v.meta.aux() == w.meta.aux()
	case KindString, KindBinary:
		return v.bytes() == w.bytes()
	case KindList:
		return v.equalList(w)
	case KindMap:
		return v.equalMap(w)
	default:
		return v.String() == w.String()
	}
}

func (v Value) equalList(w Value) bool {
	if v.num != w.num {
		return false
	}
	a, b := v.elems(), w.elems()
	if v.ptr == w.ptr {
		return true
	}
	for i := range a {
		if !a[i].Equal(b[i]) {
			return false
		}
	}
	return true
}

func (v Value) equalMap(w Value) bool {
	if v.ptr == w.ptr {
		return true
	}
	m := (*mapData)(w.ptr)
	a, b := (*mapData)(v.ptr).load(), m.load()
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		j := i
		if b[i].Name != a[i].Name { // mostly the order is the same
			if j = m.find(a[i].Name); j < 0 {
				return false
			}
		}
		if !a[i].Value.Equal(b[j].Value) {
			return false
		}
	}
	return true
}

// Compare returns -1 if v sorts before w, +1 if after, and 0 if they are equal.
// The order is total: kinds sort in the order of their constants, but all
// numbers together, by exact value, NaN first; false before true; strings and
// binaries by bytes; lists element by element, the shorter first; maps by their
// sorted names, then by their values; errors by message.
func (v Value) Compare(w Value) int {
	if a, b := sortRank(v.meta.kind()), sortRank(w.meta.kind()); a != b {
		return cmp.Compare(a, b)
	}
	switch v.meta.kind() {
	case KindNull:
		return 0
	case KindBool:
		return cmp.Compare(v.num, w.num)
	case KindInt, KindUint, KindFloat:
		return compareNumbers(v, w)
	case KindDuration:
		return cmp.Compare(int64(v.num), int64(w.num))
	case KindTime:
		return cmp.Or(cmp.Compare(int64(v.num), int64(w.num)), cmp.Compare(v.meta.aux(), w.meta.aux()))
	case KindString, KindBinary:
		return strings.Compare(v.bytes(), w.bytes())
	case KindList:
		return slices.CompareFunc(v.elems(), w.elems(), Value.Compare)
	case KindMap:
		if v.ptr == w.ptr {
			return 0
		}
		a, b := v.sortedFields(), w.sortedFields()
		byName := func(f, g Field) int { return strings.Compare(f.Name, g.Name) }
		byValue := func(f, g Field) int { return f.Value.Compare(g.Value) }
		return cmp.Or(slices.CompareFunc(a, b, byName), slices.CompareFunc(a, b, byValue))
	default:
		return strings.Compare(v.String(), w.String())
	}
}

func (v Value) sortedFields() []Field {
	fields := slices.Clone((*mapData)(v.ptr).load())
	slices.SortFunc(fields, func(f, g Field) int { return strings.Compare(f.Name, g.Name) })
	return fields
}

// bytes returns the bytes of v, which must be a string or binary.
func (v Value) bytes() string { return unsafe.String((*byte)(v.ptr), int(v.num)) }

func isNumber(k Kind) bool { return k >= KindInt && k <= KindFloat }

func sortRank(k Kind) Kind {
	if isNumber(k) {
		return KindInt
	}
	return k
}

// compareNumbers compares without rounding: an integer beyond 2^53 is not equal
// to the float next to it.
func compareNumbers(v, w Value) int {
	switch a, b := v.meta.kind(), w.meta.kind(); {
	case a == KindFloat && b == KindFloat:
		return cmp.Compare(math.Float64frombits(v.num), math.Float64frombits(w.num)) // NaN first, -0 equal to 0
	case a == KindFloat:
		return -compareIntFloat(w, math.Float64frombits(v.num))
	case b == KindFloat:
		return compareIntFloat(v, math.Float64frombits(w.num))
	case a != b: // a KindUint is greater than any int64
		return cmp.Compare(a, b)
	case a == KindInt:
		return cmp.Compare(int64(v.num), int64(w.num))
	default:
		return cmp.Compare(v.num, w.num)
	}
}

// compareIntFloat compares an integer of either kind with a float: their whole
// parts as integers, then the rest.
func compareIntFloat(v Value, f float64) int {
	whole := math.Trunc(f)
	var c int
	switch {
	case f != f:
		return 1
	case whole >= 1<<64:
		return -1
	case whole < -1<<63:
		return 1
	case v.meta.kind() == KindUint:
		if whole < 1<<63 {
			return 1
		}
		c = cmp.Compare(v.num, uint64(whole))
	case whole >= 1<<63:
		return -1
	default:
		c = cmp.Compare(int64(v.num), int64(whole))
	}
	return cmp.Or(c, cmp.Compare(whole, f))
}

// hashSeed is the same for all values, so that equal ones have equal hashes.
var hashSeed = maphash.MakeSeed()

// Hash returns a hash that equal values share. It differs from one run of the
// program to the next, so it must not be stored.
func (v Value) Hash() uint64 {
	k := v.meta.kind()
	switch k {
	case KindBool, KindInt, KindUint, KindDuration:
		return hashWord(k, v.num) // no KindUint equals a KindInt
	case KindFloat:
		// An integral float hashes as the integer that it equals.
		f := math.Float64frombits(v.num)
		if i, ok := v.AsInt(); ok {
			return hashWord(KindInt, uint64(i))
		}
		if u, ok := v.AsUint(); ok {
			return hashWord(KindUint, u)
		}
		if f != f {
			return hashWord(KindFloat, 0)
		}
		return hashWord(KindFloat, v.num)
	case KindTime:
		return hashWord(KindTime, v.num^hashWord(KindTime, uint64(v.meta.aux())))
	case KindString, KindBinary:
		return hashWord(k, maphash.String(hashSeed, v.bytes()))
	case KindList:
		h := uint64(KindList)
		for _, e := range v.elems() {
			h = hashWord(KindList, h^e.Hash())
		}
		return h
	case KindMap:
		var sum uint64 // the order of the fields does not count
		for _, f := range (*mapData)(v.ptr).load() {
			sum += hashWord(KindMap, maphash.String(hashSeed, f.Name)^hashWord(KindMap, f.Value.Hash()))
		}
		return hashWord(KindMap, sum)
	case KindError:
		return hashWord(KindError, maphash.String(hashSeed, v.String()))
	}
	return hashWord(KindNull, 0)
}

// hashWord returns the hash of a word. Only this program knows how it is mixed: clients that
// knew could send lists whose hashes are all the same.
func hashWord(k Kind, x uint64) uint64 {
	var word [9]byte
	binary.LittleEndian.PutUint64(word[:], x)
	word[8] = byte(k)
	return maphash.Bytes(hashSeed, word[:])
}
