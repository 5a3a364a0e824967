package batch

import (
	"context"
	"log/slog"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// Options say what a processor does with events of type T. Encode and Send
// must be given; every other zero value is a default that needs no tuning. A
// Options is read by New and not kept: changing it afterwards changes nothing.
type Options[T any] struct {
	// Encode appends the encoded form of v to dst and returns the extended
	// slice, as append does. It runs in the goroutine that adds the event,
	// straight into the memory the event is sent from, and under a lock which
	// other producers may be waiting for: it must not block, must not keep
	// dst, and must not call the processor. Its error is returned by Add,
	// wrapped beside ErrEncode. With Format Lines the form must not hold a newline.
	Encode func(dst []byte, v *T) ([]byte, error)

	// SendFunc ships one batch; see Send. NewHTTP makes one.
	Send SendFunc

	// Format is how events follow each other in a batch's body. The zero
	// value is Lines.
	Format Format

	// Trigger says when a batch is sent.
	Trigger Trigger

	// Queue says how many events may wait, and what becomes of one too many.
	Queue Queue

	// Lanes says how many batches are on the way at once, and in which order.
	Lanes Lanes[T]

	// Retry says when a batch which was not taken is sent again.
	Retry Retry

	// Spool keeps events on disk. Nil keeps them in memory only.
	Spool *Spool

	// Producer names this processor to the receiver: it is the first part of
	// each batch's key, by which a receiver recognises a batch that it has
	// taken already. Two processors that run at the same time must not share
	// a name. Empty makes a random one for each New.
	Producer string

	// DeadLetter takes events that the receiver will not take: those it
	// refuses, and those given up by Retry.MaxElapsed or Retry.Attempts. It is
	// called with the events of one batch, or some of them, from the goroutine
	// that ships it, perhaps from several concurrently, and must return when
	// ctx ends. When it returns an error it is called again, after a back-off,
	// and the events stay where they are: with a Spool, they leave the disk
	// only after it has returned nil. It may get the same events again after a
	// crash. Nil drops them.
	DeadLetter func(ctx context.Context, d Dropped) error

	// OnDrop is told of each event that will never be delivered: the oldest
	// or newest one of a full queue, one whose time is up, one which the
	// receiver refuses, and also those that DeadLetter has taken. It is called
	// without any lock held, from the goroutine that found out, and gets the
	// events' bytes: the last chance to keep them. It may be called from
	// several goroutines at once. What it tells of counts as settled when it
	// has returned: it must not call Flush or Close, which would wait for it,
	// nor wait for room in a queue that its batch keeps full. Without it and
	// without DeadLetter, Close returns ErrDropped if events were given up.
	OnDrop func(Dropped)

	// Hooks are told of attempts and deliveries, for metrics and traces.
	Hooks Hooks

	// Log is told of what an operator would want to know, each kind of
	// message at most once a second. Nil is slog.Default; to discard
	// messages, give slog.New(slog.DiscardHandler).
	Log *slog.Logger
}

// Hooks are functions that are told what a processor does. Nil ones cost
// nothing. They are called without any lock held, from the goroutine that ships
// the batch, which waits for them; several may be called concurrently.
type Hooks struct {
	// OnAttempt is told of each attempt to send a batch or a piece of one.
	OnAttempt func(Attempt)
	// OnDelivered is told of the events of a batch or a piece of one that the
	// receiver took.
	OnDelivered func(Delivery)
}

// An Attempt is one call of Send.
type Attempt struct {
	Key     string        // of the batch or piece
	Lane    int           // from 0
	Number  int           // of the attempt, from 1
	Events  int           // sent
	Bytes   int64         // of the body, before compression
	Took    time.Duration // until Send returned
	Outcome Outcome       // as Retry.Classify left it; its Verdict is not Auto
}

// A Delivery is the events of a batch or a piece of one that the receiver took.
type Delivery struct {
	Key       string        // of the batch or piece
	Lane      int           // from 0
	Events    int           // taken
	Age       time.Duration // of the oldest event of the batch, since it was added
	Duplicate bool          // the receiver said that it had taken them before
}

// A Format is how events follow each other in the body of a batch.
type Format uint8

const (
	// FormatLines puts a newline after each event (NDJSON when events are JSON).
	FormatLines Format = iota
	// FormatArray encloses the events in brackets with commas between: JSON.
	FormatArray
	// FormatRaw puts nothing between events: Encode frames them itself.
	FormatRaw
)

// String returns the format's name.
func (f Format) String() string {
	return [...]string{"lines", "array", "raw"}[f]
}

// A Trigger says when a batch is sent: at the first of its conditions.
type Trigger struct {
	// Count sends when so many events wait; no batch holds more. 0 means
	// 1,000.
	Count int
	// Bytes sends when the waiting events take so many bytes; no batch holds
	// more, and a larger event is refused with ErrTooLarge. 0 means 1 MiB.
	Bytes int
	// Linger sends so long after the first event of the batch was added. 0
	// means one second; negative never sends by age.
	Linger time.Duration
	// Idle sends when no event came for so long, or up to a quarter longer.
	// 0 never does.
	Idle time.Duration
}

// A Queue is the room for events that wait for their batch to be sent. Room is
// taken a chunk of events at a time, so that the queue may refuse up to a chunk
// for each processor before its limit is reached exactly; it never exceeds it.
// Batches on the way are not part of it. Nor are those that wait for their next
// attempt, under Unordered: they take at most a quarter as many events and bytes in
// addition, or Lanes.Max batches if that is more.
type Queue struct {
	// Events is the most events to wait. 0 means 65,536.
	Events int
	// Bytes is the most bytes to wait. 0 means 64 MiB.
	Bytes int64
	// ReasonQueueFull is what Add does when there is no room. The zero value is Block, or
	// PolicySpill when there is a Spool.
	Full Policy
}

// A Policy is what Add does when the queue is full. AddWait and AddAck wait for
// room under every policy but DropOldest and Spill, which make it.
type Policy uint8

const (
	// PolicyDefault is Block, or Spill when there is a Spool.
	PolicyDefault Policy = iota
	// PolicyBlock waits until there is room or the processor closes. Nothing is lost; producers slow down.
	PolicyBlock
	// PolicyReject returns ErrFull; the event is not accepted.
	PolicyReject
	// PolicyDropNewest accepts the event and drops it.
	PolicyDropNewest
	// PolicyDropOldest drops the chunk of events that has waited longest.
	PolicyDropOldest
	// PolicySpill moves waiting events to the spool, and waits as Block does when
	// that is full too.
	PolicySpill
)

// String returns the policy's name.
func (p Policy) String() string {
	return [...]string{"default", "block", "reject", "drop_newest", "drop_oldest", "spill"}[p]
}

// Lanes are the ways to the receiver.
type Lanes[T any] struct {
	// Max is the most batches on the way at once. 0 means 4. With PerKey it is
	// the number of lanes, with Total it is one. Under Unordered, a batch that
	// waits for its next attempt is not on the way: others are sent meanwhile,
	// as long as those that wait do not take too much memory; see Queue.
	Max int
	// Order is what stays in order. The zero value is Unordered.
	Order Order
	// Key gives what PerKey keeps in order: events of equal keys. It runs in
	// the goroutine that adds the event. With a Spool, it should give the same
	// numbers in each process, as hash/fnv does and hash/maphash does not: New
	// calls it with a zero T, and when the result is another than the one with
	// which events on disk were written, or Key panics, these are sent on one
	// lane before anything else, so that order is kept at the cost of speed. A
	// Key that changes for other events than the zero one breaks the order.
	Key func(*T) uint64
	// Gapless stops a lane, under PerKey and Total, when one of its events is
	// refused, expired or unreadable, until Resume is called. By default the
	// event is reported to OnDrop and the lane goes on.
	Gapless bool
}

// An Order is what stays in order between Add and the receiver.
type Order uint8

const (
	// OrderNone keeps no order: batches overtake each other.
	OrderNone Order = iota
	// OrderPerKey keeps events of equal Lanes.Key in order: one batch on the way
	// for each lane, and a lane waits while its batch is tried again.
	OrderPerKey
	// OrderTotal keeps all events in order: one batch on the way.
	OrderTotal
)

// String returns the order's name.
func (o Order) String() string {
	return [...]string{"unordered", "key", "total"}[o]
}

// Retry says when a batch that was not taken is sent again: after a random time
// between nothing and a bound, which starts at Base and doubles up to Cap with
// each attempt ("full jitter", M. Brooker, Exponential Backoff And Jitter, 2015).
type Retry struct {
	// Initial is the bound after the first attempt. 0 means 100 ms.
	Initial time.Duration
	// Max is the largest bound. 0 means 30 s.
	Max time.Duration
	// MaxElapsed is how long after its first attempt a batch is dropped as
	// ReasonExpired. 0 never drops one.
	MaxElapsed time.Duration
	// Attempts is how many failed attempts a batch has before it is dropped as
	// ReasonExhausted, pauses not counted. If the receiver has answered the last one
	// (Outcome.Status), and not with overload, halves of the batch get another
	// attempt each, down to single events, so that one event which makes the
	// receiver fail does not take others with it; unless eight single events
	// in a row have failed, which says that it is not the events. 0 means no
	// limit.
	Attempts int
	// MaxRetryAfter is the longest wait a receiver may ask for. 0 means two
	// minutes.
	MaxRetryAfter time.Duration
	// Classify may change the outcome of an attempt before it is acted on: for
	// receivers that say 500 when they mean 400, or the other way round.
	Classify func(Outcome) Outcome
}

// A Spool keeps events on disk, in files of a folder that this processor alone
// may use. Events found there by New are sent again.
type Spool struct {
	// Dir is the folder. It is made when it is not there.
	Dir string
	// WriteAhead writes each event soon after it was added, whether or not it
	// could be sent at once; a Ticket tells when it is on disk. Otherwise
	// events go to disk when memory is full (Spill), when a batch was tried
	// AfterAttempts times, and when Close could not deliver them.
	WriteAhead bool
	// SyncEvery is the longest time between an event and the fsync that makes
	// it durable. 0 means 10 ms; negative leaves it to the operating system,
	// until a file is complete: then events survive the end of the process,
	// not of the machine.
	SyncEvery time.Duration
	// SyncBytes fsyncs earlier after so many bytes. 0 means 1 MiB.
	SyncBytes int64
	// MaxBytes is the most bytes on disk. 0 means no limit.
	MaxBytes int64
	// SegmentBytes is the size of one file. 0 means 64 MiB.
	SegmentBytes int64
	// AfterAttempts is the number of failed attempts after which a batch is
	// written to disk, unless WriteAhead has done so. 0 means 3.
	AfterAttempts int

	fs vfs.FS // nil is the real file system; tests have others
}
