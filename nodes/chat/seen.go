package chat

import (
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
)

const (
	// seenFor is how long the id of an event is remembered: platforms repeat one whose
	// answer was late or lost.
	seenFor = 10 * time.Minute

	// mostSeen bounds the ids. With more in that time, the oldest are forgotten.
	mostSeen = 100_000
)

// A memory knows the ids of the last events. Any goroutine may call its methods.
type memory struct {
	clock node.Clock
	mu    sync.Mutex
	ids   *state.Entries[string, struct{}]
}

func newMemory(clock node.Clock) *memory {
	return &memory{clock: clock, ids: state.NewEntries[string, struct{}](nil)}
}

// first reports whether an id is new, and remembers it.
func (m *memory) first(id string) bool {
	now := m.clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids.Has(id, now) {
		return false
	}
	id = strings.Clone(id) // it may be a part of the event
	return m.ids.Put(id, struct{}{}, 0, now, now.Add(seenFor), state.Limits{Count: mostSeen})
}

// forget takes first back for an event that was refused: it may come again.
func (m *memory) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids.Remove(id)
}
