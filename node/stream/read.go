package stream

import (
	"context"
	"errors"
)

// connect connects, after it has given the reader the positions to go on from.
func (s *session) connect(ctx context.Context) error {
	if s.keeper != nil && s.keeper.positions == nil {
		if err := s.keeper.resume(s.reader); err != nil {
			return &RefusedError{Field: s.settings.named, Err: err}
		}
	}
	if err := s.guard("Connect", func() error { return s.reader.Connect(ctx, host{s}) }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.connected, s.mu.lost = true, nil
	s.settle.Broadcast()
	return nil
}

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
	return room > 0 && s.mu.bytes < s.settings.bytes && !s.backlog() && !s.short(s.mu.inFlight) &&
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
	gap, settled := s.mu.gap, len(s.mu.outcomes)
	if !s.tells() {
		settled = s.mu.unsettled
	}
	return settled+s.mu.telling >= 2*s.enough() || gap != nil && gap.ring.n > s.longest()
}

// longest is how many slots a lane may have: what is in flight, and what was settled
// after it.
func (s *session) longest() int { return max(16*s.settings.limit, 1<<16) }
