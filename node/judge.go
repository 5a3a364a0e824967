package node

import "context"

// A Judge is what a trigger makes of the answers to its processes. It decides, once for
// each process, whether that has ended well. Whatever depends on the end of a process,
// such as the commit of a transaction, asks the process: see [Process.Enlist]. An error is
// a failure whatever the judge says, and with a nil Judge nothing else is.
//
// A Judge returns why an answer that is not an error is a failure, or nil if it is good.
// The engine calls it when all packets of the process have been answered and before
// anything is committed, from the goroutine that ends the process. A trigger that sends
// something back reads, checks and encodes the answer there, so that what cannot be sent
// is not committed.
type Judge func(Response) error

// A Phase is a part of the end of a process. The phases follow each other in the order
// of their constants, so that what can be repeated does not precede what cannot.
type Phase uint8

// The phases.
const (
	PhaseDatabase Phase = iota // transactions commit
	PhaseSession               // sessions are saved
	PhaseMark                  // marks are set, such as the marks of dedupe
	PhaseSend                  // records are handed to a transaction that ends later, and may not be handed twice
)

func (p Phase) String() string { return [...]string{"database", "session", "mark", "send"}[p] }

// A Participant takes part in the end of a process. It is called once. failure is nil if the
// process has ended well so far: then the participant keeps what it has done for the
// process, and else it undoes that. kept reports whether there was something to keep.
// An error is the failure of the process from then on; it must not come with kept.
//
// If an earlier participant has kept something, an error has the code [CodePartial].
type Participant func(ctx context.Context, failure error) (kept bool, err error)

// CodePartial is the code of an error of a process that ends in part: something was kept,
// such as a transaction, and something else could not be.
const CodePartial = "partial"
