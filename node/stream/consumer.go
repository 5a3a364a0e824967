package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
)

// A consumer is one reader and what it has read, from the first Connect to Close. Nodes
// of several generations use it one after the other, as long as they have the same
// settings.
//
// One goroutine connects and reads (read.go), one settles (commit.go), and as many as
// there are processors run processes (work.go). They share what mu guards, and never
// hold it while they call a reader, an expression or an engine.
//
// What mu guards is in state machines, each of which meets the others through functions
// that the consumer gives it.
type consumer struct {
	source   *Source
	settings *settings
	reader   Reader
	replies  *replies  // nil if the reader is not a Replier
	contexts Contexter // the reader, if it is one
	counts   *counts
	log      *slog.Logger
	clock    node.Clock
	keeper   *keeper // of positions; nil without a file
	account  *node.Account
	after    *consumer // which must let go first; nil for none

	connection connection

	reading    context.Context // of Connect and Read; done when reading stops
	stopRead   context.CancelFunc
	processing context.Context // of processes, until the grace is over
	stopRun    context.CancelFunc
	settling   context.Context // of Settle, until a moment after that
	stopWrite  context.CancelFunc
	closed     chan struct{} // closed in the end

	workers workers
	runs    sync.WaitGroup // goroutines that wait for durable runs
	left    chan struct{}  // closed when they wait no longer
	room    sync.Cond      // there may be room, or messages are settled

	// Guarded by mu.
	generations state.Generations[generation] // the current one gets new messages
	inFlight    inFlight
	order       order
	unready     fifo[*message] // to be decoded for their key, in order
	taken       int            // of unready, by workers
	tasks       tasks
	due         fifo[*task] // that run again
	batcher     batcher
	grouping    grouping
	retrier     retrier
	settler     settler
	outages     outages
	quarantine  quarantine
	deadRun     deadRun
	committer   committer

	mu struct {
		sync.Mutex
		started   bool
		cut       context.CancelFunc // ends Read
		lost      error              // why the connection is gone, as Settle says
		draining  bool               // nothing is read any more
		ended     bool               // the messages have come to an end
		failure   error              // why they have
		lostAtEnd int                // messages that were given up, and do not come again
		expired   bool               // the grace is over
		closing   bool               // the goroutines end
		wants     bool               // the reading goroutine waits for room
		watchers  int                // goroutines that wait for messages to be settled
		logs      []func()           // to log without the lock
		loggedAt  time.Time          // when a message that is stuck was logged
	}
}

// A fifo is a queue.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) first() *T { return &q.items[q.head] }

func (q *fifo[T]) push(v T) { q.items = append(q.items, v) }

func (q *fifo[T]) pop() T {
	var none T
	v := q.items[q.head]
	q.items[q.head] = none
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 1024 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v
}

// A generation is a node that serves in a consumer, which guards the counts.
type generation struct {
	node     *sourceNode
	starter  node.Starter
	groups   node.GroupStarter // the same, if messages can be gathered; else nil
	queues   bool              // and wait for no other of their queue then
	settings *settings
	letters  bool            // the port error is linked
	ctx      context.Context // of processes
	cancel   context.CancelFunc
	running  int
	idle     chan struct{} // made by who waits; closed when nothing runs
}

func newConsumer(n *sourceNode, reader Reader, after *consumer) *consumer {
	c := &consumer{
		source: n.source, settings: n.settings, reader: reader, counts: &n.shared.counts, log: n.log, clock: n.init.Clock,
		account: n.init.Memory.Account(n.source.Kind), after: after, closed: make(chan struct{}), left: make(chan struct{}),
	}
	if replier, ok := reader.(Replier); ok {
		c.replies = &replies{replier: replier, guard: c.guard, log: c.log}
	}
	c.contexts, _ = reader.(Contexter)
	if n.settings.file != "" {
		c.keeper = &keeper{path: n.settings.file, owner: ownerOf(n.init.Node)}
	}
	c.connection = connection{connect: c.connect, made: &c.counts.connects, clock: c.clock, log: c.log.With("at", n.init.Node.Pos.String()), logTexts: connecting}
	c.reading, c.stopRead = context.WithCancel(context.Background())
	c.processing, c.stopRun = context.WithCancel(context.Background())
	c.settling, c.stopWrite = context.WithCancel(context.Background())
	c.room.L = &c.mu
	c.workers = workers{n: runtime.GOMAXPROCS(0), work: sync.Cond{L: &c.mu}}
	c.assemble()
	return c
}

// assemble makes the state machines.
func (c *consumer) assemble() {
	set, t := c.settings, c.source.Traits
	c.inFlight = inFlight{traits: t, limit: set.limit, account: c.account, lanes: make(map[int32]*lane)}
	c.tasks.consumer = c
	c.order.all.loose = set.order != OrderTotal
	c.batcher = batcher{batching: set.batch, env: batchEnv{lock: &c.mu, after: c.clock.AfterFunc, waits: func() bool { return c.order.n > 0 }, wake: c.workers.wakeOne}}
	c.grouping.most = mostTasks
	c.retrier = retrier{waiting: make(map[*task]func() bool), env: retryEnv{lock: &c.mu, after: c.clock.AfterFunc, due: c.again}}
	c.outages = outages{log: c.logLater(c.log.Warn)}
	c.quarantine = quarantine{most: 1, release: c.ready}
	_, letters := c.reader.(*letterReader)
	c.deadRun = deadRun{max: set.maxDead, commits: letters, env: deadEnv{mark: c.committer.markSafe, clear: c.committer.clearSafe, abort: c.abort}}
	c.committer = committer{
		traits: t, limit: set.limit, interval: set.interval, ctx: c.settling, log: c.log, after: c.clock.AfterFunc,
		mu: &c.mu.Mutex, wake: sync.Cond{L: &c.mu},
		env: commitEnv{settle: c.settle, keep: c.keep, withheld: c.withheld, reported: c.room.Broadcast, lost: c.lost, unkept: c.unkept},
	}
	c.settler = settler{
		batches: set.batch.count > 0, givesBack: t.Redelivers && set.order == OrderNone && set.batch.count == 0,
		order: &c.order, tasks: &c.tasks, failures: &c.counts.failed,
		env: settleEnv{settle: c.settled, ready: c.due.push, later: c.later, wait: c.wait, fate: c.fate, done: c.over},
	}
}

// attach makes a generation the one that gets new messages.
func (c *consumer) attach(g *generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generations.Attach(g)
	c.retrier.resume(func(t *task) bool { // what was stuck or held may find another workflow
		return t.messages[0].stuck || t.outage.waits > 0
	})
	if c.mu.closing && c.mu.ended {
		g.node.finish()
	}
}

// detach ends what attach began, and reports whether no generation is left. Otherwise idle is
// closed when no process of g runs.
func (c *consumer) detach(g *generation) (idle <-chan struct{}, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generations.Detach(g) {
		return nil, true
	}
	g.idle = make(chan struct{})
	if g.running == 0 {
		close(g.idle)
	}
	return g.idle, false
}

// start begins to read. The first connection may have been made before.
func (c *consumer) start(goroutines *sync.WaitGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.started {
		return
	}
	c.mu.started = true
	goroutines.Go(c.run)
}

// run is the life of a consumer.
func (c *consumer) run() {
	defer close(c.closed)
	if c.after != nil {
		<-c.after.closed
		c.after = nil
	}
	var goroutines sync.WaitGroup
	for range c.workers.n {
		goroutines.Go(func() { (&runner{consumer: c, size: 1}).run() })
	}
	goroutines.Go(c.committer.run)
	c.end(c.connection.keep(c.reading, c.readOn))
	close(c.left) // durable runs go on without their source
	c.runs.Wait()
	c.mu.Lock()
	c.mu.closing = true
	c.committer.close()
	c.workers.wakeAll()
	c.mu.Unlock()
	goroutines.Wait()
	c.close()
}

// guard calls a reader. A panic counts as a lost connection.
func (c *consumer) guard(call string, f func() error) error {
	err := guard(c.log, call, f)
	if panicked := (*panicError)(nil); errors.As(err, &panicked) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// logLater returns what logs as log does, once the lock is free. The caller holds the lock.
func (c *consumer) logLater(log func(string, ...any)) func(string, ...any) {
	return func(text string, args ...any) {
		c.mu.logs = append(c.mu.logs, func() { log(text, args...) })
	}
}

// flushLogs logs what could not be logged while the lock was held.
func (c *consumer) flushLogs() {
	c.mu.Lock()
	logs := c.mu.logs
	c.mu.logs = nil
	c.mu.Unlock()
	for _, log := range logs {
		log()
	}
}
