package node

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// A Pool holds resources that nodes of several generations share, so that a reload
// does not restart them: the listening socket of a server, the connections to a
// database. The zero Pool is empty and ready.
type Pool struct {
	mu struct {
		sync.Mutex
		entries map[string]*poolEntry
	}
}

type poolEntry struct {
	users    int           // guarded by Pool.mu
	ready    chan struct{} // closed when open has returned
	resource any           // immutable once ready is closed
	err      error         // immutable once ready is closed
}

// Acquire returns the resource of a key; if there is none, open makes it. The last
// call of release closes the resource, if it is an [io.Closer], and returns the error of that;
// each caller calls its release once. Callers of the same key wait for open, others do not. If
// open fails or panics, all that wait for it get an error, and the key is free
// again.
func Acquire[T any](p *Pool, key string, open func() (T, error)) (resource T, release func() error, err error) {
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
		if !p.leave(key, entry) {
			return nil
		}
		if c, ok := entry.resource.(io.Closer); ok {
			return c.Close()
		}
		return nil
	}, nil
}

// makeEntry opens the resource of an entry. A panic is passed on; it leaves the
// entry as an error does.
func makeEntry[T any](p *Pool, key string, entry *poolEntry, open func() (T, error)) {
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
