package node

import (
	"context"
	"errors"
)

// ErrStopped is the response of a process that could not start, because the
// generation is being replaced or the engine is shutting down.
var ErrStopped = errors.New("the engine takes no new processes")

// A Process is one run of a workflow, to which a packet belongs. Any goroutine may
// call its methods, until the node has answered the packet.
type Process interface {
	// Context is done when the process has ended, its client has left, a deadline
	// has passed, or a shutdown's grace is over. Do not use it after the packet is
	// answered. Err is cheap; the first call of Done makes a channel.
	Context() context.Context

	// ID returns the process's UUIDv7. The first call makes it.
	ID() string

	// Load returns the value of a key, which was stored on this process or else on
	// the nearest of its parents that has one. Use a [Key] for typed access.
	Load(key any) (v any, ok bool)

	// Store stores v under a key until the process ends. It shadows a parent's
	// value of that key, and does not change it.
	Store(key, v any)

	// Enlist registers a participant in the end of the process. When all packets have been
	// answered, and the [Judge] of the trigger has decided about the answer, participants
	// are called phase by phase, and within a phase the latest first: before the context of
	// the process is done, and before the response is returned. One that is registered
	// meanwhile is called after the others.
	//
	// A process that another one waits for ends before it is known how that ends. What
	// both do together takes part in the end of the Root.
	Enlist(phase Phase, end Participant)

	// Defer registers f to release what is held for the process. It is called when the
	// process has ended, after all participants, the latest first.
	Defer(f func())

	// Root returns the process that ends last among this one and those that wait for it
	// (see [Spawn]): itself, unless another one does. A forked process is its own root.
	Root() Process

	// HasClient reports whether the answer of the root goes to a client: see [HasClient].
	HasClient() bool
}

// A Key is a typed key of a process's storage. Each NewKey makes a different key.
type Key[T any] struct{ name string }

// NewKey returns a key; the name is for messages only.
func NewKey[T any](name string) *Key[T] { return &Key[T]{name} }

func (k *Key[T]) String() string { return k.name }

// Load is [Process.Load] with the key.
func (k *Key[T]) Load(p Process) (v T, ok bool) {
	stored, ok := p.Load(k)
	if !ok {
		return v, false
	}
	return stored.(T), true
}

// Store is [Process.Store] with the key.
func (k *Key[T]) Store(p Process, v T) { p.Store(k, v) }
