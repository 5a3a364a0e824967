package trail

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
)

// A flusher writes what is in memory to segments: when it is asked to, when there is
// much, and when the first of it is old. In between it merges the larger runs in memory.
// Its goroutine, run, owns what is not a channel or atomic.
type flusher struct {
	env   flushEnv
	state *state
	log   *slog.Logger
	rows  int           // in memory, for which a flush is due
	bytes int64         // the same
	every time.Duration // that an event stays in memory; not positive: for ever

	wake    chan struct{}                // something may be due; capacity 1
	calls   chan chan error              // to be flushed now
	failure atomic.Pointer[flushFailure] // of the last flush; nil if it went well
}

type flushFailure struct {
	err error
	at  time.Time
}

// A flushEnv is what a flusher needs of its store.
type flushEnv struct {
	// between runs a function while nothing is committed.
	between func(f func())
	// write makes segments of runs, which no manifest names yet.
	write func(ctx context.Context, runs []*source) ([]*source, error)
	// replace is catalog.replace, and has its contract after an error.
	replace func(out, made []*source, change func(m *manifest) error, apply func()) error
	// deleted reports whether users were deleted after the last flush. The manifest
	// cannot forget their deletions before the next, even if nothing came since.
	deleted func() bool
	// ack marks records of the log as being in segments.
	ack func(positions ...spool.Position)
	// flushed is called after each flush.
	flushed func()
}

// retryFlush is the time between a flush that failed and the next try.
const retryFlush = 2 * time.Second

func newFlusher(env flushEnv, st *state, opt Options) *flusher {
	return &flusher{
		env: env, state: st, log: st.files.log, rows: opt.FlushRows, bytes: opt.Memory, every: opt.FlushEvery,
		wake: make(chan struct{}, 1), calls: make(chan chan error),
	}
}

// call flushes now.
func (f *flusher) call(ctx context.Context) error {
	reply := make(chan error, 1) // the flusher does not wait for the caller
	select {
	case f.calls <- reply:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run flushes until ctx is done, and then once more when the last commit, which may have
// added events, has ended.
func (f *flusher) run(ctx context.Context, committed <-chan struct{}) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, due := f.due()
		if due {
			_ = f.flush() // the error is in failure and the log; the next flush tries again
			continue
		}
		if f.state.mergeRuns(nil, manyRows) { // the committer merges the others
			continue
		}
		timer.Stop()
		if wait > 0 {
			timer.Reset(wait)
		}
		select {
		case <-f.wake:
		case <-timer.C:
		case reply := <-f.calls:
			reply <- f.flush()
		case <-ctx.Done():
			<-committed
			_ = f.flush() // the error is in failure; the events stay in the log
			return
		}
	}
}

// due reports whether a flush is due, or in how long one will be if nothing comes; 0 for
// never.
func (f *flusher) due() (wait time.Duration, due bool) {
	now := f.state.now()
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	if len(f.state.mu.records) == 0 {
		return 0, false
	}
	if !f.muchLocked() {
		if f.every <= 0 {
			return 0, false
		}
		wait = f.state.mu.oldest.Add(f.every).Sub(now)
	}
	if last := f.failure.Load(); wait <= 0 && last != nil {
		wait = last.at.Add(retryFlush).Sub(now)
	}
	return wait, wait <= 0
}

// muchLocked reports whether there is so much in memory that a flush is due.
func (f *flusher) muchLocked() bool {
	return f.state.mu.rows >= f.rows || f.state.mu.bytes >= f.bytes
}

func (f *flusher) much() bool {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	return f.muchLocked()
}

// room reports whether there is room for more in memory, or why it cannot be made. If
// there is none, a flush is under way.
func (f *flusher) room() (bool, error) {
	f.state.mu.Lock()
	ok := f.state.mu.bytes <= 2*f.bytes
	f.state.mu.Unlock()
	if last := f.failure.Load(); !ok && last != nil {
		return false, fmt.Errorf("memory is full, and cannot be flushed: %w", last.err)
	}
	if !ok {
		notify(f.wake)
	}
	return ok, nil
}

// flush writes what is in memory to segments, and notes how that went.
func (f *flusher) flush() error {
	started := f.state.now()
	var b *flushBatch
	f.env.between(func() { b = f.state.beginFlush() }) // neither a commit nor a merge of the committer is under way
	err := f.write(b, started)
	f.state.endFlush(b)
	var failure *flushFailure
	if err != nil {
		err = fmt.Errorf("flush: %w", err)
		failure = &flushFailure{err, f.state.now()}
	}
	was := f.failure.Swap(failure)
	switch {
	case err != nil && (was == nil || was.err.Error() != err.Error()):
		f.log.Error("trail: flush", "err", err)
	case err == nil && was != nil:
		f.log.Info("trail: flushing works again")
	}
	f.env.flushed()
	return err
}

// write makes segments of a batch, commits them, and acknowledges the records to the
// log.
func (f *flusher) write(b *flushBatch, started time.Time) error {
	if len(b.records) == 0 && len(b.runs) == 0 && !f.env.deleted() {
		return nil
	}
	segments, err := f.env.write(context.Background(), b.runs)
	if err != nil {
		return err
	}
	err = f.env.replace(b.runs, segments, func(m *manifest) error {
		m.Flushed, m.Marks = b.commit, b.marks
		return nil
	}, func() {
		f.state.mu.records = slices.Clone(f.state.mu.records[len(b.records):])
		f.state.mu.oldest = started // a little too early for what came meanwhile
	})
	if err != nil {
		return err
	}
	positions := make([]spool.Position, len(b.records))
	for i, r := range b.records {
		positions[i] = r.pos
	}
	f.env.ack(positions...)
	return nil
}

// A flushBatch is what is in memory when a flush begins.
type flushBatch struct {
	commit  uint64 // the last
	runs    []*source
	records []logRecord
	marks   map[string][]byte
	pinned  *snapshot
}

// beginFlush keeps merges away from what is in memory. Nothing is committed meanwhile.
func (st *state) beginFlush() *flushBatch {
	st.mu.Lock()
	defer st.mu.Unlock()
	b := &flushBatch{commit: st.mu.commit, records: st.mu.records, marks: st.mu.marks, pinned: st.current.Load()}
	b.pinned.refs.Add(1) // it is the current one as long as mu is held
	st.mu.flushed = b.commit
	for _, src := range st.mu.sources {
		if src.memory {
			b.runs = append(b.runs, src)
		}
	}
	return b
}

func (st *state) endFlush(b *flushBatch) {
	st.mu.Lock()
	st.mu.flushed = 0
	st.mu.Unlock()
	b.pinned.unpin()
}
