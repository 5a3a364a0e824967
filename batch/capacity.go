package batch

// A capacity counts what open and waiting chunks take of the limits of a queue, whose lock
// guards it.
type capacity struct {
	maxEvents, events int
	maxBytes, bytes   int64
	made              chan struct{} // closed when room is made; nil if no producer waits
}

// take reserves room, unless that would exceed a limit.
func (c *capacity) take(events int, bytes int64) bool {
	if c.events+events > c.maxEvents || c.bytes+bytes > c.maxBytes {
		return false
	}
	c.events += events
	c.bytes += bytes
	return true
}

// give gives room back, and wakes the producers that wait.
func (c *capacity) give(events int, bytes int64) {
	c.events -= events
	c.bytes -= bytes
	if c.made != nil {
		close(c.made)
		c.made = nil
	}
}

// await returns a channel that the next give closes. first reports that no other
// producer waits.
func (c *capacity) await() (made <-chan struct{}, first bool) {
	if first = c.made == nil; first {
		c.made = make(chan struct{})
	}
	return c.made, first
}

// wanted reports whether a producer waits.
func (c *capacity) wanted() bool { return c.made != nil }
