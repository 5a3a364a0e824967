// Package handover passes the exchange of a request of HTTP to a node, which then
// answers by itself: a server of WebSockets, of files, or a proxy.
//
// The node leaves a handler while the process runs. When the process has ended well, its
// deferred functions included, the listener calls the handler in place of writing an
// answer. The package must not know servers or nodes.
package handover

import (
	"context"
	"net/http"
)

// A Slot has room for one handler. A listener puts one into the context of each process
// whose nodes may need it. One goroutine at a time uses it.
type Slot struct{ handler http.Handler }

type slotKey struct{}

// With returns a context whose processes can leave a handler in the slot.
func With(ctx context.Context, s *Slot) context.Context {
	return context.WithValue(ctx, slotKey{}, s)
}

// Leave leaves a handler for the request of a process. It reports false, and leaves
// nothing, if the process is not one of a request, or if there is a handler already.
func Leave(ctx context.Context, h http.Handler) bool {
	s, ok := ctx.Value(slotKey{}).(*Slot)
	if !ok || s.handler != nil {
		return false
	}
	s.handler = h
	return true
}

// Take returns the handler that was left, or nil.
func (s *Slot) Take() http.Handler { return s.handler }
