package chat

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/meter"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// mostWaiting is how many messages of a conversation may wait for the one before.
	mostWaiting = 32

	// mostRunning is how many conversations may have a process at a time.
	mostRunning = 10_000
)

var (
	errTooFast = errors.New("too many messages of this conversation wait for an answer")
	errBusy    = errors.New("too many conversations wait for an answer")
	errStopped = errors.New("the program takes no new messages")
)

// An outlet is where the answers to one message go. begin is called before its process starts
// and end after it has ended, once each; neither blocks. Nodes of the process call Part.
type outlet interface {
	node.Parts
	begin()
	end(answers []answer)
}

// A dispatcher runs the processes of a node's conversations, one after the other in each.
// It lives in the pool, so that a reload neither loses what waits nor lets two processes of
// a conversation run side by side: the next message starts in the generation that serves then.
// Any goroutine may call the methods.
type dispatcher struct {
	ctx    context.Context // of the processes
	cancel context.CancelFunc
	work   sync.WaitGroup // of processes whose start follows from another's end
	call   *node.Call
	counts struct{ taken, delivered, refused, failed atomic.Uint64 }

	state.Generations[generation]
	mu     sync.Mutex
	queues state.Queues[string, *entry] // by conversation; the first has a process
}

// A generation is what a dispatcher needs of one. It is immutable.
type generation struct {
	starter node.Starter
	waits   node.Waits
	log     *slog.Logger
	failure string // what a client gets for an error that is not public; empty is nothing
	node    node.Node
}

func newDispatcher() *dispatcher {
	c := &dispatcher{}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.call = node.NewCall(func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return node.Fail(resp.Payload.AsError()) // to the port error
		}
		return node.Respond(resp)
	})
	return c
}

// attach makes new processes start in a generation.
func (c *dispatcher) attach(g *generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Attach(g)
}

// detach ends what attach began. If no other generation is there, new messages are refused, and
// it waits until the others are answered, or for ctx, whose end ends their processes.
func (c *dispatcher) detach(ctx context.Context, g *generation) (last bool, err error) {
	c.mu.Lock()
	last = c.Detach(g)
	empty := c.queues.Empty()
	c.mu.Unlock()
	if !last {
		return false, nil
	}
	if err = node.WaitFor(ctx, empty); err != nil {
		c.cancel()
	}
	return true, err
}

// Close ends what is left. The pool calls it when no generation uses the dispatcher any more.
func (c *dispatcher) Close() error {
	c.cancel()
	c.work.Wait()
	return nil
}

// take gives a message to the process that waits for one in its conversation, or else to
// one of its own. It does not wait for the answer. delivered reports the former: to is not
// used then.
func (c *dispatcher) take(conversation string, payload value.Value, to outlet) (delivered bool, err error) {
	g := c.Current()
	if g == nil {
		return false, errStopped
	}
	if g.waits != nil && g.waits.Deliver(conversation, payload) {
		c.counts.delivered.Add(1)
		return true, nil
	}
	e := &entry{dispatcher: c, payload: payload, to: to}
	e.place.Key, e.place.Value = conversation, e
	first, err := c.join(e)
	if err != nil {
		c.counts.refused.Add(1)
		return false, err
	}
	c.counts.taken.Add(1)
	if first {
		c.work.Go(func() { c.runAll(e) })
	}
	return false, nil
}

// join lets a message wait for those before it, if there are some.
func (c *dispatcher) join(e *entry) (first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.queues.Count(e.place.Key)
	switch {
	case !c.Serving() || c.ctx.Err() != nil:
		return false, errStopped
	case n == 0 && c.queues.Keys() >= mostRunning:
		return false, errBusy
	case n > mostWaiting:
		return false, errTooFast
	}
	return c.queues.Join(&e.place), nil
}

// leave ends the turn of a message, and returns the next of its conversation, or nil.
func (c *dispatcher) leave(e *entry) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next := c.queues.Leave(&e.place); next != nil {
		return next.Value
	}
	return nil
}

func (c *dispatcher) measure(platform string, report func(node.Metric)) {
	c.mu.Lock()
	running := c.queues.Keys()
	c.mu.Unlock()
	report(meter.Gauge(platform+"_processes", "Conversations with a process.", int64(running)))
	report(meter.Counter(platform+"_messages_total", "Messages that started a process.", c.counts.taken.Load()))
	report(meter.Counter(platform+"_replies_total", "Messages that a process had waited for.", c.counts.delivered.Load()))
	report(meter.Counter(platform+"_refused_total", "Messages refused, as too many waited.", c.counts.refused.Load()))
	report(meter.Counter(platform+"_failed_total", "Processes of messages that ended with an error.", c.counts.failed.Load()))
}

// An entry is a message, from when it is taken until it is answered.
type entry struct {
	dispatcher *dispatcher
	place      state.Place[string, *entry]
	payload    value.Value
	to         outlet
	begin      func() // lets a durable process begin; nil for others

	generation *generation   // where its process runs
	resp       node.Response // from the end of the process on
	answers    []answer      // what resp has
	unreadable error         // why it has none
	progress   atomic.Int32
}

// What entry.progress says.
const (
	entryBegun  = iota // Start has not returned, and done was not called
	entryDone          // done was called first: run goes on
	entryWaited        // Start has returned first: done goes on
)

// runAll runs a message and those that wait for it, until one of them waits itself for
// something outside, or none is left.
func (c *dispatcher) runAll(e *entry) {
	for ; e != nil; e = c.leave(e) {
		e.to.begin()
		if e.begin != nil {
			e.begin()
			return // end goes on
		}
		if !e.run() {
			return // done goes on
		}
	}
}

// run runs the process of a message and reports whether it has ended.
func (e *entry) run() bool {
	c := e.dispatcher
	ctx := node.WithParts(node.WithConversation(c.ctx, e.place.Key), e.to)
	for {
		e.generation = c.Current()
		e.progress.Store(entryBegun)
		e.resp, e.answers, e.unreadable = node.Response{}, nil, nil
		e.generation.starter.Start(ctx, e.failure, c.call.Send(0, e.payload), e.done)
		if e.progress.CompareAndSwap(entryBegun, entryWaited) {
			return false
		}
		if !e.again() {
			e.answer()
			return true
		}
	}
}

// done gets the response of the process.
func (e *entry) done(resp node.Response) {
	e.resp = resp
	if e.progress.CompareAndSwap(entryBegun, entryDone) {
		return
	}
	c := e.dispatcher
	c.work.Go(func() {
		if !e.again() {
			e.answer()
		} else if !e.run() {
			return
		}
		c.runAll(c.leave(e))
	})
}

// again reports whether a message must start once more, as its generation has stopped in
// the meantime and there is another one.
func (e *entry) again() bool {
	return e.resp.IsError() && errors.Is(e.resp.Payload.AsError(), node.ErrStopped) && e.dispatcher.Current() != e.generation
}

// failure implements [node.Judge]: the answer is read before anything is committed.
func (e *entry) failure(resp node.Response) error {
	if !resp.None {
		e.answers, e.unreadable = answersOf(resp.Payload)
	}
	return e.unreadable
}

// answer passes the answer of the process on.
func (e *entry) answer() {
	c, err := e.dispatcher, e.unreadable
	if e.resp.IsError() {
		err = e.resp.Payload.AsError()
	}
	if err == nil {
		e.to.end(e.answers)
		return
	}
	c.counts.failed.Add(1)
	described := node.Describe(err)
	ends := c.ctx.Err() != nil || errors.Is(err, node.ErrStopped) || errors.Is(err, node.ErrWaitsEnded)
	level := slog.LevelError
	if ends {
		level = slog.LevelDebug
	}
	e.generation.log.Log(context.Background(), level, "a message was not answered", "conversation", e.place.Key, "error", node.Clip(err.Error(), 1000))
	text := e.generation.failure
	if described.Public {
		text = node.Message(described)
	}
	if ends || text == "" {
		e.to.end(nil)
		return
	}
	e.to.end([]answer{{text: text, failed: true}})
}
