package amqp

import (
	"net"
	"sync"
	"time"
)

// A gate is the connection of a reader. The library reads as much as the broker sends, and
// prefetch limits the number of messages, but not their size. So the gate lets no more
// through while too many bytes wait for the reader; the broker waits then.
type gate struct {
	net.Conn
	limit int64

	mu struct {
		sync.Mutex
		changed sync.Cond
		ahead   int64 // bytes that have come, less the bodies that were taken
		hungry  bool  // the reader waits for a message
		open    bool  // for ever
	}
}

func newGate(conn net.Conn, limit int64) *gate {
	g := &gate{Conn: conn, limit: limit}
	g.mu.changed.L = &g.mu
	return g
}

// Read implements [net.Conn]. While it waited, the time for the next heartbeat was over.
func (g *gate) Read(p []byte) (int, error) {
	if g.wait() {
		if err := g.SetReadDeadline(time.Now().Add(3 * heartbeat)); err != nil {
			return 0, err
		}
	}
	n, err := g.Conn.Read(p)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.ahead += int64(n)
	return n, err
}

func (g *gate) wait() (waited bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.mu.ahead > g.limit && !g.mu.hungry && !g.mu.open {
		waited = true
		g.mu.changed.Wait()
	}
	return waited
}

// took notes that the reader has a body.
func (g *gate) took(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.hungry = false
	g.mu.ahead = max(0, g.mu.ahead-int64(n))
	g.mu.changed.Signal()
}

// want notes that the reader has all that has come, and waits for more. What is not of a
// body, such as headers, is in ahead until then.
func (g *gate) want() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.hungry, g.mu.ahead = true, 0
	g.mu.changed.Signal()
}

// release lets all through.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.open = true
	g.mu.changed.Signal()
}

// Close ends a Read that waits, too.
func (g *gate) Close() error {
	g.release()
	return g.Conn.Close()
}
