package node

import (
	"context"
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

// Waits have those who wait for a message from outside that comes later, such as the next
// one of a conversation. They are of one engine, and outlive generations. Any goroutine
// may call the methods.
type Waits interface {
	// Wait calls done once: with what is delivered under the key, with [ErrWaitTimeout]
	// at until, with the error of ctx when that ends, with [ErrWaitsEnded] when the
	// program ends, or immediately with [ErrTooManyWaits]. It does not block, and holds no
	// goroutine: use it with an [Await]. Several may wait under one key; the first of them
	// is served first. stop ends the wait, and reports whether it came before done.
	Wait(ctx context.Context, key string, until time.Time, done func(value.Value, error)) (stop func() bool)

	// Deliver hands v to the first who waits under the key. It reports false if there is
	// none; the message then is the caller's, who may start a process for it.
	Deliver(key string, v value.Value) bool
}

// What done of [Waits.Wait] may get.
var (
	ErrWaitTimeout  = errors.New("nothing has come in time")
	ErrTooManyWaits = errors.New("too many processes wait for messages")
	ErrWaitsEnded   = errors.New("the program ends, and waits for no more messages")
)

// EventReply is the event of the waits of durable processes for a message. Their key is the one that
// processes that are not durable use with [Waits].
const EventReply = "reply"

type conversationKey struct{}

// WithConversation returns a context for the processes of a conversation. Those who bring
// its messages deliver each under the key first, and start a process only if nothing waits
// for it. Keys of different systems must differ: begin them with the kind, as in
// "telegram/7/1234".
func WithConversation(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, conversationKey{}, key)
}

// ConversationOf returns the key of the conversation that a process belongs to, if it does.
func ConversationOf(ctx context.Context) (key string, ok bool) {
	key, ok = ctx.Value(conversationKey{}).(string)
	return key, ok
}
