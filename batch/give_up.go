package batch

import (
	"log/slog"
	"slices"
	"strconv"
)

// A loss says why a batch or a piece of one is given up.
type loss struct {
	why Reason
	key string // of the batch in which it was sent
	err error
}

// markLost marks a batch to be given up.
func (b *Batch) markLost(why Reason, key string, err error) {
	b.loss = &loss{why, key, err}
}

// giveUpBatch gives up b, which is the next batch.
func (f *flight) giveUpBatch(b *Batch, why Reason, err error) bool {
	b.markLost(why, b.key, err)
	return f.giveUp()
}

// giveUp drops the next batches as long as they are marked as lost, and then stops a
// gapless lane. It reports false if Close ended sending.
func (f *flight) giveUp() bool {
	resume := f.evidence.resumed()
	some := false
	for len(f.todo) > 0 {
		b := f.todo[len(f.todo)-1]
		if b.loss == nil || b.suspected {
			break
		}
		if !f.drop(b) {
			return false
		}
		some = true
	}
	return !some || f.gap(resume)
}

// drop passes the events of b, which is the next batch, to DeadLetter, counts them
// and reports them.
func (f *flight) drop(b *Batch) bool {
	b.retain() // for the report
	defer b.release()
	d := Dropped{Reason: b.loss.why, Key: b.loss.key, Err: b.loss.err}
	if f.dead != nil {
		d.Events = copies(b.parts, f.format)
		if !f.deadLetter(d) {
			return false
		}
		d.DeadLettered = true
	}
	if !f.replace(b, nil, func(n *counts) {
		if d.DeadLettered {
			n.InFlight -= uint64(b.count)
			n.DeadLettered += uint64(b.count)
			return
		}
		n.drop(b.count, d.Reason)
	}) {
		return false
	}
	f.reportDropped(b.parts, d)
	return true
}

// deadLetter calls DeadLetter until it takes the events. It reports false if Close
// ended sending first.
func (f *flight) deadLetter(d Dropped) bool {
	for attempt := 1; ; attempt++ {
		err := f.dead(f.sending, d)
		if err == nil {
			return true
		}
		f.store.persist(f.whole)
		wait := f.delay(attempt)
		f.log.write(slog.LevelError, "batch: DeadLetter does not take events; their batch waits", "reason", d.Reason.String(), "events", len(d.Events),
			"attempt", attempt, "retry_in", wait, "err", err)
		if !f.sleep(wait, nil) {
			return false
		}
	}
}

// suspect puts aside an event that the receiver refuses, until the others of its
// batch are settled. The event is given up if the receiver takes a later one, or if
// only a few in a row were refused. Otherwise its lane waits and no event of the batch
// is given up: a wrong address, or a proxy that rejects the compression, refuses every
// event in the same way.
//
// After each wait the first event that was put aside is sent again, which shows
// whether the receiver has changed. Without an order some others follow, because there
// may be a long run of bad events. In an ordered lane a later event must not be sent
// before them, so they wait until Resume says that the events are at fault. For the
// same reason, an event of an ordered lane is given up as soon as a later one is taken,
// and is not sent again after a wait: see overtaken.
func (f *flight) suspect(b *Batch, out Outcome) bool {
	again := b.rechecked
	b.rechecked = false
	if !again {
		f.evidence.eventFailed()
	}
	taken := b.takesBefore >= b.takesNeeded // between the last two refusals of b
	if !f.putAside(b, out) {
		return false
	}
	switch {
	case again && (taken || f.resumed):
		f.confirmRefusals() // it was refused, others were taken, and it was refused again
		return true
	case again && !f.ordered, !f.evidence.receiverSuspect():
		return true
	case f.probes > 0:
		f.probes--
		return true
	}
	return f.waitForReceiver(out)
}

// putAside moves the next batch, which has one event, to the end.
func (f *flight) putAside(b *Batch, out Outcome) bool {
	needed := f.evidence.taken() + 1
	return f.env.edit(func(*counts) {
		b.markLost(ReasonRefused, b.key, out.Err)
		b.suspected, b.takesNeeded = true, needed
		copy(f.todo[1:], f.todo[:len(f.todo)-1])
		f.todo[0] = b
	})
}

// overtaken marks the refused events before b to be given up next, because the
// receiver took b or some of it: in an ordered lane they must not be sent any more.
func (f *flight) overtaken(b *Batch) {
	f.env.edit(func(*counts) {
		var left, before []*Batch
		for _, x := range f.todo {
			if x.loss == nil || f.whole.compare(x.parts[0], b.parts[0]) >= 0 {
				left = append(left, x)
				continue
			}
			x.suspected = false
			before = append(before, x)
		}
		if len(before) > 0 {
			f.stale = false
			f.todo = append(left, before...)
		}
	})
}

// confirmRefusals marks the events that were put aside to be given up.
func (f *flight) confirmRefusals() {
	f.evidence.eventsAtFault()
	f.env.edit(func(*counts) {
		f.stale = false
		for _, b := range f.todo {
			b.suspected = false
		}
	})
}

// decide gives up b or waits for the receiver. b is next and lost; if it was put
// aside, only such events are left.
func (f *flight) decide(b *Batch) bool {
	taken := f.evidence.taken() >= b.takesNeeded // since it refused b
	switch {
	case !b.suspected:
	case f.stale && taken:
		f.recheck()
		return true
	case f.stale, f.evidence.receiverSuspect() && !taken:
		return f.waitForReceiver(Outcome{Err: b.loss.err})
	}
	b.suspected = false
	return f.giveUp()
}

// waitForReceiver waits until the receiver may have changed.
func (f *flight) waitForReceiver(out Outcome) bool {
	f.log.write(slog.LevelError, "batch: the receiver refuses one event after the other and takes none; events are kept and their lane waits. Check the address, the format and the compression. If the events are at fault, Resume gives them up",
		"lane", f.lane.id, "status", out.Status, "retry_in", f.retry.Max, "waiting_events", f.env.unsent(), "err", out.Err)
	f.store.persist(f.whole)
	if !f.ordered {
		f.probes = maxSuspects
	}
	resume := f.evidence.resumed()
	ok := f.pause(f.retry.Max)
	f.resumed = isClosed(resume)
	return ok
}

// recheck makes the first event that was put aside the next one, after a wait in which
// the receiver may have changed. If others are taken after that, it says nothing about
// the events that were refused before, unless this one is refused again.
func (f *flight) recheck() {
	f.env.edit(func(*counts) {
		n := len(f.todo)
		if n == 0 || f.ordered && f.todo[n-1].rechecked {
			return // in an ordered lane, an event that is sent again precedes the others
		}
		first := -1
		for i, b := range f.todo {
			if b.suspected && (first < 0 || f.whole.compare(b.parts[0], f.todo[first].parts[0]) < 0) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		f.stale = true
		b := f.todo[first]
		b.loss, b.suspected, b.rechecked = nil, false, true
		f.todo = append(slices.Delete(f.todo, first, first+1), b)
	})
}

// restore joins the remaining events to one batch, after the receiver took an event
// that it had refused.
func (f *flight) restore() bool {
	return f.env.edit(func(*counts) {
		if len(f.todo) == 0 {
			return
		}
		var parts []part
		for _, b := range f.todo {
			parts = append(parts, b.parts...)
		}
		slices.SortFunc(parts, f.whole.compare)
		f.restored++
		f.stale = false
		left := f.whole.piece(merge(parts), ".p"+strconv.Itoa(f.restored))
		for _, b := range f.todo {
			b.release() // none is the whole batch, since one of its events was taken
		}
		f.todo = []*Batch{left}
	})
}

// isolate handles a batch that has used up its attempts. It searches by halves for an
// event that makes the receiver fail, as for one that is refused, unless the receiver
// fails for every event.
func (f *flight) isolate(b *Batch, out Outcome) bool {
	answered := out.Status != 0 && !out.Overload
	if b.count > 1 && answered && !f.evidence.receiverSuspect() {
		return f.cut(b, VerdictRetry, b.count/2)
	}
	if b.count == 1 {
		f.evidence.eventFailed()
	}
	return f.giveUpBatch(b, ReasonExhausted, out.Err)
}
