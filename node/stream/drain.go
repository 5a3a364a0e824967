package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// end waits until what is held has been settled, as far as that may take.
func (s *session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.mu.ended = true
		if !errors.Is(err, io.EOF) {
			s.mu.failure = err
			s.log.Error("reading ended", "error", err)
		}
	}
	s.wakeAll()
	s.mu.watchers++
	for s.mu.first != nil && !s.mu.expired {
		s.room.Wait()
	}
	if s.mu.first == nil {
		return
	}
	// The contexts of processes have ended: most answer immediately.
	timer := time.AfterFunc(lastAnswers, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.giveBack(func(*message) bool { return true }, errGrace)
		s.room.Broadcast()
	})
	defer timer.Stop()
	for s.mu.first != nil {
		s.room.Wait()
	}
}

// lastAnswers is how long processes may take to answer once their context has ended,
// and lastCall the time for each of the last calls of a reader. A drain ends 200 ms
// after the grace at the latest.
const (
	lastAnswers = 60 * time.Millisecond
	lastCall    = 50 * time.Millisecond
	handOver    = 10 * time.Second // for the calls if there is time
	drainLimit  = 200 * time.Millisecond
)

var errGrace = errors.New("the grace of the shutdown is over")

// stop stops reading, and gives back what has not begun. A session that has not started
// is closed.
func (s *session) stop() {
	s.mu.Lock()
	if s.mu.draining {
		s.mu.Unlock()
		return
	}
	s.mu.draining = true
	s.stopRead()
	started := s.mu.started
	s.mu.started = true
	if s.returns() {
		s.giveBack(func(m *message) bool { return m.state == stateQueued }, nil)
	}
	s.wakeAll()
	s.room.Broadcast()
	s.mu.Unlock()
	if !started {
		s.close()
		close(s.closed)
	}
}

// returns reports whether what is given back comes again.
func (s *session) returns() bool { return s.source.Traits.Redelivers || s.source.Traits.Positions }

// expire ends the processes: the grace is over.
func (s *session) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.expired {
		return
	}
	s.mu.expired = true
	time.AfterFunc(lastAnswers+lastCall, s.stopWrite)
	for _, f := range s.mu.fronts {
		f.cancel()
	}
	s.giveBack(func(m *message) bool { return m.state == stateQueued }, nil)
	s.wakeAll()
	s.room.Broadcast()
}

// drain stops, and returns when all is settled and the reader is closed, or soon after
// ctx has ended.
func (s *session) drain(ctx context.Context) error {
	s.stop()
	select {
	case <-s.closed:
		return nil
	case <-ctx.Done():
	}
	s.expire()
	timer := time.NewTimer(drainLimit)
	defer timer.Stop()
	select {
	case <-s.closed:
		return s.lostMessages()
	case <-timer.C:
		return errors.New("the reader does not close although its context is done: it is abandoned")
	}
}

// lostMessages returns an error if messages were given up that do not come again.
func (s *session) lostMessages() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.lostAtEnd == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d messages are lost that were read", errGrace, s.mu.lostAtEnd)
}

// close closes the reader, and ends the nodes of a source that has ended.
func (s *session) close() {
	s.mu.Lock()
	expired, ended := s.mu.expired, s.mu.ended
	s.mu.connected = false
	fronts := s.mu.fronts
	s.mu.Unlock()
	limit := handOver
	if expired {
		limit = lastCall
	}
	if s.connection.connected() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := s.guard("Close", func() error { return s.reader.Close(ctx) }); err != nil {
			s.log.Warn("closing the reader", "error", err)
		}
	}
	s.stopRead()
	s.stopWrite()
	s.held.Close()
	for _, f := range fronts {
		if ended {
			f.node.finish()
		}
	}
}

// left returns a channel that is closed when no process of a front runs.
func (s *session) left(f *front) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.idle == nil {
		f.idle = make(chan struct{})
		if f.running == 0 {
			close(f.idle)
		}
	}
	return f.idle
}

// leave takes a front that is not the newest out of the session, when its processes
// have ended.
func (s *session) leave(f *front) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.mu.fronts {
		if other == f {
			s.mu.fronts = append(s.mu.fronts[:i:i], s.mu.fronts[i+1:]...)
			return
		}
	}
}
