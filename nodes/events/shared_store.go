package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/trail"
)

// A sharedStore is the store in one folder, for all nodes that use the folder, of
// all generations. While a node that appends is open, the store is open for writing,
// and all nodes use it. Otherwise it is open for reading, if it exists, and another
// process may write to it.
//
// A node enters with its generation and leaves with it. The next generation
// enters first, so that a store that both use stays open.
type sharedStore struct {
	dir     string
	log     *slog.Logger
	change  sync.Mutex // held while a store is opened or retired; taken before mu
	writers int        // open nodes that append; guarded by change
	mu      struct {
		sync.Mutex
		writing *lease // nil without writers
		reading *lease // nil until a node reads, and while writing is not nil
	}
}

// A lease is a store that is in use. It is closed when it is retired and no node
// uses it any more.
type lease struct {
	store      *trail.Store
	refreshing chan struct{} // has one while the store is not being refreshed
	log        *slog.Logger
	mu         struct {
		sync.Mutex
		users     int
		retired   bool
		refreshed time.Time // when the last refresh that succeeded began
	}
}

func newLease(s *trail.Store, log *slog.Logger) *lease {
	l := &lease{store: s, log: log, refreshing: make(chan struct{}, 1)}
	l.refreshing <- struct{}{}
	return l
}

// use keeps the store open until done is called. It is not ok if the store is
// retired.
func (l *lease) use() (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.retired {
		return false
	}
	l.mu.users++
	return true
}

// done ends a use. The last one closes a store that is retired.
func (l *lease) done() {
	l.mu.Lock()
	l.mu.users--
	last := l.mu.retired && l.mu.users == 0
	l.mu.Unlock()
	if !last {
		return
	}
	if err := l.store.Close(); err != nil {
		l.log.Error("a store of events could not be closed", "error", err)
	}
}

// retire refuses further uses of the store, and closes the store if it is not in use.
// Otherwise the end of the last use closes it.
func (l *lease) retire() error {
	l.mu.Lock()
	l.mu.retired = true
	unused := l.mu.users == 0
	l.mu.Unlock()
	if unused {
		return l.store.Close()
	}
	return nil
}

// refresh makes the store show what other processes had appended when refresh was
// called. Callers that come while a refresh is running share the next one.
func (l *lease) refresh(ctx context.Context) error {
	came := time.Now()
	select {
	case <-l.refreshing:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.refreshing <- struct{}{} }()
	l.mu.Lock()
	refreshed := l.mu.refreshed
	l.mu.Unlock()
	if refreshed.After(came) {
		return nil
	}
	began := time.Now()
	if err := l.store.Refresh(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.refreshed = began
	return nil
}

// acquireStore returns the store of a folder. For a node that appends, the store is
// opened for writing, and made if there is none.
func acquireStore(pool *node.Pool, log *slog.Logger, dir string, writes bool) (_ *sharedStore, release func() error, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	a, leave, err := node.Acquire(pool, "trail "+dir, func() (*sharedStore, error) { return &sharedStore{dir: dir, log: log}, nil })
	if err != nil || !writes {
		return a, leave, err
	}
	if err := a.addWriter(); err != nil {
		return nil, nil, errors.Join(err, leave())
	}
	return a, func() error { return errors.Join(a.removeWriter(), leave()) }, nil
}

// addWriter adds a node that appends. The first one opens the store for writing.
func (a *sharedStore) addWriter() error {
	a.change.Lock()
	defer a.change.Unlock()
	writing, reading := a.leases()
	if writing == nil {
		// Nodes of one folder share the store, and each has times of its own.
		s, err := trail.Open(a.dir, trail.Options{Times: trail.Times{Any: true}, Log: a.log})
		if err != nil {
			return err
		}
		a.set(newLease(s, a.log), nil)
		if reading != nil { // the store that is open for writing shows more
			if err := reading.retire(); err != nil {
				a.log.Warn("a store that was read could not be closed", "store", a.dir, "error", err)
			}
		}
	}
	a.writers++
	return nil
}

// removeWriter removes a node that appends. The last one closes the store.
func (a *sharedStore) removeWriter() error {
	a.change.Lock()
	defer a.change.Unlock()
	if a.writers--; a.writers > 0 {
		return nil
	}
	writing, _ := a.leases()
	a.set(nil, nil)
	return writing.retire()
}

func (a *sharedStore) leases() (writing, reading *lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.writing, a.mu.reading
}

func (a *sharedStore) set(writing, reading *lease) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.writing, a.mu.reading = writing, reading
}

// reader returns a store to query, which stays open until done is called, and
// shows all that was appended before the call. The error wraps
// trail.ErrNoStore if there is none.
func (a *sharedStore) reader(ctx context.Context) (s *trail.Store, done func(), err error) {
	for {
		l, own, err := a.lease()
		if err != nil {
			return nil, nil, err
		}
		if !l.use() {
			continue // a newer store has replaced it
		}
		if own {
			return l.store, l.done, nil
		}
		if err := l.refresh(ctx); err != nil {
			l.done()
			return nil, nil, err
		}
		return l.store, l.done, nil
	}
}

// lease returns what to query: the store that this process writes to, or one that
// is open for reading.
func (a *sharedStore) lease() (l *lease, own bool, err error) {
	writing, reading := a.leases()
	if l = cmp.Or(writing, reading); l != nil {
		return l, l == writing, nil
	}
	a.change.Lock()
	defer a.change.Unlock()
	writing, reading = a.leases()
	if l = cmp.Or(writing, reading); l != nil {
		return l, l == writing, nil
	}
	s, err := trail.Open(a.dir, trail.Options{ReadOnly: true, Log: a.log})
	if err != nil {
		return nil, false, err
	}
	l = newLease(s, a.log)
	a.set(nil, l)
	return l, false, nil
}

// writer returns the store to a node that appends.
func (a *sharedStore) writer() (*trail.Store, func(), error) {
	writing, _ := a.leases()
	if writing == nil || !writing.use() {
		return nil, nil, fmt.Errorf("store %s: %w", a.dir, trail.ErrClosed)
	}
	return writing.store, writing.done, nil
}

func (a *sharedStore) Close() error {
	a.change.Lock()
	defer a.change.Unlock()
	_, reading := a.leases()
	a.set(nil, nil)
	if reading == nil {
		return nil
	}
	return reading.retire()
}
