package batch

import (
	"context"
	"errors"
	"log/slog"
	"runtime/pprof"
	"slices"
	"strconv"
	"time"
)

// drainCap limits the back-off while Close waits: this processor has little time left
// to send events.
const drainCap = 250 * time.Millisecond

// labeled returns f with a profile label for its goroutine.
func (p *pipeline) labeled(what string, f func()) func() {
	return func() {
		pprof.Do(context.Background(), pprof.Labels("batch", what), func(context.Context) { f() })
	}
}

// A flight sends one batch until each event is delivered or dropped, or Close takes
// it back. One goroutine owns it.
type flight struct {
	p     *pipeline
	lane  *lane
	whole *Batch
	todo  []*Batch // the batch or pieces of it, the next one last; changed under the lock of p

	probes   int  // suspected events that may be refused before the lane waits again
	resumed  bool // Resume ended the last wait
	stale    bool // suspected events have waited since they were refused; see recheck
	halted   bool // a gapless lane has lost an event, and Close has begun
	restored int  // how often restore made a piece
}

// run sends until nothing is left to do, or Close has ended sending.
func (f *flight) run() {
	resume := f.p.evidence.resumed()
	parts, loaded := f.p.store.load(f.p.sending, f.whole.chunks)
	loaded = loaded && f.p.queue.edit(func(*counts) {
		made := f.whole.count
		f.whole.setParts(parts)
		f.whole.incomplete = f.whole.count < made
	})
	if loaded && f.whole.incomplete {
		loaded = f.gap(resume)
	}
	switch {
	case !loaded:
	case f.whole.count == 0:
		f.replace(f.whole, nil, func(*counts) {})
	default:
		f.p.store.writeNote(f.whole)
	}
	for going := loaded; going && len(f.todo) > 0; {
		b := f.todo[len(f.todo)-1]
		switch {
		case b.loss != nil:
			going = f.decide(b)
		case b.mustSplit && b.count > 1:
			going = f.cut(b, VerdictBisect, b.count/2)
		default:
			var out Outcome
			if out, going = f.attempt(b); going {
				going = f.act(b, out)
			}
		}
	}
	if len(f.todo) == 0 {
		for _, c := range f.whole.chunks {
			c.receipt.settle()
		}
		f.p.store.ack(f.whole.chunks...)
		f.p.queue.settled(f.whole.chunks...)
	}
	f.p.queue.finish(f)
}

// attempt makes an attempt as soon as it may. It reports false if Close ended sending
// first.
func (f *flight) attempt(b *Batch) (Outcome, bool) {
	if !f.p.throttle.acquire(f.p.sending) {
		return Outcome{}, false
	}
	b.attempt++
	start := f.begin(b)
	out := f.p.send(f.p.sending, b)
	took := time.Since(start)
	if f.p.retry.Classify != nil {
		out = f.p.retry.Classify(out)
	}
	if out.Verdict == VerdictAuto {
		out.Verdict = VerdictAccepted
		if out.Err != nil {
			out.Verdict = VerdictRetry
		}
	}
	if out.RetryAfter > 0 && out.Verdict != VerdictAccepted {
		f.p.throttle.pause(min(out.RetryAfter, f.p.retry.MaxRetryAfter))
	}
	f.p.throttle.release(start, out.Verdict == VerdictAccepted, out.Overload)
	f.p.evidence.add(b, took, out.Verdict == VerdictAccepted)
	if f.p.hooks.OnAttempt != nil {
		f.p.hooks.OnAttempt(Attempt{b.key, b.lane, b.attempt, b.count, b.Size(), took, out})
	}
	return out, true
}

// begin notes that the batch is sent.
func (f *flight) begin(b *Batch) time.Time {
	b.takesBefore = f.p.evidence.taken()
	now := time.Now()
	f.p.queue.edit(func(*counts) {
		if f.whole.firstAttempt.IsZero() {
			f.whole.firstAttempt = now
		}
	})
	return now
}

// act handles the outcome of an attempt. It reports false if Close ended sending.
func (f *flight) act(b *Batch, out Outcome) bool {
	switch out.Verdict {
	case VerdictAccepted:
		return f.accepted(b, out)
	case VerdictRetry:
		switch {
		case f.late():
			return f.giveUpBatch(b, ReasonExpired, out.Err)
		case f.exhausted(b):
			return f.isolate(b, out)
		}
		return f.backOff(b, "batch: trying again", out.Err)
	case VerdictPause:
		f.p.log.write(slog.LevelError, "batch: the receiver does not allow this sender, or the address is wrong; events are kept and their lane waits",
			"lane", f.lane.id, "status", out.Status, "retry_in", f.p.retry.Max, "waiting_events", f.p.queue.unsent(), "err", out.Err)
		f.persistLate(b)
		return f.pause(f.p.retry.Max)
	case VerdictSplit:
		if b.count > 1 {
			f.p.log.write(slog.LevelWarn, "batch: the receiver takes only smaller batches; set a lower Trigger.Bytes",
				"bytes", b.Size(), "events", b.count)
			return f.cut(b, VerdictSplit, b.count/2)
		}
	case VerdictBisect:
		switch {
		case b.count > 1 && f.p.evidence.receiverSuspect():
			return f.cut(b, VerdictBisect, 1) // one event shows whether the events are at fault
		case b.count > 1:
			return f.cut(b, VerdictBisect, b.count/2)
		case !f.p.gapless: // a gapless lane stops immediately
			return f.suspect(b, out)
		}
	}
	return f.giveUpBatch(b, ReasonRefused, out.Err)
}

// late reports whether Retry.MaxElapsed has passed.
func (f *flight) late() bool {
	return f.p.retry.MaxElapsed > 0 && time.Since(f.whole.firstAttempt) >= f.p.retry.MaxElapsed
}

// exhausted reports whether the batch has had Retry.Attempts.
func (f *flight) exhausted(b *Batch) bool {
	return f.p.retry.Attempts > 0 && b.attempt >= f.p.retry.Attempts
}

var (
	errTooLate = errors.New("the receiver asks for the event again, but Retry.MaxElapsed has passed")
	errTooMany = errors.New("the receiver asks for the event again, but it has had Retry.Attempts")
)

// accepted settles a batch that the receiver accepted, except the refused events.
func (f *flight) accepted(b *Batch, out Outcome) bool {
	if out.Err != nil {
		f.p.log.write(slog.LevelWarn, "batch: the receiver took a batch, with a problem", "err", out.Err)
	}
	again, bad := f.verdicts(b, out.Refused)
	if b.sibling != nil && len(bad) == 0 && len(again) == 0 {
		// The whole batch was refused, so the other half has a bad event:
		// sending that half as a whole would show nothing new.
		b.sibling.mustSplit = true
	}
	b.retain() // for the hook
	defer b.release()
	delivered := b.count - len(bad) - len(again)
	var next []*Batch
	var wanted *Batch
	if len(again) > 0 {
		wanted = b.piece(merge(again), "")
		wanted.baseKey, wanted.retries, wanted.attempt = b.baseKey, b.retries+1, b.attempt
		wanted.key = wanted.baseKey + ".r" + strconv.Itoa(wanted.retries)
		switch {
		case f.late():
			wanted.markLost(ReasonExpired, b.key, errTooLate)
		case f.exhausted(b):
			wanted.markLost(ReasonExhausted, b.key, errTooMany)
		}
		if wanted.loss != nil {
			wanted.attempt = 0 // its attempts are counted with b
		}
		next = append(next, wanted)
	}
	for _, r := range slices.Backward(bad) {
		piece := b.piece([]part{b.at(r.Index)}, "")
		piece.markLost(ReasonRefused, b.key, rejection(r.Reason))
		next = append(next, piece)
	}
	if !f.replace(b, next, func(n *counts) {
		n.InFlight -= uint64(delivered)
		n.Delivered += uint64(delivered)
		if out.Duplicate {
			n.Duplicates += uint64(delivered)
		}
	}) {
		return false
	}
	if delivered > 0 && f.p.hooks.OnDelivered != nil {
		f.p.hooks.OnDelivered(Delivery{b.key, b.lane, delivered, time.Since(f.whole.first), out.Duplicate})
	}
	if delivered > 0 && f.p.ordered && len(f.todo) > 0 {
		f.overtaken(b)
	}
	if !f.giveUp() || b.rechecked && !f.restore() {
		return false
	}
	if f.stale {
		f.recheck()
	}
	return wanted == nil || wanted.loss != nil || f.backOff(wanted, "batch: the receiver asks for some events again", nil)
}

// cut replaces a batch by two pieces: its first events, and the others.
func (f *flight) cut(b *Batch, why Verdict, at int) bool {
	first, second := b.cut(at)
	switch {
	case why == VerdictBisect:
		first.sibling = second
	case why == VerdictRetry: // each has one attempt left
		first.attempt, second.attempt = b.attempt-1, b.attempt-1
	}
	return f.replace(b, []*Batch{second, first}, func(*counts) {})
}

// replace replaces b, which is the next batch, and counts its events under the same
// lock.
func (f *flight) replace(b *Batch, next []*Batch, count func(*counts)) bool {
	return f.p.queue.edit(func(n *counts) {
		f.todo = append(f.todo[:len(f.todo)-1], next...)
		count(n)
		if b.attempt > 0 {
			n.attempts.add(float64(b.attempt))
		}
		if b != f.whole {
			b.release()
		}
	})
}

// verdicts returns the parts of b to send again and the refusals to give up, each
// event once and in order.
func (f *flight) verdicts(b *Batch, all []Refusal) (again []part, bad []Refusal) {
	if len(all) == 0 {
		return nil, nil
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(x, y Refusal) int { return x.Index - y.Index })
	last := -1
	for _, r := range all {
		if r.Index < 0 || r.Index >= b.count {
			f.p.log.write(slog.LevelWarn, "batch: the receiver refuses an event that is not in the batch", "index", r.Index, "events", b.count)
			continue
		}
		if r.Index == last {
			continue
		}
		last = r.Index
		if r.Retry {
			again = append(again, b.at(r.Index))
		} else {
			bad = append(bad, r)
		}
	}
	return again, bad
}

// merge joins adjacent parts.
func merge(parts []part) []part {
	joined := parts[:1]
	for _, x := range parts[1:] {
		if last := &joined[len(joined)-1]; last.chunk == x.chunk && last.to == x.from {
			last.to = x.to
			continue
		}
		joined = append(joined, x)
	}
	return joined
}

// rejection is the reason that a receiver gave for refusing an event.
type rejection string

func (r rejection) Error() string { return string(r) }

// backOff logs why, and waits before the next attempt. Close shortens the wait.
func (f *flight) backOff(b *Batch, why string, err error) bool {
	f.persistLate(b)
	wait := f.delay(b.attempt)
	f.p.log.write(slog.LevelWarn, why, "attempt", b.attempt, "events", b.count, "retry_in", wait, "waiting_events", f.p.queue.unsent(), "err", err)
	defer f.recheck()
	return f.sleep(wait, nil)
}

// delay returns how long to wait after a number of attempts.
func (f *flight) delay(attempts int) time.Duration {
	bound := f.p.retry.bound(attempts)
	if f.p.closing() {
		bound = min(bound, drainCap)
	}
	return jitter(bound)
}

// sleep waits for d, for resume, or until Close begins; after Close has begun, it waits
// for d. Without an order, other batches may be sent meanwhile. It reports false if
// Close ended sending.
func (f *flight) sleep(d time.Duration, resume <-chan struct{}) bool {
	draining := f.p.draining
	if f.p.closing() {
		draining = nil
	}
	defer f.p.queue.leave(f)()
	return sleep(f.p.sending, d, draining, resume)
}

// persistLate writes a batch to disk after Spool.AfterAttempts attempts.
func (f *flight) persistLate(b *Batch) {
	if f.p.disk != nil && b.attempt >= f.p.disk.AfterAttempts {
		f.p.store.persist(f.whole)
	}
}

// pause waits for d or for Resume. Close shortens the wait.
func (f *flight) pause(d time.Duration) bool {
	resume := f.p.evidence.resumed()
	f.p.queue.pause(f.lane, 1)
	defer f.p.queue.pause(f.lane, -1)
	if f.p.closing() {
		d = min(d, drainCap)
	}
	defer f.recheck()
	return f.sleep(d, resume)
}

// gap stops a gapless lane that has lost an event, until Resume or Close. The caller
// gets resume before it calls OnDrop, because OnDrop may call Resume.
func (f *flight) gap(resume <-chan struct{}) bool {
	if !f.p.gapless {
		return true
	}
	f.p.log.write(slog.LevelError, "batch: an event is missing; its lane waits for Resume", "lane", f.lane.id)
	f.p.queue.pause(f.lane, 1)
	select {
	case <-resume:
		f.p.queue.pause(f.lane, -1)
		return true
	case <-f.p.draining:
		// Later events must not overtake the missing one: the lane stays as it is,
		// and Close keeps or returns its events.
		f.halted = true
		return false
	}
}

// ship starts a flight with the next batch of a lane, with the events of open chunks if
// open is true. It reports false if they have to wait for the disk.
func (p *pipeline) ship(l *lane, open bool, now time.Time) bool {
	if open {
		p.sealAll(l)
	}
	f := &flight{p: p, lane: l}
	if !p.queue.take(f, now) {
		return false
	}
	p.work.Go(p.labeled("send", f.run))
	return true
}
