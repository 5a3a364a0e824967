package memory_test

import (
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/journaltest"
	"github.com/uniflow-labs/uniflow/journal/memory"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestConformance(t *testing.T) {
	var mu sync.Mutex
	opened := make(map[string]*memory.Store)
	journaltest.Run(t, func(t *testing.T) journal.Store {
		mu.Lock()
		defer mu.Unlock()
		s := opened[t.Name()]
		if s == nil {
			s = memory.New()
		} else {
			s = s.Reopen()
		}
		opened[t.Name()] = s
		return s
	})
}

// TestReopen checks that a store of before a crash cannot write any more.
func TestReopen(t *testing.T) {
	old := memory.New()
	s := old.Reopen()
	if err := old.Commit(t.Context(), new(journal.Batch)); err != journal.ErrClosed {
		t.Errorf("got %v, want %v", err, journal.ErrClosed)
	}
	if err := s.Commit(t.Context(), new(journal.Batch)); err != nil {
		t.Error(err)
	}
}
