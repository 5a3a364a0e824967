package stream

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// requeues are the consumers of letters that a node sends again while it serves.
type requeues struct {
	mu struct {
		sync.Mutex
		starter node.Starter // nil while the node does not serve
		running map[*consumer]bool
	}
}

var errNotServing = errors.New("the node does not serve")

// serve allows requeues, which start processes with src.
func (q *requeues) serve(src node.Starter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.starter = src
}

// stop allows no more requeues, and begins to end those that run.
func (q *requeues) stop() (running []*consumer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.starter = nil
	for c := range q.mu.running {
		c.stop()
		running = append(running, c)
	}
	return running
}

// begin starts a consumer, unless the node does not serve.
func (q *requeues) begin(n *sourceNode, c *consumer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.starter == nil {
		c.stop()
		return errNotServing
	}
	if q.mu.running == nil {
		q.mu.running = make(map[*consumer]bool)
	}
	q.mu.running[c] = true
	c.attach(newGeneration(n, c, q.mu.starter))
	c.start(&n.shared.goroutines)
	return nil
}

func (q *requeues) end(c *consumer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.mu.running, c)
}

// Requeue implements [node.Requeuer]: next to the consumer that reads from the system, another one
// reads the letters, as that of dead requeue does.
func (n *sourceNode) Requeue(ctx context.Context, letters [][]byte) ([]node.Requeued, error) {
	if !n.letters {
		return nil, errors.New("the port error of the source is not linked: a message that fails again would go nowhere")
	}
	source, set := *n.source, *n.settings
	source.Traits = Traits{Redelivers: true, Raw: source.Traits.Raw} // what is given back stays in its file
	set.letters, set.job, set.maxDead, set.file = true, false, 0, ""
	reader := &requeueReader{letters: letters, ended: make([]node.Requeued, len(letters))}
	again := &sourceNode{
		source: &source, settings: &set, init: n.init, log: n.log, letters: true, ends: true, finished: make(chan struct{}), shared: new(shared),
	}
	c := newConsumer(again, reader, nil)
	c.settler.givesBack = false // a failed attempt is repeated here
	if err := n.requeues.begin(again, c); err != nil {
		return nil, err
	}
	defer n.requeues.end(c)
	select {
	case <-c.closed:
	case <-ctx.Done():
		if err := c.drain(ctx); err != nil {
			return nil, err // the reader may still be in use
		}
	}
	counts := &again.shared.counts
	n.shared.counts.messages.Add(counts.messages.Load())
	n.shared.counts.acknowledged.Add(counts.acknowledged.Load())
	n.shared.counts.failed.Add(counts.failed.Load())
	n.shared.counts.letters.Add(counts.letters.Load())
	return reader.ended, nil
}

// A requeueReader reads letters from memory, and notes how each has ended.
type requeueReader struct {
	letters [][]byte
	next    int
	ended   []node.Requeued // by letter; of the goroutine that settles until the consumer is closed
}

// Connect implements [Reader]: there is nothing to connect to.
func (r *requeueReader) Connect(context.Context, Host) error { return nil }

// Read implements [Reader]: io.EOF follows the last letter.
func (r *requeueReader) Read(ctx context.Context, room Room) (messages []Message, err error) {
	for size := int64(0); len(messages) < room.Messages && (len(messages) == 0 || size < room.Bytes); r.next++ {
		if r.next == len(r.letters) {
			return messages, io.EOF
		}
		letter := r.letters[r.next]
		messages = append(messages, Message{Raw: letter, Token: r.next})
		size += int64(len(letter))
	}
	return messages, ctx.Err()
}

// Settle implements [Reader]: it notes how letters have ended.
func (r *requeueReader) Settle(_ context.Context, s Settled) error {
	for _, o := range s.Outcomes {
		how := node.RequeuedWell
		switch {
		case o.Err != nil:
			how = node.NotRequeued
		case o.DeadLetter:
			how = node.RequeuedLetter
		}
		r.ended[o.Message.Token.(int)] = how
	}
	return nil
}

// Fields implements [Reader]: a letter has those of its message.
func (r *requeueReader) Fields(*Message, *value.MapBuilder) {}

func (r *requeueReader) Close(context.Context) error { return nil }
