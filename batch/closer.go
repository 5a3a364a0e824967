package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"
)

// A Report counts the events of a closed processor by what happened to them.
type Report struct {
	Delivered    uint64
	Dropped      uint64 // by a full queue, Retry.MaxElapsed or Retry.Attempts, or unreadable on disk
	Refused      uint64
	DeadLettered uint64 // taken by Options.DeadLetter
	// Spooled events are in the spool, for the next processor.
	Spooled uint64
	// Undelivered events are neither delivered nor in the spool: Events returns
	// them. The receiver may have taken some of them in an attempt that was cut off.
	Undelivered int

	format Format
	parts  []part
}

// Events iterates over the undelivered events, the oldest first. The caller may
// keep the bytes.
func (r Report) Events() iter.Seq[[]byte] { return eventsOf(r.parts, r.format) }

// A closer ends a processor, once.
type closer struct {
	*settings
	env closeEnv

	once   sync.Once
	report Report
	err    error
}

// A closeEnv is what a closer needs of its pipeline. It calls each once, in this order.
type closeEnv struct {
	drain   func() (drained <-chan struct{}) // accepts no more events; the channel is closed when nothing is left to send
	stop    func()                           // ends sending
	join    func()                           // waits for the goroutines
	keep    func() (Report, error)           // writes the rest to the spool, and settles all events
	release func(ctx context.Context) error  // closes the spool, and waits for what uses memory or calls the user
}

func (c *closer) close(ctx context.Context) (Report, error) {
	c.once.Do(func() { c.report, c.err = c.end(ctx) })
	return c.report, c.err
}

func (c *closer) end(ctx context.Context) (Report, error) {
	drained := c.env.drain()
	stop, cancel := c.sendUntil(ctx)
	defer cancel()
	select {
	case <-drained:
	case <-stop.Done():
	}
	why := context.Cause(stop)
	c.env.stop()
	c.join(ctx)
	report, err := c.env.keep()
	err = errors.Join(err, c.env.release(ctx))
	if report.Undelivered > 0 {
		if why == nil {
			why = errGap
		}
		err = errors.Join(fmt.Errorf("batch: %d events are not delivered: %w", report.Undelivered, why), err)
	}
	return report, err
}

var errGap = errors.New("their lane has stopped because an event before them is missing")

// sendUntil returns the context for sending within Close. It leaves some of ctx's
// time for ending the requests and, with a spool, for writing.
func (c *closer) sendUntil(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	rest := time.Until(deadline)
	reserve := min(rest/20, 50*time.Millisecond)
	if c.disk != nil {
		reserve = min(rest/4, 2*time.Second)
	}
	return context.WithDeadline(ctx, deadline.Add(-reserve))
}

// join waits for the goroutines of the processor, but not much longer than ctx
// lasts: a SendFunc may ignore its context.
func (c *closer) join(ctx context.Context) {
	joined := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		c.env.join()
		close(joined)
	})
	select {
	case <-joined:
		return
	case <-ctx.Done():
	}
	grace := time.NewTimer(joinGrace)
	defer grace.Stop()
	select {
	case <-joined:
	case <-grace.C:
		c.log.write(slog.LevelError, "batch: Send has not returned though its context has ended; its events are returned by Close")
	}
}

// joinGrace is how long Close waits, after its context has ended, for goroutines
// whose contexts have ended.
const joinGrace = 10 * time.Millisecond
