package state

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/uniflow-labs/uniflow/node"
)

// Entries are values under keys, until they expire or others need their room: those that were
// not used longest go first. Make them with NewEntries. A lock of the owner guards them.
type Entries[K comparable, V any] struct {
	Evicted uint64 // how many went to make room

	lru  *simplelru.LRU[K, entry[V]]
	held *node.Account // nil counts no bytes
}

type entry[V any] struct {
	value V
	size  int64
	until time.Time // zero is for ever
}

func (e *entry[V]) expired(now time.Time) bool { return !e.until.IsZero() && !now.Before(e.until) }

// Limits is what entries may take.
type Limits struct {
	Count int
	Bytes int64
}

// NewEntries returns entries whose bytes an account counts; nil counts none.
func NewEntries[K comparable, V any](held *node.Account) *Entries[K, V] {
	e := &Entries[K, V]{held: held}
	var err error
	e.lru, err = simplelru.NewLRU(1<<31-1, func(_ K, gone entry[V]) { e.take(-gone.size) })
	if err != nil { // of a size that is not positive
		panic(err)
	}
	return e
}

// Get returns the value of a key, and uses it.
func (e *Entries[K, V]) Get(k K, now time.Time) (v V, ok bool) {
	got, ok := e.lru.Get(k)
	if ok && got.expired(now) {
		e.lru.Remove(k)
		return v, false
	}
	return got.value, ok
}

// Has reports whether there is a value for a key, and does not use it.
func (e *Entries[K, V]) Has(k K, now time.Time) bool {
	got, ok := e.lru.Peek(k)
	return ok && !got.expired(now)
}

// Put keeps a value until a time, zero is for ever, in place of the one that its key has. Others
// make room for it; it may be larger than all may be together. It reports false, and the value
// before stays, if the program has no memory left for it.
func (e *Entries[K, V]) Put(k K, v V, size int64, now, until time.Time, limits Limits) (ok bool) {
	for {
		_, oldest, ok := e.lru.GetOldest()
		if !ok || !oldest.expired(now) {
			break
		}
		e.lru.RemoveOldest()
	}
	more, before := size, 0
	if old, ok := e.lru.Get(k); ok { // which makes it the last to go
		more, before = size-old.size, 1
	}
	for e.lru.Len()-before >= limits.Count || e.held != nil && e.held.Held()+more > limits.Bytes || !e.take(more) {
		if e.lru.Len() > before {
			e.lru.RemoveOldest()
			e.Evicted++
		} else if e.take(more) {
			break
		} else {
			return false
		}
	}
	e.lru.Add(k, entry[V]{v, size, until})
	return true
}

func (e *Entries[K, V]) take(bytes int64) (ok bool) {
	switch {
	case e.held == nil:
	case bytes > 0:
		return e.held.Take(bytes)
	default:
		e.held.Free(-bytes)
	}
	return true
}

// Remove removes the value of a key, if there is one.
func (e *Entries[K, V]) Remove(k K) { e.lru.Remove(k) }

// Purge removes all.
func (e *Entries[K, V]) Purge() { e.lru.Purge() }

// Len returns how many there are, with those that have expired and were not removed yet.
func (e *Entries[K, V]) Len() int { return e.lru.Len() }
