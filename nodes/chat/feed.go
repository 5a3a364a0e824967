package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
)

// A feeder is a webhook that may also get its events by itself, without a listener.
type feeder interface {
	webhook

	// feed takes events until ctx ends. It runs on a goroutine that the clock knows.
	feed(ctx context.Context, b *branch)

	// feedBy are the settings on which feed depends, and nil if there is nothing to do.
	feedBy() []string
}

// A feed runs the method of this name while a generation uses it. It lives in the pool, so
// that a reload with the same settings neither connects again nor misses anything.
type feed struct {
	hook   feeder
	branch *branch
	work   sync.WaitGroup
	mu     struct {
		sync.Mutex
		users int
		end   context.CancelFunc
		ended chan struct{} // closed when the last run is over
	}
}

// acquireFeed returns the feed of a node, or nil if its hook has none.
func acquireFeed(n *platformNode) (*feed, func() error, error) {
	hook, is := n.hook.(feeder)
	if !is || hook.feedBy() == nil {
		return nil, func() error { return nil }, nil
	}
	sum := sha256.Sum256([]byte(strings.Join(hook.feedBy(), "\x00")))
	return node.Acquire(n.init.Pool, n.key()+" "+hex.EncodeToString(sum[:]), func() (*feed, error) {
		return &feed{hook: hook, branch: n.branch}, nil
	})
}

// join makes it run, if it does not.
func (f *feed) join() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.users++; f.mu.users > 1 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	f.mu.end, f.mu.ended = cancel, ended
	f.work.Add(1)
	f.branch.clock.AfterFunc(0, func(context.Context) {
		defer f.work.Done()
		defer close(ended)
		f.hook.feed(ctx, f.branch)
	})
}

// leave takes join back. The last one ends the run, and waits for that or for ctx.
func (f *feed) leave(ctx context.Context) error {
	f.mu.Lock()
	if f.mu.users--; f.mu.users > 0 {
		f.mu.Unlock()
		return nil
	}
	f.mu.end()
	ended := f.mu.ended
	f.mu.Unlock()
	return node.WaitFor(ctx, ended)
}

func (f *feed) Close() error {
	f.work.Wait()
	f.hook.close()
	return nil
}

// pauseAfter is how long a feed waits after a number of failures in a row.
func pauseAfter(failed int, err error) time.Duration {
	pause := min(time.Second<<min(failed, 5), time.Minute)
	var e *apiError
	if errors.As(err, &e) {
		pause = max(pause, min(e.retryAfter, longestWait))
	}
	return pause
}

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
