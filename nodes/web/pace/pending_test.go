package pace

import (
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// newTestPending returns the pending answers of a server without clients.
func newTestPending(limits Limits) *Pending {
	limits.Log, limits.Slow, limits.Excess = slog.New(slog.DiscardHandler), new(atomic.Uint64), new(atomic.Uint64)
	return NewPending(&Rate{Grace: time.Second, Min: 1 << 10, Late: 100 * time.Millisecond}, (*node.Memory)(nil).Account("test"), func() *Limits { return &limits })
}

// A closable is a connection that can only be closed.
type closable struct{}

func (closable) RemoteAddr() net.Addr { return &net.TCPAddr{} }
func (closable) Reset() error         { return nil }

// TestProgress closes the connection that has made no progress for longest.
func TestProgress(t *testing.T) {
	p := newTestPending(Limits{Answers: 3, Bytes: 1000})
	steady, stalled, other := &peer{conn: closable{}}, &peer{conn: closable{}}, &peer{conn: closable{}}
	a1, a2, b := p.add(steady, 500), p.add(steady, 100), p.add(stalled, 400)
	p.progress(a1, 490)
	c := p.add(other, 400) // one too many
	if steady.ended.Load() || !stalled.ended.Load() {
		t.Errorf("got the steady one closed: %v, the stalled one: %v", steady.ended.Load(), stalled.ended.Load())
	}
	if n, bytes := p.Totals(); n != 3 || bytes != 510 {
		t.Errorf("got %d answers and %d bytes waiting, want 3 and 510", n, bytes)
	}
	for _, write := range []*pendingWrite{a1, a2, b, c} {
		p.remove(write)
	}
	if n, bytes := p.Totals(); n != 0 || bytes != 0 || p.mu.conns.Len() != 0 {
		t.Errorf("got %d answers and %d bytes waiting at rest", n, bytes)
	}
}
