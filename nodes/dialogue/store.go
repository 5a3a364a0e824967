package dialogue

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/uniflow-labs/uniflow/node"
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

// limits are those of sessions in memory.
type limits struct{ capacity, bytes int }

// memoryStore keeps sessions until the program ends.
type memoryStore struct {
	held *node.Account // bytes of the sessions
	mu   struct {
		sync.Mutex
		lru     *simplelru.LRU[string, kept]
		limits  limits // of the generation that was loaded last
		evicted uint64
	}
}

// keptSize is what a session takes in addition to its values, in bytes.
const keptSize = 256

func (k *kept) size(key string) int64 { return int64(keptSize + len(key) + k.values.Size()) }

// errNoMemory is why a session is not saved.
var errNoMemory = &node.Error{Err: errors.New("the program has no memory left for this"), Status: http.StatusServiceUnavailable, Code: codeBusy, RetryAfter: time.Second}

func newMemoryStore(held *node.Account) *memoryStore {
	s := &memoryStore{held: held}
	var err error
	s.mu.lru, err = simplelru.NewLRU(1<<31-1, func(key string, k kept) { s.held.Free(k.size(key)) })
	if err != nil { // of a size that is not positive
		panic(err)
	}
	return s
}

func (s *memoryStore) blocks() bool { return false }

func (s *memoryStore) limit(l limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.limits = l
}

func (s *memoryStore) load(_ context.Context, key string, now time.Time) (kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.mu.lru.Get(key)
	if ok && k.expired(now) {
		s.mu.lru.Remove(key)
		k = kept{}
	}
	return k, nil
}

func (s *memoryStore) save(_ context.Context, key string, k kept, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		_, oldest, ok := s.mu.lru.GetOldest()
		if !ok || !oldest.expired(now) {
			break
		}
		s.mu.lru.RemoveOldest()
	}
	if k.values.Len() == 0 {
		s.mu.lru.Remove(key)
		return nil
	}
	k.there = true
	more, before := k.size(key), 0
	if old, ok := s.mu.lru.Get(key); ok { // which makes it the last to go
		more -= old.size(key)
		before = 1
	} else {
		key = strings.Clone(key) // it may be a part of the payload
	}
	for !s.fitsLocked(before, more) {
		if s.mu.lru.Len() > before {
			s.mu.lru.RemoveOldest()
			s.mu.evicted++
		} else if s.take(more) { // it is larger than all may be
			break
		} else {
			return errNoMemory
		}
	}
	s.mu.lru.Add(key, k)
	return nil
}

// fitsLocked takes the bytes that a session needs more, unless one of the limits is reached.
// before is how many of the sessions that are kept it replaces.
func (s *memoryStore) fitsLocked(before int, more int64) bool {
	return s.mu.lru.Len()-before < s.mu.limits.capacity && s.held.Held()+more <= int64(s.mu.limits.bytes) && s.take(more)
}

func (s *memoryStore) take(bytes int64) bool {
	if bytes > 0 {
		return s.held.Take(bytes)
	}
	s.held.Free(-bytes)
	return true
}

func (s *memoryStore) count() (sessions int, bytes int64, evicted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.lru.Len(), s.held.Held(), s.mu.evicted
}

// Close lets the sessions go.
func (s *memoryStore) Close() error {
	s.held.Close()
	return nil
}
