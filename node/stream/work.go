package stream

import (
	"context"
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
	*session
	size    int // how many tasks it takes
	tasks   []*task
	ended   []*task
	unready []*message
	queued  []*message // that the queue of a sink has
	decoded []decoded  // whose bodies are large
	whole   Message    // that is decoded now
}

// mostTasks is how many tasks a worker takes together. It takes fewer if they take long:
// others may be idle meanwhile.
const mostTasks = 32

func (w *runner) run() {
	for w.next() {
		w.tell()
		for _, m := range w.unready {
			m.prepare(w.settling, &w.whole)
			w.weigh(m)
		}
		for _, t := range w.ended {
			w.judge(t)
		}
		if len(w.tasks) == 0 {
			continue
		}
		began := time.Now()
		for _, t := range w.tasks {
			if w.begin(t) {
				w.judge(t)
				w.ended = append(w.ended, t)
			}
		}
		switch took := time.Since(began); {
		case took > time.Millisecond:
			w.size = max(w.size/2, 1)
		case took < 200*time.Microsecond && len(w.tasks) == w.size:
			w.size = min(2*w.size, mostTasks)
		}
	}
}

// next hands in what the worker has done, and waits for more to do. It returns false in
// the end.
func (w *runner) next() bool {
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
	w.weighed()
	for _, m := range w.unready {
		m.prepared = true
	}
	if len(w.unready) > 0 {
		s.lineUp()
	}
	for _, m := range w.queued {
		if m.passage == passageOpen { // it has not ended meanwhile
			s.mu.order.queue(m)
		}
	}
	for _, t := range w.ended {
		s.conclude(t)
	}
	clear(w.tasks)
	clear(w.ended)
	clear(w.unready)
	clear(w.queued)
	w.tasks, w.ended, w.unready, w.queued, w.whole = w.tasks[:0], w.ended[:0], w.unready[:0], w.queued[:0], Message{}
	for {
		w.ended = s.over.take(w.ended, mostTasks)
		share := min(w.size, (s.mu.again.len()+s.mu.order.n)/s.workers+1)
		for len(w.tasks) < share {
			t := s.nextTask()
			if t == nil {
				break
			}
			w.tasks = append(w.tasks, t)
		}
		// What is ready goes first: so a message is still in the processor's cache when its
		// process begins.
		for len(w.tasks) < w.size && s.mu.taken < s.mu.unready.len() && len(w.unready) < mostTasks {
			w.unready = append(w.unready, s.mu.unready.items[s.mu.unready.head+s.mu.taken])
			s.mu.taken++
		}
		if len(w.tasks)+len(w.ended)+len(w.unready) > 0 {
			s.wake()
			if s.mu.wants && s.mu.order.n == 0 {
				s.roomier()
			}
			return true
		}
		if s.mu.closing {
			return false
		}
		if s.idle.Add(1); s.over.len() > 0 { // who pushed may not have seen that this one waits
			s.idle.Add(-1)
			continue
		}
		s.work.Wait()
	}
}

// wakeOne wakes a worker, if one waits. The caller holds the lock.
func (s *session) wakeOne() {
	if s.idle.Load() > 0 {
		s.idle.Add(-1)
		s.work.Signal()
	}
}

// wakeAll wakes all workers. The caller holds the lock.
func (s *session) wakeAll() {
	s.idle.Store(0)
	s.work.Broadcast()
}

// An endings is the tasks whose process has ended while no worker looked. It has a lock of
// its own, so that those who end processes do not wait for the workers.
type endings struct {
	n  atomic.Int64
	mu struct {
		sync.Mutex
		tasks fifo[*task]
	}
}

func (e *endings) len() int { return int(e.n.Load()) }

func (e *endings) push(t *task) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.tasks.push(t)
	e.n.Add(1)
}

// take moves tasks, until there are as many as most.
func (e *endings) take(into []*task, most int) []*task {
	if e.len() == 0 {
		return into
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.mu.tasks.len() > 0 && len(into) < most {
		into = append(into, e.mu.tasks.pop())
		e.n.Add(-1)
	}
	return into
}

// wake wakes another worker if there is more to do. The caller holds the lock.
func (s *session) wake() {
	if s.idle.Load() > 0 && (s.mu.again.len() > 0 || s.over.len() > 0 || s.mu.taken < s.mu.unready.len() || s.due()) {
		s.wakeOne()
	}
}

// due reports whether messages that have not begun may begin now. The caller holds the
// lock.
func (s *session) due() bool {
	o, b := &s.mu.order, &s.settings.batch
	if o.n == 0 || s.mu.front == nil || s.short(s.mu.front.running) {
		return false
	}
	if b.count == 0 || b.linger == 0 || o.n >= b.count || o.bytes >= b.bytes || s.mu.lingered || s.mu.draining || s.mu.ended ||
		s.mu.inFlight >= s.settings.limit || s.mu.bytes >= s.settings.bytes {
		return true
	}
	if !s.mu.lingers {
		s.mu.lingers = true
		s.clock.AfterFunc(b.linger, func(context.Context) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mu.lingers, s.mu.lingered = false, s.mu.order.n > 0
			s.wakeOne()
		})
	}
	return false
}

// nextTask returns the next task to run, or nil. The caller holds the lock.
func (s *session) nextTask() *task {
	for s.mu.again.len() > 0 {
		t := s.mu.again.pop()
		if s.drop(t) {
			s.launch(t)
			return t
		}
		s.proceed(t)
	}
	if !s.due() {
		return nil
	}
	t := s.newTask()
	if count := s.settings.batch.count; count == 0 {
		t.messages = s.mu.order.take(t.messages, 1, 0)
	} else {
		t.messages = s.mu.order.take(slices.Grow(t.messages, min(count, s.mu.order.n)), count, s.settings.batch.bytes)
		s.mu.lingered = false
	}
	if len(t.messages) == 0 {
		s.recycle(t)
		return nil
	}
	s.launch(t)
	return t
}

// launch says that the process of a task begins. The caller holds the lock.
func (s *session) launch(t *task) {
	f := s.mu.front
	t.front = f
	f.running++
	s.company(t)
	t.letter = t.letter && f.letters
	for _, m := range t.messages {
		m.state, m.again, m.begun = stateRuns, m.begun, true
	}
}

// begin starts the process of a task. It reports whether that has ended already, or
// could not begin.
func (w *runner) begin(t *task) (ended bool) {
	t.verdict = verdictNone
	for _, m := range t.messages {
		m.decode(t.front.settings.decode, &w.whole)
		w.weigh(m)
		if m.broken != nil && !t.letter {
			t.verdict = verdictBroken
		}
	}
	if t.verdict == verdictBroken {
		return true
	}
	t.phase.Store(phaseStarts)
	m, mayQueue := t.messages[0], w.mayQueue(t.messages[0])
	if queued := t.front.starter.Start(t.front.ctx, t.judge(), t.result(w.settings.batch.count > 0), t.finish); queued && mayQueue {
		w.queued = append(w.queued, m)
	}
	return !t.phase.CompareAndSwap(phaseStarts, phaseParked)
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

// lineUp puts the messages whose key is known into their lines, in the order in which
// they were read. The caller holds the lock.
func (s *session) lineUp() {
	for s.mu.unready.len() > 0 && s.mu.unready.items[s.mu.unready.head].prepared {
		m := s.mu.unready.pop()
		s.mu.taken--
		switch {
		case m.state == stateGone:
		case m.broken != nil:
			s.mu.order.push(&s.mu.all, m)
		default:
			s.mu.order.push(s.mu.order.keyed(&s.mu.order.keys, m.key), m)
		}
	}
}

// prepare decodes the message and finds its key.
func (m *message) prepare(ctx context.Context, whole *Message) {
	s := m.session
	m.decode(s.settings.decode, whole)
	if m.broken != nil {
		return
	}
	v, err := s.settings.key.Eval(ctx, m.payload())
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
