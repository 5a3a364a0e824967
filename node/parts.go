package node

import (
	"context"

	"github.com/uniflow-labs/uniflow/value"
)

// Parts take an answer in pieces. A trigger that can pass pieces on, such as a server
// of HTTP, puts them into the context of its processes with [WithParts]; nodes that have
// a part of the answer look for them with [PartsOf]. What the process answers is the end.
type Parts interface {
	// Part passes one piece on, and returns when the receiver has taken it: so a slow
	// receiver slows its process. It blocks: call it in a [Block]. The error says that
	// the receiver has left, or that ctx has ended.
	Part(ctx context.Context, v value.Value) error
}

// TryParts is what [Parts] may be, too: it takes most parts without a goroutine that waits.
type TryParts interface {
	// TryPart is Part without waiting. rest is nil if the receiver has taken the piece. If
	// not, rest does what is left, and waits: call it in a [Block], once.
	TryPart(ctx context.Context, v value.Value) (rest func(context.Context) error, err error)
}

// PauseParts is what [Parts] may be, too: it is informed of processes that ask back.
type PauseParts interface {
	// Pause says that the process waits for the next message of its conversation, and that
	// what it has asked for was passed on as parts. It does not block.
	Pause()
}

// SendPart passes one piece of a process on, and answers None when the receiver has taken it. A durable
// process passes it on once.
func SendPart(of Process, p Parts, v value.Value) Result {
	if _, ok := RunOf(of); ok {
		return Step(func(ctx context.Context) (value.Value, error) { return value.Null(), p.Part(ctx, v) }, func(_ Process, resp Response) Result {
			if resp.IsError() {
				return Fail(resp.Payload.AsError())
			}
			return None()
		})
	}
	ctx := of.Context()
	try, ok := p.(TryParts)
	if !ok {
		return blockPart(func(ctx context.Context) error { return p.Part(ctx, v) })
	}
	rest, err := try.TryPart(ctx, v)
	switch {
	case err != nil:
		return Fail(err)
	case rest == nil:
		return None()
	}
	return blockPart(rest)
}

func blockPart(send func(context.Context) error) Result {
	return Block(func(ctx context.Context) Result {
		if err := send(ctx); err != nil {
			return Fail(err)
		}
		return None()
	})
}

type partsKey struct{}

// WithParts returns a context whose processes can answer in pieces.
func WithParts(ctx context.Context, p Parts) context.Context {
	return context.WithValue(ctx, partsKey{}, p)
}

// PartsOf returns what takes the answer of a process in pieces, if there is one.
func PartsOf(ctx context.Context) (p Parts, ok bool) {
	p, ok = ctx.Value(partsKey{}).(Parts)
	return p, ok
}
