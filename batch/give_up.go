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
func (t *transmission) giveUpBatch(b *Batch, why Reason, err error) bool {
	b.markLost(why, b.key, err)
	return t.giveUp()
}

// giveUp drops the next batches as long as they are marked as lost, and then stops a
// gapless lane. It reports false if Close ended sending.
func (t *transmission) giveUp() bool {
	resume := t.health.resumed()
	some := false
	for len(t.todo) > 0 {
		b := t.todo[len(t.todo)-1]
		if b.loss == nil || b.suspected {
			break
		}
		if !t.drop(b) {
			return false
		}
		some = true
	}
	return !some || t.gap(resume)
}

// drop passes the events of b, which is the next batch, to DeadLetter, counts them
// and reports them.
func (t *transmission) drop(b *Batch) bool {
	b.retain() // for the report
	defer b.release()
	d := Dropped{Reason: b.loss.why, Key: b.loss.key, Err: b.loss.err}
	if t.dead != nil {
		d.Events = copies(b.parts, t.format)
		if !t.deadLetter(d) {
			return false
		}
		d.DeadLettered = true
	}
	if !t.replace(b, nil, func(n *counts) {
		if d.DeadLettered {
			n.InFlight -= uint64(b.count)
			n.DeadLettered += uint64(b.count)
			return
		}
		n.drop(b.count, d.Reason)
	}) {
		return false
	}
	t.reportDropped(b.parts, d)
	return true
}

// deadLetter calls DeadLetter until it takes the events. It reports false if Close
// ended sending first.
func (t *transmission) deadLetter(d Dropped) bool {
	for attempt := 1; ; attempt++ {
		err := t.dead(t.sending, d)
		if err == nil {
			return true
		}
		t.store.persist(t.whole)
		wait := t.delay(attempt)
		t.log.write(slog.LevelError, "batch: DeadLetter does not take events; their batch waits", "reason", d.Reason.String(), "events", len(d.Events),
			"attempt", attempt, "retry_in", wait, "err", err)
		if !t.sleep(wait, nil) {
			return false
		}
	}
}

// suspect puts aside an event that the receiver refuses, until the others of its
// batch are settled. The event is given up if the receiver takes a later one, or if
// only a few in a row were refused. Otherwise its lane waits and no event of the batch
// is given up: a wrong address, or a proxy that rejects the compression, refuses every
// event in the same way. Neither says the refusal anything about the event if it is part of a
// streak in which the receiver becomes suspect, in whichever lanes: the receiver may have been
// mended since. Such an event is sent once more before it is given up.
//
// After each wait the first event that was put aside is sent again, which shows
// whether the receiver has changed. Without an order some others follow, because there
// may be a long run of bad events. In an ordered lane a later event must not be sent
// before them, so they wait until Resume says that the events are at fault. For the
// same reason, an event of an ordered lane is given up as soon as a later one is taken,
// and is not sent again after a wait: see overtaken.
func (t *transmission) suspect(b *Batch, out Outcome) bool {
	again := b.rechecked
	b.rechecked = false
	if !again {
		if s := t.health.eventFailed(); !t.health.suspectIn(b.streak) {
			b.streak = s
		}
	}
	taken := b.takesBefore >= b.takesNeeded // between the last two refusals of b
	if !t.putAside(b, out) {
		return false
	}
	switch {
	case again && (taken || t.resumed):
		t.confirmRefusals() // it was refused, others were taken, and it was refused again
		return true
	case again && !t.ordered, !t.health.suspectIn(b.streak) && !t.health.receiverSuspect():
		return true
	case t.probes > 0:
		t.probes--
		return true
	}
	return t.waitForReceiver(out)
}

// putAside moves the next batch, which has one event, to the end.
func (t *transmission) putAside(b *Batch, out Outcome) bool {
	needed := t.health.taken() + 1
	return t.env.edit(func(*counts) {
		b.markLost(ReasonRefused, b.key, out.Err)
		b.suspected, b.takesNeeded = true, needed
		copy(t.todo[1:], t.todo[:len(t.todo)-1])
		t.todo[0] = b
	})
}

// overtaken marks the refused events before b to be given up next, because the
// receiver took b or some of it: in an ordered lane they must not be sent any more.
func (t *transmission) overtaken(b *Batch) {
	t.env.edit(func(*counts) {
		var left, before []*Batch
		for _, x := range t.todo {
			if x.loss == nil || t.whole.compare(x.parts[0], b.parts[0]) >= 0 {
				left = append(left, x)
				continue
			}
			x.suspected = false
			before = append(before, x)
		}
		if len(before) > 0 {
			t.stale = false
			t.todo = append(left, before...)
		}
	})
}

// confirmRefusals marks the events that were put aside to be given up.
func (t *transmission) confirmRefusals() {
	t.health.eventsAtFault()
	t.env.edit(func(*counts) {
		t.stale = false
		for _, b := range t.todo {
			b.suspected = false
		}
	})
}

// decide gives up b or waits for the receiver. b is next and lost; if it was put
// aside, only such events are left.
func (t *transmission) decide(b *Batch) bool {
	taken := t.health.taken() >= b.takesNeeded // since it refused b
	stale := t.stale || t.health.suspectIn(b.streak)
	switch {
	case !b.suspected:
	case stale && t.health.taken() >= t.aside(false).takesNeeded:
		return t.recheck(false)
	case stale, t.health.receiverSuspect() && !taken:
		return t.waitForReceiver(Outcome{Err: b.loss.err})
	}
	b.suspected = false
	return t.giveUp()
}

// waitForReceiver waits until the receiver may have changed.
func (t *transmission) waitForReceiver(out Outcome) bool {
	t.log.write(slog.LevelError, "batch: the receiver refuses one event after the other and takes none; events are kept and their lane waits. Check the address, the format and the compression. If the events are at fault, Resume gives them up",
		"lane", t.lane.id, "status", out.Status, "retry_in", t.retry.Max, "waiting_events", t.env.unsent(), "err", out.Err)
	t.store.persist(t.whole)
	if !t.ordered {
		t.probes = maxSuspects
	}
	resume := t.health.resumed()
	ok := t.pause(t.retry.Max)
	t.resumed = isClosed(resume)
	return ok
}

// aside returns the first event that was put aside, or nil: with doubted, of those that were in a
// streak in which the receiver was suspect.
func (t *transmission) aside(doubted bool) (first *Batch) {
	for _, b := range t.todo {
		if b.suspected && (!doubted || t.health.suspectIn(b.streak)) && (first == nil || t.whole.compare(b.parts[0], first.parts[0]) < 0) {
			first = b
		}
	}
	return first
}

// recheck makes the event that aside returns the next one, after a wait in which
// the receiver may have changed. If others are taken after that, it says nothing about
// the events that were refused before, unless this one is refused again. An event that is refused
// again is in the streak of that time: the next doubted one is another. It reports false if Close
// ended sending.
func (t *transmission) recheck(doubted bool) bool {
	return t.env.edit(func(*counts) {
		n := len(t.todo)
		if n == 0 || t.ordered && t.todo[n-1].rechecked {
			return // in an ordered lane, an event that is sent again precedes the others
		}
		b := t.aside(doubted)
		if b == nil {
			return
		}
		t.stale = true
		b.loss, b.suspected, b.rechecked = nil, false, true
		at := slices.Index(t.todo, b)
		t.todo = append(slices.Delete(t.todo, at, at+1), b)
	})
}

// restore joins the remaining events to one batch, after the receiver took an event
// that it had refused.
func (t *transmission) restore() bool {
	return t.env.edit(func(*counts) {
		if len(t.todo) == 0 {
			return
		}
		var parts []part
		for _, b := range t.todo {
			parts = append(parts, b.parts...)
		}
		slices.SortFunc(parts, t.whole.compare)
		t.restored++
		t.stale = false
		left := t.whole.piece(merge(parts), ".p"+strconv.Itoa(t.restored))
		for _, b := range t.todo {
			b.release() // none is the whole batch, since one of its events was taken
		}
		t.todo = []*Batch{left}
	})
}

// isolate handles a batch that has used up its attempts. It searches by halves for an
// event that makes the receiver fail, as for one that is refused, unless the receiver
// fails for every event.
func (t *transmission) isolate(b *Batch, out Outcome) bool {
	answered := out.Status != 0 && !out.Overload
	if b.count > 1 && answered && !t.health.receiverSuspect() {
		return t.cut(b, VerdictRetry, b.count/2)
	}
	if b.count == 1 {
		t.health.eventFailed()
	}
	return t.giveUpBatch(b, ReasonExhausted, out.Err)
}
