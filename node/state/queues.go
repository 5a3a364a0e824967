package state

// Queues let one at a time have a key: the first in the queue of the key, until it leaves. The
// zero Queues are empty. A lock of the owner guards them, and the places in them.
type Queues[K comparable, T any] struct {
	first map[K]*Place[K, T]
	n     int
	empty chan struct{} // closed when all have left; nil if no one waits for that
}

// A Place is one in a queue. Who makes it sets Key and Value before it joins.
type Place[K comparable, T any] struct {
	Key   K
	Value T
	next  *Place[K, T]
	prev  *Place[K, T] // of the first, the last one; nil if it is in no queue
}

// Next returns the one behind p, or nil.
func (p *Place[K, T]) Next() *Place[K, T] { return p.next }

// Join puts p at the end of the queue of its key, and reports whether it is the first.
func (q *Queues[K, T]) Join(p *Place[K, T]) (first bool) {
	q.n++
	head := q.first[p.Key]
	if head == nil {
		if q.first == nil {
			q.first = make(map[K]*Place[K, T])
		}
		p.prev = p
		q.first[p.Key] = p
		return true
	}
	p.prev = head.prev
	head.prev.next, head.prev = p, p
	return false
}

// Leave takes p out of its queue; if p was the first, it returns the next, which is that now,
// or nil. It does nothing to one that is in no queue.
func (q *Queues[K, T]) Leave(p *Place[K, T]) (next *Place[K, T]) {
	if p.prev == nil {
		return nil
	}
	q.n--
	next = p.next
	switch head := q.first[p.Key]; {
	case head != p:
		if p.prev.next = next; next != nil {
			next.prev = p.prev
		} else {
			head.prev = p.prev
		}
		next = nil
	case next != nil:
		next.prev = p.prev
		q.first[p.Key] = next
	default:
		delete(q.first, p.Key)
	}
	p.next, p.prev = nil, nil
	if q.n == 0 && q.empty != nil {
		close(q.empty)
		q.empty = nil
	}
	return next
}

// Empty returns a channel that is closed when all have left.
func (q *Queues[K, T]) Empty() <-chan struct{} {
	if q.n == 0 {
		empty := make(chan struct{})
		close(empty)
		return empty
	}
	if q.empty == nil {
		q.empty = make(chan struct{})
	}
	return q.empty
}

// First returns the first of a key, or nil.
func (q *Queues[K, T]) First(key K) *Place[K, T] { return q.first[key] }

// All returns all places, the places of one key in order.
func (q *Queues[K, T]) All() []*Place[K, T] {
	all := make([]*Place[K, T], 0, q.n)
	for _, p := range q.first {
		for ; p != nil; p = p.next {
			all = append(all, p)
		}
	}
	return all
}

// Count returns how many are in the queue of a key. It counts them one by one.
func (q *Queues[K, T]) Count(key K) (n int) {
	for p := q.first[key]; p != nil; p = p.next {
		n++
	}
	return n
}

// Keys returns how many keys have a queue.
func (q *Queues[K, T]) Keys() int { return len(q.first) }

// Len returns how many are in all queues.
func (q *Queues[K, T]) Len() int { return q.n }
