package auth

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// seen remembers signatures for a time, so that a request that was recorded cannot be sent
// again. It has only those that were right. Any goroutine may call its methods.
type seen struct {
	window time.Duration

	mu struct {
		sync.Mutex
		young, old map[[sha256.Size]byte]struct{} // signatures since turned, and of the window before
		turned     time.Time                      // when young became old
	}
}

// maxYoung bounds the memory: 131,072 signatures of a window, and as many of the one
// before, take 12 MB. Another one is refused, as to forget one would let it pass again.
const maxYoung = 1 << 17

func newSeen(window time.Duration) *seen {
	s := &seen{window: window}
	s.mu.young = make(map[[sha256.Size]byte]struct{})
	return s
}

var (
	errReplayed = &node.Error{Err: errors.New("the request came before"), Status: http.StatusConflict, Code: "replay", Public: true}
	errTooMany  = errors.New("too many signatures are remembered")
)

// add remembers a signature, or returns an error if it is known.
func (s *seen) add(key [sha256.Size]byte, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now.Sub(s.mu.turned); age >= s.window {
		s.mu.old, s.mu.young, s.mu.turned = s.mu.young, make(map[[sha256.Size]byte]struct{}), now
		if age >= 2*s.window {
			s.mu.old = nil
		}
	}
	_, young := s.mu.young[key]
	_, old := s.mu.old[key]
	switch {
	case young || old:
		return errReplayed
	case len(s.mu.young) >= maxYoung:
		return &node.Error{Err: errTooMany, Status: http.StatusServiceUnavailable, Code: "busy", RetryAfter: s.window}
	}
	s.mu.young[key] = struct{}{}
	return nil
}

// remove forgets a signature, so that its sender can try again.
func (s *seen) remove(key [sha256.Size]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.young, key)
	delete(s.mu.old, key)
}
