package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A session is one reader and what it has read, from the first Connect to Close. Nodes
// of several generations use it one after the other, as long as they have the same
// settings.
//
// One goroutine connects and reads (this file), one settles (settle.go), and as many as
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
	keeper   *keeper  // of positions; nil without a file
	after    *session // which must let go first; nil for none

	reading   context.Context // of Connect and Read; done when reading stops
	stopRead  context.CancelFunc
	settling  context.Context // of Settle, until the grace is over
	stopWrite context.CancelFunc
	closed    chan struct{} // closed in the end

	work, settle, room *sync.Cond // there may be something to do for the goroutines
	workers            int

	mu struct {
		sync.Mutex
		started   bool
		connected bool // Settle may be called
		ready     bool // has connected once
		calling   bool // Settle is being called
		cut       context.CancelFunc
		lost      error // why the connection is gone, as Settle says
		reason    error // why it is not ready
		draining  bool  // nothing is read any more
		ended     bool  // the messages have come to an end
		failure   error // why they have
		lostAtEnd int   // messages that were given up, and do not come again
		expired   bool  // the grace is over
		closing   bool  // the goroutines end
		idle      int   // workers that wait
		wants     bool  // the reading goroutine waits for room
		watchers  int   // goroutines that wait for messages to be settled

		front    *front // of the newest generation
		fronts   []*front
		first    *message // held ones
		last     *message
		inFlight int
		bytes    int64
		stuck    int      // of those held
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
		over    fifo[*task]    // whose process has ended while no worker looked
		waiting map[*task]func() bool
		spare   []*task

		lingers   bool // there is a timer for the next batch
		lingered  bool // the messages of the next batch have waited long enough
		toldStuck time.Time

		outcomes  []Outcome
		telling   int // outcomes that Settle is told of
		unsettled int // messages settled since the last commit
		dirty     []*lane
		due       bool // for a commit
		armed     bool // there is a timer for that
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
		source: n.source, settings: n.settings, reader: reader, counts: &n.seat.counts, log: n.log, clock: n.init.Clock,
		after: after, closed: make(chan struct{}), workers: runtime.GOMAXPROCS(0),
	}
	s.replier, _ = reader.(Replier)
	if n.settings.file != "" {
		s.keeper = &keeper{path: n.settings.file}
	}
	s.reading, s.stopRead = context.WithCancel(context.Background())
	s.settling, s.stopWrite = context.WithCancel(context.Background())
	s.mu.lanes, s.mu.waiting = make(map[int32]*lane), make(map[*task]func() bool)
	s.work, s.settle, s.room = sync.NewCond(&s.mu), sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	s.mu.all.loose = n.settings.order != OrderTotal
	s.mu.reason = errors.New("not connected yet")
	return s
}

// take makes the node of a generation the one that gets new messages.
func (s *session) take(f *front) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.front = f
	s.mu.fronts = append(s.mu.fronts, f)
	for t := range s.mu.waiting { // what was stuck may find another workflow
		if t.messages[0].stuck && s.mu.waiting[t]() {
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
	err := s.read()
	s.end(err)
	s.mu.Lock()
	s.mu.closing = true
	s.work.Broadcast()
	s.settle.Broadcast()
	s.mu.Unlock()
	workers.Wait()
	s.close()
}

// read connects and reads until that is stopped, or the messages end. The error is why
// they have: io.EOF, or what went wrong.
func (s *session) read() error {
	wait := backoff{initial: 100 * time.Millisecond, max: 3 * time.Second, factor: 2, jitter: 0.5}
	for failed := 0; s.reading.Err() == nil; {
		err := s.connect(s.reading)
		if err == nil {
			var got bool
			began := s.clock.Now()
			if got, err = s.readOn(); got || s.clock.Now().Sub(began) > time.Second {
				failed = 0
			}
			if !errors.Is(err, ErrLost) {
				return err
			}
			if s.reading.Err() == nil {
				s.log.Warn("connection lost", "error", err)
			}
		}
		if s.reading.Err() != nil {
			break
		}
		failed++
		d := wait.wait(failed, 0)
		s.failing(err, failed, d)
		s.pause(d)
	}
	return nil
}

// failing tells why there is no connection, as long as the waits grow.
func (s *session) failing(err error, failed int, next time.Duration) {
	s.mu.Lock()
	s.mu.reason = err
	s.mu.Unlock()
	if !errors.Is(err, ErrLost) && (failed <= 8 || failed%6 == 0) {
		s.log.Warn("connecting failed", "error", err, "attempts", failed, "next", next.Round(time.Millisecond))
	}
}

// pause waits until reading stops at most.
func (s *session) pause(d time.Duration) {
	woken := make(chan struct{})
	stop := s.clock.AfterFunc(d, func(context.Context) { close(woken) })
	defer stop()
	select {
	case <-woken:
	case <-s.reading.Done():
	}
}

// connect connects, unless the session is connected.
func (s *session) connect(ctx context.Context) error {
	s.mu.Lock()
	connected, ready := s.mu.connected, s.mu.ready
	s.mu.Unlock()
	if connected {
		return nil
	}
	if s.keeper != nil && s.keeper.positions == nil {
		if err := s.keeper.resume(s.reader); err != nil {
			return &RefusedError{"checkpoint.file", err}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, longestConnect)
	defer cancel()
	if err := s.guard("Connect", func() error { return s.reader.Connect(ctx, host{s}) }); err != nil {
		return err
	}
	s.counts.connects.Add(1)
	if ready {
		s.log.Info("connected again")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.connected, s.mu.ready, s.mu.reason, s.mu.lost = true, true, nil, nil
	s.settle.Broadcast()
	return nil
}

// longestConnect is how long one attempt to connect may take, or a network that swallows
// packets would hold it long after it works again.
const longestConnect = 10 * time.Second

// readOn reads until an error. It reports whether there were messages.
func (s *session) readOn() (got bool, err error) {
	ctx, cut := context.WithCancel(s.reading)
	defer cut()
	s.mu.Lock()
	s.mu.cut = cut
	s.mu.Unlock()
	for err == nil {
		room, ok := s.waitRoom()
		if !ok {
			return got, nil
		}
		var messages []Message
		err = s.guard("Read", func() (err error) {
			messages, err = s.reader.Read(ctx, room)
			return err
		})
		got = got || len(messages) > 0
		s.admit(messages)
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	return got, s.disconnected(err)
}

// disconnected ends the calls of Settle if the connection is lost. It returns why
// reading ends.
func (s *session) disconnected(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.lost != nil {
		err = s.mu.lost
	}
	if s.reading.Err() != nil && !errors.Is(err, ErrLost) {
		return nil
	}
	if !errors.Is(err, ErrLost) {
		return err
	}
	s.mu.connected = false
	for s.mu.calling {
		s.room.Wait()
	}
	if s.source.Traits.Redelivers && !s.numbered() {
		s.forget(func(m *message) bool { return true }) // they come again
	}
	return err
}

// waitRoom waits until there is room to read. It is not ok once reading stops.
func (s *session) waitRoom() (room Room, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.mu.draining && s.mu.lost == nil && !s.roomy() {
		s.mu.wants = true
		s.room.Wait()
	}
	s.mu.wants = false
	// At least 1: if the connection is lost, Read returns anyhow.
	return Room{max(s.settings.limit-s.taken(), 1), max(s.settings.bytes-s.mu.bytes, 1)}, !s.mu.draining
}

// roomy reports whether to read: there is room for a quarter of all messages, as few
// large reads are cheaper, or for any if the workers have nothing left to begin. The
// caller holds the lock.
func (s *session) roomy() bool {
	room := s.settings.limit - s.taken()
	return room > 0 && s.mu.bytes < s.settings.bytes && !s.backlog() &&
		(room >= s.settings.limit/4 || s.mu.order.n+s.mu.unready.len() == 0)
}

// taken returns how many messages the system has given that it counts as not settled. The
// caller holds the lock.
func (s *session) taken() int {
	if s.source.Traits.Positions {
		return s.mu.inFlight // it counts nothing
	}
	return s.mu.inFlight + len(s.mu.outcomes) + s.mu.telling
}

// roomier wakes those who wait for room, or for messages to be settled. The caller holds
// the lock.
func (s *session) roomier() {
	if s.mu.watchers > 0 || s.mu.wants && s.roomy() {
		s.room.Broadcast()
	}
}

// backlog reports whether too much waits to be settled, or in a lane for one message that
// is stuck. The caller holds the lock.
func (s *session) backlog() bool {
	gap := s.mu.gap
	return len(s.mu.outcomes) > max(2*commitAfter, s.settings.limit) || gap != nil && gap.ring.n > s.longest()
}

// longest is how many slots a lane may have: what is in flight, and what was settled
// after it.
func (s *session) longest() int { return max(16*s.settings.limit, 1<<16) }

// guard calls a reader. A panic counts as a lost connection.
func (s *session) guard(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic in a reader", "call", what, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: panic in %s: %v", ErrLost, what, v)
		}
	}()
	return f()
}

// end waits until what is held has been settled, as far as that may take.
func (s *session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.mu.ended = true
		if !errors.Is(err, io.EOF) {
			s.mu.failure = err
			s.log.Error("reading ended", "error", err)
		}
	}
	s.work.Broadcast()
	s.mu.watchers++
	for s.mu.first != nil && !s.mu.expired {
		s.room.Wait()
	}
	if s.mu.first == nil {
		return
	}
	// The contexts of processes have ended: most answer immediately.
	timer := time.AfterFunc(lastAnswers, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.giveBack(func(*message) bool { return true }, errGrace)
		s.room.Broadcast()
	})
	defer timer.Stop()
	for s.mu.first != nil {
		s.room.Wait()
	}
}

// lastAnswers is how long processes may take to answer once their context has ended,
// and lastCall the time for each of the last calls of a reader. A drain ends 200 ms
// after the grace at the latest.
const (
	lastAnswers = 60 * time.Millisecond
	lastCall    = 50 * time.Millisecond
	handOver    = 10 * time.Second // for the calls if there is time
	drainLimit  = 200 * time.Millisecond
)

var errGrace = errors.New("the grace of the shutdown is over")

// stop stops reading, and gives back what has not begun. A session that has not started
// is closed.
func (s *session) stop() {
	s.mu.Lock()
	if s.mu.draining {
		s.mu.Unlock()
		return
	}
	s.mu.draining = true
	s.stopRead()
	started := s.mu.started
	s.mu.started = true
	if s.returns() {
		s.giveBack(func(m *message) bool { return m.state == stateQueued }, nil)
	}
	s.work.Broadcast()
	s.room.Broadcast()
	s.mu.Unlock()
	if !started {
		s.close()
		close(s.closed)
	}
}

// returns reports whether what is given back comes again.
func (s *session) returns() bool { return s.source.Traits.Redelivers || s.source.Traits.Positions }

// expire ends the processes: the grace is over.
func (s *session) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.expired {
		return
	}
	s.mu.expired = true
	time.AfterFunc(lastAnswers+lastCall, s.stopWrite)
	for _, f := range s.mu.fronts {
		f.cancel()
	}
	s.giveBack(func(m *message) bool { return m.state == stateQueued }, nil)
	s.work.Broadcast()
	s.room.Broadcast()
}

// drain stops, and returns when all is settled and the reader is closed, or soon after
// ctx has ended.
func (s *session) drain(ctx context.Context) error {
	s.stop()
	select {
	case <-s.closed:
		return nil
	case <-ctx.Done():
	}
	s.expire()
	timer := time.NewTimer(drainLimit)
	defer timer.Stop()
	select {
	case <-s.closed:
		return s.lostMessages()
	case <-timer.C:
		return errors.New("the reader does not close although its context is done: it is abandoned")
	}
}

// lostMessages returns an error if messages were given up that do not come again.
func (s *session) lostMessages() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.lostAtEnd == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d messages are lost that were read", errGrace, s.mu.lostAtEnd)
}

// close closes the reader, and ends the nodes of a source that has ended.
func (s *session) close() {
	s.mu.Lock()
	ready, expired, ended := s.mu.ready, s.mu.expired, s.mu.ended
	s.mu.connected = false
	fronts := s.mu.fronts
	s.mu.Unlock()
	limit := handOver
	if expired {
		limit = lastCall
	}
	if ready {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := s.guard("Close", func() error { return s.reader.Close(ctx) }); err != nil {
			s.log.Warn("closing the reader", "error", err)
		}
	}
	s.stopRead()
	s.stopWrite()
	for _, f := range fronts {
		if ended {
			f.node.finish()
		}
	}
}

// left returns a channel that is closed when no process of a front runs.
func (s *session) left(f *front) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.idle == nil {
		f.idle = make(chan struct{})
		if f.running == 0 {
			close(f.idle)
		}
	}
	return f.idle
}

// leave takes a front that is not the newest out of the session, when its processes
// have ended.
func (s *session) leave(f *front) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.mu.fronts {
		if other == f {
			s.mu.fronts = append(s.mu.fronts[:i:i], s.mu.fronts[i+1:]...)
			return
		}
	}
}
