package exec

import "unsafe"

// An arena is the scratch memory of one worker. It is handed out in stack order
// and taken back as a whole for each shard, so that a query of many shards
// allocates as much as its largest one needs. What it gives is not zeroed.
type arena struct {
	b8   stack[uint64] // bytes, eight in one
	b16  stack[uint16]
	b32  stack[uint32]
	b64  stack[uint64]
	held *budget
}

// A stack is the part of an arena for one type.
type stack[T any] struct {
	buf  []T
	used int
	want int // by how much buf was too short since the last reset
}

// take returns n elements. When the buffer is too short they are allocated, and
// the buffer is made long enough at the next reset: what was given stays valid.
func (s *stack[T]) take(n int) []T {
	if s.used+n > len(s.buf) {
		s.want += n
		return make([]T, n)
	}
	part := s.buf[s.used : s.used+n : s.used+n]
	s.used += n
	return part
}

// reset takes everything back; it returns by how many elements the buffer grew.
func (s *stack[T]) reset() int {
	s.used = 0
	if s.want == 0 {
		return 0
	}
	grow := s.want + s.want/4
	s.buf = make([]T, len(s.buf)+grow)
	s.want = 0
	return grow
}

// bytes returns n bytes, which begin at a multiple of eight and have at least
// eight more behind them, so that they may be read as words.
func (a *arena) bytes(n int) []uint8 {
	words := a.b8.take(n/8 + 2)
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)[:n]
}

// words8 returns bytes of an arena as words, the last of which may reach beyond.
func words8(b []uint8) []uint64 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), (len(b)+7)/8)
}

func (a *arena) halves(n int) []uint16 { return a.b16.take(n) }
func (a *arena) ints(n int) []uint32   { return a.b32.take(n) }
func (a *arena) words(n int) []uint64  { return a.b64.take(n) }

// reset takes everything back and accounts for what the arena holds now.
func (a *arena) reset() error {
	grown := 8*a.b8.reset() + 2*a.b16.reset() + 4*a.b32.reset() + 8*a.b64.reset()
	return a.held.take(int64(grown))
}

// A mark is a place in an arena to go back to.
type mark [4]int

func (a *arena) mark() mark { return mark{a.b8.used, a.b16.used, a.b32.used, a.b64.used} }

// release takes back what was given since the mark.
func (a *arena) release(m mark) {
	a.b8.used, a.b16.used, a.b32.used, a.b64.used = m[0], m[1], m[2], m[3]
}
