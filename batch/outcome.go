package batch

import (
	"context"
	"time"
)

// A SendFunc ships one batch and tells what became of it. Processors call it from
// their own goroutines, up to Lanes.Max at once, and again for each attempt. It
// must return when ctx ends, and may read b until it returns; readers made by
// b.Body may be read later, until they are closed.
type SendFunc func(ctx context.Context, b *Batch) Outcome

// An Outcome is what became of an attempt to send a batch. The zero value says
// that the receiver took all of it; Outcome{Err: err} says try again.
type Outcome struct {
	// Verdict says what to do with the batch. Auto decides by Err.
	Verdict Verdict
	// Err is why the batch was not taken. With the verdict Taken it is what was
	// wrong all the same, for the log.
	Err error
	// Status is the HTTP status of the answer, 0 without one. For Classify and
	// for messages.
	Status int
	// RetryAfter is the least time before anything is sent again, by any lane: what
	// the receiver asked for. 0 asks for nothing.
	RetryAfter time.Duration
	// Overload says that the receiver has too much to do, so that fewer
	// batches are sent at once from now on.
	Overload bool
	// Duplicate says that the receiver had taken the batch before.
	Duplicate bool
	// Rejected are the events the receiver did not take, of a batch it took
	// otherwise. Indexes count from 0 in the batch sent.
	Rejected []Rejected
}

// Rejected is the receiver's verdict on one event.
type Rejected struct {
	// Index is the event's place in the batch.
	Index int
	// Reason is what the receiver says about it.
	Reason string
	// Retry says that the event may be taken later.
	Retry bool
}

// A Verdict says what to do with a batch after an attempt.
type Verdict uint8

const (
	// VerdictAuto is Taken without an error and Again with one.
	VerdictAuto Verdict = iota
	// VerdictAccepted settles the batch, but for events in Rejected.
	VerdictAccepted
	// VerdictRetry sends the batch again, after the back-off.
	VerdictRetry
	// VerdictSplit sends the batch again in halves: it was too large. A single event
	// that is too large is refused.
	VerdictSplit
	// VerdictBisect sends the batch again in halves until the events that the
	// receiver cannot take are found; they are refused. When eight single
	// events in a row are refused and nothing is taken, it seems to be the
	// receiver, or the address: then it is as Pause, until something is taken
	// or Resume is called; except with Lanes.Gapless, which stops anyway.
	VerdictBisect
	// VerdictPause keeps the batch and tries again every Retry.Max, or on Resume:
	// the receiver does not know or not allow us. Its lane waits.
	VerdictPause
	// VerdictRefuse drops the whole batch as Refused: no attempt can succeed.
	VerdictRefuse
)

// String returns the verdict's name.
func (v Verdict) String() string {
	return [...]string{"auto", "taken", "again", "split", "bisect", "pause", "refuse"}[v]
}
