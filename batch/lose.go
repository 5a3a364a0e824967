package batch

import (
	"log/slog"
	"slices"
	"strconv"
)

// A loss is why a piece of a batch is given up.
type loss struct {
	why Reason
	key string // of the batch it was sent in
	err error
}

// lost marks a batch to be given up.
func (b *Batch) lost(why Reason, key string, err error) {
	b.loss = &loss{why, key, err}
}

// lose gives up the batch that is next.
func (f *flight) lose(b *Batch, why Reason, err error) bool {
	b.lost(why, b.key, err)
	return f.giveUp()
}

// giveUp gives up what is next and lost, and stops the lane then if it is to have
// no gaps. It reports false when Close ended sending.
func (f *flight) giveUp() bool {
	resume := f.resuming()
	some := false
	for len(f.todo) > 0 {
		b := f.todo[len(f.todo)-1]
		if b.loss == nil || b.doubted {
			break
		}
		if !f.give(b) {
			return false
		}
		some = true
	}
	return !some || f.gap(resume)
}

// give gives up the events of the batch that is next: it has DeadLetter take them,
// and tells everyone.
func (f *flight) give(b *Batch) bool {
	b.retain() // for the report
	defer b.release()
	d := Dropped{Reason: b.loss.why, Key: b.loss.key, Err: b.loss.err}
	if f.dead != nil {
		d.Events = copies(b.parts, f.format)
		if !f.bury(d) {
			return false
		}
		d.DeadLettered = true
	}
	if !f.end(b, nil, func(n *counts) {
		if d.DeadLettered {
			n.flying -= uint64(b.count)
			n.dead += uint64(b.count)
			return
		}
		n.drop(b.count, d.Reason)
	}) {
		return false
	}
	f.report(b.parts, d)
	return true
}

// bury gives events to DeadLetter until that takes them. It reports false when
// Close ended sending first.
func (f *flight) bury(d Dropped) bool {
	for attempt := 1; ; attempt++ {
		err := f.dead(f.sending, d)
		if err == nil {
			return true
		}
		if f.disk != nil {
			f.keep(f.whole)
		}
		wait := f.delay(attempt)
		f.log.write(slog.LevelError, "batch: dead letters are not taken; their batch waits", "reason", d.Reason.String(), "events", len(d.Events),
			"attempt", attempt, "retry_in", wait, "err", err)
		if !f.stand(wait, nil) {
			return false
		}
	}
}

// mostDoubted is how many single events in a row may fail before it is the
// receiver, or the way to it, that is taken to be at fault and not the events.
const mostDoubted = 8

// doubtful reports whether so many events have failed in a row.
func (p *pipeline) doubtful() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.streak >= mostDoubted
}

// doubt puts an event aside that the receiver refuses, until the others of its
// batch are settled. It is given up when the receiver has taken something after it,
// or when few in a row were refused. Otherwise its lane waits, and nothing of its
// batch is given up: a wrong address, or a proxy that does not like the compression,
// refuses every event in the same way. After each wait the first event that was put
// aside is sent again, which tells whether anything has changed; and then, where
// there is no order, some others, since there may be a long run of bad ones. In an
// order, a later one that is taken would have overtaken them, if something has
// changed since: there, Resume says that it is the events. For the same reason, an
// event in an ordered lane is given up as soon as a later one is taken, and is not
// sent again after a wait: see overtaken.
func (f *flight) doubt(b *Batch, out Outcome) bool {
	again := b.again
	b.again = false
	streak, taken := f.putAside(b, out, !again)
	switch {
	case again && (taken || f.resumed):
		f.believeAll() // refused, then others taken, and refused again
		return true
	case again && !f.ordered, streak < mostDoubted:
		return true
	case f.probes > 0:
		f.probes--
		return true
	}
	return f.distrust(out)
}

// putAside has a batch that is next, of one event, be the last one. It returns how
// many events have failed in a row, and whether the receiver has taken anything
// between the two last times that this one was refused.
func (f *flight) putAside(b *Batch, out Outcome, count bool) (streak int, taken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.abandoned {
		return 0, false // it stays next, for Close
	}
	if count {
		f.mu.streak++
	}
	taken = b.seen >= b.takes
	b.lost(ReasonRefused, b.key, out.Err)
	b.doubted, b.takes = true, f.mu.takes+1
	copy(f.todo[1:], f.todo[:len(f.todo)-1])
	f.todo[0] = b
	return f.mu.streak, taken
}

// overtaken has the refused events before b be given up next, since b, or some of
// it, was taken: in an ordered lane they must not be sent any more.
func (f *flight) overtaken(b *Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.abandoned {
		return
	}
	var left, before []*Batch
	for _, x := range f.todo {
		if x.loss == nil || f.whole.compare(x.parts[0], b.parts[0]) >= 0 {
			left = append(left, x)
			continue
		}
		x.doubted = false
		before = append(before, x)
	}
	if len(before) > 0 {
		f.stale = false
		f.todo = append(left, before...)
	}
}

// believeAll has the events that were put aside be given up in their turn.
func (f *flight) believeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.streak = 0
	f.stale = false
	for _, b := range f.todo {
		b.doubted = false
	}
}

// conclude decides on an event that was put aside, when it is next: then nothing
// else is left.
func (f *flight) conclude(b *Batch) bool {
	streak, taken := f.since(b)
	switch {
	case !b.doubted:
	case f.stale && taken:
		f.recheck()
		return true
	case f.stale, streak >= mostDoubted && !taken:
		return f.distrust(Outcome{Err: b.loss.err})
	}
	b.doubted = false
	return f.giveUp()
}

// since returns how many events have failed in a row, and whether the receiver has
// taken anything since it refused b.
func (f *flight) since(b *Batch) (streak int, taken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.streak, f.mu.takes >= b.takes
}

// distrust waits for the receiver to be another.
func (f *flight) distrust(out Outcome) bool {
	f.log.write(slog.LevelError, "batch: the receiver refuses one event after the other and takes none; events are kept and their lane waits: is the address right, and does it take this format and compression? If it is the events, Resume gives them up",
		"lane", f.lane.id, "status", out.Status, "retry_in", f.retry.Max, "waiting_events", f.waiting(), "err", out.Err)
	if f.disk != nil {
		f.keep(f.whole)
	}
	if !f.ordered {
		f.probes = mostDoubted
	}
	resume := f.resuming()
	ok := f.pause(f.retry.Max)
	select {
	case <-resume:
		f.resumed = true
	default:
		f.resumed = false
	}
	return ok
}

// recheck has the first event that was put aside be next, if there is one, after a
// wait in which the receiver may have changed. From then on, that others are taken
// says nothing of those that were refused before, unless this one is refused again.
func (f *flight) recheck() {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.todo)
	if f.mu.abandoned || n == 0 || f.ordered && f.todo[n-1].again {
		return // in an order, an event that is sent again goes before the others put aside
	}
	first := -1
	for i, b := range f.todo {
		if b.doubted && (first < 0 || f.whole.compare(b.parts[0], f.todo[first].parts[0]) < 0) {
			first = i
		}
	}
	if first < 0 {
		return
	}
	f.stale = true
	b := f.todo[first]
	b.loss, b.doubted, b.again = nil, false, true
	f.todo = append(slices.Delete(f.todo, first, first+1), b)
}

// restore makes one batch of what is left to do, when an event that was refused was
// taken after all. It reports false when Close has taken the flight over.
func (f *flight) restore() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.abandoned {
		return false
	}
	if len(f.todo) == 0 {
		return true
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
		b.release() // none is the whole, of which an event was taken
	}
	f.todo = []*Batch{left}
	return true
}

// isolate deals with a batch that has had its attempts. An event which makes the
// receiver fail is found by halves, as one that it refuses; but not when it fails
// for every event.
func (f *flight) isolate(b *Batch, out Outcome) bool {
	answered := out.Status != 0 && !out.Overload
	if b.count > 1 && answered && !f.doubtful() {
		return f.cut(b, VerdictRetry, b.count/2)
	}
	if b.count == 1 {
		f.failed()
	}
	return f.lose(b, ReasonExhausted, out.Err)
}

// failed counts an event that failed alone.
func (p *pipeline) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.streak++
}
