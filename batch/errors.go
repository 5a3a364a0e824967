package batch

import (
	"errors"
	"fmt"
	"log/slog"
)

// The errors of Add, AddWait and AddAck for an event that was not accepted. AddWait
// and AddAck may also return the error of their context.
var (
	// ErrFull means that the queue is full and the policy is PolicyReject.
	ErrFull = errors.New("batch: queue is full")
	// ErrTooLarge means that the encoded event is larger than Trigger.Bytes,
	// or than the queue.
	ErrTooLarge = errors.New("batch: event is too large")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("batch: processor is closed")
	// ErrEncode means that Encode returned an error, which is wrapped as well, or
	// something that is not an event.
	ErrEncode = errors.New("batch: encode")
)

// ErrDropped is returned by Close, with the number of events, if events were given up
// and only logged, because there is no OnDrop and no DeadLetter. Events that
// Queue.Full dropped do not count.
var ErrDropped = errors.New("batch: events were dropped")

// A Reason is why an accepted event was not delivered.
type Reason uint8

const (
	// ReasonQueueFull: the queue was full, and the policy dropped the event.
	ReasonQueueFull Reason = iota + 1
	// ReasonExpired: Retry.MaxElapsed passed without an attempt that succeeded.
	ReasonExpired
	// ReasonRefused: the receiver refused the event.
	ReasonRefused
	// ReasonReturned: Close could not deliver the event; its Report holds it.
	ReasonReturned
	// ReasonKept: Close could not deliver the event; the spool holds it, and the
	// next processor on that spool will send it.
	ReasonKept
	// ReasonUnreadable: the event was on disk only, and cannot be read.
	ReasonUnreadable
	// ReasonExhausted: as many attempts as Retry.Attempts failed.
	ReasonExhausted
)

func (r Reason) String() string {
	return [...]string{"none", "full", "expired", "refused", "returned", "kept", "unreadable", "exhausted"}[r]
}

// An EventError says why the event of a Ticket was not delivered.
type EventError struct {
	Reason Reason
	Err    error // the error of the receiver or the disk; may be nil
}

func (e *EventError) Error() string {
	if e.Err == nil {
		return "batch: event not delivered: " + e.Reason.String()
	}
	return fmt.Sprintf("batch: event not delivered: %s: %v", e.Reason, e.Err)
}

func (e *EventError) Unwrap() error { return e.Err }

// Dropped are events that will never be delivered. OnDrop and DeadLetter get them.
type Dropped struct {
	Reason Reason
	// Key is the key of the batch in which they were sent, empty if they never were.
	Key string
	// Err is the error of the receiver or the disk; may be nil.
	Err error
	// Events are the encoded events, which the callee may keep. An event that
	// cannot be read from disk is nil.
	Events [][]byte
	// DeadLettered reports that DeadLetter has taken them.
	DeadLettered bool
}

// reportDropped reports dropped events to their tickets, to OnDrop and to the log.
func (s *settings) reportDropped(parts []part, d Dropped) {
	n := 0
	for _, x := range parts {
		x.chunk.receipt.fail(x.from, x.to, &EventError{d.Reason, d.Err})
		n += x.n()
	}
	if s.onDrop != nil && d.Events == nil {
		d.Events = copies(parts, s.format)
	}
	s.notifyDropped(d, n)
}

// notifyDropped reports n dropped events to OnDrop and to the log.
func (s *settings) notifyDropped(d Dropped, n int) {
	level, msg := slog.LevelError, "batch: events are dropped"
	if d.DeadLettered {
		level, msg = slog.LevelWarn, "batch: events are dead letters"
	}
	s.log.write(level, msg, "reason", d.Reason.String(), "events", n, "key", d.Key, "err", d.Err)
	if s.onDrop != nil {
		s.onDrop(d)
	}
}
