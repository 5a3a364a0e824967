package value

import "unsafe"

const (
	maxBlock   = 64 << 10 // bytes that a parser reserves at once, if it does not need more
	fieldBytes = int(unsafe.Sizeof(Field{}))
	indexSize  = 48 // of an entry of a map's index, about
)

// A budget is the memory that a parser may still take. It is reserved in blocks,
// so that a parser that has nobody to ask pays a subtraction for each
// allocation.
type budget struct {
	reserve func(bytes int) error
	left    int // reserved and not taken; the largest int where there is nobody to ask
	block   int // how much is reserved at once
	err     error

	elems, fields int // of what was taken, what the parser's own stacks have
}

// take is asked for bytes that are about to be allocated.
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
		return p.fail(p.pos, "too large") // errMsg only ends the reading: settle returns err
	}
	b.left += n
	return true
}

// replaced says that a stack, for which bytes were taken, has replaced another.
func (b *budget) replaced(stack *int, bytes int) {
	b.left += *stack
	*stack = bytes
}

// settle gives back what the value does not keep, if that is worth a call, and
// returns the error of a refused reservation.
func (b *budget) settle() error {
	if b.reserve == nil || b.err != nil {
		return b.err
	}
	if spare := b.left + b.elems + b.fields; spare > 4<<10 {
		return b.reserve(-spare)
	}
	return nil
}
