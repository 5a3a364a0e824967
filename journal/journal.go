// Package journal keeps durable runs: what has started them, the results that a crash
// must not lose, what they wait for, and how they ended.
//
// A [Journal] gathers what many runs add and commits it in groups through a [Store].
// While one commit is under way, the next gathers, so a slow disk makes larger groups and
// no timer is needed. Read [Journal] first, then [Store].
//
// Invariants: what is added is committed in the order in which it was added; done of a
// [Journal.Flush] without an error means that all added before survives a crash.
//
// The package must not know workflows, payloads or processes: those are bytes here.
package journal

import (
	"context"
	"errors"
	"time"
)

// An ID is the UUID of a run.
type ID [16]byte

// A State is how a run is.
type State uint8

// The states of a run. Those from Paused on are put aside until a person decides.
const (
	Queued State = iota
	Running
	Waiting
	OK
	Failed
	Cancelled
	Dead
	Paused
	Parked   // an effect has begun, and it is not known whether it was done
	Stuck    // its revision cannot be made any more
	Diverged // its records do not fit what it did when it was run again
)

var states = [...]string{"queued", "running", "waiting", "ok", "failed", "cancelled", "dead", "paused", "parked", "stuck", "diverged"}

func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return "unknown"
}

// Ended reports whether nothing more happens to a run in the state.
func (s State) Ended() bool { return s >= OK && s <= Dead }

// Retriable reports whether a [Retry] lets a run in the state go on.
func (s State) Retriable() bool { return s == Waiting || s == Failed || s == Dead || s >= Paused }

// A Run is a durable process as the journal knows it.
type Run struct {
	ID        ID
	Namespace string
	Trigger   string // id of the node that started it
	Revision  string // hash of the workflow that it runs; see [Revision]
	Level     uint8
	State     State
	Key       []byte // of the caller; unique for a namespace and trigger until KeyUntil; nil for none
	KeyUntil  time.Time
	Input     []byte
	InputHash uint64
	Answer    []byte // of a run that has ended
	Error     string // why it failed, as text
	Resumed   int    // times that it was resumed since its last record, or since it was put to wait or paused
	Retried   int32  // number of its last record of the attempts before; see [Retry]
	Moved     bool   // a Retry named a revision: its records count where they fit, also if none of them is a failure
	Created   time.Time
	Ended     time.Time
	Port      int32 // out-port of the trigger at which it begins
	Item            // of a run that is for a queue

	// Tick is for a start alone: what it is the tick of. The store keeps the latest of each plan.
	Tick Tick
}

// A Tick is a time of the plan of a trigger, in milliseconds. A zero Tick is none.
type Tick struct {
	Plan string // with the id of the trigger
	At   time.Time
}

// An Item is what a run has that is for a queue: it is Queued until it is its turn.
type Item struct {
	Queue    string    // its name, in the namespace of the run; empty for a run that is for none
	QueueKey string    // those of a queue with one key are in an order of their own
	Priority int       // the greater is first
	Due      time.Time // of one that is Queued: not before; kept in milliseconds
	Attempts int       // that have failed
	Begun    time.Time // when it last did; zero for never
}

// A RecordType says what a record is about.
type RecordType uint8

// The types of records.
const (
	Result  RecordType = iota // of an activation of a node
	Intent                    // an effect begins
	Note                      // a decision
	Step                      // a value
	Child                     // a child process has ended
	Timeout                   // the time of a child process is over
	Hold                      // a wait has begun
	Arrival                   // something that the run waited for has come
)

var recordTypes = [...]string{"result", "intent", "note", "step", "child", "timeout", "hold", "arrival"}

func (t RecordType) String() string {
	if int(t) < len(recordTypes) {
		return recordTypes[t]
	}
	return "unknown"
}

// A Record is one thing about a run that a crash must not lose.
type Record struct {
	Run       ID
	N         int32  // counts the records of the run, from 1, in the order in which they were added
	Pos       uint64 // where in the run: a hash of the path of causes
	Node      string // id of the node
	Type      RecordType
	Op        uint8 // of a result
	Port      int32 // of a result
	Payload   []byte
	InputHash uint64
	Key       uint64 // what attempts have in common; 0 for none
	At        time.Time
}

// A Wait is a run that waits for a signal, for a time, or for the first of both. Run and Pos
// together are unique.
type Wait struct {
	Run        ID
	Pos        uint64 // of its record
	Namespace  string
	Event, Key string    // of the signal; an empty Event waits only for the time
	Token      []byte    // hash of a secret that stands for event and key; nil for none
	Due        time.Time // kept in milliseconds; zero for never
}

// A WaitID names a wait.
type WaitID struct {
	Run ID
	Pos uint64
}

// A Signal is a message for the runs that wait for an event with a key. Namespace and ID
// together are unique: what is sent again with the same id is sent once.
type Signal struct {
	Namespace, ID string // the namespace has no zero byte
	Event, Key    string // the event is not empty
	Payload       []byte
	Until         time.Time // see [Store.Signals]; kept in milliseconds
}

// A SignalID names a signal.
type SignalID struct{ Namespace, ID string }

// An End is how a run has ended, how it is put aside, or with Waiting, that it is put to wait.
type End struct {
	Run    ID
	State  State
	Answer []byte
	Error  string
	At     time.Time
}

// A Retry lets a run go on that waits, has failed, is dead or was put aside. Others are left as they are.
type Retry struct {
	Run      ID
	Revision string // that it runs from now on; empty for the one that it has
	Failures bool   // those of the records that it has do not count any more
}

// A Claim lets an item begin that is Queued. One that is not is left as it is.
type Claim struct {
	Run      ID
	Revision string // that it runs from now on; empty for the one that it has
	Unkey    bool   // its key is free again
	At       time.Time
}

// A Requeue puts an item into its queue again, or changes one that is there. A run that is not an item is
// left as it is.
type Requeue struct {
	Run      ID
	Due      time.Time
	Attempts int
	Error    string // of the last attempt
	Input    []byte // empty for the one that it has
	Forget   bool   // its revision, the failures that it has recorded, and what it waits for
}

// A QueueID names a queue.
type QueueID struct{ Namespace, Name string }

// A Pause is whether items of a queue begin.
type Pause struct {
	Queue  QueueID
	Paused bool
}

// A QueueState is how a queue is.
type QueueState struct {
	Queue  QueueID
	Paused bool
	Queued int
	Taken  int       // in the state Running or Waiting
	Oldest time.Time // of those that are Queued, the first that was due; zero without one
}

// A Revision is a workflow that runs are pinned to, kept once.
type Revision struct {
	Hash string
	Body []byte
}

// A Batch is what one commit makes durable, in the order of its fields.
type Batch struct {
	Revisions []Revision
	Starts    []*Run
	Resumed   []ID // runs that go on, after a crash or a wait: they run, and count one more time; those that have ended do not
	Retried   []Retry
	Claims    []Claim
	Records   []Record
	Waits     []Wait     // one of the same run and position is replaced
	Over      []WaitID   // waits to remove; missing ones are left out
	Signals   []Signal   // those whose id is known are left out
	Taken     []SignalID // they are not found any more, but their ids stay known until Until
	Requeues  []Requeue
	Ends      []End // of a run that has ended, the waits are removed
	Pauses    []Pause

	// Existing has, by index of Starts, the run that had the key already; nil where the
	// run was inserted. Commit sets it.
	Existing []*Run
}

// A Policy says which runs that have ended are removed. Signals are kept as [Store.Signals] says.
type Policy struct {
	Now        time.Time
	KeepOK     time.Duration // ended well
	KeepFailed time.Duration // ended otherwise
	MaxBytes   int64         // of the whole journal: above, the oldest ended runs go first; 0 for no limit
	Most       int           // runs and signals to remove in one call
}

// A Filter selects runs. Zero fields select all.
type Filter struct {
	Namespace string
	Trigger   string
	Queue     string
	States    []State
	Since     time.Time // created
	After     ID        // the next page: runs before this one, as the latest comes first
	Limit     int       // 0 is 200
}

// A Store makes batches durable. One goroutine at a time calls Commit; any goroutine may
// call the other methods.
type Store interface {
	// Commit makes a batch durable, all of it or nothing. It sets b.Existing. After an error
	// other than ErrFull nothing more can be committed.
	Commit(ctx context.Context, b *Batch) error

	// Unfinished returns the runs that are running, the oldest first, without Input. It is called
	// once, before the first Commit.
	Unfinished(ctx context.Context) ([]*Run, error)

	// Records returns the records of a run in their order.
	Records(ctx context.Context, run ID) ([]Record, error)

	Revision(ctx context.Context, hash string) (Revision, error)
	Get(ctx context.Context, run ID) (*Run, error)

	// Keyed returns the run with a key, also if its time is over, or ErrNotFound.
	Keyed(ctx context.Context, namespace, trigger string, key []byte) (*Run, error)

	List(ctx context.Context, f Filter) ([]*Run, error) // without Input and Answer; the latest first

	// Waiting returns who waits for an event with a key, the oldest run first. Runs that were put aside do not: they
	// wait again once they are retried or resumed.
	Waiting(ctx context.Context, namespace, event, key string) ([]Wait, error)

	// Token returns who waits with a token, by its hash, or ErrNotFound.
	Token(ctx context.Context, hash []byte) (Wait, error)

	// Due returns the waits whose time has come, the earliest first, of runs that are in the
	// state Waiting; at most limit.
	Due(ctx context.Context, now time.Time, limit int) ([]Wait, error)

	// Next returns when the next wait of a run in the state Waiting is due; zero if none is.
	Next(ctx context.Context) (time.Time, error)

	// Waits returns what a run waits for.
	Waits(ctx context.Context, run ID) ([]Wait, error)

	// Signals returns the signals for an event with a key that are not taken and are kept at
	// now, in the order in which they came. A signal is kept until its time is over, and then for as
	// long as a run waits for it whose wait has begun before, by its record.
	Signals(ctx context.Context, namespace, event, key string, now time.Time) ([]Signal, error)

	// Untaken returns all signals that are not taken and are kept at now, without payloads, in
	// the order in which they came.
	Untaken(ctx context.Context, now time.Time) ([]Signal, error)

	// Known reports whether there is a signal with an id, taken or not.
	Known(ctx context.Context, namespace, id string) (bool, error)

	// NextItems returns items of a key of a queue that are Queued and due at now, in their order, without
	// Input; at most limit. If they are fewer, next is when another one is due; zero for never. What it
	// takes depends on the number of priorities, and not on that of items.
	NextItems(ctx context.Context, q QueueID, key string, now time.Time, limit int) (items []*Run, next time.Time, err error)

	// QueueKeys returns keys of the items of a queue that are Queued, in their order; those after one if
	// that is not nil; at most limit.
	QueueKeys(ctx context.Context, q QueueID, after *string, limit int) ([]string, error)

	// Taken returns the items of a queue that are Running or Waiting, without Input.
	Taken(ctx context.Context, q QueueID) ([]*Run, error)

	// Begun returns when the last items of a queue have begun, after a time; the latest first; at most limit.
	Begun(ctx context.Context, q QueueID, after time.Time, limit int) ([]time.Time, error)

	// Oldest returns when the first of the items of a queue that are Queued was or is due; zero without one.
	Oldest(ctx context.Context, q QueueID) (time.Time, error)

	// Queues returns the queues that have items which have not ended, and those that are paused. It counts
	// the items.
	Queues(ctx context.Context) ([]QueueState, error)
	// LastTick returns the time of the latest tick of a plan that has started a run; zero if none has.
	LastTick(ctx context.Context, namespace, plan string) (time.Time, error)

	// Trim removes ended runs and signals that are not kept any more, and returns how many and
	// whether there are more to remove.
	Trim(ctx context.Context, p Policy) (removed int, more bool, err error)

	// Check looks for damage, and returns what it found.
	Check(ctx context.Context) ([]string, error)

	Close() error
}

// What a Store's errors say.
var (
	ErrFull     = errors.New("the disk is full")                            // try again later
	ErrLocked   = errors.New("another program has the journal open")        // of opening it
	ErrNewer    = errors.New("the journal is of a newer version")           // of opening it
	ErrNotFound = errors.New("there is no such run")                        // of Get, Keyed, Revision and Token
	ErrBroken   = errors.New("the journal is broken until a restart")       // of Journal
	ErrBusy     = errors.New("too much waits to be written to the journal") // of Journal
	ErrClosed   = errors.New("the journal is closed")
)
