package batch

import "context"

// A Processor takes events one by one and sends them in batches. Methods may be
// called from several goroutines. Make one with New, and end it with Close.
type Processor[T any] struct {
	pipe   *pipeline
	encode func([]byte, *T) ([]byte, error)
	key    func(*T) uint64
}

// New makes a processor and starts its goroutines, which Close ends. With a spool it
// reads the events in it and begins to send them. The error lists all problems of the
// options, or says why the folder of the spool cannot be used.
func New[T any](c Options[T]) (*Processor[T], error) {
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	p, err := newPipeline(s)
	if err != nil {
		return nil, err
	}
	return &Processor[T]{p, c.Encode, c.Lanes.Key}, nil
}

// Add adds an event, which is encoded before Add returns. If the queue is full, it
// does what Queue.Full says. With PolicyBlock and PolicySpill it waits as long as the
// receiver is away; use AddWait for a limit. It returns nil, ErrFull, ErrTooLarge,
// ErrClosed, or ErrEncode with Encode's error. An event for which it returns nil is
// delivered, or reported by OnDrop or Close.
func (p *Processor[T]) Add(v *T) error {
	_, err := p.add(context.Background(), v, p.pipe.full, false)
	return err
}

// AddWait adds an event like Add, and waits for room until ctx ends. With
// PolicyDropOldest there is always room. With a ctx that has ended it does not wait,
// and adds the event if there is room.
func (p *Processor[T]) AddWait(ctx context.Context, v *T) error {
	_, err := p.add(ctx, v, p.waitPolicy(), false)
	return err
}

// AddAll adds events in order, each like AddWait, and returns how many it added. It
// stops at the first error.
func (p *Processor[T]) AddAll(ctx context.Context, events []T) (n int, err error) {
	for i := range events {
		if err := p.AddWait(ctx, &events[i]); err != nil {
			return i, err
		}
	}
	return len(events), nil
}

// AddAck adds an event like AddWait, and returns a Ticket to wait until the event is
// on disk or delivered.
func (p *Processor[T]) AddAck(ctx context.Context, v *T) (Ticket, error) {
	return p.add(ctx, v, p.waitPolicy(), true)
}

func (p *Processor[T]) add(ctx context.Context, v *T, full Policy, ack bool) (Ticket, error) {
	for {
		t, room, err := p.put(v, ack)
		if room == nil {
			return t, err
		}
		switch full {
		case PolicyReject:
			p.pipe.intake.rejected.Add(1)
			return Ticket{}, ErrFull
		case PolicyDropNewest:
			buf, err := p.encode(nil, v)
			return Ticket{}, p.pipe.intake.dropNewest(p.laneKey(v), buf, err)
		case PolicyDropOldest:
			if p.pipe.dropOldest() {
				continue
			}
		}
		select {
		case <-room:
		case <-p.pipe.shipper.draining:
			return Ticket{}, ErrClosed
		case <-ctx.Done():
			return Ticket{}, ctx.Err()
		}
	}
}

// put adds the event. If there is no room, it adds nothing and returns a channel to wait
// on.
func (p *Processor[T]) put(v *T, ack bool) (Ticket, <-chan struct{}, error) {
	in := p.pipe.intake
	s := in.lock(p.laneKey(v))
	defer s.mu.Unlock() // deferred, because Encode may panic
	if s.mu.open == nil {
		if room, err := in.begin(s); s.mu.open == nil {
			return Ticket{}, room, err
		}
	}
	buf, err := p.encode(s.mu.open.arena.buf, v)
	return in.add(s, buf, err, ack)
}

// laneKey returns the key that decides on the lane of an event.
func (p *Processor[T]) laneKey(v *T) uint64 {
	if p.pipe.laneCount == 1 {
		return 0
	}
	return p.key(v)
}

// Flush sends all events accepted before the call, without waiting for full
// batches, and waits until each is settled: delivered, or reported to OnDrop. It
// includes the events that earlier processors left in the spool. It returns ctx's
// error if ctx ends first, and ErrClosed if Close ends sending first.
func (p *Processor[T]) Flush(ctx context.Context) error {
	f := p.pipe.flush()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Resume makes all waiting lanes send now: lanes that the receiver does not allow
// to send, lanes in which it refused one event after the other, and lanes that
// Lanes.Gapless stopped. In the second case Resume also says that the events are at
// fault, not the receiver: they are given up if they are refused again.
func (p *Processor[T]) Resume() {
	p.pipe.shipper.health.resume()
}

// Close ends a processor: from now on Add returns ErrClosed. It sends the remaining
// events, with short back-offs, for most of the time that ctx leaves. Then it stops
// sending, writes the rest to the spool, and returns in its Report what is not
// there. It returns when ctx ends at the latest, plus the time that it takes to
// write the rest to disk. With a context that does not end, it waits until all
// events are settled, however long the receiver is away.
//
// The error says that events are undelivered and why sending ended, that events
// were given up and only logged (ErrDropped), or that the spool could not be
// closed. Further calls return the same.
func (p *Processor[T]) Close(ctx context.Context) (Report, error) {
	return p.pipe.closer.close(ctx)
}

// waitPolicy returns the policy of the methods that wait for room.
func (p *Processor[T]) waitPolicy() Policy {
	if p.pipe.full == PolicyDropOldest {
		return PolicyDropOldest
	}
	return PolicyBlock
}

// Stats returns figures of the processor. It takes the lock of each shard for a
// moment: call it every second, not for every event.
func (p *Processor[T]) Stats() Stats { return p.pipe.stats() }
