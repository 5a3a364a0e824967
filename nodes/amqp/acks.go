package amqp

import "slices"

// acks finds what a channel may acknowledge with one frame: the deliveries up to one of which
// all are settled. The goroutine that settles owns it.
type acks struct {
	link  *link
	next  uint64          // the lowest tag that is not settled
	above map[uint64]bool // those above it that are
	tags  []uint64        // of one call
}

// of begins with the tags of another connection.
func (a *acks) of(l *link) {
	if a.link != l {
		a.link, a.next, a.above = l, 1, make(map[uint64]bool)
	}
}

// settle notes that a delivery is settled.
func (a *acks) settle(tag uint64) {
	if a.above[tag] = true; tag != a.next {
		return
	}
	for a.above[a.next] {
		delete(a.above, a.next)
		a.next++
	}
}

// split settles tags, and returns the one up to which all are settled (0 without one of them), and
// those that have to be acknowledged by themselves.
func (a *acks) split() (upTo uint64, single []uint64) {
	slices.Sort(a.tags)
	for _, tag := range a.tags {
		a.settle(tag)
	}
	n, _ := slices.BinarySearch(a.tags, a.next)
	if n > 0 {
		upTo = a.tags[n-1]
	}
	return upTo, a.tags[n:]
}
