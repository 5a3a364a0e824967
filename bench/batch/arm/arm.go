// Package arm runs one arm of the batch benchmark: a way of shipping events,
// under one load, in a process of its own.
//
// An arm is a [Design]; its [Subject] is offered events by [Child], which is the
// main function of the process and prints a [Result]. Everything that is measured
// of the client, CPU time, memory, profiles, is therefore the arm's.
//
// Reading order: arm.go, load.go (who offers, and when), child.go (what is
// measured around it), shares.go (what profiles say). The package knows nothing
// of the designs.
package arm

import (
	"context"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/model"
)

// A Subject ships events to the model server.
type Subject interface {
	// Offer hands over an event, which stays the caller's. It returns nothing
	// when the event was accepted, which may take a while, and otherwise why it
	// was not. In saturation runs several goroutines call it at once.
	Offer(e *model.Event) (reason string)
	// Close sends what is waiting, as far as the design does so, and ends the
	// subject. Nobody calls Offer any more.
	Close(ctx context.Context) error
}

// A Dropper is a Subject that can lose events after it has accepted them, and
// tells. It is asked after Close.
type Dropper interface {
	Dropped() map[string]int64 // by reason
}

// Options are what a subject is made from. Intervals and limits are those of the
// protocol, and every design uses what it has use for.
type Options struct {
	URL      string // where batches go
	Endpoint string // what "/batch" is appended to, for those who insist on doing so
	Dir      string // an empty folder on a disk
	Size     int    // of an event in bytes, as JSON
	Interval time.Duration
	Limit    int // events in a batch
	Queue    int // events, of designs that take a number; 0 for none
}

// A Load is how events are offered.
type Load string

const (
	// Open offers on schedule and catches up when it was kept waiting: every
	// event there should be is offered, and its age counts from when it should
	// have been.
	Open Load = "open"
	// Closed offers on schedule too, but what falls due while it is kept waiting
	// is never offered; it counts as dropped, as missed. It is what a producer
	// with a ticker does, and what the founding article measured.
	Closed Load = "closed"
)

// Missed is the reason of events that Closed did not offer, and Silent that of
// those of which nobody was told.
const (
	Missed = "missed"
	Silent = "silent"
)

// A Design is a way of shipping events.
type Design struct {
	Name string
	Load Load
	Make func(Options) (Subject, error)
	// Under are prefixes of the names of functions: of those that run the
	// processor. What is allocated under any of them is the whole that the
	// share of copies is of.
	Under []string
	// Copies are prefixes of the names of functions that copy events which are
	// in memory already, so that their first place may be used again. Encoding
	// an event is none, since something must write down what is sent; handing
	// its memory on is none either. Nil means that nobody has looked.
	Copies []string
	// Tells says that the design tells what it drops. Where it does not, what
	// is not delivered in the end counts as dropped, as silent.
	Tells bool
}

// Find returns the design with a name.
func Find(all []Design, name string) (Design, bool) {
	for _, d := range all {
		if d.Name == name {
			return d, true
		}
	}
	return Design{}, false
}
