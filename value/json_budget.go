package value

import "unsafe"

const (
	maxBlock   = 64 << 10 // bytes that a parser reserves at a time, unless it needs more
	fieldBytes = int(unsafe.Sizeof(Field{}))
	indexSize  = 48 // of an entry of a map's index, approximately
)

// A budget is the memory that a parser may still take. It is reserved in blocks, so
// that an allocation costs a subtraction, also if there is no limit.
type budget struct {
	reserve func(bytes int) error
	left    int // reserved and not taken; the largest int without a reserve function
	block   int // how much is reserved at a time
	err     error

	elems, fields int // the part of what was taken that the parser's own stacks have
}

// take reserves bytes that are about to be allocated.
func (p *parser) take(bytes int) bool {
	if p.budget.left -= bytes; p.budget.left >= 0 {
		return true
	}
	return p.takeMore()
}

func (p *parser) takeMore() bool {
	b := &p.budget
	n := max(-b.left, b.block)
	if err := b.reserve(n); err != nil {
		b.err = err
		b.left = 0
		return p.fail(p.pos, "too large") // errMsg only ends the reading: finish returns err
	}
	b.left += n
	return true
}

// replaced notes that a stack, for which bytes were taken, has replaced another.
func (b *budget) replaced(stack *int, bytes int) {
	b.left += *stack
	*stack = bytes
}

// finish releases what the value does not keep, if that is worth a call, and returns
// the error of a refused reservation.
func (b *budget) finish() error {
	if b.reserve == nil || b.err != nil {
		return b.err
	}
	if spare := b.left + b.elems + b.fields; spare > 4<<10 {
		return b.reserve(-spare)
	}
	return nil
}
