package batch

import (
	"context"
	"time"
)

// A SendFunc sends one batch and returns the outcome. A processor calls it for each
// attempt, in up to Lanes.Max goroutines concurrently. It must return when ctx ends.
// It may read b until it returns, and readers made by b.Body until they are closed.
type SendFunc func(ctx context.Context, b *Batch) Outcome

// An Outcome is the result of an attempt to send a batch. The zero value means that
// the receiver took all of it; Outcome{Err: err} means that it must be sent again.
type Outcome struct {
	// Verdict says what to do with the batch. VerdictAuto decides by Err.
	Verdict Verdict
	// Err says why the batch was not taken. With VerdictAccepted it is a problem that
	// is logged.
	Err error
	// Status is the HTTP status of the response, 0 without one. It is used by
	// Retry.Classify and in messages.
	Status int
	// RetryAfter is how long the receiver asked to wait. No lane sends anything
	// before.
	RetryAfter time.Duration
	// Overload says that the receiver is overloaded, so that fewer batches are sent
	// concurrently from now on.
	Overload bool
	// Duplicate says that the receiver had taken the batch before.
	Duplicate bool
	// Refused are the events that the receiver did not take, although it took the
	// rest of the batch.
	Refused []Refusal
}

// A Refusal says that the receiver did not take one event of a batch.
type Refusal struct {
	// Index is the index of the event in the batch, from 0.
	Index int
	// Reason is the reason that the receiver gave.
	Reason string
	// Retry says that the event is to be sent again. Otherwise it is given up.
	Retry bool
}

// A Verdict says what to do with a batch after an attempt.
type Verdict uint8

const (
	// VerdictAuto is VerdictAccepted without an error and VerdictRetry with one.
	VerdictAuto Verdict = iota
	// VerdictAccepted settles the batch, except the events in Outcome.Refused.
	VerdictAccepted
	// VerdictRetry sends the batch again, after the back-off.
	VerdictRetry
	// VerdictSplit sends the batch again in halves, because it was too large. A single
	// event that is too large is given up as refused.
	VerdictSplit
	// VerdictBisect sends the batch again in halves to find the events that the
	// receiver cannot take, and gives these up as refused. If eight single events in
	// a row are refused and none is taken, the receiver or the address seems to be
	// at fault: then it acts as VerdictPause until something is taken or Resume is
	// called. With Lanes.Gapless the lane stops at the first refused event.
	VerdictBisect
	// VerdictPause keeps the batch and sends it again every Retry.Max, or on Resume:
	// the receiver does not know or allow the sender. The lane waits.
	VerdictPause
	// VerdictRefuse gives up the whole batch as refused: no attempt can succeed.
	VerdictRefuse
)

func (v Verdict) String() string {
	return [...]string{"auto", "taken", "again", "split", "bisect", "pause", "refuse"}[v]
}
