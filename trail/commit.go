package trail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/trail/event"
)

const (
	maxWaiting = 64 << 20 // bytes of appends that wait for the committer
	maxGroup   = 8 << 20  // bytes of appends that are committed together
)

// A committer writes appends to the write-ahead log, and then makes them visible. Appends
// that wait at the same time become one record with one fsync. Its goroutine, run, owns what is
// not a channel, and what env works on.
type committer struct {
	env   commitEnv
	state *state
	log   *slog.Logger

	budget   *semaphore.Weighted // bytes of requests that wait
	requests chan *request       // the budget bounds it, the capacity saves goroutine switches
	ops      chan func()         // run between commits; unbuffered
	flushed  chan struct{}       // wakes one that waits for room; capacity 1
	stopped  chan struct{}       // closed when run has ended
	late     sync.Mutex          // held by what do runs after that

	payload []byte
	voided  []uint64 // commits refused after they were written; the next record names them
}

// A commitEnv is what a committer needs of its store.
type commitEnv struct {
	wal interface {
		Append(r spool.Record) (spool.Position, error)
		Sync() error
		Ack(positions ...spool.Position)
	}
	// room reports whether memory has room for more, or why it will not soon.
	room func() (bool, error)
	// admit returns the schema of the store with the events that can be taken, and for
	// each request why its events cannot, or nil.
	admit func(group []*request) (event.Schema, []error)
	// build makes runs of a record, while it becomes durable.
	build func(rec record, schema event.Schema) (built, error)
	// durable is called when a commit is on the disk. If it is nil, appends are not synced.
	durable func(commit uint64)
	// settle is called after a commit. first says that the log was empty before.
	settle func(runs []*source, first bool)
}

// A request is a call of Append that waits for the committer.
type request struct {
	events []event.Event // the caller's, who waits once the request is taken
	chunk  []byte
	schema event.Schema
	large  []event.Property // integers that a number cannot hold exactly, one for each property
	state  atomic.Int32     // waiting, then taken or cancelled
	twice  int64            // events that were left out as duplicates; set before done
	done   chan error       // capacity 1; gets the outcome once it was taken
}

const (
	waiting int32 = iota
	taken
	cancelled
)

func newCommitter(env commitEnv, st *state) *committer {
	return &committer{
		env: env, state: st, log: st.files.log,
		budget:   semaphore.NewWeighted(maxWaiting),
		requests: make(chan *request, 256),
		ops:      make(chan func()),
		flushed:  make(chan struct{}, 1),
		stopped:  make(chan struct{}),
	}
}

// submit commits a request and returns the outcome: ErrClosed after run has ended, the
// error of ctx if it ends before the request was taken.
func (c *committer) submit(ctx context.Context, r *request) error {
	r.done = make(chan error, 1)
	size := min(int64(len(r.chunk)), maxWaiting)
	if err := c.budget.Acquire(ctx, size); err != nil {
		return err
	}
	defer c.budget.Release(size)
	select {
	case c.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopped:
		return ErrClosed
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, cancelled) {
			return ctx.Err()
		}
	case <-c.stopped:
	}
	select {
	case err := <-r.done:
		return err
	case <-c.stopped:
	}
	select {
	case err := <-r.done: // before run ended
		return err
	default:
		return ErrClosed
	}
}

// do runs f while nothing is committed.
func (c *committer) do(f func()) {
	done := make(chan struct{})
	select {
	case c.ops <- func() { defer close(done); f() }:
		<-done
	case <-c.stopped:
		c.late.Lock()
		defer c.late.Unlock()
		f()
	}
}

func (c *committer) run(ctx context.Context) {
	defer close(c.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case op := <-c.ops:
			op()
		case r := <-c.requests:
			c.commit(ctx, c.nextGroup(r))
		}
	}
}

// nextGroup returns first and the requests that wait, up to maxGroup bytes.
func (c *committer) nextGroup(first *request) []*request {
	group := []*request{first}
	size := len(first.chunk)
	for size < maxGroup {
		select {
		case r := <-c.requests:
			group = append(group, r)
			size += len(r.chunk)
		default:
			return group
		}
	}
	return group
}

func (c *committer) commit(ctx context.Context, group []*request) {
	full := c.waitForRoom(ctx)
	group = slices.DeleteFunc(group, func(r *request) bool { return !r.state.CompareAndSwap(waiting, taken) })
	if full != nil {
		answer(group, full)
		return
	}
	schema, refused := c.env.admit(group)
	admitted := group[:0]
	for i, r := range group {
		if refused[i] != nil {
			r.done <- refused[i]
		} else {
			admitted = append(admitted, r)
		}
	}
	if len(admitted) == 0 {
		return
	}
	runs, first, err := c.write(admitted, schema)
	if len(admitted) == 1 || !errors.Is(err, errBuild) {
		c.finish(admitted, runs, first, err)
		return
	}
	for i := range admitted { // find the one that fails
		runs, first, err := c.write(admitted[i:i+1], schema)
		c.finish(admitted[i:i+1], runs, first, err)
	}
}

func (c *committer) finish(group []*request, runs []*source, first bool, err error) {
	answer(group, err)
	if err == nil {
		c.env.settle(runs, first)
	}
}

func answer(group []*request, err error) {
	for _, r := range group {
		r.done <- err
	}
}

// waitForRoom waits while there is too much in memory. It returns an error if the
// memory cannot be flushed.
func (c *committer) waitForRoom(ctx context.Context) error {
	for {
		if ok, err := c.env.room(); ok || err != nil {
			return err
		}
		select {
		case <-c.flushed:
		case op := <-c.ops:
			op()
		case <-ctx.Done():
			return ErrClosed
		}
	}
}

// write commits requests: to the log, and while that becomes durable into runs; then it
// makes these visible, and returns them. first says that the log was empty before.
func (c *committer) write(group []*request, schema event.Schema) (runs []*source, first bool, err error) {
	rec := record{commit: c.state.nextCommit(), voided: c.voided}
	for _, r := range group {
		rec.chunks = append(rec.chunks, r.chunk)
	}
	c.payload = encodeRecord(c.payload[:0], rec)
	pos, err := c.append(rec.commit, c.payload)
	if err != nil {
		return nil, false, fmt.Errorf("append: %w", err)
	}
	positions := []spool.Position{pos}
	var fsync sync.WaitGroup
	if c.env.durable != nil {
		fsync.Go(func() { err = c.env.wal.Sync() })
	}
	made, buildErr := c.env.build(rec, schema)
	if fsync.Wait(); err != nil {
		// What the fsync should have covered counts as lost. The log has begun
		// another file: write the commit there again, once.
		c.log.Warn("trail: fsync of the log failed; trying once more in another file", "err", err)
		if pos, err = c.append(rec.commit, c.payload); err == nil {
			positions = append(positions, pos)
			err = c.env.wal.Sync()
		}
	}
	if cap(c.payload) > 2*maxGroup {
		c.payload = nil
	}
	if err == nil {
		err = buildErr
	}
	if err != nil {
		c.retract(rec.commit, positions)
		return nil, false, fmt.Errorf("append: %w", err)
	}
	if c.env.durable != nil {
		c.env.durable(rec.commit)
	}
	for i, r := range group {
		r.twice = made.twice[i]
	}
	return made.runs, c.state.publish(rec.commit, positions, schema, made), nil
}

func (c *committer) append(commit uint64, payload []byte) (spool.Position, error) {
	return c.env.wal.Append(spool.Record{Kind: spool.Data, Seq: commit, Count: 1, Payload: payload})
}

// retract takes back a commit that was written and then refused. A kill may lose the
// acknowledgement, so the log gets a note, too: now and with every later record.
func (c *committer) retract(commit uint64, positions []spool.Position) {
	c.env.wal.Ack(positions...)
	c.voided = append(c.voided, commit)
	number := c.state.nextCommit()
	pos, err := c.append(number, encodeRecord(nil, record{commit: number, voided: []uint64{commit}}))
	if err != nil {
		c.log.Warn("trail: note in the log that a commit was refused", "err", err)
		return
	}
	if err := c.env.wal.Sync(); err != nil {
		c.log.Warn("trail: make durable that a commit was refused", "err", err)
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.mu.records = append(c.state.mu.records, logRecord{number, pos})
}
