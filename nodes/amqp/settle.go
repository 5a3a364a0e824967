package amqp

import (
	"context"
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// message returns the message of a delivery. The body stays with the token: it is read again
// if the message fails.
func (t *delivery) message(room *stream.Room) stream.Message {
	room.Bytes -= int64(len(t.Body))
	if t.Body == nil {
		t.Body = []byte{}
	}
	return stream.Message{Raw: t.Body, Key: t.RoutingKey, Time: t.Timestamp, Attempt: t.attempt, Token: t}
}

// Settle implements [stream.Reader]. What is of an earlier connection comes again.
func (r *reader) Settle(_ context.Context, s stream.Settled) error {
	l := r.current()
	r.settled = r.settled[:0]
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		t := o.Message.Token.(*delivery)
		if t.link != l {
			continue
		}
		switch {
		case o.Err == nil:
			r.settled = append(r.settled, t.DeliveryTag)
		case errors.Is(o.Err, stream.ErrUnused):
			if err := r.acks.refuse(l, t.DeliveryTag); err != nil {
				return r.settings.lostError(err)
			}
		default:
			r.keep(t, o.Delay)
		}
	}
	if err := r.acks.add(l, r.settled...); err != nil {
		return r.settings.lostError(err)
	}
	return nil
}

// keep holds a delivery that has failed until it is due.
func (r *reader) keep(t *delivery, delay time.Duration) {
	again := *t
	again.attempt++
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.returned.Keep(&again, delay)
}
