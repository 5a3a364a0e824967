// Package recent keeps what processes and nodes have done lately, while a client asks for it.
//
// Read [Recent]: [Recent.Processes] has processes that have ended, [Recent.Packets] what came to a
// node and what it sent. A call is a look: what it returns is recorded from then on, for a minute
// after the last look. Before, and after, nothing is recorded, and processes pay nothing, unless
// [Recent.Keep] has been called.
//
// What is kept has secrets in it. The package must not know who may see it, or how.
package recent

import (
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/observe"
)

// lookFor is for how long one look lets things be recorded.
const lookFor = time.Minute

// maxTaps is how many nodes are looked at concurrently; the one that was looked at longest ago
// gives way.
const maxTaps = 16

// Watch lets an observer, or a recorder, watch processes until release is called:
// [uniflow.Engine.Watch].
type Watch func(*observe.Observer, *observe.Recorder) (release func(), err error)

// Recent keeps what has happened while a client asked. Any goroutine may call its methods. It
// must be closed.
type Recent struct {
	watch Watch

	mu        sync.Mutex // held while something begins or ends to be recorded
	keep      int        // see Keep; 0 for looks alone
	processes *looked[*processes]
	taps      map[string]*looked[*tap]
	closed    bool
}

// A looked is something that is recorded as long as a client looks at it.
type looked[T any] struct {
	what    T
	release func()
	until   time.Time
	timer   *time.Timer
}

// New returns what keeps nothing yet.
func New(watch Watch) *Recent { return &Recent{watch: watch, taps: make(map[string]*looked[*tap])} }

// Keep records processes from now on until Close, although no client looks, and holds up to some bytes of them.
// It is called once, before anything else.
func (r *Recent) Keep(bytes int) error {
	r.mu.Lock()
	r.keep = bytes
	r.mu.Unlock()
	_, err := r.lookAtProcesses()
	return err
}

// Close ends all looks.
func (r *Recent) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.processes != nil {
		r.processes.end()
		r.processes = nil
	}
	for id, l := range r.taps {
		l.end()
		delete(r.taps, id)
	}
}

func (l *looked[T]) end() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.release()
}

// look begins a look, or makes the one that there is longer. gone is called, with the lock held, when no client has
// looked for a while; nil is a look that does not end.
func look[T any](r *Recent, l *looked[T], begin func() (T, *observe.Observer, *observe.Recorder), gone func()) (*looked[T], error) {
	if l != nil {
		l.until = time.Now().Add(lookFor)
		return l, nil
	}
	what, o, rec := begin()
	release, err := r.watch(o, rec)
	if err != nil {
		return nil, err
	}
	l = &looked[T]{what: what, release: release, until: time.Now().Add(lookFor)}
	if gone == nil {
		return l, nil
	}
	l.timer = time.AfterFunc(lookFor, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if left := time.Until(l.until); left > 0 && !r.closed {
			l.timer.Reset(left)
			return
		}
		l.end()
		gone()
	})
	return l, nil
}
