package dialogue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// take gives a hold its place in the queue of its session, and reports whether it is its turn
// then. With more than most before it that wait, it is an error.
func (r *sessions) take(h *hold, most int) (first bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch n := r.turns.Count(h.place.Key); {
	case h.place.Value != nil && !h.place.Value.Open():
		return false, nil // its process ends
	case n > most:
		return false, errNoTurn("%d processes wait for this session already", n-1)
	}
	return r.turns.Join(&h.place), nil
}

// leave ends the turn of a hold, or its wait. The next that waits goes on, on a goroutine of
// its own: that may run all of its process, and the caller's has an answer to give.
func (r *sessions) leave(h *hold) {
	if w := r.next(h); w != nil {
		h.node.clock.AfterFunc(0, func(context.Context) { w.Done(w.hold.begin(w.process, w.payload)) })
	}
}

func (r *sessions) next(h *hold) *waiting {
	r.mu.Lock()
	defer r.mu.Unlock()
	for place := r.turns.Leave(&h.place); place != nil; place = r.turns.Leave(place) {
		if place.Value.Claim() { // else its process has ended
			return place.Value
		}
	}
	return nil
}

// count returns how many sessions processes have, and how many processes wait.
func (r *sessions) count() (held, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns.Keys(), r.turns.Len() - r.turns.Keys()
}

// errNoTurn is why a process does not get a session.
func errNoTurn(format string, args ...any) error {
	return &node.Error{Err: fmt.Errorf(format, args...), Status: http.StatusServiceUnavailable, Code: codeBusy, RetryAfter: time.Second}
}

// Codes of errors.
const (
	codeBusy      = "busy"
	codeConflict  = "conflict"
	codeKey       = "key"
	codeNoSession = "no_session"
	codeSize      = "size"
)

var errNoSession = &node.Error{
	Err:  errors.New("this process has no session: put a node session before this one, and not before a fork"),
	Code: codeNoSession, Status: http.StatusInternalServerError,
}
