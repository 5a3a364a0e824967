package stream

import (
	"context"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A seat is what the nodes of one name have in common, over all generations: the session
// that reads. Its zero value is ready.
type seat struct {
	counts     counts
	goroutines sync.WaitGroup // of sessions
	mu         struct {
		sync.Mutex
		session *session
		node    *sourceNode // that serves
	}
}

// Close has nothing to release: nodes have closed the sessions when they stopped.
func (p *seat) Close() error { return nil }

// newest returns the session that reads, or nil.
func (p *seat) newest() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.session
}

// sessionNow returns the session of a node: the newest, or after that the one it has served
// in, whose failure is the failure of a job. It is nil before Open.
func (n *sourceNode) sessionNow() *session {
	n.seat.mu.Lock()
	defer n.seat.mu.Unlock()
	if s := n.seat.mu.session; s != nil {
		return s
	}
	return n.session
}

// open connects for the first node of its name. Another one finds a session: with equal
// settings it takes that over when it serves, and else it connects when the other has
// let go.
func (p *seat) open(ctx context.Context, n *sourceNode) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.session != nil {
		return nil
	}
	s := newSession(n, n.reader, nil)
	if err := s.connection.start(ctx); err != nil {
		s.stop()
		return err
	}
	p.mu.session, n.session, n.reader = s, s, nil
	return nil
}

// serve lets a node have the messages from now on.
func (p *seat) serve(n *sourceNode, src node.Starter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.mu.session
	s := old
	if old == nil || old.stopping() || !old.settings.equal(n.settings) {
		reader := n.reader
		if n.reader = nil; reader == nil { // it has served before
			var err error
			if reader, err = n.source.Open(n.init); err != nil {
				return err
			}
		}
		s = newSession(n, reader, old)
	}
	f := &front{node: n, starter: src, settings: n.settings, letters: n.letters}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	n.session, n.front = s, f
	p.mu.session, p.mu.node = s, n
	s.take(f)
	s.start(&p.goroutines)
	if s != old && old != nil {
		old.stop()
	}
	return nil
}

// leave ends what a node has begun: the session, or if a later generation has that, only
// the processes of its own.
func (p *seat) leave(ctx context.Context, n *sourceNode) error {
	p.mu.Lock()
	s, f := n.session, n.front
	last := p.mu.node == n
	if last {
		p.mu.session, p.mu.node = nil, nil
	}
	shared := s != nil && s == p.mu.session
	p.mu.Unlock()
	switch {
	case s == nil:
		return nil
	case !shared:
		return s.drain(ctx)
	}
	idle := s.left(f)
	defer s.leave(f)
	defer f.cancel()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	f.cancel()
	timer := time.NewTimer(lastAnswers)
	defer timer.Stop()
	select {
	case <-idle: // the later generation has the messages
		return nil
	case <-timer.C:
		return context.Cause(ctx)
	}
}

// drop closes the session of a node that has opened and never served.
func (p *seat) drop(n *sourceNode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.front == nil && n.session != nil && p.mu.session == n.session {
		p.mu.session = nil
		n.session.stop()
	}
}

// stopping reports whether the session takes no more nodes: it stops, or reading has
// failed. One whose messages have come to an end does: nothing is read again.
func (s *session) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.draining || s.mu.failure != nil
}
