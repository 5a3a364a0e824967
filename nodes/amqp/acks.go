package amqp

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// acks acknowledges deliveries: one frame for all up to one of which all are settled. Each frame is a
// write to the network, so what is settled waits for more: for [ackDelay], or until there are most. Any
// goroutine may call its methods.
type acks struct {
	clock node.Clock
	most  int

	mu struct {
		sync.Mutex
		link  *link
		next  uint64          // the lowest tag that is not settled
		above map[uint64]bool // those above it that are
		tags  []uint64        // settled, and not acknowledged
		stop  func() bool     // ends the wait for more; nil without
	}
}

// ackDelay is how long an acknowledgement may wait for others.
const ackDelay = 5 * time.Millisecond

// newAcks returns the acks of a reader that holds so many messages. Those that wait are of these, as the
// broker sees it, so they must be few.
func newAcks(clock node.Clock, inFlight int) *acks {
	return &acks{clock: clock, most: min(256, inFlight/8)}
}

// begin begins with the deliveries of a connection. What waits of another comes again.
func (a *acks) begin(l *link) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waitLocked(false)
	a.mu.link, a.mu.next, a.mu.above, a.mu.tags = l, 1, make(map[uint64]bool), nil
}

// add acknowledges deliveries of a connection, or has them wait.
func (a *acks) add(l *link, tags ...uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.link != l {
		return nil
	}
	if a.mu.tags = append(a.mu.tags, tags...); len(a.mu.tags) > a.most {
		return a.flushLocked()
	}
	a.waitLocked(len(a.mu.tags) > 0)
	return nil
}

// refuse gives a delivery back.
func (a *acks) refuse(l *link, tag uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.link != l {
		return nil
	}
	a.settle(tag)
	return l.ch.Nack(tag, false, true)
}

// flush acknowledges what waits.
func (a *acks) flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.flushLocked()
}

func (a *acks) flushLocked() error {
	a.waitLocked(false)
	upTo, single := a.split()
	var err error
	if upTo > 0 {
		err = a.mu.link.ch.Ack(upTo, true)
	}
	for _, tag := range single {
		if err == nil {
			err = a.mu.link.ch.Ack(tag, false)
		}
	}
	a.mu.tags = a.mu.tags[:0]
	return err
}

func (a *acks) waitLocked(on bool) {
	switch {
	case on && a.mu.stop == nil:
		a.mu.stop = a.clock.AfterFunc(ackDelay, func(context.Context) {
			_ = a.flush() // of a lost connection: who reads sees it, and the deliveries come again
		})
	case !on && a.mu.stop != nil:
		a.mu.stop()
		a.mu.stop = nil
	}
}

// settle notes that a delivery is settled. The caller holds the lock.
func (a *acks) settle(tag uint64) {
	if a.mu.above[tag] = true; tag != a.mu.next {
		return
	}
	for a.mu.above[a.mu.next] {
		delete(a.mu.above, a.mu.next)
		a.mu.next++
	}
}

// split settles what waits, and returns the one up to which all are settled (0 if there is none), and
// those that have to be acknowledged by themselves. The caller holds the lock.
func (a *acks) split() (upTo uint64, single []uint64) {
	slices.Sort(a.mu.tags)
	for _, tag := range a.mu.tags {
		a.settle(tag)
	}
	n, _ := slices.BinarySearch(a.mu.tags, a.mu.next)
	if n > 0 {
		upTo = a.mu.tags[n-1]
	}
	return upTo, a.mu.tags[n:]
}
