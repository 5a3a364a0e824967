package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// A lot has packets of many processes parked. A kind puts them into bundles; what a bundle makes
// is sent in a process of its own, whose answer its packets get. The lock guards bundles that
// are not sent, and what the kind knows of them.
type lot struct {
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

// mostUnder is so large that sinks find enough for their batches.
const mostUnder = 1024

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
	unsent  int                           // of them, guarded by the lot
	open    atomic.Int32                  // of them, without an answer
	first   [1]*bundle                    // the memory of in, as mostly there is one
	failure atomic.Pointer[node.Response] // the first error
}

// Concurrency lets the packets of one process wait together.
func (*lot) Concurrency() int { return 1 << 20 }

// Serve starts processes with src from now on.
func (l *lot) Serve(src node.Starter) error {
	l.source = src
	l.serves.Store(true)
	return nil
}

var errNotServing = errors.New("the node starts no processes before the workflow serves: leave it out of what the ports init and active lead to")

// park makes a packet wait. place puts it into bundles, and returns those that are to be sent
// now; if it puts it into none, answer is the answer. It is called with the lock held.
func (l *lot) park(payload value.Value, place func(w *parked) (full []*bundle, answer node.Result)) node.Result {
	if !l.serves.Load() {
		return node.Fail(errNotServing)
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		w := &parked{payload: payload}
		w.in = w.first[:0]
		w.Begin(ctx, done, func(error) { l.leave(w) })
		l.Lock()
		if l.drained {
			l.Unlock()
			w.Answer(l.alone(ctx, payload))
			return
		}
		if !w.Open() { // its process has ended
			l.Unlock()
			return
		}
		full, answer := place(w)
		placed := len(w.in) > 0
		l.Unlock()
		l.send(full)
		if !placed {
			w.Answer(answer)
		}
	})
}

// put puts a packet into a bundle. The caller holds the lock, as for all methods down to arm.
func (l *lot) put(b *bundle, w *parked) {
	if w.unsent++; w.unsent == 1 {
		l.parked++
	}
	w.open.Add(1)
	w.in = append(w.in, b)
	b.items = append(b.items, w)
	b.bytes += w.payload.Size()
}

// out takes a packet out of a bundle that is sent, or that it leaves.
func (l *lot) out(w *parked) {
	if w.unsent--; w.unsent == 0 {
		l.parked--
	}
}

// take takes a bundle, and reports whether there is something to send; then the caller sends it.
func (l *lot) take(b *bundle) (ok bool) {
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
		l.out(w)
	}
	if len(b.items) == 0 && !b.early {
		return false
	}
	l.taken++
	l.sent++
	return true
}

// takeAll takes bundles, and returns those that are to be sent.
func (l *lot) takeAll(bundles []*bundle) (full []*bundle) {
	for _, b := range bundles {
		if l.take(b) {
			full = append(full, b)
		}
	}
	return full
}

// arm sends the bundle when it is due.
func (l *lot) arm(b *bundle) {
	b.stop = l.clock.AfterFunc(b.due.Sub(l.clock.Now()), func(ctx context.Context) {
		l.Lock()
		switch {
		case b.taken:
			l.Unlock()
		case l.clock.Now().Before(b.due): // it was put off
			l.arm(b)
			l.Unlock()
		case !l.take(b):
			l.Unlock()
		default:
			l.Unlock()
			l.run(ctx, b)
		}
	})
}

// leave takes a packet whose process ends out of its bundles, unless they are sent.
func (l *lot) leave(w *parked) {
	l.Lock()
	defer l.Unlock()
	for _, b := range w.in {
		if i := slices.Index(b.items, w); i >= 0 && !b.taken {
			b.items = slices.Delete(b.items, i, i+1)
			b.bytes -= w.payload.Size()
			l.out(w)
			if len(b.items) == 0 {
				l.take(b) // which forgets it
			}
		}
	}
}

// send sends bundles that were taken: on goroutines of their own, as the end of a process continues
// those of its packets.
func (l *lot) send(bundles []*bundle) {
	for _, b := range bundles {
		if !b.early || l.turn(b) {
			l.clock.AfterFunc(0, func(ctx context.Context) { l.run(ctx, b) })
		}
	}
}

// turn reports whether a bundle may be sent now. If not, it is sent when others have ended.
func (l *lot) turn(b *bundle) bool {
	l.Lock()
	defer l.Unlock()
	if l.under == mostUnder {
		l.queue = append(l.queue, b)
		return false
	}
	l.under++
	return true
}

// over has the next bundle sent after one has ended that had to wait for its turn.
func (l *lot) over() {
	l.Lock()
	defer l.Unlock()
	if len(l.queue) == 0 {
		l.under--
		return
	}
	next := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.clock.AfterFunc(0, func(ctx context.Context) { l.run(ctx, next) })
}

// run sends a bundle in a process of its own, and answers the packets.
func (l *lot) run(ctx context.Context, b *bundle) {
	l.source.Start(ctx, nil, node.Send(0, b.payload()), func(resp node.Response) {
		b.deal(resp)
		if b.early {
			l.over()
		}
	})
	l.Lock()
	defer l.Unlock()
	if l.taken--; l.taken == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// deal answers the packets of a bundle that are in no other.
func (b *bundle) deal(resp node.Response) {
	if b.ended != nil {
		b.ended(resp)
	}
	for i, w := range b.items {
		if resp.IsError() {
			w.failure.CompareAndSwap(nil, &resp)
		}
		if w.open.Add(-1) > 0 {
			continue
		}
		w.Answer(b.shared(i, w.failure.Load(), resp))
	}
}

func (b *bundle) shared(i int, failure *node.Response, resp node.Response) node.Result {
	switch {
	case failure != nil:
		return node.Respond(*failure)
	case b.share != nil:
		return b.share(i, resp)
	}
	return node.None()
}

// payloads are those of the packets, in the order in which they came.
func (b *bundle) payloads() value.Value {
	elems := make([]value.Value, len(b.items))
	for i, w := range b.items {
		elems[i] = w.payload
	}
	return value.List(elems...)
}

// drain lets no more packets wait, and sends what left returns, which is called with the lock held.
func (l *lot) drain(left func() []*bundle) {
	l.Lock()
	l.drained = true
	full := left()
	l.Unlock()
	l.send(full)
}

// Stop waits until what was drained is on its way. No process may start later.
func (l *lot) Stop(ctx context.Context) error {
	l.Lock()
	if l.taken == 0 {
		l.Unlock()
		return nil
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.Unlock()
	err := node.WaitFor(ctx, idle)
	if err == nil {
		return nil
	}
	l.Lock()
	defer l.Unlock()
	if lost := len(l.queue); lost > 0 {
		l.queue = nil
		return fmt.Errorf("%d windows that were answered early are lost, as processes of others have not ended in time: %w", lost, err)
	}
	return err
}

// waiting is the metric of the packets that wait.
func (l *lot) waiting() (parked, sent float64) {
	l.Lock()
	defer l.Unlock()
	return float64(l.parked), float64(l.sent)
}
