package stream

// A keyQueue is the messages that wait for each other: messages of one key or lane, or all. A
// loose one is for messages without order.
//
// A message that a sink has in its queue need not be waited for: it has its place. If it
// fails nevertheless, the keyQueue waits until all that are queued have ended. Those that have
// failed go on one after the other, and then the others.
type keyQueue struct {
	key        string
	keys       map[string]*keyQueue // that have this one by its key; nil without one
	loose      bool
	listed     bool    // among the queues that may go on
	out        int     // messages that were taken, and neither queued nor let go
	queued     int     // messages in the queue of a sink
	failed     []*task // while others were under way
	n          int
	bytes      int64
	head, tail *message
}

// may reports whether the next message of the queue may begin.
func (q *keyQueue) may() bool { return q.loose || q.out == 0 && len(q.failed) == 0 }

// An order keeps the messages that have not begun, and says which may. A queue that has
// a message out waits until that is let go. Queues take turns. The consumer guards it.
type order struct {
	all   keyQueue             // of messages that do not wait for their lane or key
	next  fifo[*keyQueue]      // that may go on
	n     int                  // messages of these queues
	bytes int64                // of these
	keys  map[string]*keyQueue // by an expression
	spare []*keyQueue
}

// maxSpare is how many queues of keys are kept for others.
const maxSpare = 1024

// keyed returns the queue of a key, in what has the queues of all keys like it.
func (o *order) keyed(keys *map[string]*keyQueue, key string) *keyQueue {
	if q := (*keys)[key]; q != nil {
		return q
	}
	if *keys == nil {
		*keys = make(map[string]*keyQueue)
	}
	var q *keyQueue
	if last := len(o.spare) - 1; last >= 0 {
		q, o.spare = o.spare[last], o.spare[:last]
	} else {
		q = new(keyQueue)
	}
	q.key, q.keys = key, *keys
	q.keys[key] = q
	return q
}

// push puts a message at the end of a queue.
func (o *order) push(q *keyQueue, m *message) {
	m.queue = q
	if q.tail == nil {
		q.head = m
	} else {
		q.tail.next = m
	}
	q.tail = m
	o.grew(q, m)
}

// grew counts a message that a queue has now.
func (o *order) grew(q *keyQueue, m *message) {
	q.n++
	q.bytes += m.size
	switch {
	case q.listed:
		o.n++
		o.bytes += m.size
	case q.may():
		o.list(q)
	}
}

// list lets a queue go on that has messages.
func (o *order) list(q *keyQueue) {
	q.listed = true
	o.n += q.n
	o.bytes += q.bytes
	o.next.push(q)
}

// unlist takes the first queue away.
func (o *order) unlist() {
	q := o.next.pop()
	q.listed = false
	o.n -= q.n
	o.bytes -= q.bytes
}

// pop takes the first message of the first queue. It leaves those out that are gone.
func (o *order) pop(q *keyQueue) *message {
	for q.head != nil {
		m := q.head
		q.head, m.next = m.next, nil
		if q.head == nil {
			q.tail = nil
		}
		q.n--
		q.bytes -= m.size
		o.n--
		o.bytes -= m.size
		if m.state != stateGone {
			q.out++
			return m
		}
	}
	return nil
}

// take takes at most count messages and, except for the first, at most so many bytes.
// All that it takes of a queue belongs together: the next ones wait until it is let go.
func (o *order) take(into []*message, count int, bytes int64) []*message {
	for o.next.len() > 0 && count > 0 {
		q := *o.next.first()
		for count > 0 && q.head != nil {
			if len(into) > 0 && q.head.size > bytes {
				count = 0
				break
			}
			m := o.pop(q)
			if m == nil {
				break
			}
			into = append(into, m)
			bytes -= m.size
			count--
		}
		if q.head == nil || !q.may() {
			o.unlist()
			o.rest(q)
		}
	}
	return into
}

// first returns the first queue that may go on; nil if there is none.
func (o *order) first() *keyQueue {
	if o.next.len() == 0 {
		return nil
	}
	return *o.next.first()
}

// takeOf takes at most count messages of the first queue.
func (o *order) takeOf(q *keyQueue, into []*message, count int) []*message {
	for ; count > 0; count-- {
		m := o.pop(q)
		if m == nil {
			break
		}
		into = append(into, m)
	}
	if q.head == nil || !q.may() {
		o.unlist()
		o.rest(q)
	}
	return into
}

// putBack puts a message that was taken in front of its queue again.
func (o *order) putBack(m *message) {
	q := m.queue
	if m.next = q.head; m.next == nil {
		q.tail = m
	}
	q.head = m
	q.out--
	o.grew(q, m)
}

// handOff notes that a sink has a message in its queue.
func (o *order) handOff(m *message) {
	q := m.queue
	m.handoff = handoffQueued
	q.out--
	q.queued++
	if !q.listed && q.n > 0 && q.may() {
		o.list(q)
	}
}

// answered notes that the process has ended of a message that may have been queued. It is
// not let go.
func (o *order) answered(m *message) {
	if m.handoff == handoffQueued {
		m.queue.queued--
		m.queue.out++
	}
	m.handoff = handoffAnswered
}

// release lets go of a message that was taken.
func (o *order) release(m *message) {
	q := m.queue
	if q == nil {
		return
	}
	m.queue = nil
	q.out--
	if q.listed || !q.may() {
		return
	}
	if q.n > 0 {
		o.list(q)
	} else {
		o.rest(q)
	}
}

// rest keeps nothing of a key without messages.
func (o *order) rest(q *keyQueue) {
	if q.keys == nil || q.out+q.queued > 0 || q.n > 0 || q.listed {
		return
	}
	delete(q.keys, q.key)
	*q = keyQueue{}
	if len(o.spare) < maxSpare {
		o.spare = append(o.spare, q)
	}
}
