package reference

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// ahead is how many messages a client has asked for at most: the capacity of its inbox.
const ahead = 4096

// An intake is what both readers have: it asks for messages as far as there is room.
type intake struct {
	config schema.Config
	client atomic.Pointer[client] // Settle comes concurrently with Connect
	inbox  chan frame             // never full: the server sends what it was asked for

	// What was asked for and has not been returned by Read. Only Connect and Read use it.
	messages, bytes int64
}

func (in *intake) connect(ctx context.Context, mode int) error {
	_ = in.client.Load().close() // it is lost
	inbox := make(chan frame, ahead)
	c, err := dial(ctx, in.config, mode, func(f frame) { inbox <- f })
	if err != nil {
		return err
	}
	in.inbox, in.messages, in.bytes = inbox, 0, 0
	in.client.Store(c)
	return nil
}

// Read asks for what there is room for, and returns what has come.
func (in *intake) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	c := in.client.Load()
	more := frame{Op: opCredit, Number: min(int64(room.Messages), ahead) - in.messages, Size: room.Bytes - in.bytes}
	// Not for a few: each time is a frame, and an answer of as few messages.
	if in.messages == 0 || more.Number >= int64(room.Messages)/4 || in.bytes <= 0 {
		more.Number, more.Size = max(more.Number, 0), max(more.Size, 0)
		if err := c.send(more); err != nil {
			return nil, err
		}
		in.messages += more.Number
		in.bytes += more.Size
	}
	var got []stream.Message
	select {
	case f := <-in.inbox:
		got = append(got, in.message(f))
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.lost:
		return nil, fmt.Errorf("%w: the server has closed it", stream.ErrLost)
	}
	for len(got) < room.Messages {
		select {
		case f := <-in.inbox:
			got = append(got, in.message(f))
		default:
			return got, nil
		}
	}
	return got, nil
}

func (in *intake) message(f frame) stream.Message {
	in.messages--
	in.bytes -= int64(len(f.Body))
	return stream.Message{Raw: f.Body, Key: f.Key, Lane: f.Lane, Offset: f.Offset, Attempt: f.Attempt, Token: f.Number}
}

// Close disconnects: the server gives what was not settled to the next reader.
func (in *intake) Close(context.Context) error { return in.client.Load().close() }
