package batch

import "slices"

// An unsettled list has the sealed chunks that are not settled, in the order of sealing,
// and the flushes that wait for them. The lock of the queue guards it.
type unsettled struct {
	order          uint64 // of the last sealed chunk
	oldest, newest *chunk
	flushes        []*flush
	foreign        int // chunks to settle before lanes other than the first continue
}

// A flush waits until all chunks up to an order are settled.
type flush struct {
	through uint64
	done    chan struct{}
	err     error // set before done is closed
}

// add appends a sealed chunk.
func (u *unsettled) add(c *chunk) {
	u.order++
	c.order, c.prev = u.order, u.newest
	if c.prev != nil {
		c.prev.next = c
	} else {
		u.oldest = c
	}
	u.newest = c
	if c.foreign {
		u.foreign++
	}
}

// remove removes a settled chunk, and ends the flushes that waited for it. It reports
// whether the lanes may continue that waited for foreign chunks.
func (u *unsettled) remove(c *chunk) (lanesContinue bool) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		u.oldest = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		u.newest = c.prev
	}
	c.prev, c.next = nil, nil
	u.flushes = slices.DeleteFunc(u.flushes, func(f *flush) bool {
		done := u.oldest == nil || u.oldest.order > f.through
		if done {
			close(f.done)
		}
		return done
	})
	if c.foreign {
		u.foreign--
	}
	return c.foreign && u.foreign == 0
}

// flush waits for all chunks of now.
func (u *unsettled) flush() *flush {
	f := &flush{through: u.order, done: make(chan struct{})}
	if u.oldest == nil {
		close(f.done)
	} else {
		u.flushes = append(u.flushes, f)
	}
	return f
}
