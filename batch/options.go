package batch

import (
	"context"
	"log/slog"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// Options are the settings of a processor for events of type T. Encode and Send are
// required; every other zero value is a good default. New copies the options: later
// changes have no effect.
type Options[T any] struct {
	// Encode appends the encoded form of v to dst and returns the extended slice,
	// like append. It runs in the goroutine that adds the event, and writes into the
	// memory from which the event is sent. It holds a lock for which other producers
	// may wait: it must not block, keep dst or call the processor. Add returns its
	// error together with ErrEncode. With FormatLines the encoded form must not
	// contain a newline.
	Encode func(dst []byte, v *T) ([]byte, error)

	// Send sends one batch. NewHTTP makes one.
	Send SendFunc

	// Format is how the body of a batch joins the events. The zero value is
	// FormatLines.
	Format Format

	// Trigger says when a batch is sent.
	Trigger Trigger

	// Queue limits how many events may wait, and says what happens at the limit.
	Queue Queue

	// Lanes says how many batches are sent concurrently, and in which order.
	Lanes Lanes[T]

	// Retry says when a batch that was not accepted is sent again.
	Retry Retry

	// Spool keeps events on disk. Nil keeps them in memory only.
	Spool *Spool

	// Producer is the first part of the key of each batch, by which a receiver
	// recognizes a batch that it has taken already. Two processors that run at the
	// same time must not share a name. If it is empty, New makes a random one.
	Producer string

	// DeadLetter takes events that the receiver refuses, and events given up by
	// Retry.MaxElapsed or Retry.Attempts. It is called with events of one batch,
	// from the goroutine that sends the batch, so several calls may be concurrent.
	// It must return when ctx ends. If it returns an error, it is called again after
	// a back-off. With a Spool, events leave the disk only after it has returned
	// nil. After a crash it may get the same events again. Nil drops them.
	DeadLetter func(ctx context.Context, d Dropped) error

	// OnDrop is called with each event that will never be delivered: dropped from a
	// full queue, expired, refused by the receiver, or taken by DeadLetter. It gets
	// the bytes of the events: this is the last chance to keep them. It is called
	// without any lock held, and may be called from several goroutines concurrently.
	// The events count as settled when it returns. It must not call Flush or Close,
	// which would wait for it, nor wait for room in a queue that its batch keeps
	// full. Without it and without DeadLetter, Close returns ErrDropped if events
	// were given up.
	OnDrop func(Dropped)

	// Hooks are called for attempts and deliveries, for metrics and traces.
	Hooks Hooks

	// Log gets messages for an operator, each kind at most once a second. Nil is
	// slog.Default; to discard messages, use slog.New(slog.DiscardHandler).
	Log *slog.Logger
}

// Hooks are functions that a processor calls. Nil ones cost nothing. They are called
// without any lock held, from the goroutine that sends the batch, which waits for
// them. Several may be called concurrently.
type Hooks struct {
	// OnAttempt is called after each attempt to send a batch or a piece of one.
	OnAttempt func(Attempt)
	// OnDelivered is called when the receiver has taken events of a batch or of a
	// piece of one.
	OnDelivered func(Delivery)
}

// An Attempt is one call of Options.Send.
type Attempt struct {
	Key     string        // of the batch or piece
	Lane    int           // from 0
	Number  int           // of the attempt, from 1
	Events  int           // sent
	Bytes   int64         // of the body, before compression
	Took    time.Duration // until Options.Send returned
	Outcome Outcome       // after Retry.Classify; its Verdict is not VerdictAuto
}

// A Delivery describes the events of a batch, or a piece of one, that were taken.
type Delivery struct {
	Key       string        // of the batch or piece
	Lane      int           // from 0
	Events    int           // taken
	Age       time.Duration // of the oldest event of the batch
	Duplicate bool          // the receiver had taken them before
}

// A Format says how the body of a batch joins the events.
type Format uint8

const (
	// FormatLines puts a newline after each event (NDJSON when events are JSON).
	FormatLines Format = iota
	// FormatArray makes a JSON array of the events.
	FormatArray
	// FormatRaw puts nothing between events: Encode frames them itself.
	FormatRaw
)

func (f Format) String() string {
	return [...]string{"lines", "array", "raw"}[f]
}

// A Trigger says when a batch is sent: when the first of its conditions is met.
type Trigger struct {
	// Count sends a batch when this many events wait, which is also the most events
	// in a batch. 0 means 1,000.
	Count int
	// Bytes sends a batch when the waiting events have this many bytes, which is
	// also the most bytes in a batch. Add returns ErrTooLarge for a larger event. 0
	// means 1 MiB.
	Bytes int
	// Linger sends a batch this long after its first event was added. 0 means one
	// second; negative disables it.
	Linger time.Duration
	// Idle sends a batch when no event was added for this long, or up to a quarter
	// longer. 0 disables it.
	Idle time.Duration
}

// A Queue limits the events that wait for their batch to be sent. Room is reserved a
// chunk of events at a time. So the queue may be full up to a chunk per CPU before its
// limit; it never exceeds the limit. Batches on the way are not part of it. With
// OrderNone, neither are batches that wait for their next attempt: they may take in
// addition a quarter of the limits, or Lanes.Max batches if that is more.
type Queue struct {
	// Events limits the number of waiting events. 0 means 65,536.
	Events int
	// Bytes limits the memory of waiting events. 0 means 64 MiB.
	Bytes int64
	// Full is what Add does if there is no room. The zero value is PolicySpill with a
	// Spool, and PolicyBlock without one.
	Full Policy
}

// A Policy is what Add does when the queue is full. AddWait, AddAll and AddAck always
// wait for room, except with PolicyDropOldest.
type Policy uint8

const (
	// PolicyDefault is PolicySpill with a Spool and PolicyBlock without one.
	PolicyDefault Policy = iota
	// PolicyBlock waits until there is room or the processor closes. No event is lost,
	// but producers slow down.
	PolicyBlock
	// PolicyReject returns ErrFull; the event is not accepted.
	PolicyReject
	// PolicyDropNewest accepts the event and drops it.
	PolicyDropNewest
	// PolicyDropOldest drops the chunk of events that has waited longest.
	PolicyDropOldest
	// PolicySpill moves waiting events to the spool, and waits if that is full too.
	PolicySpill
)

func (p Policy) String() string {
	return [...]string{"default", "block", "reject", "drop_newest", "drop_oldest", "spill"}[p]
}

// Lanes say how many batches are sent concurrently, and what stays in order.
type Lanes[T any] struct {
	// Max limits the batches that are sent concurrently. 0 means 4. With OrderPerKey
	// it is the number of lanes; with OrderTotal it is always 1. With OrderNone, a
	// batch that waits for its next attempt does not count: others are sent meanwhile,
	// until the waiting ones take too much memory; see Queue.
	Max int
	// Order says what stays in order. The zero value is OrderNone.
	Order Order
	// Key returns the key of an event: OrderPerKey keeps events of equal keys in
	// order. It runs in the goroutine that adds the event.
	//
	// With a Spool, Key should return the same numbers in each process, as hash/fnv
	// does and hash/maphash does not. New calls it with a zero T. If it panics, or if
	// the result differs from the one with which events on disk were written, these
	// events are sent on one lane before all others: that keeps the order, but is
	// slower. A Key that changes only for other events breaks the order.
	Key func(*T) uint64
	// Gapless stops a lane until Resume is called, if one of its events is refused,
	// expired or unreadable. It needs OrderPerKey or OrderTotal. By default the event
	// is reported to OnDrop and the lane continues.
	Gapless bool
}

// An Order says what stays in order between Add and the receiver.
type Order uint8

const (
	// OrderNone keeps no order: batches may overtake each other.
	OrderNone Order = iota
	// OrderPerKey keeps events of equal Lanes.Key in order. Each lane sends one batch
	// at a time, and waits while that is tried again.
	OrderPerKey
	// OrderTotal keeps all events in order: one batch is sent at a time.
	OrderTotal
)

func (o Order) String() string {
	return [...]string{"unordered", "key", "total"}[o]
}

// Retry says when a batch that was not accepted is sent again: after a random time up
// to a bound, which starts at Initial and doubles with each attempt up to Max ("full
// jitter", M. Brooker, Exponential Backoff And Jitter, 2015).
type Retry struct {
	// Initial is the bound after the first attempt. 0 means 100 ms.
	Initial time.Duration
	// Max is the largest bound. 0 means 30 s.
	Max time.Duration
	// MaxElapsed is how long after its first attempt a batch is dropped with
	// ReasonExpired. 0 means no limit.
	MaxElapsed time.Duration
	// Attempts is after how many failed attempts a batch is dropped with
	// ReasonExhausted. Pauses do not count. 0 means no limit.
	//
	// One event that makes the receiver fail does not take the whole batch with it: if
	// the receiver has responded to the last attempt (Outcome.Status) without
	// overload, halves of the batch get another attempt each, down to single events.
	// This ends when eight single events in a row have failed, because then the events
	// are not at fault.
	Attempts int
	// MaxRetryAfter limits the wait that a receiver may ask for. 0 means two
	// minutes.
	MaxRetryAfter time.Duration
	// Classify may change the outcome of an attempt before it is used: for receivers
	// that respond with 500 when they mean 400, or the reverse.
	Classify func(Outcome) Outcome
}

// A Spool keeps events on disk, in a folder that only this processor may use. New
// queues the events that it finds there.
type Spool struct {
	// Dir is the folder. It is made if it is missing.
	Dir string
	// WriteAhead writes each event soon after it was added, even if it could be sent
	// immediately. Use a Ticket to wait until it is on disk. Without WriteAhead,
	// events are written only when memory is full (PolicySpill), when a batch was
	// tried AfterAttempts times, and when Close could not deliver them.
	WriteAhead bool
	// SyncEvery limits the time between an event and the fsync that makes it durable.
	// 0 means 10 ms. If negative, there is no fsync until a file is complete: events
	// survive a crash of the process, but not of the machine.
	SyncEvery time.Duration
	// SyncBytes makes the fsync earlier, after this many bytes. 0 means 1 MiB.
	SyncBytes int64
	// MaxBytes limits the bytes on disk. 0 means no limit.
	MaxBytes int64
	// SegmentBytes is the size of one file. 0 means 64 MiB.
	SegmentBytes int64
	// AfterAttempts is the number of failed attempts after which a batch is
	// written to disk, unless WriteAhead has done so. 0 means 3.
	AfterAttempts int

	fs vfs.FS // nil: the real one; tests use others
}
