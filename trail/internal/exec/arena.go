package exec

import (
	"sync/atomic"
	"unsafe"
)

// An arena is the scratch memory of one worker. It works as a stack: memory is
// released in reverse order, and all of it after each shard. So a query of many shards
// holds as much as its largest shard needs. The memory is not zeroed.
type arena struct {
	b8   stack[uint64] // bytes, eight in one
	b16  stack[uint16]
	b32  stack[uint32]
	b64  stack[uint64]
	held *budget
	took int64 // of the budget, in bytes
	err  error // of the budget; the first one stays
}

// Scratch keeps the arenas of queries that have ended for later queries, which then
// neither allocate nor clear memory, nor make the collector run. The zero Scratch is
// ready; it may be used by any number of queries concurrently, and must not be copied.
//
// It is not a sync.Pool, which takes a lock that all pools share after each
// collection: it was seen in the profile of 64 concurrent queries.
type Scratch struct {
	arenas [16]atomic.Pointer[arena] // about as many as workers run concurrently
}

// maxKept is how many bytes an arena may hold to be kept.
const maxKept = 8 << 20

// get returns an arena, accounted for in a budget.
func (s *Scratch) get(held *budget) *arena {
	a := s.kept()
	if a == nil {
		a = &arena{}
	}
	a.held, a.took, a.err = held, 0, nil
	a.account()
	return a
}

// kept takes an arena out, nil if there is none.
func (s *Scratch) kept() *arena {
	if s == nil {
		return nil
	}
	for i := range s.arenas {
		if a := s.arenas[i].Swap(nil); a != nil {
			return a
		}
	}
	return nil
}

// put takes an arena back. Nothing of it may be used any more.
func (s *Scratch) put(a *arena) {
	a.reset()
	if s == nil || a.took > maxKept {
		return
	}
	a.held = nil
	for i := range s.arenas {
		if s.arenas[i].CompareAndSwap(nil, a) {
			return
		}
	}
}

// A stack is the part of an arena for one type.
type stack[T any] struct {
	buf  []T
	used int // may be more than there is in buf
	peak int // the most that was used
}

// take returns n elements. If the buffer is too short, it allocates them, and the
// next reset makes the buffer long enough. Elements taken before stay valid.
func take[T any](a *arena, s *stack[T], n int) []T {
	at := s.used
	s.used += n
	if s.used <= len(s.buf) {
		return s.buf[at:s.used:s.used]
	}
	if s.used > s.peak {
		s.peak = s.used
		a.account()
	}
	return make([]T, n)
}

// reset takes everything back, and makes the buffer as long as was needed.
func (s *stack[T]) reset() {
	s.used = 0
	if s.peak > len(s.buf) {
		s.buf = make([]T, s.peak+s.peak/4)
	}
}

// size returns the most elements that there was memory for.
func (s *stack[T]) size() int64 { return int64(max(s.peak, len(s.buf))) }

// account takes from the budget what the arena has grown by.
func (a *arena) account() {
	bytes := 8*a.b8.size() + 2*a.b16.size() + 4*a.b32.size() + 8*a.b64.size()
	if bytes <= a.took {
		return
	}
	if err := a.held.take(bytes - a.took); err != nil && a.err == nil {
		a.err = err
	}
	a.took = bytes
}

// bytes returns n bytes, which begin at a multiple of eight and have at least
// eight more behind them, so that they may be read as words.
func (a *arena) bytes(n int) []uint8 {
	words := take(a, &a.b8, n/8+2)
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:n]
}

// words8 returns bytes of an arena as words. The last word may reach beyond.
func words8(b []uint8) []uint64 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), (len(b)+7)/8)
}

func (a *arena) halves(n int) []uint16 { return take(a, &a.b16, n) }
func (a *arena) ints(n int) []uint32   { return take(a, &a.b32, n) }
func (a *arena) words(n int) []uint64  { return take(a, &a.b64, n) }

// reset takes everything back.
func (a *arena) reset() {
	a.b8.reset()
	a.b16.reset()
	a.b32.reset()
	a.b64.reset()
}

// A mark is a place in an arena to go back to.
type mark [4]int

func (a *arena) mark() mark { return mark{a.b8.used, a.b16.used, a.b32.used, a.b64.used} }

// release takes back what was given since the mark.
func (a *arena) release(m mark) {
	a.b8.used, a.b16.used, a.b32.used, a.b64.used = m[0], m[1], m[2], m[3]
}
