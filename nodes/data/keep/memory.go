package keep

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
)

// A Memory is a store that ends with the program. What was not used longest makes room for others: what was
// loaded and has made room since is saved all the same.
type Memory struct {
	held *node.Account // bytes of the entries
	mu   struct {
		sync.Mutex
		entries *state.Entries[string, Kept]
		last    int64        // version that was given
		limits  state.Limits // of the generation that was loaded last
	}
}

// keptSize is what an entry takes in addition to its values, in bytes.
const keptSize = 256

// NewMemory returns a store in memory, whose bytes an account counts. Without [Memory.Limit] only that
// limits it.
func NewMemory(held *node.Account) *Memory {
	s := &Memory{held: held}
	s.mu.limits = state.Limits{Count: math.MaxInt32, Bytes: math.MaxInt64}
	s.mu.entries = state.NewEntries[string, Kept](held)
	return s
}

// Blocks implements [Store].
func (s *Memory) Blocks() bool { return false }

// Limit sets what all may take together, from the next Save on.
func (s *Memory) Limit(limits state.Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.limits = limits
}

// Load implements [Store].
func (s *Memory) Load(_ context.Context, key string, now time.Time) (Kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, there := s.mu.entries.Get(key, now)
	k.There = there
	return k, nil
}

// Save implements [Store].
func (s *Memory) Save(_ context.Context, key string, k Kept, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	had, there := s.mu.entries.Get(key, now)
	if there && had.Version != k.Version {
		return ErrConflict
	}
	if k.Values.Len() == 0 {
		s.mu.entries.Remove(key)
		return nil
	}
	if !there {
		key = strings.Clone(key) // it may be a part of the payload
	}
	s.mu.last++
	k.There, k.Version = true, s.mu.last
	if !s.mu.entries.Put(key, k, int64(keptSize+len(key)+k.Values.Size()), now, k.Until, s.mu.limits) {
		return ErrNoMemory
	}
	return nil
}

// Count returns how many entries there are, also those that have expired and were not removed yet, their
// bytes, and how many have made room.
func (s *Memory) Count() (entries int, bytes int64, evicted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.entries.Len(), s.held.Held(), s.mu.entries.Evicted
}

// Close lets the entries go.
func (s *Memory) Close() error {
	s.held.Close()
	return nil
}
