package data

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A hanging connection answers neither a commit nor a rollback.
type hanging struct {
	conn
	now    state
	closed bool
}

func (c *hanging) commit(ctx context.Context) error   { return c.hang(ctx) }
func (c *hanging) rollback(ctx context.Context) error { return c.hang(ctx) }
func (c *hanging) state() state                       { return c.now }
func (c *hanging) close()                             { c.closed = true }

func (c *hanging) hang(ctx context.Context) error {
	<-ctx.Done()
	c.now = stateLost
	return context.Cause(ctx)
}

// TestEndOfAHangingTransaction bounds how long a process waits for its database in the end: for
// a commit, of which only the database knows whether it was, and for a rollback.
func TestEndOfAHangingTransaction(t *testing.T) {
	for failure, want := range map[error]time.Duration{nil: 30 * time.Second, errors.New("a process that fails"): 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d, err := newSQLite(":memory:", 0)
			if err != nil {
				t.Fatal(err)
			}
			c := &hanging{now: stateOpen}
			p := newPool(d, 1, node.SystemClock{}, slog.New(slog.DiscardHandler))
			<-p.tokens
			began := time.Now()
			kept, err := (&transaction{pool: p, lock: fill(1), conn: c}).end(t.Context(), failure)
			if took := time.Since(began); took != want || kept || (err == nil) != (failure != nil) || !c.closed {
				t.Errorf("%v: took %s, kept %t, error %v, closed %t", failure, took, kept, err, c.closed)
			}
		})
	}
}
