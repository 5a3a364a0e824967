package batch

import (
	"slices"
	"time"
)

// A lane is a queue with a limit of batches that are sent concurrently.
type lane struct {
	id  int
	max int

	// Guarded by the lock of the queue.
	opened  []*chunk // open chunks of the shards
	queue   deque    // sealed chunks
	memory  deque    // the chunks of queue that are in memory
	events  int      // in queue
	size    int64    // bytes in queue
	sending int      // batches on the way, and not aside
	aside   int      // batches that wait for an attempt and let others go first
	seq     uint64   // of the next batch
	through uint64   // chunks up to this order are sent without waiting for full batches
	paused  int      // batches on the way that wait for Resume
	halted  bool     // sends nothing more, because an event is missing and Close has begun
}

func (l *lane) idleLocked() bool { return len(l.opened) == 0 && len(l.queue) == 0 }

func (l *lane) pushLocked(c *chunk) {
	c.queued = true
	l.queue = append(l.queue, c)
	if c.arena != nil {
		l.memory = append(l.memory, c)
	}
	l.events += c.n
	l.size += c.size
}

func (l *lane) popLocked() *chunk {
	c := l.queue.pop()
	if c.arena != nil {
		l.memory.pop() // it is the first of them too
	}
	l.leftLocked(c)
	return c
}

// leftLocked counts a chunk that was taken out of the queue.
func (l *lane) leftLocked(c *chunk) {
	c.queued = false
	l.events -= c.n
	l.size -= c.size
}

// removeLocked removes the first chunk in memory. Chunks of an earlier run, which are
// on disk only, may precede it in the queue.
func (l *lane) removeLocked(c *chunk) {
	if c == l.queue.front() {
		l.popLocked()
		return
	}
	l.queue.remove(c)
	l.memory.pop()
	l.leftLocked(c)
}

// oldestLocked returns when the oldest waiting event of the lane was added.
func (l *lane) oldestLocked() (first time.Time, ok bool) {
	if c := l.queue.front(); c != nil {
		first, ok = c.first, true
	}
	for _, c := range l.opened {
		if !ok || c.first.Before(first) {
			first, ok = c.first, true
		}
	}
	return first, ok
}

// A deque is a queue of chunks, the oldest first.
type deque []*chunk

// front returns the oldest chunk, or nil.
func (q deque) front() *chunk {
	if len(q) == 0 {
		return nil
	}
	return q[0]
}

func (q *deque) pop() *chunk {
	c := (*q)[0]
	(*q)[0] = nil
	*q = (*q)[1:]
	return c
}

// remove removes a chunk, which should be near the end.
func (q *deque) remove(c *chunk) {
	for i, x := range slices.Backward(*q) {
		if x == c {
			*q = slices.Delete(*q, i, i+1)
			return
		}
	}
}
