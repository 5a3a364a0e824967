package batch

import (
	"context"
	"iter"
	"sync/atomic"
	"time"
)

// If the disk fails, it is tried again after a time that doubles between these two.
// Each attempt may leave a file of events that do not count as written: if every fsync
// fails, the large cap keeps the number of files small.
const (
	diskRetry    = 250 * time.Millisecond
	diskRetryCap = 30 * time.Second
)

// A spoolWriter writes events to the spool: with WriteAhead all events, soon after they
// were added, and with PolicySpill the events for which memory has no room. It has one
// goroutine.
type spoolWriter struct {
	store *store
	env   writerEnv
	tick  time.Duration // between two rounds, so that each writes many events

	woken  chan struct{} // capacity 1, since one signal is enough
	failed atomic.Bool   // an fsync has failed since the last round
	delay  time.Duration // before the next round; owned by run
}

// A writerEnv is what a spoolWriter needs of its pipeline.
type writerEnv struct {
	urgent    func() bool            // producers wait for room that only this writer makes
	open      iter.Seq[pendingWrite] // the new events of open chunks
	unwritten func() *chunk          // the first sealed chunk with events that are not on disk
	surplus   func() []*chunk        // the chunks that have to leave memory now, the latest first
	keep      func(surplus []*chunk) // they stay in memory
}

func newSpoolWriter(s *store, env writerEnv) *spoolWriter {
	// Half of SyncEvery passes here, half in the spool.
	tick := s.disk.SyncEvery / 2
	if tick <= 0 {
		tick = 5 * time.Millisecond
	}
	return &spoolWriter{store: s, env: env, tick: tick, woken: make(chan struct{}, 1)}
}

// wake starts a round. Calling it on nil does nothing.
func (w *spoolWriter) wake() {
	if w != nil {
		notify(w.woken)
	}
}

// syncFailed starts a round in which chunks are written again.
func (w *spoolWriter) syncFailed() {
	w.failed.Store(true)
	w.wake()
}

// run makes rounds until ctx ends.
func (w *spoolWriter) run(ctx context.Context) {
	for {
		select {
		case <-w.woken:
		case <-ctx.Done():
			return
		}
		next := w.tick
		if w.env.urgent() {
			next = w.round()
		}
		for next > 0 {
			if !sleep(ctx, next, nil, nil) {
				return
			}
			next = w.round()
		}
	}
}

// round writes events to the spool. It returns when to try again, or 0 to wait for
// another wake.
func (w *spoolWriter) round() time.Duration {
	err := w.writeOpen()
	if err == nil {
		err = w.writeSealed()
	}
	if err == nil {
		err = w.spill()
	}
	failed := w.failed.Swap(false)
	w.store.report(err, failed)
	switch {
	case err != nil:
		return diskRetry
	case failed:
		w.delay = min(max(2*w.delay, diskRetry), diskRetryCap)
		return w.delay
	}
	w.delay = 0
	return 0
}

func (w *spoolWriter) writeOpen() error {
	for x := range w.env.open {
		err := w.store.write(x)
		x.memory.release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *spoolWriter) writeSealed() error {
	for c := w.env.unwritten(); c != nil; c = w.env.unwritten() {
		if err := w.store.writeChunk(c); err != nil {
			return err
		}
	}
	return nil
}

// spill writes chunks that wait in memory if producers wait for room, the latest
// first: the others are sent earlier. They leave memory when they are durable.
func (w *spoolWriter) spill() error {
	chunks := w.env.surplus()
	for _, c := range chunks {
		if err := w.store.writeChunk(c); err != nil {
			w.env.keep(chunks)
			return err
		}
	}
	for _, c := range chunks {
		w.store.evict(c) // the ones that were durable before
	}
	if len(chunks) > 0 && w.store.disk.SyncEvery > 0 {
		return w.store.records.Sync()
	}
	return nil
}
