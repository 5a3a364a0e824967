// Package handover passes the exchange of a request of HTTP to a node, which then
// answers by itself: a server of WebSockets, of files, or a proxy.
//
// The node leaves a handler while the process runs. When the process has ended well, its
// deferred functions included, the listener calls the handler in place of writing an
// answer. A listener makes room for a handler only if a node downstream says, by
// [node.SendsParts], that it may take the answer over. The same slot has room for headers,
// which the listener adds to whatever it answers, such as a cookie. The package must not
// know servers, or what nodes do.
package handover

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
)

// A Slot has room for one handler, and for headers. A listener puts one into the context
// of each process whose nodes may need it. The zero Slot is ready.
type Slot struct {
	// Request is the request of the process. Its body may have been read. Set it before
	// [With]; it may be nil.
	Request *http.Request

	// Open is what [Body] calls; nil if the listener has read the body. Set it before With.
	Open func(limit int64) (io.Reader, error)

	mu struct {
		sync.Mutex
		handler http.Handler
		taken   bool
		header  http.Header
	}
}

// Needed is what a node says that leaves handlers.
func Needed() node.Need {
	return node.Need{What: node.GivesRequest, OfTrigger: true, Hint: "only a request of a listener can be answered so"}
}

type slotKey struct{}

// With returns a context whose processes can leave a handler in the slot.
func With(ctx context.Context, s *Slot) context.Context {
	return context.WithValue(ctx, slotKey{}, s)
}

// Request returns the request that a process answers, or nil. It must not be changed, and
// not be used when the process has ended; the handler gets the request again. Its context
// ends when the request has been answered.
func Request(ctx context.Context) *http.Request {
	if s, ok := ctx.Value(slotKey{}).(*Slot); ok {
		return s.Request
	}
	return nil
}

// Body returns the body of the request of a process as the client sends it. ok is false if
// the listener has read it, or if there is none: it is in the payload then. A body of more
// than limit bytes is an error; a negative limit means the listener's. A body can be
// had once.
//
// One goroutine at a time may read it, also when the process has ended, until the request
// has been answered. Reads fail then, and one that waits for the client returns. An error
// that reports what the client has done is a *node.Error, to answer with.
func Body(ctx context.Context, limit int64) (body io.Reader, ok bool, err error) {
	s, ok := ctx.Value(slotKey{}).(*Slot)
	if !ok || s.Open == nil {
		return nil, false, nil
	}
	body, err = s.Open(limit)
	return body, true, err
}

// Leave leaves a handler for the request of a process. It reports false, and leaves
// nothing, if the process is not one of a request, if there is a handler already, or if
// the request has been answered, as a forked process may outlive it. The handler runs
// after the process has ended, so it must not use the process or its context. One that is
// an [io.Closer] is closed instead if it is not called, as the process has ended with an
// error.
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

// Left reports whether there is a handler.
func (s *Slot) Left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.handler != nil
}

// Take returns the handler that was left, or nil. Nothing can be left afterwards.
func (s *Slot) Take() http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.taken = true
	return s.mu.handler
}

// Drop closes the handler that was left and not taken, and reports whether there was one.
// Nothing can be left afterwards.
func (s *Slot) Drop() (dropped bool) {
	s.mu.Lock()
	h := s.mu.handler
	dropped = !s.mu.taken && h != nil
	s.mu.taken, s.mu.handler = true, nil
	s.mu.Unlock()
	if c, ok := h.(io.Closer); ok && dropped {
		_ = c.Close() // nothing of it was used
	}
	return dropped
}

// SetHeader adds a value of a header to the answer to the request of a process, whatever
// that is: a payload, parts, an error, or what a handler writes. Call it before the first
// part. It reports false if the process is not one of a request.
func SetHeader(ctx context.Context, name, value string) bool {
	s, ok := ctx.Value(slotKey{}).(*Slot)
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.header == nil {
		s.mu.header = make(http.Header)
	}
	s.mu.header.Add(name, value)
	return true
}

// AddTo adds the headers that were set to the headers of an answer.
func (s *Slot) AddTo(h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, values := range s.mu.header {
		h[name] = append(h[name], values...)
	}
}
