package streams

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// A buffer has packets of many processes, which wait. A kind puts them into bundles; what a bundle makes
// is sent in a process of its own, whose answer its packets get. The lock guards bundles that
// are not sent, and what the kind knows of them.
type buffer struct {
	sync.Mutex
	clock node.Clock

	// alone returns what becomes of a packet that comes when the node is drained: it may not wait.
	alone func(ctx context.Context, payload value.Value) node.Result

	source node.Starter // immutable once it serves
	serves atomic.Bool

	drained bool
	parked  int // packets in bundles that are not sent
	sent    uint64
	taken   int           // bundles that are about to be sent
	idle    chan struct{} // closed when none is, and the node is drained; made by Drain

	// Bundles of packets that are answered early: no source holds those packets, so it does
	// not bound how many processes there are.
	under int       // are under way: at most mostUnder
	queue []*bundle // wait until others have ended
}

// A bundle is packets that are sent together.
type bundle struct {
	items   []*parked
	bytes   int // of the payloads
	payload func() value.Value
	share   func(i int, resp node.Response) node.Result // of a good answer; nil is None
	forget  func()                                      // is called when it is taken, with the lock held; may be nil
	ended   func(resp node.Response)                    // is called before the packets are answered; may be nil

	early bool        // its packets are answered, and it has their payloads
	due   time.Time   // of arm: may be put off
	stop  func() bool // of the timer; nil without one
	taken bool
}

// A parked packet waits for all the bundles that it is in.
type parked struct {
	state.Wait
	payload value.Value
	in      []*bundle
	unsent  int                           // of them, guarded by the buffer
	open    atomic.Int32                  // of them, without an answer
	first   [1]*bundle                    // the memory of in, as mostly there is one
	failure atomic.Pointer[node.Response] // the first error
}

// Concurrency lets the packets of one process wait together.
func (*buffer) Concurrency() int { return 1 << 20 }

// Serve starts processes with src from now on.
func (buf *buffer) Serve(src node.Starter) error {
	buf.source = src
	buf.serves.Store(true)
	return nil
}

var errNotServing = errors.New("the node starts no processes before the workflow serves: leave it out of what the ports init and active lead to")

// park makes a packet wait. place puts it into bundles, and returns those that are to be sent
// now; if it puts it into none, answer is the answer. It is called with the lock held.
func (buf *buffer) park(payload value.Value, place func(w *parked) (full []*bundle, answer node.Result)) node.Result {
	if !buf.serves.Load() {
		return node.Fail(errNotServing)
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		w := &parked{payload: payload}
		w.in = w.first[:0]
		w.Begin(ctx, done, func(error) { buf.leave(w) })
		buf.Lock()
		if buf.drained {
			buf.Unlock()
			w.Answer(buf.alone(ctx, payload))
			return
		}
		if !w.Open() { // its process has ended
			buf.Unlock()
			return
		}
		full, answer := place(w)
		placed := len(w.in) > 0
		buf.Unlock()
		buf.send(full)
		if !placed {
			w.Answer(answer)
		}
	})
}

// put puts a packet into a bundle. The caller holds the lock, as for all methods down to arm.
func (buf *buffer) put(b *bundle, w *parked) {
	if w.unsent++; w.unsent == 1 {
		buf.parked++
	}
	w.open.Add(1)
	w.in = append(w.in, b)
	b.items = append(b.items, w)
	b.bytes += w.payload.Size()
}

// out takes a packet out of a bundle that is sent, or that it leaves.
func (buf *buffer) out(w *parked) {
	if w.unsent--; w.unsent == 0 {
		buf.parked--
	}
}

// take takes a bundle, and reports whether there is something to send; then the caller sends it.
func (buf *buffer) take(b *bundle) (ok bool) {
	if b.taken {
		return false
	}
	b.taken = true
	if b.stop != nil {
		b.stop()
	}
	if b.forget != nil {
		b.forget()
	}
	for _, w := range b.items {
		buf.out(w)
	}
	if len(b.items) == 0 && !b.early {
		return false
	}
	buf.taken++
	buf.sent++
	return true
}

// takeAll takes bundles, and returns those that are to be sent.
func (buf *buffer) takeAll(bundles []*bundle) (full []*bundle) {
	for _, b := range bundles {
		if buf.take(b) {
			full = append(full, b)
		}
	}
	return full
}

// arm sends the bundle when it is due.
func (buf *buffer) arm(b *bundle) {
	b.stop = buf.clock.AfterFunc(b.due.Sub(buf.clock.Now()), func(ctx context.Context) {
		buf.Lock()
		switch {
		case b.taken:
			buf.Unlock()
		case buf.clock.Now().Before(b.due): // it was put off
			buf.arm(b)
			buf.Unlock()
		case !buf.take(b):
			buf.Unlock()
		default:
			buf.Unlock()
			buf.run(ctx, b)
		}
	})
}

// leave takes a packet whose process ends out of its bundles, unless they are sent.
func (buf *buffer) leave(w *parked) {
	buf.Lock()
	defer buf.Unlock()
	for _, b := range w.in {
		if i := slices.Index(b.items, w); i >= 0 && !b.taken {
			b.items = slices.Delete(b.items, i, i+1)
			b.bytes -= w.payload.Size()
			buf.out(w)
			if len(b.items) == 0 {
				buf.take(b) // which forgets it
			}
		}
	}
}

// waiting is the metric of the packets that wait.
func (buf *buffer) waiting() (parked, sent float64) {
	buf.Lock()
	defer buf.Unlock()
	return float64(buf.parked), float64(buf.sent)
}
