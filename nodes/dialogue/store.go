package dialogue

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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
	mu struct {
		sync.Mutex
		lru     *simplelru.LRU[string, kept]
		limits  limits // of the generation that was loaded last
		bytes   int
		evicted uint64
	}
}

// keptSize is what a session takes in addition to its values, in bytes.
const keptSize = 256

func (k *kept) size(key string) int { return keptSize + len(key) + k.values.Size() }

func newMemoryStore() *memoryStore {
	s := new(memoryStore)
	var err error
	s.mu.lru, err = simplelru.NewLRU(1<<31-1, func(key string, k kept) { s.mu.bytes -= k.size(key) })
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
	s.mu.lru.Remove(key) // with its size
	for {
		_, oldest, ok := s.mu.lru.GetOldest()
		if !ok || !oldest.expired(now) {
			break
		}
		s.mu.lru.RemoveOldest()
	}
	if k.values.Len() == 0 {
		return nil
	}
	k.there = true
	s.mu.bytes += k.size(key)
	s.mu.lru.Add(key, k)
	for s.mu.lru.Len() > s.mu.limits.capacity || s.mu.bytes > s.mu.limits.bytes && s.mu.lru.Len() > 1 {
		s.mu.lru.RemoveOldest()
		s.mu.evicted++
	}
	return nil
}

func (s *memoryStore) count() (sessions, bytes int, evicted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.lru.Len(), s.mu.bytes, s.mu.evicted
}

func (s *memoryStore) Close() error { return nil }
