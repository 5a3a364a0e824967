// Package state has the mechanisms of kinds whose nodes keep something between processes and
// across reloads, each once: which generation serves ([Generations]), a packet that waits
// ([Wait]), who of a key is first ([Queues]), the key of a value ([Key]), what is kept under keys
// ([Entries]), what packets hold until they are answered ([Tickets]), and which process settles a
// key while others wait for that ([Claims]).
//
// What a kind keeps lives in [node.Pool], under a key that its nodes of successive generations
// share. The package must not know what is kept, nor any kind.
package state

import (
	"slices"
	"sync/atomic"
)

// Generations are the parts that the generations of a node have in what they share. The newest
// that is attached serves; when it is detached, the one before it does. The zero value has none.
//
// Attach, Detach and Serving are guarded by a lock of the owner, under which it also admits
// work: then nothing is admitted once the last is detached. Any goroutine may call Current.
type Generations[T any] struct {
	current  atomic.Pointer[T]
	attached []*T // the newest last
}

// Attach makes a generation serve from now on. One that is attached already becomes the newest.
func (s *Generations[T]) Attach(g *T) {
	s.attached = append(slices.DeleteFunc(s.attached, func(other *T) bool { return other == g }), g)
	s.current.Store(g)
}

// Detach ends what Attach began, and reports whether none is left. The last one stays current:
// what was admitted before ends with it.
func (s *Generations[T]) Detach(g *T) (last bool) {
	s.attached = slices.DeleteFunc(s.attached, func(other *T) bool { return other == g })
	if n := len(s.attached); n > 0 {
		s.current.Store(s.attached[n-1])
		return false
	}
	return true
}

// Serving reports whether a generation is attached.
func (s *Generations[T]) Serving() bool { return len(s.attached) > 0 }

// Current returns the generation that serves, or that served last; nil before the first.
func (s *Generations[T]) Current() *T { return s.current.Load() }
