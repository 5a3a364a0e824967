package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A pipeline is a processor without the type of its events: everything after the
// encoding. It has the components, and connects them:
//
//	intake      open chunks, which get the events
//	queue       sealed chunks until they are settled, and the counts of events
//	dispatcher  decides when a lane sends its next batch
//	shipper     transmissions, which send one batch each
//	store       chunks on disk; recovery makes chunks of what it held
//	writer      writes chunks to the store, with WriteAhead or if memory is full
//	closer      the order in which all this ends
//
// Locks are taken in this order: shard, chunk.disk, queue, and then one of dispatcher,
// receipt, throttle, health. Each is held briefly, chunk.disk while a record is written
// or read, and none while a function of the user runs, except Encode.
type pipeline struct {
	settings
	intake     *intake
	queue      *queue
	dispatcher *dispatcher
	shipper    shipper
	spool      *spool.Spool // nil without Spool
	writer     *spoolWriter // nil without a spool
	closer     closer

	stopSending context.CancelFunc // ends shipper.sending
	work        sync.WaitGroup     // the dispatcher, the spool writer and the transmissions
}

func newPipeline(s settings) (*pipeline, error) {
	p := &pipeline{settings: s}
	sending, stop := context.WithCancel(context.Background())
	p.stopSending = stop
	p.queue = newQueue(&p.settings, queueEnv{
		check:    func(lane int) { p.dispatcher.check(lane) },
		checkAll: func() { p.dispatcher.checkAll() },
		write:    func() { p.writer.wake() },
	})
	arenas := newArenas(s.chunkEvents, s.chunkBytes)
	p.intake = newIntake(&p.settings, p.queue.lanes, arenas, intakeEnv{
		reserve: p.queue.reserve, enqueue: p.queue.enqueue,
		dropped: func() { p.queue.edit(func(n *counts) { n.DroppedFull++ }) },
		unsaved: func() { p.writer.wake() },
	})
	p.dispatcher = newDispatcher(&p.settings, dispatchEnv{demand: p.queue.demand, accepted: p.intake.accepted, start: p.ship})
	p.shipper = shipper{
		settings: &p.settings, throttle: newThrottle(s.lanesMax), health: newHealth(),
		sending: sending, draining: make(chan struct{}),
		env: transmissionEnv{
			edit: p.queue.edit, leave: p.queue.leave, pause: p.queue.pause,
			unsent: p.queue.unsent, settled: p.queue.settled, finish: p.queue.finish,
		},
	}
	p.closer = closer{settings: &p.settings, env: closeEnv{
		drain: p.drain, stop: stop, join: p.work.Wait, keep: p.keep, release: p.release,
	}}
	if s.disk != nil {
		if err := p.openSpool(arenas); err != nil {
			stop()
			return nil, err
		}
	}
	p.work.Go(labeled("dispatch", func() { p.dispatcher.run(sending) }))
	return p, nil
}

// openSpool opens the folder of the spool and queues the events in it.
func (p *pipeline) openSpool(arenas *arenas) error {
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
	p.shipper.store = newStore(&p.settings, sp, arenas, storeEnv{
		evict:      p.queue.evict,
		rewrite:    p.queue.rewrite,
		syncFailed: func() { p.writer.syncFailed() },
		broken:     p.queue.setBroken,
		lost:       func(n int) { p.queue.edit(func(sum *counts) { sum.drop(n, ReasonUnreadable) }) },
	})
	open := p.intake.newEvents
	if !p.ahead {
		open = func(func(pendingWrite) bool) {}
	}
	p.writer = newSpoolWriter(p.shipper.store, writerEnv{
		urgent: p.queue.producersWait, open: open, unwritten: p.queue.nextUnwritten,
		surplus: p.queue.evictionCandidates, keep: p.queue.cancelEviction,
	})
	p.work.Go(labeled("spool", func() { p.writer.run(p.shipper.sending) }))
	return nil
}

// labeled returns f with a profile label for its goroutine.
func labeled(what string, f func()) func() {
	return func() {
		pprof.Do(context.Background(), pprof.Labels("batch", what), func(context.Context) { f() })
	}
}

// ship starts a transmission with the next batch of a lane, with the events of open chunks if
// open is true. It reports false if they have to wait for the disk.
func (p *pipeline) ship(lane int, open bool, now time.Time) bool {
	if open {
		p.intake.sealLane(lane, false)
	}
	t := &transmission{shipper: &p.shipper, lane: p.queue.lanes[lane]}
	if !p.queue.take(t, now) {
		return false
	}
	p.work.Go(labeled("send", t.run))
	return true
}

// dropOldest drops the chunk in memory that has waited longest. It reports false if
// there is none.
func (p *pipeline) dropOldest() bool {
	c := p.queue.takeOldest(&p.work)
	if c == nil {
		return false
	}
	defer p.work.Done()
	p.reportDropped([]part{{c, 0, c.n}}, Dropped{Reason: ReasonQueueFull})
	p.shipper.store.ack(c)
	p.queue.settled(c)
	c.arena.release()
	return true
}

func (p *pipeline) flush() *flush {
	for i := range p.queue.lanes {
		p.intake.sealLane(i, !p.queue.maySend(i))
	}
	return p.queue.flush()
}

func (p *pipeline) drain() <-chan struct{} {
	p.intake.close()
	close(p.shipper.draining)
	drained := p.queue.drain()
	p.writer.wake()
	return drained
}

func (p *pipeline) keep() (Report, error) {
	left, tried := p.queue.collectRest()
	err := errors.Join(p.queue.dropError(), p.shipper.store.keep(left, tried))
	return p.queue.settleAll(left), err
}

func (p *pipeline) release(ctx context.Context) (err error) {
	if p.spool != nil {
		err = p.spool.Close()
	}
	p.queue.bodies.wait(ctx)
	p.intake.notifying.Wait()
	return err
}

func (p *pipeline) stats() Stats {
	s := p.intake.stats(p.queue.stats)
	p.shipper.health.stats(&s)
	s.Limit = p.shipper.throttle.now()
	if p.spool != nil {
		s.SpoolBytes = p.spool.Stats().Bytes
	}
	return s
}
