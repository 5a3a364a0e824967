package redis

import (
	"context"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A progress calls a function again and again, for reports of work in progress.
type progress struct {
	mu struct {
		sync.Mutex
		closed bool
		stop   func() bool // of the next call
	}
	running sync.WaitGroup
}

// begin calls tick after each pause, until end is called.
func (p *progress) begin(clock node.Clock, pause time.Duration, tick func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return
	}
	p.running.Add(1)
	p.mu.stop = clock.AfterFunc(pause, func(context.Context) {
		defer p.running.Done()
		tick()
		p.begin(clock, pause, tick)
	})
}

// end returns when no call is under way, and none will be.
func (p *progress) end() {
	p.mu.Lock()
	stop := p.mu.stop
	p.mu.closed = true
	p.mu.Unlock()
	if stop != nil && stop() {
		p.running.Done()
	}
	p.running.Wait()
}

// A pace is how many messages to ask for, so that an answer fits into the room. Servers are
// asked for numbers of messages, not for bytes.
type pace struct {
	most    int   // what may be asked for; it doubles while answers are full
	average int64 // bytes of a message, of the last answer that had one
}

// firstPace is how many are asked for before a size is known.
const firstPace = 16

func (p *pace) count(most int, bytes int64) int {
	n := min(most, max(p.most, firstPace))
	if p.average > 0 {
		n = min(n, int(min(bytes/p.average, int64(most))))
	}
	return max(n, 1)
}

// learn takes account of an answer.
func (p *pace) learn(asked, got int, bytes int64) {
	if got == 0 {
		return
	}
	average := bytes/int64(got) + 1
	switch {
	case average > 4*p.average && p.average > 0: // they have become large: begin again
		p.most = firstPace
	case got == asked:
		p.most = min(2*max(p.most, firstPace), 1<<16)
	}
	p.average = average
}
