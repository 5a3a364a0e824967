package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A transaction belongs to one process and one database. It is made when the process
// needs one, and begins with the statement that needs it.
type transaction struct {
	pool *pool
	root node.Process // whose end ends it
	node node.Ref     // that needed it first

	lock chan struct{} // has one while no statement runs; guards the rest
	conn conn          // nil while no transaction is open
	lost error         // why it cannot be committed, although statements went well
	over atomic.Bool

	begun atomic.Bool // statements that read belong to it, too
}

// find returns the transaction of a process. Without make it is nil if there is none, and
// else it is made for a node.
func (p *pool) find(proc node.Process, of node.Ref, make bool) *transaction {
	root := proc.Root()
	if t, ok := p.key.Load(root); ok && t.root == root && !t.over.Load() {
		return t
	}
	if !make {
		return nil
	}
	p.entry.Lock()
	defer p.entry.Unlock()
	if t, ok := p.key.Load(root); ok && t.root == root && !t.over.Load() { // another child was faster
		return t
	}
	t := &transaction{pool: p, root: root, node: of, lock: fill(1)}
	p.key.Store(root, t)
	root.Enlist(node.PhaseDatabase, t.end)
	return t
}

// run runs a statement in the transaction, which it begins if need be.
func (t *transaction) run(ctx context.Context, st *statement, rows [][]value.Value, isolation string, to *result) error {
	if err := t.pool.clock.Wait(ctx, t.lock); err != nil {
		return fmt.Errorf("another statement of the process is running: %w", err)
	}
	defer func() { t.lock <- struct{}{} }()
	switch {
	case t.over.Load():
		return errors.New("the process has ended")
	case t.lost != nil:
		return t.isLost("the transaction of the process was lost: %w")
	}
	if t.conn == nil {
		if err := t.begin(ctx, isolation); err != nil {
			return err
		}
		err := t.conn.run(ctx, st, rows, to)
		switch {
		case err != nil: // nothing was done: the next statement begins another
			t.undo(ctx)
		case t.conn.state() != stateOpen:
			t.lost = errLost
			t.letGo()
		}
		return err
	}
	err := t.conn.run(ctx, st, rows, to)
	if t.conn.state() != stateOpen {
		if t.lost = errLost; err != nil {
			t.lost = t.pool.failed(ctx, err)
		}
		t.letGo()
	}
	return err
}

var errLost = errors.New("the database has ended it")

// isLost is the error of what comes after the loss. It has the code of what caused it.
func (t *transaction) isLost(format string) error { return t.uncommitted(t.lost, format) }

// uncommitted is the error of a process whose transaction is not committed.
func (t *transaction) uncommitted(err error, format string) *node.Error {
	e := *node.Describe(err)
	e.Node = t.node
	e.Err = fmt.Errorf(format, e.Err)
	e.Status = cmp.Or(e.Status, http.StatusServiceUnavailable)
	e.Code = cmp.Or(e.Code, codeCommit)
	return &e
}

func (t *transaction) begin(ctx context.Context, isolation string) error {
	if err := t.pool.lockWriter(ctx, "process"); err != nil {
		return err
	}
	c, err := t.pool.acquire(ctx)
	if err == nil {
		if err = c.begin(ctx, isolation); err == nil {
			t.conn = c
			t.begun.Store(true)
			return nil
		}
		t.pool.release(c)
	}
	t.pool.unlockWriter()
	return err
}

// undo rolls back, even if ctx is done.
func (t *transaction) undo(ctx context.Context) {
	if t.conn.state() == stateOpen {
		ctx, stop := withTimeout(context.WithoutCancel(ctx), t.pool.clock, undoTimeout)
		defer stop()
		if err := t.conn.rollback(ctx); err != nil { // to close the connection rolls back, too
			t.pool.log.Debug("rollback", "error", err)
		}
	}
	t.letGo()
}

func (t *transaction) letGo() {
	t.pool.release(t.conn)
	t.conn = nil
	t.begun.Store(t.lost != nil)
	t.pool.unlockWriter()
}

// endTimeout bounds the end of a transaction, which has no other limit: the process
// has its response already.
const endTimeout = 30 * time.Second

// undoTimeout limits a rollback: without an answer, the connection is closed, and the server
// rolls back.
const undoTimeout = 2 * time.Second

// end commits or rolls back. It is a [node.Participant].
func (t *transaction) end(ctx context.Context, failure error) (kept bool, err error) {
	limit := endTimeout
	if failure != nil {
		limit = undoTimeout
	}
	// A statement of an abandoned process may still be running.
	ctx, stop := withTimeout(context.WithoutCancel(ctx), t.pool.clock, limit)
	defer stop()
	if err := t.pool.clock.Wait(ctx, t.lock); err != nil {
		return false, fmt.Errorf("end of the transaction: %w", err)
	}
	defer func() { t.lock <- struct{}{} }()
	t.over.Store(true)
	if t.conn == nil {
		if t.lost != nil && failure == nil {
			return false, t.isLost("commit: the transaction was lost: %w")
		}
		return false, nil
	}
	if failure != nil {
		t.undo(ctx)
		return false, nil
	}
	defer t.letGo()
	if err = t.conn.commit(ctx); err == nil {
		return true, nil
	}
	unknown := t.conn.state() == stateLost
	e := t.uncommitted(t.pool.failed(ctx, err), "commit: %w")
	if unknown {
		e.Err = fmt.Errorf("the connection was lost, so it is unknown whether the transaction has been committed: %w", e.Err)
		e.Code = codeCommit
	}
	return false, e
}

// withTimeout returns a context that is done after d of the clock's time.
func withTimeout(ctx context.Context, clock node.Clock, d time.Duration) (context.Context, func()) {
	if d <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := clock.AfterFunc(d, func(context.Context) { cancel(errTimeout) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
