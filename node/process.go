package node

import (
	"context"
	"errors"
)

// ErrStopped is the response of a process that could not start, because the
// generation is being replaced or the engine shut down.
var ErrStopped = errors.New("the engine takes no new processes")

// A Process is one run that a node takes part in. Its methods may be called from
// any goroutine, until the node has answered its packet. It is an interface so
// that node authors see no more than this of the engine.
type Process interface {
	// Context ends when the process does: its client has gone, a deadline has
	// passed, shutdown's grace is over. It is for use until the packet is
	// answered. Its Err is cheap; its Done makes a channel at the first call.
	Context() context.Context

	// ID returns the process's UUIDv7, made at the first call.
	ID() string

	// Load returns what was stored under a key on this process or, failing
	// that, on the nearest of its parents. Use a [Key] for typed access.
	Load(key any) (v any, ok bool)

	// Store keeps v on this process under a key, until the process ends. A
	// parent's value of that key is shadowed, not changed.
	Store(key, v any)

	// Defer has f called when the process ends, latest first: before its
	// context is done, and before whoever started it gets the response. If the
	// process went well and f returns an error, that becomes the response.
	Defer(f func(ctx context.Context, resp Response) error)
}

// A Key is a typed key of a process's storage. Keys are told apart by address,
// so each NewKey makes another one.
type Key[T any] struct{ name string }

// NewKey returns a key; the name is for messages only.
func NewKey[T any](name string) *Key[T] { return &Key[T]{name} }

// String returns the name.
func (k *Key[T]) String() string { return k.name }

// Load returns what is stored under the key on p or the nearest of its parents.
func (k *Key[T]) Load(p Process) (v T, ok bool) {
	stored, ok := p.Load(k)
	if !ok {
		return v, false
	}
	return stored.(T), true
}

// Store keeps v on p under the key.
func (k *Key[T]) Store(p Process, v T) { p.Store(k, v) }
