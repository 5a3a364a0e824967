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
	all     []*shard  // of all lanes; the index is shard.id
	shards  sync.Pool // of *shard, if the only lane has several
	next    atomic.Uint32
	arenas  sync.Pool
	buffers sync.Pool // of *[]byte, for records

	spool  *spool.Spool // nil without Spool
	writer *spoolWriter // nil without a spool

	queue      *queue
	dispatcher *dispatcher
	draining   chan struct{}   // closed when Close begins
	sending    context.Context // ends when Close has sent what it could
	cancel     context.CancelFunc
	work       sync.WaitGroup // the dispatcher, the spool writer and the flights

	notifying sync.WaitGroup // the goroutines of Ticket.Notify

	closeOnce sync.Once
	closed    Report
	closeErr  error

	throttle *throttle
	evidence *evidence
	rejected atomic.Uint64
}

func newPipeline(s settings) (*pipeline, error) {
	p := &pipeline{
		settings: s,
		draining: make(chan struct{}),
		throttle: newThrottle(s.lanesMax),
		evidence: newEvidence(),
	}
	p.sending, p.cancel = context.WithCancel(context.Background())
	p.queue = newQueue(&p.settings, queueEnv{
		check:    func(lane int) { p.dispatcher.check(lane) },
		checkAll: func() { p.dispatcher.checkAll() },
		write:    func() { p.writer.wake() },
	})
	p.arenas.New = func() any {
		return &arena{
			events: events{make([]byte, 0, p.chunkBytes), make([]uint32, 0, p.chunkEvents)},
			pool:   &p.arenas,
		}
	}
	p.buffers.New = func() any { return new([]byte) }
	for _, l := range p.queue.lanes {
		for range s.laneShards {
			sh := &shard{id: uint16(len(p.all)), lane: l}
			l.shards = append(l.shards, sh)
			p.all = append(p.all, sh)
		}
	}
	p.shards.New = func() any {
		return p.all[int(p.next.Add(1))%len(p.all)]
	}
	p.dispatcher = newDispatcher(&p.settings, dispatchEnv{
		demand:   func(lane int) (demand, time.Time) { return p.queue.demand(p.queue.lanes[lane]) },
		accepted: func(lane int) uint64 { return p.accepted(p.queue.lanes[lane]) },
		start:    func(lane int, open bool, now time.Time) bool { return p.ship(p.queue.lanes[lane], open, now) },
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
