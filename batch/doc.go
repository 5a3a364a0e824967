// Package batch ships events to a receiver in batches, and loses none.
//
// A service makes a Processor with New, adds events from any goroutine, and
// closes it at its end. The processor encodes each event into the memory it will
// be sent from, sends a batch when enough have come or the first has waited long
// enough, sends it again until the receiver has taken it, and tells about every
// event that it could not deliver. Each accepted event ends in exactly one way:
// delivered, dropped for a reason that OnDrop is told, taken by DeadLetter, left in
// the spool, or returned by Close; Stats.Balance checks the sum at any moment.
//
// # Reading order
//
// Options has all there is to choose, and its defaults need no choice. Processor
// has Add, AddWait, AddAck, Flush, Close, Stats and Resume. Send is how batches
// leave: NewHTTP makes one for a receiver that speaks HTTP, and a function of
// yours is one for any other. Outcome is what a Send answers.
//
// # How it works
//
// Events are appended to chunks of 64 KiB, one open per shard, and shards are
// chosen so that producers on different processors seldom meet: per event there
// is one lock that is hardly ever waited for, and no channel, no timer and no
// allocation. Room in the queue is reserved a chunk at a time. A full chunk
// moves to its lane's queue by its pointer; its bytes are never copied on the
// way to the connection. One goroutine, the dispatcher, decides which lane is
// due; each batch on its way has a goroutine of its own, which sends it until it
// is settled.
//
// The memory of a batch is used again only when it is settled and every body
// made of it is closed, since net/http may read a body after it has returned the
// answer.
//
// # What it guarantees
//
// At least once: an event is given up only when the receiver refuses it, when a
// limit says so that was asked for, or when the process ends without Close and
// without a Spool. A receiver that remembers the answers it gave to keys (the
// header Idempotency-Key, see Batch.Key) takes each event once, also across a
// restart. A wrong address, or a receiver that refuses everything, gives up no
// event: see Bisect and Pause.
//
// Within a lane order is kept, but for events that the receiver itself asks to
// be sent again. Events between lanes have no order; nor has any with Unordered.
//
// # What it refuses to know
//
// The package imports nothing else of this module but its spool, so that another
// service may link it alone. It does not know what events mean, and has no global state.
package batch
