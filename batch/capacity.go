package batch

// A capacity counts what open and waiting chunks take of the limits of a queue, whose lock
// guards it.
type capacity struct {
	maxEvents, events int
	maxBytes, bytes   int64
	made              chan struct{} // closed when room is made; nil if no producer waits
}

// take reserves room, unless that would exceed a limit.
func (r *capacity) take(events int, bytes int64) bool {
	if r.events+events > r.maxEvents || r.bytes+bytes > r.maxBytes {
		return false
	}
	r.events += events
	r.bytes += bytes
	return true
}

// give gives room back, and wakes the producers that wait.
func (r *capacity) give(events int, bytes int64) {
	r.events -= events
	r.bytes -= bytes
	if r.made != nil {
		close(r.made)
		r.made = nil
	}
}

// await returns a channel that the next give closes. first reports that no other
// producer waits.
func (r *capacity) await() (made <-chan struct{}, first bool) {
	if first = r.made == nil; first {
		r.made = make(chan struct{})
	}
	return r.made, first
}

// wanted reports whether a producer waits.
func (r *capacity) wanted() bool { return r.made != nil }
