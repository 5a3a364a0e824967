package batch

import (
	"errors"
	"fmt"
)

// What Add, AddWait and AddAck return when an event was not accepted. AddWait
// and AddAck return their context's error, too.
var (
	// ErrFull means that the queue has no room and the policy is Reject.
	ErrFull = errors.New("batch: queue is full")
	// ErrTooLarge means that the encoded event is larger than Trigger.Bytes,
	// or than the queue.
	ErrTooLarge = errors.New("batch: event is too large")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("batch: processor is closed")
	// ErrEncode means that Encode returned an error, which is wrapped beside
	// it, or something that is not an event.
	ErrEncode = errors.New("batch: encode")
)

// ErrDropped is what Close returns, with their number, when events were given up
// that nobody was told of, but for the log: without OnDrop and without DeadLetter.
// Events that Queue.Full had dropped do not count.
var ErrDropped = errors.New("batch: events were dropped")

// A Reason is why an accepted event was not delivered.
type Reason uint8

const (
	// ReasonQueueFull: the queue was full, and the policy dropped the event.
	ReasonQueueFull Reason = iota + 1
	// ReasonExpired: Retry.MaxElapsed passed without an attempt that succeeded.
	ReasonExpired
	// ReasonRefused: the receiver will never take the event.
	ReasonRefused
	// ReasonReturned: Close could not deliver the event; its Report holds it.
	ReasonReturned
	// ReasonKept: Close could not deliver the event; the spool holds it, and the
	// next processor on that spool will send it.
	ReasonKept
	// ReasonUnreadable: the event was on disk only, and the disk does not give it
	// back.
	ReasonUnreadable
	// ReasonExhausted: Retry.Attempts failed.
	ReasonExhausted
)

// String returns the reason as one word.
func (r Reason) String() string {
	return [...]string{"none", "full", "expired", "refused", "returned", "kept", "unreadable", "exhausted"}[r]
}

// An EventError is why one event, of which there is a Ticket, was not delivered.
type EventError struct {
	Reason Reason
	Err    error // what the receiver or the disk said; may be nil
}

// Error says why.
func (e *EventError) Error() string {
	if e.Err == nil {
		return "batch: event not delivered: " + e.Reason.String()
	}
	return fmt.Sprintf("batch: event not delivered: %s: %v", e.Reason, e.Err)
}

// Unwrap returns what the receiver or the disk said.
func (e *EventError) Unwrap() error { return e.Err }

// Dropped are events that will never be delivered, as OnDrop and DeadLetter get
// them.
type Dropped struct {
	Reason Reason
	// Key is the key of the batch they were sent in, empty if they never were.
	Key string
	// Err is what the receiver or the disk said; may be nil.
	Err error
	// Events are the encoded events, the callee's to keep. Events the disk
	// does not give back are nil.
	Events [][]byte
	// DeadLettered says that DeadLetter has taken them.
	DeadLettered bool
}
