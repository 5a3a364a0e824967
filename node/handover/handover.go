// Package handover passes the exchange of a request of HTTP to a node, which then
// answers by itself: a server of WebSockets, of files, or a proxy.
//
// The node leaves a handler while the process runs. When the process has ended well, its
// deferred functions included, the listener calls the handler in place of writing an
// answer. A listener makes room for a handler only if a kind downstream says, by
// [node.Def.Parts], that it may take the answer over. The package must not know servers
// or nodes.
//
// [node.Def.Parts]: https://pkg.go.dev/github.com/uniflow-labs/uniflow/node#Def
package handover

import (
	"context"
	"net/http"
	"sync"
)

// A Slot has room for one handler. A listener puts one into the context of each process
// whose nodes may need it. The zero Slot is ready.
type Slot struct {
	mu struct {
		sync.Mutex
		handler http.Handler
		taken   bool
	}
}

type slotKey struct{}

// With returns a context whose processes can leave a handler in the slot.
func With(ctx context.Context, s *Slot) context.Context {
	return context.WithValue(ctx, slotKey{}, s)
}

// Leave leaves a handler for the request of a process. It reports false, and leaves
// nothing, if the process is not one of a request, if there is a handler already, or if
// the request has been answered, as a forked process may outlive it. The handler runs
// after the process has ended, so it must not use the process or its context.
func Leave(ctx context.Context, h http.Handler) bool {
	s, ok := ctx.Value(slotKey{}).(*Slot)
	return ok && s.leave(h)
}

func (s *Slot) leave(h http.Handler) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.taken || s.mu.handler != nil {
		return false
	}
	s.mu.handler = h
	return true
}

// Take returns the handler that was left, or nil. Nothing can be left afterwards.
func (s *Slot) Take() http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.taken = true
	return s.mu.handler
}
