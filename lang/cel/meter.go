package cel

import (
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/uniflow-labs/uniflow/lang"
)

// CostLimit is how many steps one evaluation may take. A pass of a comprehension costs
// one step for each operator, literal and name in its body. functions.go has the cost
// of functions by the size of their arguments. Ten million steps take at most about a
// second.
const CostLimit = 10_000_000

// MemoryLimit is how many bytes of text, lists and maps one evaluation may make in
// total, whether it still uses them or not.
const MemoryLimit = 128 << 20

const (
	bytesPerStep = 32     // of text that a function reads or writes
	checkEvery   = 10_000 // steps between two checks of the context and the clock

	elementBytes = 24 // of an element of a list: an interface and its value
	entryBytes   = 96 // of an entry of a map or a set
)

// A meter limits the work of an evaluation. Work is charged before it is done, so that
// work beyond the limit never begins. It belongs to one evaluation at a time.
type meter struct {
	ctx     context.Context
	timeout time.Duration // 0: none
	began   time.Time     // the first check; short evaluations never ask for the time

	steps  int // left
	bytes  int // left
	unseen int // steps since the last check

	stopped error     // why the evaluation ended early
	args    []ref.Val // of the current calls, the innermost last
}

func (m *meter) start(ctx context.Context, timeout time.Duration) {
	m.ctx, m.timeout, m.steps, m.bytes = ctx, timeout, CostLimit, MemoryLimit
}

func (m *meter) reset() {
	m.pop(0)
	m.ctx, m.began, m.stopped, m.unseen = nil, time.Time{}, nil, 0
}

func (m *meter) pop(n int) {
	clear(m.args[n:])
	m.args = m.args[:n]
}

// spend subtracts steps and bytes. It returns why the evaluation must end, or nil.
func (m *meter) spend(steps, bytes int) error {
	switch {
	case m.stopped != nil:
	case bytes > m.bytes || bytes < 0:
		m.stopped = &lang.Thrown{Message: fmt.Sprintf("the expression makes more than %d MiB of text, lists and maps", MemoryLimit>>20)}
	case steps > m.steps || steps < 0:
		m.stopped = &lang.Thrown{Message: fmt.Sprintf("the expression costs more than %d steps", CostLimit)}
	default:
		m.steps -= steps
		m.bytes -= bytes
		if m.unseen += steps; m.unseen >= checkEvery {
			m.check()
		}
	}
	return m.stopped
}

func (m *meter) check() {
	m.unseen = 0
	switch {
	case m.ctx.Err() != nil:
		m.stopped = lang.Stopped(m.ctx)
	case m.timeout == 0:
	case m.began.IsZero():
		m.began = time.Now()
	case time.Since(m.began) >= m.timeout:
		m.stopped = &lang.Timeout{After: m.timeout}
	}
}

// charge is spend for code that the interpreter calls. It ends the evaluation with a
// panic, which the interpreter recovers and which || and ?: cannot absorb.
func (m *meter) charge(steps, bytes int) {
	if m.spend(steps, bytes) != nil {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded})
	}
}

func (m *meter) read(n int) { m.charge(1+n/bytesPerStep, 0) }

func (m *meter) write(n int) { m.charge(1+n/bytesPerStep, n) }

// smallValue is the largest payload that is compared or hashed in one step.
const smallValue = 64 << 10

// equal is CEL's equality. It charges while it compares, because the size of a value
// with shared parts is not known before.
func (m *meter) equal(a, b ref.Val) bool {
	switch a := a.(type) {
	case types.String:
		b, ok := b.(types.String)
		m.read(min(len(a), len(b)))
		return ok && a == b
	case types.Bytes:
		m.read(len(a))
	case types.Int, types.Uint, types.Double, types.Bool, types.Null:
		m.charge(1, 0)
	case *types.Optional:
		b, ok := b.(*types.Optional)
		m.charge(1, 0)
		return ok && a.HasValue() == b.HasValue() && (!a.HasValue() || m.equal(a.GetValue(), b.GetValue()))
	case traits.Lister:
		b, ok := b.(traits.Lister)
		return ok && m.equalLists(a, b)
	case traits.Mapper:
		b, ok := b.(traits.Mapper)
		return ok && m.equalMaps(a, b)
	default:
		m.charge(1, 0)
	}
	return types.Equal(a, b) == types.True
}

func (m *meter) equalLists(a, b traits.Lister) bool {
	m.charge(1, 0)
	if la, ok := a.(*list); ok {
		if lb, ok := b.(*list); ok && la.v.Size() <= smallValue {
			m.read(la.v.Size())
			return la.v.Equal(lb.v)
		}
	}
	n := length(a)
	if n != length(b) {
		return false
	}
	for i := range n {
		if !m.equal(a.Get(types.Int(i)), b.Get(types.Int(i))) {
			return false
		}
	}
	return true
}

func (m *meter) equalMaps(a, b traits.Mapper) bool {
	m.charge(1, 0)
	if da, ok := a.(*dict); ok {
		if db, ok := b.(*dict); ok && da.v.Size() <= smallValue {
			m.read(da.v.Size())
			return da.v.Equal(db.v)
		}
	}
	n := length(a)
	if n != length(b) {
		return false
	}
	m.charge(n, n*elementBytes) // the iterator lists the keys
	for it := a.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		theirs, ok := b.Find(key)
		if !ok || !m.equal(a.Get(key), theirs) {
			return false
		}
	}
	return true
}

// hashSeed differs between processes, so that a client cannot send values that collide.
var hashSeed = maphash.MakeSeed()

// hash returns the same number for values that are equal.
func (m *meter) hash(v ref.Val) uint64 {
	m.charge(1, 0)
	switch v := v.(type) {
	case types.String:
		m.read(len(v))
		return maphash.String(hashSeed, string(v))
	case types.Bytes:
		m.read(len(v))
		return maphash.Bytes(hashSeed, v)
	case types.Int:
		return hashNumber(float64(v))
	case types.Uint:
		return hashNumber(float64(v))
	case types.Double:
		return hashNumber(float64(v))
	case types.Timestamp:
		return maphash.Comparable(hashSeed, v.UnixNano())
	case types.Duration:
		return maphash.Comparable(hashSeed, v.Duration)
	case types.Bool:
		return maphash.Comparable(hashSeed, v)
	case traits.Lister:
		var h uint64
		for e := range elems(v) {
			h = maphash.Comparable(hashSeed, [2]uint64{h, m.hash(e)})
		}
		return h
	case traits.Mapper:
		m.charge(length(v), length(v)*elementBytes)
		var h uint64 // the sum, because the order of entries does not matter
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			h += maphash.Comparable(hashSeed, [2]uint64{m.hash(key), m.hash(v.Get(key))})
		}
		return h
	}
	return 0
}

// hashNumber ignores the type of a number, like equality. Integers that round to the
// same float share a hash, but there are at most some thousands of them.
func hashNumber(f float64) uint64 {
	return maphash.Comparable(hashSeed, f+0) // -0 + 0 is 0
}

// weigh returns an upper bound for the bytes of v as text.
func (m *meter) weigh(v ref.Val) int {
	const scalar = 350 // 1e308 has 309 digits
	switch v := v.(type) {
	case types.String:
		m.read(len(v))
		return 2 * len(v)
	case types.Bytes:
		m.read(len(v))
		return 2 * len(v)
	case *list:
		m.read(v.v.Size())
		return 10 * v.v.Size() // a number takes 24 bytes of it
	case *dict:
		m.read(v.v.Size())
		return 10 * v.v.Size()
	case *types.Optional:
		m.charge(1, 0)
		if v.HasValue() {
			return m.weigh(v.GetValue())
		}
	case traits.Lister:
		m.charge(1, 0)
		sum := 0
		for e := range elems(v) {
			sum += m.weigh(e)
		}
		return sum
	case traits.Mapper:
		m.charge(1+length(v), length(v)*elementBytes)
		sum := 0
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			sum += m.weigh(key) + m.weigh(v.Get(key))
		}
		return sum
	default:
		m.charge(1, 0)
	}
	return scalar
}

// length returns the bytes of a text or the number of elements, in constant time. It is
// 0 for all other values.
func length(v any) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case traits.Sizer:
		n, _ := v.Size().(types.Int)
		return int(n)
	}
	return 0
}

func elems(l traits.Lister) iter.Seq[ref.Val] {
	return func(yield func(ref.Val) bool) {
		if l, ok := l.(*list); ok {
			for _, e := range l.v.Elems() {
				if !yield(toCEL(e)) {
					return
				}
			}
			return
		}
		for i := range length(l) {
			if !yield(l.Get(types.Int(i))) {
				return
			}
		}
	}
}

// A set has each value once.
type set struct {
	m      *meter
	values map[uint64][]ref.Val // by hash
}

func newSet(m *meter, l traits.Lister) *set {
	s := &set{m: m, values: map[uint64][]ref.Val{}}
	for e := range elems(l) {
		s.add(e)
	}
	return s
}

func (s *set) add(v ref.Val) bool {
	h := s.m.hash(v)
	if s.in(h, v) {
		return false
	}
	s.m.charge(1, entryBytes)
	s.values[h] = append(s.values[h], v)
	return true
}

func (s *set) has(v ref.Val) bool { return s.in(s.m.hash(v), v) }

func (s *set) in(hash uint64, v ref.Val) bool {
	for _, other := range s.values[hash] {
		if s.m.equal(v, other) {
			return true
		}
	}
	return false
}
