package stream

import (
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// A Taker is a [Writer] that can take a record on the goroutine of its process, so that it
// is neither copied nor passed to another goroutine.
type Taker interface {
	// Take begins to write a record as Write does, if it can without waiting. It calls
	// done with i when Write would. If it returns false, nothing has happened, and Write
	// gets the record; an error fails it, and done is not called. The texts of r are
	// the caller's again when Take returns. Any goroutine calls it, concurrently with Write, too;
	// the records of one process keep their order.
	Take(r Record, i int, done func(i int, receipt value.Value, err error)) (taken bool, err error)
}

// takesLocked reports whether the writer may take a record before Write is called again.
func (o *outlet) takesLocked() bool {
	return o.taker != nil && o.mu.connected && !o.mu.closing && o.mu.writing == 0 && o.mu.queue.waiting() == 0 &&
		o.mu.inFlight < o.most
}

// take gives the record of a delivery to the writer, which counts as in flight. If the
// writer does not take it, it is queued.
func (o *outlet) take(d *delivery) {
	turn, taken, r := d.turn, false, d.one[0]
	d.one[0], d.bare = Record{}, true // while it is in the cache; when Take returns, d may be another delivery
	err := guard(o.log, "Take", func() (err error) {
		taken, err = o.taker.Take(r, turn, d.taken)
		return err
	})
	switch {
	case err != nil:
		d.taken(turn, value.Null(), err)
	case !taken:
		o.mu.Lock()
		defer o.mu.Unlock()
		if d.one[0], d.bare = r, false; d.open {
			o.mu.inFlight--
			d.inFlight = 0
			o.queueLocked(d, time.Time{})
		}
	}
}

// confirmed is what the writer calls for a record that it has taken. What it calls twice
// is ignored: turn distinguishes the uses of a delivery.
func (d *delivery) confirmed(turn int, receipt value.Value, err error) {
	o := d.outlet
	o.mu.Lock()
	if d.turn != turn {
		o.mu.Unlock()
		return
	}
	d.turn++
	if errors.Is(err, ErrLost) {
		o.lostLocked(d.epoch, err)
	}
	over := o.doneLocked(d, 0, 1, receipt, err)
	o.mu.Unlock()
	if over != nil {
		over.answer()
	}
}
