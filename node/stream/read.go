package stream

import (
	"context"
	"errors"
	"fmt"
)

// connect connects, after it has given the reader the positions to go on from.
func (c *consumer) connect(ctx context.Context) error {
	if c.keeper != nil && c.keeper.positions == nil {
		if err := c.keeper.resume(c.reader); err != nil {
			return &RefusedError{Field: c.settings.named, Err: err}
		}
	}
	if err := c.guard("Connect", func() error { return c.reader.Connect(ctx, host{c}) }); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.lost = nil
	c.committer.connect()
	return nil
}

// readOn reads until an error. It reports whether there were messages.
func (c *consumer) readOn() (got bool, err error) {
	ctx, cut := context.WithCancel(c.reading)
	defer cut()
	c.mu.Lock()
	if c.mu.cut = cut; c.mu.lost != nil { // before there was something to cut
		cut()
	}
	c.mu.Unlock()
	for err == nil {
		room, ok := c.waitRoom()
		if !ok {
			return got, nil
		}
		var messages []Message
		err = c.guard("Read", func() (err error) {
			messages, err = c.reader.Read(ctx, room)
			return err
		})
		got = got || len(messages) > 0
		c.admit(messages)
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	return got, c.disconnected(err)
}

// disconnected waits for the call of Settle if the connection is lost. It returns why
// reading ends.
func (c *consumer) disconnected(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.lost != nil {
		err = c.mu.lost
	}
	if c.reading.Err() != nil && !errors.Is(err, ErrLost) {
		return nil
	}
	if !errors.Is(err, ErrLost) {
		return err
	}
	c.committer.connected = false
	for c.committer.calling {
		c.room.Wait()
	}
	if c.source.Traits.Redelivers && !c.inFlight.numbered() {
		c.forget((*message).here) // they come again
	}
	return err
}

// waitRoom waits until there is room to read. It is not ok once reading stops.
func (c *consumer) waitRoom() (room Room, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.mu.draining && c.mu.lost == nil && !c.roomy() {
		c.mu.wants = true
		c.room.Wait()
	}
	c.mu.wants = false
	// At least 1: if the connection is lost, Read returns anyhow.
	return Room{max(c.free(), 1), max(c.settings.bytes-c.inFlight.bytes-c.inFlight.runBytes, 1)}, !c.mu.draining
}

// free returns how many more messages may be held. The caller holds the lock.
func (c *consumer) free() int {
	return c.settings.limit - c.inFlight.n - c.inFlight.runs - c.committer.taken()
}

// roomy reports whether to read: there is room for a quarter of all messages, as few
// large reads are cheaper, or for any if the workers have nothing left to begin, or a
// batch that is not full, which would linger until the end. The caller holds the lock.
func (c *consumer) roomy() bool {
	room := c.free()
	return room > 0 && c.inFlight.bytes+c.inFlight.runBytes < c.settings.bytes && !c.backlog() && !c.short(c.inFlight.n) &&
		(room >= c.settings.limit/4 || c.starved())
}

// starved reports whether the workers have nothing left to begin, or no batch that is full.
// The caller holds the lock.
func (c *consumer) starved() bool {
	return c.order.n+c.unready.len() < max(1, c.settings.batch.count)
}

// short reports whether the program has too little memory for more messages than those that
// are under way. One message of each source goes on in any case. The caller holds the lock.
func (c *consumer) short(underWay int) bool { return underWay > 0 && c.account.Full() }

// backlog reports whether too much waits to be settled, or in a lane for one message that
// is stuck. The caller holds the lock.
func (c *consumer) backlog() bool { return c.committer.backlog() || c.inFlight.blocked() }

// roomier wakes those who wait for room, or for messages to be settled. The caller holds
// the lock.
func (c *consumer) roomier() {
	if c.mu.watchers > 0 || c.mu.wants && c.roomy() {
		c.room.Broadcast()
	}
}

// The functions of the committer.

// settle calls Settle of the reader.
func (c *consumer) settle(ctx context.Context, s Settled) error {
	return c.guard("Settle", func() error { return c.reader.Settle(ctx, s) })
}

// keep writes marks to the file of positions, if there is one.
func (c *consumer) keep(marks []Mark) error {
	if c.keeper == nil {
		return nil
	}
	return c.keeper.keep(c.reader.(Resumer), marks)
}

func (c *consumer) withheld() bool { return c.deadRun.withheld(c.mu.closing) }

// lost ends a call of Read, as Settle has found that the connection is gone.
func (c *consumer) lost(err error) {
	if c.mu.lost = err; c.mu.cut != nil {
		c.mu.cut()
	}
}

// unkept is the failure of a source that has ended, if its last positions are not kept.
func (c *consumer) unkept(err error) {
	if c.mu.ended && c.mu.failure == nil {
		c.mu.failure = fmt.Errorf("the last positions are not kept, messages come again at the next start: %w", err)
	}
}
