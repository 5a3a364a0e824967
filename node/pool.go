package node

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// A Pool holds resources that nodes of several generations share, so that what
// did not change is not restarted: the listening socket of a server, the
// connections to a database. The zero Pool is empty and ready.
type Pool struct {
	mu struct {
		sync.Mutex
		entries map[string]*poolEntry
	}
}

type poolEntry struct {
	users    int           // guarded by Pool.mu
	ready    chan struct{} // closed when open has returned
	resource io.Closer     // immutable once ready is closed
	err      error         // immutable once ready is closed
}

// Acquire returns the resource that is kept under a key, which open makes if
// there is none. The resource is closed when every release has been called;
// release is called once, and returns the error of that closing. Callers of one
// key wait for each other's open, those of different keys do not. If open fails or
// panics, whoever waits for it gets an error, and the key is free again.
func Acquire[T io.Closer](p *Pool, key string, open func() (T, error)) (resource T, release func() error, err error) {
	entry, made := p.enter(key)
	if made {
		makeEntry(p, key, entry, open)
	}
	<-entry.ready
	if entry.err != nil {
		p.leave(key, entry)
		return resource, nil, entry.err
	}
	resource, ok := entry.resource.(T)
	if !ok {
		p.leave(key, entry)
		return resource, nil, fmt.Errorf("shared resource %q is a %T, not a %T", key, entry.resource, resource)
	}
	return resource, func() error {
		if p.leave(key, entry) {
			return entry.resource.Close()
		}
		return nil
	}, nil
}

// makeEntry opens the resource of an entry. After a panic, which goes on, the
// entry is left as after an error.
func makeEntry[T io.Closer](p *Pool, key string, entry *poolEntry, open func() (T, error)) {
	returned := false
	defer func() {
		if !returned {
			entry.err = errNotOpened
			p.leave(key, entry)
		}
		close(entry.ready)
	}()
	entry.resource, entry.err = open()
	returned = true
}

var errNotOpened = errors.New("another node panicked while it opened this shared resource")

func (p *Pool) enter(key string) (entry *poolEntry, made bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry, ok := p.mu.entries[key]
	if !ok {
		entry = &poolEntry{ready: make(chan struct{})}
		if p.mu.entries == nil {
			p.mu.entries = make(map[string]*poolEntry)
		}
		p.mu.entries[key] = entry
	}
	entry.users++
	return entry, !ok
}

// leave drops one use and reports whether it was the last.
func (p *Pool) leave(key string, entry *poolEntry) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entry.users--
	if entry.users > 0 {
		return false
	}
	delete(p.mu.entries, key)
	return true
}
