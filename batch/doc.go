// Package batch ships events to a receiver in batches, and loses none.
//
// A service makes a Processor with New, adds events from any goroutine, and closes
// it at its end. The processor encodes each event into the memory from which it is
// sent. It sends a batch when enough events wait or the first one has waited long
// enough, sends it again until the receiver takes it, and reports every event that
// it could not deliver. Each accepted event ends in exactly one way: delivered,
// dropped with a reason that OnDrop gets, taken by DeadLetter, left in the spool, or
// returned by Close. Stats.Balance checks the sum at any moment.
//
// # Reading order
//
// Options has all settings, with defaults. Processor has Add, AddWait, AddAck, Flush,
// Close, Stats and Resume. A SendFunc sends a batch: NewHTTP makes one for HTTP, and
// for other protocols you write one. Outcome is its result.
//
// # How it works
//
// Events are appended to chunks of 64 KiB. Each shard has one open chunk, and shards
// are chosen so that producers on different processors rarely share one. So an event
// costs one lock that is almost never contended, and no channel, timer or
// allocation. Room in the queue is reserved a chunk at a time. A full chunk moves to
// the queue of its lane as a pointer; its bytes are never copied on the way to the
// connection. One goroutine, the dispatcher, decides which lane is due. Each batch on
// its way has its own goroutine, which sends it until it is settled.
//
// The memory of a batch is reused only when the batch is settled and every body made
// of it is closed, because net/http may read a body after it has returned the
// response.
//
// # What it guarantees
//
// Delivery is at least once. An event is given up only if the receiver refuses it,
// if a limit that you set says so, or if the process ends without Close and without
// a Spool. A receiver that remembers its responses to keys (the header
// Idempotency-Key, see Batch.Key) takes each event once, also across a restart. A
// wrong address, or a receiver that refuses everything, gives up no event: see
// VerdictBisect and VerdictPause.
//
// Events of a lane keep their order, except those that the receiver asks to be sent
// again. Events of different lanes have no order, and with OrderNone none have.
//
// # Dependencies
//
// The package is a Go module of its own, so that a service can link it without the
// engine. It imports internal/ground/spool, internal/ground/vfs, a compression
// library and the standard library. It does not know what events mean, and has no
// global state except pools of buffers and encoders.
package batch
