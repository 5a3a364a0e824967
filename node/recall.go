package node

import (
	"context"
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// Recall says how a node takes part in resuming a durable process after a crash: what of
// it is recorded, and what happens when the process runs again with its records.
type Recall uint8

// What a node may declare.
const (
	// Effects is for nodes that change something outside of the process. What is recorded so
	// far is durable before the node gets a packet; its result is recorded, and what has a
	// record is never done again. Such a node must not continue after responses.
	Effects Recall = iota

	// Reads is for nodes whose result may differ the next time, but that change
	// nothing: a result is recorded, and the node may run again without one.
	Reads

	// Pure is for nodes whose result depends on the packet alone, and on what nodes before
	// kept on the process: they run again.
	Pure

	// Holds is for nodes that wait for a time or an event: the rest is waited for.
	Holds

	// Reruns is for nodes with state of their own: they run again, with the decisions that they
	// have recorded with [Run.Note].
	Reruns

	// Attached is for nodes that are bound to a connection or to the memory of this program.
	// They cannot be resumed, so a durable process must not reach one.
	Attached
)

var recalls = [...]string{"effects", "reads", "pure", "holds", "reruns", "attached"}

func (r Recall) String() string { return recalls[r] }

// A Reader is a node of kind [Effects] of which some packets only read: with those it takes part as [Reads]. The
// method must depend on the packet alone, and be cheap: it is called before Receive.
type Reader interface {
	Reads(pkt Packet) bool
}

// Always is a [Def.Recall] that does not depend on the config.
func Always(r Recall) func(schema.Config) Recall {
	return func(schema.Config) Recall { return r }
}

// A Run is what a node may ask of the durable process that its packet belongs to. Use it
// while [Node.Receive] or a function that continues for it runs; Key, Attempt and Now also in
// blocking work.
type Run interface {
	// ID returns the UUID of the run, the same after every crash.
	ID() string

	// Key returns an idempotency key for what this packet asks for: the same after every crash
	// and for every attempt that is marked with [Again], and different for all else.
	Key() string

	// Attempt counts the attempts that are marked with [Again], from 1.
	Attempt() int

	// Replays reports whether the process does again what it has done before a crash or a wait. Nodes
	// that only tell people something do not tell it twice.
	Replays() bool

	// Note records a decision, and returns it. When the process runs again it returns what
	// was recorded the first time, and decide is not called.
	Note(decide func() value.Value) value.Value

	// Level says what of the run is recorded.
	Level() Level

	// Whole returns a payload with the fields that are not stored: see [Submission]. It is for nodes that check
	// credentials, whose result is recorded, and must not have those fields. lost is true if there are such
	// fields and the program that had them has ended.
	Whole(payload value.Value) (whole value.Value, lost bool)

	// Wait begins to wait for a signal, for a time, or for the first of both. It is durable before
	// anything that follows leaves the process, so the packet may ask a person for the signal before
	// it waits. When the process runs again it returns the wait that has begun.
	Wait(w Wait) Waiting

	// Rejoin registers what a node has in the process that others may change while the run only waits, and is not
	// in memory. When such a run goes on, f is called before anything else: with null, and what it returns is
	// recorded, unless that is null. When the process runs again, f is called there with what was recorded.
	Rejoin(f func(recorded value.Value) value.Value)

	// Keep says that the result of a [Pure] node must be recorded, because its code asked for
	// the time or for chance.
	Keep()
}

// ErrUnloaded is in the failure that a [Participant] gets when the process of a run ends, and the run
// goes on later, in another one: it waits, the program stops, or its journal fails. What the process has
// registered for its end is undone then, and what is kept outside for the run stays.
var ErrUnloaded = errors.New("the run goes on later")

// ErrWaits is in the failure as well if the run only waits: all that was recorded is durable.
var ErrWaits = errors.New("the run waits")

// A Wait is what a packet of a durable process waits for.
type Wait struct {
	Event, Key string        // of the signal, in the namespace of the node
	Timeout    time.Duration // 0 is for ever
	Token      bool          // a secret that stands for event and key
}

// A Waiting is a [Wait] that has begun. While all that a run does is to wait, it takes no memory: its
// process ends, without an answer, and runs again when something has come.
type Waiting interface {
	Token() string    // empty without one
	Until() time.Time // zero for ever

	// Cancel ends a wait that the packet does not go on to await.
	Cancel()

	// Await continues when the wait is over: with the payload of the signal, with None when the time is
	// over, or with the error of the process's context. Call it once, and for a packet of a node that
	// Holds.
	Await(then Then) Result
}

// A Signal is a message for the runs that wait for an event with a key: see [Run.Wait].
type Signal struct {
	Namespace  string
	Event, Key string
	Token      string // stands for the three above, if it is set
	ID         string // what is sent again with the same id in a namespace is sent once; not for a token, which is good once
	Payload    value.Value
	Keep       time.Duration // how long it waits for a run, if none waits, and its id is known
}

// Signals send signals. Any goroutine may call the method.
type Signals interface {
	// Signal returns once the signal is durable: all runs get it that wait for it, or the first that does
	// later. An unknown token is an [Error] with the status 404.
	Signal(ctx context.Context, s Signal) error

	// Reply gives a signal to the first run that waits for it, and reports whether one does. It returns
	// once that is durable. If none waits nothing is kept. What is sent again with the same id is given
	// once, and reported as given again.
	Reply(ctx context.Context, s Signal) (given bool, err error)
}

// RunOf returns the durable run that a process belongs to. It reports false for a process
// that is not durable. Only code that the engine calls with p may ask.
func RunOf(p Process) (Run, bool) {
	if d, ok := p.(interface{ Run() (Run, bool) }); ok {
		return d.Run()
	}
	return nil, false
}

// A DurableStarter is a [Starter] whose processes may be durable. The engine's starters are.
type DurableStarter interface {
	Starter

	// Durable reports whether there is a journal.
	Durable() bool

	// Submit starts a durable process with a payload on out-port 0. If another one has its key,
	// the receipt is for that. The process does not end with ctx. After an error nothing has
	// started: [ErrStopped], or an [Error] with the status 409, 422 or 503. If ctx ends before the
	// journal has decided who has the key, its cause is returned, and the process may start.
	Submit(ctx context.Context, s Submission) (*Receipt, error)

	// LastTick returns the time of the latest tick of a plan of the node that has started a durable
	// process, in milliseconds; zero if none has.
	LastTick(ctx context.Context, plan string) (time.Time, error)
}

// A Level is what of a durable process is recorded.
type Level uint8

// The levels.
const (
	LevelNone       Level = iota // nothing
	LevelAccept                  // what it begins with, and its end: after a crash it begins again
	LevelCheckpoint              // the results of effects and reads, too: after a crash it goes on
)

// A Submission is what a durable process starts with.
type Submission struct {
	Level   Level
	Payload value.Value // the engine makes a copy
	Strip   []string    // fields that are not stored, such as header.Authorization; only [Run.Whole] has them
	Key     []byte      // of the caller, who is a part of it; nil for none
	Same    value.Value // what a submission with the same key must have, too
	KeyTTL  time.Duration
	Plan    string    // what says when ticks are due, of a tick: see [DurableStarter.LastTick]
	Tick    time.Time // when it was due; zero for all else

	// Message is set if the payload may be what another process waits for: if one does it gets it, as by
	// [Signals.Reply], and nothing starts. Offer comes first: it hands the message to a process that waits
	// in memory, and reports whether one has. Neither is asked about a message whose key was there before.
	Message *Signal
	Offer   func() bool // nil for none
}

// A Receipt stands for a durable process.
type Receipt struct {
	Run      string          // its id
	Attached bool            // it had the key before
	Given    bool            // nothing has started, as a process has waited for the message
	Done     <-chan struct{} // closed when it has ended
	Answer   func() Response // once Done is closed
	Leave    func()          // is called once, when the holder does not wait for Done any more

	// Stored calls done once the start is durable, or with an error if that cannot be any more. It
	// never waits; done is called on any goroutine, maybe before Stored returns.
	Stored func(done func(error))

	// Away returns what is closed when the process has ended, or has left memory because it only waits.
	Away func() <-chan struct{}
}
