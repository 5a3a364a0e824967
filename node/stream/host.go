package stream

import "context"

// A host is what a reader sees of its consumer.
type host struct{ consumer *consumer }

// Release implements [Host].
func (h host) Release(ctx context.Context, numbers []int32) []Mark {
	c := h.consumer
	c.mu.Lock()
	defer c.mu.Unlock()
	lanes := make(map[*lane]bool, len(numbers))
	for _, number := range numbers {
		if l := c.inFlight.lanes[number]; l != nil {
			lanes[l] = true
		}
	}
	meant := func(m *message) bool { return lanes[m.lane] }
	c.forget(meant)
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.room.Broadcast()
	})()
	held := func() bool {
		for l := range lanes {
			if l.held > 0 {
				return true
			}
		}
		return false
	}
	c.mu.watchers++
	defer func() { c.mu.watchers-- }()
	for held() && ctx.Err() == nil {
		c.room.Wait()
		c.forget(meant) // those whose attempt has failed
	}
	for m := range c.inFlight.all() {
		if meant(m) {
			c.letGo(m)
		}
	}
	marks := c.inFlight.forget(lanes)
	if c.keeper != nil {
		c.committer.release(marks)
	} else {
		c.committer.release(nil)
	}
	c.tidy()
	return marks
}

// Settled implements [Host].
func (h host) Settled(ctx context.Context) bool {
	c := h.consumer
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.room.Broadcast()
	})()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.watchers++
	defer func() { c.mu.watchers-- }()
	for c.inFlight.n > 0 && !c.mu.draining && !c.mu.expired && ctx.Err() == nil {
		c.room.Wait()
	}
	return c.inFlight.n == 0 && !c.mu.draining && !c.mu.expired && ctx.Err() == nil
}

// InFlight implements [Host].
func (h host) InFlight(f func(m *Message)) {
	c := h.consumer
	c.mu.Lock()
	defer c.mu.Unlock()
	for m := range c.inFlight.all() {
		f(m.receipt)
	}
}
