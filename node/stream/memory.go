package stream

// largeBody is from how many bytes on a decoded body counts apart from what was read of it:
// what is smaller is bounded by max_in_flight.
const largeBody = 16 << 10

// A decoded is a message whose body is large.
type decoded struct {
	message *message
	bytes   int64
}

// weigh counts the body of a message that the worker has decoded.
func (w *runner) weigh(m *message) {
	if n := int64(m.body.Size()); n >= largeBody && m.large == 0 {
		w.held.Hold(n)
		w.decoded = append(w.decoded, decoded{m, n})
	}
}

// weighed notes what is freed with each message. The caller holds the lock.
func (w *runner) weighed() {
	for _, d := range w.decoded {
		if d.message.state == stateGone || d.message.large > 0 {
			w.held.Free(d.bytes)
		} else {
			d.message.large = d.bytes
		}
	}
	clear(w.decoded)
	w.decoded = w.decoded[:0]
}

// countStep is how many bytes of messages may not be in the account.
const countStep = 64 << 10

// count brings the account up to date with what was read. The caller holds the lock.
func (s *session) count() {
	more := s.mu.bytes - s.mu.counted
	switch {
	case more >= countStep:
		s.held.Hold(more)
	case more <= -countStep, more < 0 && s.mu.inFlight == 0:
		s.held.Free(-more)
	default:
		return
	}
	s.mu.counted += more
}

// short reports whether the program has too little memory for more messages than those that
// are under way. One message of each source goes on in any case. The caller holds the lock.
func (s *session) short(underWay int) bool { return underWay > 0 && s.held.Full() }
