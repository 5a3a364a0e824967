package chat

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
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
	mu    struct {
		sync.Mutex
		ids   map[string]struct{}
		order []seenID // the oldest first
	}
}

type seenID struct {
	id string
	at time.Time
}

func newMemory(clock node.Clock) *memory {
	m := &memory{clock: clock}
	m.mu.ids = make(map[string]struct{})
	return m
}

// first reports whether an id is new, and remembers it.
func (m *memory) first(id string) bool {
	now := m.clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < len(m.mu.order) && (now.Sub(m.mu.order[n].at) > seenFor || len(m.mu.order)-n >= mostSeen) {
		delete(m.mu.ids, m.mu.order[n].id)
		n++
	}
	m.mu.order = m.mu.order[n:]
	if _, is := m.mu.ids[id]; is {
		return false
	}
	id = strings.Clone(id) // it may be a part of the event
	m.mu.ids[id] = struct{}{}
	m.mu.order = append(m.mu.order, seenID{id, now})
	return true
}

// forget takes first back for an event that was refused: it may come again.
func (m *memory) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.ids, id)
	for i := len(m.mu.order) - 1; i >= 0; i-- {
		if m.mu.order[i].id == id {
			m.mu.order = slices.Delete(m.mu.order, i, i+1) // near the end
			return
		}
	}
}
