package stream

import (
	"errors"
	"fmt"
)

// mostReasons is how many dead letters the error of a job that fails wholly quotes.
const mostReasons = 3

// A deadRun counts the dead letters of a job since its last good message. Their positions are
// withheld until the next good message, or the end of the job. If the job fails, its next run
// reads them again. Of dead requeue they are not withheld: what has failed again is in a new
// file. The consumer guards it.
type deadRun struct {
	env     deadEnv
	max     int  // 0 sets none
	commits bool // of dead requeue

	n       int
	reasons []error // of the first
	aborted bool    // there were too many
}

// A deadEnv is what a run of dead letters needs of its consumer. All are called with the lock.
type deadEnv struct {
	mark  func() // what is settled now is committed in any case
	clear func() // takes mark back, as all is
	abort func(err error)
}

// withheld reports whether positions are not committed for now.
func (d *deadRun) withheld(closing bool) bool {
	return !d.commits && (d.aborted || d.max > 0 && d.n > 0 && !closing)
}

// before is called before a dead letter is settled.
func (d *deadRun) before() {
	if d.max > 0 && d.n == 0 {
		d.env.mark()
	}
}

// dead counts a dead letter.
func (d *deadRun) dead(err error) {
	if d.max == 0 || d.aborted {
		return
	}
	d.n++
	if len(d.reasons) < mostReasons {
		d.reasons = append(d.reasons, err)
	}
	if d.n >= d.max {
		d.env.abort(fmt.Errorf("%d messages in a row were dead letters, and none was good; the first failed with:\n%w", d.n, errors.Join(d.reasons...)))
	}
}

// good notes that a message was good.
func (d *deadRun) good() {
	if d.n > 0 && !d.aborted {
		d.n, d.reasons = 0, nil
		d.env.clear()
	}
}

// end notes that the job ends early.
func (d *deadRun) end() {
	if d.n == 0 && !d.aborted {
		d.env.mark()
	}
	d.aborted = true
}

// abort ends a job early: nothing more is read, and what has not begun is given back. The
// caller holds the lock.
func (c *consumer) abort(err error) {
	c.deadRun.end()
	c.mu.failure, c.mu.ended = err, true
	c.logLater(c.log.Error)("the source has ended early", "error", err)
	c.stopRead()
	c.giveBack((*message).queued, err)
	c.workers.wakeAll()
}
