package stream

// A line is the messages that wait for each other: messages of one key or lane, or all. A
// loose line is for messages without order.
//
// A message that a sink has in its queue need not be waited for: it has its place. If it
// fails nevertheless, the line waits until all that are queued have ended. Those that have
// failed go on one after the other, and then the line.
type line struct {
	key        string
	keys       map[string]*line // that have this one by its key; nil without one
	loose      bool
	listed     bool    // among the lines that may go on
	out        int     // messages that were taken, and neither queued nor let go
	queued     int     // messages in the queue of a sink
	failed     []*task // while others were under way
	n          int
	bytes      int64
	head, tail *message
	next       *line // among the lines that may go on, or of the spare ones
}

// may reports whether the next message of the line may begin.
func (l *line) may() bool { return l.loose || l.out == 0 && len(l.failed) == 0 }

// An order keeps the messages that have not begun, and says which may. A line that has
// a message out waits until that is let go. Lines take turns. The session guards it.
type order struct {
	first, last *line            // that may go on
	n           int              // messages of these lines
	bytes       int64            // of these
	keys        map[string]*line // by an expression
	spare       *line
	spares      int
}

// maxSpare is how many lines of keys are kept for others.
const maxSpare = 1024

// keyed returns the line of a key, in what has the lines of all keys like it.
func (o *order) keyed(keys *map[string]*line, key string) *line {
	if l := (*keys)[key]; l != nil {
		return l
	}
	if *keys == nil {
		*keys = make(map[string]*line)
	}
	l := o.spare
	if l != nil {
		o.spare, l.next = l.next, nil
		o.spares--
	} else {
		l = new(line)
	}
	l.key, l.keys = key, *keys
	l.keys[key] = l
	return l
}

// push puts a message at the end of a line.
func (o *order) push(l *line, m *message) {
	m.line = l
	if l.tail == nil {
		l.head = m
	} else {
		l.tail.next = m
	}
	l.tail = m
	l.n++
	l.bytes += m.size
	switch {
	case l.listed:
		o.n++
		o.bytes += m.size
	case l.may():
		o.list(l)
	}
}

// list lets a line go on that has messages.
func (o *order) list(l *line) {
	l.listed = true
	o.n += l.n
	o.bytes += l.bytes
	if o.last == nil {
		o.first = l
	} else {
		o.last.next = l
	}
	o.last = l
}

// unlist takes the first line away.
func (o *order) unlist() {
	l := o.first
	o.first, l.next = l.next, nil
	if o.first == nil {
		o.last = nil
	}
	l.listed = false
	o.n -= l.n
	o.bytes -= l.bytes
}

// pop takes the first message of the first line. It leaves those out that are gone.
func (o *order) pop(l *line) *message {
	for l.head != nil {
		m := l.head
		l.head, m.next = m.next, nil
		if l.head == nil {
			l.tail = nil
		}
		l.n--
		l.bytes -= m.size
		o.n--
		o.bytes -= m.size
		if m.state != stateGone {
			l.out++
			return m
		}
	}
	return nil
}

// take takes at most count messages and, except for the first, at most so many bytes.
// All that it takes of a line belongs together: the next ones wait until it is let go.
func (o *order) take(into []*message, count int, bytes int64) []*message {
	for o.first != nil && count > 0 {
		l := o.first
		for count > 0 && l.head != nil {
			if len(into) > 0 && l.head.size > bytes {
				count = 0
				break
			}
			m := o.pop(l)
			if m == nil {
				break
			}
			into = append(into, m)
			bytes -= m.size
			count--
		}
		if l.head == nil || !l.may() {
			o.unlist()
			o.rest(l)
		}
	}
	return into
}

// queue notes that a sink has a message in its queue.
func (o *order) queue(m *message) {
	l := m.line
	m.passage = passageQueued
	l.out--
	l.queued++
	if !l.listed && l.n > 0 && l.may() {
		o.list(l)
	}
}

// answered notes that the process has ended of a message that may have been queued. It is
// not let go.
func (o *order) answered(m *message) {
	if m.passage == passageQueued {
		m.line.queued--
		m.line.out++
	}
	m.passage = passageAnswered
}

// release lets go of a message that was taken.
func (o *order) release(m *message) {
	l := m.line
	if l == nil {
		return
	}
	m.line = nil
	l.out--
	if l.listed || !l.may() {
		return
	}
	if l.n > 0 {
		o.list(l)
	} else {
		o.rest(l)
	}
}

// rest keeps nothing of a key without messages.
func (o *order) rest(l *line) {
	if l.keys == nil || l.out+l.queued > 0 || l.n > 0 || l.listed {
		return
	}
	delete(l.keys, l.key)
	*l = line{}
	if o.spares < maxSpare {
		l.next, o.spare = o.spare, l
		o.spares++
	}
}
