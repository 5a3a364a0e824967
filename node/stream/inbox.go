package stream

import (
	"errors"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// An Inbox holds the messages of a server that sends them by itself and keeps none: a reader puts
// there what comes, and takes from there what it reads. What finds no room is dropped and counted.
// What is given back waits there until it is due. It may be used concurrently.
type Inbox[T any] struct {
	// Wake has a value if there may be something to take.
	Wake chan struct{}

	clock    node.Clock
	messages int
	bytes    int64

	mu struct {
		sync.Mutex
		waiting  []*Arrival[T] // in the order in which they came
		bytes    int64         // of waiting
		returned Returned[*Arrival[T]]
		dropped  uint64
		number   uint64 // of the last message
	}
}

// An Arrival is a message of an [Inbox], and its Token.
type Arrival[T any] struct {
	Of     T      // as the library of the system has it
	Number uint64 // of the message, from 1 in the order in which they come

	raw     []byte
	size    int64
	time    time.Time
	attempt int
}

// NewInbox returns an inbox in which so many messages wait at most, and so many bytes of them,
// but one of any size.
func NewInbox[T any](clock node.Clock, messages int, bytes int64) *Inbox[T] {
	b := &Inbox[T]{Wake: make(chan struct{}, 1), clock: clock, messages: messages, bytes: bytes}
	b.mu.returned = NewReturned[*Arrival[T]](clock, b.wake)
	return b
}

// Put takes a message that has come, if there is room for it. Its size is at least that of raw,
// which the inbox owns from now on.
func (b *Inbox[T]) Put(of T, raw []byte, size int64) {
	now := b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.waiting) >= b.messages || len(b.mu.waiting) > 0 && b.mu.bytes+size > b.bytes {
		b.mu.dropped++
		return
	}
	b.mu.number++
	b.mu.waiting = append(b.mu.waiting, &Arrival[T]{Of: of, Number: b.mu.number, raw: raw, size: size, time: now})
	b.mu.bytes += size
	b.wake()
}

func (b *Inbox[T]) wake() {
	select {
	case b.Wake <- struct{}{}:
	default: // it has one
	}
}

// Take returns what was given back and is due, and then what has come, as far as there is room.
func (b *Inbox[T]) Take(room Room) (read []Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	read = b.mu.returned.Take(&room, (*Arrival[T]).message)
	taken := 0
	for _, a := range b.mu.waiting {
		if len(read) >= room.Messages || room.Bytes <= 0 {
			break
		}
		taken++
		b.mu.bytes -= a.size
		read = append(read, a.message(&room))
	}
	clear(b.mu.waiting[:taken])
	b.mu.waiting = b.mu.waiting[taken:]
	return read
}

func (a *Arrival[T]) message(room *Room) Message {
	room.Bytes -= a.size
	return Message{Raw: a.raw, Time: a.time, Offset: int64(a.Number), Attempt: a.attempt, Token: a}
}

// Settle keeps what is given back, until it is due. The rest is done.
func (b *Inbox[T]) Settle(outcomes []Outcome) {
	for i := range outcomes {
		o := &outcomes[i]
		if o.Err == nil {
			continue
		}
		again := *o.Message.Token.(*Arrival[T]) // the source holds the first
		if !errors.Is(o.Err, ErrUnused) {
			again.attempt++
		}
		b.mu.Lock()
		b.mu.returned.Keep(&again, o.Delay)
		b.mu.Unlock()
	}
}

// Drop counts messages that were dropped before they could be put.
func (b *Inbox[T]) Drop(n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.dropped += n
}

// Counts reports what was dropped, for [Counter], and more of it.
func (b *Inbox[T]) Counts(report func(node.Metric), more uint64) {
	b.mu.Lock()
	dropped := b.mu.dropped + more
	b.mu.Unlock()
	report(node.Metric{Name: "source_dropped_total", Help: "Messages that found no room.", Type: node.MetricCounter, Value: float64(dropped)})
}
