package journal_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
)

// A refusingStore commits nothing, and counts how often it was asked.
type refusingStore struct {
	*memory.Store
	asked atomic.Int32
}

func (s *refusingStore) Commit(context.Context, *journal.Batch) error {
	s.asked.Add(1)
	return errors.New("I/O error")
}

// TestFailedOnce checks that a broken journal says so once, however much runs that are under way still add, and that it
// does not ask its store any more.
func TestFailedOnce(t *testing.T) {
	s := &refusingStore{Store: memory.New()}
	var told atomic.Int32
	j := journal.New(s, journal.Options{Failed: func(error) { told.Add(1) }})
	first := newCall(t)
	j.Flush(j.Add(record(1, 1)), first.done)
	first.want(journal.ErrBroken)
	for n := range 3 {
		j.Add(record(1, n+2))
	}
	closeIt(t, j)
	if told.Load() != 1 || s.asked.Load() != 1 {
		t.Errorf("Failed was told %d times, and the store was asked %d times", told.Load(), s.asked.Load())
	}
}
