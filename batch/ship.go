package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"slices"
	"strconv"
	"time"
)

// drainCap bounds the back-off while Close waits: what is not sent then is not
// sent by this processor.
const drainCap = 250 * time.Millisecond

// labelled makes goroutines tell in profiles what they are for.
func (p *pipeline) labelled(what string, f func()) func() {
	return func() {
		pprof.Do(context.Background(), pprof.Labels("batch", what), func(context.Context) { f() })
	}
}

func (p *pipeline) batchKey(lane int, seq uint64) string {
	return fmt.Sprintf("%s/%d/%d/%d", p.producer, p.epoch, lane, seq)
}

// A flight brings one batch to its end: each event is delivered or dropped, or
// Close wants it back. One goroutine owns it.
type flight struct {
	*pipeline
	lane  *lane
	whole *Batch
	todo  []*Batch // the batch or pieces of it, the next one last; changed under the pipeline's lock

	probes   int  // events that may be refused in doubt before the lane waits again
	resumed  bool // Resume ended the last wait
	stale    bool // events that were refused in doubt have waited; see recheck
	restored int  // how often restore has made a piece
}

// run sends until nothing is left to do, or Close has ended sending.
func (f *flight) run() {
	resume := f.resuming()
	loaded := f.load(f.whole)
	if loaded && f.whole.short {
		loaded = f.gap(resume)
	}
	switch {
	case !loaded:
	case f.whole.count == 0:
		f.end(f.whole, nil, func(*counts) {})
	default:
		f.note(f.whole)
	}
	for going := loaded; going && len(f.todo) > 0; {
		b := f.todo[len(f.todo)-1]
		switch {
		case b.loss != nil:
			going = f.conclude(b)
		case b.known && b.count > 1:
			going = f.cut(b, VerdictBisect, b.count/2)
		default:
			var out Outcome
			if out, going = f.try(b); going {
				going = f.act(b, out)
			}
		}
	}
	if len(f.todo) == 0 {
		f.settle(f.whole)
	}
	f.land()
	f.nudge()
}

// try makes an attempt, as soon as one may be made. It reports false when Close
// ended sending first.
func (f *flight) try(b *Batch) (Outcome, bool) {
	for {
		if !f.gate.pass(f.sending) || !f.limit.acquire(f.sending) {
			return Outcome{}, false
		}
		if f.gate.rest() <= 0 {
			break
		}
		f.limit.release(time.Time{}, false, false) // it shut meanwhile
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
		f.gate.shut(min(out.RetryAfter, f.retry.MaxRetryAfter))
	}
	f.limit.release(start, out.Verdict == VerdictAccepted, out.Overload)
	f.attempted(b, took, out.Verdict == VerdictAccepted)
	if f.hooks.OnAttempt != nil {
		f.hooks.OnAttempt(Attempt{b.key, b.lane, b.attempt, b.count, b.Size(), took, out})
	}
	return out, true
}

// begin notes that the batch is sent.
func (f *flight) begin(b *Batch) time.Time {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	b.seen = f.mu.takes
	if f.whole.tried.IsZero() {
		f.whole.tried = now
	}
	return now
}

func (p *pipeline) attempted(b *Batch, took time.Duration, taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if taken {
		p.mu.takes++
		p.mu.streak = 0
	}
	p.mu.counts.requests++
	p.mu.counts.latency.add(took.Seconds())
	if b.attempt > 1 {
		p.mu.counts.retried += uint64(b.count)
	}
}

// act does what the outcome of an attempt asks for. It reports false when Close
// ended sending.
func (f *flight) act(b *Batch, out Outcome) bool {
	switch out.Verdict {
	case VerdictAccepted:
		return f.taken(b, out)
	case VerdictRetry:
		switch {
		case f.late():
			return f.lose(b, ReasonExpired, out.Err)
		case f.exhausted(b):
			return f.isolate(b, out)
		}
		return f.backOff(b, "batch: trying again", out.Err)
	case VerdictPause:
		f.log.write(slog.LevelError, "batch: the receiver does not allow us, or the address is wrong; events are kept and their lane waits",
			"lane", f.lane.id, "status", out.Status, "retry_in", f.retry.Max, "waiting_events", f.waiting(), "err", out.Err)
		f.keepLate(b)
		return f.pause(f.retry.Max)
	case VerdictSplit:
		if b.count > 1 {
			f.log.write(slog.LevelWarn, "batch: the receiver takes only smaller batches; a lower Trigger.Bytes would spare it the others",
				"bytes", b.Size(), "events", b.count)
			return f.cut(b, VerdictSplit, b.count/2)
		}
	case VerdictBisect:
		switch {
		case b.count > 1 && f.doubtful():
			return f.cut(b, VerdictBisect, 1) // one event will tell whether it is the events
		case b.count > 1:
			return f.cut(b, VerdictBisect, b.count/2)
		case !f.gapless: // which stops at once
			return f.doubt(b, out)
		}
	}
	return f.lose(b, ReasonRefused, out.Err)
}

// late reports whether the batch's time is up.
func (f *flight) late() bool {
	return f.retry.MaxElapsed > 0 && time.Since(f.whole.tried) >= f.retry.MaxElapsed
}

// exhausted reports whether the batch has had its attempts.
func (f *flight) exhausted(b *Batch) bool {
	return f.retry.Attempts > 0 && b.attempt >= f.retry.Attempts
}

var (
	errTooLate = errors.New("the receiver wants the event again, but its time is up")
	errTooMany = errors.New("the receiver wants the event again, but it has had its attempts")
)

// taken settles a batch the receiver took, but for the events it did not.
func (f *flight) taken(b *Batch, out Outcome) bool {
	if out.Err != nil {
		f.log.write(slog.LevelWarn, "batch: taken, but", "err", out.Err)
	}
	again, bad := f.verdicts(b, out.Rejected)
	if b.other != nil && len(bad) == 0 && len(again) == 0 {
		// The batch the two are halves of could not be taken: the other half
		// is why, and sending it whole would tell nothing new.
		b.other.known = true
	}
	b.retain() // for the hook
	defer b.release()
	delivered := b.count - len(bad) - len(again)
	var next []*Batch
	var wanted *Batch
	if len(again) > 0 {
		wanted = b.piece(merge(again), "")
		wanted.stem, wanted.wanted, wanted.attempt = b.stem, b.wanted+1, b.attempt
		wanted.key = wanted.stem + ".r" + strconv.Itoa(wanted.wanted)
		switch {
		case f.late():
			wanted.lost(ReasonExpired, b.key, errTooLate)
		case f.exhausted(b):
			wanted.lost(ReasonExhausted, b.key, errTooMany)
		}
		if wanted.loss != nil {
			wanted.attempt = 0 // its attempts were b's
		}
		next = append(next, wanted)
	}
	for _, r := range slices.Backward(bad) {
		piece := b.piece([]part{b.at(r.Index)}, "")
		piece.lost(ReasonRefused, b.key, rejection(r.Reason))
		next = append(next, piece)
	}
	if !f.end(b, next, func(n *counts) {
		n.flying -= uint64(delivered)
		n.delivered += uint64(delivered)
		if out.Duplicate {
			n.duplicates += uint64(delivered)
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
	if !f.giveUp() || b.again && !f.restore() {
		return false
	}
	if f.stale {
		f.recheck()
	}
	return wanted == nil || wanted.loss != nil || f.backOff(wanted, "batch: the receiver wants some events again", nil)
}

// cut replaces a batch by its first events and the others.
func (f *flight) cut(b *Batch, why Verdict, at int) bool {
	first, second := b.cut(at)
	switch {
	case why == VerdictBisect:
		first.other = second
	case why == VerdictRetry: // each has one attempt left
		first.attempt, second.attempt = b.attempt-1, b.attempt-1
	}
	return f.end(b, []*Batch{second, first}, func(*counts) {})
}

// end replaces the batch that is next, and counts what became of its events, at
// one moment. It reports false when Close has taken the flight over.
func (f *flight) end(b *Batch, next []*Batch, count func(*counts)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.abandoned {
		return false
	}
	f.todo = append(f.todo[:len(f.todo)-1], next...)
	count(&f.mu.counts)
	if b.attempt > 0 {
		f.mu.counts.attempts.add(float64(b.attempt))
	}
	if b != f.whole {
		b.release()
	}
	return true
}

// verdicts are the parts of b to send again, and the events refused, each once
// and in order.
func (f *flight) verdicts(b *Batch, all []Rejected) (again []part, bad []Rejected) {
	if len(all) == 0 {
		return nil, nil
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(x, y Rejected) int { return x.Index - y.Index })
	last := -1
	for _, r := range all {
		if r.Index < 0 || r.Index >= b.count {
			f.log.write(slog.LevelWarn, "batch: the receiver rejects an event which is not in the batch", "index", r.Index, "events", b.count)
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

// merge joins parts that follow each other.
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

// rejection is what a receiver says about an event.
type rejection string

// Error implements error.
func (r rejection) Error() string { return string(r) }

// backOff says why, and waits before the next attempt. Close cuts it short.
func (f *flight) backOff(b *Batch, why string, err error) bool {
	f.keepLate(b)
	wait := f.delay(b.attempt)
	f.log.write(slog.LevelWarn, why, "attempt", b.attempt, "events", b.count, "retry_in", wait, "waiting_events", f.waiting(), "err", err)
	defer f.recheck()
	return f.stand(wait, nil)
}

// delay is how long to wait after so many attempts.
func (f *flight) delay(attempts int) time.Duration {
	bound := f.retry.bound(attempts)
	if f.closing() {
		bound = min(bound, drainCap)
	}
	return jitter(bound)
}

// stand waits for d, for resume, or until Close begins; when it has begun, for d.
// Where no order asks for it, the batch does not keep others from being sent
// meanwhile. It reports false when Close ended sending.
func (f *flight) stand(d time.Duration, resume <-chan struct{}) bool {
	draining := f.draining
	if f.closing() {
		draining = nil
	}
	room := f.stop()
	defer f.goOn(room)
	f.nudge()
	return rest(f.sending, d, draining, resume)
}

// waiting is the number of events that are accepted and not settled, but for those
// of open chunks.
func (p *pipeline) waiting() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.counts.queued + p.mu.counts.spooled + p.mu.counts.flying
}

// An aside is the batches that wait for their next attempt without a place in
// their lane.
type aside struct {
	batches, events int
	bytes           int64 // of memory
}

// stop begins a wait. It gives the flight's place in its lane to another, and
// reports that, unless order forbids it or those that wait take too much memory.
func (f *flight) stop() (room aside) {
	one := aside{1, f.whole.count, 0}
	for _, c := range f.whole.chunks {
		one.bytes += int64(cap(c.arena.buf))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.standing++
	all := &f.mu.aside
	if f.ordered || all.batches >= f.lanesMax && (all.events+one.events > f.maxEvents/4 || all.bytes+one.bytes > f.maxBytes/4) {
		return aside{}
	}
	f.stepLocked(one, 1)
	f.lookLocked(f.lane)
	return one
}

// goOn ends a wait.
func (f *flight) goOn(room aside) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.standing--
	f.stepLocked(room, -1)
}

func (f *flight) stepLocked(one aside, n int) {
	f.lane.flights -= n * one.batches
	f.lane.aside += n * one.batches
	f.mu.aside.batches += n * one.batches
	f.mu.aside.events += n * one.events
	f.mu.aside.bytes += int64(n) * one.bytes
}

// keepLate writes a batch to disk that was tried too often.
func (f *flight) keepLate(b *Batch) {
	if f.disk != nil && b.attempt >= f.disk.AfterAttempts {
		f.keep(f.whole)
	}
}

// pause waits for so long or for Resume. Close cuts it short.
func (f *flight) pause(d time.Duration) bool {
	resume := f.resuming()
	f.rests(1)
	defer f.rests(-1)
	if f.closing() {
		d = min(d, drainCap)
	}
	defer f.recheck()
	return f.stand(d, resume)
}

// resuming is closed by the next Resume.
func (p *pipeline) resuming() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.resume
}

// rests counts a flight of the lane that waits for Resume.
func (f *flight) rests(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lane.paused += n
}

// gap stops a lane without gaps after it has lost an event, until Resume or Close.
// The caller has asked for resume before it told OnDrop, which may call Resume.
func (f *flight) gap(resume <-chan struct{}) bool {
	if !f.gapless {
		return true
	}
	f.log.write(slog.LevelError, "batch: an event is missing; its lane waits for Resume", "lane", f.lane.id)
	f.rests(1)
	select {
	case <-resume:
		f.rests(-1)
		return true
	case <-f.draining:
		// What follows must not overtake what is missing: the lane stays as it
		// is, and Close keeps or returns its events.
		f.halt()
		return false
	}
}

func (f *flight) halt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lane.halted = true
}

// land makes room in the lane for the next batch. What is not settled stays as it
// is, for Close.
func (f *flight) land() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lane.flights--
	f.lookLocked(f.lane)
	if !f.mu.abandoned && len(f.todo) == 0 {
		delete(f.mu.flights, f)
		f.whole.release()
	}
	f.drainedLocked()
}

// countDrop counts events on the way as dropped.
func (p *pipeline) countDrop(n int, why Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.abandoned {
		return
	}
	p.mu.counts.drop(n, why)
}

// report tells tickets, OnDrop and the log about dropped events.
func (p *pipeline) report(parts []part, d Dropped) {
	n := 0
	for _, x := range parts {
		x.chunk.receipt.fail(x.from, x.to, &EventError{d.Reason, d.Err})
		n += x.n()
	}
	if p.onDrop != nil && d.Events == nil {
		d.Events = copies(parts, p.format)
	}
	p.tell(d, n)
}

// tell tells OnDrop and the log about n events.
func (p *pipeline) tell(d Dropped, n int) {
	level, msg := slog.LevelError, "batch: events are dropped"
	if d.DeadLettered {
		level, msg = slog.LevelWarn, "batch: events are dead letters"
	}
	p.log.write(level, msg, "reason", d.Reason.String(), "events", n, "key", d.Key, "err", d.Err)
	if p.onDrop != nil {
		p.onDrop(d)
	}
}

// settle ends the chunks of a batch of which nothing is left to do.
func (p *pipeline) settle(b *Batch) {
	for _, c := range b.chunks {
		c.receipt.settle()
	}
	p.forget(b.chunks...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range b.chunks {
		p.unlistLocked(c)
	}
}
