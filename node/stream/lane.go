package stream

// A lane is one sequence of a source. Its ring has a slot for each message from the
// oldest that is not settled on, ordered by offset. The consumer guards it.
type lane struct {
	number int32
	queue  keyQueue             // of its messages, if they wait for each other
	keys   map[string]*keyQueue // of its messages, by their record's key
	ring   ring

	mark   Mark
	marked bool // mark has been set
	dirty  bool // mark is not committed
	held   int  // messages that are not settled

	released bool // another reader has it
}

// A slot is a message that is held, settled, or (neither) given back.
type slot struct {
	offset  int64
	token   any
	message *message
	settled bool
}

// A ring is a queue of slots that grows and shrinks.
type ring struct {
	buf     []slot // of a length that is a power of two
	head, n int
	spared  int     // slots that were popped while most of buf was empty
	spare   *[]slot // a buffer that the rings of a source have for the next that grows; may be nil
}

// leastRing is how many slots a ring has, and spareRing how many it keeps while a source waits
// for a moment: a file source with the default of messages in flight made 100 bytes of slots a
// message when it kept fewer.
const leastRing, spareRing = 16, 512

// largestSpare is the largest buffer that is used again, in slots: 2.5 MiB.
const largestSpare = 64 << 10

func (r *ring) at(i int) *slot { return &r.buf[(r.head+i)&(len(r.buf)-1)] }

// push adds a slot at the end.
func (r *ring) push(s slot) {
	if r.n == len(r.buf) {
		r.resize(max(leastRing, 2*len(r.buf)))
	}
	r.n++
	*r.at(r.n - 1) = s
}

// insert adds a slot before the one at i.
func (r *ring) insert(i int, s slot) {
	r.push(s)
	for j := r.n - 1; j > i; j-- {
		*r.at(j) = *r.at(j - 1)
	}
	*r.at(i) = s
}

// pop removes the first slot.
func (r *ring) pop() slot {
	first := *r.at(0)
	*r.at(0) = slot{}
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	if r.n >= len(r.buf)/8 {
		r.spared = 0
	} else if r.spared++; len(r.buf) > spareRing || len(r.buf) > 4*leastRing && r.spared > 4*len(r.buf) {
		r.resize(len(r.buf) / 4)
	}
	return first
}

// keep removes the slots that f refuses.
func (r *ring) keep(f func(*slot) bool) {
	kept := 0
	for i := range r.n {
		if f(r.at(i)) {
			*r.at(kept) = *r.at(i)
			kept++
		}
	}
	for i := kept; i < r.n; i++ {
		*r.at(i) = slot{}
	}
	r.n = kept
}

// resize moves the slots into a buffer with room for n. Where a sink answers for many messages
// together, a ring grows and shrinks with each of its batches, so a large buffer is used again.
func (r *ring) resize(n int) {
	var buf []slot
	if r.spare != nil && len(*r.spare) >= n && n > len(r.buf) {
		buf, *r.spare = *r.spare, nil
	} else {
		buf = make([]slot, n)
	}
	for i := range r.n {
		buf[i] = *r.at(i)
	}
	if r.spare != nil && len(r.buf) > max(n, spareRing, len(*r.spare)) && len(r.buf) <= largestSpare {
		clear(r.buf)
		*r.spare = r.buf
	}
	r.buf, r.head, r.spared = buf, 0, 0
}

// find returns where the offset is, or would be.
func (r *ring) find(offset int64) (i int, found bool) {
	low, high := 0, r.n
	for low < high {
		middle := int(uint(low+high) >> 1)
		if r.at(middle).offset < offset {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < r.n && r.at(low).offset == offset
}

// An arrival says what a message is that has been read.
type arrival uint8

const (
	arrivalNew     arrival = iota
	arrivalHeld            // of a message that is held: this one settles it
	arrivalSettled         // of a message that is settled
)

// add takes a message in, unless the lane has it. numbered says that offsets identify
// messages.
func (l *lane) add(m *message, numbered bool) arrival {
	if last := l.ring.n - 1; !numbered || (last < 0 || m.Offset > l.ring.at(last).offset) && (!l.marked || m.Offset > l.mark.Offset) {
		l.ring.push(slot{offset: m.Offset, token: m.Token, message: m})
		return arrivalNew
	}
	if l.marked && m.Offset <= l.mark.Offset {
		return arrivalSettled
	}
	i, found := l.ring.find(m.Offset)
	if !found {
		l.ring.insert(i, slot{offset: m.Offset, token: m.Token, message: m})
		return arrivalNew
	}
	s := l.ring.at(i)
	s.token = m.Token
	switch {
	case s.settled:
		return arrivalSettled
	case s.message != nil:
		s.message.receipt = &m.Message
		return arrivalHeld
	}
	s.message = m
	return arrivalNew
}

// leave says that a message is settled, or else given back. A lane with positions keeps
// a slot until all before it are settled; another one needs only what is held. It
// reports whether the mark has moved.
func (l *lane) leave(m *message, settled, numbered, positions bool) (moved bool) {
	i := 0
	if numbered && l.ring.n > 0 && l.ring.at(0).message != m {
		i, _ = l.ring.find(m.Offset)
	}
	for i < l.ring.n && l.ring.at(i).message != m { // without numbers, in order of arrival
		i++
	}
	if i == l.ring.n {
		return false
	}
	s := l.ring.at(i)
	s.message, s.settled = nil, settled
	if !positions {
		for l.ring.n > 0 && l.ring.at(0).message == nil {
			l.ring.pop()
		}
		if l.ring.n > 2*l.held+leastRing {
			l.ring.keep(func(s *slot) bool { return s.message != nil })
		}
		return false
	}
	for l.ring.n > 0 && l.ring.at(0).settled {
		first := l.ring.pop()
		l.mark, l.marked, moved = Mark{l.number, first.offset, first.token}, true, true
	}
	return moved
}
