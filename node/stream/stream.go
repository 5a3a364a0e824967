// Package stream makes kinds that take messages from another system, and kinds that
// give messages to one, of small connectors.
//
// A [Source] is a literal with a [Reader]; a [Sink] is one with a [Writer]. All else is
// here: the common fields, decoding, how many messages are in flight, order, batches,
// retries, dead letters, positions, draining, and readers that outlive a reload.
//
// The answer of a process acknowledges its message. Nothing is lost: a message is given
// back, or read again, until a process has answered it well or the port error has taken
// it. It may come twice, after a failure.
//
// Read [Message] and [Reader] for sources, [Record] and [Writer] for sinks. The package
// must not know any system.
package stream

import (
	"context"
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// Options are what the kinds of a host have in common.
type Options = field.Options

// A Source describes a kind that takes messages in. [Source.Def] makes the kind.
type Source struct {
	Kind, Summary string
	node.Page

	// Config are the kind's own fields. The common ones are added as Traits say.
	Config schema.Object
	Traits Traits

	// Open makes a reader, and checks what can be checked without a connection. It
	// acquires nothing, as [node.Def.New]. The reader may outlive the node: of init it
	// keeps only Config, Log and Clock.
	Open func(init *node.Init) (Reader, error)

	// Holds returns what a node needs for itself under a config, apart from a checkpoint; nil is
	// nothing: see [node.Traits].
	Holds func(schema.Config) []node.Hold

	// Ends reports whether the messages come to an end under a config: Read returns
	// io.EOF. Nil is a kind that never ends.
	Ends func(schema.Config) bool
}

// Traits are what a system can do. They decide which common fields a source has.
type Traits struct {
	// Redelivers says that the system delivers a message again that is given back.
	// Otherwise, and wherever messages have an order, attempts are repeated here. A
	// source that neither redelivers nor has Positions goes on with all that it has
	// read until the grace of a shutdown is over, as nothing would bring it back.
	Redelivers bool

	// Lanes says that messages come in several sequences (partitions, files,
	// connections), which [Message.Lane] numbers, and Offset orders. Without it there
	// is the one lane 0.
	Lanes bool

	// Positions says that what is settled is one position for each lane, which the
	// reader commits: see [Settled]. It adds the field checkpoint.interval.
	Positions bool

	// Checkpoints says that the system does not keep positions: it adds the field
	// checkpoint.file. The runtime keeps them there, and a reader that is a
	// [Resumer] gets them back.
	Checkpoints bool

	// Overflows says that the system cannot be slowed: a message that finds no room is
	// dropped by the reader, which counts it in [Counts].
	Overflows bool

	// Transient says that nothing brings messages back once the program has ended, and that
	// the ids of later ones may be the same. So they cannot be the keys of durable runs.
	Transient bool

	// Order is the default of the field order. OrderRecord also allows that.
	Order Order

	// Raw says that messages have a Body of their own, which is not decoded: there is
	// no field decode.
	Raw bool

	// Decode is the default of the field decode; json unless set.
	Decode string
}

// An Order says which messages of a source wait for others.
type Order uint8

// The orders.
const (
	OrderNone   Order = iota // none: all in flight run concurrently
	OrderKey                 // one at a time for each key, or for each lane without the field key
	OrderTotal               // one at a time
	OrderRecord              // one at a time for each Message.Key of a lane; without one, for each lane, until a sink has queued it
)

// A Message is one message of a source. The reader gives up what Raw, Body and Token
// refer to.
type Message struct {
	// Raw is the encoded body; nil if the system has typed values: then Body is it.
	Raw  []byte
	Body value.Value

	Key  string    // for the field key of the payload; may be empty
	Time time.Time // of the message, as the system has it; may be zero
	Lane int32

	// Offset is where the message is in its lane, growing from 1, with [Traits.Lanes]
	// or [Traits.Positions]. One that comes again while it is held, or settled and not
	// committed, has the same: it does not begin a second time.
	Offset int64

	// Attempt is how often the system has delivered the message before: 0 at first. A
	// system that redelivers must count: the field retry.threshold is compared with it.
	Attempt int

	// Token is what the reader needs to settle the message, and to make the fields of
	// its payload.
	Token any
}

// A Room is how much a source can take now.
type Room struct {
	Messages int
	Bytes    int64 // a reader stops reading ahead past it; one message may be larger
}

// A Reader reads the messages of one source. One goroutine calls Connect, Read and Close,
// and another Settle, concurrently with Read; any calls Fields. Each call of
// Connect but the first comes after a Read or a Settle that returned [ErrLost].
//
// A reader may also be a [Resumer], a [Decoder], a [Sized], a [Contexter], a [Replier] or a [Counter]. One
// whose client connects again by itself may be a [node.Readier], which is asked after the
// first Connect has succeeded; so may a [Writer].
type Reader interface {
	// Connect connects. A [*RefusedError] is a reason that will not go away by itself;
	// at the start of a workflow it is reported at the spec. After any other error,
	// Connect is called again after a back-off. ctx is for the call alone, and ends
	// with it.
	Connect(ctx context.Context, h Host) error

	// Read waits for the first message, and returns those that are there, as far as
	// there is room. The runtime uses the slice until the next call, and does not change
	// it. With an error, there may be messages as well: io.EOF ends the source,
	// [ErrLost] says that the connection is gone, and another one ends the source as
	// failed.
	Read(ctx context.Context, room Room) ([]Message, error)

	// Settle reports to the system which messages are done. A Token may be of an earlier
	// connection: what means nothing any more is left out. s.Outcomes is used again
	// after the call; a Message may be kept. An error other than ErrLost is
	// logged; the messages count as not settled and may come again.
	Settle(ctx context.Context, s Settled) error

	// Fields adds the system's own fields to the payload of a message, "id" among
	// them: the same at each delivery, and different for each message. Body, key,
	// time and attempt are there already. It must not need the connection.
	Fields(m *Message, b *value.MapBuilder)

	// Close disconnects. What was not settled comes again for the next reader. It is
	// called once if Connect has ever succeeded, and not at all otherwise: a Connect
	// that fails releases what it has acquired.
	Close(ctx context.Context) error
}

// ErrLost says that a connection is lost, and that connecting again may help. Wrap it
// with the reason.
var ErrLost = errors.New("connection lost")

// A RefusedError is a reason not to connect that does not go away by itself: wrong
// credentials, a file that may not be read.
type RefusedError = field.RefusedError

// Settled is what a reader must report to its system.
type Settled struct {
	// Outcomes are messages that are done, in the order in which they were. There are
	// none with [Traits.Positions] unless the system redelivers.
	Outcomes []Outcome

	// Marks are the lanes whose position has changed: every message of the lane up to
	// it, itself included, is settled. Only for [Traits.Positions].
	Marks []Mark
}

// An Outcome is how a message ended.
type Outcome struct {
	Message *Message // without Raw and Body

	// Err is nil if the message is to be acknowledged. Otherwise it is given back, to
	// be delivered again after Delay: it failed, or (with [ErrUnused]) was not begun.
	Err   error
	Delay time.Duration

	// DeadLetter says that the port error has taken the message: it is acknowledged,
	// and a system that counts refusals may be informed.
	DeadLetter bool
}

// ErrUnused is the outcome of a message that is given back although no process has begun
// with it, because the source stops.
var ErrUnused = errors.New("not begun")

// A Mark is a position of a lane.
type Mark struct {
	Lane   int32
	Offset int64 // of the last message below which, itself included, all are settled
	Token  any   // of that message
}

// A Host is what a reader may ask of the runtime.
type Host interface {
	// Release lets go of lanes that another reader takes over, such as partitions at
	// a rebalance. Messages that have not begun are forgotten; it waits for the
	// others until ctx ends, and forgets what is left. It returns how far the lanes
	// are settled, for a last commit; a file of positions gets it, too. The numbers of the
	// lanes may be used again.
	Release(ctx context.Context, lanes []int32) []Mark

	// Settled waits until all messages that the reader has returned are settled. It returns
	// false if ctx ends before, or the source stops: then some may be given back.
	Settled(ctx context.Context) bool

	// InFlight calls f for each message that is held and not settled, for systems
	// that need reports of work in progress. f must not block.
	InFlight(f func(m *Message))
}

// A Resumer continues at positions that the runtime has kept. Resume is called before
// the first Connect, with what Position returned for the last marks.
type Resumer interface {
	// Position returns what is kept of a mark, as short text: a name of the lane, and
	// where it is. An empty position forgets the lane. It is called from the goroutine
	// that calls Settle, after it.
	Position(m Mark) (lane, position string)

	// Resume gets the positions of all lanes, by name.
	Resume(positions map[string]string) error
}

// A Sized reader knows how much there is to read.
type Sized interface {
	// Size returns how much has been read, and how much there is in all, in bytes. Any
	// goroutine may call it.
	Size() (done, total int64)
}

// A Contexter gives its processes a context of its own: one from which a [Binder] downstream
// learns to which transaction the message belongs.
type Contexter interface {
	// Context returns the context of a process that begins now, derived from ctx. Any
	// goroutine may call it; it must not block.
	Context(ctx context.Context) context.Context
}

// A Replier passes the answer of a process on, for a message with an address for it.
type Replier interface {
	// Reply encodes the answer to m, and returns what sends it; nil if there is nothing to
	// send. It is called with a good answer before anything of its process is committed: an
	// error is the failure of the process. It is called with the error after which m is not
	// tried again, too, which goes to the port error nevertheless. Any goroutine may call
	// it; it must not block.
	//
	// send is called once at most, before m is settled. It should not wait for the system.
	// An error is logged, and the next attempt sends again.
	Reply(m *Message, resp node.Response) (send func() error, err error)
}

// An Asker is a [Replier] that knows which messages have an address for the answer. An
// error that such a message is answered with is the end of it, unless the port error is
// linked: its sender knows of it, and can ask again.
type Asker interface {
	// Asked reports whether an answer to m goes somewhere. Any goroutine may call it;
	// it must not block.
	Asked(m *Message) bool
}

// A Nameless is a [Reader] with messages that may come again and have no "id" by which that shows.
// A durable run is not started for them, as each delivery would start another one, unless the
// field durability.key tells them apart.
type Nameless interface {
	// Nameless returns the error of such a message, which says how to give it an id; nil for
	// others. Any goroutine may call it.
	Nameless(m *Message) error
}

// A Decoder makes the bodies of its messages itself, such as maps of rows of CSV, instead
// of the runtime.
type Decoder interface {
	// Decode makes the body of a message that has Raw. The error says why it is
	// undecodable: such a message goes to the port error. Decode is called from the
	// goroutines that run processes, concurrently for different messages, and must not
	// need the connection. It does not keep m.
	Decode(m *Message) (value.Value, error)
}

// A Counter has metrics of its own.
type Counter interface {
	// Counts reports them, as [node.Measured].
	Counts(report func(node.Metric))
}

// A Sink describes a kind that gives messages to another system. [Sink.Def] makes the
// kind.
type Sink struct {
	Kind, Summary string
	node.Page

	// Config are the kind's own fields. The common ones are added.
	Config schema.Object

	// Texts names fields of Config whose text may hold expressions over the payload,
	// such as orders.${self.body.country}. What they make of a record is in
	// [Record.Texts], in this order. Read them there and not in the config.
	Texts []string

	// Batches says that the writer is faster with many records in one call, and has no
	// batches of its own: it adds the field batch.
	Batches bool

	// Lines returns the file that a node appends lines of JSON to under a config; empty for none. Nil
	// is a kind without: see [node.Traits].
	Lines func(schema.Config) string

	// Joins reports whether, under a config, a batch costs the system much and a record little.
	// Then all that waits while a batch is written joins the next one, bounded by batch.bytes
	// alone, so that batches grow with the load, unless batch.count or max_in_flight is set. After a
	// batch with a record that failed, the next one has no more than count, as the writer may have
	// to look for more. Nil joins nothing.
	Joins func(schema.Config) bool

	// Bodies says that the writer reads nothing of a record but Body, and that bodies are not
	// encoded: it is Raw. A list of bodies is then queued as it is.
	Bodies bool

	// Calls is how many calls of Write may run at the same time; below 2 it is one.
	// Records keep their order from one call to the next only if it is one. It is for
	// a writer that returns only when its records are confirmed.
	Calls int

	// Raw says that the writer takes values, which are not encoded: there is no field
	// encode. Encode is the default of that field; json unless set.
	Raw    bool
	Encode string

	// Keys are the fields of a payload that the writer knows, apart from body, key,
	// header, time and id, such as topic and partition. A map of no other fields than
	// those, and with body, is a record; anything else is its body.
	Keys []string

	// Open makes a writer; see [Source.Open].
	Open func(init *node.Init) (Writer, error)
}

// A Record is one message for a sink. The writer must not change it. Apart from Raw and
// Body, it is what a payload of body, key, header, time and id says; a payload that is a
// message of a [Source] is one, too.
type Record struct {
	Raw    []byte      // the encoded body
	Body   value.Value // the body
	Key    string
	HasKey bool
	Header value.Value // a map of texts, or of lists of texts; null without
	Time   time.Time   // zero without
	ID     string      // a key of idempotency; may be empty
	Texts  []string    // what the fields of [Sink.Texts] say
	Fields value.Value // the whole payload, for the fields of [Sink.Keys]; null if it is the body, or a source's message
}

// A Binder is a [Writer] that writes the records of a process when that has ended well, and
// not before: so a process that fails leaves nothing, and may run again. Write is never called.
type Binder interface {
	// Bind returns what takes the records of a process, whose context it gets, or why the
	// process cannot have any. Processes that are started together have the context of the
	// first. Any goroutine may call it; it must not block.
	Bind(ctx context.Context) (Bound, error)
}

// A Bound takes the records of processes. Any goroutine may call its methods.
type Bound interface {
	// Check returns why a record could not be written. It must not block.
	Check(r *Record) error

	// HandOver gets the records of a process that has ended well, or of several together, in
	// their order, and keeps them. It may wait for room. It calls done for each record that was
	// written or has failed. With an error it keeps none, and the processes have failed.
	HandOver(records []Record, done func(err error)) error
}

// A Writer writes records. One goroutine calls Connect and Close, as with a [Reader],
// and others Write, concurrently with Connect; see [Sink.Calls]. A writer that loses its
// connection without having anything to write need not report it before the next Write.
type Writer interface {
	// Connect connects, like Connect of a [Reader].
	Connect(ctx context.Context) error

	// Write begins to write records. It calls done once for each of them, from any
	// goroutine, when the system has confirmed it, or with an error. It may block as
	// long as the system takes no more, until ctx ends: that is when the call lasts
	// longer than the field timeout, or the sink is closed, and not when Write returns.
	// A record is the writer's until its done is called. An error is a failure of
	// the one record; with [ErrLost], the runtime connects again, and calls Write when
	// it has. A panic fails the records that are not done.
	//
	// A receipt says where the record is, such as {topic, partition, offset}; null
	// without. It is asked for by the field answer: receipt. The index
	// [Rest] is done for all records for which it was not called.
	Write(ctx context.Context, records []Record, done func(i int, receipt value.Value, err error))

	// Close waits until what was written is confirmed, or ctx ends, and disconnects. It
	// is called once, also if Connect has never succeeded.
	Close(ctx context.Context) error
}

// A Packer is a [Writer] of bodies, see [Sink.Bodies], that encodes lists of them on the
// goroutines of their processes, while they are in the cache of the processor, and writes what
// it has made of several lists together.
type Packer interface {
	// Pack encodes the bodies of a list; nil if Write has to see them. Any goroutine calls it.
	Pack(bodies value.Value) any

	// WritePacked writes what Pack has made of lists, all or none, in their order, and is
	// called as Write is. An error is that of each of their records. If it is not ok, nothing
	// was written, and Write gets the bodies, which finds the ones that cannot be written.
	WritePacked(ctx context.Context, packs []any) (ok bool, err error)
}

// Rest in place of the index of a record stands for all that are not done: see
// [Writer.Write].
const Rest = -1
