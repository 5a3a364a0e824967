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
	for loaded && len(f.todo) > 0 {
		b := f.todo[len(f.todo)-1]
		if b.known && b.count > 1 {
			f.cut(b, Bisect)
			continue
		}
		out, ok := f.try(b)
		if !ok || !f.act(b, out) {
			break
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
	start := f.begin()
	out := f.send(f.sending, b)
	took := time.Since(start)
	if f.retry.Classify != nil {
		out = f.retry.Classify(out)
	}
	if out.Verdict == Auto {
		out.Verdict = Taken
		if out.Err != nil {
			out.Verdict = Again
		}
	}
	if out.After > 0 && out.Verdict != Taken {
		f.gate.shut(min(out.After, f.retry.MaxRetryAfter))
	}
	f.limit.release(start, out.Verdict == Taken, out.Overload)
	f.attempted(b, took)
	return out, true
}

// begin notes that the batch was sent.
func (f *flight) begin() time.Time {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.whole.tried.IsZero() {
		f.whole.tried = now
	}
	return now
}

func (p *pipeline) attempted(b *Batch, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	case Taken:
		return f.taken(b, out)
	case Again:
		if f.late() {
			resume := f.resuming()
			return f.give(b, Expired, out.Err) && f.gap(resume)
		}
		f.log.write(slog.LevelWarn, "batch: trying again", "attempt", b.attempt, "events", b.count, "err", out.Err)
		return f.backOff(b)
	case Pause:
		f.log.write(slog.LevelError, "batch: the receiver does not allow us; events are kept and their lane waits",
			"lane", f.lane.id, "status", out.Status, "err", out.Err)
		f.keepLate(b)
		return f.pause(f.retry.Cap)
	case Split:
		if b.count > 1 {
			f.log.write(slog.LevelWarn, "batch: the receiver takes only smaller batches; a lower Trigger.Bytes would spare it the others",
				"bytes", b.Size(), "events", b.count)
			return f.cut(b, Split)
		}
	case Bisect:
		if b.count > 1 {
			return f.cut(b, Bisect)
		}
	}
	resume := f.resuming()
	return f.give(b, Refused, out.Err) && f.gap(resume)
}

// late reports whether the batch's time is up.
func (f *flight) late() bool {
	return f.retry.Total > 0 && time.Since(f.whole.tried) >= f.retry.Total
}

var errWanted = errors.New("the receiver wants the event again, but its time is up")

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
	b.retain() // for the reports
	defer b.release()
	var next []*Batch
	delivered := b.count - len(bad)
	late := len(again) > 0 && f.late()
	if late {
		delivered -= len(again)
	} else if len(again) > 0 {
		p := b.piece(merge(again), "")
		p.stem, p.wanted, p.attempt = b.stem, b.wanted+1, b.attempt
		p.key = p.stem + ".r" + strconv.Itoa(p.wanted)
		next = []*Batch{p}
		delivered -= p.count
	}
	resume := f.resuming()
	if !f.end(b, next, func(n *counts) {
		n.flying -= uint64(delivered)
		n.delivered += uint64(delivered)
		n.drop(len(bad), Refused)
		if late {
			n.drop(len(again), Expired)
		}
		if out.Duplicate {
			n.duplicates += uint64(delivered)
		}
	}) {
		return false
	}
	if late {
		f.report(again, Expired, b.key, errWanted)
	}
	for _, r := range bad {
		f.report([]part{b.at(r.Index)}, Refused, b.key, rejection(r.Reason))
	}
	if (late || len(bad) > 0) && !f.gap(resume) {
		return false
	}
	return next == nil || f.backOff(next[0])
}

// give gives up the events of a batch.
func (f *flight) give(b *Batch, why Reason, err error) bool {
	b.retain() // for the report
	defer b.release()
	if !f.end(b, nil, func(n *counts) { n.drop(b.count, why) }) {
		return false
	}
	f.report(b.parts, why, b.key, err)
	return true
}

// cut replaces a batch by its halves.
func (f *flight) cut(b *Batch, why Verdict) bool {
	first, second := b.halves()
	if why == Bisect {
		first.other = second
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
	f.mu.counts.attempts.add(float64(b.attempt))
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

// backOff waits before the next attempt. Close cuts it short.
func (f *flight) backOff(b *Batch) bool {
	f.keepLate(b)
	bound := f.retry.bound(b.attempt)
	if f.closing() {
		return rest(f.sending, jitter(min(bound, drainCap)), nil, nil)
	}
	return rest(f.sending, jitter(bound), f.draining, nil)
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
		return rest(f.sending, min(d, drainCap), resume, nil)
	}
	return rest(f.sending, d, f.draining, resume)
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
func (p *pipeline) report(parts []part, why Reason, key string, err error) {
	for _, x := range parts {
		x.chunk.receipt.fail(x.from, x.to, &EventError{why, err})
	}
	d := Dropped{Reason: why, Key: key, Err: err}
	if p.onDrop != nil {
		d.Events = copies(parts, p.format)
	}
	p.tell(d)
}

func (p *pipeline) tell(d Dropped) {
	p.log.write(slog.LevelError, "batch: events are dropped", "reason", d.Reason.String(), "key", d.Key, "err", d.Err)
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
