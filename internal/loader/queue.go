package loader

// blockLen is how many elements a block of a queue has.
const blockLen = 4096

// A queue numbers its elements in the order they came. It takes and frees memory
// in blocks, without copying elements. The zero value is empty.
type queue[T any] struct {
	begin, end uint64 // the numbers of the oldest element and of the next one
	blocks     [][]T  // by number; the first block has the oldest element
}

func (q *queue[T]) len() int { return int(q.end - q.begin) }

// at returns the element of a number that is in the queue.
func (q *queue[T]) at(n uint64) *T { return &q.blocks[n/blockLen-q.begin/blockLen][n%blockLen] }

// push adds an element, and returns its number.
func (q *queue[T]) push(v T) uint64 {
	n := q.end
	if n/blockLen-q.begin/blockLen == uint64(len(q.blocks)) {
		q.blocks = append(q.blocks, make([]T, blockLen))
	}
	q.end++
	*q.at(n) = v
	return n
}

// pop removes the oldest element.
func (q *queue[T]) pop() {
	if q.begin++; q.begin%blockLen == 0 {
		q.blocks[0] = nil
		q.blocks = q.blocks[1:]
	}
}
