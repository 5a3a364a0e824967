package stream

import (
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A grouping says how many messages are started together. It starts fewer where most of them go
// on by themselves. The consumer guards it.
type grouping struct {
	most   int // messages of the next group
	single int // messages that were started one by one since it is 1
}

// tryAgain is after how many messages groups are tried again.
const tryAgain = 64

// next returns how many of so many messages are started together.
func (g *grouping) next(n int) int {
	if g.most > 1 {
		return min(n, g.most)
	}
	if g.single++; g.single < tryAgain {
		return 1
	}
	g.single, g.most = 0, 2
	return min(n, g.most)
}

// took learns from a group: how many of its messages have gone on by themselves, or were not
// started because of that.
func (g *grouping) took(n, apart int) {
	switch {
	case 2*apart > n:
		g.most = max(1, g.most/2)
	case apart == 0:
		g.most = min(2*g.most, mostTasks)
	}
}

// takeGroup takes at most n messages that may be started together: of one queue, if the next ones of
// that need not wait, or else one of each queue whose messages always wait. So mayQueue says the same
// of all messages of a group. The caller holds the lock.
func (c *consumer) takeGroup(into []*message, n int) []*message {
	for q := c.order.first(); q != nil && len(into) < n; q = c.order.first() {
		if !q.loose && !c.mayQueue(q.head) {
			into = c.order.takeOf(q, into, 1)
			continue
		}
		if len(into) == 0 {
			most := 1
			if q.loose || c.generations.Current().queues {
				most = n
			}
			if into = c.order.takeOf(q, into, most); len(into) == 0 { // they were gone
				continue
			}
		}
		return into
	}
	return into
}

// mayGroup reports whether messages that have not begun may be started together. The caller holds
// the lock.
func (c *consumer) mayGroup() bool {
	g := c.generations.Current()
	return g != nil && g.groups != nil && g.settings.durability == nil && c.replies == nil && !c.settings.letters && !c.account.Full()
}

// beginGroup is begin for a group. What is undecodable begins later, by itself.
func (w *runner) beginGroup(t *task) (ended bool) {
	t.runner = w
	w.grouped += len(t.messages)
	for i, m := range t.messages {
		m.decode(t.generation.settings.decode, &w.whole)
		w.weigh(m)
		if m.broken != nil {
			t.cut(max(i, 1))
			break
		}
	}
	if len(t.messages) == 1 {
		t.group = false
		return w.begin(t)
	}
	t.verdict = verdictNone
	t.phase.Store(phaseStarts)
	left, mayQueue := w.left, w.consumer.mayQueue(t.messages[0])
	if queued := t.generation.groups.StartGroup(w.context(t), t); queued && mayQueue {
		// The one that has left is the last one, as those after it wait.
		w.queued = append(w.queued, t.messages[:len(t.messages)-(w.left-left)]...)
	}
	return !t.phase.CompareAndSwap(phaseStarts, phaseParked)
}

// The methods below implement [node.Group] for a task that is one.

func (t *task) Len() int { return len(t.messages) }

func (t *task) Payload(i int) value.Value { return t.messages[i].payload() }

// Leaves lets the messages behind one wait for it where their order demands that.
func (t *task) Leaves(i int) (done func(node.Response), more bool) {
	m := t.messages[i]
	if more = m.queue.loose || !t.consumer.mayQueue(m); !more {
		t.cut(i + 1)
	}
	t.runner.left++
	return t.Fails(i), more
}

// Fails makes a task of its own of a message.
func (t *task) Fails(i int) (done func(node.Response)) {
	t.apart |= 1 << i
	return t.consumer.alone(t, t.messages[i]).finish
}

func (t *task) Done(resp node.Response) { t.finished(resp) }

// cut takes the messages from i on out of a group: they begin later.
func (t *task) cut(i int) {
	t.runner.putOff(t.messages[i:])
	clear(t.messages[i:])
	t.messages = t.messages[:i]
}

// putOff notes messages that begin later: before those of their queue that were put off before.
func (w *runner) putOff(messages []*message) {
	n := len(w.later)
	w.later = append(w.later, messages...)
	slices.Reverse(w.later[n:])
}

// alone makes a task of one message of a group that has begun.
func (c *consumer) alone(t *task, m *message) *task {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.tasks.make()
	a.messages, a.generation = append(a.messages, m), t.generation
	a.phase.Store(phaseParked)
	a.generation.running++
	c.quarantine.began(a, false)
	return a
}

// keepTogether drops the messages of a group that have gone on by themselves.
func (t *task) keepTogether() {
	kept := t.messages[:0]
	for i, m := range t.messages {
		if t.apart>>i&1 == 0 {
			kept = append(kept, m)
		}
	}
	clear(t.messages[len(kept):])
	t.messages = kept
}

// split makes tasks of the messages of a group whose process has failed as a whole: each fails
// by itself. The first is t.
func (t *task) split(into []*task) []*task {
	t.group = false
	messages := t.messages
	for _, m := range messages[1:] {
		a := t.consumer.alone(t, m)
		a.resp = t.resp
		into = append(into, a)
	}
	clear(messages[1:])
	t.messages = messages[:1]
	return into
}

// concludeGroup notes that the processes of a group have ended well. The caller holds the lock.
func (c *consumer) concludeGroup(t *task) {
	if len(t.messages) == 0 {
		t.generation = nil
		c.settler.recycle(t)
		return
	}
	m := t.messages[0]
	q := m.queue
	if c.mayQueue(m) {
		for _, m := range t.messages {
			c.order.answered(m)
		}
	}
	c.follow(t)
	c.joinFailed(q)
}

// putBack puts messages back in front of their queues, one before the other. The caller holds the lock.
func (c *consumer) putBack(messages []*message) {
	for _, m := range messages {
		if m.state == stateGone {
			c.order.release(m)
			continue
		}
		m.state, m.begun = stateQueued, false
		c.order.putBack(m)
		c.joinFailed(m.queue) // the one that they have waited for may have failed meanwhile
	}
}
