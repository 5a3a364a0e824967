package core

import (
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
)

// A local is what a node keeps on each process. A process does not see what is kept on
// its parents. A node's Receive and the functions that continue it may use the state
// without a lock.
type local[T any] struct {
	key   *node.Key[*kept[T]]
	begin func() T
	end   func(*T) // called when the process ends
}

type kept[T any] struct {
	owner node.Process
	ended atomic.Bool // forked children read it, and their process may be the owner's, used again
	state T
}

func (l *local[T]) of(p node.Process) *T {
	if k, ok := l.key.Load(p); ok && k.owner == p && !k.ended.Load() {
		return &k.state
	}
	k := &kept[T]{owner: p, state: l.begin()}
	l.key.Store(p, k)
	p.Defer(func() {
		k.ended.Store(true)
		l.end(&k.state)
	})
	return &k.state
}
