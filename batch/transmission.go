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

// A shipper has what all transmissions share.
type shipper struct {
	*settings
	throttle *throttle
	health   *health
	store    *store          // nil without a spool
	sending  context.Context // ends when Close has sent what it could
	draining chan struct{}   // closed when Close begins
	env      transmissionEnv
}

// A transmissionEnv is what transmissions need of their pipeline.
type transmissionEnv struct {
	// edit runs do, which may change the transmission and the counts. It reports false, and
	// does not run it, if Close has taken over all transmissions.
	edit func(do func(*counts)) bool
	// leave begins a wait, in which other batches of the lane may be sent if there is
	// no order. rejoin ends it.
	leave   func(t *transmission) (rejoin func())
	pause   func(l *lane, n int)   // n more transmissions of a lane wait for Resume
	unsent  func() uint64          // the unsettled events of all sealed chunks
	settled func(chunks ...*chunk) // all events of these chunks are settled
	finish  func(t *transmission)  // the transmission does no more
}

// A transmission sends one batch until each event is delivered or dropped, or Close takes
// it back. One goroutine owns it.
type transmission struct {
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
func (t *transmission) run() {
	resume := t.health.resumed()
	parts, loaded := t.store.load(t.sending, t.whole.chunks)
	loaded = loaded && t.env.edit(func(*counts) {
		made := t.whole.count
		t.whole.setParts(parts)
		t.whole.incomplete = t.whole.count < made
	})
	if loaded && t.whole.incomplete {
		loaded = t.gap(resume)
	}
	switch {
	case !loaded:
	case t.whole.count == 0:
		t.replace(t.whole, nil, func(*counts) {})
	default:
		t.store.writeNote(t.whole)
	}
	for going := loaded; going && len(t.todo) > 0; {
		b := t.todo[len(t.todo)-1]
		switch {
		case b.loss != nil:
			going = t.decide(b)
		case t.ordered && !b.rechecked && t.aside(true) != nil:
			going = t.recheck(true)
		case b.mustSplit && b.count > 1:
			going = t.cut(b, VerdictBisect, b.count/2)
		default:
			var out Outcome
			if out, going = t.attempt(b); going {
				going = t.act(b, out)
			}
		}
	}
	if len(t.todo) == 0 {
		for _, c := range t.whole.chunks {
			c.receipt.settle()
		}
		t.store.ack(t.whole.chunks...)
		t.env.settled(t.whole.chunks...)
	}
	t.env.finish(t)
}

// attempt makes an attempt as soon as it may. It reports false if Close ended sending
// first.
func (t *transmission) attempt(b *Batch) (Outcome, bool) {
	if !t.throttle.acquire(t.sending) {
		return Outcome{}, false
	}
	b.attempt++
	start := t.begin(b)
	out := t.send(t.sending, b)
	took := time.Since(start)
	if t.retry.Classify != nil {
		out = t.retry.Classify(out)
	}
	if out.Verdict == VerdictAuto {
		out.Verdict = VerdictAccepted
		if out.Err != nil {
			out.Verdict = VerdictRetry
		}
	}
	if out.RetryAfter > 0 && out.Verdict != VerdictAccepted {
		t.throttle.pause(min(out.RetryAfter, t.retry.MaxRetryAfter))
	}
	t.throttle.release(start, out.Verdict == VerdictAccepted, out.Overload)
	t.health.add(b, took, out.Verdict == VerdictAccepted)
	if t.hooks.OnAttempt != nil {
		t.hooks.OnAttempt(Attempt{b.key, b.lane, b.attempt, b.count, b.Size(), took, out})
	}
	return out, true
}

// begin notes that the batch is sent.
func (t *transmission) begin(b *Batch) time.Time {
	b.takesBefore, b.streak = t.health.now()
	now := time.Now()
	t.env.edit(func(*counts) {
		if t.whole.firstAttempt.IsZero() {
			t.whole.firstAttempt = now
		}
	})
	return now
}

// act handles the outcome of an attempt. It reports false if Close ended sending.
func (t *transmission) act(b *Batch, out Outcome) bool {
	switch out.Verdict {
	case VerdictAccepted:
		return t.accepted(b, out)
	case VerdictRetry:
		switch {
		case t.late():
			return t.giveUpBatch(b, ReasonExpired, out.Err)
		case t.exhausted(b):
			return t.isolate(b, out)
		}
		return t.backOff(b, "batch: trying again", out.Err)
	case VerdictPause:
		t.log.write(slog.LevelError, "batch: the receiver does not allow this sender, or the address is wrong; events are kept and their lane waits",
			"lane", t.lane.id, "status", out.Status, "retry_in", t.retry.Max, "waiting_events", t.env.unsent(), "err", out.Err)
		t.persistLate(b)
		return t.pause(t.retry.Max)
	case VerdictSplit:
		if b.count > 1 {
			t.log.write(slog.LevelWarn, "batch: the receiver takes only smaller batches; set a lower Trigger.Bytes",
				"bytes", b.Size(), "events", b.count)
			return t.cut(b, VerdictSplit, b.count/2)
		}
	case VerdictBisect:
		switch {
		case b.count > 1 && t.health.receiverSuspect():
			return t.cut(b, VerdictBisect, 1) // one event shows whether the events are at fault
		case b.count > 1:
			return t.cut(b, VerdictBisect, b.count/2)
		case !t.gapless: // a gapless lane stops immediately
			return t.suspect(b, out)
		}
	}
	return t.giveUpBatch(b, ReasonRefused, out.Err)
}

// late reports whether Retry.MaxElapsed has passed.
func (t *transmission) late() bool {
	return t.retry.MaxElapsed > 0 && time.Since(t.whole.firstAttempt) >= t.retry.MaxElapsed
}

// exhausted reports whether the batch has had Retry.Attempts.
func (t *transmission) exhausted(b *Batch) bool {
	return t.retry.Attempts > 0 && b.attempt >= t.retry.Attempts
}

var (
	errTooLate = errors.New("the receiver asks for the event again, but Retry.MaxElapsed has passed")
	errTooMany = errors.New("the receiver asks for the event again, but it has had Retry.Attempts")
)

// accepted settles a batch that the receiver accepted, except the refused events.
func (t *transmission) accepted(b *Batch, out Outcome) bool {
	if out.Err != nil {
		t.log.write(slog.LevelWarn, "batch: the receiver took a batch, with a problem", "err", out.Err)
	}
	again, bad := t.verdicts(b, out.Refused)
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
		case t.late():
			wanted.markLost(ReasonExpired, b.key, errTooLate)
		case t.exhausted(b):
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
	if !t.replace(b, next, func(n *counts) {
		n.InFlight -= uint64(delivered)
		n.Delivered += uint64(delivered)
		if out.Duplicate {
			n.Duplicates += uint64(delivered)
		}
	}) {
		return false
	}
	if delivered > 0 && t.hooks.OnDelivered != nil {
		t.hooks.OnDelivered(Delivery{b.key, b.lane, delivered, time.Since(t.whole.first), out.Duplicate})
	}
	if delivered > 0 && t.ordered && len(t.todo) > 0 {
		t.overtaken(b)
	}
	if !t.giveUp() || b.rechecked && !t.restore() {
		return false
	}
	if t.stale {
		t.recheck(false)
	}
	return wanted == nil || wanted.loss != nil || t.backOff(wanted, "batch: the receiver asks for some events again", nil)
}

// cut replaces a batch by two pieces: its first events, and the others.
func (t *transmission) cut(b *Batch, why Verdict, at int) bool {
	first, second := b.cut(at)
	switch {
	case why == VerdictBisect:
		first.sibling = second
	case why == VerdictRetry: // each has one attempt left
		first.attempt, second.attempt = b.attempt-1, b.attempt-1
	}
	return t.replace(b, []*Batch{second, first}, func(*counts) {})
}

// replace replaces b, which is the next batch, and counts its events under the same
// lock.
func (t *transmission) replace(b *Batch, next []*Batch, count func(*counts)) bool {
	return t.env.edit(func(n *counts) {
		t.todo = append(t.todo[:len(t.todo)-1], next...)
		count(n)
		if b.attempt > 0 {
			n.attempts.add(float64(b.attempt))
		}
		if b != t.whole {
			b.release()
		}
	})
}

// verdicts returns the parts of b to send again and the refusals to give up, each
// event once and in order.
func (t *transmission) verdicts(b *Batch, all []Refusal) (again []part, bad []Refusal) {
	if len(all) == 0 {
		return nil, nil
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(x, y Refusal) int { return x.Index - y.Index })
	last := -1
	for _, r := range all {
		if r.Index < 0 || r.Index >= b.count {
			t.log.write(slog.LevelWarn, "batch: the receiver refuses an event that is not in the batch", "index", r.Index, "events", b.count)
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
func (t *transmission) backOff(b *Batch, why string, err error) bool {
	t.persistLate(b)
	wait := t.delay(b.attempt)
	t.log.write(slog.LevelWarn, why, "attempt", b.attempt, "events", b.count, "retry_in", wait, "waiting_events", t.env.unsent(), "err", err)
	defer t.recheck(false)
	return t.sleep(wait, nil)
}

// delay returns how long to wait after a number of attempts.
func (t *transmission) delay(attempts int) time.Duration {
	bound := t.retry.bound(attempts)
	if isClosed(t.draining) {
		bound = min(bound, drainCap)
	}
	return jitter(bound)
}

// sleep waits for d, for resume, or until Close begins; after Close has begun, it waits
// for d. Without an order, other batches may be sent meanwhile. It reports false if
// Close ended sending.
func (t *transmission) sleep(d time.Duration, resume <-chan struct{}) bool {
	draining := t.draining
	if isClosed(t.draining) {
		draining = nil
	}
	defer t.env.leave(t)()
	return sleep(t.sending, d, draining, resume)
}

// persistLate writes a batch to disk after Spool.AfterAttempts attempts.
func (t *transmission) persistLate(b *Batch) {
	if t.disk != nil && b.attempt >= t.disk.AfterAttempts {
		t.store.persist(t.whole)
	}
}

// pause waits for d or for Resume. Close shortens the wait.
func (t *transmission) pause(d time.Duration) bool {
	resume := t.health.resumed()
	t.env.pause(t.lane, 1)
	defer t.env.pause(t.lane, -1)
	if isClosed(t.draining) {
		d = min(d, drainCap)
	}
	defer t.recheck(false)
	return t.sleep(d, resume)
}

// gap stops a gapless lane that has lost an event, until Resume or Close. The caller
// gets resume before it calls OnDrop, because OnDrop may call Resume.
func (t *transmission) gap(resume <-chan struct{}) bool {
	if !t.gapless {
		return true
	}
	t.log.write(slog.LevelError, "batch: an event is missing; its lane waits for Resume", "lane", t.lane.id)
	t.env.pause(t.lane, 1)
	select {
	case <-resume:
		t.env.pause(t.lane, -1)
		return true
	case <-t.draining:
		// Later events must not overtake the missing one: the lane stays as it is,
		// and Close keeps or returns its events.
		t.halted = true
		return false
	}
}
