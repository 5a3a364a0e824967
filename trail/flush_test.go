package trail

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A flushBench is a flusher whose segments are fake, in a bubble.
type flushBench struct {
	*flusher
	fail      error
	tries     int
	acked     int
	manifest  manifest
	cancel    context.CancelFunc
	committed chan struct{}
	ended     sync.WaitGroup
}

func newFlushBench(t *testing.T, change func(*Options, *flushEnv)) *flushBench {
	st, _ := memoryState(t)
	b := &flushBench{committed: make(chan struct{})}
	opt, err := Options{FlushRows: 100}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	env := flushEnv{
		between: func(f func()) { f() },
		write: func(_ context.Context, runs []*source) ([]*source, error) {
			if b.tries++; b.fail != nil {
				return nil, b.fail
			}
			var made []*source
			for _, r := range runs {
				made = append(made, &source{entry: r.entry, seg: r.seg})
			}
			return made, nil
		},
		replace: func(out, made []*source, change func(*manifest) error, apply func()) error {
			if err := change(&b.manifest); err != nil {
				return err
			}
			st.update(func() {
				apply()
				st.replaceLocked(out, made...)
			})
			return nil
		},
		deleted: func() bool { return false },
		ack:     func(positions ...spool.Position) { b.acked += len(positions) },
		flushed: func() {},
	}
	if change != nil {
		change(&opt, &env)
	}
	b.flusher = newFlusher(env, st, opt)
	var ctx context.Context
	ctx, b.cancel = context.WithCancel(t.Context())
	b.ended.Go(func() { b.run(ctx, b.committed) })
	t.Cleanup(func() {
		b.cancel()
		select {
		case <-b.committed:
		default:
			close(b.committed)
		}
		b.ended.Wait()
	})
	return b
}

// commit brings a run of so many rows into memory.
func (b *flushBench) commit(t *testing.T, rows int) {
	t.Helper()
	commit := b.state.nextCommit()
	made := built{runs: []*source{runOf(t, 0, commit, rows)}}
	if b.state.publish(commit, make([]spool.Position, 1), nil, made) || b.much() {
		notify(b.wake)
	}
}

// memory returns how many rows and records are in no segment.
func (b *flushBench) memory() (rows, records int) {
	b.state.mu.Lock()
	defer b.state.mu.Unlock()
	return b.state.mu.rows, len(b.state.mu.records)
}

func (b *flushBench) wantMemory(t *testing.T, rows, records int) {
	t.Helper()
	synctest.Wait()
	if r, n := b.memory(); r != rows || n != records {
		t.Errorf("got %d rows and %d records in memory, want %d and %d", r, n, rows, records)
	}
}

func TestFlusherIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFlushBench(t, nil)
		b.commit(t, 60)
		b.wantMemory(t, 60, 1)
		b.commit(t, 60) // more than FlushRows
		b.wantMemory(t, 0, 0)
		if b.acked != 2 || b.manifest.Flushed != 2 || rowsIn(t, b.state) != 120 {
			t.Errorf("got %d records acknowledged up to commit %d, and %d events; want 2, 2 and 120", b.acked, b.manifest.Flushed, rowsIn(t, b.state))
		}
		b.commit(t, 1)
		<-time.After(defaultFlushEvery - time.Second)
		b.wantMemory(t, 1, 1)
		<-time.After(time.Second)
		b.wantMemory(t, 0, 0)
		tries := b.tries
		<-time.After(10 * defaultFlushEvery)
		if synctest.Wait(); b.tries != tries {
			t.Errorf("an empty memory was flushed %d times", b.tries-tries)
		}
	})
}

func TestFlusherNeverIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFlushBench(t, func(opt *Options, _ *flushEnv) { opt.FlushEvery = -1 })
		b.commit(t, 1)
		<-time.After(10 * defaultFlushEvery)
		b.wantMemory(t, 1, 1)
		if err := b.call(t.Context()); err != nil {
			t.Error(err)
		}
		b.wantMemory(t, 0, 0)
	})
}

// TestFlusherFails has flushes fail: the events stay in memory, and the flusher tries again
// later.
func TestFlusherFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFlushBench(t, func(opt *Options, _ *flushEnv) { opt.Memory = 1 })
		b.fail = errors.New("disk is full")
		b.commit(t, 200)
		b.wantMemory(t, 200, 1)
		<-time.After(10 * retryFlush)
		synctest.Wait()
		if b.tries < 9 || b.tries > 11 {
			t.Errorf("got %d tries in %v, want one each %v", b.tries, 10*retryFlush, retryFlush)
		}
		if ok, err := b.room(); ok || !errors.Is(err, b.fail) {
			t.Errorf("got %v, %v; want no room in memory, and why", ok, err)
		}
		if err := b.call(t.Context()); !errors.Is(err, b.fail) {
			t.Errorf("got %v, want %v", err, b.fail)
		}
		b.state.mu.Lock()
		if b.state.mu.flushed > 0 {
			t.Error("the runs are still kept from merges")
		}
		b.state.mu.Unlock()
		b.fail = nil
		notify(b.wake) // which is not yet the time to try again
		<-time.After(retryFlush)
		b.wantMemory(t, 0, 0)
		if ok, err := b.room(); !ok || err != nil {
			t.Errorf("got %v, %v; want room in memory", ok, err)
		}
	})
}

// TestFlusherCommitsMeanwhile commits while segments are written: the new events stay in
// memory, and their record in the log.
func TestFlusherCommitsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writing, held := make(chan struct{}, 1), make(chan struct{})
		b := newFlushBench(t, func(opt *Options, env *flushEnv) {
			opt.FlushRows = 1000
			write := env.write
			env.write = func(ctx context.Context, runs []*source) ([]*source, error) {
				notify(writing)
				<-held
				return write(ctx, runs)
			}
		})
		b.commit(t, 100)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := b.call(t.Context()); err != nil {
				t.Error(err)
			}
		})
		<-writing
		for range 3 { // with the run that is being flushed, they would be enough to be merged
			b.commit(t, 100)
		}
		if b.state.mergeRuns(nil, fewRows) {
			t.Error("runs that are being flushed were merged")
		}
		close(held)
		wg.Wait()
		b.wantMemory(t, 300, 3)
		if b.acked != 1 || b.manifest.Flushed != 1 || rowsIn(t, b.state) != 400 {
			t.Errorf("got %d records acknowledged up to commit %d, and %d events; want 1, 1 and 400", b.acked, b.manifest.Flushed, rowsIn(t, b.state))
		}
	})
}

// TestFlusherEndsWhileBusy ends a flusher while it writes, and commits once more before
// it flushes last.
func TestFlusherEndsWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		b := newFlushBench(t, func(_ *Options, env *flushEnv) {
			write := env.write
			env.write = func(ctx context.Context, runs []*source) ([]*source, error) {
				<-held
				return write(ctx, runs)
			}
		})
		b.commit(t, 100)
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { err = b.call(ctx) })
		synctest.Wait()
		b.cancel()
		cancel()
		wg.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the call was cancelled", err)
		}
		close(held)
		b.wantMemory(t, 0, 0)
		b.commit(t, 5)
		b.wantMemory(t, 5, 1)
		close(b.committed)
		b.ended.Wait()
		b.wantMemory(t, 0, 0)
	})
}
