package stream

import (
	"context"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// Returned has the messages that were given back to a reader whose system does not deliver them
// again in time, each until it is due. T is what the reader knows of a message. The reader guards it.
type Returned[T any] struct {
	clock   node.Clock
	wake    func()
	waiting []returned[T] // in the order in which they were given back
}

type returned[T any] struct {
	message T
	due     time.Time
}

// NewReturned returns one that calls wake when a message may be due: on a goroutine of its own, and
// also for messages that were forgotten.
func NewReturned[T any](clock node.Clock, wake func()) Returned[T] {
	return Returned[T]{clock: clock, wake: wake}
}

// Keep keeps a message for delay.
func (r *Returned[T]) Keep(message T, delay time.Duration) {
	r.waiting = append(r.waiting, returned[T]{message, r.clock.Now().Add(delay)})
	r.clock.AfterFunc(delay, func(context.Context) { r.wake() })
}

// Take returns the messages that are due, as far as there is room. read takes the bytes of one from
// the room.
func (r *Returned[T]) Take(room *Room, read func(T, *Room) Message) (messages []Message) {
	now := r.clock.Now()
	r.waiting = slices.DeleteFunc(r.waiting, func(w returned[T]) bool {
		if len(messages) >= room.Messages || room.Bytes <= 0 || now.Before(w.due) {
			return false
		}
		messages = append(messages, read(w.message, room))
		return true
	})
	return messages
}

// Forget forgets the messages that come again by themselves.
func (r *Returned[T]) Forget(comes func(T) bool) {
	r.waiting = slices.DeleteFunc(r.waiting, func(w returned[T]) bool { return comes(w.message) })
}
