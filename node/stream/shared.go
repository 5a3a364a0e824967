package stream

import (
	"context"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A shared is what the nodes of one name have in common, over all generations: the consumer
// that reads. Its zero value is ready.
type shared struct {
	counts     counts
	goroutines sync.WaitGroup // of consumers
	mu         struct {
		sync.Mutex
		consumer *consumer // nil while no generation serves
	}
}

// newest returns the consumer that reads, or nil.
func (p *shared) newest() *consumer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.consumer
}

// reads returns the consumer of a node: the newest, or after that the one it has served
// in, whose failure is the failure of a job. It is nil before Open.
func (n *sourceNode) reads() *consumer {
	n.shared.mu.Lock()
	defer n.shared.mu.Unlock()
	if c := n.shared.mu.consumer; c != nil {
		return c
	}
	return n.consumer
}

// open connects for the first node of its name. Another one finds a consumer: with equal
// settings it takes that over when it serves, and else it connects when the other has
// let go.
func (p *shared) open(ctx context.Context, n *sourceNode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.consumer != nil {
		return nil
	}
	c := newConsumer(n, n.reader, nil)
	if err := c.connection.start(ctx); err != nil {
		c.stop()
		return err
	}
	p.mu.consumer, n.consumer, n.reader = c, c, nil
	return nil
}

// serve lets a node have the messages from now on.
func (p *shared) serve(n *sourceNode, src node.Starter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.mu.consumer
	c := old
	if old == nil || old.stopping() || !old.settings.equal(n.settings) {
		reader := n.reader
		if n.reader = nil; reader == nil { // it has served before
			var err error
			if reader, err = n.source.Open(n.init); err != nil {
				return err
			}
		}
		c = newConsumer(n, reader, old)
	}
	if n.generation == nil || n.consumer != c {
		g := newGeneration(n, c, src)
		n.consumer, n.generation = c, g
	}
	p.mu.consumer = c
	c.attach(n.generation)
	c.start(&p.goroutines)
	if c != old && old != nil {
		old.stop()
	}
	return nil
}

// newGeneration returns a node as a generation of a consumer, which starts processes with src.
func newGeneration(n *sourceNode, c *consumer, src node.Starter) *generation {
	g := &generation{node: n, starter: src, settings: n.settings, letters: n.letters}
	if many, ok := src.(node.GroupStarter); ok {
		if ok, g.queues = many.Gathers(); ok {
			g.groups = many
		}
	}
	g.ctx, g.cancel = context.WithCancel(c.processing)
	return g
}

// leave ends what a node has begun: the consumer, or if another generation has that, only
// the processes of its own.
func (p *shared) leave(ctx context.Context, n *sourceNode) error {
	p.mu.Lock()
	c, g := n.consumer, n.generation
	if g == nil { // it has not served
		p.mu.Unlock()
		return nil
	}
	idle, last := c.detach(g)
	if last && p.mu.consumer == c {
		p.mu.consumer = nil
	}
	p.mu.Unlock()
	if last {
		return c.drain(ctx)
	}
	defer g.cancel()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	g.cancel()
	timer := time.NewTimer(lastAnswers)
	defer timer.Stop()
	select {
	case <-idle: // another generation has the messages
		return nil
	case <-timer.C:
		return context.Cause(ctx)
	}
}

// drop closes the consumer of a node that has opened and never served.
func (p *shared) drop(n *sourceNode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.generation == nil && n.consumer != nil && p.mu.consumer == n.consumer {
		p.mu.consumer = nil
		n.consumer.stop()
	}
}

// stopping reports whether the consumer takes no more nodes: it stops, or reading has
// failed. One whose messages have come to an end does: nothing is read again.
func (c *consumer) stopping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.draining || c.mu.failure != nil
}
