package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// end waits until what is held has been settled, as far as that may take.
func (c *consumer) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.mu.ended = true
		if !errors.Is(err, io.EOF) {
			c.mu.failure = err
			c.log.Error("reading ended", "error", err)
		}
	}
	c.workers.wakeAll()
	c.mu.watchers++
	for (c.inFlight.first != nil || c.mu.ended && c.inFlight.runs > 0 && !c.mu.draining) && !c.mu.expired {
		c.room.Wait()
	}
	if c.inFlight.first == nil {
		return
	}
	// The contexts of processes have ended: most answer immediately.
	timer := time.AfterFunc(lastAnswers, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.giveBack((*message).here, errGrace)
		c.room.Broadcast()
	})
	defer timer.Stop()
	for c.inFlight.first != nil {
		c.room.Wait()
	}
}

// lastAnswers is how long processes may take to answer once their context has ended,
// and lastCall the time for each of the last calls of a reader. A drain ends 200 ms
// after the grace at the latest.
const (
	lastAnswers = 60 * time.Millisecond
	lastCall    = 50 * time.Millisecond
	handOver    = 10 * time.Second // for the calls if there is time
	drainLimit  = 200 * time.Millisecond
)

var errGrace = errors.New("the grace of the shutdown is over")

// stop stops reading, and gives back what has not begun. A consumer that has not started
// is closed.
func (c *consumer) stop() {
	c.mu.Lock()
	if c.mu.draining {
		c.mu.Unlock()
		return
	}
	c.mu.draining = true
	c.stopRead()
	started := c.mu.started
	c.mu.started = true
	if c.returns() {
		c.giveBack((*message).queued, nil)
	}
	c.workers.wakeAll()
	c.room.Broadcast()
	c.mu.Unlock()
	if !started {
		c.close()
		close(c.closed)
	}
}

// returns reports whether what is given back comes again.
func (c *consumer) returns() bool { return c.source.Traits.Redelivers || c.source.Traits.Positions }

// expire ends the processes: the grace is over.
func (c *consumer) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.expired {
		return
	}
	c.mu.expired, c.settler.closing = true, true
	time.AfterFunc(lastAnswers+lastCall, c.stopWrite)
	c.stopRun()
	c.giveBack((*message).queued, nil)
	c.workers.wakeAll()
	c.room.Broadcast()
}

// drain stops, and returns when all is settled and the reader is closed, or soon after
// ctx has ended.
func (c *consumer) drain(ctx context.Context) error {
	c.stop()
	select {
	case <-c.closed:
		return nil
	case <-ctx.Done():
	}
	c.expire()
	timer := time.NewTimer(drainLimit)
	defer timer.Stop()
	select {
	case <-c.closed:
		return c.lostMessages()
	case <-timer.C:
		return errors.New("the reader does not close although its context is done: it is abandoned")
	}
}

// lostMessages returns an error if messages were given up that do not come again.
func (c *consumer) lostMessages() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.lostAtEnd == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d messages are lost that were read", errGrace, c.mu.lostAtEnd)
}

// close closes the reader, and ends the node of a source that has ended.
func (c *consumer) close() {
	c.mu.Lock()
	expired, ended := c.mu.expired, c.mu.ended
	c.committer.connected = false
	c.mu.Unlock()
	limit := handOver
	if expired {
		limit = lastCall
	}
	if c.connection.connected() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := c.guard("Close", func() error { return c.reader.Close(ctx) }); err != nil {
			c.log.Warn("closing the reader", "error", err)
		}
	}
	c.stopRead()
	c.stopWrite()
	c.account.Close()
	if g := c.generations.Current(); g != nil && ended {
		g.node.finish()
	}
}
