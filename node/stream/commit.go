package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A committer reports to the system what is settled: outcomes of messages as soon as they are
// there, and positions after an interval, or after as many messages as call for a commit. One
// goroutine runs it; the lock of the consumer guards the rest.
type committer struct {
	env      commitEnv
	traits   Traits
	limit    int // messages in flight
	interval time.Duration
	ctx      context.Context // of calls of Settle
	log      *slog.Logger
	after    func(time.Duration, func(context.Context)) (stop func() bool)

	mu        *sync.Mutex
	wake      sync.Cond
	connected bool // Settle may be called
	calling   bool // Settle is being called
	closing   bool // what is there is reported, and then it ends

	outcomes   []Outcome
	reporting  int     // messages that a call of Settle has, by outcomes or marks
	unsettled  int     // messages settled since the last commit
	dirty      []*lane // whose mark is not committed
	committing []*lane // whose mark a call of Settle has
	safe       []Mark  // to be committed even if positions are withheld
	left       []Mark  // of lanes that were released, for the file of positions
	due        bool    // for a commit
	armed      bool    // there is a timer for that
}

// A commitEnv is what a committer needs of its consumer. All but settle and keep are called with the
// lock.
type commitEnv struct {
	settle   func(ctx context.Context, s Settled) error // Settle of the reader
	keep     func(marks []Mark) error                   // writes the file of positions
	withheld func() bool                                // whether positions are not committed for now
	reported func()                                     // a call of settle has ended
	lost     func(err error)                            // the connection is lost
	unkept   func(err error)                            // the last positions are given up
}

// commitAfter is how many settled messages call for a commit of positions, at least. At
// twice as many as call for one, reading waits. So others are settled during a commit:
// with a file on a disk that syncs in 5 ms, a limit of as many cost 40 %.
const commitAfter = 1000

// enough returns how many settled messages call for a commit of positions. After a crash,
// those come again and what was in flight: a commit for fewer than that would cost a file
// with its name on the disk, and save little.
func (c *committer) enough() int { return max(commitAfter, c.limit) }

// reports reports whether the reader gets the outcome of each message. One that only keeps
// positions gets marks.
func (c *committer) reports() bool { return !c.traits.Positions || c.traits.Redelivers }

// settled notes the end of a message; moved says that the mark of its lane has changed.
func (c *committer) settled(l *lane, moved bool, o Outcome) {
	if moved {
		c.markDirty(l)
	}
	if c.reports() {
		c.outcomes = append(c.outcomes, o)
	}
	c.unsettled++
	c.soon()
}

func (c *committer) markDirty(l *lane) {
	if !l.dirty {
		l.dirty = true
		c.dirty = append(c.dirty, l)
	}
}

// repeat acknowledges a message again that is settled.
func (c *committer) repeat(m *Message) {
	if c.reports() {
		c.outcomes = append(c.outcomes, Outcome{Message: m})
		c.soon()
	}
}

// release forgets the lanes that were released. left are their marks for the file of positions.
func (c *committer) release(left []Mark) {
	kept := c.dirty[:0]
	for _, l := range c.dirty {
		if !l.released {
			kept = append(kept, l)
		}
	}
	c.dirty = kept
	if len(left) > 0 {
		c.left = append(c.left, left...)
		c.due = true
		c.wake.Signal()
	}
}

// markSafe keeps the marks as they are now: those are committed even while positions are
// withheld. clearSafe takes that back.
func (c *committer) markSafe() {
	for _, l := range c.dirty {
		c.safe = append(c.safe, l.mark)
	}
}

func (c *committer) clearSafe() { c.safe = nil }

// soon makes the system know of what is settled.
func (c *committer) soon() {
	if c.reports() || c.unsettled >= c.enough() {
		c.wake.Signal()
	}
	if c.traits.Positions && !c.armed {
		c.armed = true
		c.after(c.interval, func(context.Context) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.armed, c.due = false, true
			c.wake.Signal()
		})
	}
}

// taken returns how many messages the system counts as not settled although they are.
func (c *committer) taken() int {
	if c.traits.Positions {
		return 0 // it counts nothing
	}
	return len(c.outcomes) + c.reporting
}

// backlog reports whether too much waits to be reported.
func (c *committer) backlog() bool {
	settled := c.unsettled
	if c.reports() {
		settled = len(c.outcomes)
	}
	return settled+c.reporting >= 2*c.enough()
}

// connect says that there is a connection.
func (c *committer) connect() {
	c.connected = true
	c.wake.Signal()
}

// close makes the committer report what is left, and end.
func (c *committer) close() {
	c.closing = true
	c.wake.Signal()
}

// longestSettle is how long one call of Settle may take. After that the connection
// counts as lost, or a system that is silent would stop a source without a word.
const longestSettle = 30 * time.Second

// run reports what is settled, until the committer is closed.
func (c *committer) run() {
	ctx, end := context.WithCancel(c.ctx)
	defer func() { end() }()
	limit := time.AfterFunc(longestSettle, end)
	limit.Stop()
	var spare []Outcome
	for tries := 0; ; {
		s, left, ok := c.next(spare)
		if !ok {
			return
		}
		limit.Reset(longestSettle)
		err := c.env.settle(ctx, s)
		if !limit.Stop() {
			if err != nil {
				err = fmt.Errorf("%w: settling has taken more than %s: %w", ErrLost, longestSettle, err)
			}
			ctx, end = context.WithCancel(c.ctx)
			limit = time.AfterFunc(longestSettle, end)
			limit.Stop()
		}
		marks := append(left, s.Marks...) // a number may be used again
		if err == nil && len(marks) > 0 {
			err = c.env.keep(marks)
		}
		if closing := c.end(s, left, err); closing && err != nil && len(marks) > 0 {
			if tries++; !c.lastTry(tries, err) {
				return
			}
		}
		clear(s.Outcomes)
		spare = s.Outcomes[:0]
	}
}

// lastTries is how often the last positions are reported if that fails, with a pause of
// lastPause after the first time, and of twice as long after each other.
const (
	lastTries = 4
	lastPause = 50 * time.Millisecond
)

// lastTry waits until the last positions may be reported again. It returns false if they are
// given up: nothing comes after them that would replace them.
func (c *committer) lastTry(tries int, err error) bool {
	if tries < lastTries {
		timer := time.NewTimer(lastPause << (tries - 1))
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-c.ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env.unkept(err)
	return false
}

// next waits for something to settle. left are marks for the file of positions alone.
// It is not ok in the end.
func (c *committer) next(spare []Outcome) (s Settled, left []Mark, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.connected {
			if len(c.outcomes) > 0 {
				s.Outcomes, c.outcomes = c.outcomes, spare
				c.reporting = len(s.Outcomes)
			}
			if c.traits.Positions && (c.due || c.unsettled >= c.enough() || c.closing) {
				s.Marks, left = c.marks()
			}
		}
		if len(s.Outcomes)+len(s.Marks)+len(left) > 0 {
			c.calling = true
			return s, left, true
		}
		if c.reporting > 0 { // no mark has moved
			c.reporting = 0
			c.env.reported()
		}
		if c.closing {
			return s, nil, false
		}
		c.wake.Wait()
	}
}

// marks returns what is to be committed.
func (c *committer) marks() (marks, left []Mark) {
	if !c.env.withheld() {
		for _, l := range c.dirty {
			l.dirty = false
			marks = append(marks, l.mark)
		}
		clear(c.committing)
		c.dirty, c.committing = c.committing[:0], c.dirty
		left, c.left = c.left, nil
		c.reporting = max(c.reporting, c.unsettled)
	} else if marks, c.safe = c.safe, nil; len(marks) > 0 {
		c.committing = c.committing[:0]
		c.reporting = max(c.reporting, c.unsettled)
	}
	c.due, c.unsettled = false, 0
	return marks, left
}

// end notes how a call of Settle has ended, and reports whether the committer is closed.
func (c *committer) end(s Settled, left []Mark, err error) (closing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calling, c.reporting = false, 0
	c.env.reported()
	if err == nil {
		return c.closing
	}
	c.left = append(left, c.left...)
	if len(s.Marks) > 0 {
		for _, l := range c.committing {
			if !l.released {
				c.markDirty(l)
			}
		}
	}
	if len(s.Marks)+len(left) > 0 {
		c.soon()
	}
	switch {
	case errors.Is(err, ErrLost):
		c.connected = false
		c.env.lost(err)
	case c.ctx.Err() == nil:
		c.log.Error("settling messages: they may come again", "messages", len(s.Outcomes), "error", err)
	}
	return c.closing
}
