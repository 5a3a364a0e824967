package run

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A patient context ends as the one of a starter does, but its deadline stands still while a debugger
// holds a process. Processes that are debugged start with one if there is a deadline, and so all that
// they call, wait for or spawn is under it: a context that was replaced later would have been given away.
type patient struct {
	base   context.Context
	values context.Context // of base, without its end
	outer  *patient        // of a process that waits for the answer to this one, or nil
	until  time.Time       // the deadline of base
	forget func() bool     // stops waiting for the end of base
	done   chan struct{}   // closed when err is set

	mu struct {
		sync.Mutex
		err    error
		holds  int
		since  time.Time // of the first of holds
		longer time.Duration
		timer  *time.Timer // after base has ended; nil before
	}
}

type patientKey struct{}

// bePatient makes the context of a process that is debugged a patient one. A child has its parent's.
func (p *process) bePatient() {
	until, ok := p.base.Deadline()
	if !ok {
		return
	}
	outer := patientOf(p.base)
	if outer != nil && p.origin == fromEngine {
		return
	}
	c := &patient{base: p.base, values: context.WithoutCancel(p.base), outer: outer, until: until, done: make(chan struct{})}
	c.forget = context.AfterFunc(c.base, c.check)
	p.stepping.patient = c
	p.begin(c)
}

// patientOf returns the patient context that a context derives from, or nil.
func patientOf(ctx context.Context) *patient {
	c, _ := ctx.Value(patientKey{}).(*patient)
	return c
}

// hold stops the time until the function that it returns is called.
func (c *patient) hold() (goOn func()) {
	for at := c; at != nil; at = at.outer {
		at.stop()
	}
	return sync.OnceFunc(func() { // a debugger may be wrong
		for at := c; at != nil; at = at.outer {
			at.start()
		}
	})
}

func (c *patient) stop() {
	c.check() // it may have ended
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.holds++; c.mu.holds > 1 {
		return
	}
	c.mu.since = time.Now()
	if c.mu.timer != nil {
		c.mu.timer.Stop()
	}
}

func (c *patient) start() {
	c.mu.Lock()
	if c.mu.holds--; c.mu.holds == 0 {
		c.mu.longer += time.Since(c.mu.since)
	}
	c.mu.Unlock()
	c.check()
}

// check ends the context if it is time to. The deadline of base ends base, and so nothing has to be
// timed before.
func (c *patient) check() {
	err := c.base.Err()
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if late := errors.Is(err, context.DeadlineExceeded); late && c.mu.err == nil {
		if c.mu.holds > 0 {
			return
		}
		if left := time.Until(c.until.Add(c.mu.longer)); left > 0 && c.mu.longer > 0 {
			c.setTimerLocked(left)
			return
		}
	}
	c.endLocked(err)
}

func (c *patient) setTimerLocked(left time.Duration) {
	if c.mu.timer == nil {
		c.mu.timer = time.AfterFunc(left, c.check)
		return
	}
	c.mu.timer.Reset(left)
}

func (c *patient) endLocked(err error) {
	if c.mu.err != nil {
		return
	}
	c.mu.err = err
	if c.mu.timer != nil {
		c.mu.timer.Stop()
	}
	close(c.done)
}

// end ends the context with its process.
func (c *patient) end() {
	c.forget()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(context.Canceled)
}

func (c *patient) Deadline() (deadline time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline = c.until.Add(c.mu.longer)
	if c.mu.holds > 0 {
		deadline = deadline.Add(time.Since(c.mu.since))
	}
	return deadline, true
}

func (c *patient) Done() <-chan struct{} { return c.done }

func (c *patient) Err() error {
	c.check() // the goroutine that does may not have run yet
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

func (c *patient) Value(key any) any {
	if key == (patientKey{}) {
		return c
	}
	select {
	case <-c.done:
		return c.base.Value(key) // so that context.Cause finds the cause of base, which has ended
	default:
		return c.values.Value(key)
	}
}
