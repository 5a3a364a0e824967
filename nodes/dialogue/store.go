package dialogue

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// A store keeps sessions. Any goroutine may call its methods.
type store interface {
	// load returns what is kept under a key; the zero kept if nothing is, or if it has expired.
	// The version is right even then.
	load(ctx context.Context, key string, now time.Time) (kept, error)

	// save keeps k in place of what had its version; without values it removes that. With
	// there, that must not have been removed in the meantime.
	save(ctx context.Context, key string, k kept, now time.Time) error

	// blocks reports whether load and save wait for something outside.
	blocks() bool
	Close() error
}

// kept is a session as a store keeps it.
type kept struct {
	stamp
	values value.Value // a map; null for none
}

// A stamp is what a store knows of a session.
type stamp struct {
	until   time.Time // zero is for ever
	version int64     // of what was loaded; 0 for none
	there   bool      // something was loaded
}

func (k *stamp) expired(now time.Time) bool { return !k.until.IsZero() && !now.Before(k.until) }

// memoryStore keeps sessions until the program ends.
type memoryStore struct {
	held *node.Account // bytes of the sessions
	mu   struct {
		sync.Mutex
		sessions *state.Entries[string, kept]
		limits   state.Limits // of the generation that was loaded last
	}
}

// keptSize is what a session takes in addition to its values, in bytes.
const keptSize = 256

// errNoMemory is why a session is not saved.
var errNoMemory = &node.Error{Err: errors.New("the program has no memory left for this"), Status: http.StatusServiceUnavailable, Code: codeBusy, RetryAfter: time.Second}

func newMemoryStore(held *node.Account) *memoryStore {
	s := &memoryStore{held: held}
	s.mu.sessions = state.NewEntries[string, kept](held)
	return s
}

func (s *memoryStore) blocks() bool { return false }

func (s *memoryStore) limit(limits state.Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.limits = limits
}

func (s *memoryStore) load(_ context.Context, key string, now time.Time) (kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, _ := s.mu.sessions.Get(key, now)
	return k, nil
}

func (s *memoryStore) save(_ context.Context, key string, k kept, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.values.Len() == 0 {
		s.mu.sessions.Remove(key)
		return nil
	}
	if !s.mu.sessions.Has(key, now) {
		key = strings.Clone(key) // it may be a part of the payload
	}
	k.there = true
	if !s.mu.sessions.Put(key, k, int64(keptSize+len(key)+k.values.Size()), now, k.until, s.mu.limits) {
		return errNoMemory
	}
	return nil
}

func (s *memoryStore) count() (sessions int, bytes int64, evicted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.sessions.Len(), s.held.Held(), s.mu.sessions.Evicted
}

// Close lets the sessions go.
func (s *memoryStore) Close() error {
	s.held.Close()
	return nil
}
