package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A session is one reader and what it has read, from the first Connect to Close. Nodes
// of several generations use it one after the other, as long as they have the same
// settings.
//
// One goroutine connects and reads (read.go), one settles (settle.go), and as many as
// there are processors run processes (work.go). They share what mu guards, and never
// hold it while they call a reader, an expression or an engine.
type session struct {
	source   *Source
	settings *settings
	reader   Reader
	replier  Replier // the reader, if it is one
	counts   *counts
	log      *slog.Logger
	clock    node.Clock
	keeper   *keeper // of positions; nil without a file
	held     *node.Account
	after    *session // which must let go first; nil for none

	connection connection

	reading   context.Context // of Connect and Read; done when reading stops
	stopRead  context.CancelFunc
	settling  context.Context // of Settle, until the grace is over
	stopWrite context.CancelFunc
	closed    chan struct{} // closed in the end

	work, settle, room *sync.Cond // there may be something to do for the goroutines
	workers            int
	over               endings
	idle               atomic.Int32 // workers that wait and are not woken; changed with the lock held

	mu struct {
		sync.Mutex
		started   bool
		connected bool // Settle may be called
		calling   bool // Settle is being called
		cut       context.CancelFunc
		lost      error // why the connection is gone, as Settle says
		draining  bool  // nothing is read any more
		ended     bool  // the messages have come to an end
		failure   error // why they have
		lostAtEnd int   // messages that were given up, and do not come again
		expired   bool  // the grace is over
		closing   bool  // the goroutines end
		wants     bool  // the reading goroutine waits for room
		watchers  int   // goroutines that wait for messages to be settled

		front    *front // of the newest generation
		fronts   []*front
		first    *message // held ones
		last     *message
		inFlight int
		bytes    int64
		counted  int64    // of bytes, in the account
		stuck    int      // of those held
		held     int      // tasks that wait for an outage to be over
		outage   error    // the latest
		single   *task    // that runs without others, as far as is known
		away     int      // stuck messages that were given back, as far as is known
		news     []func() // to log without the lock

		lanes   map[int32]*lane
		recent  *lane // used last
		gap     *lane // that had too many slots
		all     line  // of messages that do not wait for their lane or key
		order   order
		unready fifo[*message] // to be decoded for their key, in order
		taken   int            // of unready, by workers
		again   fifo[*task]    // whose turn has come again
		waiting map[*task]func() bool

		suspects   fifo[*task] // whose turn has come again; see outage
		trying     int         // suspects that go on
		mostTrying int

		spare []*task

		lingers   bool // there is a timer for the next batch
		lingered  bool // the messages of the next batch have waited long enough
		toldStuck time.Time

		toldOutage time.Time
		awaySince  time.Time // the first outage after the last good message; zero if there is none
		awaySeen   time.Time // the latest

		deadRun int     // dead letters since the last good message
		reasons []error // of the first of them
		safe    []Mark  // before them, to be committed
		aborted bool    // there were too many

		outcomes  []Outcome
		telling   int // messages that a call of Settle has, by outcomes or marks
		unsettled int // messages settled since the last commit
		dirty     []*lane
		left      []Mark // of lanes that were released, for the file of positions
		due       bool   // for a commit
		armed     bool   // there is a timer for that
	}
}

// A fifo is a queue.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

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

// A front is a node of one generation in its session. The session guards the counts.
type front struct {
	node     *sourceNode
	starter  node.Starter
	settings *settings
	letters  bool            // the port error is linked
	ctx      context.Context // of processes
	cancel   context.CancelFunc
	running  int
	idle     chan struct{} // made by who waits; closed when nothing runs
}

func newSession(n *sourceNode, reader Reader, after *session) *session {
	s := &session{
		source: n.source, settings: n.settings, reader: reader, counts: &n.seat.counts, log: n.log, clock: n.init.Clock, held: n.init.Memory.Account(n.source.Kind),
		after: after, closed: make(chan struct{}), workers: runtime.GOMAXPROCS(0),
	}
	s.replier, _ = reader.(Replier)
	if n.settings.file != "" {
		s.keeper = &keeper{path: n.settings.file, owner: ownerOf(n.init.Node)}
	}
	s.connection = connection{connect: s.connect, made: &s.counts.connects, clock: s.clock, log: s.log.With("at", n.init.Node.Pos.String()), logTexts: connecting}
	s.reading, s.stopRead = context.WithCancel(context.Background())
	s.settling, s.stopWrite = context.WithCancel(context.Background())
	s.mu.lanes, s.mu.waiting = make(map[int32]*lane), make(map[*task]func() bool)
	s.work, s.settle, s.room = sync.NewCond(&s.mu), sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	s.mu.mostTrying = 1
	s.mu.all.loose = n.settings.order != OrderTotal
	return s
}

// take makes the node of a generation the one that gets new messages.
func (s *session) take(f *front) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.front = f
	s.mu.fronts = append(s.mu.fronts, f)
	for t := range s.mu.waiting { // what was stuck or held may find another workflow
		if (t.messages[0].stuck || t.outage.waits > 0) && s.mu.waiting[t]() {
			s.resume(t)
		}
	}
	if s.mu.closing && s.mu.ended {
		f.node.finish()
	}
}

// start begins to read. The first connection may have been made before.
func (s *session) start(goroutines *sync.WaitGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.started {
		return
	}
	s.mu.started = true
	goroutines.Go(s.run)
}

// run is the life of a session.
func (s *session) run() {
	defer close(s.closed)
	if s.after != nil {
		<-s.after.closed
		s.after = nil
	}
	var workers sync.WaitGroup
	for range s.workers {
		workers.Go(func() { (&runner{session: s, size: 1}).run() })
	}
	workers.Go(s.settleAll)
	s.end(s.connection.keep(s.reading, s.readOn))
	s.mu.Lock()
	s.mu.closing = true
	s.wakeAll()
	s.settle.Broadcast()
	s.mu.Unlock()
	workers.Wait()
	s.close()
}

// guard calls a reader. A panic counts as a lost connection.
func (s *session) guard(call string, f func() error) error {
	err := guard(s.log, call, f)
	if panicked := (*panicError)(nil); errors.As(err, &panicked) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// tell logs what could not be logged while the lock was held.
func (s *session) tell() {
	s.mu.Lock()
	news := s.mu.news
	s.mu.news = nil
	s.mu.Unlock()
	for _, log := range news {
		log()
	}
}
