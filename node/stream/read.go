package stream

import (
	"context"
	"errors"
	"time"
)

// read connects and reads until that is stopped, or the messages end. The error is why
// they have: io.EOF, or what went wrong.
func (s *session) read() error {
	wait := backoff{initial: 100 * time.Millisecond, max: 3 * time.Second, factor: 2, jitter: 0.5}
	for failed := 0; s.reading.Err() == nil; {
		err := s.connect(s.reading)
		if err == nil {
			var got bool
			began := s.clock.Now()
			if got, err = s.readOn(); got || s.clock.Now().Sub(began) > time.Second {
				failed = 0
			}
			if !errors.Is(err, ErrLost) {
				return err
			}
			if s.reading.Err() == nil {
				s.log.Warn("connection lost", "error", err)
			}
		}
		if s.reading.Err() != nil {
			break
		}
		failed++
		d := wait.wait(failed, 0)
		s.failing(err, failed, d)
		s.pause(d)
	}
	return nil
}

// failing tells why there is no connection, as long as the waits grow.
func (s *session) failing(err error, failed int, next time.Duration) {
	s.mu.Lock()
	s.mu.reason = err
	s.mu.Unlock()
	if !errors.Is(err, ErrLost) && (failed <= 8 || failed%6 == 0) {
		s.log.Warn("connecting failed", "error", err, "attempts", failed, "next", next.Round(time.Millisecond))
	}
}

// pause waits until reading stops at most.
func (s *session) pause(d time.Duration) {
	woken := make(chan struct{})
	stop := s.clock.AfterFunc(d, func(context.Context) { close(woken) })
	defer stop()
	select {
	case <-woken:
	case <-s.reading.Done():
	}
}

// connect connects, unless the session is connected.
func (s *session) connect(ctx context.Context) error {
	s.mu.Lock()
	connected, ready := s.mu.connected, s.mu.ready
	s.mu.Unlock()
	if connected {
		return nil
	}
	if s.keeper != nil && s.keeper.positions == nil {
		if err := s.keeper.resume(s.reader); err != nil {
			return &RefusedError{"checkpoint.file", err}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, longestConnect)
	defer cancel()
	if err := s.guard("Connect", func() error { return s.reader.Connect(ctx, host{s}) }); err != nil {
		return err
	}
	s.counts.connects.Add(1)
	if ready {
		s.log.Info("connected again")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.connected, s.mu.ready, s.mu.reason, s.mu.lost = true, true, nil, nil
	s.settle.Broadcast()
	return nil
}

// longestConnect is how long one attempt to connect may take, or a network that swallows
// packets would hold it long after it works again.
const longestConnect = 10 * time.Second

// readOn reads until an error. It reports whether there were messages.
func (s *session) readOn() (got bool, err error) {
	ctx, cut := context.WithCancel(s.reading)
	defer cut()
	s.mu.Lock()
	if s.mu.cut = cut; s.mu.lost != nil { // before there was something to cut
		cut()
	}
	s.mu.Unlock()
	for err == nil {
		room, ok := s.waitRoom()
		if !ok {
			return got, nil
		}
		var messages []Message
		err = s.guard("Read", func() (err error) {
			messages, err = s.reader.Read(ctx, room)
			return err
		})
		got = got || len(messages) > 0
		s.admit(messages)
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	return got, s.disconnected(err)
}

// disconnected waits for the call of Settle if the connection is lost. It returns why
// reading ends.
func (s *session) disconnected(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.lost != nil {
		err = s.mu.lost
	}
	if s.reading.Err() != nil && !errors.Is(err, ErrLost) {
		return nil
	}
	if !errors.Is(err, ErrLost) {
		return err
	}
	s.mu.connected = false
	for s.mu.calling {
		s.room.Wait()
	}
	if s.source.Traits.Redelivers && !s.numbered() {
		s.forget(func(m *message) bool { return true }) // they come again
	}
	return err
}

// waitRoom waits until there is room to read. It is not ok once reading stops.
func (s *session) waitRoom() (room Room, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.mu.draining && s.mu.lost == nil && !s.roomy() {
		s.mu.wants = true
		s.room.Wait()
	}
	s.mu.wants = false
	// At least 1: if the connection is lost, Read returns anyhow.
	return Room{max(s.settings.limit-s.taken(), 1), max(s.settings.bytes-s.mu.bytes, 1)}, !s.mu.draining
}

// roomy reports whether to read: there is room for a quarter of all messages, as few
// large reads are cheaper, or for any if the workers have nothing left to begin, or a
// batch that is not full, which would linger until the end. The caller holds the lock.
func (s *session) roomy() bool {
	room := s.settings.limit - s.taken()
	return room > 0 && s.mu.bytes < s.settings.bytes && !s.backlog() &&
		(room >= s.settings.limit/4 || s.mu.order.n+s.mu.unready.len() < max(1, s.settings.batch.count))
}

// taken returns how many messages the system has given that it counts as not settled. The
// caller holds the lock.
func (s *session) taken() int {
	if s.source.Traits.Positions {
		return s.mu.inFlight // it counts nothing
	}
	return s.mu.inFlight + len(s.mu.outcomes) + s.mu.telling
}

// roomier wakes those who wait for room, or for messages to be settled. The caller holds
// the lock.
func (s *session) roomier() {
	if s.mu.watchers > 0 || s.mu.wants && s.roomy() {
		s.room.Broadcast()
	}
}

// backlog reports whether too much waits to be settled, or in a lane for one message that
// is stuck. The caller holds the lock.
func (s *session) backlog() bool {
	gap := s.mu.gap
	return len(s.mu.outcomes)+s.mu.telling >= 2*s.enough() || gap != nil && gap.ring.n > s.longest()
}

// longest is how many slots a lane may have: what is in flight, and what was settled
// after it.
func (s *session) longest() int { return max(16*s.settings.limit, 1<<16) }
