package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
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
	all    []*shard  // of all lanes; the index is shard.id
	shards sync.Pool // of *shard, if the only lane has several
	next   atomic.Uint32
	arenas *arenas

	spool  *spool.Spool // nil without Spool
	writer *spoolWriter // nil without a spool

	queue      *queue
	dispatcher *dispatcher
	shipper    shipper
	cancel     context.CancelFunc // ends shipper.sending
	work       sync.WaitGroup     // the dispatcher, the spool writer and the flights

	notifying sync.WaitGroup // the goroutines of Ticket.Notify

	closeOnce sync.Once
	closed    Report
	closeErr  error

	rejected atomic.Uint64
}

func newPipeline(s settings) (*pipeline, error) {
	p := &pipeline{
		settings: s,
	}
	p.queue = newQueue(&p.settings, queueEnv{
		check:    func(lane int) { p.dispatcher.check(lane) },
		checkAll: func() { p.dispatcher.checkAll() },
		write:    func() { p.writer.wake() },
	})
	sending, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.shipper = shipper{
		settings: &p.settings, throttle: newThrottle(s.lanesMax), evidence: newEvidence(),
		sending: sending, draining: make(chan struct{}),
		env: flightEnv{
			edit: p.queue.edit, leave: p.queue.leave, pause: p.queue.pause,
			unsent: p.queue.unsent, settled: p.queue.settled, finish: p.queue.finish,
		},
	}
	p.arenas = newArenas(s.chunkEvents, s.chunkBytes)
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
	p.work.Go(p.labeled("dispatch", func() { p.dispatcher.run(sending) }))
	return p, nil
}

// need returns an error with the text, unless ok.
func need(ok bool, what string) error {
	if ok {
		return nil
	}
	return errors.New("batch: " + what)
}

// openSpool opens the folder of the spool and queues the events in it.
func (p *pipeline) openSpool() error {
	syncEvery, syncBytes := p.disk.SyncEvery/2, p.disk.SyncBytes
	if p.disk.SyncEvery < 0 {
		syncEvery, syncBytes = -1, -1
	}
	sp, damage, err := spool.Open(spool.Options{
		Dir:          p.disk.Dir,
		SegmentBytes: p.disk.SegmentBytes,
		MaxBytes:     p.disk.MaxBytes,
		SyncEvery:    syncEvery,
		SyncBytes:    syncBytes,
		FS:           p.disk.fs,
		Log:          p.log.log,
	})
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	p.spool, p.epoch = sp, sp.Epoch()
	found := recovery{settings: &p.settings, lanes: p.queue.lanes, ack: sp.Ack, corrupt: uint64(damage.Corrupt), lost: damage.LostEvents}
	if n := p.queue.requeue(found.chunks(sp.Recovered), found.corrupt, found.lost); n > 0 {
		p.log.write(slog.LevelInfo, "batch: the spool holds events of an earlier run, which are sent now", "events", n, "dir", p.disk.Dir)
	}
	p.shipper.store = newStore(&p.settings, sp, p.arenas, storeEnv{
		evict:      p.queue.evict,
		rewrite:    p.queue.rewrite,
		syncFailed: func() { p.writer.syncFailed() },
		broken:     p.queue.setBroken,
		lost:       func(n int) { p.queue.edit(func(sum *counts) { sum.drop(n, ReasonUnreadable) }) },
	})
	open := p.newEvents
	if !p.ahead {
		open = func(func(pendingWrite) bool) {}
	}
	p.writer = newSpoolWriter(p.shipper.store, writerEnv{
		urgent: p.queue.producersWait, open: open, unwritten: p.queue.nextUnwritten,
		surplus: p.queue.evictionCandidates, keep: p.queue.cancelEviction,
	})
	p.work.Go(p.labeled("spool", func() { p.writer.run(p.shipper.sending) }))
	return nil
}

// labeled returns f with a profile label for its goroutine.
func (p *pipeline) labeled(what string, f func()) func() {
	return func() {
		pprof.Do(context.Background(), pprof.Labels("batch", what), func(context.Context) { f() })
	}
}

// ship starts a flight with the next batch of a lane, with the events of open chunks if
// open is true. It reports false if they have to wait for the disk.
func (p *pipeline) ship(l *lane, open bool, now time.Time) bool {
	if open {
		p.sealAll(l)
	}
	f := &flight{shipper: &p.shipper, lane: l}
	if !p.queue.take(f, now) {
		return false
	}
	p.work.Go(p.labeled("send", f.run))
	return true
}
