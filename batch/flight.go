package batch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"
)

// drainCap limits the back-off while Close waits: this processor has little time left
// to send events.
const drainCap = 250 * time.Millisecond

// A shipper has what all flights share.
type shipper struct {
	*settings
	throttle *throttle
	evidence *evidence
	store    *store          // nil without a spool
	sending  context.Context // ends when Close has sent what it could
	draining chan struct{}   // closed when Close begins
	env      flightEnv
}

// A flightEnv is what flights need of their pipeline.
type flightEnv struct {
	// edit runs do, which may change the flight and the counts. It reports false, and
	// does not run it, if Close has taken over all flights.
	edit func(do func(*counts)) bool
	// leave begins a wait, in which other batches of the lane may be sent if there is
	// no order. rejoin ends it.
	leave   func(f *flight) (rejoin func())
	pause   func(l *lane, n int)   // n more flights of a lane wait for Resume
	unsent  func() uint64          // the unsettled events of all sealed chunks
	settled func(chunks ...*chunk) // all events of these chunks are settled
	finish  func(f *flight)        // the flight does no more
}

// A flight sends one batch until each event is delivered or dropped, or Close takes
// it back. One goroutine owns it.
type flight struct {
	*shipper
	lane  *lane
	whole *Batch
	todo  []*Batch // the batch or pieces of it, the next one last; changed by env.edit

	probes   int  // suspected events that may be refused before the lane waits again
	resumed  bool // Resume ended the last wait
	stale    bool // suspected events have waited since they were refused; see recheck
	halted   bool // a gapless lane has lost an event, and Close has begun
	restored int  // how often restore made a piece
}

// run sends until nothing is left to do, or Close has ended sending.
func (f *flight) run() {
	resume := f.evidence.resumed()
	parts, loaded := f.store.load(f.sending, f.whole.chunks)
	loaded = loaded && f.env.edit(func(*counts) {
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
		f.store.writeNote(f.whole)
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
		f.store.ack(f.whole.chunks...)
		f.env.settled(f.whole.chunks...)
	}
	f.env.finish(f)
}

// attempt makes an attempt as soon as it may. It reports false if Close ended sending
// first.
func (f *flight) attempt(b *Batch) (Outcome, bool) {
	if !f.throttle.acquire(f.sending) {
		return Outcome{}, false
	}
	b.attempt++
	start := f.begin(b)
	out := f.send(f.sending, b)
	took := time.Since(start)
	if f.retry.Classify != nil {
		out = f.retry.Classify(out)
	}
	if out.Verdict == VerdictAuto {
		out.Verdict = VerdictAccepted
		if out.Err != nil {
			out.Verdict = VerdictRetry
		}
	}
	if out.RetryAfter > 0 && out.Verdict != VerdictAccepted {
		f.throttle.pause(min(out.RetryAfter, f.retry.MaxRetryAfter))
	}
	f.throttle.release(start, out.Verdict == VerdictAccepted, out.Overload)
	f.evidence.add(b, took, out.Verdict == VerdictAccepted)
	if f.hooks.OnAttempt != nil {
		f.hooks.OnAttempt(Attempt{b.key, b.lane, b.attempt, b.count, b.Size(), took, out})
	}
	return out, true
}

// begin notes that the batch is sent.
func (f *flight) begin(b *Batch) time.Time {
	b.takesBefore = f.evidence.taken()
	now := time.Now()
	f.env.edit(func(*counts) {
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
		f.log.write(slog.LevelError, "batch: the receiver does not allow this sender, or the address is wrong; events are kept and their lane waits",
			"lane", f.lane.id, "status", out.Status, "retry_in", f.retry.Max, "waiting_events", f.env.unsent(), "err", out.Err)
		f.persistLate(b)
		return f.pause(f.retry.Max)
	case VerdictSplit:
		if b.count > 1 {
			f.log.write(slog.LevelWarn, "batch: the receiver takes only smaller batches; set a lower Trigger.Bytes",
				"bytes", b.Size(), "events", b.count)
			return f.cut(b, VerdictSplit, b.count/2)
		}
	case VerdictBisect:
		switch {
		case b.count > 1 && f.evidence.receiverSuspect():
			return f.cut(b, VerdictBisect, 1) // one event shows whether the events are at fault
		case b.count > 1:
			return f.cut(b, VerdictBisect, b.count/2)
		case !f.gapless: // a gapless lane stops immediately
			return f.suspect(b, out)
		}
	}
	return f.giveUpBatch(b, ReasonRefused, out.Err)
}

// late reports whether Retry.MaxElapsed has passed.
func (f *flight) late() bool {
	return f.retry.MaxElapsed > 0 && time.Since(f.whole.firstAttempt) >= f.retry.MaxElapsed
}

// exhausted reports whether the batch has had Retry.Attempts.
func (f *flight) exhausted(b *Batch) bool {
	return f.retry.Attempts > 0 && b.attempt >= f.retry.Attempts
}

var (
	errTooLate = errors.New("the receiver asks for the event again, but Retry.MaxElapsed has passed")
	errTooMany = errors.New("the receiver asks for the event again, but it has had Retry.Attempts")
)

// accepted settles a batch that the receiver accepted, except the refused events.
func (f *flight) accepted(b *Batch, out Outcome) bool {
	if out.Err != nil {
		f.log.write(slog.LevelWarn, "batch: the receiver took a batch, with a problem", "err", out.Err)
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
	if delivered > 0 && f.hooks.OnDelivered != nil {
		f.hooks.OnDelivered(Delivery{b.key, b.lane, delivered, time.Since(f.whole.first), out.Duplicate})
	}
	if delivered > 0 && f.ordered && len(f.todo) > 0 {
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
	return f.env.edit(func(n *counts) {
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
			f.log.write(slog.LevelWarn, "batch: the receiver refuses an event that is not in the batch", "index", r.Index, "events", b.count)
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
	f.log.write(slog.LevelWarn, why, "attempt", b.attempt, "events", b.count, "retry_in", wait, "waiting_events", f.env.unsent(), "err", err)
	defer f.recheck()
	return f.sleep(wait, nil)
}

// delay returns how long to wait after a number of attempts.
func (f *flight) delay(attempts int) time.Duration {
	bound := f.retry.bound(attempts)
	if isClosed(f.draining) {
		bound = min(bound, drainCap)
	}
	return jitter(bound)
}

// sleep waits for d, for resume, or until Close begins; after Close has begun, it waits
// for d. Without an order, other batches may be sent meanwhile. It reports false if
// Close ended sending.
func (f *flight) sleep(d time.Duration, resume <-chan struct{}) bool {
	draining := f.draining
	if isClosed(f.draining) {
		draining = nil
	}
	defer f.env.leave(f)()
	return sleep(f.sending, d, draining, resume)
}

// persistLate writes a batch to disk after Spool.AfterAttempts attempts.
func (f *flight) persistLate(b *Batch) {
	if f.disk != nil && b.attempt >= f.disk.AfterAttempts {
		f.store.persist(f.whole)
	}
}

// pause waits for d or for Resume. Close shortens the wait.
func (f *flight) pause(d time.Duration) bool {
	resume := f.evidence.resumed()
	f.env.pause(f.lane, 1)
	defer f.env.pause(f.lane, -1)
	if isClosed(f.draining) {
		d = min(d, drainCap)
	}
	defer f.recheck()
	return f.sleep(d, resume)
}

// gap stops a gapless lane that has lost an event, until Resume or Close. The caller
// gets resume before it calls OnDrop, because OnDrop may call Resume.
func (f *flight) gap(resume <-chan struct{}) bool {
	if !f.gapless {
		return true
	}
	f.log.write(slog.LevelError, "batch: an event is missing; its lane waits for Resume", "lane", f.lane.id)
	f.env.pause(f.lane, 1)
	select {
	case <-resume:
		f.env.pause(f.lane, -1)
		return true
	case <-f.draining:
		// Later events must not overtake the missing one: the lane stays as it is,
		// and Close keeps or returns its events.
		f.halted = true
		return false
	}
}
