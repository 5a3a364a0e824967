package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A Processor takes events one by one and sends them in batches. Methods may be
// called from several goroutines. Make one with New, and end it with Close.
type Processor[T any] struct {
	pipe   *pipeline
	encode func([]byte, *T) ([]byte, error)
	key    func(*T) uint64
}

// New makes a processor and starts its goroutines, which Close ends. With a spool it
// reads the events in it and begins to send them. The error lists all problems of the
// options, or says why the folder of the spool cannot be used.
func New[T any](c Options[T]) (*Processor[T], error) {
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	p, err := newPipeline(s)
	if err != nil {
		return nil, err
	}
	return &Processor[T]{p, c.Encode, c.Lanes.Key}, nil
}

// A pipeline is a processor without the type of its events: everything after the
// encoding.
//
// Locks are taken in this order: shard, pipeline, receipt. Each is held briefly, and
// never while a function of the user runs.
type pipeline struct {
	settings
	lanes   []*lane
	all     []*shard  // of all lanes; the index is shard.id
	shards  sync.Pool // of *shard, if the only lane has several
	next    atomic.Uint32
	arenas  sync.Pool
	buffers sync.Pool // of *[]byte, for records
	epoch   uint64

	spool  *spool.Spool // nil without Spool
	writer *spoolWriter // nil without a spool

	dispatcher *dispatcher
	draining   chan struct{}   // closed when Close begins
	sending    context.Context // ends when Close has sent what it could
	cancel     context.CancelFunc
	work       sync.WaitGroup // the dispatcher, the spool writer and the flights

	notifying sync.WaitGroup // the goroutines of Ticket.Notify

	closeOnce sync.Once
	closed    Report
	closeErr  error

	bodies   openCounter // open readers of batches
	throttle *throttle
	evidence *evidence
	rejected atomic.Uint64

	mu struct {
		sync.Mutex
		events    int           // reserved in the queue
		bytes     int64         // reserved in the queue
		room      chan struct{} // closed when room is made; nil if no producer waits
		cursor    int           // the lane at which makeRoomLocked continues
		order     uint64        // of the last sealed chunk
		oldest    *chunk        // of the unsettled ones, in the order of sealing
		newest    *chunk
		flushes   []*flush
		barrier   int      // chunks to settle before lanes other than the first continue
		unwritten []*chunk // sealed, and to be written to the spool; with WriteAhead
		broken    bool     // the disk does not take events now
		counts    counts
		aside     aside // of all lanes
		waiting   int   // batches that wait for their next attempt
		flights   map[*flight]struct{}
		abandoned bool          // batches on the way belong to Close
		drained   chan struct{} // closed when Close has nothing left to wait for
	}
}

func newPipeline(s settings) (*pipeline, error) {
	p := &pipeline{
		settings: s,
		epoch:    uint64(time.Now().UnixNano()),
		draining: make(chan struct{}),
		throttle: newThrottle(s.lanesMax),
		evidence: newEvidence(),
	}
	p.sending, p.cancel = context.WithCancel(context.Background())
	p.mu.flights = make(map[*flight]struct{})
	p.mu.counts.size.least, p.mu.counts.attempts.least = 1, 1
	p.mu.counts.wait.least = 1e-3
	p.arenas.New = func() any {
		return &arena{
			events: events{make([]byte, 0, p.chunkBytes), make([]uint32, 0, p.chunkEvents)},
			pool:   &p.arenas,
		}
	}
	p.buffers.New = func() any { return new([]byte) }
	for i := range s.laneCount {
		l := &lane{id: i, max: s.laneFlights}
		for range s.laneShards {
			sh := &shard{id: uint16(len(p.all)), lane: l}
			l.shards = append(l.shards, sh)
			p.all = append(p.all, sh)
		}
		p.lanes = append(p.lanes, l)
	}
	p.shards.New = func() any {
		return p.all[int(p.next.Add(1))%len(p.all)]
	}
	p.dispatcher = newDispatcher(&p.settings, dispatchEnv{
		demand:   func(lane int) (demand, time.Time) { return p.demand(p.lanes[lane]) },
		accepted: func(lane int) uint64 { return p.accepted(p.lanes[lane]) },
		start:    func(lane int, open bool, now time.Time) bool { return p.ship(p.lanes[lane], open, now) },
	})
	if s.disk != nil {
		if err := p.openSpool(); err != nil {
			p.cancel()
			return nil, err
		}
	}
	p.work.Go(p.labeled("dispatch", func() { p.dispatcher.run(p.sending) }))
	return p, nil
}

// need returns an error with the text, unless ok.
func need(ok bool, what string) error {
	if ok {
		return nil
	}
	return errors.New("batch: " + what)
}
