package stream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A runner is a goroutine that starts processes, and evaluates how they have ended. It
// takes the lock once for several messages.
type runner struct {
	consumer *consumer
	size     int // how many tasks it takes
	tasks    []*task
	ended    []*task
	unready  []*message
	queued   []*message // that the queue of a sink has
	later    []*message // of groups, that begin later: the last one first
	taken    int        // messages of tasks, where a batch counts as one
	grouped  int        // of these, those of groups
	left     int        // of these, those that have gone on by themselves
	decoded  []decoded  // whose bodies are large
	whole    Message    // that is decoded now
}

// A decoded is a message whose body is large.
type decoded struct {
	message *message
	bytes   int64
}

// mostTasks is how many tasks a worker takes together. It takes fewer if they take long:
// others may be idle meanwhile.
const mostTasks = 32

func (w *runner) run() {
	for w.next() {
		w.consumer.flushLogs()
		for _, m := range w.unready {
			m.prepare(w.consumer.settling, &w.whole)
			w.weigh(m)
		}
		w.decide(0)
		if len(w.tasks) == 0 {
			continue
		}
		began, before := time.Now(), len(w.ended)
		for _, t := range w.tasks {
			if w.begin(t) {
				w.ended = append(w.ended, t)
			}
		}
		w.decide(before)
		switch took := time.Since(began); {
		case took > time.Millisecond:
			w.size = max(w.size/2, 1)
		case took < 200*time.Microsecond && w.taken == w.size:
			w.size = min(2*w.size, mostTasks)
		}
	}
}

// decide says what follows for the tasks that have ended, from one on.
func (w *runner) decide(from int) {
	for i := from; i < len(w.ended); i++ {
		t := w.ended[i]
		if t.group {
			if t.keepTogether(); len(t.messages) == 0 {
				continue
			}
			if t.resp.IsError() {
				w.ended = t.split(w.ended)
			}
		}
		t.decide()
	}
}

// weigh counts the body of a message that the worker has decoded.
func (w *runner) weigh(m *message) {
	if n := int64(m.body.Size()); n >= largeBody && m.large == 0 {
		w.consumer.account.Hold(n)
		w.decoded = append(w.decoded, decoded{m, n})
	}
}

// weighed notes what is freed with each message. The caller holds the lock.
func (w *runner) weighed() {
	for _, d := range w.decoded {
		if d.message.state == stateGone || d.message.large > 0 {
			w.consumer.account.Free(d.bytes)
		} else {
			d.message.large = d.bytes
		}
	}
	clear(w.decoded)
	w.decoded = w.decoded[:0]
}

// next hands in what the worker has done, and waits for more to do. It returns false in
// the end.
func (w *runner) next() bool {
	c := w.consumer
	c.mu.Lock()
	defer c.mu.Unlock()
	w.handIn()
	for {
		w.ended = c.workers.ended(w.ended, mostTasks)
		share := min(w.size, (c.due.len()+c.order.n)/c.workers.n+1)
		for w.taken < share {
			t := c.nextTask(share - w.taken)
			if t == nil {
				break
			}
			w.tasks = append(w.tasks, t)
			if w.taken++; t.group {
				w.taken += len(t.messages) - 1
			}
		}
		// What is ready goes first: so a message is still in the processor's cache when its
		// process begins.
		for w.taken < w.size && c.taken < c.unready.len() && len(w.unready) < mostTasks {
			w.unready = append(w.unready, c.unready.items[c.unready.head+c.taken])
			c.taken++
		}
		if len(w.tasks)+len(w.ended)+len(w.unready) > 0 {
			c.wake()
			if c.mu.wants && c.starved() {
				c.roomier()
			}
			return true
		}
		if c.mu.closing {
			return false
		}
		c.workers.wait()
	}
}

// handIn hands in what the worker has done. The caller holds the lock.
func (w *runner) handIn() {
	c := w.consumer
	w.weighed()
	for _, m := range w.unready {
		m.prepared = true
	}
	if len(w.unready) > 0 {
		c.enqueue()
	}
	for _, m := range w.queued {
		if m.handoff == handoffOpen { // it has not ended meanwhile
			c.order.handOff(m)
		}
	}
	if w.grouped > 0 {
		c.grouping.took(w.grouped, w.left+len(w.later))
		c.putBack(w.later)
	}
	for _, t := range w.ended {
		c.conclude(t)
	}
	clear(w.later)
	w.later, w.taken, w.grouped, w.left = w.later[:0], 0, 0, 0
	clear(w.tasks)
	clear(w.ended)
	clear(w.unready)
	clear(w.queued)
	w.tasks, w.ended, w.unready, w.queued, w.whole = w.tasks[:0], w.ended[:0], w.unready[:0], w.queued[:0], Message{}
}

// workers are the goroutines that run processes, and the tasks whose process has ended while
// none of them looked. Those have a lock of their own, so that those who end processes do not
// wait for the workers.
type workers struct {
	n    int
	idle atomic.Int32 // that wait and are not woken; changed with the consumer's lock held
	work sync.Cond    // there may be something to do

	over atomic.Int64 // how many tasks have ended
	mu   struct {
		sync.Mutex
		tasks fifo[*task]
	}
}

// wait waits for something to do. The caller holds the lock.
func (w *workers) wait() {
	if w.idle.Add(1); w.over.Load() > 0 { // who ended a task may not have seen that this one waits
		w.idle.Add(-1)
		return
	}
	w.work.Wait()
}

// wakeOne wakes a worker, if one waits. The caller holds the lock.
func (w *workers) wakeOne() {
	if w.idle.Load() > 0 {
		w.idle.Add(-1)
		w.work.Signal()
	}
}

// wakeAll wakes all workers. The caller holds the lock.
func (w *workers) wakeAll() {
	w.idle.Store(0)
	w.work.Broadcast()
}

// end takes a task whose process has ended. Any goroutine calls it, without the lock.
func (w *workers) end(t *task) {
	w.mu.Lock()
	w.mu.tasks.push(t)
	w.over.Add(1)
	w.mu.Unlock()
	if w.idle.Load() > 0 {
		w.work.L.Lock()
		defer w.work.L.Unlock()
		w.wakeOne()
	}
}

// ended moves tasks that have ended, until there are as many as most.
func (w *workers) ended(into []*task, most int) []*task {
	if w.over.Load() == 0 {
		return into
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.mu.tasks.len() > 0 && len(into) < most {
		into = append(into, w.mu.tasks.pop())
		w.over.Add(-1)
	}
	return into
}

// wake wakes another worker if there is more to do. The caller holds the lock.
func (c *consumer) wake() {
	if c.workers.idle.Load() > 0 && (c.due.len() > 0 || c.workers.over.Load() > 0 || c.taken < c.unready.len() || c.begins()) {
		c.workers.wakeOne()
	}
}

// begins reports whether messages that have not begun may begin now. The caller holds the
// lock.
func (c *consumer) begins() bool {
	g := c.generations.Current()
	if c.order.n == 0 || g == nil || c.short(g.running) {
		return false
	}
	if c.batcher.due(c.order.n, c.order.bytes) || c.mu.draining || c.mu.ended ||
		c.inFlight.n >= c.settings.limit || c.inFlight.bytes >= c.settings.bytes {
		return true
	}
	c.batcher.arm()
	return false
}

// A batcher says when a batch is due. The consumer guards it.
type batcher struct {
	batching
	env      batchEnv
	armed    bool // there is a timer for the next batch
	lingered bool // the messages of the next batch have waited long enough
}

// A batchEnv is what a batcher needs of its consumer.
type batchEnv struct {
	lock  sync.Locker
	after func(time.Duration, func(context.Context)) (stop func() bool)
	waits func() bool // whether there are messages for a batch; called with the lock
	wake  func()      // a batch is due; called with the lock
}

// due reports whether so many messages, of so many bytes, are a batch.
func (b *batcher) due(n int, bytes int64) bool {
	return b.count == 0 || b.linger == 0 || n >= b.count || bytes >= b.bytes || b.lingered
}

// arm makes a batch due that is not full, when its messages have lingered.
func (b *batcher) arm() {
	if b.armed {
		return
	}
	b.armed = true
	b.env.after(b.linger, func(context.Context) {
		b.env.lock.Lock()
		defer b.env.lock.Unlock()
		b.armed, b.lingered = false, b.env.waits()
		b.env.wake()
	})
}

// nextTask returns the next task to run, or nil: a group has at most so many messages. The caller
// holds the lock.
func (c *consumer) nextTask(most int) *task {
	for c.due.len() > 0 {
		t := c.due.pop()
		if c.settler.drop(t) {
			c.launch(t)
			return t
		}
		c.settler.proceed(t)
	}
	if !c.begins() {
		return nil
	}
	t := c.tasks.make()
	if count := c.settings.batch.count; count == 0 {
		n := 1
		if most > 1 && c.mayGroup() {
			n = c.grouping.next(most)
		}
		t.messages = c.takeGroup(t.messages, n)
		t.group = len(t.messages) > 1
	} else {
		t.messages = c.order.take(slices.Grow(t.messages, min(count, c.order.n)), count, c.settings.batch.bytes)
		c.batcher.lingered = false
	}
	if len(t.messages) == 0 {
		c.settler.recycle(t)
		return nil
	}
	c.launch(t)
	return t
}

// launch says that the process of a task begins. The caller holds the lock.
func (c *consumer) launch(t *task) {
	g := c.generations.Current()
	t.generation = g
	g.running++
	c.quarantine.began(t, g.running == 1)
	t.letter = t.letter && g.letters
	for _, m := range t.messages {
		m.state, m.again, m.begun = stateRuns, m.begun, true
	}
}

// conclude notes that the process of a task has ended. The caller holds the lock.
func (c *consumer) conclude(t *task) {
	g := t.generation
	c.runEnded(t)
	if g.running--; g.running == 0 && g.idle != nil {
		close(g.idle)
	}
	c.quarantine.ended(t, t.group || t.verdict == verdictGood)
	if t.group {
		c.concludeGroup(t)
		return
	}
	m := t.messages[0]
	if !c.mayQueue(m) {
		c.follow(t)
		return
	}
	q := m.queue
	if c.order.answered(m); t.verdict == verdictGood {
		c.follow(t)
	} else {
		q.failed = append(q.failed, t)
	}
	c.joinFailed(q)
}

// joinFailed goes on with what has failed of a queue when nothing else of it is under way.
func (c *consumer) joinFailed(q *keyQueue) {
	if q.queued == 0 && len(q.failed) > 0 && q.out == len(q.failed) {
		c.follow(c.settler.join(q))
	}
}

// mayQueue reports whether the next message of the queue may begin when a sink has queued
// this one, which runs: at the first attempt, as what has failed goes on alone.
func (c *consumer) mayQueue(m *message) bool {
	return c.settings.order == OrderRecord && c.settings.batch.count == 0 && m.Key == "" && !m.again
}

// follow does what the verdict on a task says. The caller holds the lock.
func (c *consumer) follow(t *task) {
	g := t.generation
	t.generation = nil
	switch {
	case t.verdict == verdictHeld: // also where the system would deliver again, as that counts deliveries
		t.rests()
		for _, m := range t.messages {
			m.err = t.err
		}
		c.outages.hold(t, c.inFlight.n, c.clock.Now())
		c.later(t)
	case t.verdict == verdictStopped && c.generations.Current() == g:
		t.rests()
		c.later(t)
	default:
		if t.verdict != verdictStopped {
			c.outages.end(t)
		}
		c.settler.follow(t)
	}
}

// The functions of the settler, the retrier and the quarantine. The caller holds the lock.

// later repeats a task after a while.
func (c *consumer) later(t *task) {
	if c.mu.expired || c.mu.draining && c.returns() {
		c.settler.returned(t, 0)
		return
	}
	c.retrier.wait(t, c.wait(t))
}

// wait returns how long the next attempt waits.
func (c *consumer) wait(t *task) time.Duration {
	failed := max(1, t.outage.waits)
	for _, m := range t.messages {
		failed = max(failed, m.failed+m.Attempt)
	}
	asked := time.Duration(0)
	if t.err != nil {
		asked = node.Describe(t.err).RetryAfter
	}
	return c.generations.Current().settings.retry.wait(failed, asked)
}

// again lets a task run whose wait is over.
func (c *consumer) again(t *task) {
	if t.suspected() {
		c.quarantine.add(t)
	} else {
		c.ready(t)
	}
}

func (c *consumer) ready(t *task) {
	c.due.push(t)
	c.workers.wakeOne()
}

// over notes that a task has no more messages.
func (c *consumer) over(t *task) {
	c.outages.end(t)
	c.quarantine.ended(t, true)
}

// fate says what follows for a message whose attempts are used up. Without a link of the port
// error, it is stuck, which is logged once a minute.
func (c *consumer) fate(m *message) fate {
	switch {
	case c.generations.Current().letters:
		return fateLetter
	case c.replies.final(m):
		return fateOver
	case c.settings.job:
		c.abort(fmt.Errorf("a message has failed, and the port error of the source is not linked: %w", m.err))
		return fateEnded
	}
	if !m.stuck {
		m.stuck = true
		c.inFlight.stuck++
	}
	if now := c.clock.Now(); now.Sub(c.mu.loggedAt) >= time.Minute {
		c.mu.loggedAt = now
		c.logLater(c.log.Error)("a message is stuck: it fails, and the port error is not linked", "stuck", c.inFlight.stuck+c.inFlight.away, "attempts", m.failed+m.Attempt, "error", m.err)
	}
	return fateStuck
}

// begin starts the process of a task. It reports whether that has ended already, or
// could not begin.
func (w *runner) begin(t *task) (ended bool) {
	if t.group {
		return w.beginGroup(t)
	}
	t.verdict = verdictNone
	for _, m := range t.messages {
		m.decode(t.generation.settings.decode, &w.whole)
		w.weigh(m)
		if m.broken != nil && !t.letter {
			t.verdict = verdictBroken
		}
	}
	if t.verdict == verdictBroken {
		return true
	}
	if d := t.generation.settings.durability; d != nil && !t.letter {
		if begun, ended := w.beginRun(t, d); begun || ended {
			return ended
		}
	}
	t.phase.Store(phaseStarts)
	m, mayQueue := t.messages[0], w.consumer.mayQueue(t.messages[0])
	if queued := t.generation.starter.Start(w.context(t), t.judge(), t.result(w.consumer.settings.batch.count > 0), t.finish); queued && mayQueue {
		w.queued = append(w.queued, m)
	}
	return !t.phase.CompareAndSwap(phaseStarts, phaseParked)
}

// context returns the context of the processes of a task that begins now.
func (w *runner) context(t *task) context.Context {
	if c := w.consumer.contexts; c != nil {
		return c.Context(t.generation.ctx)
	}
	return t.generation.ctx
}

// result is what the process of a task begins with.
func (t *task) result(batch bool) node.Result {
	invariant.Check(batch || len(t.messages) == 1, "%d messages in a process without a batch", len(t.messages))
	switch {
	case t.letter:
		return node.Fail(t.messages[0].deadLetter(t.err))
	case !batch:
		return node.Send(0, t.messages[0].payload())
	}
	payloads := make([]value.Value, len(t.messages))
	for i, m := range t.messages {
		payloads[i] = m.payload()
	}
	return node.Send(0, value.List(payloads...))
}

// enqueue puts the messages whose key is known into their queues, in the order in which
// they were read. The caller holds the lock.
func (c *consumer) enqueue() {
	for c.unready.len() > 0 && c.unready.items[c.unready.head].prepared {
		m := c.unready.pop()
		c.taken--
		switch {
		case m.state == stateGone:
		case m.broken != nil:
			c.order.push(&c.order.all, m)
		default:
			c.order.push(c.order.keyed(&c.order.keys, m.key), m)
		}
	}
}

// prepare decodes the message and finds its key.
func (m *message) prepare(ctx context.Context, whole *Message) {
	c := m.consumer
	m.decode(c.settings.decode, whole)
	if m.broken != nil {
		return
	}
	v, err := c.settings.key.Eval(ctx, m.payload())
	if err == nil {
		var ok bool
		if m.key, ok = v.AsString(); ok {
			return
		}
		var text []byte
		text, err = v.AppendJSON(nil)
		m.key = string(text)
	}
	if err != nil {
		m.broken = keyError(err)
	}
}
